//! The workflow patterns of "Building effective agents".

pub mod answer;

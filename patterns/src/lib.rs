//! The workflow patterns of "Building effective agents".

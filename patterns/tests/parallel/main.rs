//! What the fan-outs promise: sections, votes, orchestrated workers.
#![allow(clippy::unwrap_used)] // in a test it says what is wrong well enough

mod model;
mod orchestrate;
mod plans;
mod sections;
mod stops;
mod vote;

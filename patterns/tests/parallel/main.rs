//! What the fan-outs promise: sections, votes, orchestrated workers.

mod model;
mod orchestrate;
mod plans;
mod sections;
mod stops;
mod vote;

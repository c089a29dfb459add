//! What the layers promise.
#![allow(unreachable_pub, clippy::print_stderr, clippy::unwrap_used)]

mod budget;
mod complete;
mod fake;
mod journal;
mod limit;
mod meter;
mod rehearsal;
mod retry;
mod standard;
mod warm;

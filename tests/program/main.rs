//! What the program promises, from outside: arguments in, standard output, standard error and exit code out.
#![allow(clippy::unwrap_used)] // a test may panic

mod agent;
mod examples;
mod hand;
mod map;
mod run;
mod runs;
mod usage;
mod watch;

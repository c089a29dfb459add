//! What a call through this library costs, beside the same call made by hand with the same HTTP client.
//!
//! `cargo run --release -p patterns-benches` measures everything and prints tables of ratios; `-- instructions` counts
//! instructions alone, which repeats within 0.3 % on a busy machine, and fails when a bar is missed.

#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used)] // a program that fails aloud

use clap::{Parser, Subcommand};

mod client;
mod compare;
mod server;

#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Answers requests of the Messages API after a fixed time, and counts them
    Serve,
    /// Makes calls and prints what they took, as one line of JSON
    Call(client::Work),
    /// Counts instructions per call (needs valgrind)
    Instructions,
    /// Measures processor time, time, memory and connections
    Times {
        /// How often each is run; the table gives the median of the ratios
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
}

fn main() {
    let met = match Args::parse().what {
        Some(What::Serve) => server::serve(),
        Some(What::Call(work)) => client::call(&work),
        Some(What::Instructions) => compare::instructions(),
        Some(What::Times { rounds }) => compare::times(rounds),
        None => {
            let counted = compare::instructions();
            compare::times(5) && counted
        }
    };
    if !met {
        std::process::exit(1);
    }
}

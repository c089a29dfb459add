//! The program `patterns`: arguments, progress, output, exit codes. What a pattern does is in the library.

mod agent;
mod answer;
mod args;
mod builtin;
mod exit;
mod export;
mod input;
mod keep;
mod look;
mod map;
mod model;
mod progress;
mod run;
mod selftest;
mod terminal;
mod trace;
mod watch;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind as Usage;

use crate::args::{Cli, Command};
use crate::exit::Exit;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let asked_for = matches!(error.kind(), Usage::DisplayHelp | Usage::DisplayVersion);
            let _ = error.print();
            return if asked_for { Exit::Done } else { Exit::Usage }.into();
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            terminal::complain(&format!("no runtime: {error}"));
            return Exit::Failed.into();
        }
    };
    let exit = runtime.block_on(start(cli.command));
    // a person may still be asked at a gate that nobody waits for any more
    runtime.shutdown_background();
    exit.into()
}

async fn start(command: Command) -> Exit {
    let result = match &command {
        Command::Agent(args) if args.selftest => selftest::run().await,
        Command::Agent(args) => agent::run(args).await,
        Command::Check(args) => look::check(args),
        Command::New(args) => look::new(args),
        Command::Trace(args) => trace::trace(args),
        Command::Run(args) => run::file(args).await,
        Command::Map(args) => map::run(args).await,
        Command::Chain(_)
        | Command::Route(_)
        | Command::Section(_)
        | Command::Vote(_)
        | Command::Orchestrate(_)
        | Command::Refine(_) => run::pattern(&command).await,
    };
    match result {
        Ok(exit) => exit,
        Err(error) => {
            terminal::complain(&error.to_string());
            Exit::of(&error)
        }
    }
}

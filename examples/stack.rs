//! Evaluator-optimizer: code is drafted until it compiles against its interface, and only then is a judge paid.
//!
//! The compiler only checks the code; nothing that a model wrote is run.
//! Run it: `cargo run --release --example stack`. As a flow file: `examples/flows/stack.toml`.
#![allow(clippy::print_stdout)]

use std::io::Write;
use std::process::{Command, Stdio};

use patterns::{Flow, Result, connect_default, layers, refine};

/// Every operation, with its types.
const USE: &str = "pub fn uses() { let mut s: Stack = Stack::new(); s.push(1i64); let _: Option<i64> = s.pop(); let _: Option<i64> = s.least(); }";

/// The code without the fence that models like to put round it.
fn bare(draft: &str) -> &str {
    let inside =
        draft.split_once("```").map_or(draft, |(_, rest)| rest.split_once('\n').map_or("", |(_, code)| code));
    inside.split_once("```").map_or(inside, |(code, _)| code).trim()
}

fn compiles(draft: &str) -> Result<(), String> {
    let run = || -> std::io::Result<_> {
        let mut rustc = Command::new("rustc");
        rustc.args([
            "--edition=2021",
            "--crate-type=lib",
            "--crate-name=draft",
            "--emit=metadata",
            "-o-", // to standard output: rustc puts a file in the place of what is named here, be it /dev/null
            "-",
        ]);
        let mut rustc = rustc.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        rustc.stdin.take().map_or(Ok(()), |mut stdin| write!(stdin, "{}\n{USE}\n", bare(draft)))?;
        rustc.wait_with_output()
    };
    let output = run().map_err(|error| format!("rustc cannot be run: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|line| line.starts_with("error")).unwrap_or("error");
    if output.status.success() { Ok(()) } else { Err(format!("it does not compile: {first}")) }
}

#[tokio::main]
async fn main() -> Result<()> {
    let stack = refine("Write the Rust code that is described here. The code alone, no explanation.")
        .until_code(compiles)
        .until("The code is correct, and each operation takes constant time: `least` must not look through the stack.")
        .rounds(3);
    println!("{}", stack.shape());

    let llm = layers::standard(connect_default()?.0, layers::Options::default());
    let refined = stack.run(&llm, include_str!("data/stack.txt")).await?;
    for (n, round) in refined.rounds.iter().enumerate() {
        let said = round.verdict.as_ref().map_or("no verdict", |verdict| verdict.feedback.trim());
        println!("draft {}: passed {} of 2 checks. {said}", n + 1, round.passed);
    }
    println!("accepted: {} ({})\n\n{}", refined.accepted, refined.why.as_str(), bare(&refined.text));
    Ok(())
}

//! A tool as a step of a workflow: the model only names the arguments, code decides when the tool runs.
//!
//! Run it: `cargo run --release --example tool_step`.
#![allow(clippy::print_stdout)]

use patterns::schemars::{self, JsonSchema};
use patterns::{Flow, Result, connect_default, layers, prompt, tool};
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Leave {
    /// The first day, as 2026-05-04.
    from: String,
    /// How many working days.
    #[schemars(range(min = 1, max = 30))]
    days: u32,
}

#[tokio::main]
async fn main() -> Result<()> {
    let balance =
        tool("balance", "Whether so many days of leave are left.", async |Leave { from, days }: Leave| {
            let left = 12;
            Ok(if days <= left {
                format!("{days} days from {from} are fine; {} are left after that", left - days)
            } else {
                format!("{days} days from {from} are too many; only {left} are left")
            })
        });
    let reply = prompt(
        "When does this person want leave, and for how many working days? Answer only with JSON: \
         {\"from\": \"YYYY-MM-DD\", \"days\": N}\n\n{input}",
    )
    .then(balance)
    .then(prompt("Write this to the person who asked, in one friendly sentence: {input}"));
    println!("{}", reply.shape());

    let llm = layers::standard(connect_default()?.0, layers::Options::default());
    println!("{}", reply.run(&llm, "I'd like the week from Monday 4 May 2026 off, please.").await?);
    Ok(())
}

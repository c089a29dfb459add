//! A desk that may refund, but only when a person says `yes`: what changes something passes a human gate.
//!
//! Run it with ANTHROPIC_API_KEY or another model that calls tools: `cargo run --release --example refund`. Without one:
//! `PATTERNS_MODEL=script:examples/scripts/refund.jsonl cargo run --example refund`.
#![allow(clippy::print_stdout)]

use std::io::{Write as _, stdin, stdout};

use patterns::schemars::{self, JsonSchema};
use patterns::{Flow, Question, Result, agent, connect_default, layers, tool};
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// The order's number, as A-1042.
    #[schemars(regex(pattern = r"^A-\d{4}$"))]
    order: String,
}

#[derive(Deserialize, JsonSchema)]
struct Refund {
    /// The order's number, as A-1042.
    #[schemars(regex(pattern = r"^A-\d{4}$"))]
    order: String,
    /// The amount in cents, at most what was paid.
    #[schemars(range(min = 1, max = 50_000))]
    cents: u32,
}

/// Only the line `yes` will do; the end of input is a no.
fn ask(question: &Question) -> Option<String> {
    print!("{}\nGo on? Only `yes` is a yes: ", question.text);
    let _ = stdout().flush();
    let mut line = String::new();
    stdin().read_line(&mut line).ok().filter(|read| *read > 0).map(|_| line)
}

#[tokio::main]
async fn main() -> Result<()> {
    let desk = agent("You answer complaints about orders. Look the order up first. Refund what was charged twice, and say what you did.")
        .with(tool("order", "What was ordered and paid.", async |Order { order }: Order| match order.as_str() {
            "A-1042" => Ok("A-1042: one lamp, 2999 cents, charged twice on 3 May".to_owned()),
            _ => Err(format!("there is no order {order}; ask for the number on the invoice")),
        }))
        .with(
            tool("refund", "Pays money back.", async |Refund { order, cents }: Refund| {
                Ok(format!("{cents} cents of {order} are on their way"))
            })
            .with_effects(),
        )
        .ask(|question| Box::pin(async move { tokio::task::spawn_blocking(move || ask(&question)).await.ok().flatten() }));

    let llm = layers::standard(connect_default()?.0, layers::Options::default());
    let done = desk.run(&llm, "You charged order A-1042 twice!").await?;
    done.denied.iter().for_each(|denied| println!("\nnot run: {}: {}", denied.call, denied.reason));
    println!("\n{}", String::try_from(done)?);
    Ok(())
}

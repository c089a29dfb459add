//! A desk that knows how many seats a workshop has left: none left is not the same as no such workshop, three look-ups are
//! enough, and nobody is told that a seat was booked.
//!
//! Run it with ANTHROPIC_API_KEY or another model that calls tools: `cargo run --release --example seats`. Without one:
//! `PATTERNS_MODEL=script:examples/scripts/seats.jsonl cargo run --example seats`.
#![allow(clippy::print_stdout)]

use patterns::schemars::{self, JsonSchema};
use patterns::{Check, Flow, Result, agent, connect_default, layers, tool};
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Workshop {
    /// The workshop's name, as it stands in the programme.
    name: String,
}

const WORKSHOPS: [(&str, u32); 3] = [("Bread", 4), ("Pottery", 0), ("Bees", 1)];

#[tokio::main]
async fn main() -> Result<()> {
    let seats = tool("seats", "How many seats of a workshop are free, now.", async |workshop: Workshop| {
        match WORKSHOPS.iter().find(|(name, _)| name.eq_ignore_ascii_case(workshop.name.trim())) {
            Some((name, 0)) => Ok(format!("{name}: 0 seats free; it takes place and is full")),
            Some((name, free)) => Ok(format!("{name}: {free} seats free")),
            None => Err(format!(
                "no workshop is named `{}`, which says nothing about seats; the programme has {}",
                workshop.name,
                WORKSHOPS.map(|(name, _)| name).join(", ")
            )),
        }
    });
    let claims =
        ["i booked", "have booked", "'ve booked", "is booked", "are booked", "been booked", "reserved"];
    let claims_a_booking =
        move |answer: &str| claims.iter().any(|claim| answer.to_lowercase().contains(claim));
    let desk = agent(
        "You tell how many seats workshops have. Keep a full workshop apart from one that does not exist. \
         You cannot book; say that the front desk does.",
    )
    .with(seats)
    .tool_calls(3)
    .turns(5)
    .until(Check::code(move |answer| {
        if claims_a_booking(answer) { Err("nothing was booked here, so do not say so") } else { Ok(()) }
    }));

    let llm = layers::standard(connect_default()?.0, layers::Options::default());
    for question in ["Is there room in Pottery?", "Two seats in Weaving, please!", "Book me into Bread."] {
        let done = desk.run(&llm, question).await?;
        let accepted = done.verdict.as_ref().is_some_and(|verdict| verdict.accepted);
        let answer = String::try_from(done)?;
        // an answer that still claims a booking is not said
        println!("> {question}\n{}\n", if accepted { &answer } else { "Please ask the front desk." });
    }
    Ok(())
}

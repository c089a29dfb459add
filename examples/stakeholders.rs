//! Sectioning: four views of one change at once, then a summary that knows which view is missing.
//!
//! Run it: `cargo run --release --example stakeholders`. As a flow file: `examples/flows/stakeholders.toml`.
#![allow(clippy::print_stdout)]

use patterns::{Flow, Result, connect_default, layers, prompt, sections};

#[tokio::main]
async fn main() -> Result<()> {
    let side = |who: &str| {
        prompt("What does this change mean for our {who}? Name its effects and what we should do first, in three sentences.")
            .with("who", who)
    };
    let views = sections()
        .on("customers", side("customers"))
        .on("employees", side("employees"))
        .on("investors", side("investors"))
        .on("suppliers", side("suppliers"))
        .at_least(3);
    let summary = prompt("Write a summary of these views for the board, in four sentences. {input}");
    println!("{}", views.shape());

    let llm = layers::standard(connect_default()?.0, layers::Options::default());
    let parts = views.run(&llm, include_str!("data/change.txt")).await?;
    println!("{}", parts.census);
    for part in &parts.parts {
        println!("{}: {}", part.name, part.outcome.status());
    }
    // what is missing is named as missing; the text of an error never gets here
    println!("\n{}", summary.run(&llm, &String::try_from(parts)?).await?);
    Ok(())
}

//! Orchestrator-workers: a plan of approaches, one worker each, and a synthesis that knows what is missing.
//!
//! Run it: `cargo run --release --example product`. As a flow file: `examples/flows/product.toml`.
#![allow(clippy::print_stdout)]

use patterns::{ErrorKind, Flow, Result, connect_default, layers, orchestrate, prompt};

#[tokio::main]
async fn main() -> Result<()> {
    let writers = orchestrate("Propose two or three different ways to write this product text, such as plain facts or a short scene.")
        .work(prompt("Write the product text in the way of your task, in at most 60 words.\n\n{input}").max_tokens(400))
        .merge("Join the best of these texts into one of at most 80 words. Keep every figure.")
        .at_most(3)
        .retries(1)
        .best_effort();
    println!("{}", writers.shape());

    let llm = layers::standard(connect_default()?.0, layers::Options::default());
    match writers.run(&llm, include_str!("data/product.txt")).await {
        Ok(done) => {
            for task in &done.plan.tasks {
                println!("task {}: {}", task.id, task.description.trim());
            }
            println!("{}\n\n{}", done.census, done.text.trim());
        }
        // a plan that stays unusable after its repair is refused with its defects; no worker was called
        Err(error) if error.kind() == ErrorKind::Plan => println!("no usable plan: {error}"),
        Err(error) => return Err(error),
    }
    Ok(())
}

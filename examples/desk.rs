//! Patterns in patterns: a desk whose ways are a vote, and a refined article by an orchestrator and its workers.
//!
//! Run it: `cargo run --release --example desk`. As a flow file: `examples/flows/desk.toml`.
#![allow(clippy::print_stdout)]

use patterns::{ErrorKind, Flow, Result, connect_default, layers, orchestrate, refine, route, vote};

#[tokio::main]
async fn main() -> Result<()> {
    let review = vote(3, "Is this code safe to merge?")
        .among([("yes", "it is safe"), ("no", "it is not safe")])
        .needing(2);
    let writers = orchestrate("Split the article into at most three sections.")
        .work("Write this section, in at most three sentences.")
        .merge("Join them into one article.")
        .at_most(3)
        .best_effort();
    let desk = route("Which desk should take this request?")
        .when(("review", "code to be reviewed"), review)
        .when(
            ("article", "an article or another text to be written"),
            refine(writers).until("Under 120 words.").rounds(2),
        )
        .otherwise("Say politely that this desk cannot help, in one sentence.");
    println!("{}", desk.shape()); // the tree, and its bounds, before any call

    let llm = layers::standard(connect_default()?.0, layers::Options::default());
    match desk.run(&llm, include_str!("data/request.txt")).await {
        Ok(routed) => println!("[{}]\n{}", routed.label, routed.text.trim()),
        Err(error) if matches!(error.kind(), ErrorKind::Plan | ErrorKind::Undecided) => {
            println!("no answer: {error}");
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

//! A research lead with subagents, then a citation pass that may add tags but not change a word.
//!
//! Run it: `cargo run --release --example research`. As a flow file: `examples/flows/research.toml`.
#![allow(clippy::print_stdout)]

use patterns::{Check, ErrorKind, Flow, Result, connect_default, layers, orchestrate, prompt};

/// The words of a text without its tags.
fn words(text: &str) -> Vec<String> {
    let mut inside = false;
    let bare: String = text
        .chars()
        .filter(|c| {
            inside = *c == '<' || (inside && *c != '>');
            !inside && *c != '>'
        })
        .collect();
    bare.split_whitespace().map(str::to_owned).collect()
}

#[tokio::main]
async fn main() -> Result<()> {
    let sources = include_str!("data/sources.txt");
    let report = orchestrate(
        "Split this question into two or three parts that can be answered from the sources alone.",
    )
    .work("Answer your part from the sources alone, in two sentences. Say so if they do not tell.")
    .merge(
        "Write the answer to the question from these findings, in at most five sentences. Cite nothing yet.",
    )
    .at_most(3)
    .best_effort();
    let cite = prompt(
        "Put a tag <cite source=\"s1\"></cite> round every statement that the sources tell, with the source's name. \
         Change no word and add none.\n\nSources:\n{sources}\n\nText:\n{input}",
    )
    .with("sources", sources);
    let unchanged = |before: &str, after: &str| {
        if words(before) == words(after) { Ok(()) } else { Err("a word was changed; only tags may be added") }
    };
    let flow = report.then(cite).gate_by("no word changed", Check::compare(unchanged).repair(1));
    println!("{}", flow.shape());

    let llm = layers::standard(connect_default()?.0, layers::Options::default());
    match flow.run(&llm, sources).await {
        Ok(cited) => println!("{}", cited.trim()),
        Err(error) if error.kind() == ErrorKind::Gated => {
            println!("not cited: {error}\n\n{}", error.partial().unwrap_or_default());
        }
        Err(error) if error.kind() == ErrorKind::Plan => println!("no usable plan: {error}"),
        Err(error) => return Err(error),
    }
    Ok(())
}

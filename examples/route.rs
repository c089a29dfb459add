//! Routing: three tickets over four desks, with the evidence for each decision.
//!
//! Run it: `cargo run --release --example route`. As a flow file: `examples/flows/route.toml`.
#![allow(clippy::print_stdout)]

use patterns::{Flow, How, Result, connect_default, layers, prompt, route};

#[tokio::main]
async fn main() -> Result<()> {
    let desk = |who: &str| {
        prompt("Answer this customer in three sentences:\n\n{input}").system(format!(
            "You work at the {who} desk of a software company. Say what happens next; promise nothing."
        ))
    };
    let support = route("Which desk should answer this support ticket?")
        .when(("billing", "payments, charges, invoices, refunds and prices"), desk("billing"))
        .when(("technical", "errors, crashes, how a feature works or is used"), desk("technical"))
        .when(("account", "signing in, passwords, locked accounts and profiles"), desk("account"))
        .when(
            ("product", "questions about what the product can do, wishes for new features"),
            desk("product"),
        )
        .otherwise("Ask this customer back what they need, in two sentences.");
    println!("{}", support.shape());

    let llm = layers::standard(connect_default()?.0, layers::Options::default());
    let tickets: Vec<&str> = include_str!("data/tickets.txt").split("\n\n").map(str::trim).collect();
    for (ticket, outcome) in tickets.iter().zip(support.run_each(&llm, &tickets, 3).await) {
        println!("> {ticket}");
        match outcome.ok() {
            Some(routed) => {
                let sure = routed.confidence.map(|p| format!(", probability {p:.2}")).unwrap_or_default();
                let how = match &routed.how {
                    How::Rule => "by a rule".to_owned(),
                    How::Model => "by the model".to_owned(),
                    How::Fallback(reason) => format!("as a fallback: {reason}"),
                };
                println!("[{} {how}{sure}] {}\n", routed.label, routed.text.trim());
            }
            None => println!("[{}] {}\n", outcome.status(), outcome.reason().unwrap_or_default()),
        }
    }
    Ok(())
}

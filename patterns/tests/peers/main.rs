//! The providers against servers that others wrote: aimock answers from fixtures, llmock breaks things and judges how a
//! client takes it. `run.sh` beside this file installs and starts them.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![cfg(feature = "http")]

mod agent;
mod aimock;
mod llmock;

use patterns::providers::{Env, connect_in};
use patterns::{Connection, OnText, Request};

/// The address of a peer, if `run.sh` has started it.
#[expect(clippy::print_stderr, reason = "what was not tested shall be seen")]
fn peer(variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok();
    if url.is_none() {
        eprintln!("NOT TESTED: {variable} is not set; run patterns/tests/peers/run.sh");
    }
    url
}

/// Both APIs of a server, by the names and variables that a user would set.
fn both(claude_url: String, openai_url: String) -> [Connection; 2] {
    let env = Env::of(move |name| match name {
        "ANTHROPIC_API_KEY" | "OPENAI_API_KEY" => Some("sk-test-0123456789".to_owned()),
        "ANTHROPIC_BASE_URL" => Some(claude_url.clone()),
        "OPENAI_BASE_URL" => Some(openai_url.clone()),
        _ => None,
    });
    ["anthropic:claude-opus-5-5", "openai:gpt-5"].map(|name| connect_in(name, &env).unwrap())
}

fn streamed(request: Request) -> Request {
    Request { on_text: Some(OnText::unseen()), ..request }
}

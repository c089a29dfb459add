//! The agent loop, to the letter of the Messages API.
#![allow(clippy::unwrap_used)] // a test may panic

#[path = "../common/mod.rs"]
mod common;

mod arguments;
mod context;
mod ends;
mod guard;
mod nasty;
mod nesting;
mod resume;
mod turns;

use patterns::{Block, Reply, Stop, Usage};
use serde_json::value::RawValue;

/// A reply with these content blocks, as JSON.
fn reply(stop: Stop, content: &str) -> Reply {
    let content = serde_json::from_str(content).unwrap();
    let usage = Usage { input_tokens: 10, output_tokens: 2, ..Usage::default() };
    Reply { content, stop, usage, model: "test:model".to_owned(), ..Reply::default() }
}

/// A reply that calls tools: id, name, arguments.
fn calls(calls: &[(&str, &str, &str)]) -> Reply {
    let block = |(id, name, input): &(&str, &str, &str)| {
        Block::tool_use(id, name, &RawValue::from_string((*input).to_owned()).unwrap())
    };
    Reply { content: calls.iter().map(block).collect(), stop: Stop::ToolUse, ..Reply::default() }
}

/// The arguments of a tool that takes a number.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct N {
    n: u64,
}

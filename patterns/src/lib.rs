//! The workflow patterns of "Building effective agents".

mod agent;
pub mod answer;
mod chain;
mod choose;
mod error;
mod event;
#[cfg(feature = "file")]
pub mod file;
mod flow;
mod gate;
mod judge;
mod llm;
mod message;
mod outcome;
mod path;
mod prompt;
mod refine;
mod reply;
mod route;
mod shape;
mod step;
mod tools;

pub use agent::{Agent, Agented, Decision, Denied, Ended, ToolCall, agent};
pub use chain::{Chain, Map, Then, chain};
pub use choose::Chosen;
pub use error::{Error, ErrorKind, Result};
pub use event::Event;
pub use flow::{BoxFlow, Flow, Under, WithModel};
pub use gate::{Check, Gate, Gated, Passes, Question};
pub use judge::{Judge, Verdict};
pub use llm::{
    DEFAULT_MAX_TOKENS, Effort, Expect, Label, Llm, OnEvent, OnText, OneOf, Request, ToolChoice, ToolSpec,
};
pub use message::{Block, Message, Role, ToolResult, ToolUse};
pub use outcome::{Census, Outcome, Policy, Status};
pub use path::Path;
pub use prompt::{Prompt, prompt};
pub use refine::{Drafter, Refine, Refined, Round, Why, refine};
pub use reply::{Choice, Reply, Stop, Usage};
pub use route::{How, Route, Routed, Rule, route};
pub use shape::{Calls, Shape};
pub use step::{Step, StepWith, step, step_with};
#[cfg(feature = "tools")]
pub use tools::{Citation, ListFiles, ReadFile, Repository, Search};
pub use tools::{Tool, tool};

/// The crate that derives the JSON Schema of a tool's arguments.
pub use schemars;

//! The workflow patterns of "Building effective agents".

mod agent;
pub mod answer;
mod chain;
mod choose;
mod draw;
mod error;
mod event;
pub mod file;
mod flow;
mod gate;
mod judge;
pub mod layers;
mod llm;
mod message;
mod orchestrate;
mod outcome;
mod parts;
mod path;
pub mod price;
mod prompt;
pub mod providers;
mod refine;
mod reply;
mod route;
mod sections;
mod shape;
mod step;
mod tools;
pub mod trace;
mod vote;

pub use agent::{Agent, AgentEnd, Agented, Decision, Denied, ToolCall, agent};
pub use chain::{Chain, Map, Then, chain};
pub use choose::Chosen;
pub use error::{Error, ErrorKind, Result};
pub use event::Event;
pub use flow::{BoxFlow, Flow, Under, WithModel};
pub use gate::{Check, Gate, Gated, Passes, Question};
pub use judge::{Judge, Verdict};
pub use llm::{
    DEFAULT_MAX_TOKENS, Effort, Expect, Label, Llm, OnAnswer, OnEvent, OnText, OneOf, Request, ToolChoice,
    ToolSpec,
};
pub use message::{Block, Message, Role, ToolResult, ToolUse};
pub use orchestrate::{Orchestrate, Orchestrated, Plan, PlanDefect, PlanDefects, Planner, Task, orchestrate};
pub use outcome::{Census, Outcome, Policy, Status};
pub use parts::{Part, Parts};
pub use path::Path;
pub use prompt::{Prompt, prompt};
pub use providers::{Connection, connect, connect_default};
pub use refine::{Drafter, Refine, Refined, Round, Why, refine};
pub use reply::{Choice, Reply, Stop, Usage};
pub use route::{How, Route, Routed, Rule, route};
pub use sections::{ForEach, Sections, for_each, sections};
pub use shape::{Calls, Ink, Shape};
pub use step::{Step, StepWith, step, step_with};
#[cfg(feature = "mcp")]
pub use tools::Mcp;
#[cfg(feature = "tools")]
pub use tools::{Citation, ListFiles, ReadFile, Repository, Search};
pub use tools::{Tool, tool};
pub use vote::{Ballot, Standing, Tally, Tie, Vote, VoteEnd, vote, vote_of};

/// The crate that derives the JSON Schema of a tool's arguments.
pub use schemars;

//! The workflow patterns of Anthropic's
//! [Building effective agents](https://www.anthropic.com/engineering/building-effective-agents) as small combinators over
//! **one function**: the call to a language model, [`Llm::call`].
//!
//! A [`Flow`] turns a text into a text through such calls. Every flow fits into every other:
//!
//! | flow | what it does | what comes out |
//! |---|---|---|
//! | `"…"`, [`prompt`] | one call | the answer |
//! | [`then`](Flow::then), [`chain`] | each step works on the text of the one before | the last answer |
//! | [`gate`](Flow::gate), [`gate_by`](Flow::gate_by) | lets a text pass, asks for it again, or ends the chain | the text |
//! | [`route`] | a text goes the way that fits it | [`Routed`] |
//! | [`sections`], [`for_each`] | several flows on one text, one flow on several texts, at once | [`Parts`] |
//! | [`vote`], [`vote_of`] | several answers to one question, and what they agree on | [`Tally`] |
//! | [`orchestrate`] | a plan, its tasks as they become ready, and what they come to | [`Orchestrated`] |
//! | [`refine`] | draft, judge, and draft again | [`Refined`] |
//! | [`agent`] | a model in a loop with [tools](tool), until it is done | [`Agented`] |
//! | [`step`], [`step_with`], [`map`](Flow::map) | plain Rust | a text |
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> patterns::Result<()> {
//! use patterns::{Flow, Reply, Request, route, vote};
//!
//! // any async function of this shape is a model; `connect` gives the real ones
//! let llm = async |request: Request| {
//!     Ok(Reply::text_of(match request.path.as_str() {
//!         "route" => "<label>review</label>",
//!         _ => "<label>yes</label>",
//!     }))
//! };
//! let desk = route("Which desk should take this request?")
//!     .when(("review", "code to be reviewed"), vote(3, "Is this code safe?").among(["yes", "no"]))
//!     .otherwise("Say politely that this desk cannot help.");
//!
//! assert_eq!(desk.shape().calls().to_string(), "2 to 8 calls"); // known before the first one
//! let routed = desk.run(&llm, "fn main() {}").await?;
//! assert_eq!((routed.label.as_str(), routed.text.as_str()), ("review", "yes"));
//! # Ok(()) }
//! ```
//!
//! What a run needs beside that is a layer round the model: see [`layers`]. Who answers: see [`providers`] and [`connect`].
//! Flows can also be read from [files](mod@file). How answers are read: [`answer`].

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
#[cfg(feature = "otel")]
pub mod otel;
mod outcome;
mod parts;
mod path;
pub mod price;
mod prompt;
pub mod providers;
mod refine;
mod reply;
mod request;
mod route;
mod sections;
mod shape;
mod step;
mod time;
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

/// The snippets of the README are tested, too.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

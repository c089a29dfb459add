//! What happens in a run, told as it happens.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::reply::Usage;

/// Something that a pattern or a layer tells through [`Llm::note`](crate::Llm::note). The place is the path that comes
/// with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A gate looked at a text.
    Gate {
        /// The gate's name.
        name: String,
        /// Whether the text may pass.
        open: bool,
        /// Why not.
        reason: Option<String>,
    },
    /// A route took a way.
    Routed {
        /// The way's label.
        label: String,
        /// What decided: `rule`, `model` or `fallback`.
        how: String,
        /// The probability of the label, where the provider gives one.
        confidence: Option<f64>,
        /// Why, or why the fallback was taken.
        reason: Option<String>,
    },
    /// A fan-out begins: so many branches.
    FannedOut {
        /// The branches' names, in order.
        branches: Vec<String>,
    },
    /// A branch of a fan-out (a section, a voter, a task) has ended.
    BranchEnded {
        /// The branch's name.
        branch: String,
        /// How it ended: `ok`, `refused`, `truncated`, `failed`, …
        outcome: String,
        /// Why, unless it went well.
        reason: Option<String>,
    },
    /// A voter's ballot was counted.
    Ballot {
        /// The voter's number, from 1.
        voter: usize,
        /// The choice, or `None` for an abstention.
        choice: Option<String>,
    },
    /// A vote has ended.
    Decided {
        /// The winner, if there is one.
        winner: Option<String>,
        /// Why it ended: `decided`, `impossible`, `exhausted`, …
        why: String,
        /// How many voters were asked.
        asked: usize,
        /// How many calls were not made or dropped.
        saved: usize,
    },
    /// A plan was accepted.
    Planned {
        /// The tasks: id, and the ids that it needs.
        tasks: Vec<(String, Vec<String>)>,
    },
    /// A plan or an answer could not be used and is asked for again.
    Reasked {
        /// What was wrong.
        reason: String,
    },
    /// A draft is written.
    Draft {
        /// Its number, from 1.
        number: usize,
    },
    /// A draft was judged.
    Judged {
        /// The draft's number, from 1.
        number: usize,
        /// Whether it was accepted.
        accepted: bool,
        /// The score from 0 to 1, if the judge gives scores.
        score: Option<f64>,
        /// What the judge wants changed.
        feedback: Option<String>,
    },
    /// An agent's model has replied; its tools have not run yet.
    Turn {
        /// The turn's number, from 1.
        number: usize,
        /// Why the model stopped, as the Messages API spells it.
        stop: String,
        /// What the call used.
        usage: Usage,
        /// The calls of tools that it asks for: name and arguments.
        calls: Vec<(String, Value)>,
    },
    /// A tool starts.
    ToolCall {
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments.
        input: Value,
    },
    /// A call of a tool has its result, or was answered without running it.
    ToolResult {
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
        /// The length of the result in characters.
        characters: usize,
        /// What went wrong, or why it did not run.
        error: Option<String>,
    },
    /// The pattern has an answer, but not the whole of it: branches are missing, a draft was not accepted, a vote has no
    /// winner.
    Degraded {
        /// What is missing.
        reason: String,
    },
    /// A cap was reached and the pattern ends with what there is.
    Capped {
        /// Which cap.
        reason: String,
    },
}

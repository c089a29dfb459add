//! What happens in a run, told as it happens.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::reply::Usage;

mod tell;
pub(crate) mod used;

/// Something that a pattern or a layer tells through [`Llm::note`](crate::Llm::note). The place is the path that comes
/// with it. [`trace`](crate::trace) writes them to a file and reads them back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// A run begins; told by [`told`](crate::trace::told).
    RunStarted {
        /// The outermost pattern: `chain`, `route` …
        pattern: String,
        /// The fewest calls that it can make.
        fewest: u64,
        /// The most; `None` when nothing bounds them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        most: Option<u64>,
    },
    /// The run has ended, or was dropped.
    RunEnded {
        /// How it ended: `ok`, `failed` or `cancelled`.
        outcome: String,
        /// The [kind](crate::ErrorKind) of the error, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Why there is no answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A gate looked at a text.
    Gate {
        /// The gate's name.
        name: String,
        /// Whether the text may pass.
        open: bool,
        /// Why not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A route took a way.
    Routed {
        /// The way's label.
        label: String,
        /// What decided: `rule`, `model` or `fallback`.
        how: String,
        /// The probability of the label, where the provider gives one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confidence: Option<f64>,
        /// Why, or why the fallback was taken.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A fan-out begins: so many branches.
    FannedOut {
        /// The branches' names, in order.
        branches: Vec<String>,
    },
    /// A task of a plan has all that it needs, and may have to wait for its turn. The path is that of the task.
    BranchReady {
        /// The branch's name.
        branch: String,
    },
    /// A branch of a fan-out has its turn. The path is that of the branch itself.
    BranchStarted {
        /// The branch's name.
        branch: String,
    },
    /// A branch of a fan-out (a section, a voter, a task) has ended. The path is that of the fan-out.
    BranchEnded {
        /// The branch's name.
        branch: String,
        /// How it ended: `ok`, `refused`, `truncated`, `failed`, …
        outcome: String,
        /// Why, unless it went well.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A voter's ballot was counted.
    Ballot {
        /// The voter's number, from 1.
        voter: usize,
        /// The choice, or `None` for an abstention.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        choice: Option<String>,
    },
    /// A vote has ended.
    Decided {
        /// The winner, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
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
        #[serde(default, skip_serializing_if = "Option::is_none")]
        score: Option<f64>,
        /// What the judge wants changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        feedback: Option<String>,
    },
    /// An agent's model has replied; its tools have not run yet.
    Turn {
        /// The turn's number, from 1.
        number: usize,
        /// Why the model stopped, as the Messages API spells it.
        stop: String,
        /// What the call used.
        #[serde(default, serialize_with = "used::serialize")]
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
        #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// A call to the model begins; it may still have to wait for its turn.
    CallStarted {
        /// The model that will answer, if that is known beforehand.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// A request of the call goes out to the provider. A call that is tried again or resumed sends several.
    Sent,
    /// What the request under way has used so far, told by a provider that learns it before the reply is over. A later
    /// one replaces an earlier one of the same request.
    Used {
        /// The usage.
        #[serde(default, serialize_with = "used::serialize")]
        usage: Usage,
    },
    /// The first text of a streamed reply has come.
    FirstText,
    /// The reply came out of the journal; nothing is sent.
    Replayed,
    /// The call has to wait before it may be sent.
    Waiting {
        /// What for, in words: `a slot`, `the rate limit`, …
        why: String,
        /// How long, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<f64>,
    },
    /// The call failed and will be tried again.
    Retried {
        /// The number of the attempt that failed, from 1.
        attempt: u32,
        /// The [kind](crate::ErrorKind) of the error, in words.
        error: String,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Whether the service said that there were too many requests, which concerns every call.
        rate_limited: bool,
        /// How long it waits before the next attempt.
        seconds: f64,
    },
    /// The reply had not come to its end and the model is asked to go on.
    Continued {
        /// The stop reason: `max_tokens`, `pause_turn`, …
        stop: String,
    },
    /// What the service says is left of a rate limit, told by a provider that reads it from a response.
    Quota {
        /// What is limited: `requests`, `input tokens`, …
        what: String,
        /// How many are left.
        remaining: u64,
        /// When all of them will be back, in seconds from now.
        resets_in: f64,
    },
    /// The call has ended, or was dropped.
    CallEnded {
        /// The model that answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// What it used, all its requests together.
        #[serde(default, serialize_with = "used::serialize")]
        usage: Usage,
        /// What that costs in USD; `None` when the price is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
        /// How it ended: `ok`, `replayed`, `failed` or `cancelled`.
        outcome: String,
        /// The stop reason of the reply, as the Messages API spells it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop: Option<String>,
        /// The [kind](crate::ErrorKind) of the error, in words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Why there is no reply.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

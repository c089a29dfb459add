//! Events in words, and without what must not be told.

use std::fmt;

use serde_json::Value;

use super::Event;
use crate::draw::one_line;
use crate::reply::Usage;

impl Event {
    /// Whether [`without_content`](Self::without_content) may change it.
    pub(crate) fn has_content(&self) -> bool {
        !matches!(
            self,
            Self::CallStarted { .. }
                | Self::Sent
                | Self::Used { .. }
                | Self::FirstText
                | Self::Waiting { .. }
                | Self::CallEnded { reason: None, .. }
                | Self::BranchStarted { .. }
                | Self::BranchEnded { reason: None, .. }
        )
    }

    /// Takes out what a model or a user wrote, and messages that may quote it. What is left are names that the flow
    /// declares, numbers and kinds.
    #[must_use]
    pub fn without_content(mut self) -> Self {
        match &mut self {
            Self::RunEnded { reason, .. }
            | Self::Gate { reason, .. }
            | Self::Routed { reason, .. }
            | Self::BranchEnded { reason, .. }
            | Self::Retried { reason, .. }
            | Self::CallEnded { reason, .. }
            | Self::Judged { feedback: reason, .. } => *reason = None,
            Self::Ballot { choice: text, .. } | Self::Decided { winner: text, .. } => {
                if text.as_ref().is_some_and(|text| text.chars().count() > LABEL || text.contains('\n')) {
                    *text = Some("(a text)".to_owned());
                }
            }
            Self::Turn { calls, .. } => calls.iter_mut().for_each(|(_, input)| *input = Value::Null),
            Self::ToolCall { input, .. } => *input = Value::Null,
            Self::ToolResult { error, .. } => {
                if let Some(error) = error {
                    "it failed".clone_into(error);
                }
            }
            Self::Reasked { reason } => "it could not be used".clone_into(reason),
            Self::Degraded { reason } | Self::Capped { reason } => {
                *reason = reason.split([':', '"']).next().unwrap_or_default().to_owned();
            }
            // no wildcard: whoever adds an event decides here
            Self::RunStarted { .. }
            | Self::FannedOut { .. }
            | Self::BranchReady { .. }
            | Self::BranchStarted { .. }
            | Self::Planned { .. }
            | Self::Draft { .. }
            | Self::CallStarted { .. }
            | Self::Sent
            | Self::Used { .. }
            | Self::FirstText
            | Self::Replayed
            | Self::Waiting { .. }
            | Self::Continued { .. }
            | Self::Quota { .. } => {}
        }
        self
    }
}

/// The longest ballot that counts as a label, in characters.
const LABEL: usize = 40;

/// One line for a person, whatever a model wrote into it.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.words(&mut OneLine(f))
    }
}

/// Lets nothing through that would be more than a part of a line.
struct OneLine<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl fmt::Write for OneLine<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_str(&one_line(text))
    }
}

impl Event {
    fn words(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let because = |reason: &Option<String>| match reason {
            Some(reason) => format!(": {reason}"),
            None => String::new(),
        };
        match self {
            Self::RunStarted { pattern, fewest, most } => {
                let calls = crate::shape::Calls { fewest: *fewest, expected: None, most: *most };
                write!(f, "{pattern} starts, {calls}")
            }
            Self::RunEnded { outcome, error, reason } => {
                write!(f, "ends: {outcome}{}", because(reason.as_ref().map_or(error, |_| reason)))
            }
            Self::Gate { name, open, reason } => {
                let state = if *open { "open" } else { "closed" };
                write!(f, "the gate `{name}` is {state}{}", because(reason))
            }
            Self::Routed { label, how, confidence, reason } => {
                write!(f, "goes to `{label}`, by {how}")?;
                if let Some(confidence) = confidence {
                    write!(f, " (probability {confidence:.2})")?;
                }
                f.write_str(&because(reason))
            }
            Self::FannedOut { branches } => write!(f, "{} branches", branches.len()),
            Self::BranchReady { branch } => write!(f, "{branch} has all that it needs"),
            Self::BranchStarted { branch } => write!(f, "{branch} starts"),
            Self::BranchEnded { branch, outcome, reason } => {
                write!(f, "{branch} ends: {outcome}{}", because(reason))
            }
            Self::Ballot { voter, choice: Some(choice) } => write!(f, "voter {voter} says {choice}"),
            Self::Ballot { voter, choice: None } => write!(f, "voter {voter} abstains"),
            Self::Decided { winner, why, asked, saved } => {
                let winner = winner.as_deref().unwrap_or("no winner");
                write!(f, "{winner} ({why}), asked {asked}, saved {saved}")
            }
            Self::Planned { tasks } => {
                f.write_str("the plan: ")?;
                for (n, (id, needs)) in tasks.iter().enumerate() {
                    let comma = if n > 0 { ", " } else { "" };
                    write!(f, "{comma}{id}")?;
                    if !needs.is_empty() {
                        write!(f, " after {}", needs.join(" and "))?;
                    }
                }
                Ok(())
            }
            Self::Reasked { reason } => write!(f, "asks again: {reason}"),
            Self::Draft { number } => write!(f, "draft {number} is written"),
            Self::Judged { number, accepted, score, feedback } => {
                let verdict = if *accepted { "accepted" } else { "not accepted" };
                write!(f, "draft {number} is {verdict}")?;
                if let Some(score) = score {
                    write!(f, ", score {score:.2}")?;
                }
                f.write_str(&because(&feedback.clone().filter(|feedback| !feedback.is_empty())))
            }
            Self::Turn { number, stop, usage, calls } => {
                let Usage { input_tokens, output_tokens, cache_read_tokens, .. } = usage;
                write!(
                    f,
                    "turn {number} | {stop} | in={input_tokens} out={output_tokens} cache_read={cache_read_tokens}"
                )?;
                for (n, (name, input)) in calls.iter().enumerate() {
                    write!(f, "{}{name}({})", if n == 0 { " | " } else { ", " }, spaced(input))?;
                }
                Ok(())
            }
            Self::ToolCall { name, input, .. } => write!(f, "runs {name}({})", spaced(input)),
            Self::ToolResult { name, error: Some(error), .. } => {
                write!(f, "{name} failed: {}", crate::error::excerpt(error, 200))
            }
            Self::ToolResult { name, characters, error: None, .. } => {
                write!(f, "{name} gives {characters} characters")
            }
            Self::Degraded { reason } => write!(f, "degraded: {reason}"),
            Self::Capped { reason } => write!(f, "stopped by a cap: {reason}"),
            Self::CallStarted { model } => match model {
                Some(model) => write!(f, "call to {model}"),
                None => f.write_str("call"),
            },
            Self::Sent => f.write_str("sent"),
            Self::Used { usage } => {
                write!(f, "used {} + {} tokens so far", usage.prompt_tokens(), usage.output_tokens)
            }
            Self::FirstText => f.write_str("first text"),
            Self::Replayed => f.write_str("answered by the journal"),
            Self::Waiting { why, seconds: Some(seconds) } => write!(f, "waits for {why}, {seconds:.1} s"),
            Self::Waiting { why, seconds: None } => write!(f, "waits for {why}"),
            Self::Retried { attempt, error, reason, seconds, .. } => {
                let reason = reason.as_ref().unwrap_or(error);
                write!(f, "attempt {attempt} failed ({reason}), again in {seconds:.1} s")
            }
            Self::Continued { stop } => write!(f, "stopped early ({stop}), goes on"),
            Self::Quota { what, remaining, resets_in } => {
                write!(f, "{remaining} {what} left for {resets_in:.0} s")
            }
            Self::CallEnded { usage, cost, outcome, error, reason, .. } => {
                write!(f, "call {outcome}, {} + {} tokens", usage.prompt_tokens(), usage.output_tokens)?;
                if let Some(cost) = cost {
                    write!(f, ", {}", crate::price::Usd::new(*cost))?;
                }
                f.write_str(&because(reason.as_ref().map_or(error, |_| reason)))
            }
        }
    }
}

/// JSON on one line, with a space after each colon and comma, and nothing for arguments that are not told.
fn spaced(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|(key, value)| format!("{}: {}", Value::String(key.clone()), spaced(value)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", ")),
        Value::Null => "…".to_owned(),
        other => other.to_string(),
    }
}

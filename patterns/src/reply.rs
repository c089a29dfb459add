//! What comes back from a call.

use std::borrow::Cow;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Block, joined};

/// The answer of a language model to one [`Request`](crate::Request).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The content blocks, verbatim.
    pub content: Vec<Block>,
    /// Why the model stopped.
    pub stop: Stop,
    /// What the call used.
    pub usage: Usage,
    /// The model that answered, as `provider:model`.
    pub model: String,
    /// The service's id of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What was chosen, if [`Expect::OneOf`](crate::Expect::OneOf) was asked for and the provider chose natively.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
}

impl Reply {
    /// A finished reply of one text that used nothing: what a closure that stands in for a model returns.
    pub fn text_of(text: impl AsRef<str>) -> Self {
        Self { content: vec![Block::text(text.as_ref())], model: "closure".to_owned(), ..Self::default() }
    }

    /// The text blocks, joined. Thinking, tool calls and unknown blocks are left out.
    pub fn text(&self) -> Cow<'_, str> {
        joined(&self.content)
    }

    /// The text of a finished answer. Everything else is an error, so that a cut reply or a refusal can never pass
    /// for an answer.
    ///
    /// # Errors
    /// [`Truncated`](ErrorKind::Truncated) with the partial text, [`Refused`](ErrorKind::Refused),
    /// [`ContextWindow`](ErrorKind::ContextWindow), [`Empty`](ErrorKind::Empty) when there is no text, and
    /// [`Protocol`](ErrorKind::Protocol) for a turn that is not over (`tool_use`, `pause_turn`) or ended for a
    /// reason that this library does not know.
    pub fn answer(&self) -> Result<Cow<'_, str>> {
        let text = self.text();
        let fail = |kind, message: String| {
            Err(Error::new(kind, message)
                .with_partial(self.text().into_owned())
                .with_model(&self.model)
                .with_usage(self.usage))
        };
        match &self.stop {
            Stop::EndTurn | Stop::StopSequence(_) if text.trim().is_empty() => {
                fail(ErrorKind::Empty, "the model answered nothing; ask again or use another model".into())
            }
            Stop::EndTurn | Stop::StopSequence(_) => Ok(text),
            Stop::MaxTokens => fail(
                ErrorKind::Truncated,
                "the reply was cut at max_tokens; raise max_tokens or ask for less".into(),
            ),
            Stop::Refusal { category, explanation } => {
                let category = category.as_deref().map(|c| format!(" ({c})")).unwrap_or_default();
                let explanation = explanation.as_deref().map(|e| format!(": {e}")).unwrap_or_default();
                let message = format!("the model refused to answer{category}{explanation}");
                fail(ErrorKind::Refused, message)
            }
            Stop::ContextWindow => fail(
                ErrorKind::ContextWindow,
                "prompt and reply do not fit into the model's context window; shorten the input or use a model with a larger one".into(),
            ),
            Stop::ToolUse => {
                fail(ErrorKind::Protocol, "the model asked for a tool where a text was expected; use `agent` for tools".into())
            }
            Stop::PauseTurn | Stop::Compaction => fail(
                ErrorKind::Protocol,
                "the model paused its turn and was not resumed; put the `complete` layer round the provider".into(),
            ),
            Stop::Other(reason) => {
                let message = format!("the model stopped for an unknown reason, `{reason}`");
                fail(ErrorKind::Protocol, message)
            }
        }
    }

    /// As [`answer`](Self::answer), for a reply that is not needed any more.
    ///
    /// # Errors
    /// Those of [`answer`](Self::answer).
    pub fn into_answer(self) -> Result<String> {
        self.answer().map(Cow::into_owned)
    }
}

/// Why a model stopped: the stop reasons of the Messages API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stop {
    /// The answer is complete.
    #[default]
    EndTurn,
    /// The reply was cut at `max_tokens`.
    MaxTokens,
    /// The reply reached this stop sequence.
    StopSequence(String),
    /// The model waits for the results of tools.
    ToolUse,
    /// A long turn of server tools was paused; send the reply back unchanged to go on.
    PauseTurn,
    /// The model refused.
    Refusal {
        /// The field of the policy, if the service names one.
        category: Option<String>,
        /// The service's explanation.
        explanation: Option<String>,
    },
    /// Prompt and reply filled the context window.
    ContextWindow,
    /// The service compacted the conversation and paused; send the reply back unchanged to go on.
    Compaction,
    /// A reason that this library does not know. It ends the turn; no tool of such a turn is run.
    Other(String),
}

impl Stop {
    /// The reason of this name in the Messages API; what else comes with it is left empty.
    pub(crate) fn named(reason: &str) -> Self {
        match reason {
            "end_turn" => Self::EndTurn,
            "max_tokens" => Self::MaxTokens,
            "stop_sequence" => Self::StopSequence(String::new()),
            "tool_use" => Self::ToolUse,
            "pause_turn" => Self::PauseTurn,
            "refusal" => Self::Refusal { category: None, explanation: None },
            "model_context_window_exceeded" => Self::ContextWindow,
            "compaction" => Self::Compaction,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The reason as the Messages API spells it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence(_) => "stop_sequence",
            Self::ToolUse => "tool_use",
            Self::PauseTurn => "pause_turn",
            Self::Refusal { .. } => "refusal",
            Self::ContextWindow => "model_context_window_exceeded",
            Self::Compaction => "compaction",
            Self::Other(reason) => reason,
        }
    }
}

/// What one or more calls used, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Prompt tokens that were neither read from nor written to a cache.
    pub input_tokens: u64,
    /// Tokens of the reply, thinking included.
    pub output_tokens: u64,
    /// Prompt tokens written to the five-minute cache.
    pub cache_write_5m_tokens: u64,
    /// Prompt tokens written to the one-hour cache.
    pub cache_write_1h_tokens: u64,
    /// Prompt tokens read from the cache.
    pub cache_read_tokens: u64,
    /// Of the output tokens, those spent on thinking.
    pub thinking_tokens: u64,
    /// Searches made by the service's own web search tool.
    pub web_searches: u64,
}

impl Usage {
    /// All tokens of the prompt: fresh, written to and read from the cache.
    pub fn prompt_tokens(&self) -> u64 {
        self.input_tokens + self.cache_write_5m_tokens + self.cache_write_1h_tokens + self.cache_read_tokens
    }

    /// Prompt and reply.
    pub fn total_tokens(&self) -> u64 {
        self.prompt_tokens() + self.output_tokens
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cache_write_5m_tokens += other.cache_write_5m_tokens;
        self.cache_write_1h_tokens += other.cache_write_1h_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.thinking_tokens += other.thinking_tokens;
        self.web_searches += other.web_searches;
    }
}

/// One of a closed set of labels, chosen by the provider's own means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The label. The reader compares it without regard to case.
    pub label: String,
    /// Why, if the model said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The probability of every label, in the order asked for, where the provider gives probabilities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probabilities: Vec<(String, f64)>,
}

//! The reply of the Messages API: as one body, and its parts as a stream has them too.

use serde::Deserialize;

use crate::message::Block;
use crate::reply::{Stop, Usage};

/// A message as it comes. An error object has the same shape, with another `type`.
#[derive(Deserialize)]
pub(super) struct Wire {
    pub(super) r#type: Option<String>,
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) content: Option<Vec<Block>>,
    pub(super) stop_reason: Option<String>,
    pub(super) stop_sequence: Option<String>,
    pub(super) stop_details: Option<StopDetails>,
    pub(super) usage: Option<WireUsage>,
}

#[derive(Deserialize)]
pub(super) struct StopDetails {
    category: Option<String>,
    explanation: Option<String>,
}

/// What a stop reason of the API means.
pub(super) fn stop(reason: &str, sequence: Option<String>, details: Option<StopDetails>) -> Stop {
    match (Stop::named(reason), details) {
        (Stop::StopSequence(_), _) => Stop::StopSequence(sequence.unwrap_or_default()),
        (Stop::Refusal { .. }, Some(StopDetails { category, explanation })) => {
            Stop::Refusal { category, explanation }
        }
        (stop, _) => stop,
    }
}

/// The usage as it comes: every field may be absent or null, and a stream sends it in parts.
#[derive(Clone, Default, Deserialize)]
pub(super) struct WireUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation: Option<CacheCreation>,
    output_tokens_details: Option<OutputDetails>,
    server_tool_use: Option<ServerToolUse>,
    iterations: Option<Vec<Iteration>>,
}

#[derive(Clone, Default, Deserialize)]
struct CacheCreation {
    ephemeral_5m_input_tokens: Option<u64>,
    ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Clone, Default, Deserialize)]
struct OutputDetails {
    thinking_tokens: Option<u64>,
}

#[derive(Clone, Default, Deserialize)]
struct ServerToolUse {
    web_search_requests: Option<u64>,
}

/// One of the samplings that make up a message.
#[derive(Clone, Default, Deserialize)]
struct Iteration {
    r#type: Option<String>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

impl WireUsage {
    /// Takes over what `later` says: the numbers of a stream are cumulative.
    pub(super) fn update(&mut self, later: Self) {
        macro_rules! take {
            ($($field:ident)*) => {$( if later.$field.is_some() { self.$field = later.$field; } )*};
        }
        take!(input_tokens output_tokens cache_creation_input_tokens cache_read_input_tokens
              cache_creation output_tokens_details server_tool_use iterations);
    }
}

impl From<WireUsage> for Usage {
    fn from(wire: WireUsage) -> Self {
        let cache = wire.cache_creation.unwrap_or_default();
        let one_hour = cache.ephemeral_1h_input_tokens.unwrap_or(0);
        // without the classes, the sum is of the default one
        let five_minutes = cache
            .ephemeral_5m_input_tokens
            .unwrap_or_else(|| wire.cache_creation_input_tokens.unwrap_or(0).saturating_sub(one_hour));
        let mut usage = Self {
            input_tokens: wire.input_tokens.unwrap_or(0),
            output_tokens: wire.output_tokens.unwrap_or(0),
            cache_write_5m_tokens: five_minutes,
            cache_write_1h_tokens: one_hour,
            cache_read_tokens: wire.cache_read_input_tokens.unwrap_or(0),
            thinking_tokens: wire.output_tokens_details.and_then(|d| d.thinking_tokens).unwrap_or(0),
            web_searches: wire.server_tool_use.and_then(|s| s.web_search_requests).unwrap_or(0),
        };
        // the only iterations that the sums above leave out
        for iteration in wire.iterations.into_iter().flatten() {
            if iteration.r#type.as_deref() == Some("compaction") {
                usage.input_tokens += iteration.input_tokens.unwrap_or(0);
                usage.output_tokens += iteration.output_tokens.unwrap_or(0);
                usage.cache_read_tokens += iteration.cache_read_input_tokens.unwrap_or(0);
                usage.cache_write_5m_tokens += iteration.cache_creation_input_tokens.unwrap_or(0);
            }
        }
        usage
    }
}

//! The reply of chat completions, as one body, and the parts that a stream has too.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::Result;
use crate::message::Block;
use crate::providers::http::{Answer, from_json};
use crate::reply::{Reply, Stop, Usage};

#[derive(Deserialize)]
struct Wire {
    id: Option<String>,
    model: Option<String>,
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<WireUsage>,
    error: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<WireMessage>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct WireMessage {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<WireCall>>,
}

#[derive(Deserialize)]
struct WireCall {
    id: Option<String>,
    function: WireFunction,
}

#[derive(Deserialize)]
struct WireFunction {
    name: String,
    arguments: Option<String>,
}

#[derive(Default, Deserialize)]
pub(super) struct WireUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Default, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl From<WireUsage> for Usage {
    fn from(wire: WireUsage) -> Self {
        let cached = wire.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0);
        Self {
            input_tokens: wire.prompt_tokens.unwrap_or(0).saturating_sub(cached),
            output_tokens: wire.completion_tokens.unwrap_or(0),
            cache_read_tokens: cached,
            thinking_tokens: wire.completion_tokens_details.and_then(|d| d.reasoning_tokens).unwrap_or(0),
            ..Self::default()
        }
    }
}

/// A call of a tool as it was written: its arguments may be cut off.
pub(super) struct RawCall {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// What a reply holds, from a body or put together from a stream.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) text: String,
    pub(super) refusal: Option<String>,
    pub(super) calls: Vec<RawCall>,
    pub(super) finish_reason: String,
}

impl Parts {
    /// The blocks and the stop reason, or what is wrong with them.
    pub(super) fn finish(self) -> Result<(Vec<Block>, Stop), &'static str> {
        let stop = match (self.finish_reason.as_str(), self.refusal) {
            (_, Some(explanation)) if !explanation.is_empty() => {
                Stop::Refusal { category: None, explanation: Some(explanation) }
            }
            ("content_filter", _) => {
                Stop::Refusal { category: Some("content_filter".to_owned()), explanation: None }
            }
            ("length", _) => Stop::MaxTokens,
            ("tool_calls" | "function_call", _) => Stop::ToolUse,
            // some servers say `stop` when they mean their tools
            ("stop", _) if !self.calls.is_empty() => Stop::ToolUse,
            ("stop", _) => Stop::EndTurn,
            (other, _) => Stop::Other(other.to_owned()),
        };
        let mut content = Vec::with_capacity(self.calls.len() + 1);
        if !self.text.is_empty() {
            content.push(Block::text(&self.text));
        }
        for (n, call) in self.calls.into_iter().enumerate() {
            let written = if call.arguments.trim().is_empty() { "{}".to_owned() } else { call.arguments };
            match RawValue::from_string(written) {
                Ok(input) if input.get().starts_with('{') => {
                    let id = call.id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("call_{n}"));
                    content.push(Block::tool_use(&id, &call.name, &input));
                }
                // the rest of the call was never written; the turn is cut, not malformed, and nobody gets the call
                _ if stop == Stop::MaxTokens => {}
                _ => return Err("a tool call whose arguments are no JSON object"),
            }
        }
        Ok((content, stop))
    }
}

/// Reads a reply that came as one body.
pub(super) fn read(answer: &Answer<'_>, body: &[u8]) -> Result<Reply> {
    let wire: Wire = from_json(body).map_err(|error| answer.not_json(body, error))?;
    if wire.error.is_some() {
        return Err(answer.failed(body));
    }
    let usage: Usage = wire.usage.unwrap_or_default().into();
    let Some(Choice { message: Some(message), finish_reason: Some(finish_reason) }) =
        wire.choices.into_iter().next()
    else {
        return Err(answer.malformed("no finished choice", body).with_usage(usage));
    };
    let calls = message.tool_calls.into_iter().flatten().map(|call| RawCall {
        id: call.id,
        name: call.function.name,
        arguments: call.function.arguments.unwrap_or_default(),
    });
    let parts = Parts {
        text: message.content.unwrap_or_default(),
        refusal: message.refusal,
        calls: calls.collect(),
        finish_reason,
    };
    let (content, stop) = parts.finish().map_err(|what| answer.malformed(what, body).with_usage(usage))?;
    Ok(Reply { content, stop, usage, model: wire.model.unwrap_or_default(), id: wire.id, choice: None })
}

//! A streamed reply of chat completions, put together chunk by chunk.

use serde::Deserialize;

use super::reply::{Parts, RawCall, WireUsage};
use crate::error::{Error, Result};
use crate::llm::OnText;
use crate::providers::http::{Answer, from_json};
use crate::providers::receive;
use crate::reply::{Reply, Usage};

/// The reply so far.
#[derive(Default)]
pub(super) struct Assembly<'r> {
    on_text: Option<&'r OnText>,
    id: Option<String>,
    model: Option<String>,
    parts: Parts,
    /// The numbers of the tool calls, where they came.
    indices: Vec<u64>,
    usage: Option<Usage>,
    finished: bool,
    ended: bool,
}

#[derive(Deserialize)]
struct Chunk {
    id: Option<String>,
    model: Option<String>,
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<WireUsage>,
    error: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<String>,
}

impl<'r> Assembly<'r> {
    pub(super) fn new(on_text: Option<&'r OnText>) -> Self {
        Self { on_text, ..Self::default() }
    }

    /// Adds a piece to its call. A server that does not number its calls sends each as a whole.
    fn add(&mut self, piece: CallDelta) {
        let known = piece.index.and_then(|index| self.indices.iter().position(|known| *known == index));
        let at = known.unwrap_or_else(|| {
            self.indices.push(piece.index.unwrap_or(u64::MAX));
            self.parts.calls.push(RawCall { id: None, name: String::new(), arguments: String::new() });
            self.parts.calls.len() - 1
        });
        let call = &mut self.parts.calls[at];
        call.id = call.id.take().or(piece.id);
        if let Some(function) = piece.function {
            call.name.push_str(&function.name.unwrap_or_default());
            call.arguments.push_str(&function.arguments.unwrap_or_default());
        }
    }
}

impl receive::Assembly for Assembly<'_> {
    fn hear(&mut self, answer: &Answer<'_>, data: &[u8]) -> Result<()> {
        if data.trim_ascii() == b"[DONE]" {
            self.ended = true;
            return Ok(());
        }
        let chunk: Chunk = from_json(data).map_err(|error| {
            answer.malformed("a broken event in its stream", data).with_source(error).with_transient(true)
        })?;
        if chunk.error.is_some() {
            return Err(answer.failed(data));
        }
        self.id = self.id.take().or(chunk.id);
        self.model = self.model.take().or(chunk.model);
        if let Some(usage) = chunk.usage {
            self.usage = Some(usage.into());
        }
        let Some(choice) = chunk.choices.into_iter().next() else { return Ok(()) };
        if let Some(delta) = choice.delta {
            if let Some(piece) = delta.content.filter(|piece| !piece.is_empty()) {
                self.parts.text.push_str(&piece);
                if let Some(on_text) = self.on_text {
                    on_text.hear(&piece);
                }
            }
            if let Some(piece) = delta.refusal {
                self.parts.refusal.get_or_insert_default().push_str(&piece);
            }
            delta.tool_calls.into_iter().flatten().for_each(|call| self.add(call));
        }
        if let Some(reason) = choice.finish_reason {
            self.parts.finish_reason = reason;
            self.finished = true;
        }
        Ok(())
    }

    fn ended(&self) -> bool {
        self.ended
    }

    /// A finish reason makes it a reply. The mark of the end may be missing, unless the usage is missing too, which was
    /// asked for and comes last: then the stream was cut in between.
    fn finish(&mut self, answer: &Answer<'_>) -> Result<Reply> {
        let cut = match (self.finished, self.ended || self.usage.is_some()) {
            (false, _) => Some("a stream that ends without a finish reason"),
            (true, false) => Some("a stream that ends without its usage and `[DONE]`"),
            (true, true) => None,
        };
        if let Some(what) = cut {
            return Err(answer.malformed(what, &[]).with_transient(true));
        }
        let parts = std::mem::take(&mut self.parts);
        let (content, stop) = parts.finish().map_err(|what| answer.malformed(what, &[]))?;
        Ok(Reply {
            content,
            stop,
            usage: self.usage.unwrap_or_default(),
            model: self.model.take().unwrap_or_default(),
            id: self.id.take(),
            choice: None,
        })
    }

    fn describe(self, error: Error) -> Error {
        error.with_partial(self.parts.text).with_usage(self.usage.unwrap_or_default())
    }
}

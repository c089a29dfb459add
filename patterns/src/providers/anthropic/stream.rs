//! A streamed reply of the Messages API, put together event by event.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::reply::{self, StopDetails, WireUsage};
use crate::error::{Error, Result};
use crate::event::Event as Told;
use crate::llm::Request;
use crate::message::Block;
use crate::providers::http::{Answer, from_json};
use crate::providers::receive;
use crate::reply::{Reply, Stop};

/// The reply so far.
pub(super) struct Assembly<'r> {
    request: &'r Request,
    id: Option<String>,
    model: Option<String>,
    blocks: Vec<Building>,
    /// The text so far, of all blocks.
    text: String,
    usage: WireUsage,
    stop: Option<Stop>,
    ended: bool,
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: String,
    index: Option<u64>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Start {
    id: Option<String>,
    model: Option<String>,
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    r#type: String,
    text: Option<String>,
    thinking: Option<String>,
    #[serde(borrow)]
    signature: Option<&'a RawValue>,
    partial_json: Option<String>,
    #[serde(borrow)]
    citation: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct End {
    stop_reason: Option<String>,
    stop_sequence: Option<String>,
    stop_details: Option<StopDetails>,
}

impl<'r> Assembly<'r> {
    pub(super) fn new(request: &'r Request) -> Self {
        Self {
            request,
            id: None,
            model: None,
            blocks: Vec::new(),
            text: String::new(),
            usage: WireUsage::default(),
            stop: None,
            ended: false,
        }
    }
}

impl receive::Assembly for Assembly<'_> {
    fn hear(&mut self, answer: &Answer<'_>, data: &[u8]) -> Result<()> {
        let broken = |error: serde_json::Error| {
            answer.malformed("a broken event in its stream", data).with_source(error).with_transient(true)
        };
        let event: Event<'_> = from_json(data).map_err(broken)?;
        match event.r#type.as_str() {
            "message_start" => {
                if let Some(message) = event.message {
                    let start: Start = serde_json::from_str(message.get()).map_err(broken)?;
                    (self.id, self.model) = (start.id, start.model);
                    self.usage = start.usage.unwrap_or_default();
                    self.request.tell_with(|| Told::Used { usage: self.usage.clone().into() });
                }
            }
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    let fields: Fields = serde_json::from_str(block.get()).map_err(broken)?;
                    self.blocks.push(Building::new(event.index, fields));
                }
            }
            "content_block_delta" => {
                let building = self.blocks.iter_mut().rev().find(|block| block.index == event.index);
                let (Some(building), Some(raw)) = (building, event.delta) else {
                    return Err(answer
                        .malformed("a piece of a block that was not begun", data)
                        .with_transient(true));
                };
                let delta: Delta<'_> = serde_json::from_str(raw.get()).map_err(broken)?;
                if let Some(piece) = building.take(delta, raw).map_err(broken)? {
                    self.text.push_str(&piece);
                    if let Some(on_text) = &self.request.on_text {
                        on_text.hear(&piece);
                    }
                }
            }
            "content_block_stop" => {
                if let Some(block) = self.blocks.iter_mut().rev().find(|block| block.index == event.index) {
                    block.stopped = true;
                }
            }
            "message_delta" => {
                if let Some(usage) = event.usage {
                    self.usage.update(serde_json::from_str(usage.get()).map_err(broken)?);
                }
                if let Some(delta) = event.delta {
                    let end: End = serde_json::from_str(delta.get()).map_err(broken)?;
                    if let Some(reason) = end.stop_reason {
                        self.stop = Some(reply::stop(&reason, end.stop_sequence, end.stop_details));
                    }
                }
            }
            "message_stop" => self.ended = true,
            "error" => return Err(answer.failed(data)),
            // pings, and events that are new
            _ => {}
        }
        Ok(())
    }

    fn ended(&self) -> bool {
        self.ended
    }

    fn describe(self, error: Error) -> Error {
        error.with_partial(self.text).with_usage(self.usage.into())
    }

    fn finish(&mut self, answer: &Answer<'_>) -> Result<Reply> {
        if !self.ended {
            let error = answer.malformed("a stream that ends without `message_stop`", &[]);
            return Err(error.with_transient(true));
        }
        let Some(stop) = self.stop.take() else {
            return Err(answer.malformed("a stream without a stop reason", &[]));
        };
        let mut content = Vec::with_capacity(self.blocks.len());
        for block in std::mem::take(&mut self.blocks) {
            match block.finish() {
                Ok(block) => content.push(block),
                // the rest of the call was never written; the turn is cut, not malformed, and nobody gets the call
                Err(_) if stop == Stop::MaxTokens => {}
                Err(what) => return Err(answer.malformed(what, &[])),
            }
        }
        Ok(Reply {
            content,
            stop,
            usage: std::mem::take(&mut self.usage).into(),
            model: self.model.take().unwrap_or_default(),
            id: self.id.take(),
            choice: None,
        })
    }
}

/// A block under way: the fields as they came, and what the deltas add to them.
struct Building {
    index: Option<u64>,
    fields: Fields,
    text: Option<String>,
    thinking: Option<String>,
    input: String,
    citations: Vec<Box<RawValue>>,
    stopped: bool,
}

impl Building {
    fn new(index: Option<u64>, fields: Fields) -> Self {
        Self {
            index,
            fields,
            text: None,
            thinking: None,
            input: String::new(),
            citations: Vec::new(),
            stopped: false,
        }
    }

    /// Takes a delta, and gives it back if it is text.
    fn take(&mut self, delta: Delta<'_>, raw: &RawValue) -> serde_json::Result<Option<String>> {
        match delta.r#type.as_str() {
            "text_delta" => {
                let piece = delta.text.unwrap_or_default();
                self.text.get_or_insert_with(|| self.fields.text("text")).push_str(&piece);
                return Ok(Some(piece));
            }
            "thinking_delta" => {
                let piece = delta.thinking.unwrap_or_default();
                self.thinking.get_or_insert_with(|| self.fields.text("thinking")).push_str(&piece);
            }
            "signature_delta" => {
                if let Some(signature) = delta.signature {
                    self.fields.set("signature", signature.to_owned());
                }
            }
            "input_json_delta" => self.input.push_str(&delta.partial_json.unwrap_or_default()),
            "citations_delta" => self.citations.extend(delta.citation.map(ToOwned::to_owned)),
            "compaction_delta" => {
                let fields: Fields = serde_json::from_str(raw.get())?;
                for (name, value) in fields.0 {
                    if name != "type" {
                        self.fields.set(&name, value);
                    }
                }
            }
            // deltas that are new
            _ => {}
        }
        Ok(None)
    }

    /// The block, or what is wrong with it.
    fn finish(mut self) -> Result<Block, &'static str> {
        let is_call = self.fields.get("input").is_some();
        if is_call && !self.stopped {
            return Err("a tool call without an end");
        }
        let unwritable = |_| "a block that cannot be written";
        for (name, text) in [("text", self.text), ("thinking", self.thinking)] {
            if let Some(text) = text {
                self.fields.set(name, to_raw_value(&text).map_err(unwritable)?);
            }
        }
        if !self.input.is_empty() {
            match RawValue::from_string(self.input) {
                Ok(input) if input.get().starts_with('{') => self.fields.set("input", input),
                _ => return Err("a tool call whose arguments are cut off"),
            }
        }
        if !self.citations.is_empty() {
            let mut all: Vec<Box<RawValue>> = self
                .fields
                .get("citations")
                .and_then(|list| serde_json::from_str(list.get()).ok())
                .unwrap_or_default();
            all.append(&mut self.citations);
            self.fields.set("citations", to_raw_value(&all).map_err(unwritable)?);
        }
        let raw = to_raw_value(&self.fields).map_err(unwritable)?;
        Block::from_raw(raw).map_err(|_| "a content block that lacks a field")
    }
}

/// The fields of an object, in order and as they came.
struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    fn set(&mut self, name: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    fn text(&self, name: &str) -> String {
        self.get(name).and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Fields;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields, M::Error> {
                let mut fields = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    fields.push(pair);
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(Pairs)
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

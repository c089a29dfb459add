//! The body of a request to the Messages API.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde_json::json;

use super::models::{Model, Thinking};
use crate::error::{Error, ErrorKind, Result};
use crate::llm::{DEFAULT_MAX_TOKENS, Expect, OneOf, Request, ToolChoice};
use crate::message::{Block, Message, Role};
use crate::providers::labels::{label_schema, system_with_labels, tool_bytes};
use crate::providers::object::Object;
use crate::providers::{STREAM_FROM, write_json};

/// A body ready to be written. The order of its keys never changes.
pub(super) struct Body<'r> {
    request: &'r Request,
    model_id: &'r str,
    model: &'static Model,
    max_tokens: u32,
    pub(super) stream: bool,
    /// The labels to choose from, and whether the model can be held to a schema.
    one_of: Option<(&'r OneOf, bool)>,
    sampling: bool,
}

impl<'r> Body<'r> {
    /// What to send to `model_id` under this version of the API, or why the model would refuse it.
    pub(super) fn new(request: &'r Request, model_id: &'r str, version: &str) -> Result<Self> {
        let model = Model::of(model_id);
        let max_tokens = request.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS).min(model.max_output);
        let one_of = match &request.expect {
            Expect::OneOf(one_of) => Some((one_of, model.json_schema)),
            _ => None,
        };
        let body = Self {
            request,
            model_id,
            model,
            max_tokens,
            stream: max_tokens >= STREAM_FROM || request.on_text.is_some(),
            one_of,
            sampling: model.sampling && (model.id.is_empty() || version == "2023-06-01"),
        };
        body.check()?;
        Ok(body)
    }

    pub(super) fn to_json(&self) -> Result<Vec<u8>> {
        write_json(self, 512 + self.prompt_bytes())
    }

    /// Refuses what the model is known to refuse, with a better word than HTTP 400.
    fn check(&self) -> Result<()> {
        let refuse = |what: &str| {
            let message = format!("{} {what}", self.model_id);
            Err(Error::new(ErrorKind::InvalidRequest, message))
        };
        let Some(last) = self.request.messages.last() else {
            return Err(Error::new(
                ErrorKind::InvalidRequest,
                "the request has no messages; give it at least one",
            ));
        };
        let forced = matches!(self.request.tool_choice, ToolChoice::Any | ToolChoice::Tool(_));
        if forced && self.request.tools.is_empty() {
            return refuse("was told to call a tool, but the request has no tools");
        }
        if forced && !self.model.forced_tool_choice {
            return refuse(
                "takes no forced tool_choice (HTTP 400); leave it at auto and say in the prompt which tool to call, \
                 or expect one of a set of labels",
            );
        }
        // a turn that was paused ends with other blocks as well, and is sent back to go on
        let prefilled =
            last.role == Role::Assistant && last.content.iter().all(|block| block.kind() == "text");
        if prefilled && !self.model.prefill {
            return refuse("takes no prefill (HTTP 400); end the conversation with a user's turn");
        }
        let extra = &self.request.extra;
        let sampling = ["temperature", "top_p", "top_k"].into_iter().find(|knob| extra.contains_key(*knob));
        if let Some(knob) = sampling
            && !self.sampling
        {
            return refuse(&format!(
                "takes no {knob} (HTTP 400); leave it out and say in the prompt how to write"
            ));
        }
        let thinking = extra.get("thinking").and_then(|thinking| thinking["type"].as_str());
        if matches!(thinking, Some("disabled" | "enabled")) && self.model.thinking == Thinking::Always {
            return refuse("always thinks, and takes no budget (HTTP 400); set `effort` instead");
        }
        Ok(())
    }

    /// Whether the prompt is long enough to be cached, at about four bytes to a token; and whether the system prompt
    /// with the tools already is, so that calls that share only those find them again. `extra.cache_control` or a mark
    /// of the caller's own leaves it to the caller.
    fn cached(&self) -> (bool, bool) {
        let enough = |bytes: usize| bytes / 4 >= self.model.min_cacheable as usize;
        let request = self.request;
        if !enough(self.prompt_bytes()) || request.extra.contains_key("cache_control") {
            return (false, false);
        }
        let marked = |block: &Block| block.raw().get().contains("\"cache_control\"");
        if request.messages.iter().flat_map(|message| &message.content).any(marked) {
            return (false, false);
        }
        (true, enough(self.system_bytes()))
    }

    fn prompt_bytes(&self) -> usize {
        let blocks = self.request.messages.iter().flat_map(|message| &message.content);
        self.system_bytes() + blocks.map(|block| block.raw().get().len()).sum::<usize>()
    }

    fn system_bytes(&self) -> usize {
        let tools = self.request.tools.iter().map(tool_bytes).sum::<usize>();
        self.request.system.len() + tools
    }

    /// The system prompt, with what tells the model to choose.
    fn system(&self) -> Cow<'_, str> {
        match self.one_of {
            Some((one_of, by_schema)) => system_with_labels(&self.request.system, one_of, by_schema).into(),
            None => self.request.system.as_str().into(),
        }
    }

    fn output_config(&self) -> Option<serde_json::Map<String, serde_json::Value>> {
        let mut config = serde_json::Map::new();
        if let Some(effort) = self.request.effort.and_then(|wanted| self.model.effort(wanted)) {
            config.insert("effort".into(), json!(effort));
        }
        if let Some((one_of, true)) = self.one_of {
            config.insert("format".into(), json!({"type": "json_schema", "schema": label_schema(one_of)}));
        }
        if let Some(serde_json::Value::Object(own)) = self.request.extra.get("output_config") {
            config.extend(own.clone());
        }
        (!config.is_empty()).then_some(config)
    }

    fn tool_choice(&self) -> Option<serde_json::Value> {
        let alone = self.request.disable_parallel_tool_use;
        let mut choice = match &self.request.tool_choice {
            _ if self.request.tools.is_empty() => return None,
            ToolChoice::Auto if !alone => return None,
            ToolChoice::Auto => json!({"type": "auto"}),
            ToolChoice::Any => json!({"type": "any"}),
            ToolChoice::Tool(name) => json!({"type": "tool", "name": name}),
            ToolChoice::None => return Some(json!({"type": "none"})),
        };
        if alone {
            choice["disable_parallel_tool_use"] = true.into();
        }
        Some(choice)
    }
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let request = self.request;
        let mut body = Object::new(to.serialize_map(None)?, &request.extra);
        body.put("model", self.model_id)?;
        body.put("max_tokens", &self.max_tokens)?;
        if self.stream {
            body.put("stream", &true)?;
        }
        let (cached, system_cached) = self.cached();
        let mark = json!({"type": "ephemeral"});
        body.put_if("cache_control", cached.then_some(&mark))?;
        if !request.tools.is_empty() {
            body.put("tools", &request.tools)?;
        }
        body.put_if("tool_choice", self.tool_choice())?;
        let system = self.system();
        if system_cached && !system.is_empty() {
            body.put("system", &json!([{"type": "text", "text": system, "cache_control": mark}]))?;
        } else if !system.is_empty() {
            body.put("system", &*system)?;
        }
        body.put("messages", &Messages(&request.messages))?;
        if !request.stop_sequences.is_empty() {
            body.put("stop_sequences", &request.stop_sequences)?;
        }
        body.put_if("temperature", request.temperature.filter(|_| self.sampling))?;
        if let Some(config) = self.output_config() {
            body.merged("output_config", &config)?;
        }
        body.end(&["betas", "output_config"])
    }
}

/// The turns, without blocks of empty text: models write some, and the API takes none back.
struct Messages<'r>(&'r [Message]);

fn is_empty(block: &Block) -> bool {
    block.as_text() == Some("")
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Turn<'r> {
            role: Role,
            content: Vec<&'r Block>,
        }
        if !self.0.iter().flat_map(|message| &message.content).any(is_empty) {
            return self.0.serialize(to);
        }
        let mut turns = to.serialize_seq(None)?;
        for message in self.0 {
            let content: Vec<_> = message.content.iter().filter(|block| !is_empty(block)).collect();
            if !content.is_empty() {
                turns.serialize_element(&Turn { role: message.role, content })?;
            }
        }
        turns.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temperature_goes_only_where_it_is_taken() {
        let sent = |model: &str, version: &str| {
            let request = Request { temperature: Some(0.5), ..Request::new("x") };
            let body = Body::new(&request, model, version).and_then(|body| body.to_json()).unwrap();
            serde_json::from_slice::<serde_json::Value>(&body).unwrap().get("temperature").cloned()
        };
        assert_eq!(sent("claude-sonnet-4-6", "2026-10-21"), None);
        assert_eq!(sent("claude-sonnet-4-6", "2023-06-01"), Some(json!(0.5)));
        assert_eq!(sent("claude-opus-5-5", "2023-06-01"), None);
        assert_eq!(sent("claude-from-the-future", "2023-06-01"), None);
        // another model behind the same API
        assert_eq!(sent("llama3.2:3b", "2026-10-21"), Some(json!(0.5)));
    }
}

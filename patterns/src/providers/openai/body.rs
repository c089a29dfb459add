//! The body of a request to chat completions.

use std::borrow::Cow;

use serde::ser::{Serialize, Serializer};
use serde_json::{Value, json};

use super::Host;
use crate::error::{Error, ErrorKind, Result};
use crate::llm::{DEFAULT_MAX_TOKENS, Effort, Expect, Request, ToolChoice, ToolSpec};
use crate::message::{Message, Role};
use crate::providers::labels::{label_schema, system_with_labels};
use crate::providers::object::Object;
use crate::providers::write_json;

/// A body ready to be written.
pub(super) struct Body<'r> {
    request: &'r Request,
    model: &'r str,
    host: Host,
    turns: Vec<Turn<'r>>,
    tools: Vec<Value>,
    pub(super) stream: bool,
}

#[derive(serde::Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Turn<'r> {
    System {
        content: Cow<'r, str>,
    },
    User {
        content: Cow<'r, str>,
    },
    Assistant {
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Cow<'r, str>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'r>>,
    },
    Tool {
        tool_call_id: &'r str,
        content: Cow<'r, str>,
    },
}

#[derive(serde::Serialize)]
struct Call<'r> {
    id: &'r str,
    r#type: &'static str,
    function: Function<'r>,
}

#[derive(serde::Serialize)]
struct Function<'r> {
    name: &'r str,
    arguments: &'r str,
}

impl<'r> Body<'r> {
    pub(super) fn new(request: &'r Request, model: &'r str, host: Host) -> Result<Self> {
        if request.messages.is_empty() {
            return Err(refuse("the request has no messages; give it at least one"));
        }
        let forced = matches!(request.tool_choice, ToolChoice::Any | ToolChoice::Tool(_));
        if forced && request.tools.is_empty() {
            return Err(refuse("a tool must be called, but the request has no tools"));
        }
        let max_tokens = request.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
        let stream = request.on_text.is_some() || max_tokens >= crate::providers::STREAM_FROM;
        let tools = request.tools.iter().map(tool).collect::<Result<_>>()?;
        let mut body = Self { request, model, host, turns: Vec::new(), tools, stream };
        let system = match &request.expect {
            Expect::OneOf(one_of) => system_with_labels(&request.system, one_of, body.takes_schema()).into(),
            _ => Cow::Borrowed(request.system.as_str()),
        };
        if !system.is_empty() {
            body.turns.push(Turn::System { content: system });
        }
        for message in &request.messages {
            turns_of(message, &mut body.turns)?;
        }
        Ok(body)
    }

    pub(super) fn to_json(&self) -> Result<Vec<u8>> {
        write_json(self, 1_024)
    }

    /// Whether the model can be held to a JSON Schema. GPT-4 and older cannot.
    fn takes_schema(&self) -> bool {
        let too_old = ["gpt-3", "gpt-4-", "chatgpt-"].iter().any(|old| self.model.starts_with(old));
        match self.host {
            Host::OpenAi => !too_old && self.model != "gpt-4",
            Host::Ollama => true,
            Host::Other => false,
        }
    }

    /// OpenAI's models that think before they answer: they take an effort, and no temperature.
    fn thinks(&self) -> bool {
        ["gpt-5", "o1", "o3", "o4"].iter().any(|name| self.model.starts_with(name))
    }

    fn effort(&self) -> Option<&'static str> {
        if self.host == Host::OpenAi && !self.thinks() {
            return None;
        }
        // the efforts above are not those of every model
        self.request.effort.map(|effort| match effort {
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High | Effort::Xhigh | Effort::Max => "high",
        })
    }

    fn response_format(&self) -> Option<Value> {
        let Expect::OneOf(one_of) = &self.request.expect else { return None };
        let schema = json!({"name": one_of.tag, "strict": true, "schema": label_schema(one_of)});
        self.takes_schema().then(|| json!({"type": "json_schema", "json_schema": schema}))
    }

    fn tool_choice(&self) -> Option<Value> {
        match &self.request.tool_choice {
            _ if self.tools.is_empty() => None,
            ToolChoice::Auto => None,
            ToolChoice::Any => Some("required".into()),
            ToolChoice::Tool(name) => Some(json!({"type": "function", "function": {"name": name}})),
            ToolChoice::None => Some("none".into()),
        }
    }
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let request = self.request;
        let mut body = Object::new(to.serialize_map(None)?, &request.extra);
        body.put("model", self.model)?;
        // OpenAI's newer models refuse the old name, other servers do not know the new one
        let limit = if self.host == Host::OpenAi { "max_completion_tokens" } else { "max_tokens" };
        body.put(limit, &request.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS))?;
        if self.stream {
            body.put("stream", &true)?;
            body.put("stream_options", &json!({"include_usage": true}))?;
        }
        if !self.tools.is_empty() {
            body.put("tools", &self.tools)?;
            body.put_if("parallel_tool_calls", request.disable_parallel_tool_use.then_some(false))?;
        }
        body.put_if("tool_choice", self.tool_choice())?;
        body.put("messages", &self.turns)?;
        if !request.stop_sequences.is_empty() {
            body.put("stop", &request.stop_sequences)?;
        }
        let takes_temperature = self.host != Host::OpenAi || !self.thinks();
        body.put_if("temperature", request.temperature.filter(|_| takes_temperature))?;
        body.put_if("reasoning_effort", self.effort())?;
        body.put_if("response_format", self.response_format())?;
        body.end(&[])
    }
}

fn refuse(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidRequest, message)
}

fn tool(tool: &ToolSpec) -> Result<Value> {
    let ToolSpec::Function { name, description, input_schema, strict } = tool else {
        return Err(refuse(
            "a tool that the service runs is Anthropic's alone; give the model a function instead",
        ));
    };
    let mut function = json!({"name": name, "description": description, "parameters": input_schema});
    if *strict && requires_all(input_schema) {
        function["strict"] = true.into();
    }
    Ok(json!({"type": "function", "function": function}))
}

/// Whether no argument may be left out, at any depth: the strict mode of chat completions knows no optional ones.
fn requires_all(schema: &Value) -> bool {
    let count = |key: &str| schema[key].as_array().map_or(0, Vec::len);
    match schema {
        Value::Object(map) => {
            let declared = map.get("properties").and_then(Value::as_object).map_or(0, serde_json::Map::len);
            declared == count("required") && map.values().all(requires_all)
        }
        Value::Array(all) => all.iter().all(requires_all),
        _ => true,
    }
}

/// The turns that a message is there: the results of tools come first, each as a turn of its own.
fn turns_of<'r>(message: &'r Message, turns: &mut Vec<Turn<'r>>) -> Result<()> {
    let mut tool_calls = Vec::new();
    for block in &message.content {
        if let Some(result) = block.as_tool_result() {
            let content = if result.is_error {
                format!("Error: {}", result.text).into()
            } else {
                Cow::Borrowed(result.text)
            };
            turns.push(Turn::Tool { tool_call_id: result.id, content });
        } else if let Some(call) = block.as_tool_use() {
            let function = Function { name: call.name, arguments: call.input.get() };
            tool_calls.push(Call { id: call.id, r#type: "function", function });
        } else if !matches!(block.kind(), "text" | "thinking" | "redacted_thinking") {
            let message =
                format!("a block of type `{}` has no place in chat completions; leave it out", block.kind());
            return Err(refuse(message));
        }
    }
    let content = message.text();
    match message.role {
        Role::User if !content.is_empty() => turns.push(Turn::User { content }),
        Role::User => {}
        Role::Assistant => {
            let content = (!content.is_empty()).then_some(content);
            if content.is_some() || !tool_calls.is_empty() {
                turns.push(Turn::Assistant { content, tool_calls });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::OneOf;

    #[test]
    fn openai_itself_gets_its_own_spellings() {
        let sent = |model: &str| {
            let request = Request {
                temperature: Some(0.5),
                effort: Some(Effort::Xhigh),
                ..Request::new("x").expect(Expect::OneOf(OneOf::new(["a", "b"])))
            };
            let body = Body::new(&request, model, Host::OpenAi).and_then(|body| body.to_json());
            serde_json::from_slice::<Value>(&body.unwrap()).unwrap()
        };
        let thinker = sent("gpt-5-mini");
        assert_eq!((&thinker["max_completion_tokens"], thinker.get("max_tokens")), (&json!(8192), None));
        assert_eq!((thinker.get("temperature"), &thinker["reasoning_effort"]), (None, &json!("high")));
        assert_eq!(thinker["response_format"]["type"], "json_schema");
        let talker = sent("gpt-4.1");
        assert_eq!((&talker["temperature"], talker.get("reasoning_effort")), (&json!(0.5), None));
        assert_eq!(talker["response_format"]["type"], "json_schema");
        assert_eq!(sent("gpt-4").get("response_format"), None);
        assert_eq!(sent("gpt-4-turbo").get("response_format"), None);
    }
}

//! One of a closed set of labels, for services that can be held to a JSON Schema.

use serde_json::{Map, Value, json};

use crate::llm::{OneOf, ToolSpec};
use crate::reply::Choice;

/// An object of the reasoning and then the label, so that the label is chosen after the thinking.
pub(super) fn label_schema(one_of: &OneOf) -> Value {
    let mut properties = Map::new();
    properties.insert(
        one_of.because.clone(),
        json!({"type": "string", "description": format!("Your {}, in a sentence or two.", one_of.because)}),
    );
    properties.insert(one_of.tag.clone(), json!({"type": "string", "enum": one_of.names()}));
    json!({
        "type": "object",
        "properties": properties,
        "required": [one_of.because, one_of.tag],
        "additionalProperties": false,
    })
}

/// The system prompt with the labels: what they stand for, if a schema says how to answer, or else how to answer too.
pub(super) fn system_with_labels(system: &str, one_of: &OneOf, by_schema: bool) -> String {
    let labels = if by_schema { one_of.menu() } else { one_of.envelope() };
    if system.is_empty() { labels } else { format!("{system}\n\n{labels}") }
}

/// The choice in a reply that follows the schema; nothing when it does not, as a cut or refused one.
pub(super) fn choice_of(text: &str, one_of: &OneOf) -> Option<Choice> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let object: Map<String, Value> = serde_json::from_str(text).ok()?;
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    // services do not promise the case of an enum
    let label = one_of.find(text(&one_of.tag)?)?.name.clone();
    Some(Choice { label, reasoning: text(&one_of.because).map(str::to_owned), probabilities: Vec::new() })
}

/// About how long a tool is in the prompt, in bytes. An estimate: the schema is not written out for it.
pub(super) fn tool_bytes(tool: &ToolSpec) -> usize {
    fn bytes(value: &Value) -> usize {
        match value {
            Value::String(text) => text.len() + 2,
            Value::Array(items) => items.iter().map(bytes).sum::<usize>() + 2,
            Value::Object(fields) => {
                fields.iter().map(|(key, value)| key.len() + 4 + bytes(value)).sum::<usize>() + 2
            }
            _ => 4,
        }
    }
    match tool {
        ToolSpec::Function { name, description, input_schema, .. } => {
            name.len() + description.len() + bytes(input_schema)
        }
        ToolSpec::Server(raw) => raw.get().len(),
    }
}

//! Messages and their content blocks, kept as they came.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user, or the program in the user's name (also tool results).
    User,
    /// The model.
    Assistant,
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who wrote it.
    pub role: Role,
    /// What was written, in order.
    pub content: Vec<Block>,
}

impl Message {
    /// A user's turn of one text.
    pub fn user(text: impl AsRef<str>) -> Self {
        Self { role: Role::User, content: vec![Block::text(text.as_ref())] }
    }

    /// A model's turn of one text.
    pub fn assistant(text: impl AsRef<str>) -> Self {
        Self { role: Role::Assistant, content: vec![Block::text(text.as_ref())] }
    }

    /// The text blocks, joined.
    pub fn text(&self) -> Cow<'_, str> {
        joined(&self.content)
    }
}

pub(crate) fn joined(content: &[Block]) -> Cow<'_, str> {
    let mut texts = content.iter().filter_map(Block::as_text);
    match (texts.next(), texts.next()) {
        (None, _) => Cow::Borrowed(""),
        (Some(only), None) => Cow::Borrowed(only),
        (Some(first), Some(second)) => {
            let mut all = format!("{first}{second}");
            all.extend(texts);
            Cow::Owned(all)
        }
    }
}

/// One content block, kept verbatim: raw JSON, key order, types that this library does not know.
///
/// A reply's blocks can therefore be sent back unchanged, which the Messages API demands of thinking blocks and
/// which keeps its prompt cache warm. Cloning shares the content.
#[derive(Clone)]
pub struct Block(Arc<Inner>);

struct Inner {
    raw: Box<RawValue>,
    view: View,
}

/// What the library reads of a block.
enum View {
    Text(String),
    ToolUse { id: String, name: String, input: Box<RawValue> },
    ToolResult { id: String, text: String, is_error: bool },
    Other(String),
}

/// A call of a tool, as the model asked for it.
#[derive(Clone, Copy, Debug)]
pub struct ToolUse<'a> {
    /// The call's id; the result must name it unchanged.
    pub id: &'a str,
    /// The tool's name.
    pub name: &'a str,
    /// The arguments: JSON as the model wrote it.
    pub input: &'a RawValue,
}

/// The result of a tool, as it is given to the model.
#[derive(Clone, Copy, Debug)]
pub struct ToolResult<'a> {
    /// The id of the call that this answers.
    pub id: &'a str,
    /// The result's text.
    pub text: &'a str,
    /// Whether the tool failed.
    pub is_error: bool,
}

impl Block {
    fn new(raw: Box<RawValue>, view: View) -> Self {
        Self(Arc::new(Inner { raw, view }))
    }

    /// A block of text.
    pub fn text(text: &str) -> Self {
        #[derive(Serialize)]
        struct Wire<'a> {
            r#type: &'static str,
            text: &'a str,
        }
        Self::new(raw(&Wire { r#type: "text", text }), View::Text(text.to_owned()))
    }

    /// A call of a tool, for histories that were not made by a model. `input` is the JSON of the arguments.
    pub fn tool_use(id: &str, name: &str, input: &RawValue) -> Self {
        #[derive(Serialize)]
        struct Wire<'a> {
            r#type: &'static str,
            id: &'a str,
            name: &'a str,
            input: &'a RawValue,
        }
        Self::new(
            raw(&Wire { r#type: "tool_use", id, name, input }),
            View::ToolUse { id: id.to_owned(), name: name.to_owned(), input: input.to_owned() },
        )
    }

    /// The result of a tool. `id` is the call's id; `is_error` says that the text explains a failure.
    pub fn tool_result(id: &str, text: &str, is_error: bool) -> Self {
        #[derive(Serialize)]
        struct Wire<'a> {
            r#type: &'static str,
            tool_use_id: &'a str,
            content: &'a str,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            is_error: bool,
        }
        Self::new(
            raw(&Wire { r#type: "tool_result", tool_use_id: id, content: text, is_error }),
            View::ToolResult { id: id.to_owned(), text: text.to_owned(), is_error },
        )
    }

    /// A block from its JSON, kept as it is. It must be an object with a `type`.
    ///
    /// # Errors
    /// When it is no object with a `type` of text, or a text or tool block lacks its fields.
    pub fn from_raw(raw: Box<RawValue>) -> Result<Self, serde_json::Error> {
        // each kind is read for itself: what stands in the fields of a kind that nobody here knows is its own affair
        #[derive(Deserialize)]
        struct Kind<'a> {
            #[serde(borrow)]
            r#type: Cow<'a, str>,
        }
        #[derive(Deserialize)]
        struct Text<'a> {
            #[serde(borrow)]
            r#type: Cow<'a, str>,
            text: String,
        }
        #[derive(Deserialize)]
        struct Use<'a> {
            id: String,
            name: String,
            #[serde(borrow)]
            input: &'a RawValue,
        }
        #[derive(Deserialize)]
        struct Output<'a> {
            tool_use_id: String,
            #[serde(borrow)]
            content: Option<&'a RawValue>,
            is_error: Option<bool>,
        }
        let json = raw.get();
        let view = match serde_json::from_str::<Text<'_>>(json) {
            // nearly all are texts: they are read in one go
            Ok(Text { r#type, text }) if r#type == "text" => View::Text(text),
            no_text => match &*serde_json::from_str::<Kind<'_>>(json)?.r#type {
                "text" => View::Text(no_text?.text),
                "tool_use" => {
                    let Use { id, name, input } = serde_json::from_str(json)?;
                    View::ToolUse { id, name, input: input.to_owned() }
                }
                "tool_result" => {
                    let Output { tool_use_id, content, is_error } = serde_json::from_str(json)?;
                    View::ToolResult {
                        id: tool_use_id,
                        text: content.map(result_text).unwrap_or_default(),
                        is_error: is_error.unwrap_or(false),
                    }
                }
                other => View::Other(other.to_owned()),
            },
        };
        Ok(Self::new(raw, view))
    }

    /// The block's type: `text`, `thinking`, `tool_use`, …
    pub fn kind(&self) -> &str {
        match &self.0.view {
            View::Text(_) => "text",
            View::ToolUse { .. } => "tool_use",
            View::ToolResult { .. } => "tool_result",
            View::Other(kind) => kind,
        }
    }

    /// The text, if this is a block of text.
    pub fn as_text(&self) -> Option<&str> {
        if let View::Text(text) = &self.0.view { Some(text) } else { None }
    }

    /// The call of a tool, if this is one.
    pub fn as_tool_use(&self) -> Option<ToolUse<'_>> {
        if let View::ToolUse { id, name, input } = &self.0.view {
            Some(ToolUse { id, name, input })
        } else {
            None
        }
    }

    /// The result of a tool, if this is one.
    pub fn as_tool_result(&self) -> Option<ToolResult<'_>> {
        if let View::ToolResult { id, text, is_error } = &self.0.view {
            Some(ToolResult { id, text, is_error: *is_error })
        } else {
            None
        }
    }

    /// The block's JSON, byte for byte as it came.
    pub fn raw(&self) -> &RawValue {
        &self.0.raw
    }
}

/// The text of a tool result's content: a string, or the text blocks of a list.
fn result_text(content: &RawValue) -> String {
    if let Ok(text) = serde_json::from_str::<String>(content.get()) {
        return text;
    }
    serde_json::from_str::<Vec<Block>>(content.get())
        .map(|blocks| joined(&blocks).into_owned())
        .unwrap_or_default()
}

/// JSON of a value that always has one (strings and raw JSON only).
fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.raw.get())
    }
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        self.0.raw.get() == other.0.raw.get()
    }
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.raw.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::from_raw(Box::<RawValue>::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_sent_back_byte_for_byte() {
        for json in [
            r#"{"type":"text","text":"caf\u00e9","citations":[{"b":1,"a":2.50}]}"#,
            r#"{"type":"thinking","thinking":"","signature":"Eq=="}"#,
            r#"{"type":"tool_use","id":"toolu_1","name":"search","input":{"z": 1, "a": 1e2}}"#,
            r#"{"type":"from_the_future","x":{"y":[null]}}"#,
            // the names of our fields mean something else in a kind that is not known
            r#"{"type":"from_the_future","text":{"a":1},"id":7,"name":[],"tool_use_id":0,"input":null,"is_error":"no"}"#,
            r#"{"type":"tool_use","id":"toolu_1","name":"search","input":null,"text":{}}"#,
        ] {
            let block: Block = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&block).unwrap(), json);
        }
    }

    #[test]
    fn only_text_blocks_are_text() {
        let content: Vec<Block> = serde_json::from_str(
            r#"[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"a"},{"type":"text","text":"b"}]"#,
        )
        .unwrap();
        assert_eq!(joined(&content), "ab");
    }
}

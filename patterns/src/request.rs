//! One call: what is sent, and who hears of it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::event::Event;
use crate::message::Message;
use crate::path::Path;

/// The reply's length when the request does not say, in tokens. Below the length from which a reply has to be streamed.
pub const DEFAULT_MAX_TOKENS: u32 = 8_192;

/// One call: a conversation, and what is wanted of the reply.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Request {
    /// Another model than the connection's own: `provider:model`, or a model of the same provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The system prompt; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub system: String,
    /// The conversation, oldest turn first.
    pub messages: Vec<Message>,
    /// The longest reply in tokens, thinking included. `None` leaves it to the provider
    /// ([`DEFAULT_MAX_TOKENS`] over HTTP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Texts at which the reply ends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// How hard the model shall think, where it can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Sampling temperature, 0 and up, for providers that take one. Claude models of 2026 refuse it, so it is not
    /// sent there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// The tools that the model may call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// Whether it must call one.
    #[serde(skip_serializing_if = "is_default")]
    pub tool_choice: ToolChoice,
    /// Whether it may call at most one at a time.
    #[serde(skip_serializing_if = "is_default")]
    pub disable_parallel_tool_use: bool,
    /// What the reply shall be.
    #[serde(skip_serializing_if = "is_default")]
    pub expect: Expect,
    /// Further fields of the provider's own API, sent as they are.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub extra: serde_json::Map<String, serde_json::Value>,
    /// Which of several samples of the same request this is, from 1; 0 when there is only one. No cache or journal
    /// may answer two samples with one reply.
    #[serde(skip_serializing_if = "is_default")]
    pub sample: u32,
    /// Where in the flow the call is made.
    #[serde(skip)]
    pub path: Path,
    /// Hears the text of the reply as it is written.
    #[serde(skip)]
    pub on_text: Option<OnText>,
    /// Hears what happens to this call: retries, waits, its end. Set by the outermost layer that listens; layers and
    /// providers speak through [`tell`](Request::tell).
    #[serde(skip)]
    pub on_event: Option<OnEvent>,
}

/// What is left out of what is written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Request {
    /// A request of one user's turn.
    pub fn new(prompt: impl AsRef<str>) -> Self {
        Self { messages: vec![Message::user(prompt)], ..Self::default() }
    }

    /// Sets the system prompt.
    #[must_use]
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = system.into();
        self
    }

    /// Sets what the reply shall be.
    #[must_use]
    pub fn expect(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    /// Names the place in the flow.
    #[must_use]
    pub fn at(mut self, segment: &str) -> Self {
        self.path.prepend(segment);
        self
    }

    /// Tells whoever listens what happens to this call.
    pub fn tell(&self, event: &Event) {
        if let Some(on_event) = &self.on_event {
            on_event.hear(&self.path, event);
        }
    }

    /// As [`tell`](Self::tell), for an event that is not worth making when nobody listens.
    pub fn tell_with(&self, event: impl FnOnce() -> Event) {
        if let Some(on_event) = &self.on_event {
            on_event.hear(&self.path, &event());
        }
    }

    /// Hands each event of this call to `first`, then to whoever listened before.
    pub(crate) fn overhear(&mut self, first: impl Fn(&Event) + Send + Sync + 'static) {
        self.listen(move |_, event| first(event));
    }

    /// Hands each event of this call and its place to `first`, then to whoever listened before: how a layer hears what the
    /// layers further in and the provider tell.
    pub fn listen(&mut self, first: impl Fn(&Path, &Event) + Send + Sync + 'static) {
        let before = self.on_event.take();
        self.on_event = Some(OnEvent::new(move |path, event| {
            first(path, event);
            if let Some(before) = &before {
                before.hear(path, event);
            }
        }));
    }

    /// The text of the last turn.
    pub fn text(&self) -> String {
        self.messages.last().map(|message| message.text().into_owned()).unwrap_or_default()
    }
}

impl From<&str> for Request {
    fn from(prompt: &str) -> Self {
        Self::new(prompt)
    }
}

/// What a reply shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Expect {
    /// A text.
    #[default]
    Text,
    /// One of a closed set of labels. A provider may choose by its own means (scores, constrained decoding) and say so
    /// in [`Reply::choice`](crate::Reply::choice); otherwise it adds [`OneOf::envelope`] to the prompt, and the caller reads the text.
    OneOf(OneOf),
}

/// A label and what it stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Label {
    /// The label itself: a word or two.
    pub name: String,
    /// What it stands for, in one sentence; may be empty.
    #[serde(default)]
    pub description: String,
}

impl From<&str> for Label {
    fn from(name: &str) -> Self {
        Self { name: name.to_owned(), description: String::new() }
    }
}

impl From<String> for Label {
    fn from(name: String) -> Self {
        Self { name, description: String::new() }
    }
}

impl<N: Into<String>, D: Into<String>> From<(N, D)> for Label {
    fn from((name, description): (N, D)) -> Self {
        Self { name: name.into(), description: description.into() }
    }
}

/// A closed set of labels, and the tags in which a model that can only be told in words shall answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OneOf {
    /// The labels.
    pub labels: Vec<Label>,
    /// The tag of the label: `label`.
    pub tag: String,
    /// The tag of what comes before it, the reasoning or the feedback: `reasoning`.
    pub because: String,
}

impl OneOf {
    /// These labels, in a `<label>` tag after some `<reasoning>`.
    pub fn new<L: Into<Label>>(labels: impl IntoIterator<Item = L>) -> Self {
        Self {
            labels: labels.into_iter().map(Into::into).collect(),
            tag: "label".to_owned(),
            because: "reasoning".to_owned(),
        }
    }

    /// The names of the labels.
    pub fn names(&self) -> Vec<&str> {
        self.labels.iter().map(|label| label.name.as_str()).collect()
    }

    /// The label of this name, spelled as declared; compared without regard to case.
    pub fn find(&self, name: &str) -> Option<&Label> {
        let name = name.trim();
        self.labels
            .iter()
            .find(|label| label.name == name)
            .or_else(|| self.labels.iter().find(|label| label.name.to_lowercase() == name.to_lowercase()))
    }

    /// The part of a prompt that lists the labels with what they stand for.
    pub(crate) fn menu(&self) -> String {
        let mut text = String::from("Choose exactly one of these:\n");
        for label in &self.labels {
            text.push_str("- ");
            text.push_str(&label.name);
            if !label.description.is_empty() {
                text.push_str(": ");
                text.push_str(&label.description);
            }
            text.push('\n');
        }
        text
    }

    /// The part of a prompt that asks for one of the labels, for providers that can only be told in words.
    pub fn envelope(&self) -> String {
        let Self { tag, because, .. } = self;
        format!(
            "{}First give your {because} in <{because}></{because}> tags, in a sentence or two. \
             Then give your choice, spelled as above and nothing else, in <{tag}></{tag}> tags.",
            self.menu()
        )
    }
}

/// How hard a model shall think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // the words of the Messages API, least first
pub enum Effort {
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

/// A tool as the model sees it.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum ToolSpec {
    /// A tool that the caller runs.
    Function {
        /// Its name: letters, digits, `_` and `-`, at most 64.
        name: String,
        /// What it does and when to use it.
        description: String,
        /// The JSON Schema of its arguments.
        input_schema: serde_json::Value,
        /// Whether the provider shall hold the model to the schema.
        #[serde(skip_serializing_if = "is_default")]
        strict: bool,
    },
    /// A tool that the service runs, or knows by its type: passed through as it is.
    Server(Box<RawValue>),
}

/// Whether the model must call a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// It must call one.
    Any,
    /// It must call this one.
    Tool(String),
    /// It must not.
    None,
}

/// A listener for the text of a reply, called with each piece as it comes.
#[derive(Clone)]
pub struct OnText {
    listen: Arc<dyn Fn(&str) + Send + Sync>,
    shows: bool,
}

impl OnText {
    /// Calls `listen` with each piece. It must not block.
    pub fn new(listen: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { listen: Arc::new(listen), shows: true }
    }

    /// Asks for a streamed reply that is shown to nobody, so that a call may still be made anew after its text has
    /// begun.
    pub fn unseen() -> Self {
        Self::provisional(|_| ())
    }

    /// Calls `listen` with each piece, and lets the call be made anew after its text has begun. The listener copes with
    /// that: [`Event::Retried`] and [`Event::Continued`] tell it.
    pub fn provisional(listen: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { listen: Arc::new(listen), shows: false }
    }

    /// Whether somebody sees the text, so that it cannot be taken back.
    pub fn shows(&self) -> bool {
        self.shows
    }

    /// Hands on a piece.
    pub fn hear(&self, piece: &str) {
        (self.listen)(piece);
    }

    /// Both listeners; `self` hears each piece first.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let shows = self.shows || other.shows;
        Self { shows, ..other.after(move |piece| self.hear(piece)) }
    }

    /// Hands each piece to `first`, then to this listener.
    #[must_use]
    pub(crate) fn after(self, first: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let Self { listen, shows } = self;
        let both = move |piece: &str| {
            first(piece);
            listen(piece);
        };
        Self { listen: Arc::new(both), shows }
    }
}

impl fmt::Debug for OnText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnText")
    }
}

/// A listener for what happens to a call, told with the place of the call.
#[derive(Clone)]
pub struct OnEvent(Arc<HearEvent>);

type HearEvent = dyn Fn(&Path, &Event) + Send + Sync;

impl OnEvent {
    /// Calls `listen` with each event. It must not block.
    pub fn new(listen: impl Fn(&Path, &Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listen))
    }

    /// Hands on an event.
    pub fn hear(&self, path: &Path, event: &Event) {
        (self.0)(path, event);
    }
}

impl fmt::Debug for OnEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnEvent")
    }
}

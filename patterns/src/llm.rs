//! The one function: a call to a language model.

use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::Result;
use crate::event::Event;
use crate::layers::{
    Budget, Chaos, Complete, Journal, Layer, Layered, Limit, Meter, Observe, Record, Retry, Warm,
};
use crate::message::Message;
use crate::path::Path;
use crate::reply::Reply;

/// The reply's length when the request does not say, in tokens. Below the length from which a reply has to be streamed.
pub const DEFAULT_MAX_TOKENS: u32 = 8_192;

/// A language model: one function from a [`Request`] to a [`Reply`].
///
/// Providers implement it, layers wrap it, and any `async` function or closure of that shape is one:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use patterns::{Llm, Reply, Request};
///
/// let echo = async |request: Request| Ok(Reply::text_of(request.text()));
/// assert_eq!(echo.ask("hello").await?, "hello");
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a language model",
    note = "an `async` closure `async |request: patterns::Request| -> patterns::Result<patterns::Reply>` is one, if it captures by reference and its future is `Send`"
)]
pub trait Llm: Send + Sync {
    /// Answers one request.
    ///
    /// # Errors
    /// When there is no reply; a reply that stopped early is not an error here but has its
    /// [`stop`](crate::Reply::stop).
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>>;

    /// Hears what happens in a run: a gate closed, a vote was decided. Layers pass it on; by default nobody listens.
    fn note(&self, path: Path, event: Event) {
        let _ = (path, event);
    }

    /// The model that would answer this request, as `provider:model`, if that is known beforehand.
    fn model(&self, request: &Request) -> Option<String> {
        request.model.clone()
    }

    /// Where in the flow this model is called from: what is put in front of every path. The root outside of any pattern.
    fn place(&self) -> Path {
        Path::root()
    }

    /// Who hears the answer of the whole flow while it is written, if the prompt that is run next writes it.
    #[doc(hidden)]
    fn answer_to(&self) -> Option<OnText> {
        None
    }

    /// Sends one prompt and gives the text of the finished answer.
    ///
    /// # Errors
    /// Those of the call, and those of [`Reply::into_answer`].
    fn ask<'a>(&'a self, prompt: &'a str) -> BoxFuture<'a, Result<String>> {
        async move { self.call(Request::new(prompt)).await?.into_answer() }.boxed()
    }

    /// This model with `layer` round it; see [`layers`](crate::layers).
    fn layer<K: Layer>(self, layer: K) -> Layered<K, Self>
    where
        Self: Sized,
    {
        Layered::new(layer, self)
    }

    /// Brings replies that stopped early to their end; see [`Complete`].
    fn complete(self, complete: Complete) -> Layered<Complete, Self>
    where
        Self: Sized,
    {
        self.layer(complete)
    }

    /// Tries again what may succeed later; see [`Retry`].
    fn retry(self, retry: Retry) -> Layered<Retry, Self>
    where
        Self: Sized,
    {
        self.layer(retry)
    }

    /// At most `n` calls under way at once, over everything nested; see [`Limit`].
    fn at_most(self, n: usize) -> Layered<Limit, Self>
    where
        Self: Sized,
    {
        self.layer(Limit::at_most(n))
    }

    /// Bounds the calls under way, also per minute or together with other models; see [`Limit`].
    fn limit(self, limit: &Limit) -> Layered<Limit, Self>
    where
        Self: Sized,
    {
        self.layer(limit.clone())
    }

    /// Bounds what may be used; see [`Budget`].
    fn budget(self, budget: &Budget) -> Layered<Budget, Self>
    where
        Self: Sized,
    {
        self.layer(budget.clone())
    }

    /// Writes down every reply and answers from what is written; see [`Journal`].
    fn journal(self, journal: &Journal) -> Layered<Journal, Self>
    where
        Self: Sized,
    {
        self.layer(journal.clone())
    }

    /// Lets one of several calls with the same beginning go first; see [`Warm`].
    fn warm(self, warm: Warm) -> Layered<Warm, Self>
    where
        Self: Sized,
    {
        self.layer(warm)
    }

    /// Writes down what the model answers, as a script; see [`Record`].
    fn record(self, record: Record) -> Layered<Record, Self>
    where
        Self: Sized,
    {
        self.layer(record)
    }

    /// Fails at random, for rehearsal; see [`Chaos`].
    fn chaos(self, chaos: Chaos) -> Layered<Chaos, Self>
    where
        Self: Sized,
    {
        self.layer(chaos)
    }

    /// Adds up usage and cost; see [`Meter`].
    fn meter(self, meter: &Meter) -> Layered<Meter, Self>
    where
        Self: Sized,
    {
        self.layer(meter.clone())
    }

    /// Tells `listen` what happens, and where in the flow; see [`Observe`].
    fn observe(self, listen: impl Fn(&Path, Event) + Send + Sync + 'static) -> Layered<Observe, Self>
    where
        Self: Sized,
    {
        self.layer(Observe::new(listen))
    }

    /// Hands the answer of a flow to `on_text` while it is written, where it is certain which call writes it: a prompt,
    /// the last step of a chain, the way that a route takes, the merge of an orchestrator. A text that may still be
    /// rejected (before a gate, a draft, a ballot) or is one of several is handed to nobody.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> patterns::Result<()> {
    /// use std::sync::{Arc, Mutex};
    /// use patterns::providers::Script;
    /// use patterns::{Flow, Llm, OnText};
    ///
    /// let heard = Arc::new(Mutex::new(String::new()));
    /// let on_text = OnText::new({
    ///     let heard = Arc::clone(&heard);
    ///     move |piece| heard.lock().unwrap().push_str(piece)
    /// });
    /// let llm = Script::replies(["an outline", "an article"]).on_answer(on_text);
    /// "Outline.".then("Write.").run(&llm, "bees").await?;
    /// assert_eq!(*heard.lock().unwrap(), "an article");
    /// # Ok(()) }
    /// ```
    fn on_answer(self, on_text: OnText) -> OnAnswer<Self>
    where
        Self: Sized,
    {
        OnAnswer { llm: self, on_text }
    }
}

/// A model with a listener for the answer of a flow; made by [`Llm::on_answer`].
#[derive(Clone)]
pub struct OnAnswer<L> {
    llm: L,
    on_text: OnText,
}

impl<L: Llm> Llm for OnAnswer<L> {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        self.llm.call(request)
    }
    fn note(&self, path: Path, event: Event) {
        self.llm.note(path, event);
    }
    fn model(&self, request: &Request) -> Option<String> {
        self.llm.model(request)
    }
    fn place(&self) -> Path {
        self.llm.place()
    }
    fn answer_to(&self) -> Option<OnText> {
        Some(self.on_text.clone())
    }
}

impl<L> fmt::Debug for OnAnswer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnAnswer").finish_non_exhaustive()
    }
}

mod sealed {
    use super::{Reply, Request, Result};

    /// Names the future of an async function, which spares its callers a `'static` bound.
    pub trait AsyncCall: Send + Sync {
        type Future: Future<Output = Result<Reply>> + Send;
        fn start(&self, request: Request) -> Self::Future;
    }

    impl<F, Fut> AsyncCall for F
    where
        F: Fn(Request) -> Fut + Send + Sync,
        Fut: Future<Output = Result<Reply>> + Send,
    {
        type Future = Fut;
        fn start(&self, request: Request) -> Fut {
            self(request)
        }
    }
}

impl<F: sealed::AsyncCall> Llm for F {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        self.start(request).boxed()
    }
}

macro_rules! forward {
    ($($of:ty, [$($generics:tt)*];)*) => {$(
        impl<$($generics)*> Llm for $of {
            fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
                (**self).call(request)
            }
            fn note(&self, path: Path, event: Event) {
                (**self).note(path, event);
            }
            fn model(&self, request: &Request) -> Option<String> {
                (**self).model(request)
            }
            fn place(&self) -> Path {
                (**self).place()
            }
            fn answer_to(&self) -> Option<OnText> {
                (**self).answer_to()
            }
        }
    )*};
}
forward! {
    Arc<L>, [L: Llm + ?Sized];
    Box<dyn Llm + '_>, [];
    &dyn Llm, [];
}

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
    #[serde(skip_serializing_if = "ToolChoice::is_auto")]
    pub tool_choice: ToolChoice,
    /// Whether it may call at most one at a time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disable_parallel_tool_use: bool,
    /// What the reply shall be.
    #[serde(skip_serializing_if = "Expect::is_text")]
    pub expect: Expect,
    /// Further fields of the provider's own API, sent as they are.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub extra: serde_json::Map<String, serde_json::Value>,
    /// Which of several samples of the same request this is, from 1; 0 when there is only one. No cache or journal
    /// may answer two samples with one reply.
    #[serde(skip_serializing_if = "is_zero")]
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

#[allow(clippy::trivially_copy_pass_by_ref)] // the shape that serde asks for
fn is_zero(n: &u32) -> bool {
    *n == 0
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
    pub fn tell(&self, event: Event) {
        if let Some(on_event) = &self.on_event {
            on_event.hear(&self.path, event);
        }
    }

    /// As [`tell`](Self::tell), for an event that is not worth making when nobody listens.
    pub fn tell_with(&self, event: impl FnOnce() -> Event) {
        if let Some(on_event) = &self.on_event {
            on_event.hear(&self.path, event());
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
            first(path, &event);
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
    /// in [`Reply::choice`]; otherwise it adds [`OneOf::envelope`] to the prompt, and the caller reads the text.
    OneOf(OneOf),
}

impl Expect {
    fn is_text(&self) -> bool {
        *self == Self::Text
    }
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
        #[serde(skip_serializing_if = "std::ops::Not::not")]
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

impl ToolChoice {
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
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

type HearEvent = dyn Fn(&Path, Event) + Send + Sync;

impl OnEvent {
    /// Calls `listen` with each event. It must not block.
    pub fn new(listen: impl Fn(&Path, Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listen))
    }

    /// Hands on an event.
    pub fn hear(&self, path: &Path, event: Event) {
        (self.0)(path, event);
    }
}

impl fmt::Debug for OnEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnEvent")
    }
}

//! The small model that runs inside the process.

use std::fmt;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use patterns_embedded::{self as engine, Engine, Options, weights};
use tokio::sync::OnceCell;

use super::Progress;
use crate::error::{Error, ErrorKind, Result};
use crate::llm::{Expect, Llm, OneOf, Request};
use crate::message::{Block, Role};
use crate::reply::{Choice, Reply, Stop, Usage};

/// The longest reply when the request does not say, in tokens.
const MAX_TOKENS: u32 = 512;
/// How freely it writes when several samples are wanted of one request and the request does not say.
const TEMPERATURE: f32 = 0.7;
/// Without a system prompt the model's template puts in one of its own, with which it answers much worse.
const SYSTEM: &str = "You are a helpful assistant.";

/// The small model that runs inside the process: [`patterns_embedded`] as a provider.
///
/// It is loaded by the first call, or by [`prepare`](Self::prepare), and shared by all clones. One of a set of labels is
/// not asked for but scored, on the text of the last turn, which gives a probability for each; the descriptions decide,
/// so give some. Otherwise it answers the conversation: greedily, or for
/// [samples](Request::sample) at temperature 0.7, each with its own seed. It knows texts only, and no tools.
#[derive(Clone, Default)]
pub struct Embedded {
    file: Option<PathBuf>,
    engine: Arc<OnceCell<Engine>>,
}

impl Embedded {
    /// The model whose weights `PATTERNS_MODEL_FILE` names, or else the built-in one, whose weights are fetched once.
    pub fn new() -> Self {
        Self::default()
    }

    /// The model in a GGUF file of the llama architecture.
    pub fn from_file(file: impl AsRef<FilePath>) -> Self {
        Self { file: Some(file.as_ref().to_owned()), ..Self::default() }
    }

    /// Finds or fetches the weights, and loads them, unless that is done. `progress` hears how far fetching is.
    ///
    /// # Errors
    /// [`Config`](ErrorKind::Config) when the weights cannot be had or are unusable; the message says what to do.
    pub async fn prepare(&self, mut progress: impl FnMut(Progress) + Send + 'static) -> Result<()> {
        let told = move |weights::Progress { done, total }| progress(Progress { done, total });
        self.engine(told).await.map(drop)
    }

    async fn engine(&self, progress: impl FnMut(weights::Progress) + Send + 'static) -> Result<&Engine> {
        let load = async {
            let file = match &self.file {
                Some(file) => file.clone(),
                None => weights::ensure(progress).await?,
            };
            Engine::open(file).await
        };
        self.engine.get_or_try_init(|| load).await.map_err(error)
    }

    /// `embedded`, or `embedded:FILE`.
    fn name(&self) -> String {
        match &self.file {
            Some(file) => format!("embedded:{}", file.display()),
            None => "embedded".to_owned(),
        }
    }

    async fn answer(&self, request: &Request) -> Result<Reply> {
        let messages = conversation(request)?;
        let engine = self.engine(|_| ()).await?;
        let reply = match &request.expect {
            Expect::OneOf(one_of) => choose(engine, &request.text(), one_of).await?,
            _ => generate(engine, &messages, request).await?,
        };
        Ok(Reply { model: format!("embedded:{}", engine.name()), ..reply })
    }
}

/// The conversation as the engine takes it.
fn conversation(request: &Request) -> Result<Vec<engine::Message>> {
    let refuse = |what: &str| {
        let message = format!("the embedded model {what}; use a larger model for that");
        Err(Error::new(ErrorKind::InvalidRequest, message))
    };
    if !request.tools.is_empty() {
        return refuse("calls no tools");
    }
    let system = if request.system.is_empty() { SYSTEM } else { &request.system };
    let mut messages = vec![engine::Message::system(system)];
    for message in &request.messages {
        let is_text = |block: &Block| matches!(block.kind(), "text" | "thinking" | "redacted_thinking");
        if let Some(block) = message.content.iter().find(|block| !is_text(block)) {
            return refuse(&format!("takes texts only, no block of type `{}`", block.kind()));
        }
        let text = message.text();
        messages.push(match message.role {
            Role::User => engine::Message::user(text),
            Role::Assistant => engine::Message::assistant(text),
        });
    }
    Ok(messages)
}

async fn choose(engine: &Engine, text: &str, one_of: &OneOf) -> Result<Reply> {
    let choices: Vec<_> = one_of
        .labels
        .iter()
        .map(|label| {
            let described = if label.description.is_empty() { &label.name } else { &label.description };
            engine::Choice::new(&label.name, described)
        })
        .collect();
    let text = unwrapped(text);
    let probabilities = engine.choose(text, "text", &choices).await.map_err(error)?;
    let scored = one_of.names().into_iter().map(str::to_owned).zip(probabilities);
    let probabilities: Vec<(String, f64)> = scored.collect();
    let best = probabilities.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let label = best.map(|(label, _)| label.clone()).unwrap_or_default();
    Ok(Reply {
        content: vec![Block::text(&format!("<{tag}>{label}</{tag}>", tag = one_of.tag))],
        choice: Some(Choice { label, reasoning: None, probabilities }),
        ..Reply::default()
    })
}

/// The text inside of the one tag that it may be wrapped in: the model scores texts, and tags are not of the text.
fn unwrapped(text: &str) -> &str {
    let inside = || {
        let (tag, rest) = text.trim().strip_prefix('<')?.split_once('>')?;
        let inside = rest.strip_suffix('>')?.strip_suffix(tag)?.strip_suffix("</")?;
        (!tag.contains(['<', '/', ' ']) && !inside.trim().is_empty()).then_some(inside.trim())
    };
    inside().unwrap_or(text)
}

async fn generate(engine: &Engine, messages: &[engine::Message], request: &Request) -> Result<Reply> {
    let most = u32::try_from(engine.context_length()).unwrap_or(u32::MAX);
    let options = Options {
        max_tokens: request.max_tokens.unwrap_or(MAX_TOKENS).min(most) as usize,
        temperature: request.temperature.unwrap_or(if request.sample == 0 { 0.0 } else { TEMPERATURE }),
        seed: request.sample.into(),
        stop: request.stop_sequences.clone(),
        ..Options::default()
    };
    let hear = |piece: &str| {
        if let Some(on_text) = &request.on_text {
            on_text.hear(piece);
        }
    };
    let generated = engine.generate(messages, &options, hear).await.map_err(error)?;
    let stop = match generated.stop {
        engine::Stop::EndOfTurn => Stop::EndTurn,
        engine::Stop::MaxTokens => Stop::MaxTokens,
        engine::Stop::StopSequence(text) => Stop::StopSequence(text),
        engine::Stop::ContextFull => Stop::ContextWindow,
    };
    let usage = Usage {
        input_tokens: generated.prompt_tokens as u64,
        output_tokens: generated.output_tokens as u64,
        ..Usage::default()
    };
    Ok(Reply { content: vec![Block::text(&generated.text)], stop, usage, ..Reply::default() })
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` hands it over
fn error(error: engine::Error) -> Error {
    let kind = match error.kind() {
        engine::ErrorKind::MissingWeights | engine::ErrorKind::BadFile => ErrorKind::Config,
        engine::ErrorKind::ContextOverflow => ErrorKind::ContextWindow,
        engine::ErrorKind::BadRequest => ErrorKind::InvalidRequest,
        _ => ErrorKind::Server,
    };
    // the same machine fails the same way again
    Error::new(kind, error.to_string()).with_transient(false)
}

impl Llm for Embedded {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        async move {
            let reply = self.answer(&request).await;
            reply.map_err(|error| error.at(&request.path).with_model(self.name()))
        }
        .boxed()
    }

    fn model(&self, _: &Request) -> Option<String> {
        Some(self.name())
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Embedded").field(&self.name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::wrap;

    #[test]
    fn the_text_is_scored_without_its_wrapping() {
        for (text, inside) in [
            (wrap("input", "charged twice").as_str(), "charged twice"),
            ("charged twice", "charged twice"),
            ("<b>charged</b> twice", "<b>charged</b> twice"),
            ("<input>\n</input>", "<input>\n</input>"),
            ("<a href='x'>y</a>", "<a href='x'>y</a>"),
        ] {
            assert_eq!(unwrapped(text), inside);
        }
    }

    #[tokio::test]
    async fn what_it_cannot_do_is_said_before_it_is_loaded() {
        let nowhere = Embedded::from_file("/no/such/file.gguf");
        let tool = crate::llm::ToolSpec::Function {
            name: "search".into(),
            description: String::new(),
            input_schema: serde_json::Value::Null,
            strict: false,
        };
        let mut result = Request::new("x");
        result.messages[0].content = vec![Block::tool_result("t", "x", false)];
        for request in [Request { tools: vec![tool], ..Request::new("x") }, result] {
            let error = nowhere.call(request).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        }
        let error = nowhere.call(Request::new("x").at("draft")).await.unwrap_err();
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Config, false));
        assert_eq!((error.path().as_str(), error.model()), ("draft", Some("embedded:/no/such/file.gguf")));
        assert!(nowhere.prepare(|_| ()).await.is_err());
    }
}

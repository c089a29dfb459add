//! Claude, by the Messages API.

mod body;
mod models;
mod quota;
mod reply;
mod stream;

use futures::future::{BoxFuture, FutureExt};

use self::body::Body;
pub use self::models::{Model, Thinking};
use self::reply::Wire;
use self::stream::Assembly;
use super::Named;
use super::env::Env;
use super::http::{Answer, Endpoint, Headers, Timeouts, from_json};
use super::receive::receive;
use super::secret::Secret;
use crate::error::{Error, ErrorKind, Result};
use crate::llm::{Llm, Request};
use crate::reply::Reply;

/// The version of the API that is asked for by default.
const VERSION: &str = "2026-10-21";
const BASE_URL: &str = "https://api.anthropic.com";

/// In which header the key is sent. Never in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// `authorization: Bearer …`, as the official SDKs do.
    Bearer,
    /// `x-api-key: …`, for gateways that know only that.
    ApiKey,
}

/// Claude by the Messages API, or another model behind the same API (Ollama and llama.cpp have it too).
///
/// One attempt per call; trying again is the business of a layer. A reply is streamed when somebody listens to its text
/// or when it may be long (`max_tokens` from 21,334 on), otherwise it comes as one body, which costs half the work.
///
/// No request is sent that the model is known to refuse. A forced `tool_choice`, a prefill, a sampling knob in `extra`
/// or a thinking budget, where the model takes none, is an [`InvalidRequest`](ErrorKind::InvalidRequest); a
/// [`temperature`](Request::temperature) is left out; an unknown effort becomes the next lower one; `max_tokens` is
/// lowered to what the model can write. [`Model`] says what is known.
///
/// A prompt long enough to be cached is marked so (`cache_control`); `extra.cache_control`, also as null, leaves that
/// to the caller. Further fields of the API go into [`extra`](Request::extra); `betas` there becomes the
/// `anthropic-beta` header.
#[derive(Clone)]
pub struct Anthropic {
    endpoint: Endpoint,
    model: Named,
    version: String,
}

/// What an [`Anthropic`] is made of.
#[derive(Clone)]
#[must_use = "a set-up does nothing until `build`"]
pub struct AnthropicBuilder {
    model: String,
    key: Option<(Secret, Auth)>,
    base_url: String,
    headers: Vec<(String, Secret)>,
    timeouts: Timeouts,
}

impl Anthropic {
    /// This model, with a key.
    pub fn builder(model: impl Into<String>, key: impl Into<Secret>) -> AnthropicBuilder {
        AnthropicBuilder { key: Some((key.into(), Auth::Bearer)), ..AnthropicBuilder::keyless(model.into()) }
    }

    /// This model, set up by `ANTHROPIC_API_KEY` (or else `ANTHROPIC_AUTH_TOKEN`), `ANTHROPIC_BASE_URL` (without `/v1`)
    /// and `ANTHROPIC_CUSTOM_HEADERS` (`Name: value`, one a line; they replace ours of the same name, the version's and
    /// the key's too).
    ///
    /// # Errors
    /// [`Config`](ErrorKind::Config) when there is no key for Anthropic's own address, or one of the values is unusable.
    pub fn from_env(model: &str, env: &Env) -> Result<Self> {
        let mut builder = AnthropicBuilder::keyless(model.to_owned());
        let key = env.get("ANTHROPIC_API_KEY").or_else(|| env.get("ANTHROPIC_AUTH_TOKEN"));
        builder.key = key.map(|key| (key.into(), Auth::Bearer));
        if let Some(url) = env.get("ANTHROPIC_BASE_URL") {
            builder.base_url = url;
        }
        for line in env.get("ANTHROPIC_CUSTOM_HEADERS").iter().flat_map(|lines| lines.lines()) {
            if let Some((name, value)) = line.split_once(':') {
                builder = builder.header(name.trim(), value.trim());
            } else if !line.trim().is_empty() {
                let message = "ANTHROPIC_CUSTOM_HEADERS has a line that is not `Name: value`";
                return Err(Error::new(ErrorKind::Config, message));
            }
        }
        let has_auth = builder.key.is_some() || builder.headers.iter().any(|(name, _)| is_auth(name));
        if !has_auth && builder.base_url == BASE_URL {
            let message = format!(
                "there is no key for anthropic:{model}; set ANTHROPIC_API_KEY, or use a model that needs none, such as `embedded`"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        builder.build()
    }
}

fn is_auth(name: &str) -> bool {
    name.eq_ignore_ascii_case("authorization") || name.eq_ignore_ascii_case("x-api-key")
}

impl AnthropicBuilder {
    fn keyless(model: String) -> Self {
        Self {
            model,
            key: None,
            base_url: BASE_URL.to_owned(),
            headers: Vec::new(),
            timeouts: Timeouts::default(),
        }
    }

    /// In which header the key is sent. By default [`Auth::Bearer`].
    pub fn auth(mut self, auth: Auth) -> Self {
        if let Some((_, how)) = &mut self.key {
            *how = auth;
        }
        self
    }

    /// Another address, without `/v1`.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = url.into();
        self
    }

    /// Another version of the API. By default `2026-10-21`; `2023-06-01` is the one before.
    pub fn version(self, version: &str) -> Self {
        self.header("anthropic-version", version)
    }

    /// A further header, or another value for one of ours.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// How long a call may take.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// The provider. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Config`](ErrorKind::Config) for an unusable address, header or key.
    pub fn build(self) -> Result<Anthropic> {
        let mut headers = Headers::new();
        headers.set("anthropic-version", VERSION)?;
        let own_auth = self.headers.iter().any(|(name, _)| is_auth(name));
        match self.key.filter(|_| !own_auth) {
            Some((key, Auth::Bearer)) => headers.secret("authorization", "Bearer ", key)?,
            Some((key, Auth::ApiKey)) => headers.secret("x-api-key", "", key)?,
            None => {}
        }
        headers.own(self.headers)?;
        let version = headers.get("anthropic-version").unwrap_or(VERSION).to_owned();
        let endpoint = Endpoint::new(&self.base_url, "/v1/messages", headers, self.timeouts)?;
        Ok(Anthropic { endpoint, model: Named::new("anthropic", &self.model), version })
    }
}

impl Anthropic {
    async fn attempt(&self, request: &Request, model: &str) -> Result<Reply> {
        let body = Body::new(request, model, &self.version)?;
        let betas = request.extra.get("betas").map(betas).transpose()?;
        let answer = self.endpoint.post(body.to_json()?, body.stream, betas.as_deref()).await?;
        quota::tell(&answer, request);
        let mut reply = receive(answer, request, Assembly::new(request), read).await?;
        reply.model = self.model.answered(&reply.model, model);
        Ok(reply)
    }
}

/// Reads a reply that came as one body.
fn read(answer: &Answer<'_>, body: &[u8]) -> Result<Reply> {
    let wire: Wire = from_json(body).map_err(|error| answer.not_json(body, error))?;
    if wire.r#type.as_deref() == Some("error") {
        return Err(answer.failed(body));
    }
    let usage = wire.usage.unwrap_or_default().into();
    let (Some(content), Some(reason)) = (wire.content, wire.stop_reason) else {
        return Err(answer
            .malformed("a message without content or without a stop reason", body)
            .with_usage(usage));
    };
    Ok(Reply {
        content,
        stop: reply::stop(&reason, wire.stop_sequence, wire.stop_details),
        usage,
        model: wire.model.unwrap_or_default(),
        id: wire.id,
        choice: None,
    })
}

/// The `betas` of `extra`: a list of names, or a string of them, as the header wants it.
fn betas(value: &serde_json::Value) -> Result<String> {
    let names = match value {
        serde_json::Value::String(names) => return Ok(names.clone()),
        serde_json::Value::Array(names) => {
            names.iter().map(serde_json::Value::as_str).collect::<Option<Vec<_>>>()
        }
        _ => None,
    };
    names.map(|names| names.join(",")).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidRequest,
            "`betas` must be a list of names, as in [\"compact-2026-01-12\"]",
        )
    })
}

impl Llm for Anthropic {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        async move {
            let model = self.model.bare(request.model.as_deref())?;
            self.attempt(&request, model)
                .await
                .map_err(|error| error.at(&request.path).with_model(self.model.of(model)))
        }
        .boxed()
    }

    fn model(&self, request: &Request) -> Option<String> {
        self.model.full(request.model.as_deref())
    }
}

impl std::fmt::Debug for AnthropicBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnthropicBuilder").field("model", &self.model).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Anthropic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Anthropic")
            .field("model", &self.model.own())
            .field("host", &self.endpoint.host())
            .finish()
    }
}

//! OpenAI's chat completions, which vLLM, llama.cpp, LM Studio, Ollama and many others speak too.

mod body;
mod reply;
mod stream;

use futures::future::{BoxFuture, FutureExt};

use self::body::Body;
use self::stream::Assembly;
use super::Named;
use super::env::Env;
use super::http::{Endpoint, Headers, Timeouts};
use super::receive::receive;
use super::secret::Secret;
use crate::error::{Error, ErrorKind, Result};
use crate::llm::{Llm, Request};
use crate::reply::Reply;

const BASE_URL: &str = "https://api.openai.com/v1";

/// A model behind OpenAI's chat completions.
///
/// One attempt per call. Conversations are translated: tool calls and their results both ways, with `Error: ` in front
/// of the text of a tool that failed; thinking blocks of another provider are left out; a block that the API has no
/// place for is an [`InvalidRequest`](ErrorKind::InvalidRequest). Of a reply, reasoning is left out, and a filtered or
/// declined one is a [refusal](crate::Stop::Refusal).
///
/// One of a set of labels is asked for by JSON Schema at OpenAI's own address and of Ollama, and in words elsewhere.
/// Further fields of the API go into [`extra`](Request::extra).
#[derive(Clone)]
pub struct OpenAi {
    endpoint: Endpoint,
    model: Named,
    host: Host,
}

/// Who stands behind the address; they differ in what they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    OpenAi,
    Ollama,
    /// vLLM, llama.cpp, LM Studio, a gateway: one that speaks `openai:`.
    Other,
}

impl Host {
    fn provider(self) -> &'static str {
        if self == Self::Ollama { "ollama" } else { "openai" }
    }
}

/// What an [`OpenAi`] is made of.
#[derive(Clone)]
#[must_use = "a set-up does nothing until `build`"]
pub struct OpenAiBuilder {
    model: String,
    key: Option<Secret>,
    base_url: String,
    headers: Vec<(String, Secret)>,
    timeouts: Timeouts,
    host: Host,
}

impl OpenAi {
    /// This model at OpenAI's own address, without a key yet.
    pub fn builder(model: impl Into<String>) -> OpenAiBuilder {
        OpenAiBuilder {
            model: model.into(),
            key: None,
            base_url: BASE_URL.to_owned(),
            headers: Vec::new(),
            timeouts: Timeouts::default(),
            host: Host::OpenAi,
        }
    }

    /// This model, set up by `OPENAI_API_KEY`, `OPENAI_BASE_URL` (with `/v1`), `OPENAI_ORG_ID` and `OPENAI_PROJECT_ID`.
    ///
    /// # Errors
    /// [`Config`](ErrorKind::Config) when there is no key for OpenAI's own address, or one of the values is unusable.
    pub fn from_env(model: &str, env: &Env) -> Result<Self> {
        let mut builder = Self::builder(model);
        if let Some(url) = env.get("OPENAI_BASE_URL") {
            builder = builder.base_url(url);
        }
        builder.key = env.get("OPENAI_API_KEY").map(Secret::new);
        if builder.key.is_none() && builder.host == Host::OpenAi {
            let message = format!(
                "there is no key for openai:{model}; set OPENAI_API_KEY, or OPENAI_BASE_URL for a server that needs none"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        for (variable, header) in
            [("OPENAI_ORG_ID", "openai-organization"), ("OPENAI_PROJECT_ID", "openai-project")]
        {
            if let Some(value) = env.get(variable) {
                builder = builder.header(header, &value);
            }
        }
        builder.build()
    }

    /// This model of an Ollama, set up by `OLLAMA_HOST` (by default `127.0.0.1:11434`; scheme and port may be left out)
    /// and `OLLAMA_API_KEY` (for its cloud).
    ///
    /// # Errors
    /// [`Config`](ErrorKind::Config) when one of the values is unusable.
    pub fn ollama_from_env(model: &str, env: &Env) -> Result<Self> {
        let mut builder =
            Self::builder(model).base_url(ollama_url(&env.get("OLLAMA_HOST").unwrap_or_default()));
        builder.host = Host::Ollama;
        builder.key = env.get("OLLAMA_API_KEY").map(Secret::new);
        builder.build()
    }

    async fn attempt(&self, request: &Request, model: &str) -> Result<Reply> {
        let body = Body::new(request, model, self.host)?;
        let answer = self.endpoint.post(body.to_json()?, body.stream, None).await?;
        let mut reply =
            receive(answer, request, Assembly::new(request.on_text.as_ref()), reply::read).await?;
        reply.model = self.model.answered(&reply.model, model);
        Ok(reply)
    }
}

/// The base URL of an Ollama: as its own client reads `OLLAMA_HOST`, a bare host has port 11434, one with a scheme that
/// of the scheme. `0.0.0.0` is where a server listens, not where one calls.
fn ollama_url(host: &str) -> String {
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let bare = !host.contains("://");
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if has_port => (name, format!(":{port}")),
        _ if bare => (authority, ":11434".to_owned()),
        _ => (authority, String::new()),
    };
    let name = if matches!(name, "" | "0.0.0.0" | "[::]") { "127.0.0.1" } else { name };
    let path = path.trim_end_matches('/');
    let slash = if path.is_empty() { "" } else { "/" };
    format!("{scheme}://{name}{port}{slash}{path}/v1")
}

impl OpenAiBuilder {
    /// The key, sent as `authorization: Bearer …`.
    pub fn key(mut self, key: impl Into<Secret>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Another address, with its `/v1`.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = url.into();
        self.host =
            if self.base_url.starts_with("https://api.openai.com/") { Host::OpenAi } else { Host::Other };
        self
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
    pub fn build(self) -> Result<OpenAi> {
        let mut headers = Headers::new();
        if let Some(key) = self.key {
            headers.secret("authorization", "Bearer ", key)?;
        }
        headers.own(self.headers)?;
        let endpoint = Endpoint::new(&self.base_url, "/chat/completions", headers, self.timeouts)?;
        let model = Named::new(self.host.provider(), &self.model);
        Ok(OpenAi { endpoint, model, host: self.host })
    }
}

impl Llm for OpenAi {
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

impl std::fmt::Debug for OpenAiBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenAiBuilder").field("model", &self.model).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for OpenAi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenAi")
            .field("model", &self.model.own())
            .field("host", &self.endpoint.host())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ollama_host_may_lack_anything() {
        for (host, url) in [
            ("", "http://127.0.0.1:11434/v1"),
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            ("box", "http://box:11434/v1"),
            ("box:8080", "http://box:8080/v1"),
            ("http://box", "http://box/v1"),
            ("https://ollama.com", "https://ollama.com/v1"),
            ("https://box:444/ollama/", "https://box:444/ollama/v1"),
            ("[::1]", "http://[::1]:11434/v1"),
            ("[::1]:9", "http://[::1]:9/v1"),
        ] {
            assert_eq!(ollama_url(host), url);
        }
    }
}

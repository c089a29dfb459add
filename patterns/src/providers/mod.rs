//! Who answers: [`connect`] names a model in a word, the providers below it can also be built by hand.
//!
//! | name | who answers | set up by |
//! |---|---|---|
//! | `anthropic:MODEL` | Claude, by the Messages API | `ANTHROPIC_API_KEY` or `ANTHROPIC_AUTH_TOKEN`, `ANTHROPIC_BASE_URL`, `ANTHROPIC_CUSTOM_HEADERS` |
//! | `openai:MODEL` | OpenAI, or vLLM, llama.cpp, LM Studio and others that speak its chat completions | `OPENAI_API_KEY`, `OPENAI_BASE_URL` (with `/v1`), `OPENAI_ORG_ID`, `OPENAI_PROJECT_ID` |
//! | `ollama:MODEL` | a local or remote Ollama | `OLLAMA_HOST`, `OLLAMA_API_KEY` |
//! | `embedded` or `embedded:FILE.gguf` | a small model inside this process (cargo feature `embedded`) | `PATTERNS_MODEL_FILE` |
//! | `script:FILE` | replies from a file, for tests and rehearsals: [`Script`] | |
//!
//! A provider makes one attempt for one call. Trying again, limits and budgets are layers round it.

#[cfg(feature = "http")]
pub mod anthropic;
mod connection;
#[cfg(feature = "embedded")]
mod embedded;
mod env;
#[cfg(feature = "http")]
mod failure;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "http")]
mod labels;
#[cfg(feature = "http")]
mod object;
#[cfg(feature = "http")]
pub mod openai;
#[cfg(feature = "http")]
mod receive;
mod script;
#[cfg(feature = "http")]
mod secret;
mod spec;
#[cfg(feature = "http")]
mod sse;

#[cfg(feature = "http")]
pub use anthropic::Anthropic;
pub use connection::{Connection, Progress, Why, connect, connect_default, connect_default_in, connect_in};
#[cfg(feature = "embedded")]
pub use embedded::Embedded;
pub use env::Env;
#[cfg(feature = "http")]
pub use http::Timeouts;
#[cfg(feature = "mcp")]
pub(crate) use http::client as http_client;
#[cfg(feature = "otel")]
pub(crate) use http::tls;
#[cfg(feature = "http")]
pub use openai::OpenAi;
pub use script::Script;
#[cfg(feature = "http")]
pub use secret::Secret;

use crate::error::ErrorKind;
#[cfg(feature = "http")]
use crate::error::{Error, Result};

/// The longest reply and the shortest cacheable prompt, in tokens, of a model named `provider:model`, if they are known.
pub(crate) fn limits(model: &str) -> Option<(u32, u32)> {
    #[cfg(feature = "http")]
    let known = anthropic::Model::known(model.strip_prefix("anthropic:")?)
        .map(|model| (model.max_output, model.min_cacheable));
    #[cfg(not(feature = "http"))]
    let known = model.strip_prefix("anthropic:").and(None);
    known
}

/// The kind of error that an HTTP status stands for.
fn kind_of_status(status: u16) -> ErrorKind {
    match status {
        200..=399 => ErrorKind::Protocol,
        401 | 402 => ErrorKind::Authentication,
        403 => ErrorKind::Permission,
        404 => ErrorKind::NotFound,
        408 | 504 => ErrorKind::TimedOut,
        429 => ErrorKind::RateLimited,
        529 => ErrorKind::Overloaded,
        500.. => ErrorKind::Server,
        _ => ErrorKind::InvalidRequest,
    }
}

/// The model that a provider asks when a request names no other.
#[cfg(feature = "http")]
#[derive(Clone)]
struct Named {
    provider: &'static str,
    /// `provider:model`
    full: String,
}

#[cfg(feature = "http")]
impl Named {
    fn new(provider: &'static str, model: &str) -> Self {
        Self { provider, full: format!("{provider}:{model}") }
    }

    fn own(&self) -> &str {
        &self.full[self.provider.len() + 1..]
    }

    /// The model to ask: the request's, as `provider:model` or bare, or else the provider's own.
    fn bare<'r>(&'r self, asked: Option<&'r str>) -> Result<&'r str> {
        let Some(asked) = asked else { return Ok(self.own()) };
        match spec::provider_of(asked) {
            Some((named, model)) if named == self.provider => Ok(model),
            Some(_) => Err(Error::new(
                ErrorKind::Config,
                format!(
                    "`{asked}` was asked of the provider {}; use `connect`, which finds the right one",
                    self.provider
                ),
            )),
            None => Ok(asked),
        }
    }

    /// The same as `provider:model`.
    fn full(&self, asked: Option<&str>) -> Option<String> {
        match asked {
            None => Some(self.full.clone()),
            Some(_) => self.bare(asked).ok().map(|model| self.of(model)),
        }
    }

    fn of(&self, model: &str) -> String {
        format!("{}:{model}", self.provider)
    }

    /// The model that the service says has answered, or else the one that was asked, as `provider:model`.
    fn answered(&self, said: &str, asked: &str) -> String {
        let model = if said.is_empty() { asked } else { said };
        if model == self.own() { self.full.clone() } else { self.of(model) }
    }
}

/// From this `max_tokens` on, a reply may take longer than the ten minutes that a call without streaming may:
/// 3,600 s × `max_tokens` / 128,000 > 600 s, the rule of the official SDKs.
#[cfg(feature = "http")]
const STREAM_FROM: u32 = 21_334;

/// A request's body, which is about `size` bytes long.
#[cfg(feature = "http")]
fn write_json(body: &impl serde::Serialize, size: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(size);
    serde_json::to_writer(&mut bytes, body).map_err(|error| {
        Error::new(ErrorKind::InvalidRequest, "the request cannot be written as JSON").with_source(error)
    })?;
    Ok(bytes)
}

//! A model by its name.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{BoxFuture, FutureExt};

#[cfg(feature = "embedded")]
use super::embedded::Embedded;
use super::env::Env;
use super::script::Script;
use super::spec::{Spec, provider_of};
#[cfg(feature = "http")]
use super::{Anthropic, OpenAi};
use crate::error::Result;
use crate::llm::{Llm, Request};
use crate::reply::Reply;

/// The model that a key for Anthropic is used with when `ANTHROPIC_MODEL` names none.
const CLAUDE: &str = "claude-opus-5-5";
/// The model that a key for OpenAI is used with when `OPENAI_MODEL` names none.
const GPT: &str = "gpt-5";

/// A model that was named, and the way to others: what [`connect`] gives. Clones share everything.
///
/// A request may name another model, as `provider:model` or bare for one of the same provider; other providers are
/// connected when first asked, and kept. The only exception is a script, which answers for whatever bare name.
#[derive(Clone)]
pub struct Connection(Arc<Inner>);

struct Inner {
    name: &'static str,
    own: Provider,
    env: Env,
    others: Mutex<HashMap<String, Provider>>,
}

#[derive(Clone)]
enum Provider {
    #[cfg(feature = "http")]
    Http(Arc<dyn Llm>),
    Script(Script),
    #[cfg(feature = "embedded")]
    Embedded(Embedded),
}

/// The model of this name: `anthropic:MODEL`, `openai:MODEL`, `ollama:MODEL`, `embedded`, `embedded:FILE.gguf` or
/// `script:FILE`. A bare `claude-…` or `gpt-…` is understood. Keys and addresses come from the
/// [environment](crate::providers). Nothing is connected or loaded before the first call.
///
/// # Errors
/// [`Config`](crate::ErrorKind::Config) for another name, for a missing key, and for a script that cannot be read.
pub fn connect(name: &str) -> Result<Connection> {
    connect_in(name, &Env::process())
}

/// As [`connect`], with another environment than the process's.
///
/// # Errors
/// Those of [`connect`].
pub fn connect_in(name: &str, env: &Env) -> Result<Connection> {
    let spec = Spec::parse(name)?;
    let own = Provider::connect(&spec, env)?;
    Ok(Connection(Arc::new(Inner { name: spec.provider(), own, env: env.clone(), others: Mutex::default() })))
}

/// The model that the environment stands for, and why: `PATTERNS_MODEL`; or else Claude, if there is
/// `ANTHROPIC_API_KEY` or `ANTHROPIC_AUTH_TOKEN` (`ANTHROPIC_MODEL`, by default `claude-opus-5-5`); or else
/// OpenAI, if there is `OPENAI_API_KEY` (`OPENAI_MODEL`, by default `gpt-5`); or else the embedded model.
///
/// # Errors
/// Those of [`connect`]; and [`Config`](crate::ErrorKind::Config) when nothing is set and there is no embedded model.
pub fn connect_default() -> Result<(Connection, Why)> {
    connect_default_in(&Env::process())
}

/// As [`connect_default`], with another environment than the process's.
///
/// # Errors
/// Those of [`connect_default`].
pub fn connect_default_in(env: &Env) -> Result<(Connection, Why)> {
    let model = |name: &str, default: &str| env.get(name).unwrap_or_else(|| default.to_owned());
    let (name, why) = if let Some(name) = env.get("PATTERNS_MODEL") {
        (name, Why::Named)
    } else if env.get("ANTHROPIC_API_KEY").is_some() {
        (format!("anthropic:{}", model("ANTHROPIC_MODEL", CLAUDE)), Why::Key("ANTHROPIC_API_KEY"))
    } else if env.get("ANTHROPIC_AUTH_TOKEN").is_some() {
        (format!("anthropic:{}", model("ANTHROPIC_MODEL", CLAUDE)), Why::Key("ANTHROPIC_AUTH_TOKEN"))
    } else if env.get("OPENAI_API_KEY").is_some() {
        (format!("openai:{}", model("OPENAI_MODEL", GPT)), Why::Key("OPENAI_API_KEY"))
    } else {
        ("embedded".to_owned(), Why::NoKey)
    };
    Ok((connect_in(&name, env)?, why))
}

/// Why [`connect_default`] took a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// `PATTERNS_MODEL` names it.
    Named,
    /// This variable holds a key for it.
    Key(&'static str),
    /// There is no key for another.
    NoKey,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named => f.write_str("PATTERNS_MODEL names it"),
            Self::Key(variable) => write!(f, "{variable} is set"),
            Self::NoKey => f.write_str("no key is set"),
        }
    }
}

/// How far the weights of the embedded model have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are here.
    pub done: u64,
    /// Bytes in all, if that is known.
    pub total: Option<u64>,
}

impl Spec {
    fn provider(&self) -> &'static str {
        match self {
            Self::Anthropic(_) => "anthropic",
            Self::OpenAi(_) => "openai",
            Self::Ollama(_) => "ollama",
            Self::Embedded(_) => "embedded",
            Self::Script(_) => "script",
        }
    }
}

impl Provider {
    #[cfg_attr(not(feature = "http"), allow(unused_variables))]
    fn connect(spec: &Spec, env: &Env) -> Result<Self> {
        match spec {
            #[cfg(feature = "http")]
            Spec::Anthropic(model) => Ok(Self::Http(Arc::new(Anthropic::from_env(model, env)?))),
            #[cfg(feature = "http")]
            Spec::OpenAi(model) => Ok(Self::Http(Arc::new(OpenAi::from_env(model, env)?))),
            #[cfg(feature = "http")]
            Spec::Ollama(model) => Ok(Self::Http(Arc::new(OpenAi::ollama_from_env(model, env)?))),
            #[cfg(not(feature = "http"))]
            Spec::Anthropic(_) | Spec::OpenAi(_) | Spec::Ollama(_) => {
                Err(not_built_in("providers over HTTP are not built in; build with the cargo feature `http`"))
            }
            Spec::Script(file) => Ok(Self::Script(Script::read(file)?)),
            #[cfg(feature = "embedded")]
            Spec::Embedded(file) => {
                Ok(Self::Embedded(file.as_ref().map_or_else(Embedded::new, Embedded::from_file)))
            }
            #[cfg(not(feature = "embedded"))]
            Spec::Embedded(_) => Err(not_built_in(
                "the embedded model is not built in; set ANTHROPIC_API_KEY or OPENAI_API_KEY, name another model in \
                 PATTERNS_MODEL (`ollama:MODEL` needs no key), or build with the cargo feature `embedded`",
            )),
        }
    }

    fn llm(&self) -> &dyn Llm {
        match self {
            #[cfg(feature = "http")]
            Self::Http(llm) => llm,
            Self::Script(script) => script,
            #[cfg(feature = "embedded")]
            Self::Embedded(embedded) => embedded,
        }
    }
}

#[cfg(not(all(feature = "http", feature = "embedded")))]
fn not_built_in(message: &str) -> crate::Error {
    crate::Error::new(crate::ErrorKind::Config, message)
}

impl Connection {
    /// The name of the provider: `anthropic`, `openai`, `ollama`, `embedded` or `script`.
    pub fn provider(&self) -> &'static str {
        self.0.name
    }

    /// Gets ready what the first call would otherwise wait for: the weights of the embedded model, which may have to
    /// be fetched; `progress` hears how far that has come. The other providers need nothing.
    ///
    /// # Errors
    /// [`Config`](crate::ErrorKind::Config) when the weights cannot be had, with the ways to provide them.
    pub async fn prepare(&self, progress: impl FnMut(Progress) + Send + 'static) -> Result<()> {
        #[cfg(feature = "embedded")]
        if let Provider::Embedded(embedded) = &self.0.own {
            return embedded.prepare(progress).await;
        }
        drop(progress);
        Ok(())
    }

    /// Who answers a request for `model`.
    fn provider_for(&self, model: Option<&str>) -> Result<Provider> {
        let Some((name, rest)) = model.and_then(provider_of) else { return Ok(self.0.own.clone()) };
        // one provider over HTTP has all of its models; the others are their file
        let one_for_all = !matches!(name, "script" | "embedded");
        let key = if one_for_all { name.to_owned() } else { format!("{name}:{rest}") };
        if (one_for_all && name == self.0.name)
            || self.0.own.llm().model(&Request::default()) == Some(key.clone())
        {
            return Ok(self.0.own.clone());
        }
        let mut others = self.0.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = others.get(&key) {
            return Ok(known.clone());
        }
        let provider = Provider::connect(&Spec::parse(model.unwrap_or_default())?, &self.0.env)?;
        others.insert(key, provider.clone());
        Ok(provider)
    }
}

impl Llm for Connection {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        if request.model.is_none() {
            return self.0.own.llm().call(request);
        }
        async move {
            let provider =
                self.provider_for(request.model.as_deref()).map_err(|error| error.at(&request.path))?;
            provider.llm().call(request).await
        }
        .boxed()
    }

    fn model(&self, request: &Request) -> Option<String> {
        match request.model.as_deref() {
            Some(name) if provider_of(name).is_some() => Some(name.to_owned()),
            _ => self.0.own.llm().model(request),
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.model(&Request::default())).finish()
    }
}

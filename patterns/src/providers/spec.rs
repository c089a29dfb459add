//! The name of a model, read.

use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};

/// A model's name, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spec {
    Anthropic(String),
    OpenAi(String),
    Ollama(String),
    Embedded(Option<PathBuf>),
    Script(PathBuf),
}

const PROVIDERS: [&str; 5] = ["anthropic", "openai", "ollama", "embedded", "script"];
const FORMS: &str = "anthropic:MODEL, openai:MODEL, ollama:MODEL, embedded, embedded:FILE.gguf, script:FILE";

/// The provider that `text` names, and the rest. A colon alone makes no provider: `llama3.2:3b` is a model.
pub(super) fn provider_of(text: &str) -> Option<(&str, &str)> {
    let (provider, rest) = text.split_once(':').unwrap_or((text, ""));
    (PROVIDERS.contains(&provider) && (provider == "embedded" || text.contains(':')))
        .then_some((provider, rest))
}

impl Spec {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let Some((provider, rest)) = provider_of(text) else {
            return match text {
                _ if text.starts_with("claude-") => Ok(Self::Anthropic(text.to_owned())),
                _ if text.starts_with("gpt-") => Ok(Self::OpenAi(text.to_owned())),
                _ => Err(unknown(text)),
            };
        };
        Ok(match (provider, rest) {
            ("embedded", "") => Self::Embedded(None),
            ("embedded", file) => Self::Embedded(Some(file.into())),
            (_, "") => return Err(unknown(text)),
            ("anthropic", model) => Self::Anthropic(model.to_owned()),
            ("openai", model) => Self::OpenAi(model.to_owned()),
            ("ollama", model) => Self::Ollama(model.to_owned()),
            (_, file) => Self::Script(file.into()),
        })
    }
}

fn unknown(text: &str) -> Error {
    let provider = text.split(':').next().unwrap_or_default().to_lowercase();
    let nearest = PROVIDERS
        .into_iter()
        .map(|known| (strsim::normalized_damerau_levenshtein(known, &provider), known))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(likeness, _)| *likeness >= 0.5);
    let hint = match nearest {
        Some((_, known)) if known == provider => format!("; `{known}:` lacks what comes after it"),
        Some((_, known)) => format!("; did you mean `{known}`?"),
        None => String::new(),
    };
    Error::new(ErrorKind::Config, format!("`{text}` names no model; the forms are {FORMS}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        for (text, spec) in [
            ("anthropic:claude-opus-5-5", Spec::Anthropic("claude-opus-5-5".into())),
            ("claude-opus-5-5", Spec::Anthropic("claude-opus-5-5".into())),
            ("openai:org/model:free", Spec::OpenAi("org/model:free".into())),
            (" gpt-5 ", Spec::OpenAi("gpt-5".into())),
            ("ollama:llama3.2:3b", Spec::Ollama("llama3.2:3b".into())),
            ("embedded", Spec::Embedded(None)),
            ("embedded:/m/x.gguf", Spec::Embedded(Some("/m/x.gguf".into()))),
            ("script:C:\\replies.jsonl", Spec::Script("C:\\replies.jsonl".into())),
        ] {
            assert_eq!(Spec::parse(text).unwrap(), spec);
        }
    }

    #[test]
    fn a_wrong_name_is_told_the_forms_and_the_nearest() {
        for (text, says) in [
            ("antropic:claude-opus-5-5", "did you mean `anthropic`?"),
            ("Embeded", "did you mean `embedded`?"),
            ("openai:", "`openai:` lacks what comes after it"),
            ("anthropic", "`anthropic:` lacks what comes after it"),
            ("llama3.2:3b", "ollama:MODEL"),
            ("", "names no model"),
        ] {
            let error = Spec::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.message().contains(FORMS), "{error}");
            assert!(error.message().contains(says), "{error}");
        }
    }
}

//! What each Claude model takes and refuses.

use crate::llm::Effort;

/// What a model takes. What is not known of a model is assumed to its disadvantage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// The id without a date.
    pub id: &'static str,
    /// Prompt and reply together, in tokens.
    pub context_window: u32,
    /// The longest reply in tokens, thinking included.
    pub max_output: u32,
    /// The shortest prompt that is cached, in tokens.
    pub min_cacheable: u32,
    /// When it thinks.
    pub thinking: Thinking,
    /// Whether `tool_choice` may force a tool.
    pub forced_tool_choice: bool,
    /// Whether the conversation may end with the beginning of the reply.
    pub prefill: bool,
    /// Whether it takes `temperature`, `top_p` and `top_k`, under version `2023-06-01` of the API.
    pub sampling: bool,
    /// The efforts that it knows, least first; none when it takes no `effort`.
    pub efforts: &'static [Effort],
    /// Whether it can be held to a JSON Schema (`output_config.format`).
    pub json_schema: bool,
}

/// When a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// Always; `thinking` cannot switch it off, nor give it a budget.
    Always,
    /// Unless it is switched off.
    ByDefault,
    /// When it is asked to.
    WhenAsked,
}

const NONE: &[Effort] = &[];
const TO_HIGH: &[Effort] = &[Effort::Low, Effort::Medium, Effort::High];
const NO_XHIGH: &[Effort] = &[Effort::Low, Effort::Medium, Effort::High, Effort::Max];
const ALL: &[Effort] = &[Effort::Low, Effort::Medium, Effort::High, Effort::Xhigh, Effort::Max];

/// A model of 2026: a window of a million tokens, no prefill, every effort.
const fn new(id: &'static str, min_cacheable: u32, thinking: Thinking, forced_tool_choice: bool) -> Model {
    Model {
        id,
        context_window: 1_000_000,
        max_output: 128_000,
        min_cacheable,
        thinking,
        forced_tool_choice,
        prefill: false,
        sampling: false,
        efforts: ALL,
        json_schema: true,
    }
}

/// A model of 2025.
const fn old(id: &'static str, min_cacheable: u32, efforts: &'static [Effort]) -> Model {
    Model {
        context_window: 200_000,
        max_output: 64_000,
        prefill: true,
        sampling: true,
        efforts,
        ..new(id, min_cacheable, Thinking::WhenAsked, true)
    }
}

/// One of the two between.
const fn between(id: &'static str, min_cacheable: u32) -> Model {
    Model { efforts: NO_XHIGH, sampling: true, ..new(id, min_cacheable, Thinking::WhenAsked, true) }
}

/// The models as of November 2026 (the documentation of the Messages API; context windows and longest replies as in
/// litellm 1.110.2).
const MODELS: [Model; 14] = [
    new("claude-fable-5-1", 512, Thinking::Always, false),
    new("claude-fable-5", 512, Thinking::Always, true),
    new("claude-opus-5-5", 512, Thinking::Always, false),
    new("claude-opus-5", 512, Thinking::ByDefault, true),
    new("claude-opus-4-8", 1_024, Thinking::WhenAsked, true),
    new("claude-opus-4-7", 2_048, Thinking::WhenAsked, true),
    between("claude-opus-4-6", 4_096),
    old("claude-opus-4-5", 4_096, TO_HIGH),
    new("claude-sonnet-5-5", 512, Thinking::Always, false),
    new("claude-sonnet-5", 1_024, Thinking::ByDefault, true),
    between("claude-sonnet-4-6", 1_024),
    old("claude-sonnet-4-5", 1_024, NONE),
    new("claude-haiku-5-5", 512, Thinking::ByDefault, true),
    old("claude-haiku-4-5", 4_096, NONE),
];

/// A Claude model that the table does not have: one that refuses whatever some model refuses.
const UNKNOWN: Model =
    Model { json_schema: false, efforts: NONE, ..new("claude", 4_096, Thinking::Always, false) };

/// A model that is no Claude, behind the same API (Ollama, llama.cpp): it is not for us to refuse anything.
const FOREIGN: Model = Model { json_schema: false, max_output: u32::MAX, ..old("", 4_096, NONE) };

impl Model {
    /// What is known of a model, by its id with or without a date (`claude-haiku-4-5-20251001`).
    pub fn known(id: &str) -> Option<&'static Self> {
        MODELS.iter().find(|model| {
            id.strip_prefix(model.id).is_some_and(|rest| {
                rest.is_empty()
                    || rest.strip_prefix(['-', '@']).is_some_and(|date| {
                        date == "latest" || (date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()))
                    })
            })
        })
    }

    /// What is known of a model, or the most careful assumption.
    pub(crate) fn of(id: &str) -> &'static Self {
        Self::known(id).unwrap_or(if id.starts_with("claude") { &UNKNOWN } else { &FOREIGN })
    }

    /// The effort to send: the wanted one, or the next lower one that the model knows.
    pub(crate) fn effort(&self, wanted: Effort) -> Option<Effort> {
        self.efforts.iter().copied().rfind(|known| rank(*known) <= rank(wanted))
    }
}

fn rank(effort: Effort) -> usize {
    ALL.iter().position(|known| *known == effort).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dated_model_is_the_model() {
        assert_eq!(Model::known("claude-haiku-4-5-20251001").unwrap().id, "claude-haiku-4-5");
        assert_eq!(Model::known("claude-opus-5-5").unwrap().id, "claude-opus-5-5");
        assert_eq!(Model::known("claude-opus-5").unwrap().id, "claude-opus-5");
        assert_eq!(Model::known("claude-opus-5-6"), None);
        assert_eq!(Model::known("llama3.2:3b"), None);
    }

    #[test]
    fn an_effort_that_a_model_does_not_know_becomes_the_next_lower_one() {
        let effort = |model, wanted| Model::of(model).effort(wanted);
        assert_eq!(effort("claude-opus-4-6", Effort::Xhigh), Some(Effort::High));
        assert_eq!(effort("claude-opus-4-5", Effort::Max), Some(Effort::High));
        assert_eq!(effort("claude-sonnet-5-5", Effort::Max), Some(Effort::Max));
        assert_eq!(effort("claude-haiku-4-5", Effort::Low), None);
    }
}

//! Saying what a text is about, by how likely the model finds texts and descriptions after each other.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::score::Beginning;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// One of the things that a text may be about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Choice {
    /// Its short name.
    pub label: String,
    /// What it covers, in a few words that go on from "this text is about", such as `payments, invoices and refunds`.
    pub description: String,
}

impl Choice {
    /// A choice with its description.
    pub fn new(label: impl Into<String>, description: impl Into<String>) -> Choice {
        Choice { label: label.into(), description: description.into() }
    }
}

/// What each choice scores after texts that say nothing in particular, by noun and choices.
#[derive(Default)]
pub(crate) struct Calibrations(Mutex<HashMap<Key, Vec<f64>>>);

type Key = (String, Vec<Choice>);

/// So many calibrations are kept.
const KEPT: usize = 64;

impl Calibrations {
    fn get(&self, key: &Key) -> Option<Vec<f64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn put(&self, key: Key, values: Vec<f64>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key, values);
    }
}

/// Texts that are about nothing in particular.
const NEUTRAL: [&str; 5] = [
    "Hello, I have a question.",
    "I need help with something.",
    "Please get back to me as soon as you can.",
    "Thank you for your help.",
    "I would like to know more about this.",
];

/// See [`Engine::choose`].
pub(crate) async fn choose(engine: &Engine, text: &str, noun: &str, choices: &[Choice]) -> Result<Vec<f64>> {
    let (text, noun) = (text.trim(), noun.trim());
    if choices.is_empty() {
        return Err(Error::bad_request("there is nothing to choose from: give at least one choice"));
    }
    if text.is_empty() || noun.is_empty() {
        return Err(Error::bad_request("there is nothing to choose for: give a text, and say what it is"));
    }
    let key = (noun.to_owned(), choices.to_vec());
    let kept = engine.calibrations().get(&key);
    let neutral = if kept.is_some() { &[] } else { &NEUTRAL[..] };
    let texts: Vec<&str> = [text].into_iter().chain(neutral.iter().copied()).collect();
    let sums = engine.score(beginnings(noun, &texts, choices)).await?;
    // first the descriptions after each text, then the texts after each description
    let (after_texts, after_descriptions) = sums.split_at(texts.len());
    let scores: Vec<Vec<f64>> = (0..texts.len())
        .map(|text| (0..choices.len()).map(|n| after_texts[text][n] + after_descriptions[n][text]).collect())
        .collect();
    let calibration = kept.unwrap_or_else(|| {
        let mean = |n: usize| scores[1..].iter().map(|scores| scores[n]).sum::<f64>() / NEUTRAL.len() as f64;
        let calibration: Vec<f64> = (0..choices.len()).map(mean).collect();
        engine.calibrations().put(key, calibration.clone());
        calibration
    });
    let scores = scores[0].iter().zip(calibration).map(|(score, neutral)| score - neutral);
    Ok(probabilities(&scores.collect::<Vec<_>>()))
}

/// Logarithms, up to a constant, to probabilities.
fn probabilities(logarithms: &[f64]) -> Vec<f64> {
    let most = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logarithms.iter().map(|logarithm| (logarithm - most).exp()).collect();
    let all: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / all).collect()
}

fn beginnings(noun: &str, texts: &[&str], choices: &[Choice]) -> Vec<Beginning> {
    let short = noun.rsplit(' ').next().unwrap_or(noun);
    let mut letters = noun.chars();
    let title: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
    let descriptions = || choices.iter().map(|choice| choice.description.trim().trim_end_matches('.'));
    let after_texts = texts.iter().map(|text| Beginning {
        text: format!("{title}: \"{text}\"\nThis {short} is about"),
        ends: descriptions().map(|description| format!(" {description}")).collect(),
    });
    let after_descriptions = descriptions().map(|description| Beginning {
        text: format!("The following {noun} is about {description}.\n{title}:"),
        ends: texts.iter().map(|text| format!(" {text}")).collect(),
    });
    after_texts.chain(after_descriptions).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_sum_to_one_however_far_apart() {
        let probabilities = probabilities(&[-2000.0, -1.0, -1.0]);
        assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(probabilities[1], probabilities[2]);
        assert!(probabilities[0] < 1e-300);
    }
}

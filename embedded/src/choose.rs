//! Saying what a text is about, by how likely the model finds texts and descriptions after each other.

use crate::error::{Error, Result};
use crate::generate::fits;
use crate::model::gguf::Config;
use crate::model::{Sequence, Span};
use crate::text::Text;
use crate::worker::{Job, Shared};
use futures::channel::oneshot::Sender;
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
pub(crate) struct Calibrations(Mutex<HashMap<(String, Vec<Choice>), Vec<f64>>>);

/// So many calibrations are kept.
const KEPT: usize = 64;

impl Calibrations {
    fn get(&self, key: &(String, Vec<Choice>)) -> Option<Vec<f64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn put(&self, key: (String, Vec<Choice>), values: Vec<f64>) {
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

/// The job: first the beginnings are read, then what may follow on each.
pub(crate) struct Choosing {
    sender: Sender<Result<Vec<f64>>>,
    key: (String, Vec<Choice>),
    calibration: Option<Vec<f64>>,
    beginnings: Vec<Beginning>,
    readings: Vec<Reading>,
}

/// A text, and what may follow on it.
struct Beginning {
    tokens: Vec<u32>,
    ends: Vec<Vec<u32>>,
}

/// Tokens on their way through the model.
struct Reading {
    sequence: Sequence,
    tokens: Vec<u32>,
    done: usize,
    /// How many the batch under way has of it.
    under_way: usize,
    /// Whether the probability of the tokens is wanted.
    scored: bool,
    /// The logarithm of the probability of all tokens but the first.
    sum: f64,
}

impl Choosing {
    pub(crate) fn start(
        shared: &Shared,
        text: &str,
        noun: &str,
        choices: &[Choice],
        sender: Sender<Result<Vec<f64>>>,
    ) -> Option<Box<dyn Job>> {
        let key = (noun.to_owned(), choices.to_vec());
        let calibration = shared.calibrations.get(&key);
        let neutral = if calibration.is_some() { &[] } else { &NEUTRAL[..] };
        let texts: Vec<&str> = [text.trim()].into_iter().chain(neutral.iter().copied()).collect();
        let beginnings = match beginnings(&shared.text, &shared.model.config, noun, &texts, choices) {
            Ok(beginnings) => beginnings,
            Err(error) => {
                let _ = sender.send(Err(error));
                return None;
            }
        };
        let readings = beginnings
            .iter()
            .map(|beginning| {
                // the last token is read again with each end, for what it says about the end's first token
                let tokens = beginning.tokens[..beginning.tokens.len() - 1].to_vec();
                Reading::new(Sequence::new(&shared.model.config), tokens, false)
            })
            .collect();
        Some(Box::new(Choosing { sender, key, calibration, beginnings, readings }))
    }

    /// The probabilities, from the sums of all readings.
    fn finish(&mut self, shared: &Shared) {
        let count = self.key.1.len();
        let texts = if self.calibration.is_some() { 1 } else { 1 + NEUTRAL.len() };
        let (descriptions, channel) = self.readings.split_at(texts * count);
        let score = |text: usize, choice: usize| {
            descriptions[text * count + choice].sum + channel[choice * texts + text].sum
        };
        let calibration = self.calibration.take().unwrap_or_else(|| {
            let mean = |choice| (1..texts).map(|text| score(text, choice)).sum::<f64>() / NEUTRAL.len() as f64;
            let calibration: Vec<f64> = (0..count).map(mean).collect();
            shared.calibrations.put(self.key.clone(), calibration.clone());
            calibration
        });
        let scores: Vec<f64> = (0..count).map(|choice| score(0, choice) - calibration[choice]).collect();
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
        let all: f64 = weights.iter().sum();
        let answer = weights.into_iter().map(|weight| weight / all).collect();
        let (closed, _) = futures::channel::oneshot::channel();
        let _ = std::mem::replace(&mut self.sender, closed).send(Ok(answer));
    }
}

fn beginnings(text: &Text, config: &Config, noun: &str, texts: &[&str], choices: &[Choice]) -> Result<Vec<Beginning>> {
    let short = noun.rsplit(' ').next().unwrap_or(noun);
    let title = |words: &str| {
        let mut letters = words.chars();
        letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect::<String>()
    };
    let mut beginnings = Vec::new();
    for body in texts {
        let ends = choices.iter().map(|choice| text.plain(&format!(" {}.", choice.description.trim_end_matches('.'))));
        beginnings.push(Beginning {
            tokens: text.plain(&format!("{}: \"{body}\"\nThis {short} is about", title(noun)))?,
            ends: ends.collect::<Result<_>>()?,
        });
    }
    for choice in choices {
        let description = choice.description.trim_end_matches('.');
        beginnings.push(Beginning {
            tokens: text.plain(&format!("A customer wrote a {noun} about {description}.\n{}:", title(short)))?,
            ends: texts.iter().map(|body| text.plain(&format!(" {body}"))).collect::<Result<_>>()?,
        });
    }
    for beginning in &beginnings {
        let longest = beginning.ends.iter().map(Vec::len).max().unwrap_or(0);
        fits(beginning.tokens.len() + longest, config.context)?;
    }
    Ok(beginnings)
}

impl Reading {
    fn new(sequence: Sequence, tokens: Vec<u32>, scored: bool) -> Reading {
        Reading { sequence, tokens, done: 0, under_way: 0, scored, sum: 0.0 }
    }

    /// How many tokens are yet to be read. The last one of a scored text need not be: nothing follows on it.
    fn rest(&self) -> usize {
        self.tokens.len() - usize::from(self.scored) - self.done
    }
}

impl Job for Choosing {
    fn is_wanted(&self) -> bool {
        !self.sender.is_canceled()
    }

    fn spans(&mut self, mut room: usize) -> Vec<Span<'_>> {
        let mut spans = Vec::new();
        for reading in &mut self.readings {
            let count = reading.rest().min(room);
            reading.under_way = count;
            if count > 0 {
                room -= count;
                spans.push(Span {
                    sequence: &mut reading.sequence,
                    tokens: &reading.tokens[reading.done..reading.done + count],
                    scores: if reading.scored { count } else { 0 },
                });
            }
        }
        spans
    }

    fn take(&mut self, shared: &Shared, scores: Vec<Vec<f32>>) -> bool {
        let mut scores = scores.into_iter();
        for reading in &mut self.readings {
            let next = reading.done + std::mem::take(&mut reading.under_way);
            if reading.scored {
                for (token, scores) in reading.tokens[reading.done + 1..=next].iter().zip(scores.by_ref()) {
                    reading.sum += log_probability(&scores, *token);
                }
            }
            reading.done = next;
        }
        if self.readings.iter().any(|reading| reading.rest() > 0) {
            return false;
        }
        if self.readings.iter().any(|reading| reading.scored) {
            self.finish(shared);
            return true;
        }
        let read = std::mem::take(&mut self.readings);
        for (beginning, reading) in self.beginnings.iter().zip(read) {
            let last = beginning.tokens[beginning.tokens.len() - 1];
            let forks = reading.sequence.fork(&shared.model.config, beginning.ends.len());
            self.readings.extend(forks.into_iter().zip(&beginning.ends).map(|(sequence, end)| {
                let tokens = [last].into_iter().chain(end.iter().copied()).collect();
                Reading::new(sequence, tokens, true)
            }));
        }
        false
    }

    fn fail(&mut self, error: Error) {
        let (closed, _) = futures::channel::oneshot::channel();
        let _ = std::mem::replace(&mut self.sender, closed).send(Err(error));
    }
}

fn log_probability(scores: &[f32], token: u32) -> f64 {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let all: f64 = scores.iter().map(|score| f64::from((score - most).exp())).sum();
    f64::from(scores[token as usize] - most) - all.ln()
}

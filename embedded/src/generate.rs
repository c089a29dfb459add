//! Writing an answer, token by token.

use crate::error::{Error, ErrorKind, Result};
use crate::model::{Found, Sequence, Span, Want};
use crate::text::{Message, Pieces};
use crate::worker::{Job, Shared};
use futures::channel::mpsc::UnboundedSender;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use std::collections::{BTreeSet, VecDeque};

/// How many of the tokens written last a repetition counts against.
const REPEAT_WINDOW: usize = 256;

/// How an answer is to be written. `Options::default()` is greedy, up to 512 tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The most tokens of the answer; at least 1. Default: 512.
    pub max_tokens: usize,
    /// How freely the next token is drawn: 0 always takes the likeliest, 1 draws by the model's own probabilities,
    /// more is wilder. Default: 0.
    pub temperature: f32,
    /// Draw only among the likeliest tokens that together have this probability, 0 to 1. Without effect at temperature
    /// 0. Default: 0.95.
    pub top_p: f32,
    /// How much less likely a token becomes that stands among the last 256 written ones: 1 leaves it as it is, more keeps
    /// the model from going in circles, which small models do ([CTRL](https://arxiv.org/abs/1909.05858), section 4.1).
    /// Default: 1.15.
    pub repeat_penalty: f32,
    /// Where the drawing starts: the same seed gives the same answer, with the same version of this crate on the same
    /// machine. Default: 0.
    pub seed: u64,
    /// Texts that end the answer when the model writes them; they are not part of it. Default: none.
    pub stop: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            max_tokens: 512,
            temperature: 0.0,
            top_p: 0.95,
            repeat_penalty: 1.15,
            seed: 0,
            stop: Vec::new(),
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// What the model wrote.
    pub text: String,
    /// Why it stopped.
    pub stop: Stop,
    /// Tokens that were read.
    pub prompt_tokens: usize,
    /// Tokens that were written; the one that ends the turn counts too.
    pub output_tokens: usize,
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model was done.
    EndOfTurn,
    /// [`Options::max_tokens`] were written; the text is cut off.
    MaxTokens,
    /// The model wrote this one of [`Options::stop`].
    StopSequence(String),
    /// Prompt and answer together fill the model's context window; the text is cut off.
    ContextFull,
}

/// What a job tells its caller.
#[derive(Debug)]
pub(crate) enum Event {
    Text(String),
    Done(usize, Generated),
    Failed(Error),
}

/// The job: first the prompt is read, once, then each sample goes on from there on its own.
pub(crate) struct Generation {
    options: Options,
    events: UnboundedSender<Event>,
    prompt: Vec<u32>,
    reading: Option<(Sequence, usize)>,
    samples: Vec<Sample>,
    count: usize,
    context: usize,
}

struct Sample {
    index: usize,
    sequence: Sequence,
    rng: StdRng,
    last: [u32; 1],
    recent: VecDeque<u32>,
    written: usize,
    pieces: Pieces,
    text: String,
    /// How much of the text was told; the rest may be the beginning of a stop text.
    told: usize,
}

impl Generation {
    pub(crate) fn start(
        shared: &Shared,
        messages: &[Message],
        options: Options,
        count: usize,
        events: UnboundedSender<Event>,
    ) -> Option<Box<dyn Job>> {
        let prepared = shared.text.chat(messages).and_then(|prompt| {
            fits(prompt.len(), shared.model.config.context)?;
            Ok(prompt)
        });
        match prepared {
            Ok(prompt) => Some(Box::new(Generation {
                options,
                events,
                prompt,
                reading: Some((Sequence::new(&shared.model.config), 0)),
                samples: Vec::new(),
                count,
                context: shared.model.config.context,
            })),
            Err(error) => {
                let _ = events.unbounded_send(Event::Failed(error));
                None
            }
        }
    }
}

/// A prompt must leave room for one token at least.
pub(crate) fn fits(prompt: usize, context: usize) -> Result<()> {
    if prompt < context {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::ContextOverflow,
        format!(
            "the prompt has {prompt} tokens, the model's context window {context}: shorten it, or use a larger model"
        ),
    ))
}

impl Job for Generation {
    fn is_wanted(&self) -> bool {
        !self.events.is_closed()
    }

    fn spans(&mut self, room: usize) -> Vec<Span<'_>> {
        if let Some((sequence, done)) = &mut self.reading {
            let tokens = &self.prompt[*done..self.prompt.len().min(*done + room)];
            *done += tokens.len();
            let want = if *done == self.prompt.len() { Want::Next } else { Want::Nothing };
            return vec![Span { sequence, tokens, want, writing: false }];
        }
        self.samples
            .iter_mut()
            .map(|Sample { sequence, last, .. }| Span {
                sequence,
                tokens: last,
                want: Want::Next,
                writing: true,
            })
            .collect()
    }

    fn take(&mut self, shared: &Shared, found: Vec<Found>) -> bool {
        let scores = found.into_iter().filter_map(|found| match found {
            Found::Next(scores) => Some(scores),
            Found::Nothing | Found::Following(_) => None,
        });
        let mut scores: Vec<Vec<f32>> = scores.collect();
        if scores.is_empty() {
            return false;
        }
        if let Some((sequence, _)) = self.reading.take() {
            let sequences = sequence.fork(&shared.model.config, self.count);
            let seed = self.options.seed;
            let samples = sequences.into_iter().enumerate();
            self.samples = samples.map(|(n, sequence)| Sample::new(n, sequence, seed)).collect();
            scores = vec![scores.swap_remove(0); self.count];
        }
        let Generation { options, events, prompt, context, .. } = self;
        let mut scores = scores.into_iter();
        self.samples.retain_mut(|sample| {
            let Some(mut scores) = scores.next() else { return true };
            penalise(&mut scores, &sample.recent, options.repeat_penalty);
            let token = pick(&scores, options, &mut sample.rng);
            let Some(stop) = sample.push(shared, token, options, *context, events) else { return true };
            let generated = Generated {
                text: std::mem::take(&mut sample.text),
                stop,
                prompt_tokens: prompt.len(),
                output_tokens: sample.written,
            };
            let _ = events.unbounded_send(Event::Done(sample.index, generated));
            false
        });
        self.samples.is_empty()
    }

    fn fail(&mut self, error: Error) {
        let _ = self.events.unbounded_send(Event::Failed(error));
    }
}

impl Sample {
    fn new(index: usize, sequence: Sequence, seed: u64) -> Sample {
        Sample {
            index,
            sequence,
            rng: StdRng::seed_from_u64(seed.wrapping_add(index as u64)),
            last: [0],
            recent: VecDeque::new(),
            written: 0,
            pieces: Pieces::default(),
            text: String::new(),
            told: 0,
        }
    }

    /// Takes the next token, and says why it was the last one if it was.
    fn push(
        &mut self,
        shared: &Shared,
        token: u32,
        options: &Options,
        context: usize,
        events: &UnboundedSender<Event>,
    ) -> Option<Stop> {
        self.written += 1;
        self.last = [token];
        if self.recent.len() == REPEAT_WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back(token);
        let end = shared.text.is_end(token);
        if !end {
            self.text.push_str(&self.pieces.push(&shared.text, token));
        }
        let found = options.stop.iter().filter(|stop| !stop.is_empty());
        let found = found.filter_map(|stop| Some((self.text[self.told..].find(&stop[..])?, stop))).min();
        let stop = match found {
            Some((at, stop)) => {
                self.text.truncate(self.told + at);
                Some(Stop::StopSequence(stop.clone()))
            }
            None if end => Some(Stop::EndOfTurn),
            None if self.written >= options.max_tokens => Some(Stop::MaxTokens),
            None if self.sequence.len() + 1 >= context => Some(Stop::ContextFull),
            None => None,
        };
        let safe = self.text.len()
            - if stop.is_some() { 0 } else { held_back(&self.text[self.told..], &options.stop) };
        if self.index == 0 && safe > self.told {
            let _ = events.unbounded_send(Event::Text(self.text[self.told..safe].to_owned()));
        }
        self.told = self.told.max(safe);
        stop
    }
}

/// How many bytes at the end of the text may be the beginning of a stop text.
fn held_back(text: &str, stops: &[String]) -> usize {
    let longest = |stop: &String| {
        let ends = text.char_indices().map(|(at, _)| text.len() - at);
        ends.filter(|len| *len < stop.len() && stop.starts_with(&text[text.len() - len..])).max()
    };
    stops.iter().filter_map(longest).max().unwrap_or(0)
}

/// Makes the tokens that were written lately less likely; each once, however often it was written.
fn penalise(scores: &mut [f32], recent: &VecDeque<u32>, penalty: f32) {
    let tokens: BTreeSet<u32> = recent.iter().copied().collect();
    for token in tokens {
        if let Some(score) = scores.get_mut(token as usize) {
            *score = if *score > 0.0 { *score / penalty } else { *score * penalty };
        }
    }
}

/// The next token.
#[allow(clippy::cast_possible_truncation, reason = "a vocabulary has fewer than 2^32 tokens")]
fn pick(scores: &[f32], options: &Options, rng: &mut StdRng) -> u32 {
    let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(token, _)| token);
    if options.temperature <= 0.0 {
        return best as u32;
    }
    let most = scores[best];
    let mut candidates: Vec<(f32, u32)> = scores
        .iter()
        .enumerate()
        .map(|(token, score)| (((score - most) / options.temperature).exp(), token as u32))
        // what is a millionth as likely as the best would never be drawn
        .filter(|(weight, _)| *weight > 1e-6)
        .collect();
    candidates.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let all: f32 = candidates.iter().map(|(weight, _)| weight).sum();
    let mut kept = 0.0;
    let nucleus = candidates.iter().position(|(weight, _)| {
        kept += weight;
        kept >= options.top_p * all
    });
    candidates.truncate(nucleus.map_or(candidates.len(), |last| last + 1));
    let mut at = rng.random::<f32>() * candidates.iter().map(|(weight, _)| weight).sum::<f32>();
    for (weight, token) in &candidates {
        at -= weight;
        if at < 0.0 {
            return *token;
        }
    }
    best as u32
}

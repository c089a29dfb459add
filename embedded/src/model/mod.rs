//! The forward pass of a llama over any mix of sequences at once.

mod attention;
pub(crate) mod gguf;
mod kernels;
mod linear;
mod sequence;

pub(crate) use sequence::Sequence;

use crate::error::Result;
use attention::{Rope, attend};
use gguf::{Config, Gguf};
use kernels::{rms_norm, swiglu};
use linear::Linear;
use rayon::prelude::*;

/// The weights, ready to be multiplied.
pub(crate) struct Model {
    pub(crate) config: Config,
    rope: Rope,
    /// Embeddings, and in most small models the output matrix too.
    tokens: Linear,
    output: Option<Linear>,
    output_norm: Vec<f32>,
    layers: Vec<Layer>,
}

struct Layer {
    attention_norm: Vec<f32>,
    qkv: Linear,
    attention_output: Linear,
    hidden_norm: Vec<f32>,
    gate_up: Linear,
    down: Linear,
}

/// New tokens of one sequence.
pub(crate) struct Span<'a> {
    pub(crate) sequence: &'a mut Sequence,
    pub(crate) tokens: &'a [u32],
    pub(crate) want: Want<'a>,
    /// Whether this is one token that was just written; else it is a part of a text that is read. The two are computed
    /// from different forms of the weights, whatever else is in the batch: so company changes no result.
    pub(crate) writing: bool,
}

/// What is to be found out about a span.
pub(crate) enum Want<'a> {
    Nothing,
    /// How likely each token of the vocabulary comes after the span.
    Next,
    /// How likely each token of the span is followed by the one given here.
    Following(&'a [u32]),
}

/// What was found out about a span.
pub(crate) enum Found {
    Nothing,
    /// Logarithms, up to a constant, of the probability of each token.
    Next(Vec<f32>),
    /// Logarithm of the probability of all that followed.
    Following(f64),
}

impl Model {
    pub(crate) fn load(file: &mut Gguf) -> Result<Model> {
        let config = Config::read(file)?;
        let factors =
            if file.has("rope_freqs.weight") { Some(file.vector("rope_freqs.weight")?) } else { None };
        if factors.as_ref().is_some_and(|factors| factors.len() != config.rope_width / 2) {
            return Err(file.bad("`rope_freqs.weight` does not fit the heads"));
        }
        let mut layers = Vec::with_capacity(config.layers);
        for n in 0..config.layers {
            let name = |part: &str| format!("blk.{n}.{part}.weight");
            let (q, kv) = (config.heads * config.head_width, config.kv_heads * config.head_width);
            layers.push(Layer {
                attention_norm: vector(file, &name("attn_norm"), config.width)?,
                qkv: matrix(
                    file,
                    config.width,
                    &[(&name("attn_q"), q), (&name("attn_k"), kv), (&name("attn_v"), kv)],
                )?,
                attention_output: matrix(file, q, &[(&name("attn_output"), config.width)])?,
                hidden_norm: vector(file, &name("ffn_norm"), config.width)?,
                gate_up: matrix(
                    file,
                    config.width,
                    &[(&name("ffn_gate"), config.hidden), (&name("ffn_up"), config.hidden)],
                )?,
                down: matrix(file, config.hidden, &[(&name("ffn_down"), config.width)])?,
            });
        }
        let vocabulary = file.texts("tokenizer.ggml.tokens").map_or(0, Iterator::count);
        let output = if file.has("output.weight") {
            Some(matrix(file, config.width, &[("output.weight", vocabulary)])?)
        } else {
            None
        };
        Ok(Model {
            rope: Rope::new(&config, factors.as_deref()),
            tokens: matrix(file, config.width, &[("token_embd.weight", vocabulary)])?,
            output,
            output_norm: vector(file, "output_norm.weight", config.width)?,
            layers,
            config,
        })
    }

    /// Reads the tokens of all spans at once, and gives what is wanted, in the order of the spans.
    pub(crate) fn forward(&self, spans: &mut [Span<'_>]) -> Result<Vec<Found>> {
        let Config { hidden, epsilon, .. } = self.config;
        let (written, read): (Vec<_>, Vec<_>) =
            spans.iter_mut().enumerate().partition(|(_, span)| span.writing);
        let few = written.len();
        let (mut x, mut angles, mut sequences, mut asked) =
            (Vec::new(), Vec::new(), Vec::new(), Asked::default());
        for (n, span) in written.into_iter().chain(read) {
            asked.push(n, angles.len(), span);
            let start = span.sequence.len();
            for (n, token) in span.tokens.iter().enumerate() {
                self.tokens.row(*token as usize, &mut x);
                angles.push(self.rope.at(start + n));
            }
            sequences.push((&mut *span.sequence, span.tokens.len()));
        }
        for (n, layer) in self.layers.iter().enumerate() {
            let qkv = layer.qkv.forward(rms_norm(&x, &layer.attention_norm, epsilon), few)?;
            let seen = attend(&self.config, n, qkv, &angles, &mut sequences);
            add(&mut x, &layer.attention_output.forward(seen, few)?);
            let gate_up = layer.gate_up.forward(rms_norm(&x, &layer.hidden_norm, epsilon), few)?;
            add(&mut x, &layer.down.forward(swiglu(&gate_up, hidden), few)?);
        }
        for (sequence, count) in sequences {
            sequence.own.len += count;
        }
        self.answer(&asked, &x, spans.len())
    }

    /// What is wanted, from the last layer's output for each token.
    fn answer(&self, asked: &Asked, x: &[f32], spans: usize) -> Result<Vec<Found>> {
        // at most so many rows over the whole vocabulary are in memory at once
        const ROWS: usize = 32;
        let Config { width, epsilon, .. } = self.config;
        let output = self.output.as_ref().unwrap_or(&self.tokens);
        let scores = |rows: &mut dyn Iterator<Item = usize>, few: usize| {
            let rows: Vec<f32> = rows.flat_map(|row| &x[row * width..][..width]).copied().collect();
            output.forward(rms_norm(&rows, &self.output_norm, epsilon), few)
        };
        let mut found: Vec<Found> = (0..spans).map(|_| Found::Nothing).collect();
        for asked in asked.next.chunks(ROWS) {
            let scores = scores(&mut asked.iter().map(|(_, row)| *row), asked.len())?;
            for ((n, _), scores) in asked.iter().zip(scores.chunks_exact(output.rows())) {
                found[*n] = Found::Next(scores.to_vec());
            }
        }
        for asked in asked.following.chunks(ROWS) {
            let scores = scores(&mut asked.iter().map(|(_, row, _)| *row), 0)?;
            let pairs = scores.par_chunks_exact(output.rows()).zip(asked);
            let logarithms: Vec<f64> =
                pairs.map(|(scores, (_, _, next))| log_probability(scores, *next)).collect();
            for ((n, _, _), logarithm) in asked.iter().zip(logarithms) {
                let sum = if let Found::Following(sum) = found[*n] { sum } else { 0.0 };
                found[*n] = Found::Following(sum + logarithm);
            }
        }
        Ok(found)
    }
}

/// Which rows of the last layer's output are wanted, and for which span.
#[derive(Default)]
struct Asked {
    next: Vec<(usize, usize)>,
    following: Vec<(usize, usize, u32)>,
}

impl Asked {
    /// A span by its number, and the row of its first token.
    fn push(&mut self, n: usize, row: usize, span: &Span<'_>) {
        match span.want {
            Want::Nothing => {}
            Want::Next => self.next.push((n, row + span.tokens.len() - 1)),
            Want::Following(next) => {
                self.following.extend(next.iter().enumerate().map(|(at, next)| (n, row + at, *next)));
            }
        }
    }
}

fn log_probability(scores: &[f32], token: u32) -> f64 {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let all: f64 = scores.iter().map(|score| f64::from((score - most).exp())).sum();
    f64::from(scores[token as usize] - most) - all.ln()
}

fn add(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

/// The named matrices stacked, after a look at their shapes.
fn matrix(file: &mut Gguf, columns: usize, parts: &[(&str, usize)]) -> Result<Linear> {
    let mut tensors = Vec::with_capacity(parts.len());
    for (name, rows) in parts {
        let tensor = file.tensor(name)?;
        if tensor.shape().dims() != [*rows, columns] {
            return Err(file.bad(format!("`{name}` is {:?}, not {rows} by {columns}", tensor.shape())));
        }
        tensors.push(tensor);
    }
    Linear::new(&tensors).map_err(|error| file.bad(error))
}

fn vector(file: &mut Gguf, name: &str, len: usize) -> Result<Vec<f32>> {
    let values = file.vector(name)?;
    if values.len() != len {
        return Err(file.bad(format!("`{name}` has {} numbers, not {len}", values.len())));
    }
    Ok(values)
}

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
    /// After how many of the tokens, counted from the end, the next-token scores are wanted.
    pub(crate) scores: usize,
}

impl Model {
    pub(crate) fn load(file: &mut Gguf) -> Result<Model> {
        let config = Config::read(file)?;
        let factors = if file.has("rope_freqs.weight") { Some(file.vector("rope_freqs.weight")?) } else { None };
        if factors.as_ref().is_some_and(|factors| factors.len() != config.rope_width / 2) {
            return Err(file.bad("`rope_freqs.weight` does not fit the heads"));
        }
        let mut layers = Vec::with_capacity(config.layers);
        for n in 0..config.layers {
            let name = |part: &str| format!("blk.{n}.{part}.weight");
            let (q, kv) = (config.heads * config.head_width, config.kv_heads * config.head_width);
            layers.push(Layer {
                attention_norm: vector(file, &name("attn_norm"), config.width)?,
                qkv: matrix(file, config.width, &[(&name("attn_q"), q), (&name("attn_k"), kv), (&name("attn_v"), kv)])?,
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

    /// Reads the tokens of all spans at once, and gives the wanted scores: for each a list over the whole vocabulary
    /// (unnormalised logarithms), in the order of spans and tokens.
    pub(crate) fn forward(&self, spans: &mut [Span<'_>]) -> Result<Vec<Vec<f32>>> {
        let Config { width, hidden, epsilon, .. } = self.config;
        let (mut x, mut angles, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
        for span in &*spans {
            let start = span.sequence.len();
            for (n, token) in span.tokens.iter().enumerate() {
                if n + span.scores >= span.tokens.len() {
                    wanted.push(angles.len());
                }
                self.tokens.row(*token as usize, &mut x);
                angles.push(self.rope.at(start + n));
            }
        }
        let mut sequences: Vec<(&mut Sequence, usize)> =
            spans.iter_mut().map(|span| (&mut *span.sequence, span.tokens.len())).collect();
        for (n, layer) in self.layers.iter().enumerate() {
            let qkv = layer.qkv.forward(rms_norm(&x, &layer.attention_norm, epsilon))?;
            let seen = attend(&self.config, n, qkv, &angles, &mut sequences);
            add(&mut x, &layer.attention_output.forward(seen)?);
            let gate_up = layer.gate_up.forward(rms_norm(&x, &layer.hidden_norm, epsilon))?;
            add(&mut x, &layer.down.forward(swiglu(&gate_up, hidden))?);
        }
        for (sequence, count) in sequences {
            sequence.own.len += count;
        }
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let last: Vec<f32> = wanted.iter().flat_map(|row| &x[row * width..(row + 1) * width]).copied().collect();
        let output = self.output.as_ref().unwrap_or(&self.tokens);
        let scores = output.forward(rms_norm(&last, &self.output_norm, epsilon))?;
        Ok(scores.chunks_exact(output.rows()).map(<[f32]>::to_vec).collect())
    }
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

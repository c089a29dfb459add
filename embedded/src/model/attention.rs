//! Attention of tokens to what their own sequence holds.

use super::gguf::Config;
use super::kernels::{add_scaled, dot, softmax, vectorised};
use super::sequence::{LayerMemory, Sequence};
use rayon::prelude::*;

/// The turning of keys and queries by their position, for the interleaved pairs that GGUF files hold.
pub(super) struct Rope {
    frequencies: Vec<f32>,
}

impl Rope {
    /// `factors`, when the file has them, divide the frequencies (Llama 3).
    pub(super) fn new(config: &Config, factors: Option<&[f32]>) -> Rope {
        #[allow(clippy::cast_precision_loss)]
        let frequency = |pair: usize| {
            let factor = factors.map_or(1.0, |factors| factors[pair]);
            config.rope_base.powf(-2.0 * pair as f32 / config.rope_width as f32)
                / (factor * config.rope_scale)
        };
        Rope { frequencies: (0..config.rope_width / 2).map(frequency).collect() }
    }

    /// Sine and cosine for each pair at a position.
    pub(super) fn at(&self, position: usize) -> Vec<[f32; 2]> {
        #[allow(clippy::cast_precision_loss)]
        self.frequencies.iter().map(|frequency| (position as f32 * frequency).sin_cos().into()).collect()
    }
}

/// Turns the pairs of one head in place.
fn turn(head: &mut [f32], angles: &[[f32; 2]]) {
    for (pair, [sin, cos]) in head.as_chunks_mut::<2>().0.iter_mut().zip(angles) {
        let [a, b] = *pair;
        *pair = [a * cos - b * sin, a * sin + b * cos];
    }
}

/// Reads the new tokens of each sequence in one layer. `qkv` holds queries, keys and values of a token in a row, the
/// tokens of the first sequence first; with each sequence stands how many they are. Keys and values are remembered.
pub(super) fn attend(
    config: &Config,
    layer: usize,
    mut qkv: Vec<f32>,
    angles: &[Vec<[f32; 2]>],
    sequences: &mut [(&mut Sequence, usize)],
) -> Vec<f32> {
    let Config { heads, kv_heads, head_width, .. } = *config;
    let row_width = (heads + 2 * kv_heads) * head_width;
    for (row, angles) in qkv.chunks_exact_mut(row_width).zip(angles) {
        for head in row[..(heads + kv_heads) * head_width].chunks_exact_mut(head_width) {
            turn(head, angles);
        }
    }
    let mut rows = qkv.chunks_exact(row_width);
    for (sequence, count) in &mut *sequences {
        let LayerMemory { keys, values } = &mut sequence.own.layers[layer];
        for row in rows.by_ref().take(*count) {
            let (new_keys, new_values) = row[heads * head_width..].split_at(kv_heads * head_width);
            for head in 0..kv_heads {
                keys[head].extend_from_slice(&new_keys[head * head_width..][..head_width]);
                values[head].extend_from_slice(&new_values[head * head_width..][..head_width]);
            }
        }
    }

    // for each token: its sequence, and how much of it the token may see
    let tokens: Vec<(&Sequence, usize)> = sequences
        .iter()
        .flat_map(|(sequence, count)| (0..*count).map(|token| (&**sequence, sequence.own.len + token + 1)))
        .collect();
    let width = heads * head_width;
    let mut out = vec![0.0; tokens.len() * width];
    let one =
        |token: &(&Sequence, usize), row: &[f32], out: &mut [f32]| one_token(config, layer, *token, row, out);
    let work: usize = tokens.iter().map(|(sequence, own)| own + sequence.len() - sequence.own.len).sum();
    // below this, threads cost more than they give
    if work < 256 {
        let rows = qkv.chunks_exact(row_width).zip(out.chunks_exact_mut(width));
        tokens.iter().zip(rows).for_each(|(token, (row, out))| one(token, row, out));
    } else {
        let rows = qkv.par_chunks_exact(row_width).zip(out.par_chunks_exact_mut(width));
        tokens.par_iter().zip(rows).for_each(|(token, (row, out))| one(token, row, out));
    }
    out
}

vectorised! {
    fn one_token(config: &Config, layer: usize, token: (&Sequence, usize), row: &[f32], out: &mut [f32]) {
        let (sequence, own) = token;
        let Config { heads, kv_heads, head_width, .. } = *config;
        #[allow(clippy::cast_precision_loss)]
        let scale = 1.0 / (head_width as f32).sqrt();
        let shared = sequence.shared.as_deref().map(|shared| &shared.layers[layer]);
        let mut scores = Vec::with_capacity(sequence.len() + own);
        for (head, out) in out.chunks_exact_mut(head_width).enumerate() {
            let kv_head = head * kv_heads / heads;
            let query = &row[head * head_width..][..head_width];
            let own_memory = &sequence.own.layers[layer];
            let parts = [
                shared.map(|shared| (&shared.keys[kv_head][..], &shared.values[kv_head][..])),
                Some((
                    &own_memory.keys[kv_head][..own * head_width],
                    &own_memory.values[kv_head][..own * head_width],
                )),
            ];
            scores.clear();
            for (keys, _) in parts.iter().flatten() {
                scores.extend(keys.chunks_exact(head_width).map(|key| scale * dot(query, key)));
            }
            softmax(&mut scores);
            let mut weights = scores.iter();
            for (_, values) in parts.iter().flatten() {
                for (value, weight) in values.chunks_exact(head_width).zip(weights.by_ref()) {
                    add_scaled(out, *weight, value);
                }
            }
        }
    }
}

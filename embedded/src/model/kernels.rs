//! The inner loops. They are written so that the compiler vectorises them, and run through [`pulp`], which picks the
//! widest instructions of the machine at run time; so a default build is fast without `unsafe` and without flags.

use rayon::prelude::*;

/// Defines functions whose bodies are compiled for each level of vector instructions, and run at the highest one that
/// the machine has. A closure would not do: it is compiled on its own, for the lowest level.
macro_rules! vectorised {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$meta])*
        $vis fn $name($($arg: $type),*) {
            struct Call<A>(A);
            impl pulp::WithSimd for Call<($($type,)*)> {
                type Output = ();
                #[inline(always)]
                fn with_simd<S: pulp::Simd>(self, _: S) {
                    let ($($arg,)*) = self.0;
                    $body
                }
            }
            pulp::Arch::new().dispatch(Call(($($arg,)*)));
        }
    )*};
}
pub(super) use vectorised;

// Where a product is added, `mul_add` would be a slow call on a machine without the instruction.

/// Lanes that a sum is kept in: two registers of AVX2, so that two additions are in flight.
const LANES: usize = 16;

/// Dot product of two slices of one length.
#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sum = [0.0; LANES];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sum[lane] += a[lane] * b[lane];
        }
    }
    total(&sum) + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
}

/// Adds `factor * b` to `a`.
#[inline(always)]
pub(super) fn add_scaled(a: &mut [f32], factor: f32, b: &[f32]) {
    for (a, b) in a.iter_mut().zip(b) {
        *a += factor * b;
    }
}

/// The sum of the lanes, in pairs: short chains of additions.
#[inline(always)]
pub(super) fn total(lanes: &[f32; LANES]) -> f32 {
    let mut sum = *lanes;
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sum[lane] += sum[lane + width];
        }
        width /= 2;
    }
    sum[0]
}

/// `e^x` in operations that vectorise (the library's `exp` is a call per number): `2^n` through the exponent bits, the
/// rest by a polynomial. The relative error is about 1e-7 times the larger of 5 and `x`.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    const POLYNOMIAL: [f32; 7] = [
        1.0,
        std::f32::consts::LN_2,
        0.240_226_5,
        0.055_504_11,
        0.009_618_129,
        0.001_333_355_8,
        0.000_154_035_3,
    ];
    let power = (x * std::f32::consts::LOG2_E).clamp(-126.0, 127.0);
    // adding and taking away 1.5 * 2^23 rounds to the nearest whole number, without a call
    const ROUND: f32 = 12_582_912.0;
    let whole = (power + ROUND) - ROUND;
    let rest = power - whole;
    let mut value = POLYNOMIAL[6];
    for coefficient in POLYNOMIAL[..6].iter().rev() {
        value = value * rest + coefficient;
    }
    // the low bits of the rounded sum are the whole number, in two's complement
    value * f32::from_bits((power + ROUND).to_bits().wrapping_add(127) << 23)
}

/// Each row of `x` divided by its root mean square and scaled by `weight`.
pub(super) fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32) -> Vec<f32> {
    let mut out = vec![0.0; x.len()];
    normalise(x, weight, epsilon, &mut out);
    out
}

/// `silu(gate) * up` for rows that hold the gate in their first half and the other factor in their second.
pub(super) fn swiglu(rows: &[f32], width: usize) -> Vec<f32> {
    let mut out = vec![0.0; rows.len() / 2];
    // rows for one thread at a time
    const AT_ONCE: usize = 8;
    rows.par_chunks(2 * width * AT_ONCE)
        .zip(out.par_chunks_mut(width * AT_ONCE))
        .for_each(|(rows, out)| gate(rows, width, out));
    out
}

vectorised! {
    fn normalise(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
        let width = weight.len();
        for (row, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            #[allow(clippy::cast_precision_loss)]
            let mean = dot(row, row) / width as f32;
            let factor = 1.0 / (mean + epsilon).sqrt();
            for ((out, x), weight) in out.iter_mut().zip(row).zip(weight) {
                *out = x * factor * weight;
            }
        }
    }

    fn gate(rows: &[f32], width: usize, out: &mut [f32]) {
        for (row, out) in rows.chunks_exact(2 * width).zip(out.chunks_exact_mut(width)) {
            let (gate, up) = row.split_at(width);
            for ((out, gate), up) in out.iter_mut().zip(gate).zip(up) {
                *out = gate / (1.0 + exp(-gate)) * up;
            }
        }
    }
}

/// Turns scores into weights that sum to 1, in place.
#[inline(always)]
pub(super) fn softmax(scores: &mut [f32]) {
    let mut most = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = scores.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            most[lane] = if chunk[lane] > most[lane] { chunk[lane] } else { most[lane] };
        }
    }
    let most = most.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max);
    for score in &mut *scores {
        *score = exp(*score - most);
    }
    let mut sum = [0.0; LANES];
    let (chunks, rest) = scores.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            sum[lane] += chunk[lane];
        }
    }
    let factor = 1.0 / (total(&sum) + rest.iter().sum::<f32>());
    for score in scores {
        *score *= factor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_agrees_with_the_library() {
        for step in -8_000..8_000 {
            #[allow(clippy::cast_precision_loss)]
            let x = step as f32 * 0.01;
            let (ours, theirs) = (exp(x), x.exp());
            assert!(
                (ours - theirs).abs() <= (5e-7 + 1e-7 * x.abs()) * theirs,
                "e^{x}: {ours} is not {theirs}"
            );
        }
        assert!(exp(-1e9) < 1e-37);
    }

    #[test]
    fn softmax_sums_to_one_and_keeps_the_order() {
        for count in [1, 2, 15, 16, 17, 100] {
            #[allow(clippy::cast_precision_loss)]
            let mut scores: Vec<f32> = (0..count).map(|n| n as f32 * 0.3 - 40.0).collect();
            softmax(&mut scores);
            assert!((scores.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            assert!(scores.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }

    #[test]
    fn dot_of_any_length() {
        for count in [0, 1, 15, 16, 17, 64, 100] {
            #[allow(clippy::cast_precision_loss)]
            let a: Vec<f32> = (0..count).map(|n| n as f32).collect();
            let plain: f32 = a.iter().map(|a| a * a).sum();
            assert!((dot(&a, &a) - plain).abs() <= 1e-5 * plain);
        }
    }
}

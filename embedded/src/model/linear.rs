//! A weight matrix in two forms: dense `f32` where many rows are multiplied at once (the processor's arithmetic is the
//! bound, and candle's matrix product is at it), and eight-bit blocks where there are few (memory is the bound, and a
//! quarter of the bytes is nearly four times the speed).

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Result, Storage, Tensor};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

/// Weights that share a scale and an offset.
const BLOCK: usize = 32;

/// `y = x · Wᵀ`.
pub(super) struct Linear {
    rows: usize,
    columns: usize,
    blocks: Blocks,
    /// The transposed dense matrix.
    dense: Tensor,
}

/// `weight = scale * quant + offset`, which holds every four-, five- and eight-bit format of ggml without loss.
struct Blocks {
    quants: Vec<[i8; BLOCK]>,
    scales: Vec<[f32; 2]>,
}

impl Linear {
    /// The matrices stacked on each other: one product instead of several with the same input.
    pub(super) fn new(parts: &[QTensor]) -> Result<Linear> {
        let columns = parts[0].shape().dims2()?.1;
        let dense: Vec<Tensor> =
            parts.iter().map(|part| part.dequantize(&Device::Cpu)).collect::<Result<_>>()?;
        let dense = if let [one] = &dense[..] { one.clone() } else { Tensor::cat(&dense, 0)? };
        if columns % BLOCK != 0 {
            candle_core::bail!("a matrix has {columns} columns, which is no multiple of {BLOCK}");
        }
        let mut blocks = Blocks { quants: Vec::new(), scales: Vec::new() };
        for part in parts {
            blocks.push(part)?;
        }
        Ok(Linear { rows: dense.dim(0)?, columns, blocks, dense: dense.t()? })
    }

    /// Number of outputs.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// One row of the matrix: the embedding of a token.
    pub(super) fn row(&self, index: usize, out: &mut Vec<f32>) {
        let per_row = self.columns / BLOCK;
        let range = index * per_row..(index + 1) * per_row;
        for (quants, [scale, offset]) in
            self.blocks.quants[range.clone()].iter().zip(&self.blocks.scales[range])
        {
            out.extend(quants.iter().map(|quant| f32::from(*quant) * scale + offset));
        }
    }

    /// The product with each row of `x`, the first `few` of them from the blocks, the others from the dense form. What
    /// comes out for a row does not depend on the others.
    pub(super) fn forward(&self, mut x: Vec<f32>, few: usize) -> Result<Vec<f32>> {
        let count = x.len() / self.columns;
        if few == count {
            return Ok(self.few(&x, count));
        }
        let mut out = Vec::with_capacity(count * self.rows);
        if few > 0 {
            out.extend(self.few(&x[..few * self.columns], few));
            x.drain(..few * self.columns);
        }
        let many = count - few;
        if many == 1 {
            // a single row would go through another algorithm, with slightly other sums
            x.extend_from_within(..);
        }
        let product = Tensor::from_vec(x, (many.max(2), self.columns), &Device::Cpu)?.matmul(&self.dense)?;
        let (storage, _) = product.storage_and_layout();
        match &*storage {
            Storage::Cpu(values) => out.extend_from_slice(&values.as_slice::<f32>()?[..many * self.rows]),
            _ => candle_core::bail!("the product is not in main memory"),
        }
        Ok(out)
    }

    fn few(&self, x: &[f32], count: usize) -> Vec<f32> {
        // rows of the matrix for one thread at a time: long enough that handing it over does not show
        const AT_ONCE: usize = 64;
        let mut transposed = vec![0.0; self.rows * count];
        transposed.par_chunks_mut(AT_ONCE * count).enumerate().for_each(|(index, out)| {
            Arch::new().dispatch(SomeRows { matrix: self, x, count, first: index * AT_ONCE, out });
        });
        if count == 1 {
            return transposed;
        }
        let mut out = vec![0.0; transposed.len()];
        for (row, values) in transposed.chunks_exact(count).enumerate() {
            for (n, value) in values.iter().enumerate() {
                out[n * self.rows + row] = *value;
            }
        }
        out
    }
}

/// Some rows of a matrix, for one thread.
struct SomeRows<'a> {
    matrix: &'a Linear,
    x: &'a [f32],
    count: usize,
    first: usize,
    /// Gets `count` values for each row.
    out: &'a mut [f32],
}

impl WithSimd for SomeRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let columns = self.matrix.columns;
        let per_row = columns / BLOCK;
        let mut weights = vec![0.0; columns];
        for (row, out) in self.out.chunks_exact_mut(self.count).enumerate() {
            let range = (self.first + row) * per_row..(self.first + row + 1) * per_row;
            for (weight, quant) in
                weights.iter_mut().zip(self.matrix.blocks.quants[range.clone()].as_flattened())
            {
                *weight = f32::from(*quant);
            }
            let scales = &self.matrix.blocks.scales[range];
            let (mut x, mut out) = (self.x, out);
            while !out.is_empty() {
                let done = match out.len() {
                    1 => one_row::<S, 1>(simd, &weights, scales, x, out),
                    2 => one_row::<S, 2>(simd, &weights, scales, x, out),
                    3 => one_row::<S, 3>(simd, &weights, scales, x, out),
                    4 => one_row::<S, 4>(simd, &weights, scales, x, out),
                    5 => one_row::<S, 5>(simd, &weights, scales, x, out),
                    _ => one_row::<S, 6>(simd, &weights, scales, x, out),
                };
                (x, out) = (&x[done * columns..], &mut out[done..]);
            }
        }
    }
}

/// One row of the matrix times `N` inputs: each weight is unpacked once. The order of the additions is the same for
/// every `N`, so a batch gives exactly what its members give alone.
#[inline(always)]
fn one_row<S: Simd, const N: usize>(
    simd: S,
    quants: &[f32],
    scales: &[[f32; 2]],
    x: &[f32],
    out: &mut [f32],
) -> usize {
    let columns = quants.len();
    let quants = S::as_simd_f32s(quants).0;
    let inputs: [&[S::f32s]; N] =
        std::array::from_fn(|n| S::as_simd_f32s(&x[n * columns..(n + 1) * columns]).0);
    let mut sums = [[simd.splat_f32s(0.0); 2]; N];
    let per_block = BLOCK / S::F32_LANES;
    for (index, [scale, offset]) in scales.iter().enumerate() {
        let (scale, offset) = (simd.splat_f32s(*scale), simd.splat_f32s(*offset));
        let range = index * per_block..(index + 1) * per_block;
        let inputs: [&[S::f32s]; N] = std::array::from_fn(|n| &inputs[n][range.clone()]);
        for (at, quant) in quants[range].iter().enumerate() {
            let weight = simd.mul_add_e_f32s(*quant, scale, offset);
            for n in 0..N {
                sums[n][at % 2] = simd.mul_add_e_f32s(weight, inputs[n][at], sums[n][at % 2]);
            }
        }
    }
    for n in 0..N {
        out[n] = simd.reduce_sum_f32s(simd.add_f32s(sums[n][0], sums[n][1]));
    }
    N
}

impl Blocks {
    fn push(&mut self, tensor: &QTensor) -> Result<()> {
        match tensor.dtype() {
            GgmlDType::Q4_1 => {
                // as it lies in the file: f16 scale, f16 offset, low nibbles of the first half, high ones of the second
                for block in tensor.data()?.as_chunks::<20>().0 {
                    let quants = std::array::from_fn(|n| {
                        let byte = block[4 + n % 16];
                        (if n < 16 { byte & 15 } else { byte >> 4 }).cast_signed()
                    });
                    self.quants.push(quants);
                    self.scales.push([half(block[0], block[1]), half(block[2], block[3])]);
                }
            }
            GgmlDType::Q8_0 => {
                for block in tensor.data()?.as_chunks::<34>().0 {
                    self.quants.push(std::array::from_fn(|n| block[2 + n].cast_signed()));
                    self.scales.push([half(block[0], block[1]), 0.0]);
                }
            }
            _ => {
                let dense = QTensor::quantize(&tensor.dequantize(&Device::Cpu)?, GgmlDType::Q8_0)?;
                self.push(&dense)?;
            }
        }
        Ok(())
    }
}

fn half(low: u8, high: u8) -> f32 {
    half::f16::from_le_bytes([low, high]).to_f32()
}

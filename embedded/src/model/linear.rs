//! A weight matrix in two forms: dense `f32` where many rows are multiplied at once (the processor's arithmetic is the
//! bound, and candle's matrix product is at it), and eight-bit blocks where there are few (memory is the bound, and a
//! quarter of the bytes is nearly four times the speed).

use super::kernels::ARCH;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Result, Storage, Tensor};
use rayon::prelude::*;

/// Weights that share a scale and an offset.
const BLOCK: usize = 32;
/// Lanes of a sum, see `kernels.rs`.
const LANES: usize = 16;
/// From so many rows on the dense form is the faster one (measured on two cores with AVX2).
const DENSE_FROM: usize = 12;

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
        let dense: Vec<Tensor> = parts.iter().map(|part| part.dequantize(&Device::Cpu)).collect::<Result<_>>()?;
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
        for (quants, [scale, offset]) in self.blocks.quants[range.clone()].iter().zip(&self.blocks.scales[range]) {
            out.extend(quants.iter().map(|quant| f32::from(*quant).mul_add(*scale, *offset)));
        }
    }

    /// The product with each row of `x`.
    pub(super) fn forward(&self, x: Vec<f32>) -> Result<Vec<f32>> {
        let count = x.len() / self.columns;
        if count < DENSE_FROM {
            return Ok(self.few(&x, count));
        }
        let product = Tensor::from_vec(x, (count, self.columns), &Device::Cpu)?.matmul(&self.dense)?;
        let (storage, _) = product.storage_and_layout();
        match &*storage {
            Storage::Cpu(values) => Ok(values.as_slice::<f32>()?.to_vec()),
            _ => candle_core::bail!("the product is not in main memory"),
        }
    }

    fn few(&self, x: &[f32], count: usize) -> Vec<f32> {
        // rows of the matrix for one thread at a time: long enough that handing it over does not show
        const AT_ONCE: usize = 64;
        let mut transposed = vec![0.0; self.rows * count];
        transposed.par_chunks_mut(AT_ONCE * count).enumerate().for_each(|(index, out)| {
            ARCH.dispatch(|| self.some_rows(x, count, index * AT_ONCE, out));
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

    /// The rows from `first` on, for all `count` inputs; `out` holds `count` values for each row.
    #[inline(always)]
    fn some_rows(&self, x: &[f32], count: usize, first: usize, out: &mut [f32]) {
        for (row, out) in out.chunks_exact_mut(count).enumerate() {
            let mut done = 0;
            while done < count {
                let x = &x[done * self.columns..];
                let out = &mut out[done..];
                done += match count - done {
                    1 => self.one_row::<1>(first + row, x, out),
                    2 => self.one_row::<2>(first + row, x, out),
                    3 => self.one_row::<3>(first + row, x, out),
                    _ => self.one_row::<4>(first + row, x, out),
                };
            }
        }
    }

    /// One row of the matrix times `N` inputs: each weight is unpacked once. The order of the additions is the same
    /// for every `N`, so a batch gives exactly what its members give alone.
    #[inline(always)]
    fn one_row<const N: usize>(&self, row: usize, x: &[f32], out: &mut [f32]) -> usize {
        let per_row = self.columns / BLOCK;
        let range = row * per_row..(row + 1) * per_row;
        let inputs: [&[[f32; LANES]]; N] =
            std::array::from_fn(|n| x[n * self.columns..(n + 1) * self.columns].as_chunks().0);
        let mut sums = [[0.0_f32; LANES]; N];
        for (index, (quants, [scale, offset])) in
            self.blocks.quants[range.clone()].iter().zip(&self.blocks.scales[range]).enumerate()
        {
            for (half, quants) in quants.as_chunks::<LANES>().0.iter().enumerate() {
                let mut weights = [0.0; LANES];
                for lane in 0..LANES {
                    weights[lane] = f32::from(quants[lane]).mul_add(*scale, *offset);
                }
                for n in 0..N {
                    let x = &inputs[n][2 * index + half];
                    for lane in 0..LANES {
                        sums[n][lane] = weights[lane].mul_add(x[lane], sums[n][lane]);
                    }
                }
            }
        }
        for n in 0..N {
            out[n] = super::kernels::total(&sums[n]);
        }
        N
    }
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

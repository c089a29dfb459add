//! A model of a few thousand weights, made up on the spot, in a GGUF file of its own.

use candle_core::quantized::gguf_file::{Value, write};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use patterns_embedded::{Engine, Result};
use std::fs::File;
use std::path::{Path, PathBuf};

pub(crate) struct Tiny {
    pub(crate) architecture: &'static str,
    pub(crate) context: u32,
    /// Whether the output matrix is another one than the embeddings.
    pub(crate) own_output: bool,
    pub(crate) format: GgmlDType,
    /// A tensor that is left out.
    pub(crate) without: &'static str,
    pub(crate) splitting: &'static str,
}

impl Default for Tiny {
    fn default() -> Tiny {
        Tiny {
            architecture: "llama",
            context: 64,
            own_output: false,
            format: GgmlDType::F32,
            without: "",
            splitting: "smollm",
        }
    }
}

const WIDTH: usize = 64;
const HIDDEN: usize = 96;
const HEAD: usize = 16;

impl Tiny {
    pub(crate) fn engine(&self) -> Engine {
        self.load().expect("a model")
    }

    pub(crate) fn load(&self) -> Result<Engine> {
        let folder = tempfile::tempdir().expect("a folder");
        Engine::load(self.write(folder.path()))
    }

    pub(crate) fn write(&self, folder: &Path) -> PathBuf {
        // a vocabulary of letters, and the two tokens that a chat needs
        let mut tokens: Vec<String> = ["<|im_start|>", "<|im_end|>"].map(str::to_owned).into();
        tokens.extend(('!'..='~').map(String::from));
        tokens.extend(["Ġ", "Ċ"].map(str::to_owned));
        let kinds = (0..tokens.len()).map(|n| Value::I32(if n < 2 { 3 } else { 1 })).collect();
        let vocabulary = tokens.len();
        let text = |text: &str| Value::String(text.to_owned());
        let template = "{% for message in messages %}<|im_start|>{{ message.content }}<|im_end|>{% endfor %}<|im_start|>";
        let metadata = [
            ("general.architecture", text(self.architecture)),
            ("llama.block_count", Value::U32(2)),
            ("llama.context_length", Value::U32(self.context)),
            ("llama.embedding_length", Value::U32(64)),
            ("llama.feed_forward_length", Value::U32(96)),
            ("llama.attention.head_count", Value::U32(4)),
            ("llama.attention.head_count_kv", Value::U32(2)),
            ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
            ("tokenizer.ggml.model", text("gpt2")),
            ("tokenizer.ggml.pre", text(self.splitting)),
            ("tokenizer.ggml.tokens", Value::Array(tokens.iter().map(|token| text(token)).collect())),
            ("tokenizer.ggml.token_type", Value::Array(kinds)),
            ("tokenizer.ggml.merges", Value::Array(Vec::new())),
            ("tokenizer.ggml.bos_token_id", Value::U32(0)),
            ("tokenizer.ggml.eos_token_id", Value::U32(1)),
            ("tokenizer.chat_template", text(template)),
        ];
        let mut shapes =
            vec![("token_embd".to_owned(), vocabulary, WIDTH), ("output_norm".to_owned(), 0, WIDTH)];
        if self.own_output {
            shapes.push(("output".to_owned(), vocabulary, WIDTH));
        }
        for layer in 0..2 {
            let parts = [
                ("attn_norm", 0, WIDTH),
                ("attn_q", 4 * HEAD, WIDTH),
                ("attn_k", 2 * HEAD, WIDTH),
                ("attn_v", 2 * HEAD, WIDTH),
                ("attn_output", WIDTH, 4 * HEAD),
                ("ffn_norm", 0, WIDTH),
                ("ffn_gate", HIDDEN, WIDTH),
                ("ffn_up", HIDDEN, WIDTH),
                ("ffn_down", WIDTH, HIDDEN),
            ];
            shapes.extend(parts.map(|(name, rows, columns)| (format!("blk.{layer}.{name}"), rows, columns)));
        }
        let mut noise = 1_u32;
        let mut tensors = Vec::new();
        for (name, rows, columns) in shapes.iter().filter(|(name, ..)| name != self.without) {
            let count = columns * rows.max(&1);
            let values: Vec<f32> = (0..count)
                .map(|_| {
                    noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    if *rows == 0 { 1.0 } else { f32::from(noise.to_be_bytes()[1]) / 255.0 - 0.5 }
                })
                .collect();
            let shape = if *rows == 0 { vec![*columns] } else { vec![*rows, *columns] };
            let tensor = Tensor::from_vec(values, shape, &Device::Cpu).expect("a tensor");
            let format = if *rows == 0 { GgmlDType::F32 } else { self.format };
            tensors.push((
                format!("{name}.weight"),
                QTensor::quantize(&tensor, format).expect("a quantised tensor"),
            ));
        }
        let path = folder.join("tiny.gguf");
        let metadata: Vec<_> = metadata.iter().map(|(key, value)| (*key, value)).collect();
        let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (&name[..], tensor)).collect();
        write(&mut File::create(&path).expect("a file"), &metadata, &tensors).expect("a GGUF file");
        path
    }
}

//! Reading a GGUF file: hyper-parameters, tensors, and whatever else its metadata says.

use crate::error::{Error, ErrorKind, Result};
use candle_core::Device;
use candle_core::quantized::QTensor;
use candle_core::quantized::gguf_file::{Content, Value};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// An open GGUF file.
pub(crate) struct Gguf {
    path: PathBuf,
    reader: BufReader<File>,
    pub(crate) content: Content,
}

impl Gguf {
    pub(crate) fn open(path: &Path) -> Result<Gguf> {
        let bad = |why: String| {
            Error::new(ErrorKind::BadFile, format!("cannot read the model {}: {why}", path.display()))
        };
        let file = File::open(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Error::new(ErrorKind::MissingWeights, format!("there is no model file {}", path.display()))
            }
            _ => bad(error.to_string()),
        })?;
        let mut reader = BufReader::new(file);
        let content = Content::read(&mut reader)
            .map_err(|error| bad(format!("it is not a whole GGUF file ({error})")))?;
        Ok(Gguf { path: path.to_owned(), reader, content })
    }

    /// An error about this file.
    pub(crate) fn bad(&self, why: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::BadFile, format!("cannot use the model {}: {why}", self.path.display()))
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        match self.content.metadata.get(key)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn texts(&self, key: &str) -> Option<impl Iterator<Item = &str>> {
        match self.content.metadata.get(key)? {
            Value::Array(values) => {
                Some(values.iter().filter_map(|value| value.to_string().ok().map(String::as_str)))
            }
            _ => None,
        }
    }

    pub(crate) fn whole(&self, key: &str) -> Option<usize> {
        let value = self.content.metadata.get(key)?;
        let value = value.to_u64().ok().or_else(|| value.to_u32().ok().map(u64::from))?;
        usize::try_from(value).ok()
    }

    pub(crate) fn number(&self, key: &str) -> Option<f32> {
        self.content.metadata.get(key)?.to_f32().ok()
    }

    pub(crate) fn has(&self, tensor: &str) -> bool {
        self.content.tensor_infos.contains_key(tensor)
    }

    pub(crate) fn tensor(&mut self, name: &str) -> Result<QTensor> {
        if !self.has(name) {
            return Err(self.bad(format!("it has no tensor `{name}`")));
        }
        self.content.tensor(&mut self.reader, name, &Device::Cpu).map_err(|error| self.bad(error))
    }

    /// A small tensor as plain numbers.
    pub(crate) fn vector(&mut self, name: &str) -> Result<Vec<f32>> {
        let tensor = self.tensor(name)?;
        let values = tensor.dequantize(&Device::Cpu).and_then(|tensor| tensor.flatten_all()?.to_vec1());
        values.map_err(|error| self.bad(error))
    }
}

/// The hyper-parameters of a llama.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) layers: usize,
    pub(crate) width: usize,
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_width: usize,
    /// How many numbers of a head the position turns.
    pub(crate) rope_width: usize,
    pub(crate) rope_base: f32,
    /// Positions are divided by this (linear scaling).
    pub(crate) rope_scale: f32,
    pub(crate) epsilon: f32,
    pub(crate) context: usize,
}

impl Config {
    pub(crate) fn read(file: &Gguf) -> Result<Config> {
        match file.text("general.architecture") {
            Some("llama") => {}
            Some(other) => {
                return Err(file.bad(format!("its architecture is `{other}`, this engine runs `llama` only")));
            }
            None => return Err(file.bad("it does not name its architecture")),
        }
        let key = |name: &str| format!("llama.{name}");
        let whole = |name: &str| {
            let value = file.whole(&key(name)).filter(|value| *value > 0);
            value.ok_or_else(|| file.bad(format!("its metadata has no usable `{}`", key(name))))
        };
        if file.whole(&key("expert_count")).is_some_and(|count| count > 0) {
            return Err(file.bad("it is a mixture of experts, which this engine does not run"));
        }
        if file.has("blk.0.attn_q.bias") {
            return Err(file.bad("its attention has biases, which this engine does not run"));
        }
        let rope_scale = match file.text(&key("rope.scaling.type")) {
            None | Some("none") => 1.0,
            Some("linear") => file.number(&key("rope.scaling.factor")).unwrap_or(1.0),
            Some(other) => {
                return Err(file.bad(format!("its rope scaling `{other}` is unknown to this engine")));
            }
        };
        let (width, heads) = (whole("embedding_length")?, whole("attention.head_count")?);
        let kv_heads = file.whole(&key("attention.head_count_kv")).unwrap_or(heads);
        let head_width = file.whole(&key("attention.key_length")).unwrap_or(width / heads);
        let rope_width = file.whole(&key("rope.dimension_count")).unwrap_or(head_width);
        if kv_heads == 0
            || !heads.is_multiple_of(kv_heads)
            || rope_width > head_width
            || !rope_width.is_multiple_of(2)
        {
            return Err(file.bad(format!(
                "{heads} heads, {kv_heads} key heads, {head_width} numbers in a head and {rope_width} of them turned do \
                 not go together"
            )));
        }
        Ok(Config {
            layers: whole("block_count")?,
            width,
            hidden: whole("feed_forward_length")?,
            heads,
            kv_heads,
            head_width,
            rope_width,
            rope_base: file.number(&key("rope.freq_base")).unwrap_or(10_000.0),
            rope_scale,
            epsilon: file
                .number(&key("attention.layer_norm_rms_epsilon"))
                .ok_or_else(|| file.bad("its metadata has no `llama.attention.layer_norm_rms_epsilon`"))?,
            context: whole("context_length")?,
        })
    }
}

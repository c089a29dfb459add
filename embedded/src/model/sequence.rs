//! What the model remembers of a text: keys and values of every layer.

use super::gguf::Config;
use std::sync::Arc;

/// Keys and values of one layer, a list per key head, position after position.
#[derive(Clone, Debug, Default)]
pub(super) struct LayerMemory {
    pub(super) keys: Vec<Vec<f32>>,
    pub(super) values: Vec<Vec<f32>>,
}

/// Keys and values of a piece of text.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) layers: Vec<LayerMemory>,
    pub(super) len: usize,
}

impl Memory {
    fn new(config: &Config) -> Memory {
        let layer = LayerMemory {
            keys: vec![Vec::new(); config.kv_heads],
            values: vec![Vec::new(); config.kv_heads],
        };
        Memory { layers: vec![layer; config.layers], len: 0 }
    }
}

/// A text that the model is reading or writing: a beginning that other sequences may share, and its own end.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(super) shared: Option<Arc<Memory>>,
    pub(super) own: Memory,
}

impl Sequence {
    pub(crate) fn new(config: &Config) -> Sequence {
        Sequence { shared: None, own: Memory::new(config) }
    }

    /// Number of tokens that were read so far.
    pub(crate) fn len(&self) -> usize {
        self.shared.as_ref().map_or(0, |shared| shared.len) + self.own.len
    }

    /// `count` sequences that go on from here, each on its own; none of them copies what was read so far.
    pub(crate) fn fork(self, config: &Config, count: usize) -> Vec<Sequence> {
        debug_assert!(self.shared.is_none(), "a fork of a fork would lose its beginning");
        let shared = Arc::new(self.own);
        (0..count).map(|_| Sequence { shared: Some(Arc::clone(&shared)), own: Memory::new(config) }).collect()
    }
}

//! The JSON object of a request: our fields, and the caller's.

use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::{Map, Value};

/// Writes a body field by field, always in the same order. A field that the caller gives in
/// [`extra`](crate::Request::extra) replaces ours; as null it removes it.
pub(super) struct Object<'e, M> {
    map: M,
    extra: &'e Map<String, Value>,
}

impl<'e, M: SerializeMap> Object<'e, M> {
    pub(super) fn new(map: M, extra: &'e Map<String, Value>) -> Self {
        Self { map, extra }
    }

    pub(super) fn put<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), M::Error> {
        if self.extra.is_empty() || !self.extra.contains_key(key) {
            self.map.serialize_entry(key, value)?;
        }
        Ok(())
    }

    pub(super) fn put_if<T: Serialize>(
        &mut self,
        key: &'static str,
        value: Option<T>,
    ) -> Result<(), M::Error> {
        value.map_or(Ok(()), |value| self.put(key, &value))
    }

    /// Writes a field that already holds what the caller gave for it.
    pub(super) fn merged<T: Serialize>(&mut self, key: &'static str, value: &T) -> Result<(), M::Error> {
        self.map.serialize_entry(key, value)
    }

    /// Adds the caller's fields, but for `taken`, which are used otherwise.
    pub(super) fn end(mut self, taken: &[&str]) -> Result<M::Ok, M::Error> {
        for (key, value) in self.extra {
            if !value.is_null() && !taken.contains(&key.as_str()) {
                self.map.serialize_entry(key, value)?;
            }
        }
        self.map.end()
    }
}

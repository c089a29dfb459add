//! Where in a flow something happens.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The place in a flow where a call is made, as segments from the outermost pattern inwards:
/// `route/billing/draft 2/judge`.
///
/// The path rides on the [`Request`](crate::Request), so that every layer, error, trace line and journal entry
/// names the same place in the same way. Paths are structural: they say which branch of which pattern, never
/// the order in which calls happened to start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Path(String);

impl Path {
    /// The empty path: the whole run.
    pub fn root() -> Self {
        Self::default()
    }

    /// Whether this is the path of the whole run.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// `text` with this place before it, unless that is the whole run.
    pub fn before(&self, text: &str) -> String {
        if self.is_root() { text.to_owned() } else { format!("{self}: {text}") }
    }

    /// Puts `segment` in front: the place that this path is in. A `/` in the segment is written `%2F`.
    pub fn prepend(&mut self, segment: &str) {
        if !self.0.is_empty() {
            self.0.insert(0, '/');
        }
        if segment.contains('/') {
            self.0.insert_str(0, &segment.replace('/', "%2F"));
        } else {
            self.0.insert_str(0, segment);
        }
    }

    /// This path, inside `segment`.
    #[must_use]
    pub fn inside(mut self, segment: &str) -> Self {
        self.prepend(segment);
        self
    }

    /// A place inside this path.
    #[must_use]
    pub fn join(&self, segment: &str) -> Self {
        let mut inner = Self::root();
        inner.prepend(segment);
        if self.0.is_empty() { inner } else { Self(format!("{}/{}", self.0, inner.0)) }
    }

    /// The segments, outermost first.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|segment| !segment.is_empty())
    }

    /// The segments, outermost first, each with the path that ends with it.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut end = 0;
        self.segments().map(move |segment| {
            end += segment.len() + usize::from(end > 0);
            (segment, &self.0[..end])
        })
    }

    /// The whole path as text, `""` at the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Path {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_segment_has_its_path() {
        let path = Path::from("route/billing/draft 2");
        let prefixes: Vec<_> = path.prefixes().collect();
        let expected =
            [("route", "route"), ("billing", "route/billing"), ("draft 2", "route/billing/draft 2")];
        assert_eq!(prefixes, expected);
    }

    #[test]
    fn a_slash_in_a_name_makes_no_segment() {
        let path = Path::root().inside("R/D").inside("route");
        assert_eq!(path.as_str(), "route/R%2FD");
        assert_eq!(path.segments().collect::<Vec<_>>(), ["route", "R%2FD"]);
        assert_eq!(Path::from("route").join("R/D"), path);
    }
}

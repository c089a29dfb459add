//! Keys, in a type that shows nothing.

use std::borrow::Cow;
use std::fmt;

/// The fewest bytes of a secret that is looked for in what a service says.
const SHORTEST: usize = 8;

/// A key or token. Its `Debug` shows nothing of it, and it has no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without the secret, should a service have echoed it. What is shorter than any key (the `x` or `none` that a
    /// server without keys is given, a header that says `1`) is left in: it is in many words.
    pub(crate) fn scrub<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.0.len() >= SHORTEST && text.contains(&self.0) {
            Cow::Owned(text.replace(&self.0, "…"))
        } else {
            Cow::Borrowed(text)
        }
    }
}

impl<T: Into<String>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

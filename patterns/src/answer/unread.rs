use std::error::Error;
use std::fmt;

use super::chars::excerpt;

/// A reply could not be read, and why.
///
/// Nothing is ever guessed: a reader that is not sure returns this error. It carries what was
/// looked for and what was seen instead, so that a pattern can ask once more for the envelope
/// only, and a person can see why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    kind: UnreadKind,
    wanted: String,
    seen: Vec<String>,
    place: Option<String>,
}

/// The ways in which a reply can be unreadable.
///
/// A [`Truncated`](UnreadKind::Truncated) reply needs a larger `max_tokens`; after any other one
/// it helps to ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnreadKind {
    /// What was looked for is not there.
    Missing,
    /// The reply ends before what was looked for does.
    Truncated,
    /// The reply gives several answers, or an answer with a reservation.
    Ambiguous,
    /// An answer is there, but it is none of the allowed ones.
    UnknownLabel,
}

impl Unread {
    pub(super) fn new<I>(kind: UnreadKind, wanted: impl Into<String>, seen: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        const MOST: usize = 4;
        let seen = seen.into_iter().take(MOST).map(|text| excerpt(text.as_ref())).collect();
        Unread { kind, wanted: wanted.into(), seen, place: None }
    }

    /// Says in which record of a list the trouble is.
    pub(super) fn within(self, place: impl Into<String>) -> Self {
        Unread { place: Some(place.into()), ..self }
    }

    /// In which way the reply is unreadable.
    pub fn kind(&self) -> UnreadKind {
        self.kind
    }

    /// What was looked for, in words: `<label> with one of billing, technical`.
    pub fn wanted(&self) -> &str {
        &self.wanted
    }

    /// What was seen instead: up to four excerpts of the reply of at most 80 characters.
    pub fn seen(&self) -> &[String] {
        &self.seen
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unread { kind, wanted, seen, place } = self;
        if let Some(place) = place {
            write!(f, "{place}: ")?;
        }
        let seen = Seen(seen);
        match kind {
            UnreadKind::Missing => write!(f, "no {wanted} in the reply: {seen}; ask for it alone"),
            UnreadKind::Truncated => {
                write!(f, "the reply was cut inside {wanted}: {seen}; allow more tokens")
            }
            UnreadKind::Ambiguous => {
                write!(f, "the reply is not clear about {wanted}: {seen}; ask for exactly one")
            }
            UnreadKind::UnknownLabel => write!(f, "no {wanted} in the reply, but {seen}; ask again"),
        }
    }
}

impl Error for Unread {}

struct Seen<'a>(&'a [String]);

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.iter().all(String::is_empty) {
            return f.write_str("it is empty");
        }
        for (i, text) in self.0.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{text:?}")?;
        }
        Ok(())
    }
}

//! Reads the file of a trace.

use std::borrow::Cow;
use std::path::Path as FilePath;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::run::Run;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;

/// The version of the format.
pub const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) trace: u32,
    #[serde(default)]
    pub(super) patterns: String,
    #[serde(default)]
    pub(super) started: f64,
    #[serde(default)]
    pub(super) content: bool,
}

/// What every further line begins with.
#[derive(Deserialize)]
struct Head<'a> {
    t: f64,
    #[serde(default, borrow)]
    path: Cow<'a, str>,
    call: Option<u64>,
    #[serde(borrow)]
    event: Cow<'a, str>,
}

/// What a line tells.
pub(super) struct Told {
    pub(super) at: Duration,
    pub(super) path: String,
    pub(super) call: Option<u64>,
    pub(super) what: What,
}

pub(super) enum What {
    Event(Event),
    Asked(Value),
    Answered(Value),
}

impl Run {
    /// Reads the trace of a run from a file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the file cannot be read, else as [`parse`](Self::parse).
    pub fn read(file: impl AsRef<FilePath>) -> Result<Self> {
        let file = file.as_ref();
        let bytes = std::fs::read(file).map_err(|error| {
            let message = format!("the trace {} cannot be read: {error}", file.display());
            Error::new(ErrorKind::Io, message).with_source(error)
        })?;
        // a run that was killed may have left half a character
        Self::parse(&String::from_utf8_lossy(&bytes)).map_err(|error| {
            let message = format!("{}: {}", file.display(), error.message());
            Error::new(error.kind(), message)
        })
    }

    /// Reads the trace of a run. Lines that cannot be read, as the last one of a run that was killed, and events that this
    /// version does not know are left out and counted in [`unread`](Self::unread).
    ///
    /// # Errors
    /// [`ErrorKind::Config`] when the text does not begin with the header of a trace, or with that of a newer format.
    pub fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let header: Header = lines
            .next()
            .and_then(|line| serde_json::from_str(line).ok())
            .ok_or_else(|| Error::new(ErrorKind::Config, "this is no trace; `--trace FILE` writes one"))?;
        if header.trace != VERSION {
            let message = format!(
                "this trace has the format {}, and only {VERSION} is known here; read it with the version of patterns that wrote it ({})",
                header.trace, header.patterns
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let mut run = Run { version: header.patterns, started: header.started, ..Run::default() };
        let mut by_number = std::collections::HashMap::new();
        for line in lines.filter(|line| !line.trim().is_empty()) {
            match told(line) {
                Some(told) => run.hear(told, &mut by_number),
                None => run.unread += 1,
            }
        }
        run.close();
        Ok(run)
    }
}

fn told(line: &str) -> Option<Told> {
    let head: Head<'_> = serde_json::from_str(line).ok()?;
    let field = |name: &str| {
        let mut line: serde_json::Map<String, Value> = serde_json::from_str(line).ok()?;
        line.remove(name)
    };
    let what = match &*head.event {
        "asked" => What::Asked(field("request")?),
        "answered" => What::Answered(field("reply")?),
        _ => What::Event(serde_json::from_str(line).ok()?),
    };
    let at = Duration::from_micros(micros(head.t)?);
    Some(Told { at, path: head.path.into_owned(), call: head.call, what })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked
fn micros(seconds: f64) -> Option<u64> {
    let micros = (seconds * 1e6).round();
    (0.0..1e18).contains(&micros).then_some(micros as u64)
}

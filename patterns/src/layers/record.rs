//! Writes down what a model answers, to be played again without it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::{BoxFuture, FutureExt};
use serde::Serialize;

use super::Layer;
use crate::error::{Error, ErrorKind, Result};
use crate::llm::{Llm, Request};
use crate::message::Block;
use crate::path::Path;
use crate::reply::{Reply, Usage};

/// Writes down what a model answers, as a script that answers the same later, without the model (`script:FILE`).
///
/// Each request gets a line of JSON with its place in the flow, the text of its last turn, and the reply or the error. Clones
/// write to the same file.
#[derive(Clone, Debug)]
pub struct Record {
    path: Arc<PathBuf>,
    file: Arc<Mutex<File>>,
}

#[derive(Serialize)]
struct Line<'a> {
    path: &'a Path,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a [Block]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure<'a>>,
    usage: Usage,
}

#[derive(Serialize)]
struct Failure<'a> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<f64>,
}

impl Record {
    /// Begins a recording. The file must not exist yet; it is made readable to its owner only.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) when the file exists or cannot be made.
    pub fn create(file: impl AsRef<FilePath>) -> Result<Self> {
        let path = file.as_ref().to_owned();
        let mut options = OpenOptions::new();
        options.append(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(|error| {
            Error::new(ErrorKind::Io, format!("no recording can be begun in {}: {error}", path.display()))
        })?;
        Ok(Self { path: Arc::new(path), file: Arc::new(Mutex::new(file)) })
    }

    fn write(&self, line: &Line<'_>) -> Result<()> {
        let trouble = |error: &dyn std::fmt::Display| {
            Error::new(
                ErrorKind::Io,
                format!("the recording {} cannot be written: {error}", self.path.display()),
            )
            .at(line.path)
        };
        let mut bytes = serde_json::to_vec(line).map_err(|error| trouble(&error))?;
        bytes.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&bytes).map_err(|error| trouble(&error))
    }
}

/// The kind of an error as a script spells it.
fn spelled(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Config => "config",
        ErrorKind::InvalidRequest => "invalid_request",
        ErrorKind::Authentication => "authentication",
        ErrorKind::Permission => "permission",
        ErrorKind::NotFound => "not_found",
        ErrorKind::RateLimited => "rate_limited",
        ErrorKind::Overloaded => "overloaded",
        ErrorKind::Connection => "connection",
        ErrorKind::TimedOut => "timed_out",
        ErrorKind::Protocol => "protocol",
        ErrorKind::Truncated => "truncated",
        ErrorKind::Refused => "refused",
        ErrorKind::ContextWindow => "context_window",
        _ => "server",
    }
}

impl Layer for Record {
    fn around<'a>(&'a self, llm: &'a dyn Llm, request: Request) -> BoxFuture<'a, Result<Reply>> {
        async move {
            let (path, text) = (request.path.clone(), request.text());
            let result = llm.call(request).await;
            let mut line = Line {
                path: &path,
                text: &text,
                reply: None,
                content: None,
                stop: None,
                error: None,
                usage: Usage::default(),
            };
            match &result {
                Ok(reply) => {
                    // a script that answers with nothing but a label chooses it
                    line.reply = reply.choice.as_ref().map(|choice| &*choice.label);
                    line.content = line.reply.is_none().then_some(&reply.content);
                    line.stop = Some(reply.stop.as_str());
                    line.usage = reply.usage;
                }
                Err(error) => {
                    line.error = Some(Failure {
                        kind: spelled(error.kind()),
                        status: error.status(),
                        message: error.message(),
                        retry_after: error.retry_after().map(|wait| wait.as_secs_f64()),
                    });
                    line.usage = error.usage().copied().unwrap_or_default();
                }
            }
            self.write(&line)?;
            result
        }
        .boxed()
    }
}

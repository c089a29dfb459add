//! What can go wrong, and what a caller can do about it.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Path, Usage};

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of thing went wrong. Branch on this, not on the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller's set-up is wrong: an unknown model, a missing key, a flow that cannot be built.
    Config,
    /// The request was refused as malformed or impossible (HTTP 400, 413, 422).
    InvalidRequest,
    /// The key is missing, wrong or out of money (HTTP 401, 402).
    Authentication,
    /// The key may not do this (HTTP 403).
    Permission,
    /// No such model or address (HTTP 404).
    NotFound,
    /// Too many requests or tokens (HTTP 429).
    RateLimited,
    /// The service is overloaded (HTTP 529, or an error event in a stream).
    Overloaded,
    /// The service failed (other HTTP 5xx).
    Server,
    /// No connection, or it broke.
    Connection,
    /// No answer in time.
    TimedOut,
    /// What came back is not what the API promises: not JSON, a stream without an end, a cut tool call.
    Protocol,
    /// The reply was cut at `max_tokens`; the text so far is in [`Error::partial`].
    Truncated,
    /// The model refused to answer.
    Refused,
    /// Prompt and reply do not fit into the model's context window.
    ContextWindow,
    /// The reply holds no text.
    Empty,
    /// The reply could not be read as what was asked for; the source is a [`Unread`](crate::answer::Unread).
    Unread,
    /// A gate is closed; the source is a [`Gated`](crate::Gated).
    Gated,
    /// A plan is unusable even after its repair; the source is a [`PlanDefects`](crate::PlanDefects).
    Plan,
    /// Too few branches of a fan-out came to an answer.
    TooFew,
    /// A vote ended without a winner where a text was needed.
    Undecided,
    /// A draft was not accepted within its rounds.
    NotAccepted,
    /// A budget (tokens, USD, calls, time) is used up.
    OverBudget,
    /// A cap on turns or rounds was reached.
    Cap,
    /// Somebody stopped the run.
    Cancelled,
    /// The script has no reply for this call.
    Unscripted,
    /// A tool failed in a way that ends the run.
    Tool,
    /// The caller's own code in a flow failed.
    Step,
    /// Reading or writing a file failed.
    Io,
}

impl ErrorKind {
    /// The kind in words, as it stands in a census: `rate limited`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Config => "wrong set-up",
            Self::InvalidRequest => "invalid request",
            Self::Authentication => "not authenticated",
            Self::Permission => "not permitted",
            Self::NotFound => "not found",
            Self::RateLimited => "rate limited",
            Self::Overloaded => "overloaded",
            Self::Server => "server error",
            Self::Connection => "no connection",
            Self::TimedOut => "timed out",
            Self::Protocol => "malformed reply",
            Self::Truncated => "truncated",
            Self::Refused => "refused",
            Self::ContextWindow => "context window exceeded",
            Self::Empty => "empty reply",
            Self::Unread => "unreadable",
            Self::Gated => "gate closed",
            Self::Plan => "unusable plan",
            Self::TooFew => "too few answers",
            Self::Undecided => "no decision",
            Self::NotAccepted => "not accepted",
            Self::OverBudget => "over budget",
            Self::Cap => "stopped by a cap",
            Self::Cancelled => "cancelled",
            Self::Unscripted => "not in the script",
            Self::Tool => "tool failed",
            Self::Step => "step failed",
            Self::Io => "file error",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a flow or a call has no answer.
///
/// It has a [kind](Error::kind), the [path](Error::path) in the flow, what the service said (status, request id,
/// an excerpt of the body), whether [trying again](Error::is_transient) can help and [how long to
/// wait](Error::retry_after), what [had been written](Error::partial) and what [it cost](Error::usage).
/// `Display` is one line for a person. Keys are never in it.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    path: Path,
    model: Option<String>,
    status: Option<u16>,
    code: Option<String>,
    request_id: Option<String>,
    body: Option<String>,
    retry_after: Option<Duration>,
    transient: Option<bool>,
    partial: Option<String>,
    usage: Option<Usage>,
    attempts: u32,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of this kind; `message` says in lower case what happened and what to do next.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            path: Path::root(),
            model: None,
            status: None,
            code: None,
            request_id: None,
            body: None,
            retry_after: None,
            transient: None,
            partial: None,
            usage: None,
            attempts: 1,
            source: None,
        }))
    }

    /// An error of the caller's own code in a flow ([`ErrorKind::Step`]).
    pub fn step(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Step, message)
    }

    /// What kind of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message alone, without path, status and source.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Where in the flow it happened; the root when outside of any pattern.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The model that was asked, if the error stems from a call.
    pub fn model(&self) -> Option<&str> {
        self.0.model.as_deref()
    }

    /// The HTTP status, if there was a response.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The service's own stable name for the error: `enforced_spend_limit_reached`, or else the error type.
    pub fn code(&self) -> Option<&str> {
        self.0.code.as_deref()
    }

    /// The service's id of the request, to be named when asking for support.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// The beginning of the body of the response, at most 500 characters.
    pub fn body(&self) -> Option<&str> {
        self.0.body.as_deref()
    }

    /// How long the service asked to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// What had been written when the reply broke off.
    pub fn partial(&self) -> Option<&str> {
        self.0.partial.as_deref()
    }

    /// What the failed call used, if the service said so.
    pub fn usage(&self) -> Option<&Usage> {
        self.0.usage.as_ref()
    }

    /// How often the call was tried, 1 and up.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// Whether the same request may succeed later. True for rate limits, overload, failures of the service,
    /// connections and time-outs, unless the service said otherwise (`x-should-retry`, a spend limit).
    pub fn is_transient(&self) -> bool {
        self.0.transient.unwrap_or(matches!(
            self.0.kind,
            ErrorKind::RateLimited
                | ErrorKind::Overloaded
                | ErrorKind::Server
                | ErrorKind::Connection
                | ErrorKind::TimedOut
        ))
    }

    /// The cause as `T`, for example [`Gated`](crate::Gated) or [`Unread`](crate::answer::Unread); the nearest one where
    /// a cause has a cause. A fan-out that failed has what its branches came to as cause: [`Parts`](crate::Parts),
    /// [`Tally`](crate::Tally) or [`Orchestrated`](crate::Orchestrated).
    pub fn cause<T: StdError + 'static>(&self) -> Option<&T> {
        std::iter::successors(StdError::source(self), |error| (*error).source())
            .find_map(|e| e.downcast_ref())
    }

    /// Puts the place in front of the error's path.
    #[must_use]
    pub fn inside(mut self, segment: &str) -> Self {
        self.0.path.prepend(segment);
        self
    }

    /// Says where it happened, unless that is known already.
    #[must_use]
    pub fn at(mut self, path: &Path) -> Self {
        if self.0.path.is_root() {
            self.0.path = path.clone();
        }
        self
    }

    /// Names the model that was asked.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.0.model = Some(model.into());
        self
    }

    /// Adds the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.0.status = Some(status);
        self
    }

    /// Adds the service's own name for the error.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.0.code = Some(code.into());
        self
    }

    /// Adds the service's id of the request.
    #[must_use]
    pub fn with_request_id(mut self, id: impl Into<String>) -> Self {
        self.0.request_id = Some(id.into());
        self
    }

    /// Adds an excerpt of the response's body.
    #[must_use]
    pub fn with_body(mut self, body: &str) -> Self {
        self.0.body = Some(excerpt(body, 500));
        self
    }

    /// Adds how long the service asked to wait.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.0.retry_after = Some(wait);
        self
    }

    /// Says whether trying again can help, against what the kind alone would say.
    #[must_use]
    pub fn with_transient(mut self, transient: bool) -> Self {
        self.0.transient = Some(transient);
        self
    }

    /// Adds what had been written.
    #[must_use]
    pub fn with_partial(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.0.partial = (!text.is_empty()).then_some(text);
        self
    }

    /// Adds what the failed call used.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.0.usage = Some(usage);
        self
    }

    /// Says how often the call was tried.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.0.attempts = attempts;
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }
}

/// The beginning of `text`, at most `most` characters, on one line.
pub(crate) fn excerpt(text: &str, most: usize) -> String {
    let mut out = String::new();
    for (n, c) in text.trim().chars().enumerate() {
        if n == most {
            out.push('…');
            break;
        }
        out.push(if c.is_control() { ' ' } else { c });
    }
    out
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = &self.0;
        if !e.path.is_root() {
            write!(f, "{}: ", e.path)?;
        }
        f.write_str(&e.message)?;
        let mut notes = Vec::new();
        if let Some(model) = &e.model {
            notes.push(model.clone());
        }
        if let Some(status) = e.status {
            notes.push(format!("HTTP {status}"));
        }
        if let Some(code) = &e.code {
            notes.push(code.clone());
        }
        if let Some(id) = &e.request_id {
            notes.push(format!("request {id}"));
        }
        if e.attempts > 1 {
            notes.push(format!("{} attempts", e.attempts));
        }
        if !notes.is_empty() {
            write!(f, " ({})", notes.join(", "))?;
        }
        Ok(())
    }
}

/// As `Display`, since it is what a `main` prints that ends with an error, with the kind; `{:#?}` shows every field.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = &self.0;
        if !f.alternate() {
            return write!(f, "{self} [{}]", e.kind);
        }
        let mut out = f.debug_struct("Error");
        out.field("kind", &e.kind).field("message", &e.message);
        if !e.path.is_root() {
            out.field("path", &e.path.as_str());
        }
        for (name, value) in [
            ("model", &e.model),
            ("code", &e.code),
            ("request_id", &e.request_id),
            ("body", &e.body),
            ("partial", &e.partial),
        ] {
            if let Some(value) = value {
                out.field(name, value);
            }
        }
        if let Some(status) = e.status {
            out.field("status", &status);
        }
        if e.attempts > 1 {
            out.field("attempts", &e.attempts);
        }
        if let Some(wait) = e.retry_after {
            out.field("retry_after", &wait);
        }
        if let Some(usage) = &e.usage {
            out.field("usage", usage);
        }
        if let Some(source) = &e.source {
            out.field("source", source);
        }
        out.finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

use std::fmt;

/// What the functions of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

/// Why the engine could not do what was asked. Its `Display` is the whole message: what went wrong, where, and what to
/// do next.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The kinds of [`Error`], for code that decides by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No weights on this machine, and none could be fetched.
    MissingWeights,
    /// The file is not a model that this engine can run: damaged, not GGUF, or of another architecture.
    BadFile,
    /// The prompt alone does not fit into the model's context window.
    ContextOverflow,
    /// The call itself makes no sense, such as a choice among nothing.
    BadRequest,
    /// The engine failed; this is a defect of the engine or of the machine.
    Internal,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into() }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::BadRequest, message)
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// What candle says while the model runs; while a file is read, `gguf.rs` says it with the file's name.
impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Error {
        Error::new(ErrorKind::Internal, format!("the model could not be computed: {error}"))
    }
}

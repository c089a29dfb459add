//! A folder of files that a model may look into: list, read, search. Nothing is written, nothing outside is read.

mod cite;
mod ignored;
mod list;
mod path;
mod read;
mod search;
mod secret;
mod walk;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use futures::future::{BoxFuture, FutureExt};

pub use self::cite::Citation;
pub use self::list::ListFiles;
pub use self::read::ReadFile;
pub use self::search::Search;
use super::{Tool, tool};
use crate::error::{Error, ErrorKind, Result};

/// A folder that a model may look into, by the tools `list_files`, `read_file` and `search`.
///
/// Everything stays below the root: absolute paths, `..`, symbolic links, other file systems, pipes, sockets, devices, and
/// files that hold keys or passwords by their names are refused with a message that says what to do instead; what
/// `.gitignore` leaves out is left out (the rules of the folders above the root are not known, and links are not followed
/// even inside). The folder is held open, and nothing that happens to the tree while it is read leads outside. Only a hard
/// link to a file outside cannot be told from a file inside.
///
/// ```
/// # fn main() -> patterns::Result<()> {
/// use patterns::{Repository, agent};
///
/// let repository = Repository::open(env!("CARGO_MANIFEST_DIR"))?;
/// let guide = agent("Answer questions about this repository. Cite every claim as path:line.")
///     .with_all(repository.tools())
///     .until(repository.citations_exist())
///     .evidence({
///         let repository = repository.clone();
///         move |answer| repository.cited_lines(answer)
///     });
/// # let _ = guide; Ok(()) }
/// ```
#[derive(Clone)]
pub struct Repository {
    root: Arc<Dir>,
    name: Arc<PathBuf>,
    longest: Duration,
    /// Set when nobody waits any more for what is being read.
    stop: Arc<AtomicBool>,
}

impl Repository {
    /// Opens a folder.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when it is no folder or cannot be read.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        let name = root.as_ref();
        let dir = Dir::open_ambient_dir(name, ambient_authority()).map_err(|error| {
            Error::new(ErrorKind::Io, format!("the folder {} cannot be opened: {error}", name.display()))
                .with_source(error)
        })?;
        Ok(Self {
            root: Arc::new(dir),
            name: Arc::new(name.to_owned()),
            longest: Duration::from_secs(10),
            stop: Arc::default(),
        })
    }

    /// The longest that one `list_files` or `search` takes; then it says what it has found so far. Default: 10 s.
    #[must_use]
    pub fn longest(mut self, time: Duration) -> Self {
        self.longest = time;
        self
    }

    /// The three tools. They read on a thread of their own, so they need a tokio runtime.
    pub fn tools(&self) -> Vec<Tool<'static>> {
        let [list, read, search] = [self.clone(), self.clone(), self.clone()];
        vec![
            tool(
                "list_files",
                "Lists the files of the repository, one path a line. Start here, or with `search`.",
                move |args: ListFiles| list.on_thread(move |all| all.list_files(&args)),
            )
            .cap(20_000, "Ask for a subfolder with `path`, or for some names with `glob`."),
            tool(
                "read_file",
                "Reads lines of one text file of the repository, each with its number. Use the numbers to cite.",
                move |args: ReadFile| read.on_thread(move |all| all.read_file(&args)),
            )
            .cap(20_000, "Ask for fewer lines with `first_line` and `lines`."),
            tool(
                "search",
                "Searches the files of the repository line by line with a regular expression; gives `path:line: text`. \
                 Use it to find where something is defined or used before you read a file.",
                move |args: Search| search.on_thread(move |all| all.search(&args)),
            )
            .cap(20_000, "Use a narrower pattern, or `path` or `glob`."),
        ]
    }

    /// Runs blocking work beside the runtime; tells it to stop when nobody waits for it any more.
    fn on_thread(
        &self,
        work: impl FnOnce(&Self) -> Result<String, String> + Send + 'static,
    ) -> BoxFuture<'static, Result<String, String>> {
        let repository = Self { stop: Arc::default(), ..self.clone() };
        let stop = StopOnDrop(repository.stop.clone());
        async move {
            let _stop = stop;
            tokio::task::spawn_blocking(move || work(&repository))
                .await
                .unwrap_or_else(|error| Err(format!("the tool broke: {error}")))
        }
        .boxed()
    }

    /// Starts the time of one look.
    fn clock(&self) -> Clock<'_> {
        Clock { start: Instant::now(), longest: self.longest, stop: &self.stop }
    }
}

/// Says when a look has to end: its time is used up, or nobody waits for it any more.
#[derive(Clone, Copy)]
struct Clock<'r> {
    start: Instant,
    longest: Duration,
    stop: &'r AtomicBool,
}

impl Clock<'_> {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.start.elapsed() >= self.longest
    }
}

impl fmt::Display for Clock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped after {} s, there may be more", self.longest.as_secs_f32())
    }
}

struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Repository").field(&self.name).finish()
    }
}

//! Writes the events of a run to a file.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::Path as FilePath;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use futures::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::line;
use super::read::{Header, VERSION};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::layers::Layer;
use crate::llm::{Llm, Request};
use crate::path::Path;
use crate::reply::Reply;

/// How long events are collected before they are written: what a run that is killed loses at most.
const COLLECT: Duration = Duration::from_millis(20);

/// A layer that writes what happens in a run to a file of JSON Lines, in the format that [the module](super) describes.
/// It belongs outside of all other layers. Clones write to the same file.
///
/// Events are on the disk after 20 ms, so that a run that is killed can still be looked at. Prompts and replies are left
/// out unless [`content`](Trace::content) is asked for.
#[derive(Clone, Debug)]
pub struct Trace {
    content: bool,
    pipe: Arc<Pipe>,
    writer: Arc<Writer>,
}

/// What the calls hand to the thread that writes.
#[derive(Debug)]
struct Pipe {
    start: Instant,
    calls: AtomicU64,
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    begun: bool,
    bytes: Vec<u8>,
    ended: bool,
    failure: Option<io::Error>,
}

/// The thread that writes; it ends with the last clone of the trace.
#[derive(Debug)]
struct Writer {
    pipe: Arc<Pipe>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Trace {
    /// Writes to this file. An earlier trace in it is lost; any other file is left alone. On Unix only its owner may read
    /// it. A pipe or a device is written to as it is.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when it cannot be written, holds something else than a trace, or another run writes to it.
    pub fn create(file: impl AsRef<FilePath>) -> Result<Self> {
        let file = file.as_ref();
        let open = open(file).map_err(|error| {
            let message = format!("the trace {} cannot be written: {error}", file.display());
            Error::new(ErrorKind::Io, message).with_source(error)
        })?;
        Ok(Self::to(open))
    }

    /// Writes to whatever takes bytes.
    pub fn to(out: impl Write + Send + 'static) -> Self {
        let pipe = Arc::new(Pipe {
            start: Instant::now(),
            calls: AtomicU64::new(0),
            lines: Mutex::default(),
            changed: Condvar::new(),
        });
        let thread = std::thread::spawn({
            let pipe = Arc::clone(&pipe);
            move || pipe.drain(out)
        });
        let writer = Writer { pipe: Arc::clone(&pipe), thread: Mutex::new(Some(thread)) };
        Self { content: false, pipe, writer: Arc::new(writer) }
    }

    /// Whether prompts and replies are written, too. Default: no.
    #[must_use]
    pub fn content(mut self, content: bool) -> Self {
        self.content = content;
        self
    }

    /// Writes what is still to be written and ends the trace; later events are lost. Dropping the last clone does the same
    /// and says nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when an event could not be written.
    pub fn finish(&self) -> Result<()> {
        self.pipe.begin(&mut self.pipe.lines(), self.content); // a run without an event has a header, too
        self.writer.finish();
        match self.pipe.lines().failure.take() {
            None => Ok(()),
            Some(error) => {
                let message = format!("the trace is not complete, it cannot be written: {error}");
                Err(Error::new(ErrorKind::Io, message).with_source(error))
            }
        }
    }

    fn tell(&self, call: Option<u64>, path: &Path, event: &Event) {
        self.pipe.tell(self.content, call, path, event);
    }
}

/// Opens a file and empties it, unless it holds something else than a trace.
fn open(file: &FilePath) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    if std::fs::metadata(file).is_ok_and(|meta| !meta.is_file()) {
        return options.open(file);
    }
    let open = options.read(true).open(file)?;
    open.try_lock().map_err(|_| io::Error::other("another run writes to it; use another file"))?;
    let mut first = Vec::new();
    BufReader::new((&open).take(1_000)).read_until(b'\n', &mut first)?;
    if !first.is_empty() && serde_json::from_slice::<Header>(&first).is_err() {
        return Err(io::Error::other("it is there and is no trace; use another file, or remove it"));
    }
    open.set_len(0)?;
    (&open).rewind()?;
    #[cfg(unix)]
    open.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(open)
}

/// Seconds to the microsecond.
#[allow(clippy::cast_precision_loss)] // exact for 285 years
fn seconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

impl Pipe {
    fn tell(&self, content: bool, call: Option<u64>, path: &Path, event: &Event) {
        if content || !event.has_content() {
            self.write(content, |bytes, at| line::event(bytes, at, call, path, event));
        } else {
            let event = event.clone().without_content();
            self.write(content, |bytes, at| line::event(bytes, at, call, path, &event));
        }
    }

    /// Appends a line that `put` makes of the time.
    fn write(&self, content: bool, put: impl FnOnce(&mut Vec<u8>, Duration)) {
        let mut lines = self.lines();
        if lines.ended {
            return;
        }
        let idle = lines.bytes.is_empty();
        self.begin(&mut lines, content);
        // the time is taken under the lock, so that the lines are in order
        put(&mut lines.bytes, self.start.elapsed());
        drop(lines);
        if idle {
            self.changed.notify_one();
        }
    }

    fn begin(&self, lines: &mut Lines, content: bool) {
        if std::mem::replace(&mut lines.begun, true) {
            return;
        }
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let header = Header {
            trace: VERSION,
            patterns: env!("CARGO_PKG_VERSION").to_owned(),
            started: seconds(started.saturating_sub(self.start.elapsed())),
            content,
        };
        if serde_json::to_writer(&mut lines.bytes, &header).is_ok() {
            lines.bytes.push(b'\n');
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes until the trace ends.
    fn drain(&self, mut out: impl Write) {
        let mut bytes = Vec::new(); // the two buffers are used in turn
        loop {
            let wait = |lines| self.changed.wait(lines).unwrap_or_else(PoisonError::into_inner);
            let mut lines = self.lines();
            while lines.bytes.is_empty() && !lines.ended {
                lines = wait(lines);
            }
            if !lines.ended {
                // one write for many events
                lines = self
                    .changed
                    .wait_timeout_while(lines, COLLECT, |lines| !lines.ended)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            bytes.clear();
            std::mem::swap(&mut bytes, &mut lines.bytes);
            let ended = lines.ended;
            drop(lines);
            if let Err(error) = out.write_all(&bytes).and_then(|()| out.flush()) {
                let mut lines = self.lines();
                lines.failure = Some(error);
                lines.ended = true;
                return;
            }
            if ended {
                return;
            }
        }
    }
}

impl Writer {
    fn finish(&self) {
        self.pipe.lines().ended = true;
        self.pipe.changed.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Layer for Trace {
    fn around<'a>(&'a self, llm: &'a dyn Llm, mut request: Request) -> BoxFuture<'a, Result<Reply>> {
        let call = Some(self.pipe.calls.fetch_add(1, Ordering::Relaxed) + 1);
        let (pipe, content) = (Arc::clone(&self.pipe), self.content);
        request.listen(move |path, event| pipe.tell(content, call, path, event));
        if !content {
            return llm.call(request);
        }
        async move {
            let path = request.path.clone();
            let write = |object: Value| {
                self.pipe.write(true, |bytes, at| line::other(bytes, at, call, &path, object));
            };
            write(json!({ "event": "asked", "request": &request }));
            let result = llm.call(request).await;
            let reply = match &result {
                Ok(reply) => json!({ "content": &reply.content }),
                Err(error) => json!({ "partial": error.partial() }),
            };
            write(json!({ "event": "answered", "reply": reply }));
            result
        }
        .boxed()
    }

    fn hear(&self, path: &Path, event: &Event) {
        self.tell(None, path, event);
    }
}

//! Writes the events of a run to a file.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path as FilePath;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use futures::future::{BoxFuture, FutureExt};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

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
    calls: Arc<AtomicU64>,
    start: Instant,
    pipe: Arc<Pipe>,
    writer: Arc<Writer>,
}

/// What the calls hand to the thread that writes.
#[derive(Debug, Default)]
struct Pipe {
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
    /// Writes to this file. What was in it is lost. On Unix only its owner may read it.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when it cannot be written.
    pub fn create(file: impl AsRef<FilePath>) -> Result<Self> {
        let file = file.as_ref();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let open = options.open(file).map_err(|error| {
            let message = format!("the trace {} cannot be written: {error}", file.display());
            Error::new(ErrorKind::Io, message).with_source(error)
        })?;
        Ok(Self::to(open))
    }

    /// Writes to whatever takes bytes.
    pub fn to(out: impl Write + Send + 'static) -> Self {
        let pipe = Arc::new(Pipe::default());
        let thread = std::thread::spawn({
            let pipe = Arc::clone(&pipe);
            move || pipe.drain(out)
        });
        let writer = Writer { pipe: Arc::clone(&pipe), thread: Mutex::new(Some(thread)) };
        Self { content: false, calls: Arc::default(), start: Instant::now(), pipe, writer: Arc::new(writer) }
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
        self.begin(&mut self.pipe.lines()); // a run without an event has a header, too
        self.writer.finish();
        match self.pipe.lines().failure.take() {
            None => Ok(()),
            Some(error) => {
                let message = format!("the trace is not complete, it cannot be written: {error}");
                Err(Error::new(ErrorKind::Io, message).with_source(error))
            }
        }
    }

    fn begin(&self, lines: &mut Lines) {
        if std::mem::replace(&mut lines.begun, true) {
            return;
        }
        let started = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let header = Header {
            trace: VERSION,
            patterns: env!("CARGO_PKG_VERSION").to_owned(),
            started: seconds(started.saturating_sub(self.start.elapsed())),
            content: self.content,
        };
        put(&mut lines.bytes, |bytes| serde_json::to_writer(bytes, &header));
    }

    fn write(&self, call: Option<u64>, path: &Path, event: impl Serialize) {
        let mut lines = self.pipe.lines();
        if lines.ended {
            return;
        }
        let idle = lines.bytes.is_empty();
        self.begin(&mut lines);
        // taken under the lock, so that the lines are in order
        let t = seconds(self.start.elapsed());
        put(&mut lines.bytes, |bytes| {
            bytes.extend_from_slice(b"{\"t\":");
            serde_json::to_writer(&mut *bytes, &t)?;
            if !path.is_root() {
                bytes.extend_from_slice(b",\"path\":");
                serde_json::to_writer(&mut *bytes, path.as_str())?;
            }
            if let Some(call) = call {
                bytes.extend_from_slice(b",\"call\":");
                serde_json::to_writer(&mut *bytes, &call)?;
            }
            let event_at = bytes.len();
            serde_json::to_writer(&mut *bytes, &event)?;
            bytes[event_at] = b','; // an object of its own until here
            Ok(())
        });
        drop(lines);
        if idle {
            self.pipe.changed.notify_one();
        }
    }

    fn tell(&self, call: Option<u64>, path: &Path, event: &Event) {
        if self.content || !event.has_content() {
            self.write(call, path, event);
        } else {
            self.write(call, path, event.clone().without_content());
        }
    }
}

/// To the microsecond.
#[allow(clippy::cast_precision_loss)] // exact for 285 years
fn seconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

fn put(bytes: &mut Vec<u8>, line: impl FnOnce(&mut Vec<u8>) -> serde_json::Result<()>) {
    let before = bytes.len();
    match line(bytes) {
        Ok(()) => bytes.push(b'\n'),
        Err(_) => bytes.truncate(before), // no event fails to serialise
    }
}

impl Pipe {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes until the trace ends.
    fn drain(&self, mut out: impl Write) {
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
            let (bytes, ended) = (std::mem::take(&mut lines.bytes), lines.ended);
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
        let call = Some(self.calls.fetch_add(1, Ordering::Relaxed) + 1);
        let trace = self.clone();
        request.listen(move |path, event| trace.tell(call, path, event));
        if !self.content {
            return llm.call(request);
        }
        async move {
            let path = request.path.clone();
            self.write(call, &path, json!({ "event": "asked", "request": &request }));
            let result = llm.call(request).await;
            let reply: Value = match &result {
                Ok(reply) => json!({ "content": &reply.content }),
                Err(error) => json!({ "partial": error.partial() }),
            };
            self.write(call, &path, json!({ "event": "answered", "reply": reply }));
            result
        }
        .boxed()
    }

    fn hear(&self, path: &Path, event: &Event) {
        self.tell(None, path, event);
    }
}

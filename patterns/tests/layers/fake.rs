//! A service that says what it saw.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use patterns::{Block, Error, ErrorKind, Event, Llm, Path, Reply, Request, Result, Stop, Usage};
use tokio::time::{Instant, sleep};

pub const OPUS: &str = "anthropic:claude-opus-5-5";

/// What the service does with a call.
pub struct Answer {
    pub after: Duration,
    pub result: Result<Reply>,
    /// When the reply begins, for calls that are streamed.
    pub begins: Duration,
}

impl From<Result<Reply>> for Answer {
    fn from(result: Result<Reply>) -> Self {
        Self { after: Duration::ZERO, result, begins: Duration::ZERO }
    }
}

impl Answer {
    pub fn after(mut self, after: Duration) -> Self {
        self.after = after;
        self
    }
}

type Decide = Box<dyn Fn(usize, &Request) -> Answer + Send + Sync>;

pub struct Fake {
    model: String,
    decide: Decide,
    pub seen: Arc<Seen>,
}

#[derive(Default)]
pub struct Seen {
    pub calls: AtomicUsize,
    pub under_way: AtomicUsize,
    pub peak: AtomicUsize,
    pub cancelled: AtomicUsize,
    pub rejected: AtomicUsize,
    pub usage: Mutex<Usage>,
    pub starts: Mutex<Vec<(Path, Instant)>>,
}

impl Fake {
    /// `decide` is told the number of the call, from 0.
    pub fn new(decide: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static) -> Self {
        Self { model: OPUS.to_owned(), decide: Box::new(decide), seen: Arc::default() }
    }

    pub fn model(mut self, model: &str) -> Self {
        model.clone_into(&mut self.model);
        self
    }
}

/// A call that the service works on. Dropped before its end, the client has gone away.
struct UnderWay<'a> {
    seen: &'a Seen,
    over: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.seen.under_way.fetch_sub(1, Relaxed);
        if !self.over {
            self.seen.cancelled.fetch_add(1, Relaxed);
        }
    }
}

impl Llm for Fake {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        async move {
            let seen = &*self.seen;
            let number = seen.calls.fetch_add(1, Relaxed);
            let now = seen.under_way.fetch_add(1, Relaxed) + 1;
            seen.peak.fetch_max(now, Relaxed);
            seen.starts.lock().unwrap().push((request.path.clone(), Instant::now()));
            let mut under_way = UnderWay { seen, over: false };
            let answer = (self.decide)(number, &request);
            if let (Some(on_text), Ok(reply)) = (&request.on_text, &answer.result) {
                sleep(answer.begins).await;
                request.tell(&Event::Used { usage: Usage { output_tokens: 0, ..reply.usage } });
                on_text.hear(&reply.text());
                sleep(answer.after.saturating_sub(answer.begins)).await;
            } else {
                sleep(answer.after).await;
            }
            under_way.over = true;
            match answer.result {
                Ok(mut reply) => {
                    *seen.usage.lock().unwrap() += reply.usage;
                    if reply.model.is_empty() {
                        reply.model.clone_from(&self.model);
                    }
                    Ok(reply)
                }
                Err(error) => {
                    seen.rejected.fetch_add(1, Relaxed);
                    *seen.usage.lock().unwrap() += error.usage().copied().unwrap_or_default();
                    Err(error)
                }
            }
        }
        .boxed()
    }

    fn model(&self, _: &Request) -> Option<String> {
        Some(self.model.clone())
    }
}

pub fn text(text: &str) -> Reply {
    Reply {
        content: vec![Block::text(text)],
        usage: Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() },
        ..Reply::default()
    }
}

pub fn stopped(at: Stop, written: &str) -> Reply {
    Reply { stop: at, ..text(written) }
}

pub fn status(status: u16) -> Error {
    let kind = match status {
        401 | 402 => ErrorKind::Authentication,
        403 => ErrorKind::Permission,
        404 => ErrorKind::NotFound,
        408 => ErrorKind::TimedOut,
        429 => ErrorKind::RateLimited,
        529 => ErrorKind::Overloaded,
        409 | 500.. => ErrorKind::Server,
        _ => ErrorKind::InvalidRequest,
    };
    Error::new(kind, "no").with_status(status)
}

pub fn too_many(retry_after: f64) -> Error {
    status(429).with_retry_after(Duration::from_secs_f64(retry_after))
}

pub fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

pub fn load(counter: &AtomicUsize) -> usize {
    counter.load(Relaxed)
}

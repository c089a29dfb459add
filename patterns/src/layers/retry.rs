//! Tries again what may succeed later.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use futures::future::{BoxFuture, FutureExt};
use tokio::time::{sleep, timeout_at};

use super::Layer;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::llm::{Llm, Request};
use crate::reply::{Reply, Usage};
use crate::time::after;

/// Tries a failed call again, if [its error](Error::is_transient) says that this can help.
///
/// It waits as long as the service asks for, up to a cap; otherwise half a second, then twice as long each time up to
/// eight, of which a random part of up to a quarter is taken off, as the official SDKs do: clients do not return in step,
/// and yet each wait is clearly longer than the one before. A reply whose text has
/// already been shown ([`Request::on_text`]) is never asked for again. The reply's [usage](Reply::usage) includes that of the
/// failed attempts, and so does the last error's.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> patterns::Result<()> {
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use patterns::layers::Retry;
/// use patterns::{Error, ErrorKind, Llm, Reply, Request};
///
/// let calls = AtomicU32::new(0);
/// let flaky = async |_: Request| match calls.fetch_add(1, Ordering::Relaxed) {
///     0 => Err(Error::new(ErrorKind::Overloaded, "the service is overloaded")),
///     _ => Ok(Reply::text_of("here I am")),
/// };
/// assert_eq!(flaky.retry(Retry::default()).ask("Are you there?").await?, "here I am");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    retries: u32,
    first: Duration,
    most: Duration,
    longest_wait: Duration,
    deadline: Option<Duration>,
}

impl Default for Retry {
    /// Four times, from half a second to eight, at most a minute when the service asks for it, without a deadline.
    fn default() -> Self {
        Self {
            retries: 4,
            first: Duration::from_millis(500),
            most: Duration::from_secs(8),
            longest_wait: Duration::from_secs(60),
            deadline: None,
        }
    }
}

impl Retry {
    /// Tries again at most so many times. Default: 4, which makes five attempts.
    pub fn times(retries: u32) -> Self {
        Self { retries, ..Self::default() }
    }

    /// The longest waits when the service does not say how long: before the first new attempt, and before any. Default:
    /// half a second and eight.
    #[must_use]
    pub fn backoff(mut self, first: Duration, most: Duration) -> Self {
        (self.first, self.most) = (first, most);
        self
    }

    /// The longest wait when the service says how long (`retry-after`): it waits this long instead of longer. Default: 60 s.
    #[must_use]
    pub fn longest_wait(mut self, wait: Duration) -> Self {
        self.longest_wait = wait;
        self
    }

    /// How long all attempts and waits of a call may take together; an attempt that is still under way then is dropped, and
    /// no wait is begun that would end later. Default: as long as they take.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    fn waits(&self) -> ExponentialBackoff {
        ExponentialBuilder::new()
            .with_min_delay(self.first)
            .with_max_delay(self.most)
            .without_max_times()
            .build()
    }

    fn wait(&self, error: &Error, waits: &mut ExponentialBackoff) -> Duration {
        // backon's own jitter is up to the whole delay: a wait could be no longer than the one before
        let own = waits.next().unwrap_or(self.most).mul_f64(1.0 - fastrand::f64() / 4.0);
        match error.retry_after() {
            Some(wait) if !wait.is_zero() => wait.min(self.longest_wait),
            _ => own,
        }
    }
}

impl Layer for Retry {
    fn around<'a>(&'a self, llm: &'a dyn Llm, mut request: Request) -> BoxFuture<'a, Result<Reply>> {
        async move {
            let shown = request.on_text.take_if(|on_text| on_text.shows()).map(|on_text| {
                let shown = Arc::new(AtomicBool::new(false));
                let shows = Arc::clone(&shown);
                request.on_text = Some(on_text.after(move |_| shows.store(true, Ordering::Relaxed)));
                shown
            });
            let deadline = self.deadline.map(after);
            let mut waits = None;
            let mut used = Usage::default();
            let mut attempt = 0;
            loop {
                attempt += 1;
                let call = llm.call(request.clone());
                let result = match deadline {
                    None => call.await,
                    Some(deadline) => {
                        timeout_at(deadline, call).await.unwrap_or_else(|_| Err(self.too_late(&request)))
                    }
                };
                let error = match result {
                    Ok(mut reply) => {
                        reply.usage += used;
                        return Ok(reply);
                    }
                    Err(error) => error,
                };
                used += error.usage().copied().unwrap_or_default();
                let may_help = error.is_transient()
                    && attempt <= self.retries
                    && !shown.as_ref().is_some_and(|shown| shown.load(Ordering::Relaxed));
                let wait = self.wait(&error, waits.get_or_insert_with(|| self.waits()));
                if !may_help || deadline.is_some_and(|deadline| after(wait) >= deadline) {
                    let error = error.with_attempts(attempt).at(&request.path);
                    return Err(if used == Usage::default() { error } else { error.with_usage(used) });
                }
                request.tell_with(|| Event::Retried {
                    attempt,
                    error: error.kind().to_string(),
                    reason: Some(error.to_string()),
                    rate_limited: error.kind() == ErrorKind::RateLimited,
                    seconds: wait.as_secs_f64(),
                });
                sleep(wait).await;
            }
        }
        .boxed()
    }
}

impl Retry {
    fn too_late(&self, request: &Request) -> Error {
        let message = format!(
            "no answer within the {:?} that all attempts of a call may take; allow more time or ask for less",
            self.deadline.unwrap_or_default()
        );
        Error::new(ErrorKind::TimedOut, message).with_transient(false).at(&request.path)
    }
}

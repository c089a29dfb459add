//! Bounds the calls under way.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};

use super::Layer;
use super::estimate::prompt_tokens;
use super::window::Window;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::llm::{Llm, Request};
use crate::reply::{Reply, Usage};
use crate::time::after;

/// The longest pause without a word from the service: half a second, doubled with each rejection in a row up to this.
const LONGEST_OWN_PAUSE: Duration = Duration::from_secs(8);

/// Bounds the calls under way over everything nested in a flow, and holds all of them when the service says that it is too
/// much.
///
/// At most `n` calls are under way at once. A rejection for too many requests (HTTP 429) in one branch pauses all branches
/// until the time that the service names, and halves the bound, down to one; calls that go well let it grow again one by one,
/// up to `n` (additive increase, multiplicative decrease). An overloaded service halves it, too. A provider that tells
/// [`Event::Quota`] pauses them when nothing is left, before any call is rejected.
///
/// Clones share the bound: one limit round several models bounds them together. Put it inside of
/// [`Retry`](super::Retry), as in `model.at_most(8).retry(Retry::default())`, so that a call that waits for its next attempt
/// holds no slot. The other way round it keeps its slot while it waits.
#[derive(Clone, Debug)]
pub struct Limit {
    requests: Option<u64>,
    tokens: Option<u64>,
    longest_pause: Duration,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    most: usize,
    slots: Semaphore,
    pace: Mutex<Pace>,
}

#[derive(Debug)]
struct Pace {
    /// The bound as it is now.
    width: usize,
    /// Slots that were given out before the bound shrank, to be taken out when they come back.
    owed: usize,
    /// Calls that went well since the bound last changed.
    well: usize,
    /// When the bound was last cut. Calls that started before know nothing of it.
    cut: Option<Instant>,
    /// Rejections in a row.
    rejections: u32,
    paused_until: Option<Instant>,
    requests: Window,
    tokens: Window,
}

impl Limit {
    /// At most `n` calls under way at once; 0 counts as 1.
    pub fn at_most(n: usize) -> Self {
        let most = n.clamp(1, Semaphore::MAX_PERMITS);
        let pace = Pace {
            width: most,
            owed: 0,
            well: 0,
            cut: None,
            rejections: 0,
            paused_until: None,
            requests: Window::default(),
            tokens: Window::default(),
        };
        Self {
            requests: None,
            tokens: None,
            longest_pause: Duration::from_secs(60),
            state: Arc::new(State { most, slots: Semaphore::new(most), pace: Mutex::new(pace) }),
        }
    }

    /// At most `n` requests in any minute; a call that is resumed counts once. Default: as many as there are.
    #[must_use]
    pub fn requests_per_minute(mut self, n: u64) -> Self {
        self.requests = Some(n.max(1));
        self
    }

    /// At most `n` tokens in any minute, of prompt and reply together: estimated from the prompt's bytes when a call starts
    /// and put right when it ends. Default: as many as there are.
    #[must_use]
    pub fn tokens_per_minute(mut self, n: u64) -> Self {
        self.tokens = Some(n.max(1));
        self
    }

    /// The longest pause that the service may ask for; it waits this long instead of longer. Default: 60 s.
    #[must_use]
    pub fn longest_pause(mut self, pause: Duration) -> Self {
        self.longest_pause = pause;
        self
    }

    /// The bound as it is now, between 1 and the `n` of [`at_most`](Self::at_most).
    pub fn width(&self) -> usize {
        self.state.pace().width
    }

    /// Waits until a call may start.
    async fn enter(&self, request: &Request) -> Slot<'_> {
        let waiting = |why: &str, until: Option<Instant>| {
            request.tell_with(|| Event::Waiting {
                why: why.to_owned(),
                seconds: until.map(|until| (until - Instant::now()).as_secs_f64()),
            });
        };
        let permit = match self.state.slots.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => {
                waiting("a slot", None);
                self.state.slots.acquire().await.ok() // never closed
            }
        };
        let mut slot = Slot { state: &self.state, permit, started: Instant::now(), thought: 0 };
        if self.requests.is_some() || self.tokens.is_some() {
            let at = self.take_rates(request, &mut slot);
            if at > slot.started {
                waiting("the rate limit", Some(at));
                sleep_until(at).await;
            }
        }
        while let Some(until) = self.state.paused_until() {
            waiting("the service's pause", Some(until));
            sleep_until(until).await;
            slot.started = Instant::now();
        }
        slot
    }

    fn take_rates(&self, request: &Request, slot: &mut Slot<'_>) -> Instant {
        let mut at = slot.started;
        slot.thought = if self.tokens.is_some() { prompt_tokens(request) } else { 0 };
        let mut pace = self.state.pace();
        if let Some(limit) = self.requests {
            at = at.max(pace.requests.take(1, limit, slot.started));
        }
        if let Some(limit) = self.tokens {
            at = at.max(pace.tokens.take(slot.thought, limit, slot.started));
        }
        at
    }

    fn learn(&self, slot: &Slot<'_>, result: &Result<Reply>) {
        let usage = match result {
            Ok(reply) => {
                self.state.went_well(slot.started);
                Some(&reply.usage)
            }
            Err(error) => {
                self.learn_failure(error, slot.started);
                error.usage()
            }
        };
        if self.tokens.is_some() {
            let was = usage.map_or(0, Usage::total_tokens);
            self.state.pace().tokens.correct(slot.thought, was, Instant::now());
        }
    }

    fn learn_failure(&self, error: &Error, started: Instant) {
        match error.kind() {
            // a spend limit is no matter of pace
            ErrorKind::RateLimited if error.is_transient() => {
                self.state.rejected(started, error.retry_after(), self.longest_pause);
            }
            ErrorKind::Overloaded => self.state.cut(started),
            _ => {}
        }
    }
}

impl State {
    fn pace(&self) -> std::sync::MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn paused_until(&self) -> Option<Instant> {
        self.pace().paused_until.filter(|until| *until > Instant::now())
    }

    fn pause(&self, wait: Duration) {
        let until = after(wait);
        let mut pace = self.pace();
        pace.paused_until = Some(pace.paused_until.map_or(until, |before| before.max(until)));
    }

    fn rejected(&self, started: Instant, asked: Option<Duration>, longest: Duration) {
        self.cut(started);
        let own = || {
            let doublings = self.pace().rejections.saturating_sub(1).min(8);
            (Duration::from_millis(500) * 2_u32.pow(doublings)).min(LONGEST_OWN_PAUSE)
        };
        self.pause(asked.filter(|wait| !wait.is_zero()).unwrap_or_else(own).min(longest));
    }

    /// Halves the bound, once for all calls that were under way together.
    fn cut(&self, started: Instant) {
        let mut pace = self.pace();
        if pace.cut.is_some_and(|cut| started < cut) {
            return;
        }
        let less = pace.width / 2;
        pace.width -= less;
        pace.owed += less - self.slots.forget_permits(less);
        pace.well = 0;
        pace.rejections = pace.rejections.saturating_add(1);
        pace.cut = Some(Instant::now());
    }

    fn went_well(&self, started: Instant) {
        let mut pace = self.pace();
        if pace.cut.is_some_and(|cut| started < cut) {
            return;
        }
        pace.rejections = 0;
        if pace.width < self.most {
            pace.well += 1;
            if pace.well >= pace.width {
                pace.well = 0;
                pace.width += 1;
                if pace.owed > 0 {
                    pace.owed -= 1;
                } else {
                    self.slots.add_permits(1);
                }
            }
        }
    }
}

/// One of the calls under way.
struct Slot<'a> {
    state: &'a State,
    permit: Option<SemaphorePermit<'a>>,
    started: Instant,
    thought: u64,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let mut pace = self.state.pace();
        if pace.owed > 0 {
            pace.owed -= 1;
            permit.forget();
        }
    }
}

impl Layer for Limit {
    fn around<'a>(&'a self, llm: &'a dyn Llm, mut request: Request) -> BoxFuture<'a, Result<Reply>> {
        async move {
            let slot = self.enter(&request).await;
            let (state, longest, started) = (Arc::clone(&self.state), self.longest_pause, slot.started);
            request.overhear(move |event| match event {
                Event::Quota { remaining: 0, resets_in, .. } => {
                    state.pause(Duration::try_from_secs_f64(*resets_in).unwrap_or_default().min(longest));
                }
                Event::Retried { rate_limited: true, seconds, .. } => {
                    state.rejected(started, Duration::try_from_secs_f64(*seconds).ok(), longest);
                }
                _ => {}
            });
            let result = llm.call(request).await;
            self.learn(&slot, &result);
            result
        }
        .boxed()
    }
}

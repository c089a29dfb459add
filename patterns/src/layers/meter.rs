//! Adds up usage and cost.

use std::collections::HashMap;
use std::fmt;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, FutureExt};
use serde::Serialize;

use super::Layer;
use crate::error::Result;
use crate::event::Event;
use crate::llm::{Llm, OnEvent, Request};
use crate::path::Path;
use crate::price::{Prices, Terms, Usd};
use crate::reply::{Reply, Usage};

/// From so many places on, further ones are counted together: `input 70123` under `input *`.
const PLACES: usize = 4_096;

/// Adds up usage and cost per model and per place in the flow, failed and dropped calls included, and tells
/// [`Event::CallStarted`] and [`Event::CallEnded`]. Clones add to the same sums.
///
/// What a dropped call has cost is known only as far as its provider has told ([`Event::Used`]); such calls are counted as
/// [`cancelled`](Line::cancelled). A price that nobody knows makes a cost unknown, never zero.
#[derive(Clone, Debug)]
pub struct Meter {
    prices: Arc<Prices>,
    sums: Arc<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    places: Mutex<HashMap<Path, Vec<(String, Line)>>>,
    under_way: AtomicUsize,
}

impl Default for Meter {
    /// A meter with the built-in prices.
    fn default() -> Self {
        Self::new(Prices::builtin())
    }
}

/// What some of the calls of a run used and cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The calls that the flow made.
    pub calls: u64,
    /// The requests sent for them: more with retries and continuations, none for a call that the journal answered.
    pub sent: u64,
    /// The calls that the journal answered. They use and cost nothing now.
    pub replayed: u64,
    /// The calls without a reply.
    pub failed: u64,
    /// The calls that were dropped before they had one.
    pub cancelled: u64,
    /// What is known to have been used.
    pub usage: Usage,
    /// What that costs, as far as the prices are known.
    pub priced: Usd,
    /// The calls that used something at a price that is not known.
    pub unpriced: u64,
}

impl Line {
    /// What was used costs this; `None` when a price is missing, and [`priced`](Self::priced) is only a part.
    pub fn cost(&self) -> Option<Usd> {
        (self.unpriced == 0).then_some(self.priced)
    }
}

impl AddAssign for Line {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.sent += other.sent;
        self.replayed += other.replayed;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.usage += other.usage;
        self.priced += other.priced;
        self.unpriced += other.unpriced;
    }
}

/// What a run has used and cost so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Everything.
    pub total: Line,
    /// By `provider:model`, in alphabetical order.
    pub models: Vec<(String, Line)>,
    /// By place in the flow, in alphabetical order.
    pub places: Vec<(Path, Line)>,
}

/// One line for a person: `12 calls (1 failed), 5120 + 830 tokens, $0.0371`.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.calls, if self.calls == 1 { "call" } else { "calls" })?;
        let parts = [
            (self.replayed, "from the journal"),
            (self.failed, "failed"),
            (self.cancelled, "cancelled"),
            (self.unpriced, "of unknown price"),
        ];
        let mut open = " (";
        for (n, what) in parts.into_iter().filter(|(n, _)| *n > 0) {
            write!(f, "{open}{n} {what}")?;
            open = ", ";
        }
        if open == ", " {
            f.write_str(")")?;
        }
        write!(f, ", {} + {} tokens, ", self.usage.prompt_tokens(), self.usage.output_tokens)?;
        if self.cancelled > 0 && self.priced > Usd::ZERO {
            f.write_str("at least ")?;
        }
        match self.cost() {
            Some(cost) => write!(f, "{cost}"),
            None if self.priced == Usd::ZERO => f.write_str("cost unknown"),
            None => write!(f, "{} and more, which is unknown", self.priced),
        }
    }
}

impl Meter {
    /// A meter with these prices.
    pub fn new(prices: Arc<Prices>) -> Self {
        Self { prices, sums: Arc::default() }
    }

    /// What the run has used and cost so far.
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        let mut models: HashMap<String, Line> = HashMap::new();
        for (path, lines) in self.sums.places().iter() {
            let mut place = Line::default();
            for (model, line) in lines {
                place += *line;
                *models.entry(model.clone()).or_default() += *line;
            }
            report.total += place;
            report.places.push((path.clone(), place));
        }
        report.models = models.into_iter().collect();
        report.models.sort_by(|a, b| a.0.cmp(&b.0));
        report.places.sort_by(|a, b| a.0.cmp(&b.0));
        report
    }

    /// The total alone, for a display that is renewed often.
    pub fn total(&self) -> Line {
        let mut total = Line::default();
        for (_, line) in self.sums.places().values().flatten() {
            total += *line;
        }
        total
    }

    /// How many calls are under way or wait for their turn.
    pub fn under_way(&self) -> usize {
        self.sums.under_way.load(Ordering::Relaxed)
    }
}

impl Sums {
    fn places(&self) -> MutexGuard<'_, HashMap<Path, Vec<(String, Line)>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, path: &Path, model: &str, line: Line) {
        let mut places = self.places();
        let lines = if places.len() < PLACES || places.contains_key(path) {
            // most calls come from a place that is known, and its path is not copied
            match places.get_mut(path) {
                Some(lines) => lines,
                None => places.entry(path.clone()).or_default(),
            }
        } else {
            places.entry(without_numbers(path)).or_default()
        };
        match lines.iter_mut().find(|(name, _)| name == model) {
            Some((_, sum)) => *sum += line,
            None => lines.push((model.to_owned(), line)),
        }
    }
}

/// The place with its counted segments put together: `input 7/draft 2` as `input */draft *`.
fn without_numbers(path: &Path) -> Path {
    let segments: Vec<_> = path
        .segments()
        .map(|segment| match segment.rsplit_once(' ') {
            Some((name, n)) if n.bytes().all(|b| b.is_ascii_digit()) => format!("{name} *"),
            _ => segment.to_owned(),
        })
        .collect();
    Path::from(&*segments.join("/"))
}

/// A call under way. When it is dropped without a result, it was cancelled.
struct Call<'a> {
    meter: &'a Meter,
    path: Path,
    model: Option<String>,
    terms: Terms,
    heard: Arc<Heard>,
    on_event: Option<OnEvent>,
    ended: bool,
}

/// What the layers further in and the provider tell of the call.
#[derive(Default)]
struct Heard {
    sent: AtomicU64,
    replayed: AtomicBool,
    /// Of the requests that are over, and of the one under way.
    used: Mutex<(Usage, Usage)>,
}

impl Heard {
    fn hear(&self, event: &Event) {
        match event {
            Event::Sent => {
                self.sent.fetch_add(1, Ordering::Relaxed);
                let mut used = self.used();
                let last = std::mem::take(&mut used.1);
                used.0 += last;
            }
            Event::Used { usage } => self.used().1 = *usage,
            Event::Replayed => self.replayed.store(true, Ordering::Relaxed),
            _ => {}
        }
    }

    fn used(&self) -> MutexGuard<'_, (Usage, Usage)> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call<'_> {
    fn end(&mut self, result: Option<&Result<Reply>>) {
        self.ended = true;
        let mut line = Line { calls: 1, sent: self.heard.sent.load(Ordering::Relaxed), ..Line::default() };
        let outcome = match result {
            Some(Ok(_)) if self.heard.replayed.load(Ordering::Relaxed) => {
                line.replayed = 1;
                "replayed"
            }
            Some(Ok(reply)) => {
                line.sent = line.sent.max(1);
                line.usage = reply.usage;
                if !reply.model.is_empty() {
                    self.model = Some(reply.model.clone());
                }
                "ok"
            }
            Some(Err(error)) => {
                line.failed = 1;
                line.usage = error.usage().copied().unwrap_or_default();
                "failed"
            }
            None => {
                line.cancelled = 1;
                let (over, under_way) = *self.heard.used();
                line.usage = over;
                line.usage += under_way;
                "cancelled"
            }
        };
        let model = self.model.as_deref().unwrap_or("unknown");
        let cost = if outcome != "ok" && line.usage == Usage::default() {
            Some(Usd::ZERO)
        } else {
            self.meter.prices.cost(model, &line.usage, self.terms)
        };
        match cost {
            Some(cost) => line.priced = cost,
            None => line.unpriced = 1,
        }
        self.meter.sums.add(&self.path, model, line);
        self.meter.sums.under_way.fetch_sub(1, Ordering::Relaxed);
        if let Some(on_event) = &self.on_event {
            let (reply, error) = match result {
                Some(Ok(reply)) => (Some(reply), None),
                Some(Err(error)) => (None, Some(error)),
                None => (None, None),
            };
            let event = Event::CallEnded {
                model: self.model.clone(),
                usage: line.usage,
                cost: cost.map(Usd::dollars),
                outcome: outcome.to_owned(),
                stop: reply.map(|reply| reply.stop.as_str().to_owned()),
                error: error.map(|error| error.kind().to_string()),
                reason: error.map(ToString::to_string),
            };
            on_event.hear(&self.path, &event);
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.end(None);
        }
    }
}

impl Layer for Meter {
    fn around<'a>(&'a self, llm: &'a dyn Llm, mut request: Request) -> BoxFuture<'a, Result<Reply>> {
        async move {
            let heard = Arc::new(Heard::default());
            self.sums.under_way.fetch_add(1, Ordering::Relaxed);
            let mut call = Call {
                meter: self,
                path: request.path.clone(),
                model: llm.model(&request),
                terms: Terms::of(&request),
                heard: Arc::clone(&heard),
                on_event: request.on_event.clone(),
                ended: false,
            };
            request.tell_with(|| Event::CallStarted { model: call.model.clone() });
            request.overhear(move |event| heard.hear(event));
            let result = llm.call(request).await;
            call.end(Some(&result));
            result
        }
        .boxed()
    }
}

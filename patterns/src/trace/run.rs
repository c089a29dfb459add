//! What a trace tells of a run.

use std::collections::HashMap;
use std::ops::AddAssign;
use std::time::Duration;

use serde_json::Value;

use super::read::{Told, What};
use crate::event::Event;
use crate::path::Path;
use crate::price::Usd;
use crate::reply::Usage;

/// The most reasons that are named where the end of a run is told.
const MOST_REASONS: usize = 3;

/// A run, as its trace tells it. Times are counted from the start of the trace.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Run {
    /// The version of the library that wrote the trace.
    pub version: String,
    /// When it started, in seconds since 1970.
    pub started: f64,
    /// The outermost pattern, if the run told it.
    pub pattern: Option<String>,
    /// How it ended: `ok`, `failed` or `cancelled`; `None` for a trace that was cut.
    pub outcome: Option<String>,
    /// Why there is no answer.
    pub reason: Option<String>,
    /// When it ended, or else the last event.
    pub end: Duration,
    /// The calls, in the order of their start.
    pub calls: Vec<Call>,
    /// What the patterns told, in order.
    pub notes: Vec<Note>,
    /// How many lines could not be read.
    pub unread: usize,
}

/// What a pattern told, when and where.
#[derive(Clone, Debug)]
pub struct Note {
    /// When.
    pub at: Duration,
    /// Where.
    pub path: Path,
    /// What.
    pub event: Event,
}

/// One call of a run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Call {
    /// Its number in the trace.
    pub number: u64,
    /// Where in the flow it was made.
    pub path: Path,
    /// The model that answered or was asked.
    pub model: Option<String>,
    /// When it started.
    pub start: Duration,
    /// When it ended; in a trace that was cut, the end of the trace.
    pub end: Duration,
    /// When the first text of a streamed reply came.
    pub first_text: Option<Duration>,
    /// Its working and waiting, one after the other, from start to end.
    pub phases: Vec<Phase>,
    /// What it used.
    pub usage: Usage,
    /// What that costs; `None` when the price is not known.
    pub cost: Option<Usd>,
    /// How it ended: `ok`, `replayed`, `failed`, `cancelled`, or `unfinished` when the trace does not tell.
    pub outcome: String,
    /// The stop reason of the reply, or the kind of the error.
    pub reason: Option<String>,
    /// How many requests were sent for it.
    pub sent: u32,
    /// How many attempts failed and were followed by another.
    pub retries: u32,
    /// The request, if the trace has content.
    pub request: Option<Value>,
    /// The reply's content, if the trace has content.
    pub reply: Option<Value>,
}

/// A part of a call in which it worked, or waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// What it waited for; `None` for work.
    pub wait: Option<String>,
    /// When it began.
    pub start: Duration,
    /// When it ended.
    pub end: Duration,
}

impl Phase {
    /// How long it took.
    pub fn length(&self) -> Duration {
        self.end.saturating_sub(self.start)
    }
}

impl Call {
    /// How long it took, waiting included.
    pub fn length(&self) -> Duration {
        self.end.saturating_sub(self.start)
    }

    /// How long it waited for its turn, for a pause of the service or for its next attempt.
    pub fn waited(&self) -> Duration {
        self.phases.iter().filter(|phase| phase.wait.is_some()).map(Phase::length).sum()
    }

    /// How long it worked.
    pub fn worked(&self) -> Duration {
        self.phases.iter().filter(|phase| phase.wait.is_none()).map(Phase::length).sum()
    }

    fn turn(&mut self, at: Duration, wait: Option<&str>) {
        if let Some(last) = self.phases.last_mut() {
            if last.wait.as_deref() == wait {
                return;
            }
            last.end = at;
            if last.start == at {
                self.phases.pop();
            }
        }
        self.phases.push(Phase { wait: wait.map(str::to_owned), start: at, end: at });
    }

    fn hear(&mut self, at: Duration, event: Event) {
        match event {
            Event::CallStarted { model } => self.model = model,
            Event::Waiting { why, .. } => self.turn(at, Some(&why)),
            Event::Retried { error, .. } => {
                self.retries += 1;
                self.turn(at, Some(&format!("the next attempt ({error})")));
            }
            Event::Sent => {
                self.sent += 1;
                self.turn(at, None);
            }
            Event::FirstText => {
                self.first_text.get_or_insert(at);
            }
            Event::Used { usage } => self.usage = usage,
            Event::CallEnded { model, usage, cost, outcome, stop, error, .. } => {
                self.close(at);
                self.model = model.or_else(|| self.model.take());
                (self.usage, self.cost) = (usage, cost.map(Usd::new));
                self.outcome = outcome;
                self.reason = error.or(stop);
            }
            _ => {}
        }
    }

    fn close(&mut self, at: Duration) {
        self.end = at;
        if let Some(last) = self.phases.last_mut() {
            last.end = at;
        }
    }
}

/// What some of the calls of a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sum {
    /// The calls.
    pub calls: u64,
    /// Those without a reply.
    pub failed: u64,
    /// Those that were dropped before they had one.
    pub cancelled: u64,
    /// Those that the journal answered.
    pub replayed: u64,
    /// Those whose end the trace does not tell.
    pub unfinished: u64,
    /// The attempts that failed and were followed by another.
    pub retries: u64,
    /// What they used.
    pub usage: Usage,
    /// What that costs, as far as the prices are known.
    pub priced: Usd,
    /// Those of unknown price.
    pub unpriced: u64,
    /// How long they worked, added up.
    pub worked: Duration,
    /// How long they waited, added up.
    pub waited: Duration,
}

impl Sum {
    /// What all of them cost; `None` when a price is not known.
    pub fn cost(&self) -> Option<Usd> {
        (self.unpriced == 0).then_some(self.priced)
    }

    /// The share of the prompt's tokens that was read from a cache, from 0 to 1.
    #[allow(clippy::cast_precision_loss)]
    pub fn cached(&self) -> f64 {
        let prompt = self.usage.prompt_tokens();
        if prompt == 0 { 0.0 } else { self.usage.cache_read_tokens as f64 / prompt as f64 }
    }

    pub(super) fn of(call: &Call) -> Self {
        let is = |outcome: &str| u64::from(call.outcome == outcome);
        Self {
            calls: 1,
            failed: is("failed"),
            cancelled: is("cancelled"),
            replayed: is("replayed"),
            unfinished: is("unfinished"),
            retries: u64::from(call.retries),
            usage: call.usage,
            priced: call.cost.unwrap_or_default(),
            unpriced: u64::from(call.cost.is_none()),
            worked: call.worked(),
            waited: call.waited(),
        }
    }
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.replayed += other.replayed;
        self.unfinished += other.unfinished;
        self.retries += other.retries;
        self.usage += other.usage;
        self.priced += other.priced;
        self.unpriced += other.unpriced;
        self.worked += other.worked;
        self.waited += other.waited;
    }
}

/// A place in the flow, with what happened there and below.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Node {
    /// The last segment of its path; empty at the root.
    pub name: String,
    /// Its path.
    pub path: Path,
    /// The calls made here, as places in [`Run::calls`].
    pub calls: Vec<usize>,
    /// The places below, in the order of their first call.
    pub children: Vec<Node>,
    /// What the calls here and below came to.
    pub sum: Sum,
    /// When the first of them started and the last one ended.
    pub span: Option<(Duration, Duration)>,
}

impl Run {
    pub(super) fn hear(&mut self, told: Told, by_number: &mut HashMap<u64, usize>) {
        let Told { at, path, call, what } = told;
        self.end = self.end.max(at);
        let path = Path::from(&*path);
        let Some(number) = call else {
            if let What::Event(event) = what {
                self.note(at, path, event);
            }
            return;
        };
        let place = *by_number.entry(number).or_insert_with(|| {
            self.calls.push(Call {
                number,
                path,
                start: at,
                end: at,
                phases: vec![Phase { wait: None, start: at, end: at }],
                outcome: "unfinished".to_owned(),
                ..Call::default()
            });
            self.calls.len() - 1
        });
        let call = &mut self.calls[place];
        match what {
            What::Event(event) => call.hear(at, event),
            What::Asked(request) => call.request = Some(request),
            What::Answered(reply) => call.reply = Some(reply),
        }
    }

    fn note(&mut self, at: Duration, path: Path, event: Event) {
        match &event {
            _ if !path.is_root() => {} // a run inside of this one
            Event::RunStarted { pattern, .. } => self.pattern = Some(pattern.clone()),
            Event::RunEnded { outcome, error, .. } => {
                self.outcome = Some(outcome.clone());
                self.reason.clone_from(error);
            }
            _ => {}
        }
        self.notes.push(Note { at, path, event });
    }

    /// Ends the calls that the trace does not end.
    pub(super) fn close(&mut self) {
        for call in self.calls.iter_mut().filter(|call| call.outcome == "unfinished") {
            call.close(self.end);
        }
    }

    /// Everything added up.
    pub fn total(&self) -> Sum {
        let mut sum = Sum::default();
        for call in &self.calls {
            sum += Sum::of(call);
        }
        sum
    }

    /// What the patterns of the run told of what is missing or was capped, in order, each with its place.
    pub fn shortfalls(&self) -> Vec<String> {
        let reason = |note: &Note| match &note.event {
            Event::Degraded { reason } | Event::Capped { reason } => Some(note.path.before(reason)),
            _ => None,
        };
        self.notes.iter().filter_map(reason).collect()
    }

    /// In a word or two how it ended, and why it was not simply well.
    pub(super) fn ending(&self) -> (&str, Option<String>) {
        let capped = |note: &Note| matches!(note.event, Event::Capped { .. });
        match self.outcome.as_deref() {
            None => ("cut", Some("the trace does not tell the end".to_owned())),
            Some("ok") => {
                let mut reasons = self.shortfalls();
                if reasons.is_empty() {
                    return ("ok", None);
                }
                let more = reasons.len().saturating_sub(MOST_REASONS);
                reasons.truncate(MOST_REASONS);
                if more > 0 {
                    reasons.push(format!("and {more} more"));
                }
                let word = if self.notes.iter().any(capped) { "capped" } else { "degraded" };
                (word, Some(reasons.join("; ")))
            }
            Some(outcome) => (outcome, self.reason.clone()),
        }
    }

    /// [How it ended](Self::ending), on one line.
    pub(super) fn ended(&self) -> String {
        match self.ending() {
            (outcome, Some(reason)) => format!("{outcome} ({reason})"),
            (outcome, None) => outcome.to_owned(),
        }
    }

    /// The calls that votes did not make or drop because they were decided before.
    pub fn saved(&self) -> usize {
        let saved = |note: &Note| if let Event::Decided { saved, .. } = note.event { saved } else { 0 };
        self.notes.iter().map(saved).sum()
    }

    /// The share of the run in which no call worked, from 0 to 1: all of them waited, or there was none.
    pub fn idle(&self) -> f64 {
        let mut work: Vec<_> = self
            .calls
            .iter()
            .flat_map(|call| &call.phases)
            .filter(|phase| phase.wait.is_none())
            .map(|phase| (phase.start, phase.end))
            .collect();
        work.sort_unstable();
        let (mut busy, mut reached) = (Duration::ZERO, Duration::ZERO);
        for (start, end) in work {
            busy += end.saturating_sub(start.max(reached));
            reached = reached.max(end);
        }
        if self.end.is_zero() { 0.0 } else { 1.0 - busy.as_secs_f64() / self.end.as_secs_f64() }
    }

    /// The places of the flow, as a tree.
    pub fn tree(&self) -> Node {
        // the nodes in the order in which they appear, so that every parent is before its children
        let mut nodes = vec![(0, Node::default())];
        let mut places = HashMap::new();
        for (n, call) in self.calls.iter().enumerate() {
            let mut at = 0;
            nodes[at].1.add(call);
            for (segment, path) in call.path.prefixes() {
                at = *places.entry(path).or_insert_with(|| {
                    let path = Path::from(path);
                    nodes.push((at, Node { name: segment.to_owned(), path, ..Node::default() }));
                    nodes.len() - 1
                });
                nodes[at].1.add(call);
            }
            nodes[at].1.calls.push(n);
        }
        while let Some((parent, mut node)) = nodes.pop() {
            node.children.reverse(); // the last child came first
            match nodes.get_mut(parent) {
                Some((_, parent)) => parent.children.push(node),
                None => return node,
            }
        }
        Node::default()
    }
}

impl Node {
    fn add(&mut self, call: &Call) {
        self.sum += Sum::of(call);
        let (start, end) = self.span.unwrap_or((call.start, call.end));
        self.span = Some((start.min(call.start), end.max(call.end)));
    }
}

//! How the branches of a fan-out ended.

use std::fmt;
use std::ops::ControlFlow;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use serde::Serialize;
use serde::ser::SerializeMap as _;

use crate::error::{Error, ErrorKind, Result};

/// How one branch of a fan-out ended. A failure is never an answer: only [`Ok`](Outcome::Ok) holds one.
///
/// As JSON it is `{"status": "ok", "answer": …}` or `{"status": "timed_out", "reason": "…"}`.
#[derive(Clone, Debug)]
pub enum Outcome<T> {
    /// It has an answer.
    Ok(T),
    /// It has none, and this is why; [`status`](Outcome::status) tells refusals, cuts, time-outs … apart.
    Failed(Error),
    /// It was dropped or never started, because the run's fate was decided without it.
    Cancelled,
    /// It was not started, because this branch that it needs has no answer.
    Skipped(String),
}

/// The ways in which a branch can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the words say it
pub enum Status {
    Ok,
    Refused,
    Truncated,
    TimedOut,
    OverBudget,
    Failed,
    Cancelled,
    Skipped,
}

impl Status {
    const ALL: [Self; 8] = [
        Self::Ok,
        Self::Refused,
        Self::Truncated,
        Self::TimedOut,
        Self::OverBudget,
        Self::Failed,
        Self::Cancelled,
        Self::Skipped,
    ];

    /// The status in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::Truncated => "truncated",
            Self::TimedOut => "timed out",
            Self::OverBudget => "over budget",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<T> Outcome<T> {
    /// How it ended, in one word.
    pub fn status(&self) -> Status {
        match self {
            Self::Ok(_) => Status::Ok,
            Self::Failed(error) => match error.kind() {
                ErrorKind::Refused => Status::Refused,
                ErrorKind::Truncated => Status::Truncated,
                ErrorKind::TimedOut => Status::TimedOut,
                ErrorKind::OverBudget => Status::OverBudget,
                ErrorKind::Cancelled => Status::Cancelled,
                _ => Status::Failed,
            },
            Self::Cancelled => Status::Cancelled,
            Self::Skipped(_) => Status::Skipped,
        }
    }

    /// The answer, if there is one.
    pub fn ok(&self) -> Option<&T> {
        if let Self::Ok(answer) = self { Some(answer) } else { None }
    }

    /// The error, if it failed.
    pub fn error(&self) -> Option<&Error> {
        if let Self::Failed(error) = self { Some(error) } else { None }
    }

    /// Why there is no answer, in words for a person; `None` when there is one.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Ok(_) => None,
            Self::Failed(error) => Some(error.to_string()),
            Self::Cancelled => Some("cancelled: the outcome was decided without it".to_owned()),
            Self::Skipped(needed) => Some(format!("skipped: `{needed}`, which it needs, has no answer")),
        }
    }

    /// The same outcome with another answer.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Ok(answer) => Outcome::Ok(change(answer)),
            Self::Failed(error) => Outcome::Failed(error),
            Self::Cancelled => Outcome::Cancelled,
            Self::Skipped(needed) => Outcome::Skipped(needed),
        }
    }
}

impl<T> From<Result<T>> for Outcome<T> {
    fn from(result: Result<T>) -> Self {
        match result {
            Ok(answer) => Self::Ok(answer),
            Err(error) => Self::Failed(error),
        }
    }
}

impl<T: Serialize> Serialize for Outcome<T> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(2))?;
        map.serialize_entry("status", &self.status())?;
        match self {
            Self::Ok(answer) => map.serialize_entry("answer", answer)?,
            missing => map.serialize_entry("reason", &missing.reason())?,
        }
        map.end()
    }
}

/// How many branches ended in which way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census([usize; 8]);

impl Census {
    /// Counts the outcomes.
    pub fn of<'a, T: 'a>(outcomes: impl IntoIterator<Item = &'a Outcome<T>>) -> Self {
        let mut census = Self::default();
        for outcome in outcomes {
            census.add(outcome.status());
        }
        census
    }

    /// Counts one more.
    pub fn add(&mut self, status: Status) {
        self.0[status as usize] += 1;
    }

    /// How many ended so.
    pub fn count(&self, status: Status) -> usize {
        self.0[status as usize]
    }

    /// How many there are in all.
    pub fn total(&self) -> usize {
        self.0.iter().sum()
    }

    /// Whether every branch has an answer.
    pub fn is_complete(&self) -> bool {
        self.count(Status::Ok) == self.total()
    }
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for status in Status::ALL {
            let n = self.count(status);
            if n > 0 {
                write!(f, "{}{n} {status}", if first { "" } else { ", " })?;
                first = false;
            }
        }
        if first { f.write_str("none") } else { Ok(()) }
    }
}

impl Serialize for Census {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(Status::ALL.iter().filter(|s| self.count(**s) > 0).map(|s| (s, self.count(*s))))
    }
}

/// How many branches of a fan-out must come to an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// All of them; the first failure ends the rest.
    #[default]
    All,
    /// At least so many; ends as soon as that has become impossible.
    AtLeast(usize),
    /// As many as will, but at least one.
    BestEffort,
}

impl Policy {
    /// How many of `total` branches must come to an answer.
    pub fn needed(self, total: usize) -> usize {
        match self {
            Self::All => total,
            Self::AtLeast(n) => n,
            Self::BestEffort => 1,
        }
    }

    /// Whether `ok` answers can no longer be reached once `failed` of `total` branches have none.
    pub(crate) fn is_lost(self, failed: usize, total: usize) -> bool {
        total.saturating_sub(failed) < self.needed(total)
    }
}

/// Runs `jobs`, at most `at_once` at a time (0: all), and tells `on_end` each result as it comes. When that breaks, the
/// jobs under way are dropped and no further one starts.
pub(crate) async fn fan_out<T>(
    jobs: Vec<BoxFuture<'_, T>>,
    at_once: usize,
    mut on_end: impl FnMut(usize, T) -> ControlFlow<()>,
) {
    let at_once = if at_once == 0 { usize::MAX } else { at_once };
    let mut waiting = jobs.into_iter().enumerate();
    let mut running = FuturesUnordered::new();
    loop {
        while running.len() < at_once {
            let Some((n, job)) = waiting.next() else { break };
            running.push(async move { (n, job.await) });
        }
        let Some((n, result)) = running.next().await else { return };
        if on_end(n, result).is_break() {
            return;
        }
    }
}

//! What is different between two runs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::gantt::{calls, cost, short};
use super::run::{Call, Run, Sum};
use crate::draw::one_line;

/// The most places that are named.
const PLACES: usize = 20;

/// What is different between two runs, in words.
///
/// ```
/// use patterns::trace::{Diff, Run};
/// # fn main() -> patterns::Result<()> {
/// let before = Run::parse(r#"{"trace":1}
/// {"t":0.0,"path":"step 1","call":1,"event":"call_started"}
/// {"t":3.0,"path":"step 1","call":1,"event":"call_ended","usage":{},"cost":0.02,"outcome":"ok"}"#)?;
/// let after = Run::parse(r#"{"trace":1}
/// {"t":0.0,"path":"step 1","call":1,"event":"call_started"}
/// {"t":1.0,"path":"step 1","call":1,"event":"call_ended","usage":{},"cost":0.01,"outcome":"ok"}"#)?;
/// let diff = Diff::new(&before, &after).to_string();
/// assert!(diff.contains("time     3.00 s → 1.00 s (-67 %)"));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Diff<'a> {
    before: &'a Run,
    after: &'a Run,
}

impl<'a> Diff<'a> {
    /// The difference between two runs.
    pub fn new(before: &'a Run, after: &'a Run) -> Self {
        Self { before, after }
    }

    /// The places at which calls, time, cost or outcomes differ: those with the largest difference in time first.
    fn places(&self) -> Vec<(&'a str, Place, Place)> {
        let mut places: BTreeMap<&str, [Place; 2]> = BTreeMap::new();
        for (side, run) in [self.before, self.after].into_iter().enumerate() {
            for call in &run.calls {
                places.entry(call.path.as_str()).or_default()[side].add(call);
            }
        }
        let mut places: Vec<_> = places
            .into_iter()
            .map(|(path, [before, after])| (path, before, after))
            .filter(|(_, before, after)| before.differs(after))
            .collect();
        places.sort_by_key(|(_, before, after)| std::cmp::Reverse(before.time.abs_diff(after.time)));
        places
    }
}

/// What happened at one place.
#[derive(Debug, Default)]
struct Place {
    sum: Sum,
    time: Duration,
    outcomes: String,
}

impl Place {
    fn add(&mut self, call: &Call) {
        self.sum += Sum::of(call);
        self.time += call.length();
        if !self.outcomes.split(", ").any(|known| known == call.outcome) {
            if !self.outcomes.is_empty() {
                self.outcomes.push_str(", ");
            }
            self.outcomes.push_str(&call.outcome);
        }
    }

    /// Times are never the same twice: a tenth and a tenth of a second more or less is no difference.
    fn differs(&self, other: &Self) -> bool {
        let slack = (self.time.max(other.time) / 10).max(Duration::from_millis(100));
        self.sum.calls != other.sum.calls
            || self.outcomes != other.outcomes
            || self.sum.priced != other.sum.priced
            || self.time.abs_diff(other.time) > slack
    }

    fn tell(&self) -> String {
        if self.sum.calls == 0 {
            return "none".to_owned();
        }
        format!("{} {}, {}, {}", self.sum.calls, self.outcomes, short(self.time), cost(&self.sum))
    }
}

impl fmt::Display for Diff<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, b) = (self.before, self.after);
        let (sum_a, sum_b) = (a.total(), b.total());
        let mut row = |name: &str, before: String, after: String, change: Option<f64>| {
            write!(f, "{name:<8} {}", one_line(&before))?;
            if before != after {
                write!(f, " → {}", one_line(&after))?;
                if let Some(change) = change {
                    write!(f, " ({change:+.0} %)")?;
                }
            }
            writeln!(f)
        };
        row("outcome", a.ended(), b.ended(), None)?;
        row("calls", calls(&sum_a), calls(&sum_b), None)?;
        row("time", short(a.end), short(b.end), percent(a.end.as_secs_f64(), b.end.as_secs_f64()))?;
        row("waiting", short(sum_a.waited), short(sum_b.waited), None)?;
        let tokens = |sum: &Sum| format!("{} + {}", sum.usage.prompt_tokens(), sum.usage.output_tokens);
        row("tokens", tokens(&sum_a), tokens(&sum_b), None)?;
        let money = sum_a.cost().zip(sum_b.cost());
        let change = money.and_then(|(a, b)| percent(a.dollars(), b.dollars()));
        row("cost", cost(&sum_a), cost(&sum_b), change)?;
        let places = self.places();
        if places.is_empty() {
            return writeln!(
                f,
                "\nno place differs in calls, outcome or cost, nor in time by more than a tenth"
            );
        }
        writeln!(f)?;
        for (path, before, after) in places.iter().take(PLACES) {
            let path = if path.is_empty() { "(the root)" } else { path };
            let line = format!("{path}: {} → {}", before.tell(), after.tell());
            writeln!(f, "{}", one_line(&line))?;
        }
        if places.len() > PLACES {
            writeln!(f, "… and {} more places", places.len() - PLACES)?;
        }
        Ok(())
    }
}

fn percent(before: f64, after: f64) -> Option<f64> {
    (before > 0.0).then(|| 100.0 * (after - before) / before)
}

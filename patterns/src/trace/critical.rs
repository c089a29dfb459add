//! The critical path: what the run had to wait for.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::run::{Call, Run};
use crate::event::Event;

/// One call on the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The call, as its place in [`Run::calls`].
    pub call: usize,
    /// How long nothing that it depends on was under way before it: plain code, a person at a gate, a bound on branches.
    pub gap: Duration,
}

impl Run {
    /// The calls that decided how long the run took, first to last: from the call that ended last, back to the one among
    /// those that it depends on which ended last before it, and so on.
    ///
    /// What a call depends on is told by the flow: the branches of a fan-out do not depend on each other, a task depends on
    /// those that it needs, and everything else follows what has ended before. Calls that were dropped decide nothing.
    pub fn critical_path(&self) -> Vec<Leg> {
        let order = Order::of(self);
        let mut by_end: Vec<usize> =
            (0..self.calls.len()).filter(|n| self.calls[*n].outcome != "cancelled").collect();
        let key = |n: usize| (self.calls[n].end, self.calls[n].start, n);
        by_end.sort_unstable_by_key(|n| key(*n));
        let mut legs = Vec::new();
        let Some(mut call) = by_end.pop() else { return legs };
        loop {
            let start = self.calls[call].start;
            let mut before = None;
            // a call that is passed over ends after all that come later, so it cannot lead to them either
            while let Some(other) = by_end.pop() {
                if self.calls[other].end <= start && order.leads(&self.calls[other], &self.calls[call]) {
                    before = Some(other);
                    break;
                }
            }
            let ready = before.map_or(Duration::ZERO, |before| self.calls[before].end);
            legs.push(Leg { call, gap: start.saturating_sub(ready) });
            match before {
                Some(before) => call = before,
                None => break,
            }
        }
        legs.reverse();
        legs
    }
}

/// What the flow tells of who depends on whom.
struct Order<'a> {
    /// By the path of a fan-out: its branches, by their segment.
    branches: HashMap<&'a str, HashMap<&'a str, &'a str>>,
    /// By the path of a fan-out that carries out a plan: what each task needs.
    plans: HashMap<&'a str, HashMap<&'a str, Vec<&'a str>>>,
}

impl<'a> Order<'a> {
    fn of(run: &'a Run) -> Self {
        let mut order = Self { branches: HashMap::new(), plans: HashMap::new() };
        for note in &run.notes {
            match &note.event {
                Event::BranchStarted { branch } => {
                    let (above, segment) = match note.path.as_str().rsplit_once('/') {
                        Some((above, segment)) => (above, segment),
                        None => ("", note.path.as_str()),
                    };
                    order.branches.entry(above).or_default().insert(segment, branch);
                }
                Event::Planned { tasks } => {
                    let plan = order.plans.entry(note.path.as_str()).or_default();
                    for (id, needs) in tasks {
                        plan.insert(id, needs.iter().map(String::as_str).collect());
                    }
                }
                _ => {}
            }
        }
        order
    }

    /// Whether `later` may depend on `earlier`.
    fn leads(&self, earlier: &Call, later: &Call) -> bool {
        let mut above = "";
        for ((a, path), (b, _)) in earlier.path.prefixes().zip(later.path.prefixes()) {
            if a == b {
                above = path;
                continue;
            }
            let Some(branches) = self.branches.get(above) else { return true };
            let (Some(a), Some(b)) = (branches.get(a), branches.get(b)) else { return true };
            return self.plans.get(above).is_some_and(|plan| needs(plan, b, a));
        }
        true
    }
}

/// Whether the task `later` needs `earlier`, directly or through others.
fn needs(plan: &HashMap<&str, Vec<&str>>, later: &str, earlier: &str) -> bool {
    let (mut open, mut seen) = (vec![later], HashSet::new());
    while let Some(task) = open.pop() {
        for need in plan.get(task).into_iter().flatten() {
            if *need == earlier {
                return true;
            }
            if seen.insert(*need) {
                open.push(need);
            }
        }
    }
    false
}

//! A plan being carried out: every task starts the moment that what it needs is done.

use std::collections::{HashMap, HashSet};

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};

use super::Orchestrate;
use super::plan::{Plan, Task};
use crate::answer::wrap;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::flow::{Flow, Under};
use crate::llm::Llm;
use crate::outcome::Outcome;
use crate::parts::{Part, result_of, tell_end};
use crate::path::Path;

/// The tasks of a checked plan and how they ended; `None` for those that have not.
pub(super) struct Dag {
    pub(super) plan: Plan,
    outcomes: Vec<Option<Outcome<String>>>,
}

impl Dag {
    pub(super) fn new(plan: Plan) -> Self {
        let outcomes = plan.tasks.iter().map(|_| None).collect();
        Self { plan, outcomes }
    }

    /// Adds further tasks. One with the id of a task without a result takes its place; what had been skipped may get its
    /// turn after all.
    pub(super) fn add(&mut self, further: Plan) {
        for task in further.tasks {
            if let Some(n) = self.plan.tasks.iter().position(|old| old.id == task.id) {
                self.plan.tasks[n] = task;
                self.outcomes[n] = None;
            } else {
                self.plan.tasks.push(task);
                self.outcomes.push(None);
            }
        }
        for outcome in self.outcomes.iter_mut().filter(|outcome| matches!(outcome, Some(Outcome::Skipped(_))))
        {
            *outcome = None;
        }
    }

    /// The tasks and how they ended. What has not is cancelled.
    pub(super) fn pieces(&self) -> Vec<Part> {
        let tasks = self.plan.tasks.iter().zip(&self.outcomes);
        tasks
            .map(|(task, outcome)| Part {
                name: task.id.clone(),
                outcome: outcome.clone().unwrap_or(Outcome::Cancelled),
            })
            .collect()
    }

    /// Carries out all tasks that have not ended. With `last`, stops as soon as the policy can no longer be met.
    pub(super) async fn run(&mut self, flow: &Orchestrate<'_>, llm: &dyn Llm, input: &str, last: bool) {
        let tasks = self.plan.tasks.iter().map(|task| (task.id.clone(), task.needs.clone())).collect();
        llm.note(Path::root(), Event::Planned { tasks });
        let mut waiting: Vec<usize> =
            (0..self.outcomes.len()).filter(|n| self.outcomes[*n].is_none()).collect();
        let branches = waiting.iter().map(|n| self.plan.tasks[*n].id.clone()).collect();
        llm.note(Path::root(), Event::FannedOut { branches });
        let places: HashMap<String, usize> =
            self.plan.tasks.iter().enumerate().map(|(n, task)| (task.id.clone(), n)).collect();
        let at_once = if flow.at_once == 0 { usize::MAX } else { flow.at_once };
        let mut running = FuturesUnordered::new();
        let mut told = HashSet::new(); // the tasks that are ready
        loop {
            self.skip(&places, &mut waiting, llm);
            if last && self.is_lost(flow) {
                break;
            }
            for n in waiting.iter().filter(|n| self.is_ready(**n, &places)) {
                if told.insert(*n) {
                    let task = &self.plan.tasks[*n];
                    let event = Event::BranchReady { branch: task.id.clone() };
                    llm.note(Path::root().inside(&place(task)), event);
                }
            }
            while running.len() < at_once {
                let ready = waiting.iter().position(|n| self.is_ready(*n, &places));
                let Some(n) = ready.map(|at| waiting.remove(at)) else { break };
                running.push(self.start(n, flow, llm, input, &places));
            }
            let Some((n, result)) = running.next().await else { break };
            let outcome = Outcome::from(result);
            tell_end(llm, &self.plan.tasks[n].id, &outcome);
            self.outcomes[n] = Some(outcome);
        }
        for (task, _) in self.plan.tasks.iter().zip(&self.outcomes).filter(|(_, outcome)| outcome.is_none()) {
            tell_end(llm, &task.id, &Outcome::<()>::Cancelled);
        }
    }

    /// Whether all that this task needs has a result.
    fn is_ready(&self, n: usize, places: &HashMap<String, usize>) -> bool {
        self.needs(n, places).all(|need| matches!(self.outcomes[need], Some(Outcome::Ok(_))))
    }

    fn needs<'a>(&'a self, n: usize, places: &'a HashMap<String, usize>) -> impl Iterator<Item = usize> + 'a {
        self.plan.tasks[n].needs.iter().filter_map(|need| places.get(need).copied())
    }

    /// Skips the tasks that need one without a result, and those that need them.
    fn skip(&mut self, places: &HashMap<String, usize>, waiting: &mut Vec<usize>, llm: &dyn Llm) {
        loop {
            let found = waiting.iter().enumerate().find_map(|(at, n)| {
                let missing = self
                    .needs(*n, places)
                    .find(|need| matches!(&self.outcomes[*need], Some(outcome) if outcome.ok().is_none()))?;
                Some((at, missing))
            });
            let Some((at, missing)) = found else { return };
            let n = waiting.remove(at);
            let outcome = Outcome::Skipped(self.plan.tasks[missing].id.clone());
            tell_end(llm, &self.plan.tasks[n].id, &outcome);
            self.outcomes[n] = Some(outcome);
        }
    }

    fn is_lost(&self, flow: &Orchestrate<'_>) -> bool {
        let failed = self.outcomes.iter().flatten().filter(|outcome| outcome.ok().is_none()).count();
        flow.policy.is_lost(failed, self.outcomes.len())
    }

    /// A task under way. Its worker sees the whole request, its own task and the results that it needs.
    fn start<'a>(
        &self,
        n: usize,
        flow: &'a Orchestrate<'_>,
        llm: &'a dyn Llm,
        input: &str,
        places: &HashMap<String, usize>,
    ) -> BoxFuture<'a, (usize, Result<String>)> {
        let task = self.plan.tasks[n].clone();
        let mut text = format!("{}\n\n{}", wrap("request", input), wrap("task", &task.description));
        for need in self.needs(n, places) {
            if let Some(Outcome::Ok(result)) = &self.outcomes[need] {
                text.push_str("\n\n");
                text.push_str(&result_of(&self.plan.tasks[need].id, result));
            }
        }
        async move { (n, work(flow, llm, &task, &text).await) }.boxed()
    }
}

/// Where a task is done.
fn place(task: &Task) -> String {
    format!("task {}", task.id)
}

/// Does a task, again if it fails and that is allowed.
async fn work(flow: &Orchestrate<'_>, llm: &dyn Llm, task: &Task, text: &str) -> Result<String> {
    let llm = &Under::new(llm, place(task));
    llm.note(Path::root(), Event::BranchStarted { branch: task.id.clone() });
    let Some(worker) = flow.worker(task) else {
        let message = format!("there is no worker for task `{}`", task.id);
        return Err(Error::new(ErrorKind::Plan, message).at(&llm.place()));
    };
    let mut result = worker.run(llm, text).await;
    for attempt in 2..=flow.retries.saturating_add(1) {
        let Err(error) = &result else { break };
        if !may_mend(error.kind()) {
            break;
        }
        llm.note(Path::root(), Event::Reasked { reason: error.to_string() });
        result = worker.run(&Under::new(llm, format!("attempt {attempt}")), text).await;
    }
    result.map_err(|error| error.at(&llm.place()))
}

/// Whether the same task may succeed when it is done again.
fn may_mend(kind: ErrorKind) -> bool {
    !matches!(
        kind,
        ErrorKind::Config
            | ErrorKind::InvalidRequest
            | ErrorKind::Authentication
            | ErrorKind::Permission
            | ErrorKind::NotFound
            | ErrorKind::Refused
            | ErrorKind::ContextWindow
            | ErrorKind::OverBudget
            | ErrorKind::Cap
            | ErrorKind::Cancelled
            | ErrorKind::Unscripted
    )
}

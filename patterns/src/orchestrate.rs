//! Orchestrator and workers: a model makes a plan, workers do its tasks, their results are merged.

use std::collections::HashSet;
use std::fmt;

use futures::future::{BoxFuture, FutureExt};
use serde::Serialize;

use crate::answer::wrap;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::flow::{BoxFlow, Flow, Last, Under};
use crate::llm::{Label, Llm};
use crate::outcome::{Census, Policy};
use crate::parts::{Part, absent, first_error, lost, results, tell_missing};
use crate::path::Path;
use crate::sections::{policy_defect, policy_words, refuse, with_defect};
use crate::shape::{Calls, Shape};

mod dag;
mod plan;

use dag::Dag;
use plan::Terms;
pub use plan::{Plan, PlanDefect, PlanDefects, Task};

/// How many tasks a plan may have unless told otherwise.
const MOST_TASKS: usize = 8;

/// Lets `planner` cut the input into tasks, which workers do, and whose results are merged: the orchestrator and its
/// workers of [Building effective agents](https://www.anthropic.com/engineering/building-effective-agents). It is a flow
/// once it has workers: [`work`](Planner::work).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use patterns::{Flow, Reply, Request, orchestrate};
///
/// let llm = async |request: Request| {
///     Ok(Reply::text_of(match request.path.as_str() {
///         "plan" => "<tasks><task><id>a</id><description>The hive</description></task>
///                           <task><id>b</id><description>The honey</description><needs>a</needs></task></tasks>",
///         "merge" => "The hive, then the honey.",
///         _ => "A section.",
///     }))
/// };
/// let writers = orchestrate("Split the article into sections.")
///     .work("Write this section.")
///     .merge("Join them into one article.");
/// assert_eq!(writers.shape().calls().to_string(), "3 to 11 calls"); // a plan, 1 to 8 tasks, a merge, and a repair
///
/// let article = writers.run(&llm, "An article on bees").await?;
/// assert_eq!(article.text, "The hive, then the honey.");
/// assert_eq!(article.plan.tasks[1].needs, ["a"]);
/// assert_eq!(article.census.to_string(), "2 ok");
/// # Ok(()) }
/// ```
///
/// The planner is told how to write its plan. Before any worker runs the plan is [checked](PlanDefect); all that is wrong
/// with it goes back in one prompt, once, and then it is an [`ErrorKind::Plan`].
///
/// A task starts the moment that the results it needs are there, not when a whole step is done. A worker sees the input,
/// its own task and those results, nothing else. A task that fails is never an answer: those that need it are skipped, and
/// the merge is told what is missing, by name and status.
pub fn orchestrate<'f>(planner: impl Flow + 'f) -> Planner<'f> {
    Planner { planner: planner.boxed() }
}

/// A planner without workers yet; made by [`orchestrate`]. It is no flow, so that workers cannot be forgotten:
///
/// ```compile_fail
/// use patterns::{Flow, orchestrate};
///
/// let writers = orchestrate("Split the article into sections.").boxed();
/// ```
#[must_use = "a planner is a flow once it has workers: `.work(..)`"]
pub struct Planner<'f> {
    planner: BoxFlow<'f>,
}

impl<'f> Planner<'f> {
    /// Lets `worker` do the tasks.
    pub fn work(self, worker: impl Flow + 'f) -> Orchestrate<'f> {
        Orchestrate::new(self.planner).work(worker)
    }

    /// Lets `worker` do the tasks of this type; a `(type, description)` tells the planner in a sentence when to use it.
    pub fn work_on(self, kind: impl Into<Label>, worker: impl Flow + 'f) -> Orchestrate<'f> {
        Orchestrate::new(self.planner).work_on(kind, worker)
    }
}

impl fmt::Debug for Planner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner").finish_non_exhaustive()
    }
}

/// A planner and its workers; made by [`orchestrate`] and [`work`](Planner::work).
#[must_use = "flows do nothing unless run"]
pub struct Orchestrate<'f> {
    planner: BoxFlow<'f>,
    workers: Vec<(Label, BoxFlow<'f>)>,
    any_worker: Option<BoxFlow<'f>>,
    merge: Option<BoxFlow<'f>>,
    policy: Policy,
    at_most: usize,
    at_once: usize,
    retries: u32,
    rounds: u32,
}

/// What came of a plan.
///
/// As text, for the next flow, it is the merged text. When the run fails after the plan was made, this is the
/// [`cause`](crate::Error::cause) of the error, with the results of all tasks that were done.
#[derive(Clone, Debug, Serialize)]
pub struct Orchestrated {
    /// The plan that was carried out, tasks of later rounds included.
    pub plan: Plan,
    /// The tasks and how they ended, in the order of the plan.
    pub pieces: Vec<Part>,
    /// How many tasks ended in which way.
    pub census: Census,
    /// The merged text; without a merge the results, each in a `<result of="id">` tag, and what is missing.
    pub text: String,
    #[serde(skip)]
    failure: Option<Error>,
}

impl Orchestrated {
    /// The result of the task of this id, if it has one.
    pub fn get(&self, id: &str) -> Option<&str> {
        self.pieces.iter().find(|piece| piece.name == id)?.outcome.ok().map(String::as_str)
    }
}

impl From<Orchestrated> for String {
    fn from(orchestrated: Orchestrated) -> Self {
        orchestrated.text
    }
}

impl fmt::Display for Orchestrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {} tasks: {}", self.pieces.len(), self.census)
    }
}

impl std::error::Error for Orchestrated {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.failure.as_ref().or_else(|| first_error(&self.pieces)).map(|error| error as _)
    }
}

impl<'f> Orchestrate<'f> {
    fn new(planner: BoxFlow<'f>) -> Self {
        Self {
            planner,
            workers: Vec::new(),
            any_worker: None,
            merge: None,
            policy: Policy::All,
            at_most: MOST_TASKS,
            at_once: 0,
            retries: 0,
            rounds: 0,
        }
    }

    /// Lets `worker` do the tasks, all or those of no declared type.
    pub fn work(mut self, worker: impl Flow + 'f) -> Self {
        self.any_worker = Some(worker.boxed());
        self
    }

    /// Lets `worker` do the tasks of this type; a `(type, description)` tells the planner in a sentence when to use it.
    /// Without a worker for any task ([`work`](Self::work)) the planner must use one of the types.
    pub fn work_on(mut self, kind: impl Into<Label>, worker: impl Flow + 'f) -> Self {
        self.workers.push((kind.into(), worker.boxed()));
        self
    }

    /// Merges the results. `merge` sees the input, every result with the id of its task, and a line that says how much of
    /// the plan they cover and what is missing.
    pub fn merge(mut self, merge: impl Flow + 'f) -> Self {
        self.merge = Some(merge.boxed());
        self
    }

    /// Refuses plans of more than `tasks` tasks. Default: 8.
    pub fn at_most(mut self, tasks: usize) -> Self {
        self.at_most = tasks;
        self
    }

    /// Does at most `n` tasks at a time; 0, the default, does all that are ready.
    pub fn at_once(mut self, n: usize) -> Self {
        self.at_once = n;
        self
    }

    /// Does a failed task again, at most `times` times. Default: 0. What the same request cannot mend is not tried
    /// again: refusals, a full context window, a used up budget, a wrong set-up.
    pub fn retries(mut self, times: u32) -> Self {
        self.retries = times;
        self
    }

    /// Shows the planner the results when all tasks have ended, and lets it add further tasks, at most `times` times. It
    /// may give the id of a task without a result to a new task, which then takes its place. With an empty plan it
    /// ends the work. Default: 0.
    pub fn rounds(mut self, times: u32) -> Self {
        self.rounds = times;
        self
    }

    /// Goes on when at least `n` tasks come to an answer; ends as soon as that has become impossible.
    pub fn at_least(self, n: usize) -> Self {
        self.policy(Policy::AtLeast(n))
    }

    /// Goes on with whatever tasks come to an answer, but at least one.
    pub fn best_effort(self) -> Self {
        self.policy(Policy::BestEffort)
    }

    /// Sets how many tasks must come to an answer. Default: [`Policy::All`], the first failure ends the rest.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// What is wrong with the set-up.
    fn defect(&self) -> Option<String> {
        let mut kinds: Vec<_> =
            self.workers.iter().map(|(kind, _)| kind.name.trim().to_lowercase()).collect();
        kinds.sort_unstable();
        if kinds.iter().any(String::is_empty) {
            Some("a worker has an empty type; name what it does".to_owned())
        } else if let Some(pair) = kinds.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(format!("two workers have the type `{}`; give each a type of its own", pair[0]))
        } else if self.at_most == 0 {
            Some("`at_most(0)` allows no task".to_owned())
        } else {
            policy_defect(self.policy, self.at_most, "tasks")
        }
    }

    /// Makes the plan and checks it, without any worker.
    ///
    /// # Errors
    /// Those of the planner, and [`ErrorKind::Plan`] when the plan is unusable even after its repair.
    pub fn plan_only<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<Plan>> {
        async move {
            self.check().map_err(|error| error.at(&llm.place()))?;
            self.make_plan(&Under::new(llm, "plan"), input, None).await
        }
        .boxed()
    }

    /// Carries out this plan.
    ///
    /// # Errors
    /// [`ErrorKind::Plan`] when the plan is unusable, before any call; then those of [`run`](Flow::run).
    pub fn run_plan<'a>(
        &'a self,
        llm: &'a dyn Llm,
        input: &'a str,
        plan: Plan,
    ) -> BoxFuture<'a, Result<Orchestrated>> {
        async move {
            self.check().map_err(|error| error.at(&llm.place()))?;
            let defects = self.terms().defects(&plan, None);
            if !defects.is_empty() {
                return Err(unusable(PlanDefects { defects, text: String::new() }).at(&llm.place()));
            }
            self.carry_out(llm, input, plan).await
        }
        .boxed()
    }

    fn terms(&self) -> Terms<'_> {
        Terms {
            types: self.workers.iter().map(|(kind, _)| kind).collect(),
            any_type: self.any_worker.is_some(),
            at_most: self.at_most,
            policy: self.policy,
        }
    }

    /// The worker for a task. Every task of a checked plan has one.
    fn worker(&self, task: &Task) -> Option<&BoxFlow<'f>> {
        let typed = task.kind.as_ref().and_then(|kind| self.terms().find(kind));
        typed.map(|n| &self.workers[n].1).or(self.any_worker.as_ref())
    }

    /// Asks for a plan, and once more with all that is wrong with it. A plan of further tasks may need those `done`, and
    /// may be empty.
    async fn make_plan(&self, llm: &dyn Llm, subject: &str, done: Option<&HashSet<&str>>) -> Result<Plan> {
        let terms = self.terms();
        let format = terms.format(done.is_some());
        let text = self.planner.run_last(llm, subject, Last::EndsWith(&format)).await.map(|came| came.text);
        let defects = match terms.read(text, done).map_err(|error| error.at(&llm.place()))? {
            Ok(plan) => return Ok(plan),
            Err(defects) => defects,
        };
        llm.note(Path::root(), Event::Reasked { reason: defects.to_string() });
        let list: String = defects.defects.iter().map(|defect| format!("- {defect}\n")).collect();
        let ending = format!(
            "{format}\n\nYour last plan was:\n{}\n\nIt cannot be used:\n{list}\n\
             Write the whole plan again, with all of this put right.",
            wrap("plan", &defects.text)
        );
        let again = &Under::new(llm, "again");
        let text = self.planner.run_last(again, subject, Last::EndsWith(&ending)).await.map(|came| came.text);
        match text {
            // a reply that is cut twice is a cut reply, not a bad plan
            Err(error) => Err(error.at(&again.place())),
            Ok(text) => terms.read(Ok(text), done)?.map_err(|defects| unusable(defects).at(&again.place())),
        }
    }

    async fn carry_out(&self, llm: &dyn Llm, input: &str, plan: Plan) -> Result<Orchestrated> {
        let mut dag = Dag::new(plan);
        let mut round = 0;
        loop {
            dag.run(self, llm, input, round == self.rounds).await;
            if round == self.rounds {
                break;
            }
            round += 1;
            let pieces = dag.pieces();
            let done = pieces
                .iter()
                .filter(|piece| piece.outcome.ok().is_some())
                .map(|piece| &*piece.name)
                .collect();
            let subject = format!("{}\n\n{}", wrap("request", input), results(&pieces, &[coverage(&pieces)]));
            let planner = Under::new(llm, format!("plan {}", round + 1));
            match self.make_plan(&planner, &subject, Some(&done)).await {
                Ok(plan) if plan.tasks.is_empty() => break,
                Ok(plan) => dag.add(plan),
                Err(error) => {
                    let reason = format!("no further plan: {error}");
                    llm.note(Path::root(), Event::Degraded { reason });
                    break;
                }
            }
        }
        let Dag { plan, .. } = &dag;
        let pieces = dag.pieces();
        let census = Census::of(pieces.iter().map(|piece| &piece.outcome));
        let text = results(&pieces, &[absent(&pieces)]);
        let mut done = Orchestrated { plan: plan.clone(), pieces, census, text, failure: None };
        if let Some(error) = lost(self.policy, &done.pieces, "tasks") {
            return Err(error.at(&llm.place()).with_source(done));
        }
        tell_missing(llm, &done.pieces);
        if let Some(merge) = &self.merge {
            let pieces = results(&done.pieces, &[coverage(&done.pieces)]);
            let subject = format!("{}\n\n{pieces}", wrap("request", input));
            let llm = Under::new(llm, "merge").as_answer();
            match merge.run(&llm, &subject).await {
                Ok(text) => done.text = text,
                Err(error) => {
                    done.failure = Some(error.clone());
                    return Err(error.at(&llm.place()).with_source(done));
                }
            }
        }
        Ok(done)
    }
}

fn unusable(defects: PlanDefects) -> Error {
    Error::new(ErrorKind::Plan, format!("the plan cannot be used: {defects}"))
        .with_partial(&*defects.text)
        .with_source(defects)
}

/// The line that says how much of the plan the results cover.
fn coverage(pieces: &[Part]) -> String {
    let ok = pieces.iter().filter(|piece| piece.outcome.ok().is_some()).count();
    let total = pieces.len();
    if ok == total {
        return format!("Coverage: all {total} tasks have a result.");
    }
    format!("Coverage: {ok} of {total} tasks have a result. {}", absent(pieces))
}

impl Flow for Orchestrate<'_> {
    type Output = Orchestrated;

    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<Orchestrated>> {
        async move {
            let plan = self.plan_only(llm, input).await?;
            self.carry_out(llm, input, plan).await
        }
        .boxed()
    }

    fn shape(&self) -> Shape {
        let planner = self.planner.shape();
        let merge = self.merge.as_ref().map(Flow::shape);
        let workers: Vec<_> = self
            .workers
            .iter()
            .map(|(kind, flow)| (kind.name.clone(), flow.shape()))
            .chain(self.any_worker.iter().map(|flow| ("work".to_owned(), flow.shape())))
            .collect();
        let plans = 1 + self.rounds as usize;
        let tasks = plans.saturating_mul(self.at_most);
        let fewest = if let Policy::AtLeast(n) = self.policy { n } else { 1 };
        let one = Calls::any_of(workers.iter().map(|(_, worker)| worker.calls()));
        let work = Calls {
            most: one.times(fewest, tasks.saturating_mul(1 + self.retries as usize)).most,
            ..one.times(fewest, self.at_most)
        };
        // every plan may be asked for twice
        let calls =
            planner.calls().attempts(2 * plans) + work + merge.as_ref().map_or(Calls::NONE, Shape::calls);
        let title = format!("at most {} tasks, {}", self.at_most, policy_words(self.policy));
        let mut shape = Shape::new("orchestrate", "", calls).noting(&title).part("plan", planner);
        shape.parts.extend(workers);
        shape.parts.extend(merge.map(|merge| ("merge".to_owned(), merge)));
        with_defect(shape, self.defect())
    }

    fn check(&self) -> Result<()> {
        refuse(self.defect())?;
        self.planner.check()?;
        self.workers.iter().try_for_each(|(_, worker)| worker.check())?;
        self.any_worker.iter().chain(&self.merge).try_for_each(Flow::check)
    }
}

impl fmt::Debug for Orchestrate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orchestrate")
            .field("types", &self.workers.iter().map(|(kind, _)| &kind.name).collect::<Vec<_>>())
            .field("policy", &self.policy)
            .field("at_most", &self.at_most)
            .field("retries", &self.retries)
            .field("rounds", &self.rounds)
            .finish_non_exhaustive()
    }
}

//! Plans as data, and what is checked of them before any worker runs.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::answer;
use crate::error::{ErrorKind, Result, excerpt};
use crate::llm::Label;
use crate::outcome::Policy;

/// A plan: tasks, and which of them need the results of which others. It is plain data: it can be stored as JSON, edited
/// and given to [`run_plan`](super::Orchestrate::run_plan).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The tasks, in the planner's order.
    pub tasks: Vec<Task>,
}

/// One task of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its name: a word or a number of its own.
    pub id: String,
    /// Which worker shall do it; `None` for the default one.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What is to be done.
    pub description: String,
    /// The ids of the tasks whose results it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

impl Plan {
    /// Reads a plan from `<task>` records. A task without an id gets its number.
    ///
    /// # Errors
    /// When the text holds no tasks, a cut one, or one without a description.
    pub fn read(text: &str) -> Result<Self, answer::Unread> {
        let records = answer::tasks(text)?;
        let tasks = records.into_iter().enumerate().map(|(n, record)| Task {
            id: record.id.unwrap_or_else(|| (n + 1).to_string()),
            kind: record.kind,
            description: record.description,
            needs: record.needs,
        });
        Ok(Self { tasks: tasks.collect() })
    }

    /// The task of this id.
    pub fn get(&self, id: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.id == id)
    }
}

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "defect", rename_all = "snake_case")]
#[non_exhaustive]
pub enum PlanDefect {
    /// The planner's text holds no plan that can be read.
    Unreadable {
        /// Why not.
        reason: String,
    },
    /// The planner's reply was cut at `max_tokens`.
    Truncated,
    /// There is no task.
    Empty,
    /// There are more tasks than allowed.
    TooMany {
        /// How many there are.
        found: usize,
        /// How many are allowed.
        at_most: usize,
    },
    /// There are fewer tasks than must come to an answer.
    TooFew {
        /// How many there are.
        found: usize,
        /// How many must come to an answer.
        at_least: usize,
    },
    /// A task has no id.
    NoId {
        /// Its number, from 1.
        number: usize,
    },
    /// Two tasks have the same id.
    DuplicateId {
        /// The id.
        id: String,
    },
    /// A task says nothing.
    NoDescription {
        /// The task's id.
        id: String,
    },
    /// A task needs a task that is not there.
    UnknownNeed {
        /// The task's id.
        id: String,
        /// The id that it needs.
        need: String,
    },
    /// Tasks need each other in a circle, so that none of them can start.
    Cycle {
        /// Their ids; each needs the next, the last the first.
        ids: Vec<String>,
    },
    /// A task has no type, and there is no default worker.
    NoType {
        /// The task's id.
        id: String,
        /// The types that there are.
        allowed: Vec<String>,
    },
    /// There is no worker of this type.
    UnknownType {
        /// The task's id.
        id: String,
        /// The type that it asks for.
        kind: String,
        /// The types that there are.
        allowed: Vec<String>,
    },
}

impl fmt::Display for PlanDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { reason } => write!(f, "the plan cannot be read: {reason}"),
            Self::Truncated => f.write_str("the plan was cut off before its end; write a shorter one"),
            Self::Empty => f.write_str("the plan has no task; it needs at least one"),
            Self::TooMany { found, at_most } => {
                write!(f, "the plan has {}; at most {at_most} are allowed", tasks(*found))
            }
            Self::TooFew { found, at_least } => {
                write!(f, "the plan has {}; at least {at_least} are needed", tasks(*found))
            }
            Self::NoId { number } => write!(f, "task number {number} has no id"),
            Self::DuplicateId { id } => {
                write!(f, "more than one task has the id `{}`; give each an id of its own", short(id))
            }
            Self::NoDescription { id } => write!(f, "task `{}` has no description", short(id)),
            Self::UnknownNeed { id, need } => {
                write!(f, "task `{}` needs `{}`, which is no task of the plan", short(id), short(need))
            }
            Self::Cycle { ids } => {
                let ids: Vec<_> = ids.iter().chain(ids.first()).map(|id| short(id)).collect();
                write!(f, "these tasks wait for each other for ever: {}", ids.join(" needs "))
            }
            Self::NoType { id, allowed } => {
                write!(f, "task `{}` has no type; the types are: {}", short(id), allowed.join(", "))
            }
            Self::UnknownType { id, kind, allowed } => write!(
                f,
                "task `{}` has the type `{}`, which does not exist; the types are: {}",
                short(id),
                short(kind),
                allowed.join(", ")
            ),
        }
    }
}

fn tasks(n: usize) -> String {
    format!("{n} {}", if n == 1 { "task" } else { "tasks" })
}

/// A name as a model wrote it, bounded.
fn short(name: &str) -> String {
    excerpt(name, 60)
}

/// All that is wrong with a plan: the cause of an [`ErrorKind::Plan`](crate::ErrorKind::Plan) error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanDefects {
    /// The defects, in the order of the plan.
    pub defects: Vec<PlanDefect>,
    /// The plan as the planner wrote it; empty for a plan that was passed in.
    pub text: String,
}

impl fmt::Display for PlanDefects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, defect) in self.defects.iter().enumerate() {
            write!(f, "{}{defect}", if n == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for PlanDefects {}

/// What a plan is held to.
pub(super) struct Terms<'a> {
    /// The types that there are workers for.
    pub(super) types: Vec<&'a Label>,
    /// Whether there is a worker for any other type.
    pub(super) any_type: bool,
    /// How many tasks are allowed.
    pub(super) at_most: usize,
    /// How many must come to an answer.
    pub(super) policy: Policy,
}

impl Terms<'_> {
    /// How a planner is told to write its plan, or the plan of `further` tasks.
    pub(super) fn format(&self, further: bool) -> String {
        let types = if self.types.is_empty() { "" } else { "<type>one of the types below</type>\n" };
        let mut text = format!(
            "Write your plan as tasks, at most {}, in exactly this form:\n\
             <tasks>\n<task>\n<id>1</id>\n{types}<description>what is to be done</description>\n\
             <needs></needs>\n</task>\n</tasks>\n\
             Give every task an id of its own and a description that says all that its worker has to know: a worker \
             sees the whole request and its own task, not the other tasks. List in <needs> the ids of the tasks whose \
             results it needs, separated by commas; leave it empty where it needs none. Tasks that need nothing are \
             done at the same time.",
            self.at_most
        );
        if !self.types.is_empty() {
            text.push_str("\nTypes:");
            for Label { name, description } in &self.types {
                let gap = if description.is_empty() { "" } else { ": " };
                text.push_str(&format!("\n- {name}{gap}{description}"));
            }
        }
        if further {
            text.push_str(
                "\nThe results above are of tasks that are done. Plan only what has to be done besides; your tasks may \
                 need theirs. A task without a result is done anew if you give its id to a task of yours. If nothing \
                 more is needed, write <tasks></tasks>.",
            );
        }
        text
    }

    /// Reads and checks what a planner wrote. `done` are the ids of the tasks that have a result, if this is a plan of
    /// further tasks. The outer error is the planner's own.
    pub(super) fn read(
        &self,
        written: Result<String>,
        done: Option<&HashSet<&str>>,
    ) -> Result<Result<Plan, PlanDefects>> {
        let text = match written {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::Truncated => {
                let text = error.partial().unwrap_or_default().to_owned();
                return Ok(Err(PlanDefects { defects: vec![PlanDefect::Truncated], text }));
            }
            Err(error) => return Err(error),
        };
        let defects = match Plan::read(&text) {
            Ok(plan) => match self.defects(&plan, done) {
                defects if defects.is_empty() => return Ok(Ok(plan)),
                defects => defects,
            },
            Err(unread) => vec![PlanDefect::Unreadable { reason: unread.to_string() }],
        };
        Ok(Err(PlanDefects { defects, text }))
    }

    /// All that is wrong with a plan. `done` are the ids of the tasks that have a result, if it is one of further tasks.
    pub(super) fn defects(&self, plan: &Plan, done: Option<&HashSet<&str>>) -> Vec<PlanDefect> {
        let mut defects = Vec::new();
        let found = plan.tasks.len();
        match self.policy {
            _ if done.is_some() => {}
            _ if found == 0 => defects.push(PlanDefect::Empty),
            Policy::AtLeast(at_least) if found < at_least => {
                defects.push(PlanDefect::TooFew { found, at_least });
            }
            _ => {}
        }
        if found > self.at_most {
            defects.push(PlanDefect::TooMany { found, at_most: self.at_most });
        }
        let is_done = |id: &str| done.is_some_and(|done| done.contains(id));
        let mut places = HashMap::new();
        for (n, task) in plan.tasks.iter().enumerate() {
            let id = || task.id.clone();
            if task.id.trim().is_empty() {
                defects.push(PlanDefect::NoId { number: n + 1 });
            } else if is_done(&task.id) || places.insert(&*task.id, n).is_some() {
                let duplicate = PlanDefect::DuplicateId { id: id() };
                if !defects.contains(&duplicate) {
                    defects.push(duplicate);
                }
            }
            if task.description.trim().is_empty() {
                defects.push(PlanDefect::NoDescription { id: id() });
            }
            let allowed = || self.types.iter().map(|label| label.name.clone()).collect();
            match &task.kind {
                _ if self.any_type => {}
                None => defects.push(PlanDefect::NoType { id: id(), allowed: allowed() }),
                Some(kind) if self.find(kind).is_none() => {
                    defects.push(PlanDefect::UnknownType {
                        id: id(),
                        kind: kind.clone(),
                        allowed: allowed(),
                    });
                }
                Some(_) => {}
            }
        }
        for task in &plan.tasks {
            for need in task.needs.iter().filter(|need| !is_done(need)) {
                if !places.contains_key(need.as_str()) {
                    defects.push(PlanDefect::UnknownNeed { id: task.id.clone(), need: need.clone() });
                }
            }
        }
        defects.extend(cycles(plan, &places));
        defects
    }

    /// The place of the worker for this type. Compared without regard to case.
    pub(super) fn find(&self, kind: &str) -> Option<usize> {
        let kind = kind.trim().to_lowercase();
        self.types.iter().position(|label| label.name.trim().to_lowercase() == kind)
    }
}

/// The circles among the tasks, each once.
fn cycles(plan: &Plan, places: &HashMap<&str, usize>) -> Vec<PlanDefect> {
    // what can be done is taken away; then every task left needs one that is left
    let needs: Vec<Vec<usize>> = plan
        .tasks
        .iter()
        .map(|task| task.needs.iter().filter_map(|need| places.get(need.as_str()).copied()).collect())
        .collect();
    let mut stuck: Vec<bool> = vec![true; needs.len()];
    let mut found = Vec::new();
    loop {
        while let Some(free) =
            (0..needs.len()).find(|n| stuck[*n] && !needs[*n].iter().any(|need| stuck[*need]))
        {
            stuck[free] = false;
        }
        let Some(start) = stuck.iter().position(|stuck| *stuck) else { return found };
        let mut walk: Vec<usize> = Vec::new();
        let mut at = start;
        while !walk.contains(&at) {
            walk.push(at);
            at = needs[at].iter().copied().find(|need| stuck[*need]).unwrap_or(at);
        }
        let circle = walk.split_off(walk.iter().position(|n| *n == at).unwrap_or(0));
        for n in &circle {
            stuck[*n] = false;
        }
        found.push(PlanDefect::Cycle { ids: circle.into_iter().map(|n| plan.tasks[n].id.clone()).collect() });
    }
}

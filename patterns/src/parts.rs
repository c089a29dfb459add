//! What the branches of a fan-out came to, and the text of it that goes into the next prompt.

use std::fmt;
use std::ops::ControlFlow;

use futures::future::BoxFuture;
use serde::Serialize;

use crate::answer::wrap;
use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::event::Event;
use crate::llm::Llm;
use crate::outcome::{Census, Outcome, Policy, Status, fan_out};
use crate::path::Path;

/// One branch of a fan-out and how it ended.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// The branch's name: of a section, the number of an input, the id of a task.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome<String>,
}

/// What the branches of a fan-out came to.
///
/// As text, for the next flow, every answer is in a `<result of="name">` tag that its content cannot close, in order,
/// and the branches without an answer are named with their status. Why they failed is in their
/// [outcome](Part::outcome), for people: no error text gets into a prompt.
///
/// When too few branches came to an answer the run fails, and this is its
/// [`cause`](crate::Error::cause): what the others wrote is not lost.
#[derive(Clone, Debug, Serialize)]
pub struct Parts {
    /// The branches, in the order of their declaration.
    pub parts: Vec<Part>,
    /// How many ended in which way.
    pub census: Census,
}

impl Parts {
    pub(crate) fn new(parts: Vec<Part>) -> Self {
        let census = Census::of(parts.iter().map(|part| &part.outcome));
        Self { parts, census }
    }

    /// The answer of the branch of this name, if it has one.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.parts.iter().find(|part| part.name == name)?.outcome.ok().map(String::as_str)
    }

    /// The branches without an answer: name and status.
    pub fn missing(&self) -> impl Iterator<Item = (&str, Status)> {
        missing(&self.parts)
    }
}

impl TryFrom<Parts> for String {
    type Error = Error;

    /// The text for the next flow.
    ///
    /// # Errors
    /// [`ErrorKind::TooFew`] when no branch has an answer.
    fn try_from(parts: Parts) -> Result<Self> {
        if let Some(error) = lost(Policy::BestEffort, &parts.parts, "branches") {
            return Err(error.with_source(parts));
        }
        Ok(results(&parts.parts, &[absent(&parts.parts)]))
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {} branches: {}", self.parts.len(), self.census)
    }
}

impl std::error::Error for Parts {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        first_error(&self.parts).map(|error| error as _)
    }
}

pub(crate) fn first_error(parts: &[Part]) -> Option<&Error> {
    parts.iter().find_map(|part| part.outcome.error())
}

fn missing(parts: &[Part]) -> impl Iterator<Item = (&str, Status)> {
    parts
        .iter()
        .map(|part| (part.name.as_str(), part.outcome.status()))
        .filter(|(_, status)| *status != Status::Ok)
}

/// `text` in a tag that it cannot close, with the name of its origin.
pub(crate) fn result_of(name: &str, text: &str) -> String {
    let mut wrapped = wrap("result", text);
    let end = wrapped.find('>').unwrap_or(0);
    let name =
        one_line(name).replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;");
    wrapped.insert_str(end, &format!(" of=\"{name}\""));
    wrapped
}

/// The answers among `parts`, in order, and what else is to be said about them.
pub(crate) fn results(parts: &[Part], more: &[String]) -> String {
    let answers = parts.iter().filter_map(|part| Some(result_of(&part.name, part.outcome.ok()?)));
    answers.chain(more.iter().filter(|line| !line.is_empty()).cloned()).collect::<Vec<_>>().join("\n\n")
}

/// The line that names what is missing, by status only; empty when nothing is.
pub(crate) fn absent(parts: &[Part]) -> String {
    let names: Vec<_> =
        missing(parts).map(|(name, status)| format!("{} ({status})", one_line(name))).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("No result: {}. Say what is missing; do not make it up.", names.join(", "))
}

fn one_line(name: &str) -> String {
    excerpt(name, 100)
}

/// Runs the branches, tells how each ends, and stops when the policy can no longer be met.
pub(crate) async fn gather(
    llm: &dyn Llm,
    what: &str,
    branches: Vec<(String, BoxFuture<'_, Result<String>>)>,
    policy: Policy,
    at_once: usize,
) -> Result<Parts> {
    let (names, jobs): (Vec<_>, Vec<_>) = branches.into_iter().unzip();
    let total = names.len();
    llm.note(Path::root(), Event::FannedOut { branches: names.clone() });
    let mut parts: Vec<_> =
        names.into_iter().map(|name| Part { name, outcome: Outcome::Cancelled }).collect();
    let mut ended = vec![false; total];
    let mut failed = 0;
    let mut see = |n: usize, result: Result<String>| {
        let part: &mut Part = &mut parts[n];
        part.outcome = result.into();
        ended[n] = true;
        tell_end(llm, &part.name, &part.outcome);
        failed += usize::from(part.outcome.ok().is_none());
        if policy.is_lost(failed, total) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    if !policy.is_lost(0, total) {
        fan_out(jobs, at_once, &mut see).await;
    }
    for (part, _) in parts.iter().zip(&ended).filter(|(_, ended)| !**ended) {
        tell_end(llm, &part.name, &part.outcome);
    }
    if let Some(error) = lost(policy, &parts, what) {
        return Err(error.at(&llm.place()).with_source(Parts::new(parts)));
    }
    tell_missing(llm, &parts);
    Ok(Parts::new(parts))
}

/// Tells how a branch ended.
pub(crate) fn tell_end<T>(llm: &dyn Llm, branch: &str, outcome: &Outcome<T>) {
    let event = Event::BranchEnded {
        branch: branch.to_owned(),
        outcome: outcome.status().to_string(),
        reason: outcome.reason(),
    };
    llm.note(Path::root(), event);
}

/// Tells that branches are missing, if any are.
pub(crate) fn tell_missing(llm: &dyn Llm, parts: &[Part]) {
    let names: Vec<_> = missing(parts).map(|(name, status)| format!("{name} ({status})")).collect();
    if !names.is_empty() {
        llm.note(Path::root(), Event::Degraded { reason: format!("no result: {}", names.join(", ")) });
    }
}

/// The error of a fan-out that cannot meet its policy, if it cannot: under [`Policy::All`] the first failure itself,
/// else [`ErrorKind::TooFew`].
pub(crate) fn lost(policy: Policy, parts: &[Part], what: &str) -> Option<Error> {
    let total = parts.len();
    let missing = missing(parts).count();
    if !policy.is_lost(missing, total) {
        return None;
    }
    let first = first_error(parts);
    if let (Policy::All, Some(error)) = (policy, first) {
        return Some(error.clone());
    }
    let census = Census::of(parts.iter().map(|part| &part.outcome));
    let first = first.map(|error| format!("; the first failure: {error}")).unwrap_or_default();
    let needed = policy.needed(total);
    let message = format!("at least {needed} of {total} {what} must come to an answer: {census}{first}");
    Some(Error::new(ErrorKind::TooFew, message))
}

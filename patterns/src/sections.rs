//! Parallelisation by sections: different flows on one input, or one flow on many inputs.

use std::collections::HashSet;
use std::fmt;

use futures::future::{BoxFuture, FutureExt};

use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::flow::{BoxFlow, Flow, Under};
use crate::llm::Llm;
use crate::outcome::Policy;
use crate::parts::{Parts, gather};
use crate::path::Path;
use crate::shape::{Calls, Shape};

/// Different flows on the same input, all at once: sectioning, the first kind of parallelisation of
/// [Building effective agents](https://www.anthropic.com/engineering/building-effective-agents).
///
/// The answers come in the order of declaration, each in a tag with its section's name (see [`Parts`]), so that the next
/// flow can merge them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use patterns::{Flow, Reply, Request, sections};
///
/// let llm = async |request: Request| Ok(Reply::text_of(request.text().to_uppercase()));
/// let impact = sections()
///     .on("customers", "What do customers gain? {input}")
///     .on("employees", "What do employees learn? {input}");
/// let parts = impact.run(&llm, "robots").await?;
/// assert_eq!(parts.get("employees"), Some("WHAT DO EMPLOYEES LEARN? ROBOTS"));
/// assert_eq!(parts.census.to_string(), "2 ok");
///
/// let report = impact.then("Write an executive summary of these analyses.");
/// assert_eq!(report.shape().calls().to_string(), "3 calls");
/// # Ok(()) }
/// ```
///
/// By default the first failure ends the rest: the calls under way are dropped, no further one starts, and the run
/// fails with that error. [`at_least`](Sections::at_least) and [`best_effort`](Sections::best_effort) go on without the
/// failed sections; what is merged afterwards names them as missing. An error of the run has the finished sections as its
/// [cause](crate::Error::cause).
///
/// No section, two of one name, or a policy that can never be met are an [`ErrorKind::Config`] before the first call;
/// [`check`](Flow::check) tells it at once.
pub fn sections<'f>() -> Sections<'f> {
    Sections { sections: Vec::new(), policy: Policy::All, at_once: 0 }
}

/// Different flows on the same input; made by [`sections`].
#[must_use = "flows do nothing unless run"]
pub struct Sections<'f> {
    sections: Vec<(String, BoxFlow<'f>)>,
    policy: Policy,
    at_once: usize,
}

impl<'f> Sections<'f> {
    /// Adds a section. Names must differ; they name the section in paths, events and the merged text.
    pub fn on(mut self, name: impl Into<String>, flow: impl Flow + 'f) -> Self {
        self.sections.push((name.into(), flow.boxed()));
        self
    }

    /// Goes on when at least `n` sections come to an answer; ends as soon as that has become impossible.
    pub fn at_least(mut self, n: usize) -> Self {
        self.policy = Policy::AtLeast(n);
        self
    }

    /// Goes on with whatever sections come to an answer, but at least one.
    pub fn best_effort(mut self) -> Self {
        self.policy = Policy::BestEffort;
        self
    }

    /// Sets how many sections must come to an answer. Default: [`Policy::All`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Runs at most `n` sections at a time; 0, the default, runs all at once. The bound of the
    /// whole run belongs into a layer round the model.
    pub fn at_once(mut self, n: usize) -> Self {
        self.at_once = n;
        self
    }

    /// What is wrong with the sections.
    fn defect(&self) -> Option<String> {
        let mut seen = HashSet::new();
        let repeated = self.sections.iter().map(|(name, _)| name).find(|name| !seen.insert(name.trim()));
        let total = self.sections.len();
        if total == 0 {
            Some("`sections()` has no section; add one with `.on(name, flow)`".to_owned())
        } else if seen.contains("") {
            Some("a section has no name; give each a name of its own".to_owned())
        } else if let Some(name) = repeated {
            Some(format!("two sections are named `{name}`; give each a name of its own"))
        } else {
            policy_defect(self.policy, total, "sections")
        }
    }
}

/// Why so many branches cannot meet the policy.
pub(crate) fn policy_defect(policy: Policy, most: usize, what: &str) -> Option<String> {
    match policy {
        Policy::AtLeast(0) => Some(format!(
            "`at_least(0)` asks for no answer; use `best_effort()` to go on with whatever {what} succeed"
        )),
        Policy::AtLeast(n) if n > most => {
            Some(format!("`at_least({n})` can never be met by {most} {what}; ask for fewer"))
        }
        _ => None,
    }
}

/// The error of a flow that cannot run, if it has a defect.
pub(crate) fn refuse(defect: Option<String>) -> Result<()> {
    defect.map_or(Ok(()), |defect| Err(Error::new(ErrorKind::Config, defect)))
}

/// The picture of a flow with its defect, if it has one.
pub(crate) fn with_defect(shape: Shape, defect: Option<String>) -> Shape {
    match defect {
        Some(defect) => shape.noting(&format!("cannot run: {defect}")),
        None => shape,
    }
}

/// The policy in a picture.
pub(crate) fn policy_words(policy: Policy) -> String {
    match policy {
        Policy::All => "all".to_owned(),
        Policy::AtLeast(n) => format!("at least {n}"),
        Policy::BestEffort => "best effort".to_owned(),
    }
}

impl Flow for Sections<'_> {
    type Output = Parts;

    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<Parts>> {
        async move {
            self.check().map_err(|error| error.at(&llm.place()))?;
            let branches = self.sections.iter().map(|(name, flow)| {
                (name.clone(), branch(name.clone(), flow, llm, format!("section {name}"), input.to_owned()))
            });
            gather(llm, "sections", branches.collect(), self.policy, self.at_once).await
        }
        .boxed()
    }

    fn shape(&self) -> Shape {
        let parts: Vec<_> = self.sections.iter().map(|(name, flow)| (name.clone(), flow.shape())).collect();
        let needed = self.policy.needed(parts.len());
        let mut fewest: Vec<_> = parts.iter().map(|(_, part)| part.calls().fewest).collect();
        fewest.sort_unstable();
        let calls = Calls {
            // a section that fails may make no call at all
            fewest: fewest.iter().take(needed).fold(0, |sum, n| sum.saturating_add(*n)),
            ..parts.iter().map(|(_, part)| part.calls()).sum()
        };
        let mut shape = Shape::new("sections", "", calls).noting(&policy_words(self.policy));
        shape.parts = parts;
        with_defect(shape, self.defect())
    }

    fn check(&self) -> Result<()> {
        refuse(self.defect())?;
        self.sections.iter().try_for_each(|(_, flow)| flow.check())
    }
}

/// A branch of a fan-out, whose errors know their place.
fn branch<'a, F: Flow + ?Sized>(
    name: String,
    flow: &'a F,
    llm: &'a dyn Llm,
    segment: String,
    input: String,
) -> BoxFuture<'a, Result<String>> {
    async move {
        let llm = Under::new(llm, segment);
        llm.note(Path::root(), Event::BranchStarted { branch: name });
        flow.run_text(&llm, &input).await.map_err(|error| error.at(&llm.place()))
    }
    .boxed()
}

impl fmt::Debug for Sections<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sections")
            .field("names", &self.sections.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("policy", &self.policy)
            .field("at_once", &self.at_once)
            .finish()
    }
}

/// How many items [`for_each`] takes unless told otherwise.
const MOST_ITEMS: usize = 100;

/// One flow on every item of a list, all at once.
///
/// The list comes as text: one item a line, blank lines left out, unless [`json`](ForEach::json) or
/// [`split_by`](ForEach::split_by) says otherwise. The answers come in the order of the items, named by their numbers
/// from 1. For a list that you have as a list, use [`Flow::run_each`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use patterns::{Flow, Reply, Request, for_each};
///
/// let llm = async |request: Request| Ok(Reply::text_of(request.text().to_uppercase()));
/// let shout = for_each("Say: {input}");
/// let parts = shout.run(&llm, "bees\n\nwasps").await?;
/// assert_eq!(parts.get("2"), Some("SAY: WASPS"));
/// assert_eq!(shout.shape().calls().to_string(), "1 to 100 calls");
/// # Ok(()) }
/// ```
pub fn for_each<F: Flow>(flow: F) -> ForEach<'static, F> {
    ForEach { flow, split: Split::Lines, policy: Policy::All, at_once: 0, at_most: MOST_ITEMS }
}

/// One flow on every item of a list; made by [`for_each`].
#[must_use = "flows do nothing unless run"]
pub struct ForEach<'f, F> {
    flow: F,
    split: Split<'f>,
    policy: Policy,
    at_once: usize,
    at_most: usize,
}

enum Split<'f> {
    Lines,
    Json,
    Code(Splitter<'f>),
}

type Splitter<'f> = Box<dyn Fn(&str) -> Vec<String> + Send + Sync + 'f>;

impl<'f, F> ForEach<'f, F> {
    /// Takes the input as a JSON array. Strings are items as they are, anything else as its JSON.
    pub fn json(self) -> Self {
        Self { split: Split::Json, ..self }
    }

    /// Cuts the input into items by plain code.
    pub fn split_by<'g>(self, split: impl Fn(&str) -> Vec<String> + Send + Sync + 'g) -> ForEach<'g, F> {
        let Self { flow, policy, at_once, at_most, .. } = self;
        ForEach { flow, split: Split::Code(Box::new(split)), policy, at_once, at_most }
    }

    /// Refuses lists of more than `n` items, before any call. Default: 100.
    pub fn at_most(mut self, n: usize) -> Self {
        self.at_most = n;
        self
    }

    /// Goes on when at least `n` items come to an answer; ends as soon as that has become impossible.
    pub fn at_least(self, n: usize) -> Self {
        self.policy(Policy::AtLeast(n))
    }

    /// Goes on with whatever items come to an answer, but at least one.
    pub fn best_effort(self) -> Self {
        self.policy(Policy::BestEffort)
    }

    /// Sets how many items must come to an answer. Default: [`Policy::All`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Works on at most `n` items at a time; 0, the default, on all at once.
    pub fn at_once(mut self, n: usize) -> Self {
        self.at_once = n;
        self
    }

    fn defect(&self) -> Option<String> {
        policy_defect(self.policy, self.at_most, "items")
    }

    fn items(&self, input: &str) -> Result<Vec<String>> {
        let items = match &self.split {
            Split::Lines => {
                input.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
            }
            Split::Code(split) => split(input),
            Split::Json => serde_json::from_str::<Vec<serde_json::Value>>(input)
                .map_err(|error| {
                    let message = format!("the input of `for_each` is no JSON array: {error}");
                    Error::new(ErrorKind::Step, message).with_source(error)
                })?
                .into_iter()
                .map(|item| if let serde_json::Value::String(text) = item { text } else { item.to_string() })
                .collect(),
        };
        if items.is_empty() {
            return Err(Error::new(ErrorKind::Empty, "the input of `for_each` holds no item"));
        }
        if items.len() > self.at_most {
            let message = format!(
                "the input of `for_each` holds {} items, at most {} are allowed; raise `at_most` or give fewer",
                items.len(),
                self.at_most
            );
            return Err(Error::new(ErrorKind::Cap, message));
        }
        Ok(items)
    }
}

impl<F: Flow> Flow for ForEach<'_, F> {
    type Output = Parts;

    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<Parts>> {
        async move {
            let items =
                self.check().and_then(|()| self.items(input)).map_err(|error| error.at(&llm.place()))?;
            let branches = items.into_iter().enumerate().map(|(n, item)| {
                let name = (n + 1).to_string();
                (name.clone(), branch(name, &self.flow, llm, format!("input {}", n + 1), item))
            });
            gather(llm, "items", branches.collect(), self.policy, self.at_once).await
        }
        .boxed()
    }

    fn shape(&self) -> Shape {
        let flow = self.flow.shape();
        let fewest = if let Policy::AtLeast(n) = self.policy { n } else { 1 };
        let title = format!("at most {} items, {}", self.at_most, policy_words(self.policy));
        let calls = flow.calls().times(fewest, self.at_most);
        with_defect(Shape::new("for each", "", calls).noting(&title).part("item", flow), self.defect())
    }

    fn check(&self) -> Result<()> {
        refuse(self.defect())?;
        self.flow.check()
    }
}

impl<F: fmt::Debug> fmt::Debug for ForEach<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForEach")
            .field("flow", &self.flow)
            .field("policy", &self.policy)
            .field("at_once", &self.at_once)
            .field("at_most", &self.at_most)
            .finish_non_exhaustive()
    }
}

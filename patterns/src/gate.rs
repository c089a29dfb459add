//! Gates: what a text must be before it may go on.

use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use serde::Serialize;

use crate::answer::{self, Unread, wrap};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::flow::{Came, Flow, Last, Under, last_apart};
use crate::judge::{Judge, Verdict};
use crate::llm::Llm;
use crate::path::Path;
use crate::shape::{Calls, Shape};

/// What a gate asks of a text, cheapest first: plain code, a word in the text, a judge, a person.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use patterns::{Check, ErrorKind, Flow, Gated, Reply, Request};
///
/// let llm = async |request: Request| Ok(Reply::text_of(request.text()));
/// let chain = "Outline: {input}"
///     .gate("names bees", |outline| outline.contains("bees"))
///     .gate_by("is no failure", Check::word("FAIL"))
///     .then("Write: {input}");
/// assert_eq!(chain.run(&llm, "bees").await?, "Write: Outline: bees");
///
/// let error = chain.run(&llm, "wasps").await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Gated);
/// let closed = error.cause::<Gated>().unwrap();
/// assert_eq!((closed.gate.as_str(), closed.text.as_str()), ("names bees", "Outline: wasps"));
/// # Ok(()) }
/// ```
#[must_use = "a check does nothing until it is given to a gate"]
pub struct Check<'f> {
    name: String,
    source: Source<'f>,
    repairs: u32,
}

type Code<'f> = Box<dyn Fn(&str, &str) -> Result<(), String> + Send + Sync + 'f>;
type AskPerson = Arc<dyn Fn(Question) -> BoxFuture<'static, Option<String>> + Send + Sync>;

enum Source<'f> {
    Code(Code<'f>),
    Word(String),
    Judge(Judge<'f>),
    Person(AskPerson),
}

/// What a person is asked at a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Question {
    /// The gate's name.
    pub gate: String,
    /// The text that wants to pass.
    pub text: String,
}

/// What plain code may say of a text: `bool`, or `Result` with the reason.
pub trait Passes {
    /// The reason why the text may not pass, if it may not.
    fn reason(self) -> Result<(), String>;
}

impl Passes for bool {
    fn reason(self) -> Result<(), String> {
        if self { Ok(()) } else { Err("the condition does not hold".to_owned()) }
    }
}

impl<E: fmt::Display> Passes for Result<(), E> {
    fn reason(self) -> Result<(), String> {
        self.map_err(|reason| reason.to_string())
    }
}

impl<'f> Check<'f> {
    fn new(source: Source<'f>) -> Self {
        Self { name: String::new(), source, repairs: 0 }
    }

    /// Plain code: says `true` or `Ok(())` when the text may pass, or `Err(reason)`.
    pub fn code<P: Passes>(check: impl Fn(&str) -> P + Send + Sync + 'f) -> Self {
        Self::new(Source::Code(Box::new(move |_, text| check(text).reason())))
    }

    /// Plain code that compares the text with the input of the step that wrote it: `|input, text| ..`.
    pub fn compare<P: Passes>(check: impl Fn(&str, &str) -> P + Send + Sync + 'f) -> Self {
        Self::new(Source::Code(Box::new(move |input, text| check(input, text).reason())))
    }

    /// A word with which the step says that it failed, as the cookbook's `FAIL`; read by [`gate`](answer::gate), so that
    /// `FAILOVER` or "did not FAIL" do not close the gate.
    pub fn word(word: impl Into<String>) -> Self {
        Self::new(Source::Word(word.into()))
    }

    /// A judge: criteria for a model, or a [`Judge`]. Whatever is not clearly a PASS closes the gate, a missing or
    /// unreadable verdict too.
    pub fn judge(judge: impl Into<Judge<'f>>) -> Self {
        Self::new(Source::Judge(judge.into()))
    }

    /// A person. `ask` shows the question and gives the line typed, or `None` at the end of input. Only the word `yes`
    /// opens the gate.
    pub fn person(
        ask: impl Fn(Question) -> BoxFuture<'static, Option<String>> + Send + Sync + 'static,
    ) -> Self {
        Self::new(Source::Person(Arc::new(ask)))
    }

    /// Asks the step before the gate again, with the reason, at most `times` times. Default: 0, a closed gate ends the
    /// chain.
    pub fn repair(mut self, times: u32) -> Self {
        self.repairs = times;
        self
    }

    /// Judges `text`, written for `task`. Only a judge can give a verdict that cannot be read (`Ok(Err(unread))`); it is
    /// asked for once more when `again` says so.
    pub(crate) async fn assess(
        &self,
        llm: &dyn Llm,
        task: &str,
        text: &str,
        again: bool,
    ) -> Result<Result<Verdict, Unread>> {
        let passes = match &self.source {
            Source::Code(check) => check(task, text),
            Source::Word(word) => match answer::gate(text, word) {
                Ok(false) => Ok(()),
                Ok(true) => Err(format!("the step says {word}")),
                Err(unread) => Err(unread.to_string()),
            },
            Source::Judge(judge) => return judge.judge(llm, task, text, again).await,
            Source::Person(ask) => {
                let question = Question { gate: self.name.clone(), text: text.to_owned() };
                match ask(question).await.as_deref().map(str::trim) {
                    Some("yes") => Ok(()),
                    Some(_) => Err("the person did not say yes".to_owned()),
                    None => Err("nobody answered".to_owned()),
                }
            }
        };
        Ok(Ok(Verdict {
            accepted: passes.is_ok(),
            rating: None,
            score: None,
            feedback: passes.err().unwrap_or_default(),
        }))
    }

    /// How dear a look is: code and words before judges before people.
    pub(crate) fn rank(&self) -> u8 {
        match self.source {
            Source::Code(_) => 0,
            Source::Word(_) => 1,
            Source::Judge(_) => 2,
            Source::Person(_) => 3,
        }
    }

    /// Whether a model or a flow judges.
    pub(crate) fn is_judge(&self) -> bool {
        matches!(self.source, Source::Judge(_))
    }

    pub(crate) fn named(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// The check in a picture, when it looks at most at `texts` texts and may ask a judge `asks` times for a verdict.
    pub(crate) fn shape(&self, texts: usize, asks: usize) -> Shape {
        let kind = match &self.source {
            Source::Code(_) => "code",
            Source::Word(_) => "word",
            Source::Judge(judge) => {
                let judge = judge.shape(asks);
                let calls = judge.calls().attempts(texts);
                return if self.name.is_empty() {
                    Shape { calls, ..judge }
                } else {
                    Shape::new("gate", &self.name, calls).part("", judge)
                };
            }
            Source::Person(_) => "person",
        };
        if self.name.is_empty() {
            Shape::new(kind, "", Calls::NONE)
        } else {
            Shape::new("gate", &self.name, Calls::NONE).noting(kind)
        }
    }
}

impl From<&str> for Check<'_> {
    /// A judge that is told these criteria.
    fn from(criteria: &str) -> Self {
        Self::judge(criteria)
    }
}

impl<'f> From<Judge<'f>> for Check<'f> {
    fn from(judge: Judge<'f>) -> Self {
        Self::judge(judge)
    }
}

impl fmt::Debug for Check<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check")
            .field("name", &self.name)
            .field("repairs", &self.repairs)
            .finish_non_exhaustive()
    }
}

/// A closed gate: the cause of an [`ErrorKind::Gated`] error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gated {
    /// Where in the flow the gate stands.
    pub step: String,
    /// The gate's name.
    pub gate: String,
    /// Why it is closed.
    pub reason: String,
    /// The text that may not pass.
    pub text: String,
}

impl fmt::Display for Gated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the gate `{}` is closed: {}", self.gate, self.reason)
    }
}

impl std::error::Error for Gated {}

/// Runs a step and its gates; asks the step again as long as the gates allow.
pub(crate) async fn pass<F: Flow + ?Sized>(
    step: &F,
    llm: &dyn Llm,
    input: &str,
    gates: &[&Check<'_>],
) -> Result<String> {
    let mut repairs: Vec<u32> = gates.iter().map(|gate| gate.repairs).collect();
    let mut text = step.run_text(&Under::apart(llm), input).await?;
    let mut attempt = 1;
    'again: loop {
        for (gate, left) in gates.iter().zip(&mut repairs) {
            let place = format!("gate {}", gate.name);
            let reason = match gate.assess(&Under::new(llm, &*place), input, &text, false).await? {
                Ok(verdict) if verdict.accepted => None,
                Ok(verdict) if verdict.feedback.is_empty() => Some("the judge does not accept it".to_owned()),
                Ok(verdict) => Some(verdict.feedback),
                Err(unread) => Some(format!("the verdict cannot be read: {unread}")),
            };
            llm.note(
                Path::root(),
                Event::Gate { name: gate.name.clone(), open: reason.is_none(), reason: reason.clone() },
            );
            let Some(reason) = reason else { continue };
            if *left == 0 {
                let closed = Gated { step: llm.place().to_string(), gate: gate.name.clone(), reason, text };
                return Err(Error::new(ErrorKind::Gated, closed.to_string())
                    .with_partial(&*closed.text)
                    .at(&llm.place())
                    .with_source(closed));
            }
            *left -= 1;
            attempt += 1;
            let input = rework(input, [(&*text, &*reason)]);
            text = step.run_text(&Under::new(llm, format!("attempt {attempt}")), &input).await?;
            continue 'again;
        }
        return Ok(text);
    }
}

/// The input of a step that is asked again: what it was asked, what it has written, and what is wrong with that.
pub(crate) fn rework<'a>(input: &str, earlier: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = input.to_owned();
    for (previous, feedback) in earlier {
        text.push_str(&format!(
            "\n\nAn earlier answer to this:\n{}\n\nWhat is wrong with it:\n{}",
            wrap("previous", previous),
            wrap("feedback", feedback)
        ));
    }
    text.push_str("\n\nWrite the whole answer again, so that nothing of this is wrong any more.");
    text
}

/// A flow whose text must pass a gate; made by [`Flow::gate`] and [`Flow::gate_by`].
#[derive(Debug)]
#[must_use = "flows do nothing unless run"]
pub struct Gate<'f, F> {
    flow: F,
    check: Check<'f>,
}

impl<'f, F> Gate<'f, F> {
    pub(crate) fn new(flow: F, name: String, check: Check<'f>) -> Self {
        Self { flow, check: check.named(name) }
    }

    /// Asks the step before the gate again, with the reason, at most `times` times. Default: 0.
    pub fn repair(mut self, times: u32) -> Self {
        self.check.repairs = times;
        self
    }
}

impl<F: Flow> Flow for Gate<'_, F> {
    type Output = String;

    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<String>> {
        let last = Last::Passes(vec![&self.check]);
        async move { Ok(self.flow.run_last(llm, input, last).await?.text) }.boxed()
    }

    fn run_last<'a>(
        &'a self,
        llm: &'a dyn Llm,
        input: &'a str,
        last: Last<'a>,
    ) -> BoxFuture<'a, Result<Came>> {
        match last {
            Last::Passes(mut gates) => {
                gates.insert(0, &self.check);
                self.flow.run_last(llm, input, Last::Passes(gates))
            }
            last => last_apart(self, llm, input, last),
        }
    }

    fn shape(&self) -> Shape {
        self.flow.shape_gated(vec![&self.check])
    }

    fn shape_gated<'a>(&'a self, mut gates: Vec<&'a Check<'a>>) -> Shape {
        gates.insert(0, &self.check);
        self.flow.shape_gated(gates)
    }

    fn check(&self) -> Result<()> {
        self.flow.check()
    }

    fn steps(&self) -> usize {
        self.flow.steps()
    }
}

/// A step of this shape with its gates.
pub(crate) fn gated_shape(mut step: Shape, gates: &[&Check<'_>]) -> Shape {
    let repairs: u32 = gates.iter().map(|gate| gate.repairs).sum();
    let attempts = repairs as usize + 1;
    step.calls = step.calls.attempts(attempts);
    if repairs > 0 {
        step = step.noting(&format!("at most {attempts} attempts"));
    }
    let mut parts = vec![(String::new(), step)];
    parts.extend(gates.iter().map(|gate| (String::new(), gate.shape(attempts, 1))));
    Shape::sequence("gated", parts)
}

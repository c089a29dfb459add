//! Flows: values that turn a text into a text through calls to a language model.

use std::borrow::Cow;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};

use crate::chain::{Map, Then};
use crate::choose::{Chosen, read_finished};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::gate::{Check, Gate, Passes, gated_shape, pass};
use crate::llm::{Llm, OnText, OneOf, Request};
use crate::outcome::{Outcome, fan_out};
use crate::path::Path;
use crate::reply::Reply;
use crate::shape::Shape;

/// A flow: something that turns a text into a text, by calls to a language model or by plain code.
///
/// Prompts, plain Rust ([`step`](crate::step)), the five patterns and the agent loop are flows, and every flow fits
/// into every other. A `&str` is the shortest flow: a prompt.
///
/// Between flows there is text. At the edge a pattern's [`Output`](Flow::Output) is rich and says how it came about
/// ([`Routed`](crate::Routed), [`Tally`](crate::Tally), …); turning it into text fails where there is no answer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a flow",
    note = "a prompt (`&str`), `step(name, async |llm, text| ..)` and every pattern is one; is a builder unfinished, as `refine(..)` without `.until(..)`?"
)]
pub trait Flow: Send + Sync {
    /// What comes out. Its text goes into the next flow.
    type Output: TryInto<String, Error: Into<Error>> + Send;

    /// Runs the flow on `input`. Dropping the future stops everything in it.
    ///
    /// # Errors
    /// The first failure that the flow cannot live without; see each pattern.
    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<Self::Output>>;

    /// The picture of the flow and its bounds, before any call.
    fn shape(&self) -> Shape;

    /// Whether the flow can be run at all: two ways of one label, a cap of zero … A pattern looks at itself and at
    /// everything in it before its first call.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config), naming the defect.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Runs the flow and gives the text of its output.
    ///
    /// # Errors
    /// Those of [`run`](Flow::run), and the output's own when it has no answer.
    fn run_text<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<String>> {
        async move { self.run(llm, input).await?.try_into().map_err(Into::into) }.boxed()
    }

    /// Runs the flow so that its last step does something beside writing its text: a chain hands `last` on to its last
    /// step, and a prompt knows how to do it.
    #[doc(hidden)]
    fn run_last<'a>(
        &'a self,
        llm: &'a dyn Llm,
        input: &'a str,
        last: Last<'a>,
    ) -> BoxFuture<'a, Result<Came>> {
        last_apart(self, llm, input, last)
    }

    /// The picture of the flow with `gates` after its last step.
    #[doc(hidden)]
    fn shape_gated<'a>(&'a self, gates: Vec<&'a Check<'a>>) -> Shape {
        gated_shape(self.shape(), &gates)
    }

    /// How many steps of a chain this is.
    #[doc(hidden)]
    fn steps(&self) -> usize {
        1
    }

    /// This flow, then `next` on its text: prompt chaining. A failure ends the chain.
    fn then<F: Flow>(self, next: F) -> Then<Self, F>
    where
        Self: Sized,
    {
        Then::new(self, next)
    }

    /// Lets the text of this flow pass only if plain code says so: `true`, `Ok(())`, or `Err(reason)`. A closed gate ends
    /// the chain with an [`ErrorKind::Gated`](crate::ErrorKind::Gated) error, unless [`repair`](Gate::repair) is given.
    fn gate<'f, C, P>(self, name: impl Into<String>, code: C) -> Gate<'f, Self>
    where
        Self: Sized,
        C: Fn(&str) -> P + Send + Sync + 'f,
        P: Passes,
    {
        Gate::new(self, name.into(), Check::code(code))
    }

    /// Lets the text of this flow pass only if `check` says so: code, a word, a judge or a person.
    fn gate_by<'f>(self, name: impl Into<String>, check: Check<'f>) -> Gate<'f, Self>
    where
        Self: Sized,
    {
        Gate::new(self, name.into(), check)
    }

    /// Changes the text of this flow by plain code.
    fn map<F>(self, change: F) -> Map<Self, F>
    where
        Self: Sized,
        F: Fn(String) -> String + Send + Sync,
    {
        Map::new(self, change)
    }

    /// Runs this flow with another model: `provider:model`, or a model of the connection's own provider. A flow inside
    /// that names a model itself keeps it.
    fn with_model(self, model: impl Into<String>) -> WithModel<Self>
    where
        Self: Sized,
    {
        WithModel { flow: self, model: model.into() }
    }

    /// Runs this flow on every input, at most `at_once` at a time, and gives one [`Outcome`] an input, in order. A
    /// failure of one does not touch the others.
    fn run_each<'a, S: AsRef<str> + Sync>(
        &'a self,
        llm: &'a dyn Llm,
        inputs: &'a [S],
        at_once: usize,
    ) -> BoxFuture<'a, Vec<Outcome<Self::Output>>>
    where
        Self: Sized,
    {
        let jobs = inputs.iter().enumerate().map(|(n, input)| {
            async move { self.run(&Under::new(llm, format!("input {}", n + 1)), input.as_ref()).await }
                .boxed()
        });
        let jobs: Vec<_> = jobs.collect();
        async move {
            let mut outcomes: Vec<_> = jobs.iter().map(|_| Outcome::Cancelled).collect();
            fan_out(jobs, at_once, |n, result| {
                outcomes[n] = result.into();
                std::ops::ControlFlow::Continue(())
            })
            .await;
            outcomes
        }
        .boxed()
    }

    /// This flow without its type, with text as output.
    fn boxed<'f>(self) -> BoxFlow<'f>
    where
        Self: Sized + 'f,
    {
        Box::new(AsText(self))
    }
}

/// What the last step of a flow does beside writing its text.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub enum Last<'a> {
    /// Its text passes these gates; it is asked again when one says so.
    Passes(Vec<&'a Check<'a>>),
    /// Its last call ends in one of the labels.
    Chooses(&'a OneOf),
    /// Its prompt ends with this: how the answer shall be written.
    EndsWith(&'a str),
}

/// What came of the last step.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Came {
    pub(crate) text: String,
    pub(crate) chosen: Option<Chosen>,
}

impl Came {
    pub(crate) fn text(text: String) -> Self {
        Self { text, chosen: None }
    }

    pub(crate) fn chosen(chosen: Chosen) -> Self {
        Self { text: chosen.label.clone(), chosen: Some(chosen) }
    }

    /// The choice that a finished text makes.
    pub(crate) fn read(text: &str, one_of: &OneOf, llm: &dyn Llm) -> Result<Self> {
        read_finished(text, one_of, llm).map(Self::chosen)
    }
}

/// Does what the last step shall do outside of the flow, for flows that cannot hand it on.
pub(crate) fn last_apart<'a, F: Flow + ?Sized>(
    flow: &'a F,
    llm: &'a dyn Llm,
    input: &'a str,
    last: Last<'a>,
) -> BoxFuture<'a, Result<Came>> {
    async move {
        match last {
            Last::Passes(gates) => pass(flow, llm, input, &gates).await.map(Came::text),
            Last::Chooses(one_of) => {
                let text = flow.run_text(&Under::apart(llm), input).await?;
                Came::read(&text, one_of, llm)
            }
            Last::EndsWith(ending) => {
                let input = format!("{input}\n\n{ending}");
                flow.run_text(&Under::apart(llm), &input).await.map(Came::text)
            }
        }
    }
    .boxed()
}

/// Runs `flow` so that its last call ends in one of the labels.
pub(crate) async fn choose_by<F: Flow + ?Sized>(
    flow: &F,
    llm: &dyn Llm,
    input: &str,
    one_of: &OneOf,
) -> Result<Chosen> {
    let Came { text, chosen } = flow.run_last(llm, input, Last::Chooses(one_of)).await?;
    chosen.map_or_else(|| read_finished(&text, one_of, llm), Ok)
}

/// A flow of any kind, with text as output.
pub type BoxFlow<'f> = Box<dyn Flow<Output = String> + 'f>;

/// Turns the output into text.
struct AsText<F>(F);

impl<F: Flow> Flow for AsText<F> {
    type Output = String;
    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<String>> {
        self.0.run_text(llm, input)
    }
    fn shape(&self) -> Shape {
        self.0.shape()
    }
    fn run_last<'a>(
        &'a self,
        llm: &'a dyn Llm,
        input: &'a str,
        last: Last<'a>,
    ) -> BoxFuture<'a, Result<Came>> {
        self.0.run_last(llm, input, last)
    }
    fn shape_gated<'a>(&'a self, gates: Vec<&'a Check<'a>>) -> Shape {
        self.0.shape_gated(gates)
    }
    fn check(&self) -> Result<()> {
        self.0.check()
    }
    fn steps(&self) -> usize {
        self.0.steps()
    }
}

macro_rules! forward {
    ($($of:ty),*) => {$(
        impl<F: Flow + ?Sized> Flow for $of {
            type Output = F::Output;
            fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<F::Output>> {
                (**self).run(llm, input)
            }
            fn shape(&self) -> Shape {
                (**self).shape()
            }
            fn run_last<'a>(
                &'a self,
                llm: &'a dyn Llm,
                input: &'a str,
                last: Last<'a>,
            ) -> BoxFuture<'a, Result<Came>> {
                (**self).run_last(llm, input, last)
            }
            fn shape_gated<'a>(&'a self, gates: Vec<&'a Check<'a>>) -> Shape {
                (**self).shape_gated(gates)
            }
            fn check(&self) -> Result<()> {
                (**self).check()
            }
            fn steps(&self) -> usize {
                (**self).steps()
            }
        }
    )*};
}
forward!(&F, Box<F>, Arc<F>);

/// A flow with a model of its own; made by [`Flow::with_model`].
#[derive(Clone, Debug)]
#[must_use = "flows do nothing unless run"]
pub struct WithModel<F> {
    flow: F,
    model: String,
}

impl<F: Flow> Flow for WithModel<F> {
    type Output = F::Output;
    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<F::Output>> {
        async move { self.flow.run(&Under::with_model(llm, &self.model), input).await }.boxed()
    }
    fn shape(&self) -> Shape {
        self.flow.shape().noting(&self.model)
    }
    fn run_last<'a>(
        &'a self,
        llm: &'a dyn Llm,
        input: &'a str,
        last: Last<'a>,
    ) -> BoxFuture<'a, Result<Came>> {
        async move { self.flow.run_last(&Under::with_model(llm, &self.model), input, last).await }.boxed()
    }
    fn shape_gated<'a>(&'a self, gates: Vec<&'a Check<'a>>) -> Shape {
        self.flow.shape_gated(gates).noting(&self.model)
    }
    fn check(&self) -> Result<()> {
        self.flow.check()
    }
    fn steps(&self) -> usize {
        self.flow.steps()
    }
}

/// A language model as seen from a place inside a flow: it puts the place in front of every path.
///
/// Patterns use it for their branches; your own flows can, too.
#[allow(missing_debug_implementations)] // it holds only borrowed trait objects
pub struct Under<'a> {
    llm: &'a dyn Llm,
    segment: Cow<'a, str>,
    model: Option<&'a str>,
    sample: u32,
    answers: bool,
}

impl<'a> Under<'a> {
    /// `llm` as seen from `segment`.
    pub fn new(llm: &'a dyn Llm, segment: impl Into<Cow<'a, str>>) -> Self {
        Self { llm, segment: segment.into(), model: None, sample: 0, answers: false }
    }

    pub(crate) fn with_model(llm: &'a dyn Llm, model: &'a str) -> Self {
        Self { model: Some(model), answers: true, ..Self::apart(llm) }
    }

    /// `llm` as seen from the same place by something whose text is not yet the flow's answer.
    pub(crate) fn apart(llm: &'a dyn Llm) -> Self {
        Self::new(llm, "")
    }

    /// Declares that what runs here writes the answer of the flow that `llm` was given to, word for word, so that it may
    /// be shown while it is written ([`Llm::on_answer`]).
    #[must_use]
    pub fn as_answer(mut self) -> Self {
        self.answers = true;
        self
    }

    /// `llm` as seen by one of several samples of the same flow; `sample` counts from 1.
    #[must_use]
    pub fn sample(mut self, sample: u32) -> Self {
        self.sample = sample;
        self
    }

    fn scope(&self, path: &mut Path) {
        if !self.segment.is_empty() {
            path.prepend(&self.segment);
        }
    }
}

impl Llm for Under<'_> {
    fn call(&self, mut request: Request) -> BoxFuture<'_, Result<Reply>> {
        self.scope(&mut request.path);
        if request.model.is_none() {
            request.model = self.model.map(str::to_owned);
        }
        if self.sample > 0 {
            // samples of samples stay apart: the numbers are combined, not overwritten
            request.sample = request.sample.wrapping_mul(1_000).wrapping_add(self.sample);
        }
        self.llm.call(request)
    }
    fn note(&self, mut path: Path, event: Event) {
        self.scope(&mut path);
        self.llm.note(path, event);
    }
    fn model(&self, request: &Request) -> Option<String> {
        match (&request.model, self.model) {
            (None, Some(model)) => {
                let request = Request { model: Some(model.to_owned()), ..Request::default() };
                self.llm.model(&request)
            }
            _ => self.llm.model(request),
        }
    }
    fn place(&self) -> Path {
        let place = self.llm.place();
        if self.segment.is_empty() { place } else { place.join(&self.segment) }
    }
    fn answer_to(&self) -> Option<OnText> {
        if self.answers { self.llm.answer_to() } else { None }
    }
}

//! Prompt chaining: each step works on the text of the one before.

use std::fmt;

use futures::future::{BoxFuture, FutureExt};

use crate::error::Result;
use crate::flow::{BoxFlow, Came, Flow, Last, Under, last_apart};
use crate::gate::{Check, gated_shape};
use crate::llm::Llm;
use crate::shape::Shape;

/// A flow, then another on its text; made by [`Flow::then`].
///
/// The first pattern of [Building effective agents](https://www.anthropic.com/engineering/building-effective-agents),
/// prompt chaining. A failure of one step ends the chain: nothing after it is called, and no error text is handed on.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use patterns::{Flow, Reply, Request};
///
/// let llm = async |request: Request| Ok(Reply::text_of(format!("[{}]", request.text())));
/// let chain = "Outline: {input}".then("Write: {input}");
/// assert_eq!(chain.run(&llm, "bees").await?, "[Write: [Outline: bees]]");
/// assert_eq!(chain.shape().calls().to_string(), "2 calls");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "flows do nothing unless run"]
pub struct Then<A, B> {
    first: A,
    second: B,
}

impl<A: Flow, B: Flow> Then<A, B> {
    pub(crate) fn new(first: A, second: B) -> Self {
        Self { first, second }
    }

    async fn run_first(&self, llm: &dyn Llm, input: &str) -> Result<String> {
        if self.first.steps() > 1 {
            self.first.run_text(&Under::apart(llm), input).await // it numbers its own steps
        } else {
            self.first.run_text(&Under::new(llm, "step 1"), input).await
        }
    }

    fn segment(&self) -> String {
        format!("step {}", self.first.steps() + 1)
    }

    fn shape_with(&self, second: Shape) -> Shape {
        let first = self.first.shape();
        let mut parts = if self.first.steps() > 1 { first.parts } else { vec![("step 1".to_owned(), first)] };
        parts.push((self.segment(), second));
        Shape::sequence("chain", parts)
    }
}

impl<A: Flow, B: Flow> Flow for Then<A, B> {
    type Output = B::Output;

    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<B::Output>> {
        async move {
            self.check()?; // no call is made for the first step of a chain whose last step cannot run
            let text = self.run_first(llm, input).await?;
            self.second.run(&Under::new(llm, self.segment()).as_answer(), &text).await
        }
        .boxed()
    }

    fn run_last<'a>(
        &'a self,
        llm: &'a dyn Llm,
        input: &'a str,
        last: Last<'a>,
    ) -> BoxFuture<'a, Result<Came>> {
        async move {
            let text = self.run_first(llm, input).await?;
            self.second.run_last(&Under::new(llm, self.segment()), &text, last).await
        }
        .boxed()
    }

    fn check(&self) -> Result<()> {
        self.first.check()?;
        self.second.check()
    }

    fn steps(&self) -> usize {
        self.first.steps() + 1
    }

    fn shape(&self) -> Shape {
        self.shape_with(self.second.shape())
    }

    fn shape_gated<'a>(&'a self, gates: Vec<&'a Check<'a>>) -> Shape {
        self.shape_with(self.second.shape_gated(gates))
    }
}

/// A list of steps as one chain, of any length.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use patterns::{Flow, Reply, Request, chain};
///
/// let llm = async |request: Request| Ok(Reply::text_of(request.text().len().to_string()));
/// let steps = (1..=10_000).map(|n| format!("{n}: {{input}}").boxed());
/// assert_eq!(chain(steps).run(&llm, "").await?, "8");
/// # Ok(()) }
/// ```
pub fn chain<'f>(steps: impl IntoIterator<Item = BoxFlow<'f>>) -> Chain<'f> {
    Chain { steps: steps.into_iter().collect() }
}

/// A list of steps as one chain; made by [`chain`]. Without steps it gives back its input.
#[must_use = "flows do nothing unless run"]
pub struct Chain<'f> {
    steps: Vec<BoxFlow<'f>>,
}

impl Chain<'_> {
    /// Runs all steps but the last; gives its input and its number.
    async fn run_to_last(&self, llm: &dyn Llm, input: &str) -> Result<String> {
        let mut text = input.to_owned();
        for (n, step) in self.steps.iter().enumerate().take(self.steps.len().saturating_sub(1)) {
            text = step.run(&Under::new(llm, segment(n)), &text).await?;
        }
        Ok(text)
    }
}

fn segment(n: usize) -> String {
    format!("step {}", n + 1)
}

impl Flow for Chain<'_> {
    type Output = String;

    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<String>> {
        async move {
            self.check()?;
            let text = self.run_to_last(llm, input).await?;
            match self.steps.last() {
                Some(last) => {
                    last.run(&Under::new(llm, segment(self.steps.len() - 1)).as_answer(), &text).await
                }
                None => Ok(text),
            }
        }
        .boxed()
    }

    fn run_last<'a>(
        &'a self,
        llm: &'a dyn Llm,
        input: &'a str,
        last: Last<'a>,
    ) -> BoxFuture<'a, Result<Came>> {
        async move {
            let text = self.run_to_last(llm, input).await?;
            match (self.steps.last(), last) {
                (Some(step), last) => {
                    step.run_last(&Under::new(llm, segment(self.steps.len() - 1)), &text, last).await
                }
                (None, Last::EndsWith(_)) => Ok(Came::text(text)),
                (None, last) => last_apart(self, llm, input, last).await,
            }
        }
        .boxed()
    }

    fn check(&self) -> Result<()> {
        self.steps.iter().try_for_each(Flow::check)
    }

    fn steps(&self) -> usize {
        self.steps.len().max(1)
    }

    fn shape(&self) -> Shape {
        Shape::sequence(
            "chain",
            self.steps.iter().enumerate().map(|(n, step)| (segment(n), step.shape())).collect(),
        )
    }

    fn shape_gated<'a>(&'a self, gates: Vec<&'a Check<'a>>) -> Shape {
        let Some(last) = self.steps.last() else { return gated_shape(self.shape(), &gates) };
        let mut parts = self.shape().parts;
        let n = parts.len() - 1;
        parts[n].1 = last.shape_gated(gates);
        Shape::sequence("chain", parts)
    }
}

impl fmt::Debug for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain of {} steps", self.steps.len())
    }
}

/// A flow whose text is changed by plain code; made by [`Flow::map`].
#[derive(Clone)]
#[must_use = "flows do nothing unless run"]
pub struct Map<A, F> {
    flow: A,
    change: F,
}

impl<A, F> Map<A, F> {
    pub(crate) fn new(flow: A, change: F) -> Self {
        Self { flow, change }
    }
}

impl<A: Flow, F: Fn(String) -> String + Send + Sync> Flow for Map<A, F> {
    type Output = String;

    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<String>> {
        async move { Ok((self.change)(self.flow.run_text(&Under::apart(llm), input).await?)) }.boxed()
    }

    fn check(&self) -> Result<()> {
        self.flow.check()
    }

    fn shape(&self) -> Shape {
        self.flow.shape()
    }
}

impl<A: fmt::Debug, F> fmt::Debug for Map<A, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("flow", &self.flow).finish_non_exhaustive()
    }
}

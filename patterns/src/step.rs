//! Plain Rust as a flow.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::{BoxFuture, FutureExt};

use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::flow::{Flow, Under};
use crate::llm::{Llm, Request};
use crate::path::Path;
use crate::reply::Reply;
use crate::shape::{Calls, Shape};

mod sealed {
    use super::{Llm, Result};

    /// Proves that the future of an async closure is `Send`, which `AsyncFn` alone cannot say on stable Rust.
    pub trait SendStep<'a> {
        type Future: Future<Output = Result<String>> + Send;
        fn start(&'a self, llm: &'a dyn Llm, text: &'a str) -> Self::Future;
    }

    impl<'a, F, Fut> SendStep<'a> for F
    where
        F: Fn(&'a dyn Llm, &'a str) -> Fut,
        Fut: Future<Output = Result<String>> + Send,
    {
        type Future = Fut;
        fn start(&'a self, llm: &'a dyn Llm, text: &'a str) -> Fut {
            self(llm, text)
        }
    }

    /// The same for a closure that is lent a state.
    pub trait SendStepWith<'a, S: 'a> {
        type Future: Future<Output = Result<String>> + Send;
        fn start(&'a self, state: &'a S, llm: &'a dyn Llm, text: &'a str) -> Self::Future;
    }

    impl<'a, S: 'a, F, Fut> SendStepWith<'a, S> for F
    where
        F: Fn(&'a S, &'a dyn Llm, &'a str) -> Fut,
        Fut: Future<Output = Result<String>> + Send,
    {
        type Future = Fut;
        fn start(&'a self, state: &'a S, llm: &'a dyn Llm, text: &'a str) -> Fut {
            self(state, llm, text)
        }
    }
}

/// Plain Rust as a flow: `run` gets the model and the text, and may call the model as often as it likes.
///
/// The closure captures by reference or not at all; use [`step_with`] for state that it shall own. Say with
/// [`calls`](Step::calls) how often it calls the model, so that the bounds of the whole flow stay known.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use patterns::{Flow, Reply, Request, step};
///
/// let llm = async |_: Request| Ok(Reply::text_of("four score"));
/// let shout = "Say it nicer.".then(step("shout", async |_, text| Ok(text.to_uppercase())).calls(0..=0));
/// assert_eq!(shout.run(&llm, "80").await?, "FOUR SCORE");
/// assert_eq!(shout.shape().calls().to_string(), "1 call");
/// # Ok(()) }
/// ```
pub fn step<F>(name: impl Into<String>, run: F) -> Step<F>
where
    F: AsyncFn(&dyn Llm, &str) -> Result<String> + for<'a> sealed::SendStep<'a> + Send + Sync,
{
    Step { name: name.into(), run, calls: Calls::ANY }
}

/// Plain Rust as a flow; made by [`step`].
#[derive(Clone)]
#[must_use = "flows do nothing unless run"]
pub struct Step<F> {
    name: String,
    run: F,
    calls: Calls,
}

impl<F> Step<F> {
    /// Declares how many calls the step makes. A call beyond the most fails with [`ErrorKind::Cap`].
    pub fn calls(mut self, calls: std::ops::RangeInclusive<u64>) -> Self {
        self.calls = Calls::between(*calls.start(), *calls.end());
        self
    }
}

impl<F> Flow for Step<F>
where
    F: for<'a> sealed::SendStep<'a> + Send + Sync,
{
    type Output = String;

    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<String>> {
        match self.calls.most {
            None => async move { start(&self.run, &Under::apart(llm), input).await }.boxed(),
            Some(most) => {
                async move {
                    let capped = Capped { llm, most, made: AtomicU64::new(0), step: &self.name };
                    // the closure's future borrows for as long as it runs, which is this block
                    start(&self.run, &capped, input).await
                }
                .boxed()
            }
        }
    }

    fn shape(&self) -> Shape {
        Shape::new("step", &self.name, self.calls)
    }
}

fn start<'b, F: sealed::SendStep<'b>>(
    run: &'b F,
    llm: &'b dyn Llm,
    input: &'b str,
) -> BoxFuture<'b, Result<String>> {
    run.start(llm, input).boxed()
}

impl<F> fmt::Debug for Step<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step").field("name", &self.name).field("calls", &self.calls).finish_non_exhaustive()
    }
}

/// Plain Rust with a state of its own as a flow: `run` is lent the state, the model and the text.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use patterns::{Flow, Reply, Request, step_with};
///
/// let llm = async |_: Request| Ok(Reply::text_of("unused"));
/// let names = vec!["Ada".to_owned(), "Grace".to_owned()];
/// let greet = step_with("greet", names, async |names: &Vec<String>, _, text| Ok(format!("{text} {}", names.join(" and "))));
/// assert_eq!(greet.run(&llm, "Dear").await?, "Dear Ada and Grace");
/// # Ok(()) }
/// ```
pub fn step_with<S, F>(name: impl Into<String>, state: S, run: F) -> StepWith<S, F>
where
    S: Send + Sync,
    F: AsyncFn(&S, &dyn Llm, &str) -> Result<String> + for<'a> sealed::SendStepWith<'a, S> + Send + Sync,
{
    StepWith { name: name.into(), state, run, calls: Calls::ANY }
}

/// Plain Rust with a state as a flow; made by [`step_with`].
#[derive(Clone)]
#[must_use = "flows do nothing unless run"]
pub struct StepWith<S, F> {
    name: String,
    state: S,
    run: F,
    calls: Calls,
}

impl<S, F> StepWith<S, F> {
    /// Declares how many calls the step makes. A call beyond the most fails with [`ErrorKind::Cap`].
    pub fn calls(mut self, calls: std::ops::RangeInclusive<u64>) -> Self {
        self.calls = Calls::between(*calls.start(), *calls.end());
        self
    }
}

impl<S, F> Flow for StepWith<S, F>
where
    S: Send + Sync,
    F: for<'a> sealed::SendStepWith<'a, S> + Send + Sync,
{
    type Output = String;

    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<String>> {
        match self.calls.most {
            None => {
                async move { start_with(&self.run, &self.state, &Under::apart(llm), input).await }.boxed()
            }
            Some(most) => async move {
                let capped = Capped { llm, most, made: AtomicU64::new(0), step: &self.name };
                start_with(&self.run, &self.state, &capped, input).await
            }
            .boxed(),
        }
    }

    fn shape(&self) -> Shape {
        Shape::new("step", &self.name, self.calls)
    }
}

fn start_with<'b, S, F: sealed::SendStepWith<'b, S>>(
    run: &'b F,
    state: &'b S,
    llm: &'b dyn Llm,
    input: &'b str,
) -> BoxFuture<'b, Result<String>> {
    run.start(state, llm, input).boxed()
}

impl<S, F> fmt::Debug for StepWith<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepWith")
            .field("name", &self.name)
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

/// Holds a step to the calls that it declared.
struct Capped<'a> {
    llm: &'a dyn Llm,
    most: u64,
    made: AtomicU64,
    step: &'a str,
}

impl Llm for Capped<'_> {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        if self.made.fetch_add(1, Ordering::Relaxed) >= self.most {
            let message =
                format!("step `{}` declared at most {} calls and made one more", self.step, self.most);
            let error = Error::new(ErrorKind::Cap, message).at(&self.place());
            return async move { Err(error) }.boxed();
        }
        self.llm.call(request)
    }
    fn note(&self, path: Path, event: Event) {
        self.llm.note(path, event);
    }
    fn model(&self, request: &Request) -> Option<String> {
        self.llm.model(request)
    }
    fn place(&self) -> Path {
        self.llm.place()
    }
}

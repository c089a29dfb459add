//! The one function: a call to a language model.

use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};

use crate::error::Result;
use crate::event::Event;
use crate::layers::{
    Budget, Chaos, Complete, Journal, Layer, Layered, Limit, Meter, Observe, Record, Retry, Warm,
};
use crate::path::Path;
use crate::reply::Reply;
pub use crate::request::{
    DEFAULT_MAX_TOKENS, Effort, Expect, Label, OnEvent, OnText, OneOf, Request, ToolChoice, ToolSpec,
};

/// A language model: one function from a [`Request`] to a [`Reply`].
///
/// Providers implement it, layers wrap it, and any `async` function or closure of that shape is one:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use patterns::{Llm, Reply, Request};
///
/// let echo = async |request: Request| Ok(Reply::text_of(request.text()));
/// assert_eq!(echo.ask("hello").await?, "hello");
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a language model",
    note = "an `async` closure `async |request: patterns::Request| -> patterns::Result<patterns::Reply>` is one, if it captures by reference and its future is `Send`"
)]
pub trait Llm: Send + Sync {
    /// Answers one request.
    ///
    /// # Errors
    /// When there is no reply; a reply that stopped early is not an error here but has its
    /// [`stop`](crate::Reply::stop).
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>>;

    /// Hears what happens in a run: a gate closed, a vote was decided. Layers pass it on; by default nobody listens.
    fn note(&self, path: Path, event: Event) {
        let _ = (path, event);
    }

    /// The model that would answer this request, as `provider:model`, if that is known beforehand.
    fn model(&self, request: &Request) -> Option<String> {
        request.model.clone()
    }

    /// Where in the flow this model is called from: what is put in front of every path. The root outside of any pattern.
    fn place(&self) -> Path {
        Path::root()
    }

    /// Who hears the answer of the whole flow while it is written, if the prompt that is run next writes it.
    #[doc(hidden)]
    fn answer_to(&self) -> Option<OnText> {
        None
    }

    /// Sends one prompt and gives the text of the finished answer.
    ///
    /// # Errors
    /// Those of the call, and those of [`Reply::into_answer`].
    fn ask<'a>(&'a self, prompt: &'a str) -> BoxFuture<'a, Result<String>> {
        async move { self.call(Request::new(prompt)).await?.into_answer() }.boxed()
    }

    /// This model with `layer` round it; see [`layers`](crate::layers).
    fn layer<K: Layer>(self, layer: K) -> Layered<K, Self>
    where
        Self: Sized,
    {
        Layered::new(layer, self)
    }

    /// Brings replies that stopped early to their end; see [`Complete`].
    fn complete(self, complete: Complete) -> Layered<Complete, Self>
    where
        Self: Sized,
    {
        self.layer(complete)
    }

    /// Tries again what may succeed later; see [`Retry`].
    fn retry(self, retry: Retry) -> Layered<Retry, Self>
    where
        Self: Sized,
    {
        self.layer(retry)
    }

    /// At most `n` calls under way at once, over everything nested; see [`Limit`].
    fn at_most(self, n: usize) -> Layered<Limit, Self>
    where
        Self: Sized,
    {
        self.layer(Limit::at_most(n))
    }

    /// Bounds the calls under way, also per minute or together with other models; see [`Limit`].
    fn limit(self, limit: &Limit) -> Layered<Limit, Self>
    where
        Self: Sized,
    {
        self.layer(limit.clone())
    }

    /// Bounds what may be used; see [`Budget`].
    fn budget(self, budget: &Budget) -> Layered<Budget, Self>
    where
        Self: Sized,
    {
        self.layer(budget.clone())
    }

    /// Writes down every reply and answers from what is written; see [`Journal`].
    fn journal(self, journal: &Journal) -> Layered<Journal, Self>
    where
        Self: Sized,
    {
        self.layer(journal.clone())
    }

    /// Lets one of several calls with the same beginning go first; see [`Warm`].
    fn warm(self, warm: Warm) -> Layered<Warm, Self>
    where
        Self: Sized,
    {
        self.layer(warm)
    }

    /// Writes down what the model answers, as a script; see [`Record`].
    fn record(self, record: Record) -> Layered<Record, Self>
    where
        Self: Sized,
    {
        self.layer(record)
    }

    /// Fails at random, for rehearsal; see [`Chaos`].
    fn chaos(self, chaos: Chaos) -> Layered<Chaos, Self>
    where
        Self: Sized,
    {
        self.layer(chaos)
    }

    /// Adds up usage and cost; see [`Meter`].
    fn meter(self, meter: &Meter) -> Layered<Meter, Self>
    where
        Self: Sized,
    {
        self.layer(meter.clone())
    }

    /// Tells `listen` what happens, and where in the flow; see [`Observe`].
    fn observe(self, listen: impl Fn(&Path, &Event) + Send + Sync + 'static) -> Layered<Observe, Self>
    where
        Self: Sized,
    {
        self.layer(Observe::new(listen))
    }

    /// Hands the answer of a flow to `on_text` while it is written, where it is certain which call writes it: a prompt,
    /// the last step of a chain, the way that a route takes, the merge of an orchestrator. A text that may still be
    /// rejected (before a gate, a draft, a ballot) or is one of several is handed to nobody.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> patterns::Result<()> {
    /// use std::sync::{Arc, Mutex};
    /// use patterns::providers::Script;
    /// use patterns::{Flow, Llm, OnText};
    ///
    /// let heard = Arc::new(Mutex::new(String::new()));
    /// let on_text = OnText::new({
    ///     let heard = Arc::clone(&heard);
    ///     move |piece| heard.lock().unwrap().push_str(piece)
    /// });
    /// let llm = Script::replies(["an outline", "an article"]).on_answer(on_text);
    /// "Outline.".then("Write.").run(&llm, "bees").await?;
    /// assert_eq!(*heard.lock().unwrap(), "an article");
    /// # Ok(()) }
    /// ```
    fn on_answer(self, on_text: OnText) -> OnAnswer<Self>
    where
        Self: Sized,
    {
        OnAnswer { llm: self, on_text }
    }
}

/// A model with a listener for the answer of a flow; made by [`Llm::on_answer`].
#[derive(Clone)]
pub struct OnAnswer<L> {
    llm: L,
    on_text: OnText,
}

impl<L: Llm> Llm for OnAnswer<L> {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
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
    fn answer_to(&self) -> Option<OnText> {
        Some(self.on_text.clone())
    }
}

impl<L> fmt::Debug for OnAnswer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnAnswer").finish_non_exhaustive()
    }
}

mod sealed {
    use super::{Reply, Request, Result};

    /// Names the future of an async function, which spares its callers a `'static` bound.
    pub trait AsyncCall: Send + Sync {
        type Future: Future<Output = Result<Reply>> + Send;
        fn start(&self, request: Request) -> Self::Future;
    }

    impl<F, Fut> AsyncCall for F
    where
        F: Fn(Request) -> Fut + Send + Sync,
        Fut: Future<Output = Result<Reply>> + Send,
    {
        type Future = Fut;
        fn start(&self, request: Request) -> Fut {
            self(request)
        }
    }
}

impl<F: sealed::AsyncCall> Llm for F {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        self.start(request).boxed()
    }
}

macro_rules! forward {
    ($($of:ty, [$($generics:tt)*];)*) => {$(
        impl<$($generics)*> Llm for $of {
            fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
                (**self).call(request)
            }
            fn note(&self, path: Path, event: Event) {
                (**self).note(path, event);
            }
            fn model(&self, request: &Request) -> Option<String> {
                (**self).model(request)
            }
            fn place(&self) -> Path {
                (**self).place()
            }
            fn answer_to(&self) -> Option<OnText> {
                (**self).answer_to()
            }
        }
    )*};
}
forward! {
    Arc<L>, [L: Llm + ?Sized];
    Box<dyn Llm + '_>, [];
    &dyn Llm, [];
}

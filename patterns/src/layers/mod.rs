//! What a whole run needs: an [`Llm`] round an [`Llm`].
//!
//! A layer sees every call of every pattern, and no pattern knows which layers are there. [`standard`] puts them together;
//! outermost first:
//!
//! | layer | what it does |
//! |---|---|
//! | [`Spans`], [`Trace`](crate::trace::Trace) | tell `tracing` and a file what happens; they are put round the others |
//! | [`Observe`] | tells a listener what happens, with the place in the flow |
//! | [`Meter`] | adds up usage and cost, of failed and dropped calls too |
//! | [`Journal`] | writes every reply to a file; a run that was killed makes only the missing calls again |
//! | [`Budget::deadline`] | ends the run's calls when its time is used up |
//! | [`Warm`] | lets one of several calls with the same long beginning go first, so that the rest read it from the cache |
//! | [`Retry`] | tries again what may succeed later |
//! | [`Limit`] | bounds the calls under way; a 429 holds all of them |
//! | [`Complete`] | brings a reply that stopped early to its end |
//! | [`Budget`] | tokens, money, calls: the worst case is reserved before, so that the limit holds at any width |
//! | [`Chaos`] | fails at random, for rehearsal |
//! | [`Record`] | writes what the provider answers to a script, for rehearsal without it |
//!
//! The order is not a matter of taste. The limit stands inside the retry, so that a call that waits for its next attempt
//! does not hold a slot, and every attempt respects a pause that another branch has run into. The budget stands next to the
//! provider, so that every request is reserved for itself, whether it is a first attempt, another one or a continuation, and
//! nothing is reserved for a call that only waits for its turn. The journal stands outside of both: what it knows is not
//! sent, and costs nothing.
//!
//! Each is also a method of [`Llm`]; the last one called is the outermost:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> patterns::Result<()> {
//! use patterns::layers::{Meter, Retry};
//! use patterns::{Llm, Reply, Request};
//!
//! let meter = Meter::default();
//! let model = async |request: Request| Ok(Reply::text_of(request.text()));
//! let llm = model.at_most(8).retry(Retry::default()).meter(&meter);
//! llm.ask("hello").await?;
//! assert_eq!(meter.report().total.calls, 1);
//! # Ok(()) }
//! ```

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::error::Result;
use crate::event::Event;
use crate::llm::{Llm, OnText, Request};
use crate::path::Path;
use crate::reply::Reply;

mod budget;
mod chaos;
mod complete;
mod estimate;
mod journal;
mod limit;
mod meter;
mod observe;
mod record;
mod retry;
#[cfg(feature = "tracing")]
mod spans;
mod warm;
mod window;

pub use budget::{Budget, Deadline, Spent};
pub use chaos::Chaos;
pub use complete::Complete;
pub use journal::{Effect, Journal, Pending};
pub use limit::Limit;
pub use meter::{Line, Meter, Report};
pub use observe::Observe;
pub use record::Record;
pub use retry::Retry;
#[cfg(feature = "tracing")]
pub use spans::Spans;
pub use warm::Warm;

/// The layers of a run: what [`standard`] puts round a model.
///
/// ```
/// use patterns::layers::{Budget, Limit, Options, standard};
/// use patterns::price::Usd;
/// use patterns::{Reply, Request};
///
/// # fn main() -> patterns::Result<()> {
/// let options = Options {
///     budget: Some(Budget::default().usd(Usd::new(5.0)).calls(200)),
///     limit: Some(Limit::at_most(8)),
///     ..Options::default()
/// };
/// let meter = options.meter.clone();
/// let llm = standard(async |request: Request| Ok(Reply::text_of(request.text())), options);
/// // … run flows with `&llm` …
/// println!("{}", meter.report().total);
/// # let _ = llm;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Hears what happens. Default: nobody.
    pub observe: Option<Observe>,
    /// Adds up usage and cost; keep a clone to read it. Default: a meter with the built-in prices.
    pub meter: Meter,
    /// Writes down every reply and answers from what is written. Default: none.
    pub journal: Option<Journal>,
    /// Bounds what the run may use. Default: nothing does.
    pub budget: Option<Budget>,
    /// Lets one of several calls with the same beginning go first. Default: none does.
    pub warm: Option<Warm>,
    /// Tries again. Default: four times.
    pub retry: Option<Retry>,
    /// Bounds the calls under way. Default: 4.
    pub limit: Option<Limit>,
    /// Brings replies to their end. Default: as [`Complete`] says.
    pub complete: Option<Complete>,
    /// Fails at random. Default: nothing does.
    pub chaos: Option<Chaos>,
    /// Writes down what the provider answers, as a script. Default: none.
    pub record: Option<Record>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            observe: None,
            meter: Meter::default(),
            journal: None,
            budget: None,
            warm: None,
            retry: Some(Retry::default()),
            limit: Some(Limit::at_most(4)),
            complete: Some(Complete::default()),
            chaos: None,
            record: None,
        }
    }
}

/// Puts the layers of a run round a model, in the order in which they belong; see [the module](self) for the order and its
/// reasons.
pub fn standard<L: Llm>(llm: L, options: Options) -> impl Llm + use<L> {
    let Options { observe, meter, journal, budget, warm, retry, limit, complete, chaos, record } = options;
    let deadline = budget.as_ref().and_then(Budget::deadline);
    llm.layer(record)
        .layer(chaos)
        .layer(budget.map(Budget::without_time)) // which the deadline keeps
        .layer(complete)
        .layer(limit)
        .layer(retry)
        .layer(warm)
        .layer(deadline)
        .layer(journal)
        .layer(meter)
        .layer(observe)
}

/// Something put round the calls of a model; [`Llm::layer`] puts it there.
///
/// State that calls share lives in the layer; cloning the layers of this library shares it, so that one limit or one
/// budget can stand round several models.
pub trait Layer: Send + Sync {
    /// Answers `request`, by `llm` or otherwise.
    fn around<'a>(&'a self, llm: &'a dyn Llm, request: Request) -> BoxFuture<'a, Result<Reply>>;

    /// Hears what a pattern notes, before the layers further in do.
    fn hear(&self, path: &Path, event: &Event) {
        let _ = (path, event);
    }
}

impl<K: Layer + ?Sized> Layer for Arc<K> {
    fn around<'a>(&'a self, llm: &'a dyn Llm, request: Request) -> BoxFuture<'a, Result<Reply>> {
        (**self).around(llm, request)
    }
    fn hear(&self, path: &Path, event: &Event) {
        (**self).hear(path, event);
    }
}

/// `None` is a layer that is not there.
impl<K: Layer> Layer for Option<K> {
    fn around<'a>(&'a self, llm: &'a dyn Llm, request: Request) -> BoxFuture<'a, Result<Reply>> {
        match self {
            Some(layer) => layer.around(llm, request),
            None => llm.call(request),
        }
    }
    fn hear(&self, path: &Path, event: &Event) {
        if let Some(layer) = self {
            layer.hear(path, event);
        }
    }
}

/// A model with a layer round it; made by [`Llm::layer`].
#[derive(Clone)]
pub struct Layered<K, L> {
    layer: K,
    llm: L,
}

impl<K: Layer, L: Llm> Layered<K, L> {
    pub(crate) fn new(layer: K, llm: L) -> Self {
        Self { layer, llm }
    }
}

impl<K: Layer, L: Llm> Llm for Layered<K, L> {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        self.layer.around(&self.llm, request)
    }
    fn note(&self, path: Path, event: Event) {
        self.layer.hear(&path, &event);
        self.llm.note(path, event);
    }
    fn model(&self, request: &Request) -> Option<String> {
        self.llm.model(request)
    }
    fn place(&self) -> Path {
        self.llm.place()
    }
    fn answer_to(&self) -> Option<OnText> {
        self.llm.answer_to()
    }
}

impl<K: fmt::Debug, L> fmt::Debug for Layered<K, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layered").field("layer", &self.layer).finish_non_exhaustive()
    }
}

//! Bounds what a run may use: money, tokens, calls, time.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::Layer;
use super::estimate::prompt_tokens;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::llm::{DEFAULT_MAX_TOKENS, Llm, Request};
use crate::price::{Price, Prices, Terms, Usd};
use crate::reply::{Reply, Usage};
use crate::time::after;

/// Bounds what a run may use: money, tokens, calls, time. What does not fit any more fails with
/// [`OverBudget`](ErrorKind::OverBudget) before it is sent, and the patterns end with what there is.
///
/// Before each request the most that it can use is reserved: its prompt, estimated from its bytes with ample room, at the
/// price of the dearest class (a cache write of an hour costs twice the input), and its `max_tokens` at the price of output.
/// When it has ended, what it really used is counted and the rest is free again; so the sum stays within the limits at any
/// number of calls at once. A call that would fit but for what others have reserved waits until they have ended. A call whose
/// use nobody has told (dropped, connection lost) is counted with all that was reserved for it.
///
/// What a request only points to (a file's id, a URL, what the service's own tools find) is not in its bytes: such calls may
/// use more than was reserved.
///
/// Clones share the budget. Put it next to the provider, inside of the other layers, as [`standard`](super::standard) does.
#[derive(Clone, Debug)]
pub struct Budget {
    usd: Option<Usd>,
    tokens: Option<u64>,
    calls: Option<u64>,
    time: Option<Duration>,
    prices: Arc<Prices>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    ledger: Mutex<Ledger>,
    settled: Notify,
    ends: OnceLock<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ledger {
    spent: Amount,
    reserved: Amount,
    lost: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Amount {
    usd: Usd,
    tokens: u64,
    calls: u64,
}

impl Amount {
    fn add(&mut self, other: Self) {
        self.usd += other.usd;
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.calls += other.calls;
    }

    fn take(&mut self, other: Self) {
        self.usd = self.usd - other.usd;
        self.tokens = self.tokens.saturating_sub(other.tokens);
        self.calls -= other.calls;
    }
}

/// What of a [`Budget`] is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Spent {
    /// What ended calls cost. Counted only when the budget has a limit in USD.
    pub usd: Usd,
    /// The tokens that they used, prompt and reply. Counted only when the budget has a limit in USD or tokens.
    pub tokens: u64,
    /// The requests that were sent, those under way included.
    pub calls: u64,
    /// Of these, the ones whose use nobody has told, and which are counted with the most that they can have used.
    pub lost: u64,
    /// What is reserved for calls under way.
    pub reserved_usd: Usd,
    /// The tokens that are reserved for calls under way.
    pub reserved_tokens: u64,
}

impl Default for Budget {
    /// A budget without limits, with the built-in prices.
    fn default() -> Self {
        Self {
            usd: None,
            tokens: None,
            calls: None,
            time: None,
            prices: Prices::builtin(),
            state: Arc::default(),
        }
    }
}

impl Budget {
    /// At most so much money. Calls of a model whose price is not known are refused.
    #[must_use]
    pub fn usd(mut self, most: Usd) -> Self {
        self.usd = Some(most);
        self
    }

    /// At most so many tokens, of prompts and replies together.
    #[must_use]
    pub fn tokens(mut self, most: u64) -> Self {
        self.tokens = Some(most);
        self
    }

    /// At most so many requests; retries and continuations count.
    #[must_use]
    pub fn calls(mut self, most: u64) -> Self {
        self.calls = Some(most);
        self
    }

    /// At most so much time from the first call on. Calls that are under way then are dropped.
    #[must_use]
    pub fn time(mut self, most: Duration) -> Self {
        self.time = Some(most);
        self
    }

    /// The same budget, but for its time.
    pub(super) fn without_time(mut self) -> Self {
        self.time = None;
        self
    }

    /// The prices to count with. Default: the built-in ones.
    #[must_use]
    pub fn prices(mut self, prices: Arc<Prices>) -> Self {
        self.prices = prices;
        self
    }

    /// Whether calls of this model, named `provider:model`, can be held to the budget. To be asked before a run.
    ///
    /// # Errors
    /// [`Config`](ErrorKind::Config) when there is a limit in USD and the model's price is not known.
    pub fn check(&self, model: &str) -> Result<()> {
        match self.usd {
            Some(_) => self.price(Some(model)).map(|_| ()),
            None => Ok(()),
        }
    }

    /// What is used so far.
    pub fn spent(&self) -> Spent {
        let Ledger { spent, reserved, lost } = *self.state.ledger();
        Spent {
            usd: spent.usd,
            tokens: spent.tokens,
            calls: spent.calls + reserved.calls,
            lost,
            reserved_usd: reserved.usd,
            reserved_tokens: reserved.tokens,
        }
    }

    /// The budget's time as a layer of its own, to stand outside of layers that wait; `None` when it has no limit of time.
    pub fn deadline(&self) -> Option<Deadline> {
        self.time.map(|_| Deadline(self.clone()))
    }

    fn price(&self, model: Option<&str>) -> Result<&Price> {
        model.and_then(|model| self.prices.get(model)).ok_or_else(|| {
            let model = model.unwrap_or("a model without a name");
            Error::new(
                ErrorKind::Config,
                format!(
                    "the price of `{model}` is not known, so that no budget in USD can be kept; \
                     give its price in a prices file, or limit tokens or calls instead"
                ),
            )
        })
    }

    /// The most that the request can use.
    fn worst(&self, request: &Request, price: Option<&Price>) -> Amount {
        if self.usd.is_none() && self.tokens.is_none() {
            return Amount { calls: 1, ..Amount::default() };
        }
        let prompt = prompt_tokens(request);
        let reply = u64::from(request.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS));
        Amount {
            usd: price.map_or(Usd::ZERO, |price| price.at_most(prompt, reply, Terms::of(request))),
            tokens: prompt + reply,
            calls: 1,
        }
    }

    /// Reserves `amount`, as soon as it fits.
    async fn reserve(&self, amount: Amount, request: &Request) -> Result<()> {
        self.time_left()?;
        if self.try_reserve(amount)? {
            return Ok(());
        }
        request.tell_with(|| Event::Waiting { why: "room in the budget".to_owned(), seconds: None });
        let room = async {
            loop {
                let mut settled = pin!(self.state.settled.notified());
                settled.as_mut().enable(); // before looking again, so that no settlement is missed
                if self.try_reserve(amount)? {
                    return Ok(());
                }
                settled.await;
            }
        };
        self.in_time(room).await
    }

    /// Whether the amount is reserved; `false` when it may fit later.
    fn try_reserve(&self, amount: Amount) -> Result<bool> {
        let mut ledger = self.state.ledger();
        let Ledger { spent, reserved, .. } = *ledger;
        if self.calls.is_some_and(|most| spent.calls + reserved.calls >= most) {
            return Err(over(format_args!("{} calls", self.calls.unwrap_or_default()), "all are made"));
        }
        if let Some(most) = self.usd
            && spent.usd + amount.usd > most
        {
            let state = format!("{} is spent and this call may cost {}", spent.usd, amount.usd);
            return Err(over(most, &state));
        }
        if let Some(most) = self.tokens
            && spent.tokens.saturating_add(amount.tokens) > most
        {
            let state = format!("{} are used and this call may use {}", spent.tokens, amount.tokens);
            return Err(over(format_args!("{most} tokens"), &state));
        }
        let mut all = spent;
        all.add(reserved);
        all.add(amount);
        if self.usd.is_some_and(|most| all.usd > most) || self.tokens.is_some_and(|most| all.tokens > most) {
            return Ok(false);
        }
        ledger.reserved.add(amount);
        Ok(true)
    }

    /// When the time is used up; an error if it is.
    fn time_left(&self) -> Result<Option<Instant>> {
        let ends = self.time.map(|time| *self.state.ends.get_or_init(|| after(time)));
        if ends.is_some_and(|ends| Instant::now() >= ends) { Err(self.too_late()) } else { Ok(ends) }
    }

    fn too_late(&self) -> Error {
        over(format_args!("{:?}", self.time.unwrap_or_default()), "that time has passed")
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match self.time_left()? {
            Some(ends) => timeout_at(ends, work).await.unwrap_or_else(|_| Err(self.too_late())),
            None => work.await,
        }
    }
}

fn over(most: impl fmt::Display, state: &str) -> Error {
    Error::new(
        ErrorKind::OverBudget,
        format!(
            "the run's budget of {most} does not allow another call: {state}; raise the budget, or ask for less"
        ),
    )
}

impl State {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is reserved for a request under way. Dropped before it is settled, all of it counts as spent.
struct Reservation<'a> {
    state: &'a State,
    amount: Amount,
    settled: bool,
}

impl Reservation<'_> {
    fn settle(mut self, used: Option<Amount>) {
        self.end(used);
    }

    fn end(&mut self, used: Option<Amount>) {
        self.settled = true;
        let mut ledger = self.state.ledger();
        ledger.reserved.take(self.amount);
        ledger.lost += u64::from(used.is_none());
        ledger.spent.add(used.unwrap_or(self.amount));
        drop(ledger);
        self.state.settled.notify_waiters();
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.end(None);
        }
    }
}

/// What a request is known to have used; `None` when nobody knows.
fn usage_of(result: &Result<Reply>, free: bool) -> Option<Usage> {
    match result {
        // a provider that does not tell what was used
        Ok(reply) if reply.usage == Usage::default() && !free => None,
        Ok(reply) => Some(reply.usage),
        Err(error) if was_refused(error) => Some(error.usage().copied().unwrap_or_default()),
        Err(_) if free => Some(Usage::default()),
        Err(_) => None,
    }
}

/// Whether the service turned the request away before it worked on it, which costs nothing. A broken connection or a stream
/// that ended early says nothing of the kind.
fn was_refused(error: &Error) -> bool {
    error.partial().is_none()
        && (error.status().is_some_and(|status| status >= 400)
            || matches!(
                error.kind(),
                ErrorKind::Config
                    | ErrorKind::InvalidRequest
                    | ErrorKind::Authentication
                    | ErrorKind::Permission
                    | ErrorKind::NotFound
                    | ErrorKind::RateLimited
                    | ErrorKind::Unscripted
            ))
}

impl Layer for Budget {
    fn around<'a>(&'a self, llm: &'a dyn Llm, request: Request) -> BoxFuture<'a, Result<Reply>> {
        async move {
            let terms = Terms::of(&request);
            let model = llm.model(&request);
            let price = match (self.usd, &model) {
                (Some(_), _) => Some(self.price(model.as_deref()).map_err(|error| error.at(&request.path))?),
                (None, Some(model)) => self.prices.get(model),
                (None, None) => None,
            };
            let free = price.is_some_and(Price::is_free);
            let amount = self.worst(&request, price);
            let path = request.path.clone();
            self.reserve(amount, &request).await.map_err(|error| error.at(&path))?;
            let reservation = Reservation { state: &self.state, amount, settled: false };
            let result = self.in_time(llm.call(request)).await;
            let used = usage_of(&result, free).map(|usage| {
                let price = match &result {
                    Ok(reply) if model.as_ref() != Some(&reply.model) => {
                        self.prices.get(&reply.model).or(price)
                    }
                    _ => price,
                };
                Amount {
                    usd: price.map_or(Usd::ZERO, |price| price.cost(&usage, terms)),
                    tokens: usage.total_tokens(),
                    calls: 1,
                }
            });
            reservation.settle(used);
            result.map_err(|error| error.at(&path))
        }
        .boxed()
    }
}

/// The time of a [`Budget`] as a layer; made by [`Budget::deadline`].
#[derive(Clone, Debug)]
pub struct Deadline(Budget);

impl Layer for Deadline {
    fn around<'a>(&'a self, llm: &'a dyn Llm, request: Request) -> BoxFuture<'a, Result<Reply>> {
        async move {
            let path = request.path.clone();
            self.0.in_time(llm.call(request)).await.map_err(|error| error.at(&path))
        }
        .boxed()
    }
}

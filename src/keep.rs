//! Keeping a run in hand: budget, journal, limits, rehearsal, and stopping it.

use std::collections::HashSet;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::{Args, ValueHint};
use futures::future::{BoxFuture, FutureExt};
use patterns::file::Size;
use patterns::layers::{self, Budget, Chaos, Journal, Layer, Limit, Meter, Observe, Record, Retry, Warm};
use patterns::price::{Prices, Terms, Usd};
use patterns::providers::Connection;
use patterns::{
    Calls, DEFAULT_MAX_TOKENS, Error, ErrorKind, Event, Llm, Path, Reply, Request, Result, Usage, connect,
    connect_default,
};

use crate::terminal::say;

/// What bounds a run, what it is written to, and what goes wrong in it on purpose.
#[derive(Debug, Args)]
#[command(next_help_heading = "Keeping it in hand")]
pub(crate) struct Keep {
    /// Spend at most this much; the worst case of each call is reserved before it starts
    #[arg(long, value_name = "USD", value_parser = dollars, allow_negative_numbers = true)]
    max_usd: Option<f64>,

    /// Use at most so many tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,

    /// Make at most so many calls
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_calls: Option<u64>,

    /// Take at most so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    max_seconds: Option<u64>,

    /// Write every answer to this file, and take from it what an earlier run with it has answered already
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) resume: Option<PathBuf>,

    /// How often a call that may succeed later is tried again
    #[arg(long, value_name = "N", default_value_t = 4)]
    retries: u32,

    /// Send at most so many requests a minute
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    per_minute: Option<u64>,

    /// Prices to use beside the built-in ones
    #[arg(long, value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    prices: Option<PathBuf>,

    /// Write all replies to a script, for `--model script:FILE`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    record: Option<PathBuf>,

    /// Let calls go wrong at random, for rehearsal: 429:0.2,truncate:0.1,refuse:0.05,slow:2s,reset:0.1
    #[arg(long, value_name = "FAULTS")]
    chaos: Option<Chaos>,

    /// The seed of the chaos
    #[arg(long, value_name = "N", default_value_t = 0, requires = "chaos")]
    seed: u64,
}

fn dollars(text: &str) -> Result<f64, String> {
    match text.trim_start_matches('$').parse::<f64>() {
        Ok(usd) if usd > 0.0 && usd.is_finite() => Ok(usd),
        _ => Err("must be an amount in US dollars above 0, as in 0.50".to_owned()),
    }
}

/// What can be asked of a run while and after it runs.
pub(crate) struct Hand {
    pub(crate) meter: Meter,
    pub(crate) stop: Stop,
}

/// The tokens of a reply, and of what it is made from, that a cost is guessed by.
const USUAL: u64 = 500;
/// What the patterns add to a prompt at most, in tokens: how to answer, labels, tags.
const ADDED: u64 = 2_000;

impl Keep {
    /// The prices: the built-in ones and those of the user's file.
    pub(crate) fn prices(&self) -> Result<Arc<Prices>> {
        match &self.prices {
            Some(file) => Ok(Arc::new((*Prices::builtin()).clone().with_file(file)?)),
            None => Ok(Prices::builtin()),
        }
    }

    /// What a run will cost, and the most that it can cost, in words; nothing where the model is not known.
    pub(crate) fn cost(
        &self,
        model: Option<&str>,
        calls: Calls,
        size: &Size,
        input: &str,
    ) -> Result<Option<String>> {
        let connection = model.map_or_else(|| connect_default().map(|(connection, _)| connection), connect);
        let Ok(connection) = connection else { return Ok(None) };
        let (Some(expected), Some(most)) = (calls.expected, calls.most) else { return Ok(None) };
        let prices = self.prices()?;
        let named =
            size.models.iter().map(|model| Request { model: Some(model.clone()), ..Request::default() });
        let models = std::iter::once(Request::default()).chain(named);
        let models: Vec<String> = models.filter_map(|request| connection.model(&request)).collect();
        let mut costs = Vec::new();
        // usual texts have four bytes to a token, and none has more than a token to a byte
        let bytes = (size.words + input.len()) as u64;
        let reply = u64::from(size.max_tokens.max(DEFAULT_MAX_TOKENS));
        for model in &models {
            let Some(price) = prices.get(model) else {
                return Ok(Some(format!("what {model} costs is not known; add it with --prices")));
            };
            let usage = Usage { input_tokens: bytes / 4 + USUAL, output_tokens: USUAL, ..Usage::default() };
            let usual = price.cost(&usage, Terms::default()).dollars() * expected as f64;
            costs.push((price.run_at_most(most, bytes + ADDED, reply).dollars(), usual, model));
        }
        let Some((most, usual, model)) = costs.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)) else {
            return Ok(None);
        };
        Ok(Some(format!(
            "about ${usual:.4} with {model}, if prompts and replies have some {USUAL} tokens\n\
             at most ${most:.2}: every reply cut at {reply} tokens and asked for again with twice the room, every prompt \
             with all replies before it; --max-usd sets a limit"
        )))
    }

    /// Puts the layers that are asked for round a model.
    pub(crate) fn round(
        &self,
        connection: Connection,
        at_once: u32,
        journal: Option<Journal>,
        observe: Observe,
    ) -> Result<(impl Llm + use<>, Hand)> {
        let prices = self.prices()?;
        let budget = self.budget(&prices)?;
        if let (Some(budget), Some(model)) = (&budget, connection.model(&Request::default())) {
            budget.check(&model)?;
        }
        let hand = Hand { meter: Meter::new(prices), stop: Stop::default() };
        let mut limit = Limit::at_most(at_once as usize);
        if let Some(n) = self.per_minute {
            limit = limit.requests_per_minute(n);
        }
        let options = layers::Options {
            observe: Some(observe),
            meter: hand.meter.clone(),
            journal,
            budget,
            warm: Some(Warm::default()),
            retry: Some(Retry::times(self.retries)),
            limit: Some(limit),
            chaos: self.chaos.clone().map(|chaos| chaos.seed(self.seed)),
            record: self.record.as_ref().map(Record::create).transpose()?,
            ..layers::Options::default()
        };
        Ok((layers::standard(connection.layer(hand.stop.clone()), options), hand))
    }

    /// The time that a run may take.
    pub(crate) fn time(&self) -> Option<Duration> {
        self.max_seconds.map(Duration::from_secs)
    }

    fn budget(&self, prices: &Arc<Prices>) -> Result<Option<Budget>> {
        if self.max_usd.is_none()
            && self.max_tokens.is_none()
            && self.max_calls.is_none()
            && self.max_seconds.is_none()
        {
            return Ok(None);
        }
        let mut budget = Budget::default().prices(prices.clone());
        if let Some(usd) = self.max_usd {
            budget = budget.usd(Usd::new(usd));
        }
        if let Some(tokens) = self.max_tokens {
            budget = budget.tokens(tokens);
        }
        if let Some(calls) = self.max_calls {
            budget = budget.calls(calls);
        }
        if let Some(time) = self.time() {
            budget = budget.time(time);
        }
        Ok(Some(budget))
    }
}

/// Lets no further request start once it is thrown; those under way come to their end, as do tools.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<Switch>);

#[derive(Debug, Default)]
struct Switch {
    thrown: AtomicBool,
    under_way: AtomicUsize,
    /// The tools of agents that run now, by the path of their turn and the id of their call.
    tools: Mutex<HashSet<(String, String)>>,
}

/// A request under way.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Stop {
    pub(crate) fn is_thrown(&self) -> bool {
        self.0.thrown.load(Ordering::Relaxed)
    }

    /// Runs to the end, or to the second Ctrl-C.
    pub(crate) async fn until_ctrl_c<T>(
        &self,
        run: impl Future<Output = Result<T>>,
        beside: impl Fn(&dyn Fn()),
    ) -> Result<T> {
        tokio::select! {
            biased; // a Ctrl-C is listened to before the first call is made
            () = self.at_ctrl_c(beside) => Err(Error::new(ErrorKind::Cancelled, "interrupted")),
            result = run => result,
        }
    }

    /// Throws the switch at the first Ctrl-C, and comes back at the second.
    async fn at_ctrl_c(&self, beside: impl Fn(&dyn Fn())) {
        if tokio::signal::ctrl_c().await.is_err() {
            return std::future::pending().await;
        }
        self.0.thrown.store(true, Ordering::Relaxed);
        let counts = [(self.0.under_way.load(Ordering::Relaxed), "call"), (self.0.tools().len(), "tool")];
        let under_way: Vec<String> = counts
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| if n == 1 { format!("the {what}") } else { format!("the {n} {what}s") })
            .collect();
        let may_end = if under_way.is_empty() {
            "no call is under way".to_owned()
        } else {
            format!("{} under way may end", under_way.join(" and "))
        };
        // listened to before it is offered: what came in between would be lost
        let mut again = pin!(tokio::signal::ctrl_c());
        let at_once = again.as_mut().now_or_never().is_some();
        beside(&|| say(&format!("interrupted: {may_end}, no other starts; once more ends at once")));
        if !at_once {
            let _ = again.await;
        }
    }
}

impl Switch {
    fn tools(&self) -> MutexGuard<'_, HashSet<(String, String)>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Layer for Stop {
    fn hear(&self, path: &Path, event: &Event) {
        let key = |id: &String| (path.to_string(), id.clone());
        match event {
            Event::ToolCall { id, .. } => _ = self.0.tools().insert(key(id)),
            Event::ToolResult { id, .. } => _ = self.0.tools().remove(&key(id)),
            _ => {}
        }
    }

    fn around<'a>(&'a self, llm: &'a dyn Llm, request: Request) -> BoxFuture<'a, Result<Reply>> {
        if self.is_thrown() {
            let error =
                Error::new(ErrorKind::Cancelled, "interrupted before the call was made").at(&request.path);
            return async move { Err(error) }.boxed();
        }
        async move {
            self.0.under_way.fetch_add(1, Ordering::Relaxed);
            let _ends = UnderWay(&self.0.under_way);
            llm.call(request).await
        }
        .boxed()
    }
}

//! Fails at random, for rehearsal.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hasher;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use siphasher::sip::SipHasher13;
use tokio::time::sleep;

use super::Layer;
use crate::error::{Error, ErrorKind, Result};
use crate::llm::{Llm, Request};
use crate::message::Block;
use crate::reply::{Reply, Stop};

/// Fails at random, round any model: how a flow takes it can be seen before a service does it.
///
/// It is read from a text such as `429:0.2,529:0.1,truncate:0.1,refuse:0.05,reset:0.1,slow:2s`: what goes wrong, and with
/// which probability; together at most 1.
///
/// | name | what happens |
/// |---|---|
/// | `429`, `529`, `500` … | the call fails with this HTTP status and is not sent; 429 asks to wait one second |
/// | `reset` | the connection breaks and the call is not sent |
/// | `refuse` | the model refuses, and is not asked |
/// | `truncate` | half of the reply is cut off, as at `max_tokens` |
/// | `slow:TIME` | every call takes this much longer: `2s`, `300ms` |
///
/// What befalls a call depends on the seed, its place in the flow and its attempt, not on the order in which calls start: a
/// rehearsal can be repeated.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use patterns::layers::Chaos;
/// use patterns::{ErrorKind, Llm, Reply, Request};
///
/// let model = async |request: Request| Ok(Reply::text_of(request.text()));
/// let llm = model.chaos("refuse:1".parse::<Chaos>()?.seed(7));
/// assert_eq!(llm.ask("hello").await.unwrap_err().kind(), ErrorKind::Refused);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Chaos {
    faults: Vec<(Fault, f64)>,
    slow: Duration,
    seed: u64,
    attempts: Arc<Mutex<HashMap<u64, u64>>>,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Status(u16),
    Reset,
    Refuse,
    Truncate,
}

impl Chaos {
    /// Another sequence of faults. Default: 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What befalls this attempt of this call.
    fn fault(&self, request: &Request) -> Option<Fault> {
        // unlike the hasher of the standard library, the same in every version
        let mut hash = SipHasher13::new_with_keys(self.seed, request.sample.into());
        hash.write(request.path.as_str().as_bytes());
        let call = hash.finish();
        let attempt = {
            let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
            let attempt = attempts.entry(call).or_default();
            *attempt += 1;
            *attempt
        };
        hash.write(&attempt.to_le_bytes());
        let mut dice = fastrand::Rng::with_seed(hash.finish()).f64();
        self.faults.iter().find_map(|(fault, probability)| {
            dice -= probability;
            (dice < 0.0).then_some(*fault)
        })
    }
}

impl FromStr for Chaos {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut chaos = Self { faults: Vec::new(), slow: Duration::ZERO, seed: 0, attempts: Arc::default() };
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part
                .split_once(':')
                .ok_or_else(|| wrong(part, "it has no `:` with a probability or a time"))?;
            if name == "slow" {
                chaos.slow = time(value).ok_or_else(|| wrong(part, "give a time such as 2s or 300ms"))?;
                continue;
            }
            let fault = match (name, name.parse()) {
                (_, Ok(status @ (408 | 409 | 429 | 500..=599))) => Fault::Status(status),
                ("reset", _) => Fault::Reset,
                ("refuse", _) => Fault::Refuse,
                ("truncate", _) => Fault::Truncate,
                _ => {
                    let known = "408, 409, 429, 500 to 599, reset, refuse, truncate and slow";
                    return Err(wrong(part, format_args!("there are {known}")));
                }
            };
            let probability = value.parse().ok().filter(|p| (0.0..=1.0).contains(p));
            let probability = probability.ok_or_else(|| wrong(part, "give a probability from 0 to 1"))?;
            chaos.faults.push((fault, probability));
        }
        let sum: f64 = chaos.faults.iter().map(|(_, p)| p).sum();
        if sum > 1.0 + 1e-9 {
            return Err(wrong(
                text,
                format_args!("its probabilities add up to {sum:.2}, which is more than 1"),
            ));
        }
        Ok(chaos)
    }
}

fn wrong(part: &str, why: impl Display) -> Error {
    Error::new(ErrorKind::Config, format!("`{part}` cannot be rehearsed: {why}"))
}

fn time(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s')?, 1.0),
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit).ok()
}

fn failure(status: u16) -> Error {
    let error = |kind, what| Error::new(kind, format!("{what} (rehearsed)")).with_status(status);
    match status {
        429 => error(ErrorKind::RateLimited, "too many requests").with_retry_after(Duration::from_secs(1)),
        529 => error(ErrorKind::Overloaded, "the service is overloaded"),
        _ => error(ErrorKind::Server, "the service failed"),
    }
}

/// The reply without its second half.
fn cut(mut reply: Reply) -> Reply {
    let text = reply.text();
    let half = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    reply.content = vec![Block::text(&text[..half])];
    reply.choice = None;
    reply.stop = Stop::MaxTokens;
    reply
}

impl Layer for Chaos {
    fn around<'a>(&'a self, llm: &'a dyn Llm, request: Request) -> BoxFuture<'a, Result<Reply>> {
        async move {
            if !self.slow.is_zero() {
                sleep(self.slow).await;
            }
            let model = llm.model(&request).unwrap_or_default();
            match self.fault(&request) {
                None => llm.call(request).await,
                Some(Fault::Truncate) => llm.call(request).await.map(cut),
                Some(Fault::Refuse) => {
                    let stop = Stop::Refusal { category: None, explanation: Some("rehearsed".to_owned()) };
                    Ok(Reply { stop, model, ..Reply::default() })
                }
                Some(Fault::Status(status)) => Err(failure(status).with_model(model).at(&request.path)),
                Some(Fault::Reset) => {
                    Err(Error::new(ErrorKind::Connection, "the connection broke (rehearsed)")
                        .with_model(model)
                        .at(&request.path))
                }
            }
        }
        .boxed()
    }
}

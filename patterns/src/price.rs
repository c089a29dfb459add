//! What calls cost: prices as data, amounts of money without rounding.

use std::collections::HashMap;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::path::Path as File;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, ErrorKind, Result};
use crate::llm::Request;
use crate::reply::Usage;

/// An amount in US dollars, exact to the trillionth (up to 18 million dollars, where it stays), so that sums over many
/// calls do not drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(u64);

impl Usd {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many dollars. What is negative or no number counts as nothing.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates, and that is wanted
    pub fn new(dollars: f64) -> Self {
        Self((dollars * 1e12).round() as u64)
    }

    /// The amount as a number of dollars.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

impl Add for Usd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Usd {
    type Output = Self;
    /// What is left; never less than nothing.
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

/// `$12.34`; below a dollar with four digits, below a cent with six.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dollars = self.dollars();
        match self.0 {
            0 => f.write_str("$0"),
            1..10_000_000_000 => write!(f, "${dollars:.6}"),
            10_000_000_000..1_000_000_000_000 => write!(f, "${dollars:.4}"),
            _ => write!(f, "${dollars:.2}"),
        }
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        f64::deserialize(from).map(Self::new)
    }
}

/// The prices of one request by its length, in trillionths of a dollar per token (USD per million tokens × 10⁶).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    input: u64,
    output: u64,
    cache_write_5m: u64,
    cache_write_1h: u64,
    cache_read: u64,
}

/// What a model costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    rates: Rates,
    above: Option<(u64, Rates)>,
    web_search: u64,
    fast: f64,
    us: f64,
    batch: f64,
}

/// What the price of a request depends on besides its tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// It is asked for in fast mode.
    pub fast: bool,
    /// It must be answered in the United States.
    pub us: bool,
    /// It is part of a batch.
    pub batch: bool,
}

impl Terms {
    /// The terms that a request asks for by the fields `speed` and `inference_geo`.
    pub fn of(request: &Request) -> Self {
        let is = |field, word| request.extra.get(field).and_then(|value| value.as_str()) == Some(word);
        Self { fast: is("speed", "fast"), us: is("inference_geo", "us"), batch: false }
    }
}

impl Price {
    /// What this usage costs. Usage of several requests counts as one: where the price depends on the length of a
    /// prompt, the sum may be taken for a long one.
    pub fn cost(&self, usage: &Usage, terms: Terms) -> Usd {
        let rates = self.rates(usage.prompt_tokens());
        let tokens = [
            (usage.input_tokens, rates.input),
            (usage.output_tokens, rates.output),
            (usage.cache_write_5m_tokens, rates.cache_write_5m),
            (usage.cache_write_1h_tokens, rates.cache_write_1h),
            (usage.cache_read_tokens, rates.cache_read),
        ];
        let tokens = tokens.iter().fold(0_u64, |sum, (n, rate)| sum.saturating_add(n.saturating_mul(*rate)));
        self.on(terms, tokens) + Usd(usage.web_searches.saturating_mul(self.web_search))
    }

    /// The most that a request can cost whose prompt and reply have at most so many tokens, in whatever way the prompt
    /// is cached.
    pub fn at_most(&self, prompt: u64, reply: u64, terms: Terms) -> Usd {
        let rates = self.rates(prompt);
        let prompt_rate =
            rates.input.max(rates.cache_write_5m).max(rates.cache_write_1h).max(rates.cache_read);
        let tokens = prompt.saturating_mul(prompt_rate).saturating_add(reply.saturating_mul(rates.output));
        self.on(terms, tokens)
    }

    /// The most that `calls` calls of one run can cost: each prompt holds `prompt` tokens and all earlier replies, and each
    /// reply of `reply` tokens is cut and asked for again with twice the room. Attempts that fail are not counted.
    pub fn run_at_most(&self, calls: u64, prompt: u64, reply: u64) -> Usd {
        let grown = reply.saturating_mul(2);
        let one = |earlier: u64| {
            let prompt = prompt.saturating_add(grown.saturating_mul(earlier));
            self.at_most(prompt, reply, Terms::default()) + self.at_most(prompt, grown, Terms::default())
        };
        // of very many calls, each as the last
        let counted = calls.min(10_000);
        let first: Usd = (0..counted).map(one).sum();
        let last = one(calls.saturating_sub(1));
        first + Usd(last.0.saturating_mul(calls - counted))
    }

    /// Whether it costs nothing, whatever is used.
    pub fn is_free(&self) -> bool {
        let most = |rates: &Rates| {
            rates.input
                + rates.output
                + rates.cache_write_5m
                + rates.cache_write_1h
                + rates.cache_read
                + self.web_search
        };
        most(&self.rates) == 0 && self.above.as_ref().is_none_or(|(_, rates)| most(rates) == 0)
    }

    fn rates(&self, prompt: u64) -> &Rates {
        match &self.above {
            Some((limit, above)) if prompt > *limit => above,
            _ => &self.rates,
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` saturates, and that is wanted
    fn on(&self, terms: Terms, cost: u64) -> Usd {
        if terms == Terms::default() {
            return Usd(cost);
        }
        let factor = |on: bool, by: f64| if on { by } else { 1.0 };
        let by = factor(terms.fast, self.fast) * factor(terms.us, self.us) * factor(terms.batch, self.batch);
        Usd((cost as f64 * by).ceil() as u64)
    }
}

/// The prices of many models, by `provider:model`.
///
/// ```
/// use patterns::price::{Prices, Terms, Usd};
/// use patterns::Usage;
///
/// let prices = Prices::builtin();
/// let usage = Usage { input_tokens: 24, output_tokens: 14, ..Usage::default() };
/// let cost = prices.cost("anthropic:claude-opus-5-5", &usage, Terms::default());
/// assert_eq!(cost, Some(Usd::new(0.000_376)));
/// assert_eq!(prices.cost("openai:who-knows", &usage, Terms::default()), None); // unknown is not zero
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    models: HashMap<String, Price>,
    source: String,
    date: String,
}

impl Prices {
    /// The prices that come with the library; [`source`](Self::source) and [`date`](Self::date) say where they are from.
    pub fn builtin() -> Arc<Self> {
        static BUILTIN: LazyLock<Arc<Prices>> = LazyLock::new(|| {
            let empty = Prices { models: HashMap::new(), source: String::new(), date: String::new() };
            // a test reads the file, so that there is nothing to go wrong here
            Arc::new(empty.with_toml(include_str!("prices.toml")).unwrap_or(empty))
        });
        Arc::clone(&BUILTIN)
    }

    /// These prices with those of a TOML text put over them, model by model.
    ///
    /// # Errors
    /// [`Config`](ErrorKind::Config) when the text is not of the form of the built-in `prices.toml`.
    pub fn with_toml(&self, text: &str) -> Result<Self> {
        let mut prices = self.clone();
        let table: Table = toml::from_str(text).map_err(|error| {
            Error::new(ErrorKind::Config, format!("the prices cannot be read: {}", error.message()))
                .with_source(error)
        })?;
        for (model, entry) in table.models {
            let price = entry.price().map_err(|what| {
                Error::new(
                    ErrorKind::Config,
                    format!("the price of `{model}` cannot be used: {what}; give USD per million tokens"),
                )
            })?;
            prices.models.insert(model, price);
        }
        if !table.source.is_empty() {
            prices.source = table.source;
        }
        if !table.date.is_empty() {
            prices.date = table.date;
        }
        Ok(prices)
    }

    /// As [`with_toml`](Self::with_toml), from a file.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) when the file cannot be read, and those of [`with_toml`](Self::with_toml).
    pub fn with_file(&self, file: impl AsRef<File>) -> Result<Self> {
        let file = file.as_ref();
        let text = std::fs::read_to_string(file).map_err(|error| {
            let message = format!("the prices in {} cannot be read: {error}", file.display());
            Error::new(ErrorKind::Io, message).with_source(error)
        })?;
        self.with_toml(&text)
    }

    /// The price of a model, named `provider:model`. A name with the date of a release (`…-20251101`) stands for the
    /// model, and `provider:*` for all of a provider's.
    pub fn get(&self, model: &str) -> Option<&Price> {
        if let Some(price) = self.models.get(model) {
            return Some(price);
        }
        if let Some((name, date)) = model.rsplit_once(['-', '@'])
            && date.len() == 8
            && date.bytes().all(|b| b.is_ascii_digit())
            && let Some(price) = self.models.get(name)
        {
            return Some(price);
        }
        let (provider, _) = model.split_once(':').unwrap_or((model, ""));
        self.models.get(&format!("{provider}:*"))
    }

    /// What this usage of a model costs; `None` when its price is not known.
    pub fn cost(&self, model: &str, usage: &Usage, terms: Terms) -> Option<Usd> {
        Some(self.get(model)?.cost(usage, terms))
    }

    /// Where the prices are from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The day of which they are, as `2026-11-30`.
    pub fn date(&self) -> &str {
        &self.date
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    source: String,
    #[serde(default)]
    date: String,
    #[serde(default)]
    models: HashMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    input: f64,
    output: f64,
    cache_write_5m: Option<f64>,
    cache_write_1h: Option<f64>,
    cache_read: Option<f64>,
    above: Option<Above>,
    #[serde(default)]
    web_search: f64,
    #[serde(default = "one")]
    fast: f64,
    #[serde(default = "one")]
    us: f64,
    #[serde(default = "one")]
    batch: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Above {
    prompt: u64,
    input: f64,
    output: f64,
    cache_write_5m: Option<f64>,
    cache_write_1h: Option<f64>,
    cache_read: Option<f64>,
}

fn one() -> f64 {
    1.0
}

impl Entry {
    fn price(&self) -> Result<Price, String> {
        let caches = [self.cache_write_5m, self.cache_write_1h, self.cache_read];
        let above = match &self.above {
            Some(a) => {
                let caches = [a.cache_write_5m, a.cache_write_1h, a.cache_read];
                Some((a.prompt, rates(a.input, a.output, caches)?))
            }
            None => None,
        };
        if let Some(factor) =
            [self.fast, self.us, self.batch].into_iter().find(|f| !(0.0..=100.0).contains(f))
        {
            return Err(format!("{factor} is no factor from 0 to 100"));
        }
        Ok(Price {
            rates: rates(self.input, self.output, caches)?,
            above,
            web_search: per_token(self.web_search * 1e3)?,
            fast: self.fast,
            us: self.us,
            batch: self.batch,
        })
    }
}

fn rates(input: f64, output: f64, caches: [Option<f64>; 3]) -> Result<Rates, String> {
    let [write_5m, write_1h, read] = caches.map(|rate| per_token(rate.unwrap_or(input)));
    Ok(Rates {
        input: per_token(input)?,
        output: per_token(output)?,
        cache_write_5m: write_5m?,
        cache_write_1h: write_1h?,
        cache_read: read?,
    })
}

/// USD per million tokens as trillionths of a dollar per token.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the range is checked
fn per_token(usd_per_million: f64) -> Result<u64, String> {
    if (0.0..=1e9).contains(&usd_per_million) {
        Ok((usd_per_million * 1e6).round() as u64)
    } else {
        Err(format!("{usd_per_million} is no price"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(model: &str, usage: Usage) -> f64 {
        Prices::builtin().cost(model, &usage, Terms::default()).unwrap().dollars()
    }

    #[test]
    fn the_built_in_prices_can_be_read_and_say_where_they_are_from() {
        let prices = Prices::builtin();
        assert_eq!(prices.models.len(), 17);
        assert_eq!(prices.date(), "2026-11-30");
        assert!(prices.source().contains("litellm"));
        for (model, price) in &prices.models {
            if model.starts_with("anthropic:") {
                assert_eq!(price.rates.cache_write_1h, 2 * price.rates.input, "{model}");
                assert_eq!(price.batch, 0.5, "{model}");
            }
        }
    }

    #[test]
    fn every_class_of_tokens_has_its_own_price() {
        let million = |usage| cost("anthropic:claude-sonnet-5-5", usage);
        assert_eq!(million(Usage { input_tokens: 1_000_000, ..Usage::default() }), 2.0);
        assert_eq!(million(Usage { output_tokens: 1_000_000, ..Usage::default() }), 10.0);
        assert_eq!(million(Usage { cache_write_5m_tokens: 1_000_000, ..Usage::default() }), 2.5);
        assert_eq!(million(Usage { cache_write_1h_tokens: 1_000_000, ..Usage::default() }), 4.0);
        assert_eq!(million(Usage { cache_read_tokens: 1_000_000, ..Usage::default() }), 0.1);
        assert_eq!(million(Usage { web_searches: 1_000, ..Usage::default() }), 10.0);
    }

    #[test]
    fn a_long_prompt_costs_more_as_a_whole_cached_or_not() {
        let haiku = "anthropic:claude-haiku-5-5";
        let short = Usage { input_tokens: 100_000, output_tokens: 1_000, ..Usage::default() };
        assert_eq!(cost(haiku, short), 0.0105);
        let long =
            Usage { input_tokens: 1, cache_read_tokens: 100_000, output_tokens: 1_000, ..Usage::default() };
        assert_eq!(cost(haiku, long), 0.0075005);
    }

    #[test]
    fn terms_multiply_and_are_read_from_the_request() {
        let mut request = Request::new("hi");
        assert_eq!(Terms::of(&request), Terms::default());
        request.extra.insert("speed".into(), "fast".into());
        request.extra.insert("inference_geo".into(), "us".into());
        let terms = Terms::of(&request);
        let usage = Usage { input_tokens: 1_000_000, ..Usage::default() };
        let cost = |terms| Prices::builtin().cost("anthropic:claude-opus-5-5", &usage, terms).unwrap();
        assert_eq!(cost(terms).dollars(), 8.8);
        assert_eq!(cost(Terms { batch: true, ..Terms::default() }).dollars(), 2.0);
    }

    #[test]
    fn a_dated_name_is_the_model_and_an_unknown_one_has_no_price() {
        let prices = Prices::builtin();
        assert_eq!(
            prices.get("anthropic:claude-haiku-4-5-20251001"),
            prices.get("anthropic:claude-haiku-4-5")
        );
        assert!(prices.get("anthropic:claude-haiku-4-5").is_some());
        assert_eq!(prices.get("anthropic:claude-haiku-9"), None);
        assert_eq!(prices.get("claude-haiku-4-5"), None);
        let free = prices.get("ollama:anything").unwrap();
        assert_eq!(free.at_most(1_000_000, 1_000_000, Terms::default()), Usd::ZERO);
    }

    #[test]
    fn a_users_file_is_put_over_the_built_in_one() {
        let prices = Prices::builtin()
            .with_toml("[models.\"openai:mine\"]\ninput = 3\noutput = 1.5\n[models.\"anthropic:claude-opus-5-5\"]\ninput = 1\noutput = 1")
            .unwrap();
        let usage = Usage { input_tokens: 10, cache_read_tokens: 10, output_tokens: 100, ..Usage::default() };
        assert_eq!(prices.cost("openai:mine", &usage, Terms::default()), Some(Usd::new(0.000_21)));
        assert_eq!(
            prices.cost("anthropic:claude-opus-5-5", &usage, Terms::default()),
            Some(Usd::new(0.000_12))
        );
        assert!(prices.get("anthropic:claude-sonnet-5-5").is_some());
        for (bad, says) in [
            ("[models.x]\ninput = -1\noutput = 1", "`x` cannot be used: -1 is no price"),
            ("[models.x]\ninput = nan\noutput = 1", "NaN is no price"),
            ("[models.x]\ninput = 1", "missing field `output`"),
            ("[models.x]\ninputs = 1\noutput = 1", "unknown field `inputs`"),
        ] {
            let error = prices.with_toml(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn money_is_written_for_people() {
        let texts = [0.0, 0.000_376, 0.0421, 1.5].map(|dollars| Usd::new(dollars).to_string());
        assert_eq!(texts, ["$0", "$0.000376", "$0.0421", "$1.50"]);
    }
}

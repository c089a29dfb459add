use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, join_all};
use patterns::layers::{Budget, Complete, Retry};
use patterns::price::{Prices, Terms, Usd};
use patterns::{Error, ErrorKind, Llm, Reply, Request, Stop, Usage};
use proptest::prelude::*;
use tokio::time::{Instant, sleep, timeout};

use crate::fake::{Answer, Fake, load, seconds, status, stopped, text};

/// What one call of a random schedule is and does.
#[derive(Clone, Debug)]
struct Plan {
    at: u64,
    latency: u64,
    prompt: usize,
    max_tokens: u32,
    /// The share of the most that it really uses, in percent.
    used: (u64, u64, u64),
    end: End,
    dropped_after: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Ok,
    Cut,
    Refused,
    Broken,
    Overloaded,
}

fn plan() -> impl Strategy<Value = Plan> {
    let end = prop_oneof![
        6 => Just(End::Ok),
        1 => Just(End::Cut),
        1 => Just(End::Refused),
        1 => Just(End::Broken),
        1 => Just(End::Overloaded)
    ];
    (
        0_u64..30,
        0_u64..20,
        1_usize..400,
        1_u32..300,
        (0_u64..=100, 0_u64..=100, 0_u64..=100),
        end,
        prop::option::weighted(0.15, 0_u64..20),
    )
        .prop_map(|(at, latency, prompt, max_tokens, used, end, dropped_after)| Plan {
            at,
            latency,
            prompt,
            max_tokens,
            used,
            end,
            dropped_after,
        })
}

/// What the service really charges: up to the whole prompt, in the dearest class, and the whole reply. A broken connection is
/// charged, too.
#[derive(Default)]
struct Till {
    usd: Usd,
    tokens: u64,
    calls: u64,
}

struct Service {
    plans: Vec<Plan>,
    prices: Arc<Prices>,
    till: Arc<std::sync::Mutex<Till>>,
}

impl Service {
    fn charge(&self, usage: Usage) {
        let mut till = self.till.lock().unwrap();
        till.usd += self.prices.cost("any:model", &usage, Terms::default()).unwrap();
        till.tokens += usage.total_tokens();
    }
}

impl Llm for Service {
    fn call(&self, request: Request) -> BoxFuture<'_, patterns::Result<Reply>> {
        async move {
            let n: usize = request.path.as_str().parse().unwrap();
            let plan = &self.plans[n];
            self.till.lock().unwrap().calls += 1;
            // letters only, so that a token is never less than two of them
            let prompt = plan.prompt as u64 / 2 * plan.used.0 / 100;
            let written = prompt * plan.used.1 / 100;
            let usage = Usage {
                input_tokens: prompt - written,
                cache_write_1h_tokens: written,
                output_tokens: (u64::from(request.max_tokens.unwrap()) * plan.used.2 / 100).max(1),
                ..Usage::default()
            };
            if matches!(plan.end, End::Overloaded) {
                return Err(status(529));
            }
            // a client that goes away is charged for all of it
            self.charge(usage);
            sleep(Duration::from_millis(plan.latency)).await;
            let reply = |stop| Ok(Reply { usage, model: "any:model".into(), ..stopped(stop, "text") });
            match plan.end {
                End::Ok | End::Overloaded => reply(Stop::EndTurn),
                End::Cut => reply(Stop::MaxTokens),
                End::Refused => reply(Stop::Refusal { category: None, explanation: None }),
                End::Broken => Err(Error::new(ErrorKind::Connection, "reset")),
            }
        }
        .boxed()
    }

    fn model(&self, _: &Request) -> Option<String> {
        Some("any:model".into())
    }
}

fn prices(input: f64, output: f64) -> Arc<Prices> {
    let text = format!(
        "[models.\"any:model\"]\ninput = {input}\noutput = {output}\ncache_write_1h = {}",
        2.0 * input
    );
    Arc::new(Prices::builtin().with_toml(&text).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_spent_never_exceeds_the_limit_and_what_is_reserved_goes_back_to_zero(
        plans in prop::collection::vec(plan(), 1..25),
        width in 1_usize..25,
        (input, output) in (0.0_f64..20.0, 0.0_f64..80.0),
        usd in prop::option::of(0.0_f64..0.05),
        tokens in prop::option::of(0_u64..10_000),
        calls in prop::option::of(0_u64..30),
    ) {
        let prices = prices(input, output);
        let mut budget = Budget::default().prices(prices.clone());
        let usd = usd.map(Usd::new);
        if let Some(usd) = usd { budget = budget.usd(usd); }
        if let Some(tokens) = tokens { budget = budget.tokens(tokens); }
        if let Some(calls) = calls { budget = budget.calls(calls); }
        let till = Arc::default();
        let service = Service { plans: plans.clone(), prices, till: Arc::clone(&till) };
        let llm = service.budget(&budget).complete(Complete::default()).at_most(width).retry(Retry::times(2));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let ends = runtime.block_on(join_all(plans.iter().enumerate().map(|(n, plan)| {
            let llm = &llm;
            async move {
                sleep(Duration::from_millis(plan.at)).await;
                let mut request = Request::new("x".repeat(plan.prompt)).at(&n.to_string());
                request.max_tokens = Some(plan.max_tokens);
                match plan.dropped_after {
                    Some(ms) => timeout(Duration::from_millis(ms), llm.call(request)).await.ok(),
                    None => Some(llm.call(request).await),
                }
            }
        })));
        let till = till.lock().unwrap();
        let spent = budget.spent();
        prop_assert!(usd.is_none_or(|most| till.usd <= most), "{} of {usd:?}", till.usd);
        prop_assert!(tokens.is_none_or(|most| till.tokens <= most), "{} of {tokens:?}", till.tokens);
        prop_assert!(calls.is_none_or(|most| till.calls <= most), "{} of {calls:?}", till.calls);
        prop_assert_eq!(spent.reserved_usd, Usd::ZERO);
        prop_assert_eq!(spent.reserved_tokens, 0);
        prop_assert_eq!(spent.calls, till.calls);
        // the budget never knows of less than was charged
        if usd.is_some() {
            prop_assert!(spent.usd >= till.usd);
        }
        if usd.is_none() && tokens.is_none() && calls.is_none() {
            let over = ends.iter().flatten().filter_map(|end| end.as_ref().err());
            prop_assert!(over.into_iter().all(|error| error.kind() != ErrorKind::OverBudget));
        }
    }
}

fn opus(latency: f64) -> Fake {
    Fake::new(move |_, _| Answer::from(Ok(text("done"))).after(seconds(latency)))
}

/// A request that may cost 10 × 8 + 1,000 × 20 millionths of a dollar and a little more.
fn request() -> Request {
    Request { max_tokens: Some(1_000), ..Request::new("?") }
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_what_others_have_reserved_and_do_not_use() {
    let budget = Budget::default().usd(Usd::new(0.05));
    let fake = opus(1.0);
    let seen = fake.seen.clone();
    let llm = fake.budget(&budget);
    let ends = join_all((0..20).map(|_| llm.call(request()))).await;
    assert!(ends.iter().all(Result::is_ok));
    assert_eq!(load(&seen.peak), 2); // two reservations of two cents fit
    assert_eq!(budget.spent().usd, Usd::new(20.0 * 0.000_14));
    assert_eq!(budget.spent().lost, 0);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_any_more_is_over_budget_and_is_not_sent() {
    let fake = opus(0.0);
    let seen = fake.seen.clone();
    let llm = fake.budget(&Budget::default().usd(Usd::new(0.021)));
    let mut ends = Vec::new();
    for _ in 0..10 {
        ends.push(llm.call(request().at("draft")).await);
    }
    let error = ends.pop().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.path().as_str()), (ErrorKind::OverBudget, "draft"));
    assert!(!error.is_transient());
    assert!(
        error
            .to_string()
            .starts_with("draft: the run's budget of $0.0210 does not allow another call: $0.00"),
        "{error}"
    );
    assert!(error.to_string().contains("this call may cost $0.02"), "{error}");
    assert!(load(&seen.calls) < 10);
}

#[tokio::test]
async fn a_budget_in_usd_refuses_a_model_of_unknown_price_and_names_it() {
    let budget = Budget::default().usd(Usd::new(100.0));
    let fake = opus(0.0).model("openai:new");
    let seen = fake.seen.clone();
    let error = fake.budget(&budget).ask("?").await.unwrap_err();
    assert_eq!((error.kind(), load(&seen.calls)), (ErrorKind::Config, 0));
    assert!(error.to_string().contains("`openai:new`"), "{error}");
    assert_eq!(budget.check("openai:new").unwrap_err().kind(), ErrorKind::Config);
    budget.check("ollama:llama").unwrap();
    budget.check(crate::fake::OPUS).unwrap();
    // without a limit in USD no price is needed
    let tokens = Budget::default().tokens(10_000);
    tokens.check("openai:new").unwrap();
    opus(0.0).model("openai:new").budget(&tokens).ask("?").await.unwrap();
    assert_eq!(tokens.spent().tokens, 15);
}

#[tokio::test]
async fn local_models_cost_nothing() {
    let budget = Budget::default().usd(Usd::ZERO);
    for model in ["embedded:qwen", "ollama:llama", "script:replies.jsonl"] {
        opus(0.0).model(model).budget(&budget).ask("?").await.unwrap();
    }
    assert_eq!(opus(0.0).budget(&budget).ask("?").await.unwrap_err().kind(), ErrorKind::OverBudget);
}

#[tokio::test(start_paused = true)]
async fn every_request_counts_as_a_call() {
    let budget = Budget::default().calls(3);
    let fake = Fake::new(|n, _| match n {
        0 => Err(status(500)).into(),
        1 => Ok(stopped(Stop::PauseTurn, "half ")).into(),
        _ => Ok(text("done")).into(),
    });
    let llm = fake.budget(&budget).complete(Complete::default()).retry(Retry::default());
    assert_eq!(llm.ask("?").await.unwrap(), "half done");
    assert_eq!(llm.ask("?").await.unwrap_err().kind(), ErrorKind::OverBudget);
    assert_eq!(budget.spent().calls, 3);
}

#[tokio::test(start_paused = true)]
async fn a_continuation_that_does_not_fit_hands_over_what_there_is() {
    let fake = Fake::new(|_, _| Ok(stopped(Stop::MaxTokens, "half")).into());
    let llm = fake.budget(&Budget::default().calls(1)).complete(Complete::default());
    let error = llm.ask("?").await.unwrap_err();
    assert_eq!((error.kind(), error.partial()), (ErrorKind::OverBudget, Some("half")));
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_use_nobody_knows_is_counted_in_full() {
    for (case, fake) in [
        ("dropped", opus(100.0)),
        ("broken", Fake::new(|_, _| Err(Error::new(ErrorKind::Connection, "reset")).into())),
        (
            "cut stream",
            Fake::new(|_, _| Err(Error::new(ErrorKind::Protocol, "cut").with_partial("ha")).into()),
        ),
        ("no usage", Fake::new(|_, _| Ok(Reply { usage: Usage::default(), ..text("done") }).into())),
    ] {
        let budget = Budget::default().usd(Usd::new(1.0));
        let llm = fake.budget(&budget);
        let _ = timeout(seconds(1.0), llm.call(request())).await;
        let spent = budget.spent();
        assert_eq!((spent.lost, spent.reserved_usd), (1, Usd::ZERO), "{case}");
        assert!(spent.usd >= Usd::new(0.02), "{case}: {}", spent.usd);
    }
    let budget = Budget::default().usd(Usd::new(1.0));
    Fake::new(|_, _| Err(status(429)).into()).budget(&budget).ask("?").await.unwrap_err();
    assert_eq!((budget.spent().lost, budget.spent().usd), (0, Usd::ZERO)); // turned away
}

#[tokio::test(start_paused = true)]
async fn when_the_time_is_over_calls_under_way_are_dropped_and_none_starts() {
    let budget = Budget::default().time(seconds(10.0));
    let fake = opus(4.0);
    let seen = fake.seen.clone();
    // a call that waits for a slot or for its next attempt ends then, too
    let llm = fake.budget(&budget).at_most(1).retry(Retry::default()).layer(budget.deadline());
    let begin = Instant::now();
    let ends = join_all((0..5).map(|_| llm.ask("?"))).await;
    assert_eq!(begin.elapsed().as_secs(), 10);
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 2);
    let kinds = ends.iter().filter_map(|end| end.as_ref().err()).map(patterns::Error::kind);
    assert!(kinds.into_iter().all(|kind| kind == ErrorKind::OverBudget));
    assert_eq!((load(&seen.calls), load(&seen.under_way)), (3, 0));
    let error = llm.ask("?").await.unwrap_err();
    assert!(error.to_string().contains("budget of 10s"), "{error}");
}

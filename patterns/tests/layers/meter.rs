use std::sync::{Arc, Mutex};

use futures::future::join_all;
use patterns::layers::{Complete, Meter, Retry};
use patterns::price::Usd;
use patterns::{Event, Flow, Llm, OnText, Path, Reply, Request, Stop, Under, Usage};

use crate::fake::{Answer, Fake, load, seconds, status, stopped, text};

#[tokio::test(start_paused = true)]
async fn usage_and_cost_are_known_by_model_and_by_place() {
    let meter = Meter::default();
    let opus = Fake::new(|_, _| Ok(text("done")).into()).meter(&meter);
    let haiku = Fake::new(|_, _| Ok(text("done")).into()).model("anthropic:claude-haiku-5-5").meter(&meter);
    let free = Fake::new(|_, _| Ok(text("done")).into()).model("ollama:llama").meter(&meter);
    "a".then("b").run(&opus, "").await.unwrap();
    "a".then("b").run(&haiku, "").await.unwrap();
    "c".run(&free, "").await.unwrap();
    let report = meter.report();
    assert_eq!((report.total.calls, report.total.usage.total_tokens()), (5, 75));
    // 10 in, 5 out: Opus 140, Haiku 3.5 millionths of a dollar
    assert_eq!(report.total.cost(), Some(Usd::new(0.000_287)));
    let models: Vec<_> =
        report.models.iter().map(|(name, line)| (&**name, line.calls, line.priced)).collect();
    assert_eq!(
        models,
        [
            ("anthropic:claude-haiku-5-5", 2, Usd::new(0.000_007)),
            ("anthropic:claude-opus-5-5", 2, Usd::new(0.000_28)),
            ("ollama:llama", 1, Usd::ZERO)
        ]
    );
    let places: Vec<_> = report.places.iter().map(|(path, line)| (path.as_str(), line.calls)).collect();
    assert_eq!(places, [("", 1), ("step 1", 2), ("step 2", 2)]);
    assert_eq!(report.total.to_string(), "5 calls, 50 + 25 tokens, $0.000287");
    assert_eq!(meter.total(), report.total);
}

#[tokio::test]
async fn an_unknown_price_is_unknown_and_never_zero() {
    let meter = Meter::default();
    let llm = Fake::new(|_, _| Ok(text("done")).into());
    llm.meter(&meter).ask("?").await.unwrap();
    Fake::new(|_, _| Ok(text("done")).into()).model("openai:new").meter(&meter).ask("?").await.unwrap();
    let total = meter.total();
    assert_eq!((total.cost(), total.priced, total.unpriced), (None, Usd::new(0.000_14), 1));
    assert_eq!(
        total.to_string(),
        "2 calls (1 of unknown price), 20 + 10 tokens, $0.000140 and more, which is unknown"
    );
}

#[tokio::test(start_paused = true)]
async fn failed_and_repeated_requests_are_counted_with_what_they_used() {
    let meter = Meter::default();
    let used = Usage { input_tokens: 100, ..Usage::default() };
    let fake = Fake::new(move |n, _| match n {
        0 | 4.. => Err(status(529).with_usage(used)).into(),
        1 => Ok(stopped(Stop::PauseTurn, "a")).into(),
        2 => Ok(stopped(Stop::MaxTokens, "b")).into(),
        _ => Ok(text("c")).into(),
    });
    let seen = fake.seen.clone();
    let llm = fake.complete(Complete::default()).retry(Retry::times(1)).meter(&meter);
    llm.ask("?").await.unwrap();
    llm.ask("?").await.unwrap_err();
    let total = meter.total();
    assert_eq!((total.calls, total.sent, total.failed), (2, load(&seen.calls) as u64, 1));
    assert_eq!(total.usage, *seen.usage.lock().unwrap());
    assert_eq!(total.usage.total_tokens(), 345);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_counted_with_what_was_told() {
    let meter = Meter::default();
    let fake = Fake::new(|_, _| {
        let mut answer = Answer::from(Ok(text("done"))).after(seconds(10.0));
        answer.begins = seconds(1.0);
        answer
    });
    let llm = fake.complete(Complete::default()).meter(&meter);
    let streamed = Request { on_text: Some(OnText::new(|_| ())), ..Request::new("?") };
    for request in [streamed, Request::new("?")] {
        let _ = tokio::time::timeout(seconds(5.0), llm.call(request)).await;
    }
    let total = meter.total();
    assert_eq!((total.calls, total.sent, total.cancelled), (2, 2, 2));
    assert_eq!(total.usage, Usage { input_tokens: 10, ..Usage::default() });
    assert_eq!(total.to_string(), "2 calls (2 cancelled), 10 + 0 tokens, at least $0.000040");
    assert_eq!(meter.under_way(), 0);
}

#[tokio::test]
async fn a_hundred_thousand_inputs_do_not_fill_the_memory() {
    let meter = Meter::default();
    let llm = async |request: Request| Ok(Reply::text_of(request.text()));
    let llm = llm.meter(&meter);
    for n in 0..20_000 {
        Under::new(&llm, format!("input {n}")).ask("?").await.unwrap();
    }
    let report = meter.report();
    assert_eq!(report.total.calls, 20_000);
    assert!(report.places.len() < 5_000);
    let rest = report.places.iter().find(|(path, _)| path.as_str() == "input *").unwrap();
    assert_eq!(rest.1.calls, 20_000 - 4_096);
}

#[tokio::test(start_paused = true)]
async fn the_listener_hears_each_call_begin_and_end_and_knows_where() {
    let heard: Arc<Mutex<Vec<(Path, Event)>>> = Arc::default();
    let meter = Meter::default();
    let fake = Fake::new(|n, _| if n == 0 { Err(status(529)) } else { Ok(text("done")) }.into());
    let llm = fake.complete(Complete::default()).retry(Retry::default()).meter(&meter).observe({
        let heard = heard.clone();
        move |path, event| heard.lock().unwrap().push((path.clone(), event.clone()))
    });
    "a".gate("good", |text| text == "done").run(&Under::new(&llm, "main"), "").await.unwrap();
    let heard = heard.lock().unwrap();
    let names: Vec<_> = heard
        .iter()
        .map(|(path, event)| {
            let json = serde_json::to_value(event).unwrap();
            assert_eq!(serde_json::from_value::<Event>(json.clone()).unwrap(), *event);
            format!("{path} {}", json["event"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        names,
        ["main call_started", "main sent", "main retried", "main sent", "main call_ended", "main gate"]
    );
    assert!(matches!(&heard[4].1, Event::CallEnded { cost: Some(_), outcome, .. } if outcome == "ok"));
}

#[tokio::test(start_paused = true)]
async fn sums_are_right_under_concurrency() {
    let meter = Meter::default();
    let fake = Fake::new(|n, _| {
        Answer::from(if n % 7 == 0 { Err(status(400)) } else { Ok(text("done")) })
            .after(seconds((n % 13) as f64))
    });
    let seen = fake.seen.clone();
    let llm = fake.at_most(50).meter(&meter);
    join_all((0..1_000).map(|_| llm.ask("?"))).await;
    let total = meter.total();
    assert_eq!((total.calls, total.failed, total.usage), (1_000, 143, *seen.usage.lock().unwrap()));
}

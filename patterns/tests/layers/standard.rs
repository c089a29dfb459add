use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, join_all};
use futures::task::noop_waker_ref;
use patterns::layers::{
    Budget, Chaos, Journal, Layer, Limit, Meter, Observe, Options, Record, Retry, Warm, standard,
};
use patterns::price::Usd;
use patterns::{ErrorKind, Event, Flow, Llm, OnText, Reply, Request, Result, Under};
use tokio::time::Instant;

use crate::fake::{Answer, Fake, load, seconds, status, text, too_many};

fn everything(dir: &tempfile::TempDir, name: &str) -> Options {
    Options {
        observe: Some(Observe::new(|_, _| ())),
        journal: Some(Journal::open(dir.path().join(format!("{name}.journal"))).unwrap()),
        budget: Some(Budget::default().usd(Usd::new(1_000.0)).time(Duration::from_secs(100_000))),
        warm: Some(Warm::default()),
        limit: Some(Limit::at_most(3).requests_per_minute(1_000)),
        chaos: Some("429:0.1,truncate:0.1".parse::<Chaos>().unwrap().seed(3)),
        record: Some(Record::create(dir.path().join(format!("{name}.script"))).unwrap()),
        ..Options::default()
    }
}

#[tokio::test(start_paused = true)]
async fn the_order_of_the_layers_is_the_documented_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("journal");
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let options = |told: &Arc<Mutex<Vec<String>>>, calls: u64| {
        let told = told.clone();
        Options {
            observe: Some(Observe::new(move |_, event| {
                told.lock()
                    .unwrap()
                    .push(serde_json::to_value(event).unwrap()["event"].as_str().unwrap().into());
            })),
            journal: Some(Journal::open(&file).unwrap()),
            budget: Some(Budget::default().calls(calls)),
            limit: Some(Limit::at_most(1)),
            ..Options::default()
        }
    };
    let fake = Fake::new(|n, _| if n == 0 { Err(too_many(7.0)) } else { Ok(text("done")) }.into());
    let llm = standard(fake, options(&told, 2));
    // the retry is outside of the limit: while one call waits for its next attempt, the other is not kept from a slot by it,
    // but by the pause that holds for both; and the budget counts both attempts
    let begin = Instant::now();
    let ends = join_all(["a", "b"].map(|question| llm.ask(question))).await;
    assert_eq!(begin.elapsed().as_secs(), 7);
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 1);
    let over = ends.into_iter().find_map(Result::err).unwrap();
    assert_eq!(over.kind(), ErrorKind::OverBudget);
    drop(llm);
    // the journal is outside of the budget: what it knows costs no call
    told.lock().unwrap().clear();
    let fake = Fake::new(|_, _| Err(status(500)).into());
    let seen = fake.seen.clone();
    let options = options(&told, 0);
    let meter = options.meter.clone();
    let llm = standard(fake, options);
    let replayed = join_all(["a", "b"].map(|question| llm.ask(question))).await;
    assert_eq!(replayed.iter().filter(|end| end.is_ok()).count(), 1);
    assert_eq!((load(&seen.calls), meter.total().replayed, meter.total().failed), (0, 1, 1));
    // the meter is outside of the journal, the listener outside of the meter
    let told = told.lock().unwrap();
    assert!(told.windows(3).any(|three| three == ["call_started", "replayed", "call_ended"]), "{told:?}");
}

/// A flow with everything that can be under way: a fan-out, a chain, streamed calls.
async fn run(llm: &dyn Llm) -> usize {
    let branches = (0..6).map(|n| async move {
        let llm = Under::new(llm, format!("branch {n}"));
        let request = Request {
            on_text: (n % 2 == 0).then(|| OnText::new(|_| ())),
            ..Request::new(format!("question {}", n / 2)).system("long ".repeat(1_000))
        };
        let first = llm.call(request).await?.into_answer()?;
        "Write.".then("Check.").run(&llm, &first).await
    });
    join_all(branches).await.iter().filter(|end: &&Result<String>| end.is_ok()).count()
}

fn service() -> Fake {
    Fake::new(|n, _| {
        let result = if n % 9 == 4 { Err(status(529)) } else { Ok(text("done")) };
        Answer { after: seconds((n % 4) as f64), result, begins: seconds((n % 2) as f64) }
    })
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_at_any_await_leaves_nothing_under_way_and_a_true_meter() {
    // the waits decide which request meets which fault, and some orders give a call more of them than it has attempts
    fastrand::seed(1);
    let dir = tempfile::tempdir().unwrap();
    let mut moments = 0;
    for polls in 1.. {
        let fake = service();
        let seen = fake.seen.clone();
        let options = everything(&dir, &polls.to_string());
        let (meter, limit, budget) =
            (options.meter.clone(), options.limit.clone(), options.budget.clone().unwrap());
        let llm = standard(fake, options);
        let ended = {
            let mut run = pin!(run(&llm));
            let mut ended = false;
            for _ in 0..polls {
                if let Poll::Ready(done) = run.as_mut().poll(&mut Context::from_waker(noop_waker_ref())) {
                    assert_eq!(done, 6);
                    ended = true;
                    break;
                }
                // every timer that is due wakes the run at most once: the next poll goes as far as the next await
                tokio::time::advance(Duration::from_millis(250)).await;
            }
            ended
        };
        let total = meter.total();
        assert_eq!((load(&seen.under_way), meter.under_way()), (0, 0), "after {polls} polls");
        // chaos turns some requests away before the service sees them, never the other way round
        assert!(total.sent >= load(&seen.calls) as u64);
        assert_eq!(budget.spent().reserved_usd, Usd::ZERO);
        assert!(limit.unwrap().width() >= 1);
        moments += 1;
        if ended {
            break;
        }
    }
    assert!(moments > 20, "{moments}");
}

#[tokio::test(start_paused = true)]
async fn what_the_meter_says_is_what_the_service_saw_wherever_a_run_is_dropped() {
    for polls in 1..200 {
        let fake = service();
        let seen = fake.seen.clone();
        let meter = Meter::default();
        let llm = standard(
            fake,
            Options { meter: meter.clone(), limit: Some(Limit::at_most(2)), ..Options::default() },
        );
        {
            let mut run = pin!(run(&llm));
            for _ in 0..polls {
                if run.as_mut().poll(&mut Context::from_waker(noop_waker_ref())).is_ready() {
                    break;
                }
                tokio::time::advance(Duration::from_millis(250)).await;
            }
        }
        let total = meter.total();
        let saw = *seen.usage.lock().unwrap();
        assert_eq!(total.sent, load(&seen.calls) as u64, "after {polls} polls");
        assert!(load(&seen.cancelled) as u64 <= total.cancelled); // some are dropped while they wait
        assert_eq!(load(&seen.under_way), 0);
        // of a request that was dropped the service knows no usage, the meter what was told when the reply began
        assert_eq!(total.usage.output_tokens, saw.output_tokens);
        let told = total.usage.input_tokens - saw.input_tokens;
        assert!(told <= 10 * load(&seen.cancelled) as u64);
    }
}

#[tokio::test(start_paused = true)]
async fn a_layer_of_ones_own_fits_between() {
    struct Upper;
    impl Layer for Upper {
        fn around<'a>(&'a self, llm: &'a dyn Llm, request: Request) -> BoxFuture<'a, Result<Reply>> {
            async move { Ok(Reply::text_of(llm.call(request).await?.into_answer()?.to_uppercase())) }.boxed()
        }
    }
    let notes = Arc::new(Mutex::new(0));
    let llm = Fake::new(|_, _| Ok(text("done")).into())
        .observe({
            let notes = notes.clone();
            move |_, event| *notes.lock().unwrap() += usize::from(matches!(event, Event::Gate { .. }))
        })
        .layer(Upper)
        .layer(None::<Limit>);
    let shout = "?".gate("loud", |text| text == "DONE");
    assert_eq!(shout.run(&llm, "").await.unwrap(), "DONE");
    assert_eq!(*notes.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_time_is_too_long_to_be_given() {
    let asks = || Fake::new(|n, _| if n == 0 { Err(too_many(1e19)) } else { Ok(text("done")) }.into());
    let (for_ever, budget) = (Duration::MAX, Budget::default().time(Duration::MAX));
    let limit = Limit::at_most(1).longest_pause(for_ever);
    let retry = || Retry::default().longest_wait(for_ever);
    let options = Options {
        budget: Some(budget),
        limit: Some(limit),
        retry: Some(retry().deadline(Duration::from_secs(9))),
        ..Options::default()
    };
    assert_eq!(standard(asks(), options).ask("?").await.unwrap_err().kind(), ErrorKind::RateLimited);
    // some decades later
    assert_eq!(asks().retry(retry()).ask("?").await.unwrap(), "done");
    assert_eq!(asks().retry(Retry::default().deadline(for_ever)).ask("?").await.unwrap(), "done");
}

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use patterns::layers::{Limit, Retry};
use patterns::{Event, Flow, Llm, Request, Under};
use proptest::prelude::*;
use tokio::time::{Instant, sleep};

use crate::fake::{Answer, Fake, load, seconds, status, text, too_many};

fn ok(latency: f64) -> Fake {
    Fake::new(move |_, _| Answer::from(Ok(text("done"))).after(seconds(latency)))
}

async fn ask_all(llm: &dyn Llm, calls: usize) -> usize {
    let calls = (0..calls)
        .map(|n| async move { Under::new(llm, format!("branch {n}")).call(Request::new("?")).await });
    join_all(calls).await.iter().filter(|result| result.is_ok()).count()
}

#[tokio::test(start_paused = true)]
async fn one_bound_holds_over_everything_nested() {
    let fake = ok(1.0);
    let seen = fake.seen.clone();
    let llm = fake.at_most(3);
    let inputs: Vec<_> = (0..4).map(|n| n.to_string()).collect();
    let begin = Instant::now();
    let outer = (0..5).map(|_| "a".then("b").boxed()).collect::<Vec<_>>();
    let runs = outer.iter().map(|flow| flow.run_each(&llm, &inputs, 0));
    join_all(runs).await;
    assert_eq!((load(&seen.calls), load(&seen.peak)), (40, 3));
    assert_eq!(begin.elapsed().as_secs(), 14); // 40 calls, 3 at a time
}

#[tokio::test(start_paused = true)]
async fn a_rejection_in_one_branch_holds_all_until_its_time() {
    // whichever way round the two layers stand
    for outside in [false, true] {
        let begin = Instant::now();
        let fake = Fake::new(move |n, _| match n {
            2 => Answer::from(Err(too_many(7.0))),
            _ => Answer::from(Ok(text("done"))).after(seconds(1.0)),
        });
        let seen = fake.seen.clone();
        let llm: Box<dyn Llm> = if outside {
            Box::new(fake.retry(Retry::default()).at_most(4))
        } else {
            Box::new(fake.at_most(4).retry(Retry::default()))
        };
        assert_eq!(ask_all(&*llm, 20).await, 20);
        let starts: Vec<_> =
            seen.starts.lock().unwrap().iter().map(|(_, at)| (*at - begin).as_secs_f64()).collect();
        assert_eq!(starts.len(), 21);
        let paused = starts.iter().filter(|at| **at > 0.1 && **at < 7.0).count();
        assert_eq!(paused, 0, "{starts:?}");
        assert!(starts[4] < 7.01, "{starts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_spell_of_rejections_wastes_few_calls_and_everybody_gets_through() {
    fastrand::seed(1); // the waits of the retries
    for (tells_when, most, optimum) in [(true, 8, 8), (true, 50, 50), (false, 8, 9)] {
        let begin = Instant::now();
        let fake = Fake::new(move |_, _| {
            let left = seconds(20.0).saturating_sub(begin.elapsed());
            let answer = match (left.is_zero(), tells_when) {
                (true, _) => Ok(text("done")),
                (false, true) => Err(too_many(left.as_secs_f64())),
                (false, false) => Err(status(429)),
            };
            Answer::from(answer).after(seconds(0.5))
        });
        let seen = fake.seen.clone();
        let llm = fake.at_most(most).retry(Retry::default());
        assert_eq!(ask_all(&llm, 50).await, 50);
        // without a time, all that are under way when it begins are lost, and one that looks whether it is over yet
        assert!(load(&seen.rejected) <= 2 * optimum, "{} of {optimum} at {most}", load(&seen.rejected));
        assert!(begin.elapsed() < seconds(60.0), "{:?}", begin.elapsed());
        eprintln!(
            "50 branches, at most {most}, time told: {tells_when}: {} rejected, all done after {:.1} s",
            load(&seen.rejected),
            begin.elapsed().as_secs_f64()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_bound_is_halved_once_for_all_that_were_under_way_and_grows_back_one_by_one() {
    let fake = Fake::new(|n, _| {
        Answer::from(if n < 8 { Err(status(529)) } else { Ok(text("done")) }).after(seconds(1.0))
    });
    let limit = Limit::at_most(8);
    let llm = fake.limit(&limit);
    assert_eq!(ask_all(&llm, 8).await, 0);
    assert_eq!(limit.width(), 4);
    let mut widths = Vec::new();
    for _ in 0..26 {
        llm.call("?".into()).await.unwrap();
        widths.push(limit.width());
    }
    widths.dedup();
    assert_eq!(widths, [4, 5, 6, 7, 8]); // after 4, 5, 6 and 7 calls
    let seen = ok(1.0);
    let log = seen.seen.clone();
    ask_all(&seen.limit(&limit), 20).await;
    assert_eq!(load(&log.peak), 8);
}

#[tokio::test(start_paused = true)]
async fn the_bound_never_falls_below_one() {
    let llm = Fake::new(|n, _| if n < 20 { Err(too_many(1.0)) } else { Ok(text("done")) }.into());
    let limit = Limit::at_most(3);
    let llm = llm.limit(&limit);
    for _ in 0..20 {
        llm.ask("?").await.unwrap_err();
    }
    assert_eq!(limit.width(), 1);
    assert_eq!(llm.ask("?").await.unwrap(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_capped_and_a_spend_limit_is_none() {
    let begin = Instant::now();
    let fake = Fake::new(|n, _| match n {
        0 => Err(too_many(100_000.0)).into(),
        2 => Err(too_many(50.0).with_transient(false)).into(),
        _ => Ok(text("done")).into(),
    });
    let llm = fake.limit(&Limit::at_most(4).longest_pause(seconds(30.0)));
    llm.ask("?").await.unwrap_err();
    llm.ask("?").await.unwrap();
    assert_eq!(begin.elapsed().as_secs(), 30);
    llm.ask("?").await.unwrap_err();
    llm.ask("?").await.unwrap();
    assert_eq!(begin.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn when_nothing_is_left_of_a_quota_nobody_has_to_be_rejected() {
    let begin = Instant::now();
    let fake = Fake::new(move |n, request| {
        if n == 0 {
            request.tell(&Event::Quota { what: "requests".into(), remaining: 0, resets_in: 12.0 });
        }
        Ok(text("done")).into()
    });
    let llm = fake.at_most(2);
    llm.ask("?").await.unwrap();
    assert_eq!(begin.elapsed().as_secs(), 0);
    llm.ask("?").await.unwrap();
    assert_eq!(begin.elapsed().as_secs(), 12);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_gives_its_slot_back() {
    let fake = ok(10.0);
    let seen = fake.seen.clone();
    let llm = Arc::new(fake.at_most(2));
    for moment in 0..20 {
        let calls = ask_all(&*llm, 5);
        let _ = tokio::time::timeout(Duration::from_secs(moment), calls).await;
        assert_eq!(load(&seen.under_way), 0);
    }
    seen.peak.store(0, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(ask_all(&*llm, 5).await, 5);
    assert_eq!(load(&seen.peak), 2);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_estimated_before_and_put_right_after() {
    // a reply of 15 tokens, thought to be more before: after the first, the rest of the minute is known
    let limit = Limit::at_most(50).tokens_per_minute(150);
    let fake = ok(0.1);
    let seen = fake.seen.clone();
    let llm = fake.limit(&limit);
    let begin = Instant::now();
    for _ in 0..12 {
        llm.ask("?").await.unwrap();
    }
    let starts: Vec<_> = seen.starts.lock().unwrap().iter().map(|(_, at)| (*at - begin).as_secs()).collect();
    assert_eq!(starts.iter().filter(|at| **at < 60).count(), 8, "{starts:?}"); // 8 × 15 + the estimate of a ninth > 150
    assert!(starts[11] < 62, "{starts:?}");
}

proptest! {
    #[test]
    fn no_minute_has_more_requests_than_the_limit(
        limit in 1_usize..20,
        gaps in prop::collection::vec(0_u64..20_000, 1..80),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let mut starts = runtime.block_on(async {
            let fake = ok(0.0);
            let seen = fake.seen.clone();
            let llm = fake.limit(&Limit::at_most(1_000).requests_per_minute(limit as u64));
            let mut at = 0;
            let calls = gaps.iter().map(|gap| {
                at += gap;
                let (llm, at) = (&llm, at);
                async move {
                    sleep(Duration::from_millis(at)).await;
                    llm.ask("?").await.unwrap();
                }
            });
            join_all(calls.collect::<Vec<_>>()).await;
            let starts: Vec<_> = seen.starts.lock().unwrap().iter().map(|(_, at)| *at).collect();
            starts
        });
        starts.sort();
        for window in starts.windows(limit + 1) {
            let within = window[limit] - window[0];
            prop_assert!(within >= Duration::from_secs(60), "{} calls within {within:?}", window.len());
        }
        // and no call waits for nothing: there is always a full minute behind it
        prop_assert_eq!(starts.len(), gaps.len());
    }
}

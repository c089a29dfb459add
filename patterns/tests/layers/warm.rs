use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use futures::future::join_all;
use patterns::layers::{Complete, Warm};
use patterns::{Llm, Reply, Request, Usage};
use tokio::time::{Instant, timeout};

use crate::fake::{Answer, Fake, load, seconds, status, text};

/// A service with a prompt cache: a prefix can be read once the first reply to it has begun, two seconds after its call.
fn service() -> Fake {
    let cached: Arc<Mutex<HashSet<(String, Instant)>>> = Arc::default();
    Fake::new(move |_, request| {
        let now = Instant::now();
        let mut cached = cached.lock().unwrap();
        let hit = cached.iter().any(|(prefix, from)| *prefix == request.system && *from <= now);
        let usage = if hit {
            Usage { cache_read_tokens: 1_000, output_tokens: 5, ..Usage::default() }
        } else {
            cached.insert((request.system.clone(), now + seconds(2.0)));
            Usage { cache_write_5m_tokens: 1_000, output_tokens: 5, ..Usage::default() }
        };
        let reply = Reply { usage, ..text("done") };
        Answer { after: seconds(10.0), result: Ok(reply), begins: seconds(2.0) }
    })
}

fn long() -> String {
    "You are a careful reviewer. ".repeat(100)
}

fn request(n: usize) -> Request {
    Request::new(format!("Question {n}")).system(long())
}

/// How many calls wrote to the cache, and how long all took.
async fn writes(llm: &dyn Llm, requests: Vec<Request>) -> (usize, f64) {
    let begin = Instant::now();
    let replies = join_all(requests.into_iter().map(|request| llm.call(request))).await;
    let writes =
        replies.iter().filter(|reply| reply.as_ref().unwrap().usage.cache_write_5m_tokens > 0).count();
    (writes, begin.elapsed().as_secs_f64().round())
}

#[tokio::test(start_paused = true)]
async fn the_same_beginning_is_written_once_and_nobody_waits_longer_than_for_a_first_token() {
    let requests = || (0..20).map(request).collect::<Vec<_>>();
    assert_eq!(writes(&service(), requests()).await, (20, 10.0));
    let llm = service().complete(Complete::default()).warm(Warm::default());
    assert_eq!(writes(&llm, requests()).await, (1, 12.0));
    // from then on it is warm, and nobody waits
    assert_eq!(writes(&llm, requests()).await, (0, 10.0));
}

#[tokio::test(start_paused = true)]
async fn voters_who_are_asked_the_same_share_the_whole_prompt() {
    let llm = service().complete(Complete::default()).warm(Warm::default());
    let requests = (0..5).map(|sample| Request { sample, ..Request::new(long()) }).collect();
    assert_eq!(writes(&llm, requests).await.0, 1);
}

#[tokio::test(start_paused = true)]
async fn calls_without_a_long_beginning_in_common_do_not_wait() {
    let short = |n: usize| Request::new(format!("Question {n}")).system("Be terse.");
    let apart = |n: usize| Request::new(format!("{n}: {}", long()));
    for requests in [(0..5).map(short).collect::<Vec<_>>(), (0..5).map(apart).collect()] {
        let llm = service().complete(Complete::default()).warm(Warm::default());
        assert_eq!(writes(&llm, requests).await.1, 10.0);
    }
    for model in ["openai:gpt-5", "ollama:llama"] {
        let llm = service().model(model).complete(Complete::default()).warm(Warm::default());
        assert_eq!(writes(&llm, (0..5).map(request).collect()).await.1, 10.0, "{model}");
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_first_is_dropped_another_goes_first() {
    let fake = service();
    let seen = fake.seen.clone();
    let llm = fake.complete(Complete::default()).warm(Warm::default());
    let dropped = timeout(seconds(1.0), llm.call(request(0)));
    let (dropped, (writes, took)) = futures::join!(dropped, writes(&llm, (1..6).map(request).collect()));
    assert!(dropped.is_err());
    assert_eq!((writes, took), (1, 13.0));
    assert_eq!((load(&seen.calls), load(&seen.cancelled)), (6, 1));
}

#[tokio::test(start_paused = true)]
async fn when_the_first_fails_nobody_waits_for_a_second_one() {
    let fake = Fake::new(|n, _| match n {
        0 => Answer::from(Err(status(400))).after(seconds(1.0)),
        _ => Answer::from(Ok(text("done"))).after(seconds(1.0)),
    });
    let llm = fake.complete(Complete::default()).warm(Warm::default());
    let begin = Instant::now();
    let ends = join_all((0..10).map(|n| llm.call(request(n)))).await;
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 9);
    assert_eq!(begin.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_beginning_that_was_not_used_for_five_minutes_is_cold() {
    let llm = service().complete(Complete::default()).warm(Warm::default());
    writes(&llm, (0..3).map(request).collect()).await;
    tokio::time::advance(seconds(301.0)).await;
    assert_eq!(writes(&llm, (0..3).map(request).collect()).await.1, 12.0);
}

use std::time::Duration;

use patterns::layers::Retry;
use patterns::{Error, ErrorKind, Llm, OnText, Request, Result, Usage};
use tokio::time::Instant;

use crate::fake::{Answer, Fake, load, seconds, status, text, too_many};

/// Calls once and says how many requests that took, how long, and how it ended.
async fn tried(retry: Retry, fake: Fake) -> (usize, Duration, Result<String>) {
    let seen = fake.seen.clone();
    let begin = Instant::now();
    let answer = fake.retry(retry).ask("?").await;
    (load(&seen.calls), begin.elapsed(), answer)
}

fn always(error: impl Fn() -> Error + Send + Sync + 'static) -> Fake {
    Fake::new(move |_, _| Answer::from(Err(error())))
}

/// What the official SDKs do was measured with their defaults, two retries: Python 2.14, TypeScript 1.14.
#[tokio::test(start_paused = true)]
async fn what_is_tried_again_and_how_often() {
    type Make = Box<dyn Fn() -> Error + Send + Sync>;
    let of = |make: fn() -> Error| -> Make { Box::new(make) };
    let code = |status: u16| -> Make { Box::new(move || crate::fake::status(status)) };
    let broken = || Error::new(ErrorKind::Connection, "reset");
    let table: [(&str, Make, &str, usize, &str); 24] = [
        ("429 retry-after: 1", of(|| too_many(1.0)), "3", 5, "1 s each"),
        ("429 retry-after: 0", of(|| too_many(0.0)), "3", 5, "back-off"),
        ("429 retry-after: 120", of(|| too_many(120.0)), "3 (120 s each)", 5, "60 s each"),
        ("429 no header", code(429), "3", 5, "back-off"),
        ("429 x-should-retry: false", of(|| too_many(1.0).with_transient(false)), "1", 1, "none"),
        (
            "429 spend limit reached",
            of(|| status(429).with_code("enforced_spend_limit_reached").with_transient(false)),
            "3",
            1,
            "none",
        ),
        ("529 overloaded", code(529), "3", 5, "back-off"),
        ("500", code(500), "3", 5, "back-off"),
        ("502 HTML body", code(502), "3", 5, "back-off"),
        ("503", code(503), "3", 5, "back-off"),
        ("504", code(504), "3", 5, "back-off"),
        ("408", code(408), "3", 5, "back-off"),
        ("409", code(409), "3", 5, "back-off"),
        ("400", code(400), "1", 1, "none"),
        ("400 x-should-retry: true", of(|| status(400).with_transient(true)), "3", 5, "back-off"),
        ("401", code(401), "1", 1, "none"),
        ("402", code(402), "1", 1, "none"),
        ("403", code(403), "1", 1, "none"),
        ("404", code(404), "1", 1, "none"),
        ("413", code(413), "1", 1, "none"),
        ("reset before response", of(broken), "3", 5, "back-off"),
        ("reset in mid-body", of(broken), "3, TypeScript 1", 5, "back-off"),
        (
            "stream cut, nothing shown",
            of(|| Error::new(ErrorKind::Protocol, "no end").with_partial("Hol").with_transient(true)),
            "1, Python takes it for a reply",
            5,
            "back-off",
        ),
        ("200 not JSON", of(|| Error::new(ErrorKind::Protocol, "HTML")), "1, taken for a reply", 1, "none"),
    ];
    let mut report = String::from("| case | SDKs sent | we send | we wait |\n|---|---|---|---|\n");
    for (case, error, sdks, ours, waits) in table {
        let (calls, took, answer) = tried(Retry::default(), always(error)).await;
        report += &format!("| {case} | {sdks} | {calls} | {waits}, {:.1} s in all |\n", took.as_secs_f64());
        assert_eq!(calls, ours, "{case}");
        assert_eq!(answer.unwrap_err().attempts() as usize, ours, "{case}");
        let expected = match waits {
            "none" => 0.0..=0.0,
            "1 s each" => 4.0..=4.0,
            "60 s each" => 240.0..=240.0,
            _ => 5.62..=7.5,
        };
        let took = (took.as_secs_f64() * 100.0).round() / 100.0; // the timer ticks in milliseconds
        assert!(expected.contains(&took), "{case}: {took}");
    }
    eprintln!("{report}");
}

#[tokio::test(start_paused = true)]
async fn waits_double_from_half_a_second_to_eight_grow_each_time_and_are_never_in_step() {
    let mut all = Vec::new();
    for _ in 0..20 {
        let fake = always(|| status(500));
        let seen = fake.seen.clone();
        tried(Retry::times(6), fake).await.2.unwrap_err();
        let starts: Vec<_> = seen.starts.lock().unwrap().iter().map(|(_, at)| *at).collect();
        let waits: Vec<_> = starts.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        for (wait, longest) in waits.iter().zip([0.5, 1.0, 2.0, 4.0, 8.0, 8.0]) {
            assert!((longest * 0.75..=longest + 0.002).contains(wait), "{waits:?}");
        }
        assert!(waits[..5].windows(2).all(|pair| pair[1] > 1.4 * pair[0]), "{waits:?}");
        all.push(waits);
    }
    all.dedup();
    assert!(all.len() > 15);
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_by_its_deadline() {
    // no wait is begun that would end later
    let (calls, took, answer) =
        tried(Retry::default().deadline(seconds(9.0)), always(|| too_many(4.0))).await;
    assert_eq!((calls, took), (3, seconds(8.0)));
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::RateLimited);
    // and an attempt under way is dropped
    let fake = Fake::new(|_, _| Answer::from(Ok(text("late"))).after(seconds(60.0)));
    let seen = fake.seen.clone();
    let (calls, took, answer) = tried(Retry::default().deadline(seconds(9.0)), fake).await;
    assert_eq!((calls, took, load(&seen.under_way)), (1, seconds(9.0), 0));
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_tried_again_that_somebody_has_seen() {
    for (on_text, calls) in [(Some(OnText::new(|_| ())), 1), (Some(OnText::unseen()), 2), (None, 2)] {
        let shows = on_text.is_some();
        let fake = Fake::new(move |n, request| {
            if n > 0 {
                return Ok(text("whole")).into();
            }
            if let (true, Some(on_text)) = (shows, &request.on_text) {
                on_text.hear("ha");
            }
            Err(status(529)).into()
        });
        let seen = fake.seen.clone();
        let request = Request { on_text, ..Request::new("?") };
        let reply = fake.retry(Retry::default()).call(request).await;
        assert_eq!((load(&seen.calls), reply.is_ok()), (calls, calls > 1));
    }
}

#[tokio::test(start_paused = true)]
async fn usage_is_that_of_all_attempts() {
    let used = |n| Usage { input_tokens: n, ..Usage::default() };
    let flaky = || {
        Fake::new(move |n, _| match n {
            0 | 1 => Err(status(529).with_usage(used(100))).into(),
            2 => Err(status(500)).into(),
            _ => Ok(text("done")).into(),
        })
    };
    let reply = flaky().retry(Retry::default()).call("?".into()).await.unwrap();
    assert_eq!(reply.usage.total_tokens(), 215);
    let error = flaky().retry(Retry::times(2)).call("?".into()).await.unwrap_err();
    assert_eq!(error.usage().unwrap().total_tokens(), 200);
    assert_eq!((error.status(), error.attempts()), (Some(500), 3));
    assert!(error.to_string().contains("3 attempts"), "{error}");
}

//! Speed and memory of the real model, with the figures that llama.cpp is to be compared with: `llama-bench -p 256 -n
//! 64`. Prints a line for each; the best of a few rounds, for a machine is seldom quiet.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]

use futures::executor::block_on;
use patterns_embedded::{Choice, Engine, Message, Options, weights};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;

fn main() {
    let file = block_on(weights::ensure(|_| ())).unwrap();
    let load = best(|| drop(Engine::load(&file).unwrap()));
    println!("load                 {:>8.2} s", load.as_secs_f64());

    let engine = Engine::load(&file).unwrap();
    let story =
        "The old lighthouse keeper walked along the shore every morning to look for driftwood. ".repeat(14);
    let long = [
        Message::system("You are a helpful assistant."),
        Message::user(format!("{story} How does it go on?")),
    ];
    let one = Options { max_tokens: 1, ..Options::default() };
    let tokens = block_on(engine.generate(&long, &one, |_| ())).unwrap().prompt_tokens;
    let prefill = best(|| {
        block_on(engine.generate(&long, &one, |_| ())).unwrap();
    });
    println!("read {tokens} tokens      {:>8.0} tokens/s", rate(tokens, prefill));

    let short = [Message::user("Write a long story about a lighthouse.")];
    let written = 65;
    let many = Options { max_tokens: written, ..Options::default() };
    let start = best(|| {
        block_on(engine.generate(&short, &one, |_| ())).unwrap();
    });
    let whole = best(|| {
        let answer = block_on(engine.generate(&short, &many, |_| ())).unwrap();
        assert_eq!(answer.output_tokens, written);
    });
    println!("write 64 tokens      {:>8.0} tokens/s", rate(written - 1, whole - start));

    let five = best(|| {
        block_on(engine.samples(&short, &many, 5)).unwrap();
    });
    println!("5 samples, 65 tokens {:>8.2} times as long as 1", five.as_secs_f64() / whole.as_secs_f64());

    let desks = |salt: usize| {
        [
            Choice::new(
                "billing",
                format!("payments, invoices, refunds, prices and subscriptions{}", "s".repeat(salt)),
            ),
            Choice::new("bug", "something in the product is broken, crashes or shows an error"),
            Choice::new("other", "general questions, feature requests, feedback, anything else"),
        ]
    };
    let ticket = "I was charged twice for my March subscription. Can you refund the duplicate payment?";
    let mut salt = 0;
    let first = best(|| {
        salt += 1;
        block_on(engine.choose(ticket, "support ticket", &desks(salt))).unwrap();
    });
    let next = best(|| {
        block_on(engine.choose(ticket, "support ticket", &desks(1))).unwrap();
    });
    println!("choose 1 of 3, first {:>8.2} s", first.as_secs_f64());
    println!("choose 1 of 3, next  {:>8.2} s", next.as_secs_f64());
    if let Some(peak) = peak_megabytes() {
        println!("peak memory          {peak:>8} MB");
    }
}

fn best(mut work: impl FnMut()) -> Duration {
    let once = |()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    [(); ROUNDS].map(once).into_iter().min().unwrap()
}

fn rate(tokens: usize, time: Duration) -> f64 {
    f64::from(u32::try_from(tokens).unwrap()) / time.as_secs_f64()
}

/// What the process had in memory at most, where the system tells.
fn peak_megabytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}

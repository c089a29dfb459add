//! Whatever a user or a model wrote stays in its place in every picture.

use patterns::trace::{Diff, Run, one_line};
use patterns::{Event, Flow, route, vote};
use proptest::prelude::*;
use serde_json::json;
use unicode_width::UnicodeWidthStr;

const EVIL: &str =
    "\u{1b}[2J\u{9b}31m\u{7}\r\nnew\u{2028}line \u{202e}desrever\u{2066} \"]; x -> y <script>`|#\\";

/// What must be nowhere: the beginnings of escape sequences, and what turns the rest of a line round.
fn is_harmful(c: char) -> bool {
    c != '\n'
        && (c.is_control()
            || "\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}"
                .contains(c))
}

/// A run with calls at these places.
fn run_at(paths: &[String], reason: &str) -> Run {
    let mut lines = vec![
        json!({ "trace": 1 }),
        json!({ "t": 0.0, "event": "run_started", "pattern": reason, "fewest": 1, "most": null }),
    ];
    for (n, path) in paths.iter().enumerate() {
        let t = n as f64;
        lines.push(json!({ "t": t, "path": path, "call": n, "event": "call_started", "model": reason }));
        lines.push(json!({ "t": t + 0.2, "path": path, "call": n, "event": "waiting", "why": reason }));
        lines.push(json!({ "t": t + 0.5, "path": path, "call": n, "event": "call_ended", "usage": {}, "cost": 0.25, "outcome": reason, "error": reason }));
    }
    lines.push(json!({ "t": 9.0, "event": "gate", "name": reason, "open": false, "reason": reason }));
    lines.push(json!({ "t": 9.0, "event": "run_ended", "outcome": reason, "error": reason }));
    let text: Vec<String> = lines.iter().map(ToString::to_string).collect();
    Run::parse(&text.join("\n")).unwrap()
}

#[test]
fn no_picture_of_a_run_lets_what_was_written_out_of_its_place() {
    let run = run_at(&[format!("step {EVIL}"), format!("step {EVIL}/task {EVIL}")], EVIL);
    let calm = run_at(&["step 1".to_owned(), "step 1/task a".to_owned()], "ok");
    for (name, evil, calm) in [
        ("timeline", run.gantt(80), calm.gantt(80)),
        ("mermaid", run.mermaid(), calm.mermaid()),
        ("dot", run.dot(), calm.dot()),
        (
            "diff",
            Diff::new(&run, &run_at(&[], EVIL)).to_string(),
            Diff::new(&calm, &run_at(&[], "ok")).to_string(),
        ),
    ] {
        assert_eq!(evil.chars().find(|c| is_harmful(*c)), None, "{name}: {evil:?}");
        assert_eq!(evil.lines().count(), calm.lines().count(), "{name}: {evil}");
    }
    assert!(!run.mermaid().contains("\"]; x") && !run.dot().contains("label=\"step \u{1b}"));
    assert!(!run.html().contains("<script>`"));
}

#[test]
fn no_picture_of_a_flow_lets_what_was_written_out_of_its_place() {
    let flow = |text: &str| {
        let shape = route(text).when(text, vote(3, text).among(["a", "b"])).otherwise(text).shape();
        [shape.to_string(), shape.mermaid(), shape.dot(), shape.svg()]
    };
    for (evil, calm) in flow(EVIL).into_iter().zip(flow("calm")) {
        assert_eq!(evil.chars().find(|c| is_harmful(*c)), None, "{evil:?}");
        assert_eq!(evil.lines().count(), calm.lines().count(), "{evil}");
    }
}

#[test]
fn an_event_in_words_is_one_line() {
    let event = Event::Gate { name: EVIL.into(), open: false, reason: Some(EVIL.into()) };
    let words = event.to_string();
    assert_eq!(words.chars().find(|c| *c == '\n' || is_harmful(*c)), None, "{words:?}");
    assert_eq!(words, one_line(&words));
    // what people write in is left as it is
    assert_eq!(one_line("שלום 🐝 naïve 你好"), "שלום 🐝 naïve 你好");
}

proptest! {
    #[test]
    fn a_timeline_is_as_wide_as_it_is_told(
        width in 20_usize..200,
        names in prop::collection::vec("[a-z ]{1,40}|[你好世界]{1,30}|[🐝🦀é]{1,20}|\\PC{1,20}", 1..20),
    ) {
        let paths: Vec<_> = names.iter().map(|name| format!("step 1/{}", name.replace('/', "%2F"))).collect();
        let gantt = run_at(&paths, "ok").gantt(width);
        let (rows, _) = gantt.split_once("\n\n").unwrap();
        for line in rows.lines() {
            prop_assert!(line.width() <= width, "{} > {width}: {line}", line.width());
        }
    }
}

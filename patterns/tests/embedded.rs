//! The model inside the process, through the library, with its real weights.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![cfg(feature = "embedded")]

use std::sync::{Arc, Mutex};

use patterns::providers::{Embedded, Env, connect_in};
use patterns::{ErrorKind, Expect, Llm, OnText, OneOf, Request, Stop};

/// The model, if its weights are here. In CI they must be.
#[expect(clippy::print_stderr, reason = "what was not tested shall be seen")]
fn model() -> Option<Embedded> {
    if std::env::var_os("CI").is_some() || matches!(patterns_embedded::weights::find(), Ok(Some(_))) {
        return Some(Embedded::new());
    }
    eprintln!("NOT TESTED: the embedded model; its weights are not on this machine");
    None
}

#[tokio::test]
async fn the_embedded_model_chooses_with_probabilities() {
    let Some(model) = model() else { return };
    let desks = OneOf::new([
        ("billing", "payments, invoices, refunds, prices and subscriptions"),
        ("bug", "something in the product is broken, crashes or shows an error"),
    ]);
    for (ticket, desk) in [
        ("I was charged twice for my March subscription. Can you refund the duplicate payment?", "billing"),
        ("The app crashes with a null pointer error whenever I open the settings page.", "bug"),
    ] {
        let reply = model.call(Request::new(ticket).expect(Expect::OneOf(desks.clone()))).await.unwrap();
        assert_eq!(reply.text(), format!("<label>{desk}</label>"));
        let choice = reply.choice.unwrap();
        assert_eq!(choice.label, desk);
        let names: Vec<_> = choice.probabilities.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["billing", "bug"]);
        assert!((choice.probabilities.iter().map(|(_, p)| p).sum::<f64>() - 1.0).abs() < 1e-9);
    }
}

#[tokio::test]
async fn the_embedded_model_writes_counts_and_stops() {
    let Some(model) = model() else { return };
    let pieces = Arc::<Mutex<String>>::default();
    let heard = Arc::clone(&pieces);
    let on_text = OnText::new(move |piece: &str| heard.lock().unwrap().push_str(piece));
    let question = Request::new("What is the capital of France? Answer in one short sentence.");
    let reply = model.call(Request { on_text: Some(on_text), ..question.clone() }).await.unwrap();
    assert!(reply.text().contains("Paris"), "{}", reply.text());
    assert_eq!(*pieces.lock().unwrap(), reply.text());
    assert_eq!(reply.stop, Stop::EndTurn);
    assert!(reply.usage.input_tokens > 10 && reply.usage.output_tokens > 3, "{:?}", reply.usage);
    assert!(reply.model.starts_with("embedded:"));

    // the same request is answered the same way, and each sample in its own
    let story =
        |sample| Request { sample, max_tokens: Some(12), ..Request::new("Tell me a story of a fox.") };
    let written = async |sample| model.call(story(sample)).await.unwrap();
    let (greedy, first, second) = (written(0).await, written(1).await, written(2).await);
    assert_eq!((&greedy.stop, greedy.usage.output_tokens), (&Stop::MaxTokens, 12));
    assert_eq!(greedy, written(0).await);
    assert_eq!(first, written(1).await);
    assert!(greedy.text() != first.text() || first.text() != second.text());

    let error = model.call(Request::new("word ".repeat(20_000))).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::ContextWindow, false));
}

#[tokio::test]
async fn a_connection_prepares_the_embedded_model() {
    if model().is_none() {
        return;
    }
    let connection = connect_in("embedded", &Env::of(|_| None)).unwrap();
    assert_eq!(
        (connection.provider(), connection.model(&Request::default())),
        ("embedded", Some("embedded".into()))
    );
    connection.prepare(|_| ()).await.unwrap();
    assert!(!connection.ask("Say hello.").await.unwrap().is_empty());
}

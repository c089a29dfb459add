//! Chains, routes and refinements × every way in which a call can go wrong × every call of theirs: what went wrong is never an
//! answer, and none of its words gets into a prompt. (Fan-outs have their own table in `parallel`.)
#![allow(clippy::unwrap_used)] // a test may panic

mod common;

use std::sync::Mutex;

use common::Model;
use patterns::{BoxFlow, Check, Error, ErrorKind, Flow, Reply, Stop, refine, route};

/// Stands in every text of a failure, so that it can be searched for.
const MARK: &str = "XYZZY";

/// What a call can come to but an answer.
fn faults() -> Vec<(String, Fault)> {
    let stops = [
        Stop::MaxTokens,
        Stop::ToolUse,
        Stop::PauseTurn,
        Stop::Compaction,
        Stop::Refusal { category: Some("bio".into()), explanation: Some(MARK.into()) },
        Stop::ContextWindow,
        Stop::Other(MARK.into()),
    ];
    let kinds = [
        ErrorKind::RateLimited,
        ErrorKind::Overloaded,
        ErrorKind::Server,
        ErrorKind::Connection,
        ErrorKind::TimedOut,
        ErrorKind::Protocol,
        ErrorKind::InvalidRequest,
        ErrorKind::Authentication,
        ErrorKind::OverBudget,
        ErrorKind::Cancelled,
    ];
    let stops = stops.into_iter().map(|stop| (format!("{stop:?}"), Fault::Stop(stop)));
    let kinds = kinds.into_iter().map(|kind| (format!("{kind:?}"), Fault::Error(kind)));
    stops.chain(kinds).chain([("blank".to_owned(), Fault::Blank)]).collect()
}

#[derive(Clone)]
enum Fault {
    Stop(Stop),
    Error(ErrorKind),
    Blank,
}

/// The flows, each with the calls that it makes when all goes well.
fn flows() -> Vec<(&'static str, BoxFlow<'static>, usize)> {
    let desk = || route("Which?").when(("a", "one"), "Do a.").when(("b", "two"), "Do b.");
    vec![
        ("chain", "One.".then("Two.").then("Three.").boxed(), 3),
        ("gate", "One.".gate_by("good", Check::judge("good").repair(1)).then("Two.").boxed(), 3),
        ("route", desk().boxed(), 2),
        ("route with a fallback", desk().otherwise("Say sorry.").boxed(), 2),
        ("refine", refine("Write.").until("good").boxed(), 2),
        ("refine a chain", refine("One.".then("Two.")).until("good").boxed(), 3),
    ]
}

/// A model for which everything goes well, but for the call `at`, counted from 1.
fn model(at: usize, fault: Fault) -> Model {
    let calls = Mutex::new(0);
    Model::new(move |request| {
        let mut calls = calls.lock().unwrap();
        *calls += 1;
        if *calls == at {
            return match fault.clone() {
                Fault::Stop(stop) => Ok(Reply { stop, ..Reply::text_of(format!("half {MARK}")) }),
                Fault::Error(kind) => {
                    Err(Error::new(kind, format!("failed {MARK}")).with_partial(format!("half {MARK}")))
                }
                Fault::Blank => Ok(Reply::text_of(" \n")),
            };
        }
        let path = request.path.as_str();
        Ok(Reply::text_of(match path {
            _ if path.contains("judge") => "<evaluation>PASS</evaluation>",
            _ if path.ends_with("route") || path.ends_with("route/again") => "<label>a</label>",
            _ => "fine",
        }))
    })
}

#[tokio::test]
async fn what_went_wrong_is_never_an_answer_and_never_in_a_prompt() {
    for (name, flow, calls) in flows() {
        assert_eq!(flow.run(&model(0, Fault::Blank), "task").await.unwrap(), "fine");
        for at in 1..=calls {
            for (what, fault) in faults() {
                let model = model(at, fault);
                let result = flow.run(&model, "task").await;
                for (path, sent) in model.asked.lock().unwrap().iter() {
                    assert!(
                        !sent.contains(MARK),
                        "{name}, call {at}, {what}: in the prompt at {path}: {sent}"
                    );
                }
                match result {
                    // a fallback may be taken for a label that cannot be read, as of a blank answer; nothing else goes on
                    Ok(text) => {
                        assert_eq!((name, at, what.as_str()), ("route with a fallback", 1, "blank"));
                        assert_eq!(text, "fine");
                    }
                    Err(error) => {
                        assert_eq!(
                            model.calls(),
                            at,
                            "{name}, call {at}, {what}: a call was made after the failure"
                        );
                        assert!(
                            !error.path().is_root() || name == "gate",
                            "{name}, call {at}, {what}: {error} has no place"
                        );
                    }
                }
            }
        }
    }
}

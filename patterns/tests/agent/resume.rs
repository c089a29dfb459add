//! A run that was killed and goes on: what was done is not done again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::{FutureExt, pending};
use patterns::layers::Journal;
use patterns::{Agented, Block, Error, ErrorKind, Flow, Llm, Question, Tool, agent, tool};
use tempfile::TempDir;

use super::common::Model;
use super::{N, calls};

/// A tool with effects that notes what it was called with.
fn refund(ran: &Mutex<Vec<u64>>) -> Tool<'_> {
    tool("refund", "Refunds.", async move |N { n }: N| {
        ran.lock().unwrap().push(n);
        if n == 0 { Err("there is nothing to refund".to_owned()) } else { Ok(format!("refunded {n}")) }
    })
    .with_effects()
}

fn two_refunds() -> patterns::Reply {
    calls(&[("toolu_1", "refund", r#"{"n":7}"#), ("toolu_2", "refund", r#"{"n":0}"#)])
}

fn results(done: &Agented) -> Vec<(&str, bool)> {
    done.messages[2].content.iter().filter_map(Block::as_tool_result).map(|r| (r.text, r.is_error)).collect()
}

#[tokio::test]
async fn what_a_killed_run_did_is_not_done_again_and_nobody_is_asked_about_it() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("journal");
    let asked = Mutex::new(0);
    let yes = |_: Question| {
        *asked.lock().unwrap() += 1;
        async { Some("yes".to_owned()) }.boxed()
    };
    let ran = Mutex::default();
    let journal = Journal::open(&file).unwrap();
    let desk = agent("Desk.").with(refund(&ran)).ask(yes).journal(&journal);
    // turn 2 never comes back: the run is killed while it waits
    let model = Model::new(|request| match request.path.as_str() {
        "turn 1" => Ok(two_refunds()),
        _ => Err(Error::new(ErrorKind::Connection, "killed")),
    });
    let first = model.journal(&journal);
    let done = desk.run(&first, "Refund order 7.").await.unwrap();
    assert_eq!((ran.lock().unwrap().len(), *asked.lock().unwrap()), (2, 2));
    let before = results(&done).into_iter().map(|(text, wrong)| (text.to_owned(), wrong)).collect::<Vec<_>>();
    drop((first, desk, journal));

    let journal = Journal::open(&file).unwrap();
    let desk = agent("Desk.").with(refund(&ran)).ask(yes).journal(&journal);
    let model = Arc::new(Model::replies([patterns::Reply::text_of("done")]));
    let done = desk.run(&model.clone().journal(&journal), "Refund order 7.").await.unwrap();
    assert_eq!(
        (done.text.as_str(), model.paths()),
        ("done", vec!["turn 2".to_owned()]),
        "only the missing call"
    );
    assert_eq!((ran.lock().unwrap().len(), *asked.lock().unwrap()), (2, 2), "nothing is done or asked twice");
    assert_eq!(
        results(&done),
        before.iter().map(|(text, wrong)| (text.as_str(), *wrong)).collect::<Vec<_>>()
    );
    assert_eq!(results(&done), [("refunded 7", false), ("there is nothing to refund", true)]);
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_a_run_ended_in_the_middle_of_is_asked_about_even_when_it_is_allowed() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("journal");
    let reply = || calls(&[("toolu_1", "refund", r#"{"n":7}"#)]);
    {
        let journal = Journal::open(&file).unwrap();
        let stuck = tool("refund", "Refunds.", async |_: N| pending().await).with_effects();
        let desk = agent("Desk.").with(stuck).allow(["refund"]).journal(&journal);
        let llm = Model::replies([reply()]).journal(&journal);
        let run = desk.run(&llm, "Refund order 7.");
        assert!(tokio::time::timeout(Duration::from_secs(5), run).await.is_err());
    }
    for (answer, runs) in [(None, 0), (Some("no"), 0), (Some("yes"), 1)] {
        let journal = Journal::open(&file).unwrap();
        let (ran, asked) = (Mutex::default(), Mutex::new(String::new()));
        let desk = agent("Desk.").with(refund(&ran)).allow(["refund"]).journal(&journal).ask(|question| {
            *asked.lock().unwrap() = question.text;
            async move { answer.map(str::to_owned) }.boxed()
        });
        let llm = Model::replies([patterns::Reply::text_of("done")]).journal(&journal);
        let done = desk.run(&llm, "Refund order 7.").await.unwrap();
        assert_eq!(ran.lock().unwrap().len(), runs, "{answer:?}");
        assert_eq!(
            *asked.lock().unwrap(),
            "refund({\"n\":7})\nan earlier run ended in the middle of this very call, so it may have been done already"
        );
        if runs == 0 {
            let (text, wrong) = results(&done)[0];
            assert!(wrong && text.starts_with("this call was not run: "), "{text}");
            assert!(text.ends_with("it may have been done already"), "the model is told, too: {text}");
        }
    }
}

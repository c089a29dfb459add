//! Why the loop ends, and what is kept.

use std::sync::atomic::{AtomicUsize, Ordering};

use patterns::{AgentEnd, Error, ErrorKind, Event, Flow, Stop, agent, tool};

use super::common::Model;
use super::{N, calls, reply};

const TEXT: &str = r#"{"type":"text","text":"so far"}"#;
const CALL: &str = r#"{"type":"tool_use","id":"toolu_1","name":"count","input":{"n":1}}"#;

fn failed(kind: ErrorKind) -> Option<ErrorKind> {
    Some(kind)
}

/// One row a stop reason, without and with a call in it: how many calls are made, whether the tool runs, how it ends
/// (`None`: with an answer).
#[tokio::test]
async fn every_stop_reason_has_its_own_action_and_only_tool_use_runs_tools() {
    let refusal = Stop::Refusal { category: Some("cyber".into()), explanation: None };
    let other = |reason: &str| Stop::Other(reason.to_owned());
    let rows = [
        // stop, with a call, calls, runs, end
        (Stop::EndTurn, false, 1, 0, None),
        (Stop::EndTurn, true, 1, 0, None),
        (Stop::StopSequence("END".into()), false, 1, 0, None),
        (Stop::StopSequence("END".into()), true, 1, 0, None),
        (Stop::ToolUse, false, 1, 0, failed(ErrorKind::Protocol)),
        (Stop::ToolUse, true, 2, 1, None),
        (Stop::PauseTurn, false, 2, 0, None),
        (Stop::PauseTurn, true, 2, 0, None),
        (Stop::Compaction, false, 2, 0, None),
        (Stop::Compaction, true, 2, 0, None),
        (Stop::MaxTokens, false, 1, 0, failed(ErrorKind::Truncated)),
        (Stop::MaxTokens, true, 1, 0, failed(ErrorKind::Truncated)),
        (refusal.clone(), false, 1, 0, failed(ErrorKind::Refused)),
        (refusal, true, 1, 0, failed(ErrorKind::Refused)),
        (Stop::ContextWindow, false, 1, 0, failed(ErrorKind::ContextWindow)),
        (Stop::ContextWindow, true, 1, 0, failed(ErrorKind::ContextWindow)),
        (other("from_the_future"), false, 1, 0, failed(ErrorKind::Protocol)),
        (other("from_the_future"), true, 1, 0, failed(ErrorKind::Protocol)),
        (other("content_filter"), true, 1, 0, failed(ErrorKind::Protocol)),
    ];
    for (stop, with_call, model_calls, runs, end) in rows {
        let row = format!("{stop:?}, with a call: {with_call}");
        let content = if with_call { format!("[{TEXT},{CALL}]") } else { format!("[{TEXT}]") };
        let first = reply(stop, &content);
        let sent_back = first.content.clone();
        let model = Model::replies([first, reply(Stop::EndTurn, r#"[{"type":"text","text":"done"}]"#)]);
        let ran = AtomicUsize::new(0);
        let count = tool("count", "Counts.", async |_: N| {
            ran.fetch_add(1, Ordering::Relaxed);
            Ok("1".to_owned())
        });
        let done = agent("Count.").with(count).run(&model, "Go.").await.unwrap();
        assert_eq!(model.calls(), model_calls, "{row}");
        assert_eq!(done.turns, model_calls, "{row}");
        assert_eq!(ran.load(Ordering::Relaxed), runs, "{row}");
        assert_eq!(done.messages[1].content, sent_back, "{row}");
        match (&done.why, end) {
            (AgentEnd::Answered, None) => {
                assert_eq!(done.text, if model_calls == 2 { "done" } else { "so far" }, "{row}");
            }
            (AgentEnd::Failed { kind, .. }, Some(end)) => assert_eq!(*kind, end, "{row}"),
            (why, _) => panic!("{row}: {why:?}"),
        }
        if model_calls == 2 && runs == 0 {
            // resumed: the turn goes back as it is, and nothing is said in the user's name
            assert_eq!(model.requests.lock().unwrap()[1].messages.len(), 2, "{row}");
        }
    }
}

#[tokio::test]
async fn an_empty_answer_is_no_answer() {
    let model = Model::replies([reply(Stop::EndTurn, "[]")]);
    let done = agent("Count.").run(&model, "Go.").await.unwrap();
    assert!(matches!(done.why, AgentEnd::Failed { kind: ErrorKind::Empty, .. }), "{:?}", done.why);
    assert_eq!(String::try_from(done).unwrap_err().kind(), ErrorKind::Empty);
}

#[tokio::test]
async fn the_cap_stops_before_tools_whose_results_nobody_would_read_and_keeps_what_was_done() {
    let ran = AtomicUsize::new(0);
    let count = tool("count", "Counts.", async |N { n }: N| {
        ran.fetch_add(1, Ordering::Relaxed);
        Ok(n.to_string())
    });
    let last = reply(Stop::ToolUse, &format!("[{TEXT},{CALL}]"));
    let model = Model::replies([
        calls(&[("a", "count", r#"{"n":1}"#)]),
        calls(&[("b", "count", r#"{"n":2}"#)]),
        last,
    ]);
    let done = agent("Count.").with(count).turns(3).run(&model, "Go.").await.unwrap();
    assert_eq!((done.turns, &done.why, ran.load(Ordering::Relaxed)), (3, &AgentEnd::Turns, 2));
    assert_eq!(done.messages.len(), 6, "question, two turns with their results, the last turn");
    assert_eq!(done.text, "so far");
    assert!(
        model
            .events()
            .iter()
            .any(|event| matches!(event, Event::Capped { reason } if reason.contains("3 turns")))
    );
    let error = String::try_from(done).unwrap_err();
    assert_eq!((error.kind(), error.partial()), (ErrorKind::Cap, Some("so far")));
}

#[tokio::test]
async fn a_paused_turn_is_resumed_only_up_to_the_cap() {
    let model = Model::new(|_| Ok(reply(Stop::PauseTurn, &format!("[{TEXT}]"))));
    let done = agent("Search.").turns(4).run(&model, "Go.").await.unwrap();
    assert_eq!((model.calls(), done.why), (4, AgentEnd::Turns));
}

#[tokio::test]
async fn what_was_done_is_kept_when_a_later_call_fails() {
    for kind in [ErrorKind::OverBudget, ErrorKind::Connection, ErrorKind::Truncated] {
        let model = Model::new(move |request| match request.path.as_str() {
            "turn 1" => Ok(reply(Stop::ToolUse, &format!("[{TEXT},{CALL}]"))),
            _ => Err(Error::new(kind, "no more")),
        });
        let count = tool("count", "Counts.", async |_: N| Ok("1".to_owned()));
        let done = agent("Count.").with(count).run(&model, "Go.").await.unwrap();
        let AgentEnd::Failed { kind: why, reason } = &done.why else { panic!("{:?}", done.why) };
        assert_eq!((*why, reason.as_str()), (kind, "turn 2: no more"));
        assert_eq!((done.messages.len(), done.turns, done.text.as_str()), (3, 1, "so far"));
        assert_eq!(String::try_from(done).unwrap_err().kind(), kind, "a failure is never an answer");
    }
}

#[tokio::test]
async fn a_first_call_that_fails_is_the_error_itself() {
    let model = Model::new(|_| Err(Error::new(ErrorKind::Authentication, "no key")));
    let error = agent("Count.").run(&model, "Go.").await.unwrap_err();
    assert_eq!((error.kind(), error.path().as_str()), (ErrorKind::Authentication, "turn 1"));
}

//! Keeping a conversation small, and holding the answer against a check.

use std::sync::Mutex;

use patterns::{AgentEnd, Check, ErrorKind, Event, Flow, Reply, Stop, agent, tool};
use serde_json::json;

use super::common::Model;
use super::{N, calls, reply};

#[tokio::test]
async fn old_results_are_cleared_with_the_thinking_after_them_when_the_prompt_is_long() {
    let turn = |n: usize, tokens: u64| {
        let content = format!(
            r#"[{{"type":"thinking","thinking":"","signature":"s{n}"}},{{"type":"tool_use","id":"t{n}","name":"look","input":{{"n":{n}}}}}]"#
        );
        let mut reply = reply(Stop::ToolUse, &content);
        reply.usage.input_tokens = tokens;
        reply
    };
    let model = Model::replies([turn(1, 100), turn(2, 100), turn(3, 2_000), Reply::text_of("done")]);
    let look = tool("look", "Looks.", async |N { n }: N| Ok(format!("seen {n}")));
    agent("Look.").with(look).clear_results(1_000, 2).run(&model, "Go.").await.unwrap();
    let requests = model.requests.lock().unwrap();
    let results = |n: usize| -> Vec<String> {
        let blocks = requests[n].messages.iter().flat_map(|m| &m.content);
        blocks.filter_map(|b| Some(b.as_tool_result()?.text.to_owned())).collect()
    };
    let thinking = |n: usize| -> usize {
        requests[n].messages.iter().flat_map(|m| &m.content).filter(|b| b.kind() == "thinking").count()
    };
    assert_eq!(
        (results(2), thinking(2)),
        (vec!["seen 1".to_owned(), "seen 2".to_owned()], 2),
        "append-only until then"
    );
    assert!(results(3)[0].starts_with("[cleared"), "{:?}", results(3));
    assert_eq!(results(3)[1..], ["seen 2", "seen 3"]);
    assert_eq!(thinking(3), 1, "only the thinking before the first cleared result is left");
}

#[tokio::test]
async fn compaction_is_asked_of_the_service_and_its_block_goes_back_as_it_is() {
    let block = r#"{"type":"compaction","content":null,"encrypted_content":"b64"}"#;
    let model = Model::replies([reply(Stop::Compaction, &format!("[{block}]")), Reply::text_of("done")]);
    let done = agent("Go.").compact_at(80_000).run(&model, "Go.").await.unwrap();
    assert_eq!(done.why, AgentEnd::Answered);
    let requests = model.requests.lock().unwrap();
    assert_eq!(
        requests[0].extra["context_management"],
        json!({"edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 80_000}}]})
    );
    assert_eq!(requests[0].extra["betas"], json!(["compact-2026-01-12"]));
    assert_eq!(serde_json::to_string(&requests[1].messages[1].content[0]).unwrap(), block);
}

#[tokio::test]
async fn an_answer_that_is_not_accepted_goes_back_with_the_reason_at_most_once() {
    let model = Model::replies([Reply::text_of("one"), Reply::text_of("two"), Reply::text_of("three")]);
    let desk = agent("Go.").until(Check::code(|text| if text == "two" { Ok(()) } else { Err("say two") }));
    let done = desk.run(&model, "Go.").await.unwrap();
    assert_eq!((done.text.as_str(), done.turns, done.verdict.unwrap().accepted), ("two", 2, true));
    let sent = model.sent("turn 2");
    assert!(sent.contains("one") && sent.contains("<feedback>\nsay two\n</feedback>"), "{sent}");

    let model = Model::replies([Reply::text_of("one"), Reply::text_of("three"), Reply::text_of("two")]);
    let done = desk.run(&model, "Go.").await.unwrap();
    assert_eq!((done.text.as_str(), model.calls(), &done.why), ("three", 2, &AgentEnd::Answered));
    assert!(!done.verdict.unwrap().accepted);
    assert!(
        model
            .events()
            .iter()
            .any(|event| matches!(event, Event::Degraded { reason } if reason.contains("say two")))
    );
}

#[tokio::test]
async fn judges_see_the_evidence_and_code_sees_the_answer_alone() {
    let seen = Mutex::new(Vec::new());
    let model = Model::by_path(|path| match path {
        "turn 1" => "It is in a.rs:1.",
        _ => "<evaluation>PASS</evaluation>",
    });
    let desk = agent("Go.")
        .until("The cited lines support the answer.")
        .until(Check::code(|text: &str| {
            seen.lock().unwrap().push(text.to_owned());
            true
        }))
        .evidence(|answer| format!("evidence for: {answer}"));
    assert_eq!(desk.shape().calls().to_string(), "1 to 16 calls");
    let done = desk.run(&model, "Where?").await.unwrap();
    assert_eq!(model.paths(), ["turn 1", "check 1/judge"]);
    assert!(model.sent("check 1/judge").contains("<evidence>\nevidence for: It is in a.rs:1.\n</evidence>"));
    assert_eq!(*seen.lock().unwrap(), ["It is in a.rs:1."]);
    assert!(done.verdict.unwrap().accepted);
}

#[tokio::test]
async fn an_answer_whose_judge_fails_is_kept_and_not_passed_for_accepted() {
    let model = Model::new(|request| match request.path.as_str() {
        "turn 1" => Ok(Reply::text_of("an answer")),
        _ => Err(patterns::Error::new(ErrorKind::OverBudget, "the budget is used up")),
    });
    let done = agent("Go.").until("Good.").run(&model, "Go.").await.unwrap();
    assert!(matches!(done.why, AgentEnd::Failed { kind: ErrorKind::OverBudget, .. }), "{:?}", done.why);
    assert_eq!((done.text.as_str(), done.messages.len()), ("an answer", 2));
}

#[tokio::test]
async fn a_check_asks_for_no_better_answer_when_no_turn_is_left() {
    let model = Model::replies([calls(&[("a", "look", r#"{"n":1}"#)]), Reply::text_of("one")]);
    let look = tool("look", "Looks.", async |_: N| Ok("seen".to_owned()));
    let done =
        agent("Go.").with(look).turns(2).until(Check::code(|_| false)).run(&model, "Go.").await.unwrap();
    assert_eq!((done.text.as_str(), done.why, done.messages.len()), ("one", AgentEnd::Answered, 4));
}

#[tokio::test]
async fn a_call_in_an_answer_that_goes_back_is_answered_first() {
    let answer =
        r#"[{"type":"text","text":"one"},{"type":"tool_use","id":"toolu_9","name":"look","input":{"n":1}}]"#;
    let model = Model::replies([reply(Stop::EndTurn, answer), Reply::text_of("two")]);
    let look = tool("look", "Looks.", async |_: N| -> Result<String, String> { panic!("it must not run") });
    let check = Check::code(|text| if text == "two" { Ok(()) } else { Err("say two") });
    let done = agent("Go.").with(look).until(check).run(&model, "Go.").await.unwrap();
    assert_eq!(done.text, "two");
    let back = &model.requests.lock().unwrap()[1].messages[2].content;
    let result = back[0].as_tool_result().unwrap();
    assert_eq!((result.id, result.text, result.is_error), ("toolu_9", "this call was not run", true));
    assert_eq!((back.len(), back[1].kind()), (2, "text"), "results first, then the feedback");
}

//! Models, tools and hooks at their worst: whatever they do, each request is one that the Messages API takes.

use std::sync::Mutex;
use std::time::Duration;

use futures::future::FutureExt;
use patterns::layers::Budget;
use patterns::{
    AgentEnd, Block, Check, Decision, ErrorKind, Flow, Llm, Message, Reply, Request, Role, Stop, Tool,
    ToolCall, agent, tool,
};
use proptest::prelude::*;
use serde_json::json;

use super::common::Model;
use super::{N, calls, reply};

/// What is wrong with a conversation by the rules of the Messages API: the user begins and has the last word or a paused
/// turn is resumed; nothing is empty; each call is answered once, in the next message, results first and in order; no
/// result answers nothing.
fn wrong(messages: &[Message]) -> Option<String> {
    if messages.first().is_none_or(|first| first.role != Role::User) {
        return Some("the user does not begin".to_owned());
    }
    for (n, message) in messages.iter().enumerate() {
        if message.content.is_empty() {
            return Some(format!("message {n} is empty"));
        }
        let asked: Vec<&str> = match n.checked_sub(1).map(|n| &messages[n]) {
            Some(before) if before.role == Role::Assistant && message.role == Role::User => {
                before.content.iter().filter_map(Block::as_tool_use).map(|call| call.id).collect()
            }
            Some(before) if before.role == message.role && message.role == Role::User => {
                return Some(format!("message {n}: the user speaks twice"));
            }
            _ => Vec::new(),
        };
        let answered: Vec<&str> =
            message.content.iter().map_while(Block::as_tool_result).map(|result| result.id).collect();
        if answered != asked {
            return Some(format!("message {n} answers {answered:?}, asked was {asked:?}"));
        }
        if message.content[asked.len()..].iter().any(|block| block.as_tool_result().is_some()) {
            return Some(format!("message {n} has results after something else"));
        }
    }
    None
}

/// A block of a turn; ids and names may come again, arguments may be anything.
fn block() -> impl Strategy<Value = String> {
    let input = prop_oneof![
        Just(r#"{"n":1}"#),
        Just(r#"{"n":2}"#),
        Just(r#"{"n":"one"}"#),
        Just("{}"),
        Just("null"),
        Just("[1]"),
        Just(r#""{\"n\":1}""#),
        Just(r#"{"n":1,"N":2}"#),
    ];
    let name = prop_oneof![
        Just("look"),
        Just("write"),
        Just("Look"),
        Just("fail"),
        Just("sub"),
        Just("nope\u{1b}[2J")
    ];
    prop_oneof![
        4 => (0_u8..4, name, input).prop_map(|(id, name, input)| {
            format!(r#"{{"type":"tool_use","id":"toolu_{id}","name":{},"input":{input}}}"#, json!(name))
        }),
        1 => Just(r#"{"type":"text","text":"I look."}"#.to_owned()),
        1 => Just(r#"{"type":"thinking","thinking":"","signature":"sig"}"#.to_owned()),
        1 => Just(r#"{"type":"redacted_thinking","data":"ZW5j"}"#.to_owned()),
        1 => Just(r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}"#.to_owned()),
        1 => Just(r#"{"type":"from_the_future","x":1e0}"#.to_owned()),
    ]
}

fn turn() -> impl Strategy<Value = (Stop, Vec<String>)> {
    let stop = prop_oneof![
        6 => Just(Stop::ToolUse),
        2 => Just(Stop::EndTurn),
        1 => Just(Stop::PauseTurn),
        1 => Just(Stop::Compaction),
        1 => Just(Stop::MaxTokens),
        1 => Just(Stop::Other("from_the_future".to_owned())),
    ];
    (stop, prop::collection::vec(block(), 0..5))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn whatever_the_model_does_each_request_is_one_that_the_service_takes(
        script in prop::collection::vec(turn(), 1..8),
        (turns, tool_calls, at_once) in (1_usize..9, prop::option::of(0_usize..5), 0_usize..4),
        clear in prop::option::of((0_u64..20, 0_usize..3)),
        (checked, says, rewrites) in (any::<bool>(), prop::option::of(any::<bool>()), 0_u8..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let answers: Vec<Reply> = script
            .into_iter()
            .map(|(stop, mut blocks)| {
                // the service pauses no turn in which a call is left open
                if matches!(stop, Stop::PauseTurn | Stop::Compaction) {
                    blocks.retain(|block| !block.contains("\"tool_use\""));
                }
                reply(stop, &format!("[{}]", blocks.join(",")))
            })
            .collect();
        let left = Mutex::new(answers.clone());
        let model = Model::new(move |request: &Request| {
            if request.path.as_str().contains("sub") {
                return Ok(Reply::text_of("from below"));
            }
            let mut left = left.lock().unwrap();
            Ok(if left.is_empty() { Reply::text_of("done") } else { left.remove(0) })
        });
        let answered = Mutex::new(0);
        let mut desk = agent("Work.")
            .with(tool("look", "Looks.", async |N { n }: N| Ok(format!("seen {n}\u{0}\u{1b}[2J"))))
            .with(tool("write", "Writes.", async |_: N| Ok(String::new())).with_effects())
            .with(tool("fail", "Fails.", async |_: N| Err(String::new())))
            .with(Tool::flow("sub", "Works below.", agent("Below.")))
            .turns(turns)
            .at_once(at_once)
            .before(async |call: &ToolCall| match (rewrites, call.name.as_str()) {
                (1, "look") => Decision::Rewrite(json!({"n": "wrong"})),
                (2, "look") => Decision::Rewrite(json!(7)),
                (3, "look") => Decision::Deny(String::new()),
                _ => Decision::Allow,
            });
        if let Some(says) = says {
            desk = desk.ask(move |_| async move { says.then(|| "yes".to_owned()) }.boxed());
        }
        if let Some(most) = tool_calls {
            desk = desk.tool_calls(most);
        }
        if let Some((tokens, keep)) = clear {
            desk = desk.clear_results(tokens, keep);
        }
        if checked {
            desk = desk.until(Check::code(|_| {
                let mut answered = answered.lock().unwrap();
                *answered += 1;
                *answered > 1
            })).rounds(3);
        }
        let Ok(done) = runtime.block_on(desk.run(&model, "Go.")) else { return Ok(()) };
        let requests = model.requests.lock().unwrap();
        for (n, request) in requests.iter().enumerate() {
            let said = wrong(&request.messages);
            prop_assert!(said.is_none(), "request {n}: {} in {:#?}", said.unwrap_or_default(), request.messages);
        }
        // without clearing, what the model wrote is in the conversation byte for byte
        let wrote: Vec<_> = done.messages.iter().filter(|m| m.role == Role::Assistant).map(|m| &m.content).collect();
        let expected: Vec<_> = answers.iter().map(|answer| &answer.content).filter(|content| !content.is_empty()).collect();
        if clear.is_none() {
            for (wrote, expected) in wrote.iter().zip(&expected) {
                prop_assert_eq!(serde_json::to_string(wrote).unwrap(), serde_json::to_string(expected).unwrap());
            }
        }
        prop_assert!(done.turns <= turns);
        prop_assert_eq!(done.turns, requests.iter().filter(|request| !request.path.as_str().contains("sub")).count());
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_calls_of_one_turn_run_a_few_at_once_and_are_all_answered() {
    let uses: Vec<(String, String)> =
        (0..100).map(|n| (format!("toolu_{n}"), format!(r#"{{"n":{n}}}"#))).collect();
    let turn: Vec<_> = uses.iter().map(|(id, input)| (id.as_str(), "look", input.as_str())).collect();
    let model = Model::replies([calls(&turn), Reply::text_of("done")]);
    let at_work = Mutex::new((0, 0));
    let look = tool("look", "Looks.", async |N { n }: N| {
        let now = {
            let mut at_work = at_work.lock().unwrap();
            at_work.0 += 1;
            at_work.1 = at_work.1.max(at_work.0);
            at_work.0
        };
        tokio::time::sleep(Duration::from_millis(100 - n)).await;
        at_work.lock().unwrap().0 -= 1;
        if now % 2 == 0 { Ok(n.to_string()) } else { Err(n.to_string()) }
    });
    let done = agent("Look.").with(look).run(&model, "Go.").await.unwrap();
    let texts: Vec<_> = done.messages[2].content.iter().map(|b| b.as_tool_result().unwrap().text).collect();
    assert_eq!(texts, (0..100).map(|n: u64| n.to_string()).collect::<Vec<_>>());
    assert_eq!((wrong(&done.messages), at_work.into_inner().unwrap()), (None, (0, 8)));
}

#[tokio::test]
async fn a_turn_may_be_paused_again_and_again() {
    let paused = |n: usize| {
        reply(
            Stop::PauseTurn,
            &format!(
                r#"[{{"type":"server_tool_use","id":"srvtoolu_{n}","name":"web_search","input":{{}}}}]"#
            ),
        )
    };
    let model = Model::replies(
        (1..=6).map(paused).chain([calls(&[("a", "look", r#"{"n":1}"#)]), Reply::text_of("done")]),
    );
    let look = tool("look", "Looks.", async |N { n }: N| Ok(n.to_string()));
    let done = agent("Search.").with(look).run(&model, "Go.").await.unwrap();
    assert_eq!((done.text.as_str(), done.turns, wrong(&done.messages)), ("done", 8, None));
    let roles: String = done.messages.iter().map(|m| if m.role == Role::User { 'u' } else { 'a' }).collect();
    assert_eq!(roles, "uaaaaaaaua", "nothing is said in the user's name while the turn goes on");
}

#[tokio::test]
async fn a_subagent_of_a_subagent_that_gets_nowhere_is_told_upwards_as_a_failed_call() {
    let model = Model::new(|request: &Request| {
        let path = request.path.as_str();
        let depth = path.matches("/call").count();
        Ok(match (depth, path.ends_with("turn 1")) {
            (0 | 1, true) => calls(&[("a", "below", r#"{"task":"dig"}"#)]),
            (2, _) => reply(
                Stop::ToolUse,
                r#"[{"type":"text","text":"so deep"},{"type":"tool_use","id":"b","name":"look","input":{"n":1}}]"#,
            ),
            (1, _) => Reply::text_of("nothing below"),
            _ => Reply::text_of("done"),
        })
    });
    let look = tool("look", "Looks.", async |N { n }: N| Ok(n.to_string()));
    let lowest = agent("Lowest.").with(look).turns(2);
    let middle = agent("Middle.").with(Tool::flow("below", "Digs.", lowest));
    let done = agent("Top.").with(Tool::flow("below", "Digs.", middle)).run(&model, "Go.").await.unwrap();
    assert_eq!((done.text.as_str(), done.turns, done.why), ("done", 2, AgentEnd::Answered));
    let requests = model.requests.lock().unwrap();
    let upwards: Vec<_> = requests
        .iter()
        .filter(|request| request.path.as_str() == "turn 1/call 1 below/turn 2")
        .flat_map(|request| &request.messages[2].content)
        .map(|block| block.as_tool_result().unwrap())
        .map(|result| (result.text.to_owned(), result.is_error))
        .collect();
    let text = "the agent has no final answer after 2 turns; allow more turns or ask a narrower question\n\
                What there is so far:\nso deep";
    assert_eq!(upwards, [(text.to_owned(), true)]);
    assert!(requests.iter().all(|request| wrong(&request.messages).is_none()));
}

#[tokio::test]
async fn a_budget_that_ends_in_a_subagent_ends_the_whole_run_and_keeps_what_was_done() {
    let model = Model::new(|request: &Request| {
        Ok(match request.path.as_str() {
            "turn 1" => reply(
                Stop::ToolUse,
                r#"[{"type":"text","text":"I ask below."},{"type":"tool_use","id":"a","name":"below","input":{"task":"dig"}}]"#,
            ),
            "turn 1/call 1 below/turn 1" => calls(&[("b", "look", r#"{"n":1}"#)]),
            path => panic!("nobody should ask at {path}"),
        })
    });
    let look = tool("look", "Looks.", async |N { n }: N| Ok(n.to_string()));
    let desk = agent("Top.").with(Tool::flow("below", "Digs.", agent("Below.").with(look)));
    let llm = model.layer(Budget::default().calls(2));
    let done = desk.run(&llm, "Go.").await.unwrap();
    let AgentEnd::Failed { kind: ErrorKind::OverBudget, reason } = &done.why else {
        panic!("{:?}", done.why)
    };
    assert!(reason.starts_with("turn 2: "), "{reason}");
    assert_eq!((done.text.as_str(), wrong(&done.messages)), ("I ask below.", None));
    let result = done.messages[2].content[0].as_tool_result().unwrap();
    assert!(result.is_error && result.text.contains("budget"), "{}", result.text);
}

#[tokio::test]
async fn a_model_that_insists_on_what_was_denied_ends_at_the_cap_with_nothing_done() {
    let model = Model::new(|_| Ok(calls(&[("a", "write", r#"{"n":1}"#)])));
    let write = tool("write", "Writes.", async |_: N| -> Result<String, String> { panic!("it was denied") });
    let desk = agent("Work.").with(write.with_effects()).ask(|_| async { Some("no".to_owned()) }.boxed());
    let done = desk.run(&model, "Go.").await.unwrap();
    assert_eq!(
        (done.turns, done.denied.len(), &done.why),
        (12, 11, &AgentEnd::Turns),
        "the last one is not even asked about"
    );
    let told = |message: usize| done.messages[message].content[0].as_tool_result().unwrap().text;
    assert_eq!(told(2), "this call was not run: the person did not say yes");
    assert!(
        told(4).contains("the same as in turn 1") && told(22).contains("the same as in turn 10"),
        "{}",
        told(22)
    );
}

/// Nothing is said of a tool that panics, and nothing of it is hidden: the panic is its caller's.
#[tokio::test]
async fn a_tool_that_panics_panics() {
    let model = Model::replies([calls(&[("a", "look", r#"{"n":1}"#), ("b", "boom", r#"{"n":1}"#)])]);
    let desk = agent("Work.")
        .with(tool("look", "Looks.", async |_: N| std::future::pending().await))
        .with(tool("boom", "Breaks.", async |_: N| -> Result<String, String> { panic!("boom") }));
    let run = std::panic::AssertUnwindSafe(desk.run(&model, "Go.")).catch_unwind();
    assert_eq!(run.await.unwrap_err().downcast_ref::<&str>(), Some(&"boom"));
}

//! What goes over the wire in a turn.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use patterns::{
    Block, Event, Flow, Llm, Reply, Request, Result, Role, Stop, ToolChoice, ToolSpec, agent, tool,
};
use proptest::prelude::*;
use serde_json::json;
use tokio::time::Instant;

use super::common::Model;
use super::{N, calls, reply};

#[tokio::test]
async fn what_the_model_wrote_goes_back_byte_for_byte() {
    let content = r#"[{"type":"thinking","thinking":"","signature":"EqQB=="},{"type":"text","text":"caf\u00e9"},{"type":"redacted_thinking","data":"ZW5j"},{"type":"tool_use","id":"toolu_1","name":"count","input":{"n": 1e0}},{"type":"block_from_the_future","x":{"b":1,"a":[null]}}]"#;
    let model = Model::replies([reply(Stop::ToolUse, content), Reply::text_of("done")]);
    let count = tool("count", "Counts.", async |N { n }: N| Ok(n.to_string()));
    agent("Count.").with(count).run(&model, "Go.").await.unwrap();
    let requests = model.requests.lock().unwrap();
    let sent = serde_json::to_string(&requests[1].messages[1].content).unwrap();
    assert_eq!(sent, content);
    assert_eq!(requests[1].messages[..1], requests[0].messages[..], "the conversation is only added to");
    assert_eq!((&requests[1].system, requests[1].tools.len()), (&requests[0].system, 1));
}

#[tokio::test]
async fn the_results_of_a_turn_are_one_user_message_results_first_with_their_ids() {
    let turn =
        [("toolu_A", "count", r#"{"n":1}"#), ("toolu_B", "count", r#"{"n":0}"#), ("toolu_C", "nope", "{}")];
    let model = Model::replies([calls(&turn), Reply::text_of("done")]);
    let count = tool("count", "Counts.", async |N { n }: N| {
        if n == 0 { Err("n must not be 0; count from 1".to_owned()) } else { Ok(format!("{n} sheep")) }
    });
    let done = agent("Count.").with(count).run(&model, "Go.").await.unwrap();
    let [_, _, results, _] = done.messages.as_slice() else { panic!("{:?}", done.messages) };
    assert_eq!(results.role, Role::User);
    let seen: Vec<_> = results
        .content
        .iter()
        .map(|block| block.as_tool_result().map(|r| (r.id, r.text, r.is_error)))
        .collect();
    assert_eq!(
        seen,
        [
            Some(("toolu_A", "1 sheep", false)),
            Some(("toolu_B", "n must not be 0; count from 1", true)),
            Some(("toolu_C", "no tool is named `nope`; the tools are: count", true)),
        ]
    );
    let wire = serde_json::to_value(&results.content[0]).unwrap();
    assert_eq!(
        wire,
        json!({"type": "tool_result", "tool_use_id": "toolu_A", "content": "1 sheep"}),
        "no is_error when fine"
    );
}

#[tokio::test(start_paused = true)]
async fn three_tools_of_half_a_second_take_half_a_second() {
    let turn = [("a", "slow", r#"{"n":0}"#), ("b", "slow", r#"{"n":1}"#), ("c", "slow", r#"{"n":2}"#)];
    let slow = || {
        tool("slow", "Slow.", async |N { n }: N| {
            tokio::time::sleep(Duration::from_millis(500)).await;
            Ok(n.to_string())
        })
    };
    for (at_once, took) in [(8, 500), (0, 500), (2, 1_000), (1, 1_500)] {
        let start = Instant::now();
        let model = Model::replies([calls(&turn), Reply::text_of("done")]);
        agent("Wait.").with(slow()).at_once(at_once).run(&model, "Go.").await.unwrap();
        assert_eq!(start.elapsed().as_millis(), took, "{at_once} at once");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn results_stand_in_the_order_of_the_calls_whatever_time_they_take(
        waits in prop::collection::vec(0_u64..1_000, 1..8),
        at_once in 0_usize..5,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let uses: Vec<(String, String)> =
            waits.iter().enumerate().map(|(n, wait)| (format!("id {n}"), format!(r#"{{"n":{wait}}}"#))).collect();
        let turn: Vec<_> = uses.iter().map(|(id, input)| (id.as_str(), "wait", input.as_str())).collect();
        let model = Model::replies([calls(&turn), Reply::text_of("done")]);
        let wait = tool("wait", "Waits.", async |N { n }: N| {
            tokio::time::sleep(Duration::from_millis(n)).await;
            Ok(n.to_string())
        });
        let done = runtime.block_on(async { agent("Wait.").with(wait).at_once(at_once).run(&model, "Go.").await }).unwrap();
        let ids: Vec<_> = done.messages[2].content.iter().filter_map(Block::as_tool_result).map(|r| r.id.to_owned()).collect();
        prop_assert_eq!(ids, uses.into_iter().map(|(id, _)| id).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn tools_with_effects_never_run_at_the_same_time() {
    let turn = [("a", "write", r#"{"n":1}"#), ("b", "write", r#"{"n":2}"#), ("c", "look", r#"{"n":3}"#)];
    let model = Model::replies([calls(&turn), Reply::text_of("done")]);
    let log = std::sync::Mutex::new(Vec::new());
    let job = async |N { n }: N| {
        log.lock().unwrap().push(format!("{n} starts"));
        tokio::time::sleep(Duration::from_millis(500)).await;
        log.lock().unwrap().push(format!("{n} ends"));
        Ok(String::new())
    };
    let desk =
        agent("Work.").with(tool("write", "Writes.", job).with_effects()).with(tool("look", "Looks.", job));
    let start = Instant::now();
    desk.allow(["write"]).run(&model, "Go.").await.unwrap();
    assert_eq!(start.elapsed().as_millis(), 1_000);
    let log = log.into_inner().unwrap();
    let writes: Vec<_> = log.iter().filter(|line| !line.starts_with('3')).collect();
    assert_eq!(writes, ["1 starts", "1 ends", "2 starts", "2 ends"]);
}

#[tokio::test]
async fn a_forced_choice_holds_for_the_first_turn_only() {
    for (choice, then) in [
        (ToolChoice::Any, ToolChoice::Auto),
        (ToolChoice::Tool("count".into()), ToolChoice::Auto),
        (ToolChoice::None, ToolChoice::None),
    ] {
        let model = Model::replies([calls(&[("a", "count", r#"{"n":1}"#)]), Reply::text_of("done")]);
        let count = tool("count", "Counts.", async |_: N| Ok("1".to_owned()));
        let desk = agent("Count.").with(count).tool_choice(choice.clone()).one_tool_a_turn();
        desk.run(&model, "Go.").await.unwrap();
        let requests = model.requests.lock().unwrap();
        assert_eq!((&requests[0].tool_choice, &requests[1].tool_choice), (&choice, &then));
        assert!(requests.iter().all(|request| request.disable_parallel_tool_use));
    }
}

#[tokio::test]
async fn server_tools_are_passed_through_and_their_blocks_are_nobodys_calls() {
    let search = json!({"type": "web_search_20260318", "name": "web_search", "max_uses": 3});
    let first = reply(
        Stop::EndTurn,
        r#"[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"bees"}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]},{"type":"text","text":"bees"}]"#,
    );
    let model = Model::replies([first]);
    let done = agent("Search.").with_server_tool(&search).run(&model, "Go.").await.unwrap();
    assert_eq!((done.text.as_str(), model.calls()), ("bees", 1));
    let requests = model.requests.lock().unwrap();
    let ToolSpec::Server(raw) = &requests[0].tools[0] else { panic!("{:?}", requests[0].tools) };
    assert_eq!(serde_json::from_str::<serde_json::Value>(raw.get()).unwrap(), search);
}

#[tokio::test]
async fn a_turn_is_told_before_its_tools_run() {
    let model = Model::replies([calls(&[("a", "count", r#"{"n":1}"#)]), Reply::text_of("done")]);
    let seen = std::sync::Mutex::new(Vec::new());
    let count = tool("count", "Counts.", async |_: N| {
        *seen.lock().unwrap() = model.events();
        Err("broken".to_owned())
    });
    agent("Count.").with(count).run(&model, "Go.").await.unwrap();
    let before = seen.into_inner().unwrap();
    assert!(
        matches!(&before[..], [Event::Turn { number: 1, stop, calls, .. }, Event::ToolCall { name, .. }]
            if stop == "tool_use" && calls[0] == ("count".to_owned(), json!({"n": 1})) && name == "count"),
        "{before:?}"
    );
    let told = model.told.lock().unwrap();
    assert!(told.iter().any(|(path, event)| path == "turn 1"
        && matches!(event, Event::ToolResult { error: Some(error), .. } if error == "broken")));
    assert!(
        told.iter().any(|(path, event)| path == "turn 2" && matches!(event, Event::Turn { number: 2, .. }))
    );
}

/// A model that notes when a tool is told to start and to end, in milliseconds.
struct Watched(Model, Instant, std::sync::Mutex<Vec<(String, char, u128)>>);

impl Llm for Watched {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        self.0.call(request)
    }
    fn note(&self, _: patterns::Path, event: Event) {
        let (id, what) = match event {
            Event::ToolCall { id, .. } => (id, '>'),
            Event::ToolResult { id, .. } => (id, '<'),
            _ => return,
        };
        self.2.lock().unwrap().push((id, what, self.1.elapsed().as_millis()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_is_told_when_it_is_there() {
    let turn = [
        ("a", "slow", r#"{"n":900}"#),
        ("b", "slow", r#"{"n":100}"#),
        ("c", "nope", "{}"),
        ("d", "slow", r#"{"n":500}"#),
    ];
    let model = Model::replies([calls(&turn), Reply::text_of("done")]);
    let watched = Watched(model, Instant::now(), std::sync::Mutex::default());
    let slow = tool("slow", "Slow.", async |N { n }: N| {
        tokio::time::sleep(Duration::from_millis(n)).await;
        Ok(n.to_string())
    });
    agent("Wait.").with(slow).at_once(2).run(&watched, "Go.").await.unwrap();
    let told: Vec<String> =
        watched.2.lock().unwrap().iter().map(|(id, what, at)| format!("{id}{what}{at}")).collect();
    assert_eq!(told, ["c<0", "a>0", "b>0", "b<100", "d>100", "d<600", "a<900"]);
}

/// A model that answers after a while.
struct Slow(Model);

impl Llm for Slow {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.0.call(request).await
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_run_stops_its_tools() {
    let model = Slow(Model::replies([calls(&[("a", "write", r#"{"n":1}"#)]), Reply::text_of("done")]));
    let ended = std::sync::atomic::AtomicBool::new(false);
    let write = tool("write", "Writes.", async |_: N| {
        tokio::time::sleep(Duration::from_secs(10)).await;
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        Ok(String::new())
    });
    let desk = agent("Work.").with(write);
    let run = desk.run(&model, "Go.");
    assert!(tokio::time::timeout(Duration::from_secs(5), run).await.is_err());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!ended.load(std::sync::atomic::Ordering::Relaxed));
    assert_eq!(model.0.calls(), 1);
}

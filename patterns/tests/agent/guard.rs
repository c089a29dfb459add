//! Guard rails: who may stop a call, and what the model is told.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::FutureExt;
use patterns::layers::Budget;
use patterns::{
    Agent, AgentEnd, Agented, Decision, ErrorKind, Flow, Llm, Question, Reply, Tool, ToolCall, agent, tool,
};
use serde_json::json;

use super::common::Model;
use super::{N, calls};

/// A tool with effects that notes what it was called with.
fn refund(ran: &Mutex<Vec<u64>>) -> Tool<'_> {
    tool("refund", "Refunds.", async move |N { n }: N| {
        ran.lock().unwrap().push(n);
        Ok(format!("refunded {n}"))
    })
    .with_effects()
}

fn says(
    line: Option<&'static str>,
) -> impl Fn(Question) -> futures::future::BoxFuture<'static, Option<String>> {
    move |_| async move { line.map(str::to_owned) }.boxed()
}

async fn one_call(desk: Agent<'_>, input: &str) -> Agented {
    let model = Model::replies([calls(&[("toolu_1", "refund", input)]), Reply::text_of("done")]);
    desk.run(&model, "Refund order 7.").await.unwrap()
}

fn told(done: &Agented) -> (&str, bool) {
    let result = done.messages[2].content[0].as_tool_result().unwrap();
    (result.text, result.is_error)
}

#[tokio::test]
async fn only_yes_lets_a_tool_with_effects_run() {
    for (line, runs) in [
        (Some("yes"), true),
        (Some(" yes\n"), true),
        (Some("y"), false),
        (Some("Yes"), false),
        (Some("yes please"), false),
        (Some(""), false),
        (Some("no"), false),
        (None, false),
    ] {
        let ran = Mutex::default();
        let done = one_call(agent("Desk.").with(refund(&ran)).ask(says(line)), r#"{"n":7}"#).await;
        assert_eq!(ran.lock().unwrap().len(), usize::from(runs), "{line:?}");
        assert_eq!(done.denied.len(), usize::from(!runs), "{line:?}");
        let (text, is_error) = told(&done);
        assert_eq!(is_error, !runs, "{line:?}: {text}");
        assert!(runs || text.starts_with("this call was not run: "), "{text}");
    }
}

#[tokio::test]
async fn without_a_person_nothing_with_effects_runs() {
    let ran = Mutex::default();
    let done = one_call(agent("Desk.").with(refund(&ran)), r#"{"n":7}"#).await;
    assert!(ran.lock().unwrap().is_empty());
    assert_eq!(done.denied[0].call.input, json!({"n": 7}));
    assert!(told(&done).0.contains("nobody can be asked"), "{}", told(&done).0);
}

#[tokio::test]
async fn nobody_is_asked_about_a_call_that_cannot_run() {
    let asked = AtomicUsize::new(0);
    let ran = Mutex::default();
    let desk = agent("Desk.").with(refund(&ran)).ask(|_| {
        asked.fetch_add(1, Ordering::Relaxed);
        async { Some("yes".to_owned()) }.boxed()
    });
    let done = one_call(desk, r#"{"n":"seven"}"#).await;
    assert_eq!((asked.load(Ordering::Relaxed), ran.lock().unwrap().len(), done.denied.len()), (0, 0, 0));
    assert_eq!(
        told(&done).0,
        "invalid arguments for `refund`: `n` must be of type integer, not \"seven\". The arguments are {n: integer}. \
         Nothing was run; correct the call."
    );
}

#[tokio::test]
async fn the_person_sees_what_will_run() {
    let question = Mutex::default();
    let ran = Mutex::default();
    let desk = agent("Desk.")
        .with(refund(&ran))
        .before(async |call: &ToolCall| {
            Decision::Rewrite(json!({"n": call.input["n"].as_u64().unwrap_or(0).min(5)}))
        })
        .ask(|asked: Question| {
            *question.lock().unwrap() = Some(asked);
            async { Some("yes".to_owned()) }.boxed()
        });
    one_call(desk, r#"{"n":7}"#).await;
    let question = question.into_inner().unwrap().unwrap();
    assert_eq!((question.gate.as_str(), question.text.as_str()), ("refund", r#"refund({"n":5})"#));
    assert_eq!(*ran.lock().unwrap(), [5]);
}

#[tokio::test]
async fn allowed_tools_are_approved_beforehand_and_disallowed_ones_do_not_exist() {
    let ran = Mutex::default();
    one_call(agent("Desk.").with(refund(&ran)).allow(["refund"]), r#"{"n":7}"#).await;
    assert_eq!(*ran.lock().unwrap(), [7]);

    let ran = Mutex::default();
    let desk =
        agent("Desk.").with(refund(&ran)).allow(["refund"]).disallow(["refund"]).ask(says(Some("yes")));
    let done = one_call(desk, r#"{"n":7}"#).await;
    assert!(ran.lock().unwrap().is_empty(), "deny wins");
    assert_eq!(told(&done).0, "no tool is named `refund`; the tools are: there are none");
}

#[tokio::test]
async fn a_disallowed_tool_is_not_shown_to_the_model() {
    let ran = Mutex::default();
    let model = Model::replies([Reply::text_of("done")]);
    agent("Desk.").with(refund(&ran)).disallow(["refund"]).run(&model, "Go.").await.unwrap();
    assert!(model.requests.lock().unwrap()[0].tools.is_empty());
}

#[tokio::test]
async fn hooks_allow_deny_ask_and_rewrite() {
    // (what the hook says, allowed beforehand, what the person says, what ran)
    let rows: [(Decision, bool, Option<&'static str>, &[u64]); 8] = [
        (Decision::Allow, false, Some("yes"), &[7]),
        (Decision::Allow, false, Some("no"), &[]), // a hook's yes does not stand for the person's
        (Decision::Allow, true, None, &[7]),
        (Decision::Deny("closed on Sundays".into()), true, Some("yes"), &[]),
        (Decision::Ask, true, Some("yes"), &[7]),
        (Decision::Ask, true, None, &[]),
        (Decision::Rewrite(json!({"n": 3})), true, None, &[3]),
        (Decision::Rewrite(json!({"m": 3})), true, None, &[]), // held against the schema, too
    ];
    for (decision, allowed, line, expected) in rows {
        let row = format!("{decision:?} {allowed} {line:?}");
        let ran = Mutex::default();
        let said = decision.clone();
        let mut desk =
            agent("Desk.").with(refund(&ran)).ask(says(line)).before(async |_: &ToolCall| said.clone());
        if allowed {
            desk = desk.allow(["refund"]);
        }
        let done = one_call(desk, r#"{"n":7}"#).await;
        assert_eq!(*ran.lock().unwrap(), expected, "{row}");
        if let Decision::Deny(reason) = decision {
            assert_eq!(
                (told(&done).0, &done.denied[0].reason),
                ("this call was not run: closed on Sundays", &reason)
            );
        }
    }
}

#[tokio::test]
async fn a_hook_after_the_tool_may_change_what_the_model_sees() {
    let ran = Mutex::default();
    let desk = agent("Desk.").with(refund(&ran)).allow(["refund"]).after(
        async |call: &ToolCall, result: Result<String, String>| {
            result.map(|text| format!("{text} [{} on turn {}]", call.name, call.turn))
        },
    );
    assert_eq!(told(&one_call(desk, r#"{"n":7}"#).await), ("refunded 7 [refund on turn 1]", false));
}

#[tokio::test]
async fn a_long_result_is_cut_and_says_how_to_ask_for_less() {
    let long = || tool("refund", "Long.", async |N { n }: N| Ok("é".repeat(usize::try_from(n).unwrap_or(0))));
    let done = one_call(agent("Desk.").with(long()), r#"{"n":20000}"#).await;
    assert_eq!(told(&done).0.chars().count(), 20_000, "not cut");
    let done = one_call(agent("Desk.").with(long()), r#"{"n":20001}"#).await;
    let note = "\n[cut: the first 20000 of 20001 characters. Ask for less: a narrower range or a more specific question.]";
    assert!(told(&done).0.ends_with(note), "{}", &told(&done).0[39_900..]);
    let done = one_call(agent("Desk.").with(long().cap(5, "Read fewer lines.")), r#"{"n":9}"#).await;
    assert_eq!(told(&done).0, "ééééé\n[cut: the first 5 of 9 characters. Read fewer lines.]");
}

#[tokio::test]
async fn the_same_call_with_the_same_result_is_noticed_and_told() {
    let turn = |id, n: &'static str| calls(&[(id, "look", n)]);
    let model = Model::replies([
        turn("a", r#"{"n":1}"#),
        turn("b", r#"{ "n": 1 }"#),
        turn("c", r#"{"n":2}"#),
        turn("d", r#"{"n":0}"#),
        turn("e", r#"{"n":0}"#),
        Reply::text_of("done"),
    ]);
    let polled = AtomicUsize::new(0);
    let look = tool("look", "Looks.", async |N { n }: N| {
        // 0 is a job that goes on: the same call, another result
        if n == 0 {
            Ok(format!("{} % done", polled.fetch_add(1, Ordering::Relaxed)))
        } else {
            Ok("nothing".to_owned())
        }
    });
    let done = agent("Look.").with(look).run(&model, "Go.").await.unwrap();
    let texts: Vec<_> =
        done.messages.iter().filter_map(|m| Some(m.content[0].as_tool_result()?.text)).collect();
    assert_eq!(texts[0], "nothing");
    assert!(texts[1].contains("the same as in turn 1"), "{}", texts[1]);
    assert_eq!(texts[2..], ["nothing", "0 % done", "1 % done"]);
}

#[tokio::test]
async fn the_limit_of_tool_calls_is_told_and_held() {
    let turn = [("a", "look", r#"{"n":1}"#), ("b", "look", r#"{"n":2}"#), ("c", "look", r#"{"n":3}"#)];
    let model = Model::replies([calls(&turn), calls(&turn), Reply::text_of("done")]);
    let ran = AtomicUsize::new(0);
    let look = tool("look", "Looks.", async |_: N| {
        ran.fetch_add(1, Ordering::Relaxed);
        Ok("seen".to_owned())
    });
    let done = agent("Look.").with(look).tool_calls(2).run(&model, "Go.").await.unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 2);
    let third = done.messages[2].content[2].as_tool_result().unwrap();
    assert_eq!(
        (third.text, third.is_error),
        ("the limit of 2 tool calls is used up; answer with what you have and say what is missing", true)
    );
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_takes_too_long_is_stopped_and_told() {
    let slow = || {
        tool("refund", "Slow.", async |_: N| {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok(String::new())
        })
        .timeout(Duration::from_millis(1_500))
    };
    let done = one_call(agent("Desk.").with(slow()), r#"{"n":1}"#).await;
    assert_eq!(told(&done), ("`refund` was stopped, it gave no result within 1.5 s", true));
    // what a tool with effects had done by then nobody knows
    let desk = agent("Desk.").with(slow().with_effects()).allow(["refund"]);
    let done = one_call(desk, r#"{"n":1}"#).await;
    let text = "`refund` was stopped, it gave no result within 1.5 s; it may have been done all the same, so do not just \
                call it again";
    assert_eq!(told(&done), (text, true));
}

#[tokio::test(start_paused = true)]
async fn tools_that_never_return_end_with_the_time_of_the_run_and_what_was_done_is_kept() {
    let started = Mutex::new(Vec::new());
    let hang = || {
        tool("hang", "Hangs.", async |N { n }: N| {
            started.lock().unwrap().push(n);
            std::future::pending().await
        })
    };
    let turn = [("a", "hang", r#"{"n":1}"#), ("b", "write", r#"{"n":2}"#), ("c", "write", r#"{"n":3}"#)];
    let mut first = calls(&turn);
    first.content.insert(0, patterns::Block::text("So far."));
    let time = Duration::from_secs(2);
    let model = Model::replies([first]).layer(Budget::default().time(time));
    let desk = agent("Wait.")
        .with(hang())
        .with(hang().named("write").with_effects())
        .allow(["write"])
        .tool_time(time);
    let start = tokio::time::Instant::now();
    let done = desk.run(&model, "Go.").await.unwrap();
    assert_eq!(start.elapsed(), time);
    assert!(matches!(done.why, AgentEnd::Failed { kind: ErrorKind::OverBudget, .. }), "{:?}", done.why);
    assert_eq!(
        (done.text.as_str(), &*started.lock().unwrap()),
        ("So far.", &vec![1, 2]),
        "3 waits for its turn"
    );
    let texts: Vec<_> = done.messages[2].content.iter().map(|b| b.as_tool_result().unwrap().text).collect();
    assert_eq!(texts[0], "`hang` was stopped, the time for tools is over");
    assert!(texts[1].contains("it may have been done all the same"), "{texts:?}");
    assert_eq!(texts[2], "this call was not run: the time for tools is over");
}

#[tokio::test(start_paused = true)]
async fn no_tool_starts_when_the_time_for_tools_is_over() {
    let ran = Mutex::default();
    let desk = agent("Desk.").with(refund(&ran)).tool_time(Duration::from_secs(2)).ask(|_| {
        async {
            tokio::time::sleep(Duration::from_secs(3)).await; // the person thinks
            Some("yes".to_owned())
        }
        .boxed()
    });
    let done = one_call(desk, r#"{"n":7}"#).await;
    assert!(ran.lock().unwrap().is_empty());
    assert_eq!(told(&done), ("this call was not run: the time for tools is over", true));
}

#[tokio::test]
async fn a_wrong_or_denied_call_that_is_repeated_is_noticed_too() {
    let model = Model::replies([
        calls(&[("a", "nope", "{}"), ("b", "refund", r#"{"n":7}"#)]),
        calls(&[("c", "nope", "{}"), ("d", "refund", r#"{"n":7}"#)]),
        Reply::text_of("done"),
    ]);
    let ran = Mutex::default();
    let done = agent("Desk.").with(refund(&ran)).run(&model, "Go.").await.unwrap();
    for block in &done.messages[4].content {
        let text = block.as_tool_result().unwrap().text;
        assert!(text.contains("the same as in turn 1"), "{text}");
    }
}

#[tokio::test]
async fn a_result_that_was_cleared_may_be_asked_for_again() {
    let turn = |id, tokens| {
        let mut reply = calls(&[(id, "look", r#"{"n":1}"#)]);
        reply.usage.input_tokens = tokens;
        reply
    };
    let other = calls(&[("b", "look", r#"{"n":2}"#)]);
    let model = Model::replies([
        turn("a", 0),
        Reply { usage: turn("b", 9_000).usage, ..other },
        turn("c", 0),
        Reply::text_of("done"),
    ]);
    let look = tool("look", "Looks.", async |_: N| Ok("seen".to_owned()));
    let done = agent("Look.").with(look).clear_results(1_000, 1).run(&model, "Go.").await.unwrap();
    let texts: Vec<_> =
        done.messages.iter().filter_map(|m| Some(m.content[0].as_tool_result()?.text)).collect();
    assert!(texts[0].starts_with("[cleared"), "{texts:?}");
    assert_eq!(texts[2], "seen", "it was told to call the tool again");
}

#[tokio::test]
async fn what_a_person_is_asked_hides_nothing() {
    let question = Mutex::default();
    let pay = tool("pay", "Pays.", async |args: serde_json::Value| Ok(args.to_string()))
        .schema(json!({"type": "object"}))
        .with_effects();
    let input = r#"{"to":"bob\u202eecila\u009b2J\u200b\udb40\udc41"}"#;
    let model = Model::replies([calls(&[("a", "pay", input)]), Reply::text_of("done")]);
    let desk = agent("Desk.").with(pay).ask(|asked: Question| {
        *question.lock().unwrap() = asked.text;
        async { None }.boxed()
    });
    desk.run(&model, "Go.").await.unwrap();
    assert_eq!(*question.lock().unwrap(), r#"pay({"to":"bob\u202eecila\u009b2J\u200b\udb40\udc41"})"#);
}

#[tokio::test]
async fn every_hook_is_asked_and_one_deny_is_enough() {
    for first in [Decision::Allow, Decision::Ask, Decision::Rewrite(json!({"n": 1}))] {
        let ran = Mutex::default();
        let said = first.clone();
        let desk = agent("Desk.")
            .with(refund(&ran))
            .allow(["refund"])
            .ask(says(Some("yes")))
            .before(async |_: &ToolCall| said.clone())
            .before(async |_: &ToolCall| Decision::Deny("not today".into()));
        let done = one_call(desk, r#"{"n":7}"#).await;
        assert!(ran.lock().unwrap().is_empty(), "{first:?}");
        assert_eq!(done.denied[0].reason, "not today");
    }
}

//! Chains and gates: what they promise.

mod common;

use common::Model;
use patterns::{Check, Error, ErrorKind, Flow, Gated, Judge, Reply, Request, Stop, chain, prompt, step};
use proptest::{prop_assert, prop_assert_eq, proptest};

#[tokio::test]
async fn nothing_after_a_closed_gate_is_called() {
    let model = Model::by_path(|_| "no outline here");
    let flow = "Outline."
        .gate("has a conclusion", |text| text.contains("Conclusion"))
        .then("Write.")
        .then("Polish.");
    let error = flow.run(&model, "bees").await.unwrap_err();
    let gated = error.cause::<Gated>().unwrap();
    assert_eq!(error.kind(), ErrorKind::Gated);
    assert_eq!((gated.step.as_str(), gated.gate.as_str()), ("step 1", "has a conclusion"));
    assert_eq!(gated.reason, "the condition does not hold");
    assert_eq!(gated.text, "no outline here");
    assert_eq!(error.partial(), Some("no outline here"), "the work is not lost");
    assert_eq!(model.paths(), ["step 1"]);
}

#[tokio::test]
async fn a_repair_asks_only_the_step_before_the_gate_and_says_why() {
    let model = Model::by_path(|path| match path {
        "step 1" => "facts",
        "step 2" => "a very long text indeed",
        "step 2/attempt 2" => "short",
        _ => "done",
    });
    let check = |text: &str| if text.len() > 10 { Err("it is too long") } else { Ok(()) };
    let flow = "Collect.".then("Write.").gate("is short", check).repair(1).then("Polish.");
    assert_eq!(flow.shape().calls().to_string(), "3 to 4 calls");
    assert_eq!(flow.run(&model, "bees").await.unwrap(), "done");
    assert_eq!(model.paths(), ["step 1", "step 2", "step 2/attempt 2", "step 3"]);
    let again = model.sent("step 2/attempt 2");
    assert!(
        again.contains("facts")
            && again.contains("a very long text indeed")
            && again.contains("it is too long"),
        "{again}"
    );
}

#[tokio::test]
async fn repairs_are_capped() {
    let model = Model::by_path(|_| "never right");
    let flow = "Write.".gate("is right", |_| false).repair(2);
    assert_eq!(flow.run(&model, "x").await.unwrap_err().kind(), ErrorKind::Gated);
    assert_eq!(model.calls(), 3);
}

#[tokio::test]
async fn several_gates_stand_after_one_step_and_each_has_its_own_repairs() {
    let model = Model::in_turn(&["abcdef", "abcX", "aX"]);
    let flow = "Write."
        .gate("has an X", |text| text.contains('X'))
        .repair(1)
        .gate("is short", |text| text.len() < 3)
        .repair(1);
    assert_eq!(flow.run(&model, "x").await.unwrap(), "aX");
    assert_eq!(flow.shape().calls().to_string(), "1 to 3 calls");
}

#[tokio::test]
async fn a_word_gate_is_closed_by_the_word_and_by_nothing_like_it() {
    for (text, open) in [
        ("FAIL", false),
        ("FAIL: no figures", false),
        ("The FAILOVER works.", true),
        ("It did not FAIL.", true),
        ("All is well.", true),
    ] {
        let model = Model::new(move |_| Ok(Reply::text_of(text)));
        let result = "Check.".gate_by("ok", Check::word("FAIL")).run(&model, "x").await;
        assert_eq!(result.is_ok(), open, "{text}");
    }
}

#[tokio::test]
async fn a_judge_that_cannot_be_read_closes_the_gate() {
    for (verdict, open) in [
        ("<evaluation>PASS</evaluation>", true),
        ("<evaluation>\nPass\n</evaluation>", true),
        ("<evaluation>FAIL</evaluation>", false),
        ("<evaluation>NEEDS_IMPROVEMENT</evaluation>", false),
        ("I would not say PASS.", false),
        ("Looks good to me!", false),
    ] {
        let model = Model::by_path(move |path| if path.contains("judge") { verdict } else { "text" });
        let result = "Write.".gate_by("good", Check::judge("It is good.")).run(&model, "x").await;
        assert_eq!(result.is_ok(), open, "{verdict}");
        assert_eq!(model.paths(), ["", "gate good/judge"], "a gate's judge is asked once");
    }
}

#[tokio::test]
async fn only_the_word_yes_of_a_person_opens_a_gate() {
    for (line, open) in [
        (Some("yes"), true),
        (Some(" yes\n"), true),
        (Some("y"), false),
        (Some("YES"), false),
        (Some(""), false),
        (None, false),
    ] {
        let model = Model::by_path(|_| "text");
        let ask = move |_| -> futures::future::BoxFuture<'static, _> {
            Box::pin(async move { line.map(str::to_owned) })
        };
        let result = "Write.".gate_by("send it?", Check::person(ask)).run(&model, "x").await;
        assert_eq!(result.is_ok(), open, "{line:?}");
    }
}

#[tokio::test]
async fn a_score_below_the_threshold_closes_the_gate_and_no_score_is_assumed() {
    for (score, open) in [
        ("<score>8/10</score>", true),
        ("<score>0.85</score>", true),
        ("<score>7/10</score>", false),
        ("high", false),
    ] {
        let model = Model::by_path(move |path| if path.contains("judge") { score } else { "text" });
        let judge = Judge::criteria("It is good.").at_least(0.8);
        assert_eq!(
            "Write.".gate_by("good", Check::judge(judge)).run(&model, "x").await.is_ok(),
            open,
            "{score}"
        );
    }
}

#[tokio::test]
async fn no_stop_reason_but_a_finished_answer_goes_to_the_next_step() {
    for stop in [
        Stop::MaxTokens,
        Stop::ToolUse,
        Stop::PauseTurn,
        Stop::Refusal { category: Some("bio".into()), explanation: None },
        Stop::ContextWindow,
        Stop::Other("content_filter".into()),
    ] {
        for position in 1..=3 {
            let at = format!("step {position}");
            let stop = stop.clone();
            let model = Model::new(move |request| {
                let stop = if request.path.as_str() == at { stop.clone() } else { Stop::EndTurn };
                Ok(Reply { stop, ..Reply::text_of("half a sen") })
            });
            let error = "a".then("b").then("c").run(&model, "x").await.unwrap_err();
            assert_eq!(error.partial(), Some("half a sen"));
            assert_eq!(model.calls(), position);
        }
    }
}

#[tokio::test]
async fn an_error_of_a_step_ends_the_chain_and_names_its_place() {
    let model = Model::by_path(|_| "text");
    let flow = "a"
        .then(step("count", async |_, _| Err(Error::step("there is nothing to count"))).calls(0..=0))
        .then("b");
    let error = flow.run(&model, "x").await.unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Step, "there is nothing to count"));
    assert_eq!(model.calls(), 1);
}

#[tokio::test]
async fn a_step_cannot_make_more_calls_than_it_declared() {
    let model = Model::by_path(|_| "text");
    let greedy = step("greedy", async |llm, text| {
        llm.ask(text).await?;
        llm.ask(text).await
    });
    let error = greedy.calls(0..=1).run(&model, "x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cap);
    assert_eq!(model.calls(), 1);
}

#[tokio::test]
async fn ten_thousand_steps_need_no_deeper_stack_than_ten() {
    let model = Model::new(|request| Ok(Reply::text_of(request.text())));
    let steps = (0..10_000)
        .map(|n| if n % 2 == 0 { "{input}".boxed() } else { "{input}".gate("ok", |_| true).boxed() });
    let flow = chain(steps);
    assert_eq!(flow.shape().calls().to_string(), "10000 calls");
    assert!(flow.shape().mermaid().len() > 10_000);
    assert_eq!(flow.run(&model, "x").await.unwrap(), "x");
}

#[tokio::test]
async fn the_steps_of_a_nested_chain_are_numbered_through() {
    let model = Model::by_path(|_| "text");
    let front = chain(["a".boxed(), "b".boxed()]);
    front.then("c").then("d".then("e")).run(&model, "x").await.unwrap();
    assert_eq!(model.paths(), ["step 1", "step 2", "step 3", "step 4/step 1", "step 4/step 2"]);
}

#[tokio::test]
async fn a_model_of_its_own_holds_for_everything_inside_that_names_none() {
    let model = Model::new(|request| Ok(Reply::text_of(request.model.clone().unwrap_or("default".into()))));
    let flow = "{input} a".with_model("x:small").then("{input} b").with_model("x:large");
    assert_eq!(flow.run(&model, "").await.unwrap(), "x:large");
    assert_eq!("a".run(&model, "").await.unwrap(), "default");
    assert_eq!("a".with_model("x:small").with_model("x:large").run(&model, "").await.unwrap(), "x:small");
}

proptest! {
    #[test]
    fn what_one_step_writes_reaches_the_next_byte_for_byte(text in "\\PC{0,60}", tags in "[<>/{}$input& ]{0,20}") {
        let text = format!("{text}{tags}x");
        let given = text.clone();
        let model = Model::new(move |request| {
            Ok(Reply::text_of(if request.path.as_str() == "step 1" { given.clone() } else { request.text() }))
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let echoed = runtime.block_on("Write.".then(prompt("[{input}]")).run(&model, "x")).unwrap();
        prop_assert_eq!(echoed, format!("[{text}]"));
        let echoed = runtime.block_on("Write.".then("Polish.").run(&model, "x")).unwrap();
        prop_assert!(echoed.contains(&text));
    }
}

#[test]
fn a_request_says_where_it_was_made() {
    assert_eq!(Request::new("x").at("judge").at("draft 1").path.as_str(), "draft 1/judge");
}

#[tokio::test]
async fn a_step_borrows_what_stands_around_it() {
    let greeting = String::from("Dear");
    let counted = std::sync::Mutex::new(0);
    let greet = step("greet", async |_, name| {
        *counted.lock().unwrap() += 1;
        Ok(format!("{greeting} {name}"))
    });
    assert_eq!(greet.run(&Model::by_path(|_| "never asked"), "Ada").await.unwrap(), "Dear Ada");
    assert_eq!(*counted.lock().unwrap(), 1);
}

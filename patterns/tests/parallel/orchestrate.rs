use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use patterns::{
    Census, ErrorKind, Event, Flow, Orchestrate, Orchestrated, Plan, Policy, Status, Task, orchestrate,
    prompt, sections, vote,
};
use tokio::time::{Instant, timeout};

use crate::model::{Act, Model, fail, say, seconds};

/// A plan as a model writes it: `id: needs`, separated by commas.
pub(crate) fn plan(tasks: &[(&str, &str)]) -> String {
    let tasks: String = tasks
        .iter()
        .map(|(id, needs)| {
            format!("<task><id>{id}</id><description>Do {id}.</description><needs>{needs}</needs></task>\n")
        })
        .collect();
    format!("Let me think.\n<tasks>\n{tasks}</tasks>")
}

fn writers<'f>() -> Orchestrate<'f> {
    orchestrate("Split it.").work("Write it.").merge("Join it.")
}

/// Plans with this plan, and lets `work` do the tasks.
fn planned<'a>(plan: String, work: impl Fn(&str) -> Act + Send + Sync + 'a) -> Model<'a> {
    Model::by_path(move |path| match path {
        "plan" => say(&plan),
        "merge" => say("merged"),
        path => work(path.strip_prefix("task ").unwrap()),
    })
}

fn ids(outcome: &Orchestrated) -> Vec<(&str, Status)> {
    outcome.pieces.iter().map(|piece| (&*piece.name, piece.outcome.status())).collect()
}

#[tokio::test]
async fn a_worker_gets_its_description_whole_and_nothing_else_around_it() {
    let text = "<tasks><task><id>1</id><type>formal</type><description>\nFirst line.\n\n  - second & third <b>\n\
                </description></task><task><id>2</id><description>Two.</description></task></tasks>";
    let model = planned(text.to_owned(), |_| say("done"));
    let outcome = writers().run(&model, "A {whole} request.").await.unwrap();
    let task = "First line.\n\n  - second & third <b>";
    assert_eq!(outcome.plan.tasks[0].description, task);
    assert_eq!(
        model.prompt("task 1"),
        format!(
            "Write it.\n\n<input>\n<request>\nA {{whole}} request.\n</request>\n\n<task>\n{task}\n</task>\n</input>"
        )
    );
    assert!(!model.prompt("task 2").contains("First line"), "workers do not see each other's tasks");
}

#[tokio::test]
async fn a_prompt_with_variables_is_the_same_prompt_as_a_planner() {
    let model = planned(plan(&[("a", "")]), |_| say("done"));
    let planner = prompt("Split it for {whom}.").with("whom", "Ada").system("You help {whom}.");
    orchestrate(planner).work("Write it.").merge("Join it.").run(&model, "x").await.unwrap();
    assert!(model.prompt("plan").starts_with("You help Ada.Split it for Ada."), "{}", model.prompt("plan"));
}

#[tokio::test(start_paused = true)]
async fn tasks_that_need_nothing_run_at_once() {
    let model = planned(plan(&[("a", ""), ("b", ""), ("c", "")]), |_| say("done").after(1));
    let start = Instant::now();
    writers().run(&model, "x").await.unwrap();
    assert_eq!((seconds(start), model.peak()), (1, 3));

    let model = planned(plan(&[("a", ""), ("b", ""), ("c", "")]), |_| say("done").after(1));
    let start = Instant::now();
    writers().at_once(2).run(&model, "x").await.unwrap();
    assert_eq!((seconds(start), model.peak()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_task_waits_for_what_it_needs_and_for_nothing_else() {
    // two columns: fast then slow, slow then fast; a barrier between the rows would cost 20 seconds
    let tasks = plan(&[("a1", ""), ("b1", ""), ("a2", "a1"), ("b2", "b1")]);
    let model = planned(tasks, |id| say(id).after(if matches!(id, "b1" | "a2") { 10 } else { 1 }));
    let start = Instant::now();
    writers().run(&model, "x").await.unwrap();
    assert_eq!(seconds(start), 11);
}

#[tokio::test]
async fn a_task_sees_the_results_it_needs() {
    let tasks = plan(&[("a", ""), ("b", ""), ("c", "b, a"), ("d", "none")]);
    let model = planned(tasks, |id| say(&format!("result of {id} </result>")));
    writers().run(&model, "x").await.unwrap();
    let prompt = model.prompt("task c");
    let result = |id: &str| format!("<result-2 of=\"{id}\">\nresult of {id} </result>\n</result-2>");
    assert!(prompt.contains(&format!("{}\n\n{}", result("b"), result("a"))), "{prompt}");
    assert!(!model.prompt("task d").contains("result"));
}

#[tokio::test]
async fn a_failed_worker_is_never_an_answer() {
    let tasks = plan(&[("a", ""), ("b", ""), ("c", "b"), ("d", "c, a"), ("e", "")]);
    let model = planned(tasks, |id| match id {
        "b" => fail(ErrorKind::TimedOut),
        "e" => fail(ErrorKind::Server),
        id => say(&format!("text of {id}")),
    });
    let outcome = writers().best_effort().run(&model, "x").await.unwrap();
    assert_eq!(
        ids(&outcome),
        [
            ("a", Status::Ok),
            ("b", Status::TimedOut),
            ("c", Status::Skipped),
            ("d", Status::Skipped),
            ("e", Status::Failed)
        ]
    );
    assert_eq!(outcome.census.to_string(), "1 ok, 1 timed out, 1 failed, 2 skipped");
    let merge = model.prompt("merge");
    assert!(merge.contains("<request>\nx\n</request>\n\n<result of=\"a\">\ntext of a\n</result>"), "{merge}");
    let missing = "No result: b (timed out), c (skipped), d (skipped), e (failed).";
    assert!(merge.contains(&format!("Coverage: 1 of 5 tasks have a result. {missing}")), "{merge}");
    assert_eq!(merge.matches("<result ").count(), 1);
    model.assert_no_canary();
    assert!(model.degraded());
    let mut ends = model.ends();
    ends.sort();
    let ends: Vec<_> = ends.iter().map(|(id, how)| (&**id, &**how)).collect();
    assert_eq!(ends, [("a", "ok"), ("b", "timed out"), ("c", "skipped"), ("d", "skipped"), ("e", "failed")]);
}

#[tokio::test]
async fn a_merge_of_everything_is_told_so() {
    let model = planned(plan(&[("a", ""), ("b", "a")]), say);
    let outcome = writers().run(&model, "x").await.unwrap();
    assert!(model.prompt("merge").ends_with("Coverage: all 2 tasks have a result.\n</input>"));
    assert_eq!((outcome.text.as_str(), outcome.get("b")), ("merged", Some("b")));
    assert!(!model.degraded());
    assert!(
        model
            .events()
            .contains(&Event::Planned { tasks: vec![("a".into(), vec![]), ("b".into(), vec!["a".into()])] })
    );
}

#[tokio::test]
async fn without_a_merge_the_text_is_the_results_and_what_is_missing() {
    let model =
        planned(
            plan(&[("a", ""), ("b", "")]),
            |id| if id == "a" { say("A") } else { fail(ErrorKind::Refused) },
        );
    let flow = orchestrate("Split it.").work("Write it.").best_effort();
    let text = flow.run_text(&model, "x").await.unwrap();
    assert_eq!(
        text,
        "<result of=\"a\">\nA\n</result>\n\nNo result: b (refused). Say what is missing; do not make it up."
    );
}

#[tokio::test(start_paused = true)]
async fn the_first_failure_ends_the_rest_and_finished_work_is_kept() {
    let tasks = plan(&[("a", ""), ("b", ""), ("c", ""), ("d", "a")]);
    let model = planned(tasks, |id| match id {
        "a" => say("A").after(1),
        "b" => fail(ErrorKind::Refused).after(2),
        id => say(id).after(60),
    });
    let start = Instant::now();
    let error = writers().run(&model, "x").await.unwrap_err();
    assert_eq!((error.kind(), error.path().as_str()), (ErrorKind::Refused, "task b"));
    assert_eq!((seconds(start), model.active(), model.dropped()), (2, 0, 2));
    let done = error.cause::<Orchestrated>().unwrap();
    assert_eq!(
        ids(done),
        [("a", Status::Ok), ("b", Status::Refused), ("c", Status::Cancelled), ("d", Status::Cancelled)]
    );
    assert_eq!(done.get("a"), Some("A"));
    assert!(!model.paths().contains(&"merge".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn at_least_n_ends_as_soon_as_skipped_tasks_make_it_impossible() {
    let tasks = plan(&[("a", ""), ("b", ""), ("c", "b"), ("d", "c")]);
    let model = planned(tasks, |id| match id {
        "b" => fail(ErrorKind::Server).after(1),
        id => say(id).after(60),
    });
    let start = Instant::now();
    let error = writers().at_least(2).run(&model, "x").await.unwrap_err();
    assert_eq!((error.kind(), seconds(start)), (ErrorKind::TooFew, 1));
    assert!(error.message().contains("at least 2 of 4 tasks must come to an answer"), "{error}");
    assert_eq!(error.cause::<Orchestrated>().unwrap().census.to_string(), "1 failed, 1 cancelled, 2 skipped");
}

#[tokio::test]
async fn a_merge_that_fails_loses_no_work() {
    let model = Model::by_path(|path| match path {
        "plan" => say(&plan(&[("a", ""), ("b", "")])),
        "merge" => fail(ErrorKind::Truncated),
        path => say(path),
    });
    let error = writers().run(&model, "x").await.unwrap_err();
    assert_eq!((error.kind(), error.path().as_str()), (ErrorKind::Truncated, "merge"));
    let done = error.cause::<Orchestrated>().unwrap();
    assert_eq!((done.get("a"), done.get("b")), (Some("task a"), Some("task b")));
    assert!(done.text.contains("<result of=\"a\">"));
}

#[tokio::test]
async fn a_task_is_done_again_as_often_as_allowed_and_no_refusal_is() {
    let flaky = |kind, good_after: usize| {
        let tries = AtomicUsize::new(0);
        planned(plan(&[("a", "")]), move |_| {
            let n = tries.fetch_add(1, Ordering::SeqCst);
            if n < good_after { fail(kind) } else { say("fine") }
        })
    };
    let model = flaky(ErrorKind::Server, 2);
    writers().retries(2).run(&model, "x").await.unwrap();
    assert_eq!(model.paths(), ["plan", "task a", "task a/attempt 2", "task a/attempt 3", "merge"]);
    let prompts: Vec<_> =
        model.seen().into_iter().filter(|s| s.path.starts_with("task")).map(|s| s.prompt).collect();
    assert!(prompts.iter().all(|prompt| *prompt == prompts[0]), "the same task, without the error");

    let model = flaky(ErrorKind::Server, 2);
    let error = writers().retries(1).run(&model, "x").await.unwrap_err();
    assert_eq!((error.kind(), model.calls()), (ErrorKind::Server, 3));
    let model = flaky(ErrorKind::Server, 1);
    assert!(writers().run(&model, "x").await.is_err(), "no retry unless asked for");

    for kind in
        [ErrorKind::Refused, ErrorKind::ContextWindow, ErrorKind::OverBudget, ErrorKind::Authentication]
    {
        let model = flaky(kind, 1);
        let error = writers().retries(5).run(&model, "x").await.unwrap_err();
        assert_eq!((error.kind(), model.calls()), (kind, 2), "what cannot be mended is not tried again");
    }
}

#[tokio::test]
async fn a_plan_can_be_made_edited_and_carried_out() {
    let model = planned(plan(&[("a", ""), ("b", "a")]), say);
    let flow = writers();
    let mut made = flow.plan_only(&model, "x").await.unwrap();
    assert_eq!(model.paths(), ["plan"]);
    let json = serde_json::to_string(&made).unwrap();
    assert_eq!(
        json,
        r#"{"tasks":[{"id":"a","description":"Do a."},{"id":"b","description":"Do b.","needs":["a"]}]}"#
    );
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), made);
    made.tasks.push(Task { id: "c".into(), description: "Edited.".into(), ..Task::default() });
    let outcome = flow.run_plan(&model, "x", made.clone()).await.unwrap();
    assert_eq!((outcome.plan, outcome.census.to_string()), (made.clone(), "3 ok".to_owned()));
    assert!(model.prompt("task c").contains("Edited."));

    made.tasks[2].needs.push("nowhere".into());
    let calls = model.calls();
    let error = flow.run_plan(&model, "x", made).await.unwrap_err();
    assert_eq!((error.kind(), model.calls()), (ErrorKind::Plan, calls), "a broken plan costs no call");
}

#[tokio::test]
async fn each_type_has_its_worker() {
    let text = "<tasks><task><id>1</id><type>Research</type><description>r</description></task>\
                <task><id>2</id><type>write</type><description>w</description></task></tasks>";
    let model = planned(text.to_owned(), |_| say("done"));
    let flow = orchestrate("Split it.")
        .work_on(("research", "looks things up"), "Look it up.")
        .work_on("write", "Write it.")
        .merge("Join it.");
    flow.run(&model, "x").await.unwrap();
    assert!(model.prompt("plan").contains("Types:\n- research: looks things up\n- write"));
    assert!(model.prompt("task 1").starts_with("Look it up."));
    assert!(model.prompt("task 2").starts_with("Write it."));

    // with a worker for any task, other types are its own
    let text = text.replace("Research", "poetry").replace("<type>write</type>", "");
    let model = planned(text, |_| say("done"));
    orchestrate("Split it.").work_on("write", "Write it.").work("Do it.").run(&model, "x").await.unwrap();
    assert!(model.prompt("task 1").starts_with("Do it."));
    assert!(model.prompt("task 2").starts_with("Do it."));
}

#[tokio::test]
async fn the_last_step_of_a_planning_chain_is_told_the_format() {
    let model = Model::by_path(|path| match path {
        "plan/step 1" => say("thoughts"),
        "plan/step 2" => say(&plan(&[("a", "")])),
        path => say(path),
    });
    let flow = orchestrate("Think of {input}.".then("Plan: {input}").with_model("m:x")).work("Do it.");
    flow.run(&model, "bees").await.unwrap();
    assert_eq!(model.prompt("plan/step 1"), "Think of bees.");
    assert!(model.prompt("plan/step 2").starts_with("Plan: thoughts\n\nWrite your plan as tasks, at most 8"));
    assert_eq!(model.seen()[1].model.as_deref(), Some("m:x"));
}

#[tokio::test]
async fn what_is_set_up_wrongly_is_refused_before_any_call() {
    let model = Model::by_path(say);
    for (flow, what) in [
        (orchestrate("x").work_on("a", "x").work_on("A ", "y"), "two workers have the type `a`"),
        (orchestrate("x").work_on(" ", "x"), "an empty type"),
        (writers().at_most(0), "allows no task"),
        (writers().at_least(0), "asks for no answer"),
        (writers().at_most(2).at_least(3), "can never be met"),
    ] {
        let error = flow.run(&model, "x").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains(what), "{error}");
        assert!(flow.shape().to_string().contains("cannot run"));
        assert_eq!(flow.plan_only(&model, "x").await.unwrap_err().kind(), ErrorKind::Config);
        assert_eq!(flow.run_plan(&model, "x", Plan::default()).await.unwrap_err().kind(), ErrorKind::Config);
    }
    assert_eq!(model.calls(), 0);
}

#[tokio::test]
async fn a_further_round_sees_the_results_and_may_replace_what_failed() {
    let tried = AtomicBool::new(false);
    let model = Model::by_path(|path| match path {
        "plan" => say(&plan(&[("a", ""), ("b", ""), ("c", "b")])),
        "plan 2" => say(&plan(&[("b", "a"), ("d", "a")])),
        "plan 3" => say("Nothing more.\n<tasks></tasks>"),
        "task b" if !tried.swap(true, Ordering::SeqCst) => fail(ErrorKind::Server),
        path => say(path),
    });
    let outcome = writers().rounds(3).run(&model, "x").await.unwrap();
    let order = ["a", "b", "c", "d"].map(|id| (id, Status::Ok));
    assert_eq!(ids(&outcome), order);
    assert_eq!(outcome.plan.get("b").unwrap().needs, ["a"]);
    let paths = model.paths();
    assert_eq!(paths.iter().filter(|path| *path == "task a").count(), 1, "what is done is not done again");
    assert_eq!(paths.iter().filter(|path| *path == "task c").count(), 1, "what was skipped gets its turn");
    let planner = model.prompt("plan 2");
    assert!(planner.contains("<result of=\"a\">"), "{planner}");
    assert!(planner.contains("Coverage: 1 of 3 tasks have a result. No result: b (failed), c (skipped)."));
    assert!(planner.contains("If nothing more is needed, write <tasks></tasks>."));
    assert!(paths.contains(&"plan 3".to_owned()) && !paths.contains(&"plan 4".to_owned()));
    model.assert_no_canary();
}

#[tokio::test]
async fn a_further_plan_that_fails_loses_no_work() {
    for bad in [|| fail(ErrorKind::Refused), || say("No plan today.")] {
        let model = Model::by_path(|path| match path {
            "plan" => say(&plan(&[("a", "")])),
            path if path.starts_with("plan 2") => bad(),
            path => say(path),
        });
        let outcome = writers().rounds(1).run(&model, "x").await.unwrap();
        assert_eq!((outcome.text.as_str(), model.degraded()), ("merge", true));
        model.assert_no_canary();
    }
}

#[tokio::test]
async fn a_failure_that_no_further_round_replaces_fails_the_run() {
    let model = Model::by_path(|path| match path {
        "plan" => say(&plan(&[("a", ""), ("b", "")])),
        "plan 2" => say(&plan(&[("c", "")])),
        "task b" => fail(ErrorKind::Server),
        path => say(path),
    });
    let error = writers().rounds(1).run(&model, "x").await.unwrap_err();
    assert_eq!((error.kind(), error.path().as_str()), (ErrorKind::Server, "task b"));
    assert_eq!(
        model.paths(),
        ["plan", "task a", "task b", "plan 2"],
        "nothing runs after the run's fate is decided"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_leaves_nothing_running_at_any_point() {
    let tasks = plan(&[("a", ""), ("b", ""), ("c", "a, b")]);
    for cut in 0..8 {
        let model = Model::by_path(|path| say(if path == "plan" { &tasks } else { path }).after(1));
        let run = timeout(Duration::from_millis(cut * 500 + 250), writers().run_text(&model, "x")).await;
        assert_eq!(run.is_ok(), cut >= 8, "a plan, two steps and a merge of one second each");
        let calls = model.calls();
        assert_eq!(calls, [1, 1, 3, 3, 4, 4, 5, 5][usize::try_from(cut).unwrap()]);
        assert_eq!(model.active(), 0, "cut at {cut}");
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert_eq!(model.calls(), calls);
    }
}

#[tokio::test]
async fn patterns_nest_in_the_planner_the_workers_and_the_merge() {
    let tasks = plan(&[("a", ""), ("b", "a")]);
    let model =
        Model::by_path(|path| if path.starts_with("voter 1/plan") { say(&tasks) } else { say("yes") });
    let flow = orchestrate(vote(3, "Plan it."))
        .work(sections().on("draft", "x").on("check", vote(3, "y").among(["yes", "no"])))
        .merge(orchestrate("z").work("w").boxed());
    let nested = vote(1, &flow);
    let error = nested.run_text(&model, "x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan, "the inner planner says only yes");
    assert_eq!(error.path().as_str(), "voter 1/merge/plan/again");
    assert!(model.paths().contains(&"voter 1/task b/section check/voter 2".to_owned()));
    assert_eq!(error.cause::<patterns::Tally>().unwrap().asked, 1);
    assert_eq!(error.cause::<Orchestrated>().unwrap().census.to_string(), "2 ok");
    assert!(error.cause::<patterns::PlanDefects>().is_some());
}

#[test]
fn the_shape_knows_the_fewest_and_the_most_calls() {
    let calls = |flow: Orchestrate<'_>| flow.shape().calls().to_string();
    assert_eq!(calls(writers()), "3 to 11 calls");
    assert_eq!(calls(writers().at_most(3).retries(2)), "3 to 12 calls");
    assert_eq!(calls(writers().at_least(4)), "6 to 11 calls");
    assert_eq!(calls(writers().rounds(1).policy(Policy::BestEffort)), "3 to 21 calls");
    let typed = orchestrate("p").work_on("a", "x".then("y")).work_on("b", "z").at_most(2);
    assert_eq!(calls(typed), "2 to 6 calls");
}

#[tokio::test]
async fn an_outcome_says_as_json_all_that_it_knows() {
    let model =
        planned(
            plan(&[("a", ""), ("b", "a")]),
            |id| if id == "a" { fail(ErrorKind::Refused) } else { say(id) },
        );
    let error = writers().best_effort().run(&model, "x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooFew);
    let json = serde_json::to_value(error.cause::<Orchestrated>().unwrap()).unwrap();
    assert_eq!(json["census"], serde_json::json!({"refused": 1, "skipped": 1}));
    assert_eq!(json["plan"]["tasks"][1]["needs"][0], "a");
    assert_eq!(json["pieces"][1]["name"], "b");
    assert_eq!(
        json["pieces"][1]["outcome"],
        serde_json::json!({"status": "skipped", "reason": "skipped: `a`, which it needs, has no answer"})
    );
    assert_eq!(Census::default().to_string(), "none");
}

#[test]
fn orchestrations_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&writers());
    shared(&orchestrate("x"));
}

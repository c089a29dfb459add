//! Evaluator-optimizer: every draft is judged, the best is kept, and the cap is code.
#![allow(clippy::unwrap_used)] // a test may panic

mod common;

use common::Model;
use patterns::{Check, Error, ErrorKind, Event, Flow, Judge, Refine, Reply, Why, refine};

const PASS: &str = "<feedback>fine</feedback><evaluation>PASS</evaluation>";
const MEND: &str = "<feedback>mend it</feedback><evaluation>NEEDS_IMPROVEMENT</evaluation>";
const FAIL: &str = "<feedback>start anew</feedback><evaluation>FAIL</evaluation>";

fn judged(drafts: &'static [&'static str], verdicts: &'static [&'static str]) -> Model {
    Model::by_path(move |path| {
        let number: usize = path.trim_start_matches("draft ").split('/').next().unwrap().parse().unwrap();
        let list = if path.contains("judge") { verdicts } else { drafts };
        list[(number - 1).min(list.len() - 1)]
    })
}

fn flow(rounds: usize) -> Refine<'static> {
    refine("Write.").until("It is good.").rounds(rounds)
}

#[tokio::test]
async fn the_first_accepted_draft_ends_the_loop() {
    let model = judged(&["a", "b", "c"], &[MEND, PASS]);
    let refined = flow(5).run(&model, "task").await.unwrap();
    assert_eq!((refined.text.as_str(), refined.accepted, refined.why), ("b", true, Why::Accepted));
    assert_eq!(model.paths(), ["draft 1", "draft 1/judge", "draft 2", "draft 2/judge"]);
}

#[tokio::test]
async fn the_drafter_sees_the_task_its_last_draft_and_the_feedback() {
    let model = judged(&["first draft", "second draft", "third"], &[MEND, FAIL, PASS]);
    flow(3).run(&model, "the task").await.unwrap();
    let third = model.sent("draft 3");
    for part in ["the task", "second draft", "start anew"] {
        assert!(third.contains(part), "no \"{part}\" in {third}");
    }
    assert!(!third.contains("first draft"), "the window is bounded: {third}");

    let model = judged(&["first draft", "second draft", "third"], &[MEND, FAIL, PASS]);
    flow(3).window(2).run(&model, "the task").await.unwrap();
    assert!(model.sent("draft 3").contains("first draft"));
}

#[tokio::test]
async fn every_draft_is_judged_the_last_one_too_and_the_cap_is_code() {
    for rounds in 1..=5 {
        let drafts = &["a", "b", "c", "d", "e"];
        let model = judged(drafts, &[FAIL]);
        let refined = flow(rounds).run(&model, "task").await.unwrap();
        assert_eq!((refined.accepted, refined.why, refined.rounds.len()), (false, Why::Cap, rounds));
        let judged = model.paths().iter().filter(|path| path.ends_with("judge")).count();
        assert_eq!((judged, model.calls()), (rounds, 2 * rounds));
        assert!(matches!(model.events().last(), Some(Event::Degraded { .. })));
    }
}

#[tokio::test]
async fn the_best_draft_is_kept_not_the_last() {
    let model = judged(&["a", "b", "c"], &[FAIL, MEND, FAIL]);
    assert_eq!(flow(3).run(&model, "task").await.unwrap().text, "b");
    // of equals the latest, which has seen the most feedback
    let model = judged(&["a", "b", "c"], &[MEND, MEND, FAIL]);
    assert_eq!(flow(3).run(&model, "task").await.unwrap().text, "b");
}

#[tokio::test]
async fn falling_scores_end_at_the_plateau_with_the_best_draft() {
    let model = judged(
        &["a", "b", "c", "d", "e"],
        &["<score>7/10</score>", "<score>60 %</score>", "<score>0.5</score>"],
    );
    let flow = refine("Write.").until(Judge::criteria("good").at_least(0.9)).rounds(5);
    let refined = flow.run(&model, "task").await.unwrap();
    assert_eq!((refined.text.as_str(), refined.why), ("a", Why::Plateau));
    assert_eq!(model.calls(), 6);
    let scores: Vec<_> =
        refined.rounds.iter().map(|round| round.verdict.as_ref().unwrap().score.unwrap()).collect();
    assert_eq!(scores, [0.7, 0.6, 0.5]);
}

#[tokio::test]
async fn a_draft_that_comes_back_ends_the_loop_without_another_judgement() {
    let model = judged(&["A", "B", "A", "B"], &[MEND]);
    let refined = flow(9).run(&model, "task").await.unwrap();
    assert_eq!((refined.why, refined.rounds.len()), (Why::Oscillation, 3));
    assert_eq!(model.calls(), 5, "the third draft has the verdict of its twin");

    let model = judged(&["A"], &[MEND]);
    let refined = flow(9).run(&model, "task").await.unwrap();
    assert_eq!((refined.why, refined.rounds.len(), model.calls()), (Why::Plateau, 2, 3));
}

#[tokio::test]
async fn an_unreadable_verdict_costs_one_more_question_not_a_round_and_is_never_a_pass() {
    let model = Model::by_path(|path| match path {
        "draft 1/judge" => "Looks good, I think.",
        "draft 1/judge/again" => "<evaluation>PASS</evaluation>",
        _ => "a",
    });
    let refined = flow(3).run(&model, "task").await.unwrap();
    assert_eq!((refined.accepted, refined.rounds.len(), model.calls()), (true, 1, 3));

    let model =
        Model::by_path(|path| if path.contains("judge") { "I cannot PASS this, nor FAIL it." } else { "a" });
    let refined = flow(3).run(&model, "task").await.unwrap();
    assert_eq!((refined.accepted, refined.why, refined.text.as_str()), (false, Why::Unreadable, "a"));
    assert_eq!(model.calls(), 3);
    assert!(refined.rounds[0].verdict.is_none());
}

#[tokio::test]
async fn verdicts_are_read_not_searched_for() {
    for verdict in [
        "cannot PASS",
        "<evaluation>not PASS</evaluation>",
        "<evaluation>PASS or FAIL</evaluation>",
        "PASSABLE",
    ] {
        let model = Model::by_path(move |path| if path.contains("judge") { verdict } else { "a" });
        assert!(!flow(1).run(&model, "task").await.unwrap().accepted, "{verdict}");
    }
    for verdict in ["<evaluation>\nPASS\n</evaluation>", "Evaluation: PASS", "**PASS**"] {
        let model = Model::by_path(move |path| if path.contains("judge") { verdict } else { "a" });
        assert!(flow(1).run(&model, "task").await.unwrap().accepted, "{verdict}");
    }
}

#[tokio::test]
async fn code_is_asked_before_the_judge_is_paid() {
    let model = judged(&["x", "xy", "xyz"], &[PASS]);
    let flow = refine("Write.").until("It is good.").until_code(|draft| {
        if draft.len() < 3 { Err(format!("{} of 3 letters", draft.len())) } else { Ok(()) }
    });
    let refined = flow.run(&model, "task").await.unwrap();
    assert_eq!((refined.text.as_str(), refined.accepted), ("xyz", true));
    assert_eq!(model.paths(), ["draft 1", "draft 2", "draft 3", "draft 3/judge"]);
    assert!(model.sent("draft 3").contains("2 of 3 letters"), "the drafter is told what the code found");
    assert_eq!(flow.shape().calls().to_string(), "1 to 9 calls");
}

#[tokio::test]
async fn a_draft_that_passes_more_checks_is_better_whatever_the_rating() {
    let model = judged(&["long enough", "x", "y"], &[FAIL]);
    let flow = refine("Write.").until_code(|draft| draft.len() > 3).until("It is good.");
    assert_eq!(flow.run(&model, "task").await.unwrap().text, "long enough");
}

#[tokio::test]
async fn a_failure_after_a_judged_draft_gives_back_what_there_is() {
    for (kind, capped) in [(ErrorKind::OverBudget, true), (ErrorKind::Server, false)] {
        let model = Model::new(move |request| match request.path.as_str() {
            "draft 1" => Ok(Reply::text_of("a")),
            "draft 1/judge" => Ok(Reply::text_of(MEND)),
            _ => Err(Error::new(kind, "there is no more")),
        });
        let refined = flow(3).run(&model, "task").await.unwrap();
        assert_eq!((refined.text.as_str(), refined.accepted), ("a", false));
        match refined.why {
            Why::OverBudget => assert!(capped),
            Why::Failed(reason) => assert!(!capped && reason.contains("there is no more"), "{reason}"),
            why => panic!("{why:?}"),
        }
        assert_eq!(matches!(model.events().last(), Some(Event::Capped { .. })), capped);
    }
}

#[tokio::test]
async fn a_failure_before_any_judgement_is_an_error_that_keeps_the_draft() {
    let model = Model::new(|request| match request.path.as_str() {
        "draft 1" => Ok(Reply::text_of("a")),
        _ => Err(Error::new(ErrorKind::Server, "the service failed")),
    });
    let error = flow(3).run(&model, "task").await.unwrap_err();
    assert_eq!(
        (error.kind(), error.partial(), error.path().as_str()),
        (ErrorKind::Server, Some("a"), "draft 1/judge")
    );
}

#[tokio::test]
async fn not_accepted_is_an_error_when_asked_for() {
    let model = judged(&["a", "b"], &[FAIL]);
    let error = flow(2).or_fail().run(&model, "task").await.unwrap_err();
    assert_eq!((error.kind(), error.partial()), (ErrorKind::NotAccepted, Some("b")));
}

#[tokio::test]
async fn a_judge_flow_of_ones_own_is_given_task_and_text() {
    let model =
        Model::by_path(
            |path| if path.ends_with("judge") { "<evaluation>PASS</evaluation>" } else { "my draft" },
        );
    let flow = refine("Write.").until(Judge::flow("Is the text right? {input}"));
    assert!(flow.run(&model, "my task").await.unwrap().accepted);
    let sent = model.sent("draft 1/judge");
    assert!(
        sent.contains("<task>\nmy task\n</task>") && sent.contains("<text>\nmy draft\n</text>"),
        "{sent}"
    );
}

#[tokio::test]
async fn a_loop_of_no_rounds_is_refused() {
    let model = judged(&["a"], &[PASS]);
    assert_eq!(flow(0).run(&model, "task").await.unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(model.calls(), 0);
}

#[tokio::test]
async fn a_thousand_rounds_need_no_deeper_stack_than_ten() {
    let number = std::sync::atomic::AtomicUsize::new(0);
    let model = Model::new(move |request| {
        let n = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(Reply::text_of(if request.path.as_str().ends_with("judge") {
            FAIL.to_owned()
        } else {
            n.to_string()
        }))
    });
    let refined = refine("Write.")
        .until_code(|_| false)
        .until(Check::judge("good"))
        .rounds(1_000)
        .run(&model, "x")
        .await;
    assert_eq!(refined.unwrap().rounds.len(), 1_000);
}

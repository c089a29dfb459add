//! Every reason for which a model stops, at every place of every fan-out: none of them is an answer, and nothing of them
//! gets into another prompt.

use patterns::{ErrorKind, Flow, Orchestrated, Parts, Policy, Status, Stop, orchestrate, sections, vote};

use crate::model::{Act, CANARY, Model, choose, say, stop};
use crate::orchestrate::plan;

/// A stop reason, the text with it, and what it makes of a branch.
struct Row {
    stop: Stop,
    text: &'static str,
    kind: ErrorKind,
    status: Status,
}

fn rows() -> Vec<Row> {
    let row = |stop, kind, status| Row { stop, text: CANARY, kind, status };
    let refusal = Stop::Refusal { category: Some(CANARY.into()), explanation: Some(CANARY.into()) };
    vec![
        row(Stop::MaxTokens, ErrorKind::Truncated, Status::Truncated),
        row(refusal, ErrorKind::Refused, Status::Refused),
        row(Stop::ContextWindow, ErrorKind::ContextWindow, Status::Failed),
        row(Stop::ToolUse, ErrorKind::Protocol, Status::Failed),
        row(Stop::PauseTurn, ErrorKind::Protocol, Status::Failed),
        row(Stop::Compaction, ErrorKind::Protocol, Status::Failed),
        row(Stop::Other(CANARY.into()), ErrorKind::Protocol, Status::Failed),
        Row { text: " \n", ..row(Stop::EndTurn, ErrorKind::Empty, Status::Failed) },
        Row { text: "", ..row(Stop::StopSequence("END".into()), ErrorKind::Empty, Status::Failed) },
    ]
}

impl Row {
    fn act(&self) -> Act {
        stop(self.stop.clone(), self.text)
    }

    /// A model that stops so at this place and otherwise does its part.
    fn at<'a>(&'a self, place: &'a str, otherwise: impl Fn(&str) -> Act + Send + Sync + 'a) -> Model<'a> {
        Model::by_path(move |path| if path == place { self.act() } else { otherwise(path) })
    }
}

#[tokio::test]
async fn a_section_that_stops_early_is_no_answer() {
    let flow =
        |policy| sections().on("a", "x").on("b", "y".then("z")).on("c", "x").policy(policy).then("Sum up.");
    for row in rows() {
        for (place, name) in [
            ("step 1/section a", "a"),
            ("step 1/section b/step 1", "b"),
            ("step 1/section b/step 2", "b"),
            ("step 1/section c", "c"),
        ] {
            let model = row.at(place, say);
            let error = flow(Policy::All).run(&model, "x").await.unwrap_err();
            assert_eq!((error.kind(), error.path().as_str()), (row.kind, place));
            assert!(!model.paths().contains(&"step 2".to_owned()));

            for policy in [Policy::AtLeast(2), Policy::BestEffort] {
                let model = row.at(place, say);
                flow(policy).run(&model, "x").await.unwrap();
                let merge = model.prompt("step 2");
                assert!(merge.contains(&format!("No result: {name} ({}).", row.status)), "{merge}");
                assert_eq!(merge.matches("<result of=").count(), 2);
                assert!(model.degraded());
                model.assert_no_canary();
            }
            let error = flow(Policy::AtLeast(3)).run(&row.at(place, say), "x").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooFew);
            assert_eq!(error.cause::<Parts>().unwrap().census.count(row.status), 1);
        }
        let error = flow(Policy::All).run(&row.at("step 2", say), "x").await.unwrap_err();
        assert_eq!(error.kind(), row.kind);
    }
}

#[tokio::test]
async fn a_voter_that_stops_early_casts_no_ballot() {
    for row in rows() {
        for n in 1..=3 {
            for again in [false, true] {
                let place = format!("step 1/voter {n}{}", if again { "/again" } else { "" });
                let unreadable = place.strip_suffix("/again").unwrap_or_default().to_owned();
                let model =
                    row.at(&place, move |path| if path == unreadable { say("Hm.") } else { choose("yes") });
                let flow = vote(3, "Safe?").among(["yes", "no"]).needing(2);
                let tally = flow.at_once(1).then("Why is it {input}?").run(&model, "x").await.unwrap();
                assert_eq!(tally, "yes");
                model.assert_no_canary();

                let place = place.strip_prefix("step 1/").unwrap().to_owned();
                let unreadable = place.strip_suffix("/again").unwrap_or_default().to_owned();
                let model =
                    row.at(&place, move |path| if path == unreadable { say("Hm.") } else { choose("yes") });
                let tally = vote(3, "Safe?").among(["yes", "no"]).needing(3).run(&model, "x").await.unwrap();
                assert_eq!(
                    (tally.winner.as_deref(), tally.failed(), tally.abstained),
                    (None, 1, 0),
                    "{place}"
                );
                let failed = tally.ballots.iter().find(|ballot| ballot.voter == n).unwrap();
                assert_eq!(failed.outcome.status(), row.status);
                assert_eq!(failed.outcome.error().unwrap().kind(), row.kind);
                assert_eq!(tally.census.count(row.status), 1);
            }
        }
    }
}

#[tokio::test]
async fn a_planner_a_worker_or_a_merge_that_stops_early_is_no_answer() {
    let tasks = plan(&[("a", ""), ("b", ""), ("c", "b")]);
    let answer = |path: &str| if path.starts_with("plan") { say(&tasks) } else { say(path) };
    let flow = |policy| orchestrate("Plan.").work("Work.").merge("Merge.").policy(policy);
    for row in rows() {
        // the plan: a cut one is asked for again, shorter
        let model = row.at("plan", answer);
        let result = flow(Policy::All).run(&model, "x").await;
        if row.kind == ErrorKind::Truncated {
            assert_eq!(result.unwrap().text, "merge");
            assert!(model.prompt("plan/again").contains("- the plan was cut off before its end"));
        } else {
            let error = result.unwrap_err();
            assert_eq!((error.kind(), error.path().as_str(), model.calls()), (row.kind, "plan", 1));
        }
        let model = row.at("plan/again", |path| if path == "plan" { say("No.") } else { answer(path) });
        let error = flow(Policy::All).run(&model, "x").await.unwrap_err();
        assert_eq!((error.kind(), error.path().as_str(), model.calls()), (row.kind, "plan/again", 2));

        // the workers
        for (place, missing) in [
            ("task a", format!("No result: a ({}).", row.status)),
            ("task b", format!("No result: b ({}), c (skipped).", row.status)),
            ("task c", format!("No result: c ({}).", row.status)),
        ] {
            let error = flow(Policy::All).run(&row.at(place, answer), "x").await.unwrap_err();
            assert_eq!((error.kind(), error.path().as_str()), (row.kind, place));
            assert_eq!(error.cause::<Orchestrated>().unwrap().census.count(row.status), 1);

            let model = row.at(place, answer);
            let outcome = flow(Policy::BestEffort).run(&model, "x").await.unwrap();
            assert_eq!(outcome.text, "merge");
            assert!(model.prompt("merge").contains(&missing), "{}", model.prompt("merge"));
            assert!(model.degraded());
            model.assert_no_canary();

            let model = row.at(place, answer);
            let result = flow(Policy::AtLeast(2)).run(&model, "x").await;
            assert_eq!(result.is_ok(), place != "task b", "two of three");
            model.assert_no_canary();
        }

        // the merge
        let error = flow(Policy::All).run(&row.at("merge", answer), "x").await.unwrap_err();
        assert_eq!((error.kind(), error.path().as_str()), (row.kind, "merge"));
        assert_eq!(error.cause::<Orchestrated>().unwrap().census.to_string(), "3 ok");
    }
}

#[tokio::test]
async fn a_stop_sequence_ends_an_answer_like_any_other() {
    let model = Model::by_path(|path| stop(Stop::StopSequence("END".into()), path));
    let parts = sections().on("a", "x").run(&model, "x").await.unwrap();
    assert_eq!(parts.get("a"), Some("section a"));
}

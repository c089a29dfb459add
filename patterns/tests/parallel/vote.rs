use std::time::Duration;

use patterns::{
    BoxFlow, ErrorKind, Event, Flow, Outcome, Reply, Request, Status, Tally, Tie, VoteEnd, prompt, sections,
    step, vote, vote_of,
};
use tokio::time::{Instant, timeout};

use crate::model::{Act, CANARY, Model, choose, fail, say, seconds};

/// The number of the voter who makes the call.
fn voter(request: &Request) -> usize {
    let place = request.path.segments().find_map(|segment| segment.strip_prefix("voter ")).unwrap();
    place.parse().unwrap()
}

/// Voters that answer in their order, one a second; `!` fails, `-` abstains.
fn ballots(cast: &str) -> Model<'_> {
    Model::new(move |request| {
        let n = voter(request);
        cast_by(cast.as_bytes()[n - 1]).after(n as u64)
    })
}

fn cast_by(letter: u8) -> Act {
    match letter {
        b'!' => fail(ErrorKind::Server),
        b'-' => choose("unsure"),
        b'y' => choose("yes"),
        b'n' => choose("no"),
        b'm' => choose("maybe"),
        other => panic!("no ballot: {other}"),
    }
}

fn on<'f>(n: usize) -> patterns::Vote<'f> {
    vote(n, "Is it safe?").among(["yes", "no", "maybe"]).abstain("unsure")
}

fn winner(tally: &Tally) -> Option<&str> {
    tally.winner.as_deref()
}

#[tokio::test(start_paused = true)]
async fn a_vote_stops_when_it_is_decided_and_drops_the_calls_under_way() {
    let model = ballots("yynyyny");
    let start = Instant::now();
    let tally = on(7).run(&model, "x").await.unwrap();
    assert_eq!((winner(&tally), tally.why), (Some("yes"), VoteEnd::Decided));
    assert_eq!((tally.asked, tally.saved, tally.margin), (5, 2, 3));
    assert_eq!((model.calls(), model.active(), model.dropped(), seconds(start)), (7, 0, 2, 5));
    let counts: Vec<_> = tally.counts.iter().map(|standing| (&*standing.label, standing.votes)).collect();
    assert_eq!(counts, [("yes", 4), ("no", 1), ("maybe", 0)]);
    assert_eq!(tally.census.to_string(), "5 ok, 2 cancelled");
    assert!(!model.degraded());
    assert_eq!(String::try_from(tally).unwrap(), "yes");
}

#[tokio::test(start_paused = true)]
async fn a_vote_stops_when_it_has_become_impossible_and_the_leader_is_no_winner() {
    let tally = on(5).needing(4).run(&ballots("nnyyy"), "x").await.unwrap();
    assert_eq!((winner(&tally), tally.why, tally.asked), (None, VoteEnd::Impossible, 4));

    let model = ballots("yyynn");
    let tally = on(5).unanimous().run(&model, "x").await.unwrap();
    assert_eq!((winner(&tally), tally.why, tally.asked), (None, VoteEnd::Impossible, 4));
    assert!(model.degraded());
    let error = String::try_from(tally).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Undecided);
    assert!(error.message().contains("impossible; yes 3, no 1, maybe 0; 1 not heard"), "{error}");
    assert_eq!(error.cause::<Tally>().unwrap().margin, 2);
}

#[tokio::test(start_paused = true)]
async fn a_tie_has_no_winner_unless_there_is_a_rule_for_it() {
    let tie = async |rule: Option<Tie>| {
        let flow = on(4);
        let flow = if let Some(rule) = rule { flow.tie(rule) } else { flow };
        flow.run(&ballots("nyyn"), "x").await.unwrap()
    };
    let tally = tie(None).await;
    assert_eq!((winner(&tally), tally.why, tally.margin, tally.asked), (None, VoteEnd::Tie, 0, 4));
    assert_eq!(winner(&tie(Some(Tie::Declared)).await), Some("yes"));
    assert_eq!(winner(&tie(Some(Tie::Arrival)).await), Some("no"));
    assert_eq!(winner(&tie(Some(Tie::To("no".into()))).await), Some("no"));
    let tally = tie(Some(Tie::To("maybe".into()))).await;
    assert_eq!((winner(&tally), tally.why), (None, VoteEnd::Tie), "a label that is not tied wins no tie");
}

#[tokio::test(start_paused = true)]
async fn failures_refusals_and_abstentions_are_never_ballots() {
    let model = ballots("!y-!y");
    let tally = on(5).quorum(2).run(&model, "x").await.unwrap();
    assert_eq!((winner(&tally), tally.abstained, tally.failed()), (Some("yes"), 1, 2));
    assert_eq!(tally.census.to_string(), "3 ok, 2 failed");
    assert!(model.degraded(), "voters are missing");

    // two failures are no two votes against
    let tally = on(5).needing(3).run(&ballots("!!yyy"), "x").await.unwrap();
    assert_eq!(winner(&tally), Some("yes"));
    let tally = on(5).unanimous().run(&ballots("!yy-y"), "x").await.unwrap();
    assert_eq!(winner(&tally), Some("yes"));
}

#[tokio::test(start_paused = true)]
async fn a_winner_rests_on_the_ballots_of_a_quorum() {
    // by default more than half of the voters: one failed voter does not fail the vote, three of five do
    let tally = on(5).run(&ballots("y!yy!"), "x").await.unwrap();
    assert_eq!(winner(&tally), Some("yes"));
    let model = ballots("y!-!y");
    let tally = on(5).run(&model, "x").await.unwrap();
    assert_eq!((winner(&tally), tally.why, tally.asked), (None, VoteEnd::NoQuorum, 4));
    assert_eq!(model.dropped(), 1);
    let tally = on(5).quorum(2).run(&ballots("y!-!y"), "x").await.unwrap();
    assert_eq!(winner(&tally), Some("yes"));
    // a rule that says itself what it needs has no other quorum
    let tally = on(5).needing(2).run(&ballots("y!-!y"), "x").await.unwrap();
    assert_eq!(winner(&tally), Some("yes"));
}

#[tokio::test]
async fn voters_that_all_fail_are_a_failure_and_no_disagreement() {
    let model = Model::new(|_| fail(ErrorKind::OverBudget));
    let flow = on(3);
    let tally = flow.run(&model, "x").await.unwrap();
    assert_eq!((winner(&tally), tally.why), (None, VoteEnd::NoQuorum));
    assert_eq!(tally.ballots[0].outcome.status(), Status::OverBudget);
    let error = flow.run_text(&model, "x").await.unwrap_err();
    assert_eq!((error.kind(), error.path().as_str()), (ErrorKind::OverBudget, "voter 1"));
    assert_eq!(error.cause::<Tally>().unwrap().asked, 2);
}

#[tokio::test(start_paused = true)]
async fn weights_count_and_heads_make_the_quorum() {
    let tally = on(3).weighted([3, 1, 1]).quorum(1).run(&ballots("ynn"), "x").await.unwrap();
    assert_eq!((winner(&tally), tally.asked, tally.counts[0].votes), (Some("yes"), 1, 3));
    let tally = on(3).weighted([3, 1, 1]).run(&ballots("ynn"), "x").await.unwrap();
    assert_eq!((winner(&tally), tally.asked, tally.margin), (Some("yes"), 2, 2));
}

#[tokio::test(start_paused = true)]
async fn ahead_by_five_needs_a_lead_of_five() {
    let model = ballots("yyyynyyn");
    let tally = on(2).ahead_by(5).at_most(8).run(&model, "x").await.unwrap();
    assert_eq!((winner(&tally), tally.margin, tally.asked, tally.saved), (Some("yes"), 5, 7, 1));
}

#[tokio::test(start_paused = true)]
async fn ahead_by_samples_in_parallel_and_gives_up_when_no_lead_can_be_had() {
    let model = Model::new(|request| cast_by(b"yn"[voter(request) % 2]).after(1));
    let start = Instant::now();
    let tally = on(5).ahead_by(3).at_most(20).run(&model, "x").await.unwrap();
    assert_eq!((winner(&tally), tally.why), (None, VoteEnd::Impossible), "the leader is no winner");
    // nine each, and two to come: no lead of three can be had
    assert_eq!((tally.asked, tally.saved), (18, 2));
    assert_eq!((model.peak(), seconds(start)), (5, 4));
}

#[tokio::test]
async fn samples_that_fail_are_attempts_too() {
    let model =
        Model::new(|request| if voter(request) == 1 { choose("yes") } else { fail(ErrorKind::Server) });
    let tally = on(3).ahead_by(3).at_most(10).run(&model, "x").await.unwrap();
    assert_eq!((winner(&tally), tally.why), (None, VoteEnd::Impossible));
    assert_eq!(tally.asked, 9, "one ballot and one sample to come make no lead of three");
    assert!(model.calls() <= 10);
    let model = Model::new(|_| fail(ErrorKind::Server));
    let tally = on(3).ahead_by(3).run(&model, "x").await.unwrap();
    assert_eq!((tally.asked, tally.saved), (23, 2), "25 samples at most by default");
}

#[tokio::test]
async fn the_same_ballots_have_the_same_winner_every_time() {
    let model = Model::new(|request| say(["red", "Blue ", "green", " RED", "blue"][voter(request) - 1]));
    let run = async || {
        let tally = vote(5, "Which colour?").tie(Tie::Arrival).run(&model, "x").await.unwrap();
        (tally.winner.unwrap(), tally.counts)
    };
    let first = run().await;
    assert_eq!(first.0, "red", "two for red, two for blue, red came first; spelled as it came first");
    for _ in 1..100 {
        assert_eq!(run().await, first);
    }
}

#[tokio::test]
async fn every_voter_is_a_sample_of_its_own() {
    let model = Model::new(|_| choose("yes"));
    on(5).needing(5).run(&model, "x").await.unwrap();
    let mut samples: Vec<_> = model.seen().into_iter().map(|seen| (seen.sample, seen.path)).collect();
    samples.sort();
    let expected: Vec<_> = (1..=5).map(|n| (n, format!("voter {n}"))).collect();
    assert_eq!(samples, expected);

    let model = Model::new(|_| choose("yes"));
    vote(2, vote(2, "x").among(["yes", "no"])).quorum(2).run(&model, "x").await.unwrap();
    let mut samples: Vec<_> = model.seen().into_iter().map(|seen| seen.sample).collect();
    samples.sort_unstable();
    samples.dedup();
    assert_eq!(samples.len(), 4, "samples of samples stay apart");
}

#[tokio::test]
async fn one_voter_has_one_ballot_however_often_it_names_its_choice() {
    let model = Model::new(|request| match request.path.as_str() {
        "voter 1" => say("<label>yes</label> … so, once more: <label>yes</label>"),
        "voter 2" => say("<label>yes</label> but then <label>no</label>"),
        "voter 2/again" => say("<label>no</label>"),
        _ => say("<label>no</label>"),
    });
    let tally = vote(3, "x").among(["yes", "no"]).at_once(1).run(&model, "x").await.unwrap();
    assert_eq!((winner(&tally), tally.counts[0].votes, tally.counts[1].votes), (Some("no"), 1, 2));
}

#[tokio::test]
async fn i_do_not_approve_is_no_approval() {
    let model = Model::new(|request| match request.path.as_str() {
        "voter 1" => say("I do not APPROVE of this."),
        "voter 1/again" => say("<label>REJECT</label>"),
        _ => say("I cannot say whether to APPROVE or to REJECT."),
    });
    let flow = vote(2, "x").among(["APPROVE", "REJECT"]).quorum(1);
    let tally = flow.run(&model, "x").await.unwrap();
    assert_eq!(winner(&tally), Some("REJECT"));
    let second = &tally.ballots.iter().find(|ballot| ballot.voter == 2).unwrap().outcome;
    assert_eq!(second.error().unwrap().kind(), ErrorKind::Unread);
    assert_eq!(model.calls(), 4, "one re-ask each");
}

#[tokio::test]
async fn labels_carry_their_descriptions_and_the_abstention() {
    let model = Model::new(|request| {
        let patterns::Expect::OneOf(one_of) = &request.expect else { panic!("{request:?}") };
        assert_eq!(one_of.names(), ["yes", "no", "unsure"]);
        assert_eq!(one_of.labels[1].description, "it has a bug");
        choose("UNSURE")
    });
    let flow = vote(3, "x")
        .among([("yes", "it is sound"), ("no", "it has a bug")])
        .abstain(("unsure", "hard to say"));
    let tally = flow.run(&model, "x").await.unwrap();
    assert_eq!((winner(&tally), tally.why, tally.abstained), (None, VoteEnd::NoQuorum, 2));
    assert!(model.events().contains(&Event::Ballot { voter: 1, choice: None }));
}

#[tokio::test]
async fn a_normaliser_reads_ballots_and_none_abstains() {
    let model = Model::new(|request| say(["It is 42.", "42!", "dunno", "41?"][voter(request) - 1]));
    let digits = |text: &str| -> Option<String> {
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        (!digits.is_empty()).then_some(digits)
    };
    let tally = vote(4, "x").normalised(digits).run(&model, "x").await.unwrap();
    assert_eq!((winner(&tally), tally.abstained, tally.asked), (Some("42"), 1, 4));
    assert_eq!(tally.ballots[0].reasoning.as_deref(), Some("It is 42."));
}

#[tokio::test]
async fn voters_may_differ_in_model_and_persona() {
    let model = Model::new(|_| choose("yes"));
    let panel = vote_of([
        "Safe?".with_model("a:small").boxed(),
        "Safe?".with_model("b:large").boxed(),
        prompt("Safe?").system("You are a security engineer.").boxed(),
    ]);
    let tally = panel.among(["yes", "no"]).quorum(3).run(&model, "x").await.unwrap();
    assert_eq!((winner(&tally), tally.asked), (Some("yes"), 3));
    let seen = model.seen();
    assert_eq!(seen[0].model.as_deref(), Some("a:small"));
    assert_eq!(seen[1].model.as_deref(), Some("b:large"));
    assert!(seen[2].prompt.starts_with("You are a security engineer."));
}

#[tokio::test]
async fn a_vote_that_cannot_be_held_is_refused_before_any_call() {
    let model = Model::new(|_| choose("yes"));
    let one = || vec!["x".boxed() as BoxFlow<'_>];
    for (flow, what) in [
        (vote(0, "x"), "at least one voter"),
        (vote_of([]), "at least one voter"),
        (on(3).needing(2).unanimous(), "one rule"),
        (on(3).normalised(|_| None), "in one way"),
        (vote(3, "x").among(["yes"]), "at least two labels"),
        (vote(3, "x").among(["yes", " "]), "none of them empty"),
        (vote(3, "x").among(["yes", "Yes "]), "the same but for case"),
        (vote(3, "x").among(["yes", "no"]).abstain("NO"), "the same but for case"),
        (vote(3, "x").abstain("no"), "`abstain` needs labels"),
        (vote(3, "x").tie(Tie::Declared), "`Tie::Declared` needs labels"),
        (on(3).tie(Tie::To("perhaps".into())), "`perhaps`, which is none of the labels"),
        (on(3).at_most(5), "`at_most` is for `ahead_by`"),
        (on(3).ahead_by(1).at_most(0), "draws no sample"),
        (vote_of(one()).ahead_by(1).at_most(2), "twice"),
        (on(3).weighted([1, 2]), "for each of 3 voters"),
        (on(3).weighted([1, 2, 0]), "one number from 1"),
        (on(3).quorum(4), "a quorum of 4"),
        (on(3).needing(4), "4 can never be reached"),
        (on(3).needing(0), "at least 1"),
        (on(3).ahead_by(0), "at least 1"),
        (on(3).ahead_by(4).at_most(3), "4 can never be reached"),
    ] {
        let error = flow.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains(what), "{error}");
        assert!(flow.shape().to_string().contains("cannot run"), "{}", flow.shape());
        assert_eq!(flow.run(&model, "x").await.unwrap_err().kind(), ErrorKind::Config);
    }
    assert_eq!(model.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_vote_leaves_no_call_running() {
    let model = ballots("yynynynyy");
    let flow = on(9).at_once(3);
    assert!(timeout(Duration::from_millis(2_500), flow.run(&model, "x")).await.is_err());
    let calls = model.calls();
    assert_eq!(model.active(), 0);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((calls, model.calls()), (5, 5));
}

#[tokio::test]
async fn a_vote_without_a_winner_hands_no_text_on() {
    let model = Model::new(|request| match request.path.as_str() {
        path if path.contains("voter 1") => choose("yes"),
        path if path.contains("voter 2") => choose("no"),
        _ => fail(ErrorKind::Server),
    });
    let error = on(3).then("Explain why it is {input}.").run(&model, "x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Undecided);
    assert!(!model.paths().contains(&"step 2".to_owned()));

    // in a fan-out it is a failed part like any other
    let flow = sections().on("vote", on(3)).on("text", step("s", async |_, text| Ok(text.to_owned())));
    let parts = flow.best_effort().run(&model, "x").await.unwrap();
    assert_eq!(parts.parts[0].outcome.error().unwrap().kind(), ErrorKind::Undecided);
    model.assert_no_canary();
}

#[tokio::test(start_paused = true)]
async fn a_tally_says_as_json_all_that_it_knows() {
    let tally = on(4).run(&ballots("y!-y"), "x").await.unwrap();
    let json = serde_json::to_value(&tally).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "winner": null,
            "why": "no_quorum",
            "counts": [{"label": "yes", "votes": 1}, {"label": "no", "votes": 0}, {"label": "maybe", "votes": 0}],
            "margin": 1,
            "ballots": [
                {"voter": 1, "outcome": {"status": "ok", "answer": "yes"}},
                {"voter": 2, "outcome": {"status": "failed", "reason": format!("voter 2: {CANARY} went wrong")}},
                {"voter": 3, "outcome": {"status": "ok", "answer": null}},
            ],
            "asked": 3,
            "saved": 1,
            "abstained": 1,
            "census": {"ok": 2, "failed": 1, "cancelled": 1},
        })
    );
}

#[test]
fn the_shape_knows_the_fewest_and_the_most_calls() {
    let calls = |flow: patterns::Vote<'_>| flow.shape().calls().to_string();
    // a re-ask each where a choice cannot be read
    assert_eq!(calls(vote(5, "Is this code safe?").among(["yes", "no"]).needing(4)), "4 to 10 calls");
    assert_eq!(calls(vote(5, "x")), "3 to 5 calls");
    assert_eq!(calls(vote(5, "x").quorum(1)), "1 to 5 calls");
    assert_eq!(calls(vote(3, "x").ahead_by(2).at_most(9)), "2 to 9 calls");
    assert_eq!(calls(vote(3, "x").needing(4).weighted([1, 1, 3])), "2 to 3 calls");
    let panel = vote_of(["x".boxed(), "x".then("y").boxed(), "x".then("y").then("z").boxed()]);
    assert_eq!(calls(panel), "3 to 6 calls");
}

/// Every sequence of so many ballots.
fn sequences(n: usize) -> impl Iterator<Item = Vec<u8>> {
    (0..4usize.pow(u32::try_from(n).unwrap())).map(move |code| {
        (0..n).map(|at| b"ynm-"[code / 4usize.pow(u32::try_from(at).unwrap()) % 4]).collect()
    })
}

#[tokio::test]
async fn stopping_early_never_changes_the_winner_of_the_full_count() {
    // the rule as the count knows it is tested for every vote beside it; here the vote itself is held
    let llm = |cast: Vec<u8>| {
        move |request: Request| {
            let reply: patterns::Result<Reply> = cast_by(cast[voter(&request) - 1]).reply;
            async move { reply }
        }
    };
    for n in 1..=6 {
        for cast in sequences(n) {
            let count = |letter| cast.iter().filter(|ballot| **ballot == letter).count();
            let votes = [("yes", count(b'y')), ("no", count(b'n')), ("maybe", count(b'm'))];
            let top = votes.iter().map(|(_, n)| *n).max().unwrap();
            let leaders: Vec<_> = votes.iter().filter(|(_, n)| *n == top).map(|(label, _)| *label).collect();
            let ballots: usize = votes.iter().map(|(_, n)| n).sum();
            let sole = if let [one] = leaders[..] { Some(one) } else { None };
            let quorate = 2 * ballots > n;
            let k = n / 2 + 1;
            let full = [
                (on(n), sole.filter(|_| quorate)),
                (on(n).tie(Tie::Declared), leaders.first().copied().filter(|_| quorate)),
                (on(n).needing(k), sole.filter(|_| top >= k)),
                (on(n).unanimous(), sole.filter(|_| quorate && top == ballots)),
            ];
            let llm = llm(cast.clone());
            for (flow, expected) in full {
                let flow = flow.at_once(1);
                let tally = flow.run(&llm, "x").await.unwrap();
                assert_eq!(winner(&tally), expected, "{flow:?} on {}", String::from_utf8_lossy(&cast));
                assert_eq!(tally.asked + tally.saved, n);
                assert_eq!(tally.why == VoteEnd::Decided, expected.is_some());
            }
        }
    }
}

#[test]
fn votes_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&on(3).normalised(|_| None));
    shared(&Outcome::Ok(1));
}

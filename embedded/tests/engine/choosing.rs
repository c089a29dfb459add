use crate::engine;
use futures::executor::block_on;
use futures::future::join_all;
use patterns_embedded::{Choice, ErrorKind};
use serde_json::Value;
use std::collections::BTreeMap;

/// How many texts of each task in a file get the right label, and how many there are.
fn right(file: &str) -> BTreeMap<String, (usize, usize)> {
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for line in file.lines() {
        let case: Value = serde_json::from_str(line).expect("a line of JSON");
        let text = |key: &str| case[key].as_str().expect("a text");
        let about = case["about"].as_object().expect("descriptions");
        let choices: Vec<Choice> = about
            .iter()
            .map(|(label, description)| Choice::new(label, description.as_str().expect("a description")))
            .collect();
        let noun = case["noun"].as_str().unwrap_or("support ticket");
        let chosen = block_on(engine().choose(text("ticket"), noun, &choices)).expect("a choice");
        assert!((chosen.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{chosen:?}");
        let best = (0..choices.len()).max_by(|a, b| chosen[*a].total_cmp(&chosen[*b])).expect("a best one");
        let count = counts.entry(text("task").to_owned()).or_default();
        count.0 += usize::from(choices[best].label == text("label"));
        count.1 += 1;
    }
    counts
}

#[test]
fn support_tickets_reach_their_desk() {
    let right = right(include_str!("../data/tickets.jsonl"));
    // measured: 29 of 30 and 24 of 24; the wording of the prompts was chosen by these
    assert!(right["desk3"].0 >= 27 && right["desk3"].1 == 30, "{right:?}");
    assert!(right["shop4"].0 >= 21 && right["shop4"].1 == 24, "{right:?}");
}

#[test]
fn so_do_texts_that_nothing_was_tuned_on() {
    let right = right(include_str!("../data/unseen.jsonl"));
    let all = right.values().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    // measured: 56 of 60, in five tasks of which four have nothing to do with support
    assert!(all.0 >= 54 && all.1 == 60, "{right:?}");
}

fn fruit_or_car() -> Vec<Choice> {
    vec![
        Choice::new("fruit", "apples, pears and other fruit"),
        Choice::new("car", "cars and how to repair them"),
    ]
}

#[test]
fn order_and_company_do_not_matter() {
    let choose = |choices: Vec<Choice>| async move {
        engine().choose("The engine makes a strange noise.", "text", &choices).await.expect("a choice")
    };
    let forward = block_on(choose(fruit_or_car()));
    let backward = block_on(choose(fruit_or_car().into_iter().rev().collect()));
    assert!(forward[1] > 0.9, "{forward:?}");
    assert!((forward[1] - backward[0]).abs() < 1e-6, "{forward:?} {backward:?}");
    // the calibration is there by now, and several calls are computed in one batch
    for together in block_on(join_all([(); 3].map(|()| choose(fruit_or_car())))) {
        assert_eq!(together, forward);
    }
}

#[test]
fn a_choice_from_nothing_is_refused() {
    let refused = |text: &str, noun: &str, choices: &[Choice]| {
        block_on(engine().choose(text, noun, choices)).expect_err("refused").kind()
    };
    assert_eq!(refused("text", "text", &[]), ErrorKind::BadRequest);
    assert_eq!(refused(" \n", "text", &fruit_or_car()), ErrorKind::BadRequest);
    assert_eq!(refused("text", "", &fruit_or_car()), ErrorKind::BadRequest);
}

#[test]
fn a_text_that_is_too_long_is_an_error_of_its_own() {
    let long = "apple ".repeat(9000);
    let error = block_on(engine().choose(&long, "text", &fruit_or_car())).expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::ContextOverflow);
}

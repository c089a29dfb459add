//! The bounds of a flow hold: whatever a model says, a run that comes to an answer makes no fewer calls than
//! `shape().calls()` says, and no run makes more.
//!
//! To add a pattern: a variant of [`Spec`], an arm of [`build`], a line in [`specs`].
#![allow(clippy::unwrap_used)] // in a test it says what is wrong well enough

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use patterns::{
    BoxFlow, Check, Choice, Error, ErrorKind, Expect, Flow, Policy, Reply, Request, Result, Stop, Tie, chain,
    for_each, orchestrate, refine, route, sections, step, vote, vote_of,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// A flow to be built.
#[derive(Clone, Debug)]
enum Spec {
    Prompt,
    /// Plain code that makes this many calls, or fails before its first.
    Step(u64),
    Chain(Vec<Spec>),
    CodeGate(Box<Spec>, u32),
    JudgeGate(Box<Spec>, u32),
    Sections(Vec<Spec>, Policy, usize),
    ForEach(Box<Spec>, usize, Policy),
    Vote(Ballots, usize, Box<Spec>, Rule),
    Panel(Ballots, Vec<Spec>, Rule),
    /// A rule to the first way, one to `other`, the ways, and what else.
    Route {
        rules: (bool, bool),
        ways: Vec<Spec>,
        otherwise: Option<Box<Spec>>,
    },
    /// A drafter, what judges it, how often, and whether it must be accepted.
    Refine(Box<Spec>, Judge, usize, bool),
    Orchestrate {
        planner: Box<Spec>,
        workers: Vec<Spec>,
        merge: Option<Box<Spec>>,
        policy: Policy,
        again: (u32, u32),
    },
}

#[derive(Clone, Debug)]
enum Judge {
    Criteria,
    Score,
    Code,
    CodeThenCriteria,
    Flow(Box<Spec>),
}

#[derive(Clone, Copy, Debug)]
enum Ballots {
    Among,
    Code,
    Text,
}

#[derive(Clone, Copy, Debug)]
enum Rule {
    Plurality,
    Needing,
    Unanimous,
    AheadBy,
    Weighted,
    Quorum,
}

fn build(spec: &Spec) -> BoxFlow<'static> {
    match spec {
        Spec::Prompt => Flow::boxed("Answer: {input}"),
        Spec::Step(calls) => {
            let calls = *calls;
            let make = async |calls: &u64, llm: &dyn patterns::Llm, text: &str| {
                let mut text = text.to_owned();
                for n in 0..*calls {
                    text = llm.ask(&text).await?;
                    if n == 0 && text.len().is_multiple_of(5) {
                        return Err(Error::step("does not like it"));
                    }
                }
                Ok(text)
            };
            patterns::step_with("step", calls, make).calls(calls..=calls).boxed()
        }
        Spec::Chain(steps) => chain(steps.iter().map(build)).boxed(),
        Spec::CodeGate(flow, repairs) => {
            build(flow).gate("code", |text| text.starts_with("yes")).repair(*repairs).boxed()
        }
        Spec::JudgeGate(flow, repairs) => {
            build(flow).gate_by("judge", Check::judge("good").repair(*repairs)).then(step_free()).boxed()
        }
        Spec::Sections(list, policy, at_once) => {
            let flow = sections().policy(*policy).at_once(*at_once);
            list.iter().enumerate().fold(flow, |flow, (n, spec)| flow.on(n.to_string(), build(spec))).boxed()
        }
        Spec::ForEach(flow, at_most, policy) => {
            for_each(build(flow)).at_most(*at_most).policy(*policy).boxed()
        }
        Spec::Vote(ballots, n, flow, rule) => held(vote(*n, build(flow)), *n, *ballots, *rule),
        Spec::Panel(ballots, list, rule) => {
            held(vote_of(list.iter().map(build)), list.len(), *ballots, *rule)
        }
        Spec::Route { rules: (first, other), ways, otherwise } => {
            let mut flow = route("Which way?");
            for (n, way) in ways.iter().enumerate() {
                flow = flow.when(n.to_string(), build(way));
            }
            if *first {
                flow = flow.when_matches("0", |text: &str| text.len().is_multiple_of(3));
            }
            if let Some(otherwise) = otherwise {
                flow = flow.otherwise(build(otherwise));
                if *other {
                    flow = flow.when_matches("other", |text: &str| text.len().is_multiple_of(2));
                }
            }
            flow.boxed()
        }
        Spec::Refine(drafter, judge, rounds, or_fail) => {
            let drafter = refine(build(drafter));
            let good = |text: &str| text.starts_with("yes");
            let flow = match judge {
                Judge::Criteria => drafter.until("Good."),
                Judge::Score => drafter.until(patterns::Judge::criteria("Good.").at_least(0.7)),
                Judge::Code => drafter.until_code(good),
                Judge::CodeThenCriteria => drafter.until("Good.").until_code(good),
                Judge::Flow(judge) => drafter.until(patterns::Judge::flow(build(judge))),
            };
            let flow = flow.rounds(*rounds);
            if *or_fail { flow.or_fail().boxed() } else { flow.boxed() }
        }
        Spec::Orchestrate { planner, workers, merge, policy, again: (retries, rounds) } => {
            let mut flow = orchestrate(build(planner)).work(build(&workers[0])).at_most(3);
            for (n, worker) in workers.iter().enumerate().skip(1) {
                flow = flow.work_on(n.to_string(), build(worker));
            }
            if let Some(merge) = merge {
                flow = flow.merge(build(merge));
            }
            flow.policy(*policy).retries(*retries).rounds(*rounds).boxed()
        }
    }
}

/// A step without calls.
fn step_free() -> impl Flow<Output = String> + 'static {
    step("free", async |_, text| Ok(text.to_owned())).calls(0..=0)
}

fn held(vote: patterns::Vote<'static>, n: usize, ballots: Ballots, rule: Rule) -> BoxFlow<'static> {
    let vote = match ballots {
        Ballots::Among => vote.among(["yes", "no"]).abstain("unsure").tie(Tie::Declared),
        Ballots::Code => vote.normalised(|text| text.chars().next().map(String::from)),
        Ballots::Text => vote,
    };
    match rule {
        Rule::Plurality => vote,
        Rule::Needing => vote.needing(n.div_ceil(2)),
        Rule::Unanimous => vote.unanimous(),
        Rule::AheadBy => vote.ahead_by(n.min(2)).at_most(n),
        Rule::Weighted => vote.weighted((1..).take(n)).needing(n + 1 - n / 2),
        Rule::Quorum => vote.quorum(1),
    }
    .boxed()
}

fn specs() -> impl Strategy<Value = Spec> {
    let leaf = prop_oneof![4 => Just(Spec::Prompt), 1 => (0..3u64).prop_map(Spec::Step)];
    leaf.prop_recursive(3, 24, 3, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        let list = || prop::collection::vec(inner.clone(), 1..4);
        let policy = || prop_oneof![Just(Policy::All), Just(Policy::AtLeast(1)), Just(Policy::BestEffort)];
        let ballots = || prop_oneof![Just(Ballots::Among), Just(Ballots::Code), Just(Ballots::Text)];
        let judge = || {
            prop_oneof![
                2 => Just(Judge::Criteria),
                2 => Just(Judge::Score),
                1 => Just(Judge::Code),
                1 => Just(Judge::CodeThenCriteria),
                1 => boxed().prop_map(Judge::Flow),
            ]
        };
        let rule = || {
            prop_oneof![
                Just(Rule::Plurality),
                Just(Rule::Needing),
                Just(Rule::Unanimous),
                Just(Rule::AheadBy),
                Just(Rule::Weighted),
                Just(Rule::Quorum)
            ]
        };
        prop_oneof![
            list().prop_map(Spec::Chain),
            (boxed(), 0..3u32).prop_map(|(flow, repairs)| Spec::CodeGate(flow, repairs)),
            (boxed(), 0..3u32).prop_map(|(flow, repairs)| Spec::JudgeGate(flow, repairs)),
            (list(), policy(), 0..3usize).prop_map(|(list, policy, n)| Spec::Sections(list, policy, n)),
            (boxed(), 1..4usize, policy()).prop_map(|(flow, n, policy)| Spec::ForEach(flow, n, policy)),
            (ballots(), 1..5usize, boxed(), rule())
                .prop_map(|(ballots, n, flow, rule)| { Spec::Vote(ballots, n, flow, rule) }),
            (ballots(), list(), rule()).prop_map(|(ballots, list, rule)| Spec::Panel(ballots, list, rule)),
            (any::<(bool, bool)>(), list(), prop::option::of(boxed()))
                .prop_map(|(rules, ways, otherwise)| Spec::Route { rules, ways, otherwise }),
            (boxed(), judge(), 1..4usize, any::<bool>())
                .prop_map(|(drafter, judge, rounds, or_fail)| Spec::Refine(drafter, judge, rounds, or_fail)),
            (boxed(), list(), prop::option::of(boxed()), policy(), (0..2u32, 0..2u32)).prop_map(
                |(planner, workers, merge, policy, again)| Spec::Orchestrate {
                    planner,
                    workers,
                    merge,
                    policy,
                    again
                }
            ),
        ]
    })
}

/// Random numbers from a seed, the same for every run of it.
struct Dice(AtomicU64);

impl Dice {
    /// A number below `n`.
    fn roll(&self, n: u64) -> u64 {
        let mut x = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    }

    fn pick<T: Copy>(&self, of: &[T]) -> T {
        let n = self.roll(of.len() as u64);
        of[usize::try_from(n).unwrap()]
    }
}

/// A plan, seldom a good one.
fn plan(dice: &Dice) -> String {
    let tasks: String = (1..=dice.pick(&[0, 1, 1, 2, 2, 3, 3, 4]))
        .map(|id| {
            let needs = dice.pick(&["", "", "", "1", "2", "9"]);
            let kind = dice.pick(&["", "", "<type>1</type>"]);
            format!(
                "<task><id>{id}</id>{kind}<description>Do {id}.</description><needs>{needs}</needs></task>"
            )
        })
        .collect();
    let end = dice.pick(&["</tasks>", "</tasks>", "</tasks>", "<task>"]);
    format!("<tasks>{tasks}{end}")
}

/// What a moody model says.
fn answer(dice: &Dice, request: &Request) -> Result<Reply> {
    if dice.roll(20) == 0 {
        let kind =
            dice.pick(&[ErrorKind::Server, ErrorKind::TimedOut, ErrorKind::OverBudget, ErrorKind::Refused]);
        return Err(Error::new(kind, "moody"));
    }
    if dice.roll(20) == 0 {
        let stop = [Stop::MaxTokens, Stop::ContextWindow, Stop::Other("?".into())];
        return Ok(Reply {
            stop: stop[usize::try_from(dice.roll(3)).unwrap()].clone(),
            ..Reply::text_of("cut")
        });
    }
    let text = request.text();
    if let Expect::OneOf(one_of) = &request.expect {
        let names = one_of.names();
        let label = if dice.roll(3) == 0 { dice.pick(&names) } else { names[0] };
        return Ok(match dice.roll(4) {
            0 => Reply::text_of("Who knows?"),
            1 => Reply::text_of(format!("<{0}>{label}</{0}>", one_of.tag)),
            _ => {
                let choice = Choice { label: label.to_owned(), reasoning: None, probabilities: vec![] };
                Reply { choice: Some(choice), ..Reply::text_of(label) }
            }
        });
    }
    if let Some((_, tag)) = text.split_once("Reply only with <")
        && let Some((tag, _)) = tag.split_once('>')
        && let Some((_, names)) = text.rsplit_once("holding one of: ")
    {
        let name = names.split([',', '.']).next().unwrap_or_default();
        return Ok(Reply::text_of(dice.pick(&[&*format!("<{tag}>{name}</{tag}>"), "Who knows?"])));
    }
    if request.system.contains("<score>") || text.contains("<score>") {
        return Ok(Reply::text_of(dice.pick(&["<score>9/10</score>", "<score>4/10</score>", "Well."])));
    }
    if text.contains("<task>\n") && dice.roll(2) == 0 {
        return Ok(Reply::text_of(
            dice.pick(&["<evaluation>PASS</evaluation>", "<evaluation>FAIL</evaluation>"]),
        ));
    }
    if text.contains("<tasks>") {
        return Ok(Reply::text_of(plan(dice)));
    }
    Ok(Reply::text_of(dice.pick(&["yes", "yes", "yes", "yes, indeed", "no", "1\n2\n3"])))
}

#[test]
fn every_run_keeps_within_the_bounds_of_its_shape() {
    let (answered, failed) = (Cell::new(0), Cell::new(0));
    let (least, most) = (Cell::new(0), Cell::new(0));
    let mut runner =
        TestRunner::new(Config { cases: 3_000, max_global_rejects: 30_000, ..Config::default() });
    let result = runner.run(&(specs(), any::<u64>()), |(spec, seed)| {
        let flow = build(&spec);
        let bounds = flow.shape().calls();
        let limit = bounds.most.unwrap();
        let expected = bounds.expected.unwrap();
        prop_assert!(bounds.fewest <= expected && expected <= limit, "{:?}", bounds);
        prop_assume!(limit <= 2_000);
        let made = Arc::new(AtomicU64::new(0));
        let dice = Arc::new(Dice(AtomicU64::new(seed)));
        let llm = |request: Request| {
            made.fetch_add(1, Ordering::Relaxed);
            let dice = dice.clone();
            async move {
                for _ in 0..dice.roll(4) {
                    tokio::task::yield_now().await;
                }
                answer(&dice, &request)
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let result = runtime.block_on(flow.run(&llm, "a\nb"));
        let made = made.load(Ordering::Relaxed);
        prop_assert!(made <= limit, "{} calls, at most {} expected", made, limit);
        if result.is_ok() {
            prop_assert!(made >= bounds.fewest, "{} calls, at least {} expected", made, bounds.fewest);
            answered.set(answered.get() + 1);
            least.set(least.get() + u32::from(made == bounds.fewest));
            most.set(most.get() + u32::from(made == limit));
        } else {
            failed.set(failed.get() + 1);
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    // the property is not kept by failing all the time, nor are the bounds only far away
    assert!(
        answered.get() > 300 && failed.get() > 300,
        "{} answered, {} failed",
        answered.get(),
        failed.get()
    );
    assert!(
        least.get() > 100 && most.get() > 100,
        "{} at the least, {} at the most",
        least.get(),
        most.get()
    );
}

//! Flow files: what they say is what runs, and what is wrong in them is told before the first call.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use patterns::file::{Defects, FlowFile, Options};
use patterns::layers::{Complete, Meter};
use patterns::price::Prices;
use patterns::{Error, ErrorKind, Flow, Llm, Reply, Request, Stop, Usage};

fn defects(text: &str) -> Vec<String> {
    let options = Options { name: "flow.toml".to_owned(), ..Options::default() };
    let error: Error =
        FlowFile::parse(text, &options).expect_err("a file with a defect must not be accepted");
    assert_eq!(error.kind(), ErrorKind::Config);
    match error.cause::<Defects>() {
        Some(found) => found.defects.iter().map(ToString::to_string).collect(),
        None => vec![error.to_string()],
    }
}

const DESK: &str = r#"
about = "A desk."

[flow]
route = "Which desk?"
otherwise = "Say that you cannot help."

[[flow.when]]
label = "billing"
about = "money"
flow = { prompt = "Explain the charge to {whom}: {input}", system = "You are kind." }

[[flow.when]]
label = "bug"
matches = ["panicked at", "(?i)stack trace"]
flow = { use = "engineer" }

[parts.engineer]
chain = ["Find the cause.", { gate = "is short", at_most_words = 5, repair = 1 }, "Write the steps."]

[vars]
whom = "the {input}"
"#;

#[tokio::test]
async fn a_flow_file_runs_as_it_is_written() {
    let seen = Mutex::new(Vec::new());
    let llm = async |request: Request| {
        seen.lock().unwrap().push(format!("{}: {}", request.path, request.text()));
        Ok(Reply::text_of(if request.path.as_str() == "route" { "<label>BILLING</label>" } else { "done" }))
    };
    let file = FlowFile::parse(DESK, &Options::default()).unwrap();
    assert_eq!(file.about(), "A desk.");

    let ended = file.run(&llm, "Why $5?").await.unwrap();
    assert_eq!((ended.pattern, ended.text.as_deref()), ("route", Some("done")));
    assert_eq!(ended.outcome["label"], "billing");
    assert_eq!(ended.outcome["how"], "model");
    // the value of a variable is as inert as the input: its {input} stays
    assert_eq!(
        seen.lock().unwrap().last().unwrap(),
        "route/billing: Explain the charge to the {input}: Why $5?"
    );

    // a rule decides without a call, and the chain has its gate
    seen.lock().unwrap().clear();
    let ended = file.run(&llm, "thread 'main' panicked at x").await.unwrap();
    assert_eq!(ended.outcome["how"], "rule");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(seen[1].starts_with("route/bug/step 2: Write the steps."), "{seen:?}");
}

#[test]
fn the_bounds_of_a_file_are_known_before_the_first_call() {
    let shape = FlowFile::parse(DESK, &Options::default()).unwrap().shape();
    // a rule and two steps at the least and a route, a re-ask, two attempts and a step at the most
    assert_eq!(shape.calls().to_string(), "2 to 5 calls");
}

#[test]
fn every_defect_names_its_line_and_key() {
    let found = defects(
        r#"about = 5
[flow]
route = "Which?"
ohterwise = "x"
[[flow.when]]
label = "a"
flow = "Say {whom}."
[[flow.when]]
label = "A"
flow = { prompt = "x", chain = [] }
[[flow.when]]
flow = { use = "nobody" }
[[flow.when]]
label = "all"
matches = ".*"
flow = { promt = "x" }
[parts.spare]
prompt = "y"
[vars]
unused = "z"
"#,
    );
    for wanted in [
        "line 1: `about`: must be a text in quotes, not integer",
        "line 3: `flow.route`: the rule `.*` matches every text, so that nothing else is ever reached",
        "line 4: `flow.ohterwise`: is no key here; did you mean `otherwise`?",
        "line 7: `flow.when[0].flow`: {whom} has no value",
        "line 9: `flow.when[1].label`: two ways are labelled `A`",
        "line 10: `flow.when[1].flow`: is several flows at once: prompt, chain; keep one",
        "line 11: `flow.when[2]`: needs `label`",
        "line 12: `flow.when[2].flow.use`: there is no part `nobody`; write [parts.nobody]",
        "line 16: `flow.when[3].flow`: is no flow: `promt` is unknown; did you mean `prompt`?",
        "line 17: `parts.spare`: is used by nothing",
        "line 20: `vars.unused`: no prompt says {unused}",
    ] {
        assert!(found.iter().any(|defect| defect.starts_with(wanted)), "no \"{wanted}\" in {found:#?}");
    }
    assert_eq!(found.len(), 11, "{found:#?}");
}

#[test]
fn what_is_not_toml_names_the_line() {
    let found = defects("[flow\nprompt = 1");
    assert!(found[0].starts_with("line 1: is not TOML"), "{found:?}");
}

#[test]
fn a_part_that_uses_itself_is_refused() {
    let found = defects("flow = { use = \"a\" }\n[parts.a]\nchain = [\"x\", { use = \"a\" }]\n");
    assert!(found.iter().any(|d| d.contains("`a` uses itself")), "{found:?}");
}

#[test]
fn braces_that_are_no_variable_are_left_alone() {
    let file = FlowFile::parse("flow = 'Answer as {\"id\": 1} or { x } or {Y}.'", &Options::default());
    assert!(file.is_ok(), "{file:?}");
}

#[test]
fn a_gate_that_asks_a_person_needs_somebody_to_ask() {
    let text = "flow = { chain = [\"x\", { gate = \"ok?\", person = true }] }";
    assert!(defects(text)[0].contains("nobody can be asked here"));
    let options = Options {
        ask: Some(std::sync::Arc::new(|_| Box::pin(async { Some("yes".to_owned()) }))),
        ..Options::default()
    };
    assert!(FlowFile::parse(text, &options).is_ok());
}

/// The dearest run that a model can make of a flow: every reply as long as it may be, and cut the first time.
#[tokio::test]
async fn no_run_costs_more_than_the_bound_that_was_known_before() {
    let flow = r#"
        [flow]
        orchestrate = "Split it."
        at_most = 3
        merge = { refine = { prompt = "Join them.", max_tokens = 400 }, until = "It is good.", rounds = 2 }
        work = { chain = ["Say it.", "Say it again."] }
    "#;
    let flow = FlowFile::parse(flow, &Options::default()).unwrap();
    let reply = 9_000;
    let prices = Arc::new(Prices::builtin().with_toml("[models.\"a:b\"]\ninput = 3\noutput = 15").unwrap());
    let (meter, sent) = (Meter::new(prices.clone()), Mutex::new(HashSet::new()));
    let llm = async |request: Request| {
        let prompt =
            request.messages.iter().map(|message| message.text().len()).sum::<usize>() + request.system.len();
        let whole = request.max_tokens.is_some_and(|most| most > reply)
            || !sent.lock().unwrap().insert((request.path.clone(), request.text()));
        let most = request.max_tokens.unwrap_or(reply) as usize;
        let text = match request.text() {
            text if text.contains("<tasks>") => {
                let task = |n| {
                    format!("<task><id>{n}</id><description>{}</description></task>", "x".repeat(most / 4))
                };
                format!("<tasks>{}{}{}</tasks>", task(1), task(2), task(3))
            }
            text if text.contains("<verdict>") => {
                format!("<feedback>{}</feedback><verdict>fail</verdict>", "x".repeat(most - 60))
            }
            _ => "x".repeat(most),
        };
        let usage =
            Usage { input_tokens: prompt as u64, output_tokens: text.len() as u64, ..Usage::default() };
        let stop = if whole { Stop::EndTurn } else { Stop::MaxTokens };
        Ok(Reply { usage, stop, model: "a:b".to_owned(), ..Reply::text_of(text) })
    };
    let llm = llm.complete(Complete::default()).meter(&meter);
    let _ = flow.run(&llm, "bees").await;
    let bytes = (flow.size().words + "bees".len()) as u64;
    let calls = flow.shape().calls();
    let bound = prices.get("a:b").unwrap().run_at_most(calls.most.unwrap(), bytes + 2_000, reply.into());
    let spent = meter.report().total;
    assert!(spent.calls > 8 && spent.sent > spent.calls, "{spent:?}");
    assert!(spent.priced <= bound && spent.priced.dollars() * 20.0 > bound.dollars(), "{spent} of {bound}");
}

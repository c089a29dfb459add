//! Runs of the patterns: the answer alone on standard output, and an exit code that says how whole it is.

use serde_json::Value;

use crate::run::{Run, finish, folder, patterns, run, script};

fn on(lines: &str, arguments: &[&str]) -> Run {
    let folder = folder();
    let model = script(&folder, lines);
    run(&[arguments, &["--model", &model]].concat())
}

const DESK: &str = r#"
{"path": "route", "reply": "<reasoning>A payment.</reasoning><label>billing</label>"}
{"path": "route/billing", "text": "Why $5?", "reply": "It is the fee."}
"#;

#[test]
fn the_answer_alone_goes_to_standard_output() {
    let Run { stdout, stderr, code } = on(DESK, &["route", "--text", "Why $5?"]);
    assert_eq!((code, stdout.as_str()), (0, "It is the fee.\n"));
    for part in ["model: script:", "named by --model", "billing: A payment.", "2 calls"] {
        assert!(stderr.contains(part), "no \"{part}\" in: {stderr}");
    }
    assert_eq!(on(DESK, &["route", "--text", "Why $5?", "--quiet"]).stderr, "");
}

#[test]
fn a_label_alone_costs_one_call() {
    let Run { stdout, stderr, code } = on(DESK, &["route", "--text", "Why $5?", "--label-only"]);
    assert_eq!((code, stdout.as_str()), (0, "billing\n"));
    assert!(stderr.contains("1 call"), "{stderr}");
}

#[test]
fn the_whole_outcome_is_there_as_json() {
    let run = on(DESK, &["route", "--text", "Why $5?", "--json"]);
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(json["pattern"], "route");
    assert_eq!(json["text"], "It is the fee.");
    assert_eq!(json["outcome"]["label"], "billing");
    assert_eq!(json["outcome"]["how"], "model");
    assert_eq!(json["outcome"]["reasoning"], "A payment.");
    assert_eq!(json["meter"]["calls"], 2);
}

#[test]
fn desks_of_ones_own_replace_the_built_in_ones() {
    let lines = r#"
{"path": "route", "reply": "<label>Sales</label>"}
{"path": "route/sales", "reply": "A tent costs 90."}
"#;
    let run = on(
        lines,
        &[
            "route",
            "--text",
            "How much?",
            "--when",
            "sales=offers and prices",
            "--when",
            "repair=broken things",
        ],
    );
    assert_eq!((run.code, run.stdout.as_str()), (0, "A tent costs 90.\n"), "{}", run.stderr);
}

#[test]
fn standard_input_is_an_input() {
    let folder = folder();
    let model = script(&folder, DESK);
    let mut command = patterns(&["route", "-", "--model", &model, "-q"]);
    let mut child =
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"Why $5?").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"It is the fee.\n");
}

#[test]
fn a_vote_without_a_winner_is_degraded_and_prints_no_winner() {
    let lines = r#"
{"path": "voter 1", "reply": "<label>yes</label>"}
{"path": "voter 2", "reply": "<label>no</label>"}
"#;
    let run = on(lines, &["vote", "--text", "x", "--voters", "2"]);
    assert_eq!((run.code, run.stdout.as_str()), (3, ""), "{}", run.stderr);
    assert!(run.stderr.contains("degraded:"), "{}", run.stderr);
}

#[test]
fn a_vote_stops_when_it_is_decided() {
    let lines = r#"{"reply": "<label>yes</label>", "repeat": true}"#;
    let run = on(lines, &["vote", "--text", "x", "--voters", "5", "--json"]);
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, json["text"].as_str()), (0, Some("yes")));
    assert_eq!((json["outcome"]["asked"].as_u64(), json["outcome"]["saved"].as_u64()), (Some(3), Some(2)));
    assert!(run.stderr.contains("yes 3, no 0; asked 3, saved 2"), "{}", run.stderr);
}

#[test]
fn a_draft_that_is_not_accepted_is_degraded_and_the_best_is_printed() {
    let lines = r#"
{"path": "draft 1", "reply": "first"}
{"path": "draft 1/judge", "reply": "<feedback>mend</feedback><evaluation>NEEDS_IMPROVEMENT</evaluation>"}
{"path": "draft 2", "reply": "second"}
{"path": "draft 2/judge", "reply": "<feedback>worse</feedback><evaluation>FAIL</evaluation>"}
"#;
    let run = on(lines, &["refine", "--text", "x", "--rounds", "2"]);
    assert_eq!((run.code, run.stdout.as_str()), (3, "first\n"), "{}", run.stderr);
    assert!(run.stderr.contains("no draft of 2 was accepted"), "{}", run.stderr);
}

#[test]
fn a_missing_view_is_named_and_makes_the_result_degraded() {
    let lines = r#"
{"path": "step 1/section a", "reply": "fine"}
{"path": "step 1/section b", "reply": "no", "stop": "refusal"}
{"path": "step 2", "text": "No result: b (refused)", "reply": "a is fine, b is missing"}
"#;
    let run = on(
        lines,
        &["section", "--text", "x", "--on", "a=Look at a.", "--on", "b=Look at b.", "--merge", "Join."],
    );
    assert_eq!((run.code, run.stdout.as_str()), (3, "a is fine, b is missing\n"), "{}", run.stderr);
}

#[test]
fn a_closed_gate_is_a_failure_that_shows_the_text() {
    let run = on(
        r#"{"path": "step 1", "reply": "FAIL: no figures"}"#,
        &["chain", "--text", "x", "--step", "a", "--stop-word", "FAIL", "--step", "b"],
    );
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{}", run.stderr);
    assert!(
        run.stderr.contains("the gate `does not say FAIL` is closed") && run.stderr.contains("no figures"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_plan_can_be_seen_without_being_run() {
    let plan = r#"{"path": "plan", "reply": "<tasks><task><id>a</id><description>Do a</description></task></tasks>"}"#;
    let run = on(plan, &["orchestrate", "--text", "x", "--plan-only"]);
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, json["tasks"][0]["id"].as_str()), (0, Some("a")), "{}", run.stderr);
}

#[test]
fn a_cut_answer_is_never_an_answer() {
    // twice: it is asked for once more with more room
    let lines = r#"{"reply": "half a sen", "stop": "max_tokens", "repeat": true}"#;
    let run = on(lines, &["chain", "--text", "x", "--step", "a"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{}", run.stderr);
    assert!(run.stderr.contains("cut at max_tokens") && run.stderr.contains("half a sen"), "{}", run.stderr);
}

#[test]
fn a_dry_run_makes_no_call_and_shows_the_bounds() {
    let run = run(&["refine", "--text", "x", "--rounds", "4", "--dry-run", "--model", "script:never-read"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("refine, at most 4 drafts (2 to 12 calls)"), "{}", run.stdout);
    assert!(run.stdout.contains("2 to 12 calls for one input, about 6 as a rule"), "{}", run.stdout);

    let mut command = patterns(&["vote", "--text", "x", "--dry-run", "--model", "anthropic:claude-opus-5-5"]);
    let output = command.env("ANTHROPIC_API_KEY", "none").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("about $0.0") && told.contains("at most $"), "{told}");

    // a part may name a model of the same provider by its bare name
    let folder = folder();
    let file = folder.path().join("flow.toml");
    std::fs::write(&file, "flow = { chain = [\"a\", { prompt = \"b\", model = \"claude-haiku-5-5\" }] }")
        .unwrap();
    let flow = file.display().to_string();
    let mut command =
        patterns(&["run", &flow, "--text", "x", "--dry-run", "--model", "anthropic:claude-opus-5-5"]);
    let output = command.env("ANTHROPIC_API_KEY", "none").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("with anthropic:claude-opus-5-5") && told.contains("at most $"), "{told}");
}

#[test]
fn a_reader_that_goes_away_is_a_clean_end() {
    let folder = folder();
    let model = script(&folder, DESK);
    let mut command = patterns(&["route", "--text", "Why $5?", "--model", &model]);
    let mut child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_person_at_a_gate_opens_it_with_yes_alone() {
    let folder = folder();
    let file = folder.path().join("flow.toml");
    std::fs::write(&file, "flow = { chain = [\"Write.\", { gate = \"send it?\", person = true }] }").unwrap();
    for (typed, code) in [("yes\n", 0), ("y\n", 1), ("", 1)] {
        let model = script(&folder, r#"{"reply": "Dear Ada"}"#);
        let mut command = patterns(&["run", &file.display().to_string(), "--text", "x", "--model", &model]);
        command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), typed.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(code),
            "{typed:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(String::from_utf8_lossy(&output.stderr).contains("Dear Ada"), "the person sees the text");
    }
}

#[test]
fn the_script_that_was_recorded_gives_the_same_run_again() {
    let folder = folder();
    let model = script(&folder, DESK);
    let file = folder.path().join("recorded.jsonl").display().to_string();
    let first = run(&["route", "--text", "Why $5?", "--model", &model, "--record", &file]);
    let again = run(&["route", "--text", "Why $5?", "--model", &format!("script:{file}")]);
    assert_eq!((first.code, &first.stdout), (0, &again.stdout), "{}{}", first.stderr, again.stderr);
}

#[test]
fn variables_of_a_flow_file_can_be_set() {
    let folder = folder();
    let file = folder.path().join("flow.toml");
    std::fs::write(&file, "flow = \"Greet {who}: {input}\"\n[vars]\nwho = \"Ada\"\n").unwrap();
    let model = script(&folder, r#"{"text": "Greet {input} $1: hello", "reply": "ok"}"#);
    let file = file.display().to_string();
    let run = finish(&mut patterns(&[
        "run",
        &file,
        "--text",
        "hello",
        "--set",
        "who={input} $1",
        "--model",
        &model,
    ]));
    assert_eq!((run.code, run.stdout.as_str()), (0, "ok\n"), "{}", run.stderr);
}

#[test]
fn a_call_without_an_answer_ends_each_pattern_with_its_exit_code_and_prints_nothing() {
    let plain = |stop: &str| format!(r#"{{"reply": "half a sen", "stop": "{stop}", "repeat": true}}"#);
    let failed =
        |kind: &str| format!(r#"{{"error": {{"kind": "{kind}", "message": "it failed"}}, "repeat": true}}"#);
    let faults = [
        (plain("max_tokens"), 1),
        (plain("refusal"), 1),
        (plain("pause_turn"), 2), // resumed a few times: a cap
        (plain("model_context_window_exceeded"), 1),
        (plain("from_the_future"), 1),
        (failed("invalid_request"), 1),
        (failed("authentication"), 1),
        (failed("server"), 1),
    ];
    for (lines, code) in faults {
        for pattern in ["chain", "route", "section", "vote", "orchestrate", "refine"] {
            let run = on(&lines, &[pattern, "--text", "x", "--retries", "0"]);
            let code = match pattern {
                "vote" => 3,    // no quorum is left: no decision, and no failure
                "section" => 1, // too few views, whatever each came to
                _ => code,
            };
            assert_eq!((run.code, run.stdout.as_str()), (code, ""), "{pattern}, {lines}: {}", run.stderr);
        }
    }
}

//! Seeing a run: traces, pictures, and what may stand on which stream.

use std::fs;
use std::process::Stdio;

use crate::run::{folder, patterns, run, script, until};

const TWO_SIDES: [&str; 8] = ["section", "--text", "x", "--on", "a=Look.", "--on", "b=Look.", "--model"];

#[test]
fn a_run_can_be_looked_at_afterwards() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let model =
        script(&folder, "{\"reply\": \"plugh\", \"repeat\": true, \"usage\": {\"output_tokens\": 7}}");
    let (first, second) = (at("first.trace"), at("second.trace"));
    let ran = run(&[&TWO_SIDES[..], &[&model, "--trace", &first]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran =
        run(&[&TWO_SIDES[..], &[&model, "--merge", "Join.", "--trace", &second, "--trace-content"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!fs::read_to_string(&first).unwrap().contains("plugh"));
    assert!(fs::read_to_string(&second).unwrap().contains("plugh"));

    let text = run(&["trace", &first, "--width", "80"]);
    assert!(text.stdout.contains("section b") && text.stdout.contains("ok, 2 calls in"), "{}", text.stdout);
    assert!(text.stdout.contains("tokens: 0 + 14"), "{}", text.stdout);
    assert!(text.stdout.contains("█ work  * critical path"), "{}", text.stdout);
    assert!(text.stdout.lines().take(4).all(|line| line.chars().count() <= 80), "{}", text.stdout);
    let diff = run(&["trace", "diff", &first, &second]);
    assert!(diff.stdout.contains("2 calls → 3 calls"), "{}", diff.stdout);
    assert!(run(&["trace", &first, "--mermaid"]).stdout.starts_with("flowchart TD\n"));
    assert!(run(&["trace", &first, "--dot"]).stdout.starts_with("digraph run {"));
    let page = at("page.html");
    assert_eq!(run(&["trace", &second, "--html", &page]).code, 0);
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("plugh"));

    let none = run(&["trace", &at("script.jsonl")]);
    assert_eq!((none.code, none.stdout.as_str()), (64, ""));
    assert!(none.stderr.contains("this is no trace"), "{}", none.stderr);
}

#[test]
fn a_run_that_was_killed_can_still_be_looked_at() {
    let folder = folder();
    let trace = folder.path().join("run.trace").display().to_string();
    let model = script(
        &folder,
        "{\"path\": \"voter 1\", \"reply\": \"<label>yes</label>\"}\n{\"reply\": \"no\", \"delay\": 60000, \"repeat\": true}",
    );
    let mut child = patterns(&["vote", "--text", "x", "--trace", &trace, "--model", &model])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ballot = || fs::read_to_string(&trace).is_ok_and(|text| text.contains("\"ballot\""));
    until("the ballot in the trace", ballot);
    child.kill().unwrap(); // SIGKILL: nothing more is written
    child.wait().unwrap();
    let text = run(&["trace", &trace, "--width", "80"]);
    assert_eq!(text.code, 0, "{}", text.stderr);
    assert!(text.stdout.contains("3 calls (2 unfinished)"), "{}", text.stdout);
    assert!(text.stdout.contains("the trace does not tell the end"), "{}", text.stdout);
}

#[test]
fn a_trace_that_cannot_be_written_is_told_before_any_call() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let model = script(&folder, "{\"reply\": \"plugh\", \"repeat\": true}");
    fs::write(at("flow.toml"), "[flow]\nprompt = \"Write.\"\n").unwrap();
    for (trace, why) in [(at("no folder/run.trace"), "cannot be written"), (at("flow.toml"), "is no trace")] {
        let journal = at("journal");
        let ran = run(&[&TWO_SIDES[..], &[&model, "--trace", &trace, "--resume", &journal]].concat());
        assert_ne!(ran.code, 0);
        assert_eq!(ran.stdout, "");
        assert!(ran.stderr.contains(&trace) && ran.stderr.contains(why), "{}", ran.stderr);
        assert!(!fs::read_to_string(&journal).is_ok_and(|text| text.contains("plugh")), "a call was made");
    }
    assert!(fs::read_to_string(at("flow.toml")).unwrap().starts_with("[flow]"));
}

#[test]
fn what_a_model_wrote_does_nothing_to_the_terminal() {
    let folder = folder();
    let evil = r#"{"reply": "\u001b[2J\u001b]0;title\u0007<evaluation>NEEDS_IMPROVEMENT</evaluation><feedback>\u001b[31mred</feedback>", "repeat": true}"#;
    let model = script(&folder, evil);
    let refine = [
        "refine", "--text", "x", "--prompt", "Write.", "--until", "is good", "--rounds", "2", "--model",
        &model,
    ];
    for show in ["live", "plain"] {
        let ran = run(&[&refine[..], &["--progress", show]].concat());
        assert!(ran.stderr.contains("not accepted"), "{}", ran.stderr);
        assert!(!ran.stderr.contains(['\u{1b}', '\u{7}']), "{:?}", ran.stderr);
    }
}

#[test]
fn standard_output_carries_the_answer_alone() {
    let folder = folder();
    let model = script(&folder, "{\"reply\": \"the answer\", \"repeat\": true}");
    for show in ["live", "plain", "none"] {
        let ran = run(&[&TWO_SIDES[..], &[&model, "--merge", "Join.", "--progress", show]].concat());
        assert_eq!(ran.stdout, "the answer\n");
        assert!(
            !ran.stderr.contains('\u{1b}'),
            "escape sequences where there is no terminal:\n{}",
            ran.stderr
        );
        assert_eq!(ran.stderr.contains("step 1/section a: a starts"), show == "plain", "{}", ran.stderr);
    }
    let quiet = run(&[&TWO_SIDES[..], &[&model, "--quiet", "--progress", "plain"]].concat());
    assert_eq!(quiet.stderr, "");
}

#[test]
fn a_flow_has_pictures_before_it_runs() {
    for flow in ["chain", "route", "section", "vote", "orchestrate", "refine"] {
        let svg = run(&["check", flow, "--svg"]).stdout;
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(run(&["check", flow, "--dot"]).stdout.starts_with("digraph flow {"));
        assert!(run(&["check", flow, "--mermaid"]).stdout.starts_with("flowchart TD\n"));
        assert!(!run(&["check", flow]).stdout.contains('\u{1b}'));
    }
}

//! Wrong input gives a clear error, the documented exit code, and nothing on standard output.

use std::fs;

use crate::run::{finish, folder, patterns, run, script};

const ANY: &str = r#"{"reply": "<label>other</label>", "repeat": true}"#;

fn refused(arguments: &[&str], wanted: &[&str]) {
    let run = run(arguments);
    assert_eq!((run.code, run.stdout.as_str()), (64, ""), "{arguments:?}: {}", run.stderr);
    for part in wanted {
        assert!(run.stderr.contains(part), "{arguments:?}: no \"{part}\" in: {}", run.stderr);
    }
}

#[test]
fn an_input_that_cannot_be_read_is_refused_with_what_to_do() {
    let folder = folder();
    let model = script(&folder, ANY);
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("empty.txt"), " \n").unwrap();
    fs::write(at("binary.txt"), b"\x89PNG\r\n\x1a\n\0\0").unwrap();
    fs::write(at("nul.txt"), b"text\0text").unwrap();
    fs::write(at("long.txt"), "x".repeat(4 * 1024 * 1024 + 1)).unwrap();
    for (input, wanted) in [
        (at("missing.txt"), "there is no file"),
        (at("empty.txt"), "is empty"),
        (at("binary.txt"), "is not a text in UTF-8"),
        (at("nul.txt"), "is not a text in UTF-8"),
        (at("long.txt"), "is longer than 4 MB"),
        (folder.path().display().to_string(), "is a folder"),
    ] {
        refused(&["route", &input, "--model", &model], &[wanted]);
    }
    refused(&["route", "--model", &model], &["no input"]);
}

#[test]
fn a_model_that_is_not_known_is_refused_with_the_forms_there_are() {
    refused(&["route", "--text", "x", "--model", "antropic:claude-opus-5-5"], &["anthropic:"]);
    refused(&["route", "--text", "x", "--model", "script:missing.jsonl"], &["missing.jsonl"]);
    let run = finish(patterns(&["route", "--text", "x"]).env("PATTERNS_MODEL", "openai:gpt-5"));
    assert_eq!(run.code, 64);
    assert!(run.stderr.contains("OPENAI_API_KEY"), "{}", run.stderr);
    let run = finish(patterns(&["route", "--text", "x"]).env("PATTERNS_MODEL", "anthropic:claude-opus-5-5"));
    assert!(run.code == 64 && run.stderr.contains("ANTHROPIC_API_KEY"), "{}", run.stderr);
}

#[test]
fn a_wrong_option_is_refused_with_the_right_one() {
    refused(&["route", "--label-onyl"], &["--label-only"]);
    refused(&["rout"], &["route"]);
    refused(&["route", "--text", "x", "--when", "billing"], &["NAME=VALUE"]);
    refused(&["refine", "--rounds", "0", "--text", "x"], &["0 is not in 1..=100"]);
    refused(&["route", "--text", "x", "--chaos", "429:2"], &["429"]);
    refused(&["route", "--text", "x", "--max-usd", "-1"], &["above 0"]);
    refused(&["run", "missing.toml", "--text", "x"], &["there is no flow file", "patterns new"]);
}

#[test]
fn a_flow_file_with_defects_is_refused_with_all_of_them_and_no_call_is_made() {
    let folder = folder();
    let file = folder.path().join("desk.toml");
    fs::write(
        &file,
        "[flow]\nroute = \"Which?\"\nohterwise = \"x\"\nwhen = [{ label = \"a\", flow = \"{who}\" }]\n",
    )
    .unwrap();
    let name = file.display().to_string();
    let wanted = [
        "line 3: `flow.ohterwise`: is no key here; did you mean `otherwise`?",
        "line 4: `flow.when[0].flow`: {who} has no value",
    ];
    refused(&["check", &name], &wanted);
    refused(&["run", &name, "--text", "x", "--model", "script:never-read"], &wanted);
}

#[test]
fn help_goes_to_standard_output_and_names_every_exit_code() {
    let help = run(&["--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (0, ""));
    for part in [
        "chain",
        "route",
        "section",
        "vote",
        "orchestrate",
        "refine",
        "run",
        "map",
        "check",
        "new",
        "  130  interrupted",
    ] {
        assert!(help.stdout.contains(part), "no \"{part}\" in: {}", help.stdout);
    }
    for command in
        ["chain", "route", "section", "vote", "orchestrate", "refine", "run", "map", "check", "new"]
    {
        let help = run(&[command, "--help"]);
        assert!(help.code == 0 && help.stdout.contains("Usage:"), "{command}");
    }
}

#[test]
fn no_colour_and_no_bar_where_no_terminal_is() {
    let folder = folder();
    let model = script(&folder, ANY);
    let run = run(&["route", "--text", "x", "--model", &model]);
    assert!(!run.stderr.contains('\u{1b}') && !run.stdout.contains('\u{1b}'), "{:?}", run.stderr);
}

#[test]
fn a_new_flow_file_can_be_run_at_once_and_is_never_overwritten() {
    let folder = folder();
    let model = script(&folder, ANY);
    for pattern in ["chain", "route", "section", "vote", "orchestrate", "refine"] {
        let new = finish(patterns(&["new", pattern, "--pattern", pattern]).current_dir(folder.path()));
        assert_eq!(new.code, 0, "{}", new.stderr);
        let again = finish(patterns(&["new", pattern]).current_dir(folder.path()));
        assert!(again.code == 64 && again.stderr.contains("is left alone"), "{}", again.stderr);
        let file = folder.path().join(format!("{pattern}.toml")).display().to_string();
        let check = run(&["check", &file]);
        assert_eq!(check.code, 0, "{}", check.stderr);
        assert!(check.stdout.contains("for one input"), "{}", check.stdout);
    }
    let route = folder.path().join("route.toml").display().to_string();
    assert_eq!(run(&["run", &route, "--text", "x", "--model", &model]).code, 0);
    refused(&["new", "x", "--pattern", "rote"], &["there is no pattern `rote`"]);
}

//! Every example runs without a key, on a script to the letter and on the embedded model to its end, as Rust and as a flow
//! file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Run, bare, finish, folder, root, run};

/// The examples, the input of each as a flow file, and the exit code of that.
const EXAMPLES: [(&str, &str, i32); 7] = [
    ("report", "report.txt", 0),
    ("stakeholders", "change.txt", 3),
    ("route", "tickets.txt", 0),
    ("product", "product.txt", 3),
    ("stack", "stack.txt", 0),
    ("research", "sources.txt", 0),
    ("desk", "request.txt", 0),
];

/// Examples of agents: they need a model that calls tools, which the embedded one does not, and have no flow file.
const AGENTS: [&str; 3] = ["weather", "seats", "refund"];

/// A chain with a tool as a step, which a flow file cannot name.
const CODE_ALONE: [&str; 1] = ["tool_step"];

fn all() -> impl Iterator<Item = &'static str> {
    EXAMPLES.into_iter().map(|(name, ..)| name).chain(AGENTS).chain(CODE_ALONE)
}

fn example(name: &str) -> Command {
    // cargo builds the examples beside the program when it builds the tests
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_patterns")).parent().map(|folder| folder.join("examples"));
    let mut command = Command::new(folder.unwrap_or_default().join(name));
    bare(&mut command);
    command
}

/// The script for a run; a flow file that makes other calls than its Rust twin has one of its own.
fn script(name: &str, flow: bool) -> String {
    let own = root().join(format!("examples/scripts/{name}.flow.jsonl"));
    let file = if flow && own.exists() { own } else { root().join(format!("examples/scripts/{name}.jsonl")) };
    format!("script:{}", file.display())
}

fn expected(file: &str) -> String {
    fs::read_to_string(root().join("examples/expected").join(file))
        .unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn every_example_is_listed_here() {
    let mut found: Vec<_> = fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let mut listed: Vec<_> = all().map(str::to_owned).collect();
    found.sort();
    listed.sort();
    assert_eq!(found, listed);
}

#[test]
fn every_example_is_shorter_than_a_page() {
    for name in all() {
        let lines = fs::read_to_string(root().join(format!("examples/{name}.rs"))).unwrap().lines().count();
        assert!(lines < 60, "{name} has {lines} lines");
    }
}

#[test]
fn examples_print_exactly_this_on_their_scripts() {
    for name in all() {
        let output = example(name).env("PATTERNS_MODEL", script(name, false)).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {stderr}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected(&format!("{name}.txt")), "{name}");
    }
}

#[test]
fn the_refund_desk_refunds_on_a_yes_alone() {
    let folder = folder();
    for (typed, refunded) in [("yes\n", true), ("y\n", false), ("", false)] {
        let file = folder.path().join("typed");
        fs::write(&file, typed).unwrap();
        let mut refund = example("refund");
        refund.env("PATTERNS_MODEL", script("refund", false)).stdin(fs::File::open(&file).unwrap());
        let Run { stdout, stderr, code } = finish(&mut refund);
        assert_eq!(code, 0, "{stderr}");
        assert_eq!(stdout.contains("2999 cents are on their way"), refunded, "{typed:?}: {stdout}");
        assert_eq!(stdout.contains("not run: refund("), !refunded, "{typed:?}: {stdout}");
    }
}

#[test]
fn flow_files_print_exactly_this_on_their_scripts() {
    for (name, input, exit) in EXAMPLES {
        let flow = format!("examples/flows/{name}.toml");
        let Run { stdout, stderr, code } =
            run(&["run", &flow, &format!("examples/data/{input}"), "--model", &script(name, true)]);
        assert_eq!(code, exit, "{name}: {stderr}");
        assert_eq!(stdout, expected(&format!("{name}.flow.txt")), "{name}");
    }
}

#[test]
fn every_example_runs_to_its_end_on_the_embedded_model() {
    for (name, input, _) in EXAMPLES {
        let output = example(name).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {stderr}");
        assert!(!output.stdout.is_empty(), "{name}");

        // a flow may end degraded or at a gate, but with a reason that is not a lost call
        let Run { stderr, code, .. } =
            run(&["run", &format!("examples/flows/{name}.toml"), &format!("examples/data/{input}")]);
        let reasoned =
            stderr.contains("the gate `") || stderr.contains("plan") || stderr.contains("degraded:");
        assert!(code == 0 || (matches!(code, 1 | 3) && reasoned), "{name}: {code}: {stderr}");
    }
}

#[test]
fn an_agent_says_when_its_model_calls_no_tools() {
    for name in AGENTS {
        let output = example(name).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{name}");
        assert!(stderr.contains("calls no tools"), "{name}: {stderr}");
    }
}

#[test]
fn the_data_of_the_examples_is_there() {
    for (_, input, _) in EXAMPLES {
        assert!(Path::new(&root()).join("examples/data").join(input).exists(), "{input}");
    }
}

//! A run kept in hand: budget, journal, rehearsal, interruption.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::run::{finish, folder, patterns, run, script};

#[test]
fn a_run_that_was_killed_makes_only_the_missing_calls() {
    let folder = folder();
    let journal = folder.path().join("run.journal").display().to_string();
    // the second voter takes longer than its process lives
    let slow = script(
        &folder,
        "{\"path\": \"voter 1\", \"reply\": \"<label>yes</label>\"}\n{\"reply\": \"<label>no</label>\", \"delay\": 60000, \"repeat\": true}",
    );
    let ask = |model: &str| {
        patterns(&["vote", "--text", "x", "--voters", "3", "--resume", &journal, "--model", model])
    };
    let mut child = ask(&slow).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while std::fs::read_to_string(&journal).map_or(true, |text| text.lines().count() < 2) {
        assert!(started.elapsed() < Duration::from_secs(20), "voter 1 was never written down");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let rest = script(
        &folder,
        "{\"path\": \"voter 2\", \"reply\": \"<label>no</label>\"}\n{\"path\": \"voter 3\", \"reply\": \"<label>yes</label>\"}",
    );
    let resumed = finish(&mut ask(&rest));
    assert_eq!((resumed.code, resumed.stdout.as_str()), (0, "yes\n"), "{}", resumed.stderr);
    let nothing = script(&folder, "");
    let again = finish(&mut ask(&nothing));
    assert_eq!((again.code, again.stdout.as_str()), (0, "yes\n"), "{}", again.stderr);
}

#[test]
fn a_budget_stops_the_run_with_what_there_is() {
    let folder = folder();
    let model = script(
        &folder,
        "{\"path\": \"draft 1\", \"reply\": \"first\"}\n{\"reply\": \"<evaluation>FAIL</evaluation>\", \"repeat\": true}",
    );
    let run = run(&["refine", "--text", "x", "--max-calls", "2", "--model", &model]);
    assert_eq!(run.stdout, "first\n", "{}", run.stderr);
    assert_eq!(run.code, 2, "{}", run.stderr);
}

#[test]
fn a_budget_in_dollars_needs_a_price() {
    let run = finish(
        patterns(&["vote", "--text", "x", "--max-usd", "1", "--model", "openai:some-model-without-a-price"])
            .env("OPENAI_API_KEY", "k"),
    );
    assert_eq!((run.code, run.stdout.as_str()), (64, ""), "{}", run.stderr);
    assert!(run.stderr.contains("some-model-without-a-price"), "{}", run.stderr);
}

#[test]
fn chaos_with_a_seed_is_the_same_chaos_again() {
    let folder = folder();
    let run = |seed: &str| {
        let model = script(&folder, r#"{"reply": "<label>yes</label>", "repeat": true}"#);
        let run = finish(&mut patterns(&[
            "vote",
            "--text",
            "x",
            "--voters",
            "9",
            "--retries",
            "0",
            "--chaos",
            "refuse:0.5",
            "--seed",
            seed,
            "--json",
            "--model",
            &model,
        ]));
        serde_json::from_str::<serde_json::Value>(&run.stdout)
            .map(|json| json["outcome"]["census"].clone())
            .unwrap_or_default()
    };
    assert_eq!(run("7"), run("7"));
    assert!((1..6).any(|seed| run(&seed.to_string()) != run("7")), "another seed is another chaos");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_run_with_its_cost_and_130() {
    let folder = folder();
    let model = script(&folder, r#"{"reply": "<label>yes</label>", "delay": 1500, "repeat": true}"#);
    let mut command =
        patterns(&["vote", "--text", "x", "--voters", "3", "--at-once", "1", "--model", &model]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    // the other two wait for their turn
    assert!(stderr.contains("interrupted: the call under way may end"), "{stderr}");
}

/// A vote of seven, a plan whose tasks need each other, and a loop of drafts.
const LONG: &str = r#"
[flow]
chain = [{ use = "vote" }, { use = "plan" }, { use = "drafts" }]

[parts.vote]
vote = "Which?"
voters = 7
among = ["a", "b"]
needing = 7

[parts.plan]
orchestrate = "Split."
work = "Do."
merge = "Join."

[parts.drafts]
refine = "Write."
until = "good"
rounds = 3
"#;

/// Every call of it, each answered once and after a moment.
fn answers() -> String {
    let plan = "<tasks><task><id>x</id><description>X</description></task><task><id>y</id><description>Y</description></task>\
                <task><id>z</id><needs>x, y</needs><description>Z</description></task></tasks>";
    let mut lines: Vec<(String, String)> =
        (1..=7).map(|n| (format!("*voter {n}"), "<label>a</label>".to_owned())).collect();
    for (path, reply) in [
        ("*plan", plan),
        ("*task x", "done x"),
        ("*task y", "done y"),
        ("*task z", "done z"),
        ("*merge", "all done"),
        ("*draft 1", "first"),
        ("*draft 1/judge", "<feedback>mend</feedback><evaluation>NEEDS_IMPROVEMENT</evaluation>"),
        ("*draft 2", "second"),
        ("*draft 2/judge", "<evaluation>PASS</evaluation>"),
    ] {
        lines.push((path.to_owned(), reply.to_owned()));
    }
    let lines = lines.into_iter().map(|(path, reply)| {
        serde_json::json!({ "path": path, "reply": reply, "delay": 40 }).to_string() + "\n"
    });
    lines.collect()
}

#[test]
fn killed_after_any_call_a_run_goes_on_with_exactly_the_calls_that_are_missing() {
    let folder = folder();
    let file = folder.path().join("long.toml");
    std::fs::write(&file, LONG).unwrap();
    let flow = file.display().to_string();
    let model = script(&folder, &answers());
    let calls = answers().lines().count();
    for k in 1..calls {
        let journal = folder.path().join(format!("journal {k}")).display().to_string();
        let written = || std::fs::read_to_string(&journal).map_or(0, |text| text.matches('\n').count());
        let command =
            || patterns(&["run", &flow, "--text", "x", "--resume", &journal, "--model", &model, "--json"]);
        let mut child = command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let started = Instant::now();
        while written() <= k {
            assert!(started.elapsed() < Duration::from_secs(60), "call {k} was never written down");
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let done = written() - 1; // the first line says what the file is

        let resumed = finish(&mut command());
        let json: serde_json::Value = serde_json::from_str(&resumed.stdout).unwrap();
        assert_eq!(json["text"], "second", "killed after {k}: {}", resumed.stderr);
        let meter = &json["meter"];
        assert_eq!(meter["replayed"].as_u64(), Some(done as u64), "killed after {k}: {}", resumed.stderr);
        assert_eq!(
            meter["sent"].as_u64(),
            Some((calls - done) as u64),
            "killed after {k}: {}",
            resumed.stderr
        );
    }
}

//! A run kept in hand: budget, journal, rehearsal, interruption.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Command, Stdio};

use crate::run::{finish, folder, lines, patterns, run, script, until};

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
    until("voter 1 in the journal", || lines(&journal) == 2);
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

/// The next request that comes, read to its end: the call is under way until it is answered or dropped.
#[cfg(unix)]
fn asked(server: &TcpListener) -> TcpStream {
    let (connection, _) = server.accept().unwrap();
    let mut reader = BufReader::new(connection);
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    reader.read_exact(&mut vec![0; length]).unwrap();
    reader.into_inner()
}

#[cfg(unix)]
fn answer(mut call: TcpStream, label: &str) {
    let body = format!(
        r#"{{"choices": [{{"message": {{"content": "<label>{label}</label>"}}, "finish_reason": "stop"}}]}}"#
    );
    write!(call, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .unwrap();
}

#[cfg(unix)]
fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Three voters, one after the other, and the call of the first.
#[cfg(unix)]
fn voting() -> (TcpListener, Child, TcpStream) {
    waiting(&["vote", "--text", "x", "--voters", "3"])
}

/// A run that makes one call at a time, and its first call.
#[cfg(unix)]
fn waiting(arguments: &[&str]) -> (TcpListener, Child, TcpStream) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command = patterns(&[arguments, &["--at-once", "1", "--model", "openai:x"]].concat());
    let url = format!("http://{}/v1", server.local_addr().unwrap());
    command.env("OPENAI_BASE_URL", url).env("NO_PROXY", "127.0.0.1");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let call = asked(&server);
    (server, child, call)
}

/// Sends Ctrl-C, and gives what is said up to these words and what is still to be said.
#[cfg(unix)]
fn interrupted(child: &mut Child, words: &str) -> (BufReader<ChildStderr>, String) {
    interrupt(child);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains(words) {
        assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "{said}");
    }
    (stderr, said)
}

#[cfg(unix)]
#[test]
fn ctrl_c_lets_the_call_under_way_end_and_tells_the_cost() {
    let (server, mut child, call) = voting();
    let (mut stderr, mut said) = interrupted(&mut child, "interrupted: the call under way may end");
    answer(call, "yes");
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    // the other two waited for their turn, and never came to it
    server.set_nonblocking(true).unwrap();
    assert!(server.accept().is_err(), "another call was made: {said}");
    assert!(said.contains("3 calls (2 failed, "), "{said}");
}

#[cfg(unix)]
#[test]
fn a_second_ctrl_c_ends_at_once() {
    let (_server, mut child, mut call) = voting();
    let (mut stderr, mut said) = interrupted(&mut child, "interrupted:");
    interrupt(&child);
    // nobody answers the call
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert_eq!(call.read(&mut [0]).unwrap_or(0), 0, "the call was dropped");
    assert!(said.contains("cancelled"), "the cost is told: {said}");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_map_also_where_a_pattern_would_end_without_what_is_missing() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(at("flow.toml"), "flow = { vote = \"Is it?\", voters = 3, among = [\"yes\", \"no\"] }")
        .unwrap();
    std::fs::write(at("in.jsonl"), "\"one\"\n\"two\"\n").unwrap();
    let (flow, inputs, out) = (at("flow.toml"), at("in.jsonl"), at("out.jsonl"));
    let (_server, mut child, call) = waiting(&["map", &flow, &inputs, "-o", &out]);
    let (mut stderr, mut said) = interrupted(&mut child, "interrupted:");
    answer(call, "yes");
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert_eq!(lines(&out), 0, "an interrupted vote is no outcome");
}

#[test]
fn no_bound_is_too_large_to_be_given() {
    let folder = folder();
    let model = script(&folder, r#"{"reply": "<label>yes</label>", "repeat": true}"#);
    let most = u64::MAX.to_string();
    for bound in ["--max-seconds", "--max-tokens", "--max-calls", "--max-usd", "--per-minute", "--retries"] {
        let most = if bound == "--retries" { "4294967295" } else { &most };
        let run = run(&["vote", "--text", "x", bound, most, "--model", &model]);
        assert_eq!((run.code, run.stdout.as_str()), (0, "yes\n"), "{bound}: {}", run.stderr);
    }
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
        let command =
            || patterns(&["run", &flow, "--text", "x", "--resume", &journal, "--model", &model, "--json"]);
        let mut child = command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("the call in the journal", || lines(&journal) > k);
        child.kill().unwrap();
        child.wait().unwrap();
        let done = lines(&journal) - 1; // the first line says what the file is

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

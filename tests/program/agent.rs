//! `patterns agent`: a line a turn, an answer with citations that exist, a cap, a self-test.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use crate::run::{Run, patterns, run};

/// A folder with a config, and a script that finds it.
fn planted(lines: &[&str]) -> (tempfile::TempDir, String) {
    let folder = tempfile::TempDir::new().unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(
        folder.path().join("src/config.py"),
        "import os\n\ndef load_config():\n    return os.environ\n",
    )
    .unwrap();
    let script = folder.path().join("script.jsonl");
    fs::write(&script, lines.join("\n")).unwrap();
    let model = format!("script:{}", script.display());
    (folder, model)
}

const SEARCH: &str = r#"{"path": "turn 1", "content": [{"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"pattern": "def load_config"}}], "usage": {"input_tokens": 100, "output_tokens": 20, "cache_read_tokens": 7}}"#;
const READ: &str = r#"{"path": "turn 2", "content": [{"type": "tool_use", "id": "toolu_2", "name": "read_file", "input": {"path": "src/config.py", "first_line": 3}}, {"type": "tool_use", "id": "toolu_3", "name": "list_files", "input": {}}]}"#;
const ANSWER: &str = r#"{"reply": "The config is loaded in src/config.py:3."}"#;

fn agent(root: &Path, model: &str, more: &[&str]) -> Run {
    let root = root.display().to_string();
    run(&[&["agent", "Where is the config loaded?", "--root", &root, "--model", model], more].concat())
}

#[test]
fn an_answer_stands_alone_on_standard_output_and_each_turn_is_a_line_on_standard_error() {
    let (folder, model) = planted(&[SEARCH, READ, ANSWER]);
    let Run { stdout, stderr, code } = agent(folder.path(), &model, &[]);
    assert_eq!((code, stdout.as_str()), (0, "The config is loaded in src/config.py:3.\n"), "{stderr}");
    let turns: Vec<_> = stderr.lines().filter(|line| line.starts_with("turn ")).collect();
    assert_eq!(
        turns,
        [
            r#"turn 1 | tool_use | in=100 out=20 cache_read=7 | search({"pattern": "def load_config"})"#,
            r#"turn 2 | tool_use | in=0 out=0 cache_read=0 | read_file({"path": "src/config.py", "first_line": 3}), list_files({})"#,
            "turn 3 | end_turn | in=0 out=0 cache_read=0",
        ]
    );
}

#[test]
fn the_cap_on_turns_has_its_message_and_its_exit_code() {
    let (folder, model) = planted(&[SEARCH, READ, ANSWER]);
    let Run { stdout, stderr, code } = agent(folder.path(), &model, &["--max-turns", "2"]);
    assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
    let message =
        "Agent stopped: no final answer after max_turns=2; raise --max-turns or ask a narrower question";
    assert!(stderr.lines().any(|line| line == message), "{stderr}");
}

#[test]
fn a_citation_that_does_not_exist_is_sent_back_and_reported_when_it_stays() {
    let wrong = r#"{"reply": "It is in src/settings.py:3.", "repeat": true}"#;
    let (folder, model) = planted(&[wrong]);
    let Run { stdout, stderr, code } = agent(folder.path(), &model, &[]);
    assert_eq!((code, stdout.as_str()), (3, "It is in src/settings.py:3.\n"), "{stderr}");
    assert!(
        stderr.contains(
            "src/settings.py:3 does not exist (there is no `src/settings.py`; in src there is config.py)"
        ),
        "{stderr}"
    );
    assert_eq!(stderr.lines().filter(|line| line.starts_with("turn ")).count(), 2, "{stderr}");
}

#[test]
fn quiet_says_nothing_and_json_says_everything() {
    let (folder, model) = planted(&[SEARCH, READ, ANSWER]);
    let Run { stdout, stderr, code } = agent(folder.path(), &model, &["--quiet", "--json"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let whole: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(whole["agent"]["turns"], 3);
    assert_eq!(whole["agent"]["why"], "answered");
    assert_eq!(whole["agent"]["messages"].as_array().unwrap().len(), 6);
}

#[test]
fn a_judge_holds_the_answer_against_the_cited_lines() {
    let judge = r#"{"path": "check 1/judge", "text": "src/config.py:3: def load_config():", "reply": "<evaluation>PASS</evaluation>"}"#;
    let (folder, model) = planted(&[SEARCH, READ, judge, ANSWER]);
    let Run { stderr, code, .. } = agent(folder.path(), &model, &["--judge"]);
    assert_eq!(code, 0, "{stderr}");
}

#[test]
fn the_budget_keeps_what_was_done_and_has_its_exit_code() {
    let (folder, model) = planted(&[SEARCH, READ, ANSWER]);
    let Run { stdout, stderr, code } = agent(folder.path(), &model, &["--max-calls", "2"]);
    assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
    assert!(stderr.contains("turn 2 |") && !stderr.contains("turn 3 |"), "{stderr}");
    let Run { stdout, code, .. } = agent(folder.path(), &model, &["--max-calls", "2", "--json"]);
    let whole: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &whole["agent"]["why"]["failed"]["kind"]), (2, &serde_json::json!("over budget")));
    assert_eq!(
        whole["agent"]["messages"].as_array().unwrap().len(),
        5,
        "two turns and their results are kept"
    );
}

#[test]
fn a_resumed_run_asks_nothing_twice() {
    let (folder, model) = planted(&[SEARCH, READ, ANSWER]);
    let journal = folder.path().join("journal").display().to_string();
    let first = agent(folder.path(), &model, &["--resume", &journal, "--max-calls", "2"]);
    assert_eq!(first.code, 2, "{}", first.stderr);
    let (_other, rest) = planted(&[ANSWER]);
    let Run { stdout, stderr, code } = agent(folder.path(), &rest, &["--resume", &journal]);
    assert_eq!((code, stdout.as_str()), (0, "The config is loaded in src/config.py:3.\n"), "{stderr}");
}

#[test]
fn a_run_that_was_killed_goes_on_with_the_missing_calls_alone() {
    let last = r#"{"path": "turn 3", "delay": 60000, "reply": "It is in src/config.py:3."}"#;
    let (folder, _) = planted(&[]);
    // beside the root: what the tools find is a part of the next request
    let (other, model) = planted(&[SEARCH, READ, last]);
    let (root, journal) = (folder.path().display().to_string(), other.path().join("journal"));
    let journal = journal.display().to_string();
    let arguments =
        ["agent", "Where is the config loaded?", "--root", &root, "--resume", &journal, "--model", &model];
    let mut child = patterns(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("turn 2 |")), "the second turn is told");
    child.kill().unwrap(); // SIGKILL, while the tools of turn 2 run or turn 3 is waited for
    child.wait().unwrap();
    fs::write(other.path().join("script.jsonl"), ANSWER).unwrap();
    let Run { stdout, stderr, code } = run(&arguments);
    assert_eq!((code, stdout.as_str()), (0, "The config is loaded in src/config.py:3.\n"), "{stderr}");
    assert!(stderr.contains("3 calls (2 from the journal)"), "{stderr}");
}

/// An MCP server of one tool that works for so many seconds.
#[cfg(unix)]
fn slow_server(folder: &Path, seconds: &str) -> String {
    let file = folder.join("server.sh");
    let script = r#"
while read -r line; do
  case "$line" in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}' ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"work","inputSchema":{"type":"object"}}]}}' ;;
    *'"tools/call"'*) sleep SECONDS; echo '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"worked"}]}}' ;;
  esac
done"#;
    fs::write(&file, script.replace("SECONDS", seconds)).unwrap();
    format!("sh {}", file.display())
}

#[cfg(unix)]
#[test]
fn ctrl_c_lets_the_tool_under_way_end_says_so_and_starts_no_other() {
    let call = |turn: u8| {
        format!(
            r#"{{"path": "turn {turn}", "content": [{{"type": "text", "text": "I begin."}}, {{"type": "tool_use", "id": "toolu_{turn}", "name": "work", "input": {{}}}}]}}"#
        )
    };
    let (first, second) = (call(1), call(2));
    let (folder, model) = planted(&[&first, &second, ANSWER]);
    let server = slow_server(folder.path(), "2");
    let root = folder.path().display().to_string();
    let mut child =
        patterns(&["agent", "Go.", "--root", &root, "--model", &model, "--mcp", &server, "--allow", "work"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("turn 1 |")), "the first turn is told");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let interrupt = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    let rest: Vec<String> = lines.collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(130), 0), "{rest:#?}");
    assert_eq!(rest[0], "interrupted: the tool under way may end, no other starts; once more ends at once");
    assert!(rest.iter().all(|line| !line.starts_with("turn 2")), "{rest:#?}");
    assert!(rest.contains(&"I begin.".to_owned()), "what was done is kept: {rest:#?}");
}

#[cfg(unix)]
#[test]
fn a_yes_after_ctrl_c_is_no_yes() {
    use std::io::Write as _;

    let call =
        r#"{"path": "turn 1", "content": [{"type": "tool_use", "id": "a", "name": "work", "input": {}}]}"#;
    let (folder, model) = planted(&[call, ANSWER]);
    let server = slow_server(folder.path(), "0");
    let root = folder.path().display().to_string();
    let mut child = patterns(&["agent", "Go.", "--root", &root, "--model", &model, "--mcp", &server])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "work({})"), "the person is asked");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let interrupt = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    assert!(lines.any(|line| line.contains("interrupted: ")));
    child.stdin.take().unwrap().write_all(b"yes\n").unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:#?}");
    assert!(rest.contains(&"not run: work({}): nobody answered".to_owned()), "{rest:#?}");
}

#[test]
fn the_self_test_needs_no_key_and_holds() {
    let Run { stdout, stderr, code } = run(&["agent", "--selftest"]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let lines: Vec<_> = stdout.lines().collect();
    assert!(
        lines.len() > 15 && lines[..lines.len() - 1].iter().all(|line| line.starts_with("ok    ")),
        "{stdout}"
    );
    assert_eq!(lines.last(), Some(&"everything holds"));
}

#[test]
fn wrong_usage_says_what_to_do() {
    for (arguments, part) in [
        (&["agent"][..], "<QUESTION>"),
        (&["agent", " ", "--model", "script:x"], "the question is empty"),
        (&["agent", "x", "--root", "/no/such/folder", "--model", "script:x"], "name another --root"),
        (&["agent", "x", "--max-turns", "0"], "--max-turns"),
        (&["agent", "x", "--mcp", "/no/such/server", "--model", "script:x"], "cannot be started"),
    ] {
        let Run { stdout, stderr, code } = run(arguments);
        assert_eq!((code, stdout.as_str()), (64, ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
}

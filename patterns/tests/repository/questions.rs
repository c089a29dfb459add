//! Five questions about this very repository, answered by a scripted model through the real tools: it searches, reads what
//! was found first, and cites the line. No path and no line number is in the script.

use patterns::{AgentEnd, Block, Flow, Reply, Repository, Request, Stop, agent};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::common::Model;

/// The questions, what an answer must cite, and what the scripted model searches for.
const QUESTIONS: &str = include_str!("../data/repository_questions.jsonl");

fn call(name: &str, input: &Value) -> Reply {
    let input = RawValue::from_string(input.to_string()).unwrap();
    Reply { content: vec![Block::tool_use("toolu_1", name, &input)], stop: Stop::ToolUse, ..Reply::default() }
}

/// The result that the last turn brought.
fn result(request: &Request) -> &str {
    request
        .messages
        .last()
        .and_then(|message| message.content[0].as_tool_result())
        .map_or("", |result| result.text)
}

/// Path and number of the first line that a search found.
fn first_hit(found: &str) -> (&str, &str) {
    let mut parts = found.split(':');
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}

#[tokio::test]
async fn five_questions_about_this_repository_are_answered_with_the_right_citations() {
    let repository = Repository::open(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap();
    let guide = || {
        let cited = repository.clone();
        agent("Answer and cite.")
            .with_all(repository.tools())
            .until(repository.citations_exist())
            .until("The cited lines support the answer.")
            .evidence(move |answer| cited.cited_lines(answer))
    };
    let mut answered = 0;
    for line in QUESTIONS.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let (question, target) = (row["input"].as_str().unwrap(), row["target"].as_str().unwrap());
        let pattern = row["metadata"]["search"].clone();
        let model = Model::new(move |request| {
            Ok(match request.path.as_str() {
                "turn 1" => call("search", &json!({ "pattern": pattern })),
                "turn 2" => {
                    let (path, line) = first_hit(result(request));
                    let line: usize = line.parse().unwrap_or(1);
                    call("read_file", &json!({"path": path, "first_line": line, "lines": 1}))
                }
                "turn 3" => {
                    let read: Value = serde_json::from_str(
                        request.messages[3].content[0].as_tool_use().unwrap().input.get(),
                    )
                    .unwrap();
                    let (number, text) = result(request)
                        .lines()
                        .next()
                        .and_then(|line| line.split_once("| "))
                        .unwrap_or(("0", ""));
                    Reply::text_of(format!(
                        "In {}:{number}, `{}`.",
                        read["path"].as_str().unwrap_or("?"),
                        text.trim()
                    ))
                }
                "check 1/judge" => Reply::text_of("<evaluation>PASS</evaluation>"),
                path => panic!("nobody should ask at {path}"),
            })
        });
        let done = guide().run(&model, question).await.unwrap();
        assert_eq!(done.why, AgentEnd::Answered, "{question}: {}", done.text);
        assert!(done.verdict.unwrap().accepted, "{question}: {}", done.text);
        let cited = repository.citations(&done.text);
        assert!(cited.iter().any(|c| c.path == target && c.lines.is_ok()), "{question}: {}", done.text);
        // the judge sees the very line that is cited
        let line = &cited[0].lines.as_ref().unwrap()[0];
        assert!(model.sent("check 1/judge").contains(line.trim()), "{question}");
        answered += 1;
    }
    assert_eq!(answered, 5);
}

#[tokio::test]
async fn an_invented_citation_is_sent_back_and_reported_when_it_stays() {
    let repository = Repository::open(env!("CARGO_MANIFEST_DIR")).unwrap();
    let model = Model::in_turn(&["It is in src/agent/imaginary.rs:12."]);
    let done = agent("Answer.").until(repository.citations_exist()).run(&model, "Where?").await.unwrap();
    assert_eq!(model.calls(), 2);
    let verdict = done.verdict.unwrap();
    assert!(!verdict.accepted);
    assert!(verdict.feedback.starts_with("src/agent/imaginary.rs:12 does not exist"), "{}", verdict.feedback);
}

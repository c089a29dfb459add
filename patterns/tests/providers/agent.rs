//! The agent loop on the wire: what the second request of a conversation holds.

use patterns::{AgentEnd, Flow, Tool, agent, tool};
use serde_json::{Value, json};

use crate::server::*;

/// A tool that answers with the text that stands for these arguments.
fn scripted(name: &str, answers: Vec<(Value, Result<String, String>)>) -> Tool<'static> {
    tool(name, "Scripted.", move |args: Value| {
        let answer = answers.iter().find(|(of, _)| *of == args).map(|(_, answer)| answer.clone());
        async move { answer.unwrap_or_else(|| Err(format!("not in the script: {args}"))) }
    })
}

/// A message of the service with these blocks, spelled as they are.
fn assistant(content: &str, stop: &str) -> Vec<Step> {
    let body = format!(
        r#"{{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-5-5","content":{content},"stop_reason":"{stop}","stop_sequence":null,"usage":{{"input_tokens":12,"output_tokens":3}}}}"#
    );
    response(200, "content-type: application/json\r\n", &body)
}

/// A turn's content as blocks: a text alone stands for one block.
fn normal(messages: &Value) -> Value {
    let turns = messages.as_array().unwrap().iter().map(|turn| {
        let content = match &turn["content"] {
            Value::String(text) => json!([{"type": "text", "text": text}]),
            blocks => blocks.clone(),
        };
        json!({"role": turn["role"], "content": content})
    });
    turns.collect()
}

/// Runs an agent on a server that gives this content in the first turn and ends in the second; gives the second request.
async fn second_request(question: &str, content: String, tools: Vec<Tool<'static>>) -> Heard {
    let server = Server::each(move |n| {
        if n == 0 {
            assistant(&content, "tool_use")
        } else {
            assistant(r#"[{"type":"text","text":"done"}]"#, "end_turn")
        }
    })
    .await;
    let claude = server.claude();
    let done = agent("").with_all(tools).run(&claude, question).await.unwrap();
    assert_eq!((&done.why, done.text.as_str()), (&AgentEnd::Answered, "done"));
    let mut requests = server.requests();
    assert_eq!(requests.len(), 2);
    requests.remove(1)
}

#[tokio::test]
async fn what_claude_wrote_goes_back_byte_for_byte_over_the_wire() {
    let content = r#"[{"type":"thinking","thinking":"","signature":"EqQB=="},{"text":"caf\u00e9","type":"text"},{"id":"toolu_1","input":{"z": 1, "a":  [2]},"name":"look","type":"tool_use"},{"type":"block_from_the_future","x":1.50}]"#;
    let heard = second_request(
        "¿Dónde?",
        content.to_owned(),
        vec![scripted("look", vec![(json!({"z": 1, "a": [2]}), Ok("seen".into()))])],
    )
    .await;
    let body = String::from_utf8(heard.bytes).unwrap();
    assert!(body.contains(&format!(r#"{{"role":"assistant","content":{content}}}"#)), "{body}");
    assert!(
        body.contains(
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"seen"}]}"#
        ),
        "{body}"
    );
}

/// The conversations that the official SDK was captured with: its tools' results, and the same `messages`.
#[tokio::test]
#[expect(clippy::print_stderr, reason = "what was not tested shall be seen")]
async fn conversations_agree_with_the_captures_of_the_official_sdk() {
    let Some(shared) = std::env::var_os("PATTERNS_SHARED") else {
        eprintln!("NOT TESTED: the captures; set PATTERNS_SHARED to the folder that has reference/captures");
        return;
    };
    let captures = std::path::Path::new(&shared).join("reference/captures/python");
    for name in ["03_parallel_results.1", "04_replay_response_objects.2", "23_tool_runner_thread_false.2"] {
        let capture = std::fs::read_to_string(captures.join(format!("{name}.http"))).unwrap();
        let body: Value = serde_json::from_str(capture.split_once("\r\n\r\n").unwrap().1).unwrap();
        let mut expected = normal(&body["messages"]);
        let question = expected[0]["content"][0]["text"].as_str().unwrap().to_owned();
        // what a person added after the results is no part of the loop
        let results = expected[2]["content"].as_array_mut().unwrap();
        results.retain(|block| block["type"] == "tool_result");
        let results = results.clone();
        let mut tools: Vec<Tool<'static>> = Vec::new();
        for declared in body["tools"].as_array().unwrap() {
            let name = declared["name"].as_str().unwrap();
            let calls =
                expected[1]["content"].as_array().unwrap().iter().filter(|block| block["name"] == name);
            let answers = calls.map(|call| {
                let result = results.iter().find(|result| result["tool_use_id"] == call["id"]).unwrap();
                let text = result["content"].as_str().unwrap().to_owned();
                (call["input"].clone(), if result["is_error"] == true { Err(text) } else { Ok(text) })
            });
            tools.push(scripted(name, answers.collect()).schema(declared["input_schema"].clone()));
        }
        let heard = second_request(&question, expected[1]["content"].to_string(), tools).await;
        assert_eq!(normal(&heard.json()["messages"]), expected, "{name}");
    }
}

#[tokio::test]
async fn on_chat_completions_each_result_is_a_turn_of_its_own_in_order() {
    let call = |id: &str, n: u32| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": format!("{{\"n\":{n}}}")}});
    let server = Server::each(move |n| {
        let message = if n == 0 {
            json!({"role": "assistant", "content": null, "tool_calls": [call("call_1", 1), call("call_2", 2)]})
        } else {
            json!({"role": "assistant", "content": "done"})
        };
        let stop = if n == 0 { "tool_calls" } else { "stop" };
        ok(&json!({"id": "c", "model": "gpt-5", "choices": [{"index": 0, "message": message, "finish_reason": stop}],
            "usage": {"prompt_tokens": 12, "completion_tokens": 3}}))
    })
    .await;
    let look = scripted("look", vec![(json!({"n": 1}), Ok("one".into())), (json!({"n": 2}), Err("no two".into()))]).schema(
        json!({"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}, "required": ["n"]}),
    );
    let gpt = server.gpt();
    let done = agent("Look.").with(look).run(&gpt, "Both?").await.unwrap();
    assert_eq!((&done.why, done.text.as_str()), (&AgentEnd::Answered, "done"));
    let requests = server.requests();
    let first = requests[0].json();
    assert_eq!(first["tools"][0]["function"]["name"], "look");
    assert_eq!(
        first["tools"][0]["function"]["strict"],
        Value::Null,
        "an argument may be left out, so it is not strict here"
    );
    let turns = requests[1].json()["messages"].as_array().unwrap().clone();
    let seen: Vec<_> = turns
        .iter()
        .filter(|turn| turn["role"] == "tool")
        .map(|turn| (turn["tool_call_id"].clone(), turn["content"].clone()))
        .collect();
    assert_eq!(seen, [(json!("call_1"), json!("one")), (json!("call_2"), json!("Error: no two"))]);
}

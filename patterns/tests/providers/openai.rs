//! OpenAI's chat completions: what is sent, what a reply becomes, and where it is stricter than the official SDK.

use patterns::providers::{Env, connect_in};
use patterns::{
    Block, Effort, Error, ErrorKind, Expect, Llm, Message, OnText, OneOf, Reply, Request, Role, Stop,
    ToolChoice, ToolSpec, Usage,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::server::*;

fn completion(message: &Value, finish_reason: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-5-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {
            "prompt_tokens": 20, "completion_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 5}, "completion_tokens_details": {"reasoning_tokens": 2},
        },
    })
}

fn said(text: &str) -> Value {
    completion(&json!({"role": "assistant", "content": text, "refusal": null}), "stop")
}

async fn sent(request: Request) -> Value {
    let server = Server::always(ok(&said("hi"))).await;
    server.gpt().call(request).await.unwrap();
    let heard = server.request();
    assert!(heard.head.starts_with("POST /v1/chat/completions HTTP/1.1"));
    assert_eq!(heard.header("authorization"), Some(&*format!("Bearer {KEY}")));
    heard.json()
}

async fn call(steps: Vec<Step>) -> patterns::Result<Reply> {
    Server::always(steps).await.gpt().call(Request::new("hello")).await
}

async fn streamed(events: &[&str]) -> patterns::Result<Reply> {
    let events: String = events.iter().map(|data| format!("data: {data}\n\n")).collect();
    let server = Server::always(stream(&events)).await;
    server.gpt().call(Request { on_text: Some(OnText::new(|_| {})), ..Request::new("hello") }).await
}

fn search() -> ToolSpec {
    ToolSpec::Function {
        name: "search".into(),
        description: "Searches.".into(),
        input_schema: json!({"type": "object"}),
        strict: true,
    }
}

#[tokio::test]
async fn a_conversation_with_tools_is_translated() {
    let input = RawValue::from_string(r#"{"z": 1, "a": 2}"#.into()).unwrap();
    let thinking =
        RawValue::from_string(r#"{"type":"thinking","thinking":"hm","signature":"s"}"#.into()).unwrap();
    let request = Request {
        system: "Be brief.".into(),
        messages: vec![
            Message::user("Where?"),
            Message {
                role: Role::Assistant,
                content: vec![
                    Block::from_raw(thinking).unwrap(),
                    Block::text("Let me see."),
                    Block::tool_use("c1", "search", &input),
                    Block::tool_use("c2", "search", &input),
                ],
            },
            Message {
                role: Role::User,
                content: vec![
                    Block::tool_result("c1", "src/main.rs", false),
                    Block::tool_result("c2", "no such path", true),
                    Block::text("Go on."),
                ],
            },
        ],
        max_tokens: Some(50),
        stop_sequences: vec!["END".into()],
        temperature: Some(0.5),
        effort: Some(Effort::Max),
        tools: vec![search()],
        tool_choice: ToolChoice::Tool("search".into()),
        disable_parallel_tool_use: true,
        extra: json!({"seed": 7}).as_object().unwrap().clone(),
        ..Request::default()
    };
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "search", "arguments": r#"{"z": 1, "a": 2}"#}});
    assert_eq!(
        sent(request).await,
        json!({
            "model": "gpt-5",
            "max_tokens": 50,
            "tools": [{"type": "function", "function":
                {"name": "search", "description": "Searches.", "parameters": {"type": "object"}, "strict": true}}],
            "parallel_tool_calls": false,
            "tool_choice": {"type": "function", "function": {"name": "search"}},
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Where?"},
                {"role": "assistant", "content": "Let me see.", "tool_calls": [call("c1"), call("c2")]},
                {"role": "tool", "tool_call_id": "c1", "content": "src/main.rs"},
                {"role": "tool", "tool_call_id": "c2", "content": "Error: no such path"},
                {"role": "user", "content": "Go on."},
            ],
            "stop": ["END"],
            "temperature": 0.5,
            "reasoning_effort": "high",
            "seed": 7,
        })
    );
}

#[tokio::test]
async fn what_has_no_place_is_refused_and_not_dropped() {
    let server = Server::always(ok(&said("hi"))).await;
    let raw = |json: &str| RawValue::from_string(json.into()).unwrap();
    let mut image = Request::new("hello");
    image.messages[0].content.push(Block::from_raw(raw(r#"{"type":"image","source":{}}"#)).unwrap());
    let server_tool = Request {
        tools: vec![ToolSpec::Server(raw(r#"{"type":"web_search_20260318"}"#))],
        ..Request::new("hello")
    };
    let no_tools = Request { tool_choice: ToolChoice::Any, ..Request::new("hello") };
    for request in [image, server_tool, no_tools, Request::default()] {
        let error = server.gpt().call(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn labels_are_asked_for_in_words_unless_the_server_is_known() {
    let desks = OneOf::new([("billing", "charges"), ("bug", "broken")]);
    let request = Request::new("charged twice").expect(Expect::OneOf(desks.clone()));
    let body = sent(request.clone()).await;
    assert_eq!(body["messages"][0], json!({"role": "system", "content": desks.envelope()}));
    assert_eq!(body.get("response_format"), None);

    let server = Server::always(ok(&said(r#"{"reasoning": "a charge", "label": "billing"}"#))).await;
    let host = server.address.to_string();
    let env = Env::of(move |name| (name == "OLLAMA_HOST").then(|| host.clone()));
    let ollama = connect_in("ollama:llama3.2:3b", &env).unwrap();
    let reply = ollama.call(request).await.unwrap();
    assert_eq!(reply.choice.unwrap().label, "billing");
    assert_eq!(reply.model, "ollama:gpt-5-2026");
    let heard = server.request();
    assert_eq!(heard.header("authorization"), None);
    let format = &heard.json()["response_format"];
    assert_eq!((&format["type"], &format["json_schema"]["strict"]), (&json!("json_schema"), &json!(true)));
    assert_eq!(format["json_schema"]["schema"]["properties"]["label"]["enum"], json!(["billing", "bug"]));
    assert_eq!(heard.json()["model"], "llama3.2:3b");
}

#[tokio::test]
async fn a_reply_is_translated() {
    let reply = call(ok(&said("hi"))).await.unwrap();
    assert_eq!((reply.text().as_ref(), &reply.stop), ("hi", &Stop::EndTurn));
    assert_eq!((reply.model.as_str(), reply.id.as_deref()), ("openai:gpt-5-2026", Some("chatcmpl-1")));
    let usage = Usage {
        input_tokens: 15,
        output_tokens: 7,
        cache_read_tokens: 5,
        thinking_tokens: 2,
        ..Usage::default()
    };
    assert_eq!(reply.usage, usage);

    let calls = json!([
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": r#"{"z": 1e2, "a": 2}"#}},
        {"id": "c2", "type": "function", "function": {"name": "now", "arguments": ""}},
    ]);
    for finish_reason in ["tool_calls", "stop"] {
        let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
        let reply = call(ok(&completion(&message, finish_reason))).await.unwrap();
        assert_eq!(reply.stop, Stop::ToolUse);
        let uses: Vec<_> = reply
            .content
            .iter()
            .map(|block| block.as_tool_use().unwrap())
            .map(|u| (u.id, u.name, u.input.get()))
            .collect();
        assert_eq!(uses, [("c1", "search", r#"{"z": 1e2, "a": 2}"#), ("c2", "now", "{}")]);
    }
    for (finish_reason, stop) in [
        ("length", Stop::MaxTokens),
        ("content_filter", Stop::Refusal { category: Some("content_filter".into()), explanation: None }),
        ("a_new_one", Stop::Other("a_new_one".into())),
    ] {
        let body = completion(&json!({"role": "assistant", "content": "x"}), finish_reason);
        assert_eq!(call(ok(&body)).await.unwrap().stop, stop);
    }
    let refused = completion(&json!({"role": "assistant", "content": null, "refusal": "I cannot."}), "stop");
    let stop = call(ok(&refused)).await.unwrap().stop;
    assert_eq!(stop, Stop::Refusal { category: None, explanation: Some("I cannot.".into()) });
}

#[tokio::test]
async fn a_stream_becomes_the_reply_that_it_spells() {
    let reply = streamed(&[
        r#"{"id":"c","model":"gpt-5","choices":[]}"#,
        r#"{"id":"c","model":"gpt-5","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#,
        r#"{"id":"c","choices":[{"delta":{"content":"Ho"}}]}"#,
        r#"{"id":"c","choices":[{"delta":{"content":"la é"}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"search","arguments":""}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"c2","function":{"name":"now","arguments":"{}"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"z\": 1,"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":" \"a\": 2}"}}]}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":7}}"#,
        "[DONE]",
    ])
    .await
    .unwrap();
    let raw: Vec<_> = reply.content.iter().map(|block| block.raw().get()).collect();
    assert_eq!(
        raw,
        [
            r#"{"type":"text","text":"Hola é"}"#,
            r#"{"type":"tool_use","id":"c1","name":"search","input":{"z": 1, "a": 2}}"#,
            r#"{"type":"tool_use","id":"c2","name":"now","input":{}}"#,
        ]
    );
    assert_eq!((reply.stop, reply.usage.input_tokens, reply.usage.output_tokens), (Stop::ToolUse, 20, 7));
    assert_eq!(reply.model, "openai:gpt-5");
}

#[tokio::test]
async fn a_stream_asks_for_its_usage() {
    let body = sent(Request { on_text: Some(OnText::new(|_| {})), ..Request::new("hello") }).await;
    assert_eq!((&body["stream"], &body["stream_options"]), (&json!(true), &json!({"include_usage": true})));
}

#[tokio::test]
async fn a_stream_needs_a_finish_reason() {
    const TEXT: &str = r#"{"id":"c","choices":[{"delta":{"content":"Hola"}}]}"#;
    const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    // the official SDK takes these for replies
    for events in [&[TEXT][..], &[TEXT, "[DONE]"], &[], &[TEXT, r#"{"choices":[]}"#, "[DONE]"]] {
        let error = streamed(events).await.unwrap_err();
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Protocol, true), "{events:?}");
        assert_eq!(error.partial(), (!events.is_empty()).then_some("Hola"));
    }
    // with one, the mark of the end or the usage may be missing, but not both: then the end was cut off
    const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":1}}"#;
    for end in [USAGE, "[DONE]"] {
        assert_eq!(streamed(&[TEXT, STOP, end]).await.unwrap().text(), "Hola");
    }
    let error = streamed(&[TEXT, STOP]).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Protocol, true));
    let error = streamed(&[TEXT, r#"{"error":{"message":"boom","type":"server_error","code":null}}"#])
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.partial(), error.is_transient()),
        (ErrorKind::Server, Some("Hola"), true)
    );
    let error = streamed(&[TEXT, "{\"cho", STOP]).await.unwrap_err();
    assert_eq!((error.kind(), error.partial()), (ErrorKind::Protocol, Some("Hola")));
}

#[tokio::test]
async fn a_tool_call_that_is_cut_off_is_never_handed_on() {
    let message = json!({"content": "x", "tool_calls":
        [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{\"z\": "}}]});
    let error = call(ok(&completion(&message, "tool_calls"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
    let reply = call(ok(&completion(&message, "length"))).await.unwrap();
    assert_eq!((reply.stop, reply.content.len()), (Stop::MaxTokens, 1));
}

/// Each result must name its call, also where the server names none.
#[tokio::test]
async fn calls_without_id_or_arguments_are_calls() {
    let function = json!({"name": "list", "arguments": null});
    let without = [
        json!({"function": function}),
        json!({"id": null, "function": function}),
        json!({"id": "", "function": {"name": "list"}}),
    ];
    let message = json!({"content": null, "tool_calls": without});
    let reply = call(ok(&completion(&message, "tool_calls"))).await.unwrap();
    let calls: Vec<_> =
        reply.content.iter().filter_map(Block::as_tool_use).map(|call| (call.id, call.input.get())).collect();
    assert_eq!(calls, [("call_0", "{}"), ("call_1", "{}"), ("call_2", "{}")]);
}

#[tokio::test]
async fn errors_have_their_kind() {
    let fails = async |status, body: Value| -> Error {
        call(response(status, "", &body.to_string())).await.unwrap_err()
    };
    let quota = json!({"error": {"message": "You exceeded your current quota.", "type": "insufficient_quota", "code": "insufficient_quota"}});
    let error = fails(429, quota).await;
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::RateLimited, false));
    assert_eq!(error.code(), Some("insufficient_quota"));
    let rate = json!({"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}});
    assert!(fails(429, rate).await.is_transient());
    for long in [
        json!({"error": {"message": "maximum context length", "code": "context_length_exceeded"}}),
        json!({"error": {"message": "exceeds the available context size", "type": "exceed_context_size_error", "code": 400}}),
        json!({"error": {"message": "litellm.ContextWindowExceededError: litellm.BadRequestError: …", "code": "400"}}),
    ] {
        let error = fails(400, long).await;
        assert_eq!(error.kind(), ErrorKind::ContextWindow);
        // a number is not a name
        assert_ne!(error.code(), Some("400"));
    }
    let in_200 = json!({"error": {"message": "no such model", "code": 404}});
    assert_eq!(fails(200, in_200).await.kind(), ErrorKind::NotFound);
    // a gateway writes the number as a text
    for (status, code, kind) in [
        (200, "429", ErrorKind::RateLimited),
        (429, "429", ErrorKind::RateLimited),
        (200, "401", ErrorKind::Authentication),
    ] {
        let body =
            json!({"error": {"message": "no", "type": "throttling_error", "param": null, "code": code}});
        let error = fails(status, body).await;
        assert_eq!((error.kind(), error.code()), (kind, Some("throttling_error")));
    }
    for (body, says) in [("<html>", "HTML"), ("", "empty"), ("{}", "no finished choice")] {
        let error = call(response(200, "", body)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(error.message().contains(says), "{error}");
    }
}

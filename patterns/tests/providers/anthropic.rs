//! What is sent to the Messages API, and what a reply becomes.

use patterns::providers::Anthropic;
use patterns::{
    Block, Effort, ErrorKind, Expect, Llm, Message, OnText, OneOf, Reply, Request, Role, Stop, ToolChoice,
    ToolSpec, Usage,
};
use serde_json::{Value, json};

use crate::server::*;

/// What is sent for `request`, unless it is refused.
async fn sent_by(claude: impl FnOnce(&Server) -> Anthropic, request: Request) -> patterns::Result<Heard> {
    let server = Server::always(ok(&message("hi"))).await;
    claude(&server).call(request).await?;
    Ok(server.request())
}

async fn sent(request: Request) -> Value {
    sent_by(Server::claude, request).await.unwrap().json()
}

async fn sent_to(model: &str, request: Request) -> patterns::Result<Value> {
    let request = Request { model: Some(model.to_owned()), ..request };
    Ok(sent_by(Server::claude, request).await?.json())
}

async fn received(body: Value) -> Reply {
    let server = Server::always(ok(&body)).await;
    server.claude().call(Request::new("hello")).await.unwrap()
}

fn search() -> ToolSpec {
    ToolSpec::Function {
        name: "search".into(),
        description: "Searches.".into(),
        input_schema: json!({"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]}),
        strict: false,
    }
}

fn desks() -> OneOf {
    OneOf::new([("billing", "charges and refunds"), ("bug", "something broken")])
}

#[tokio::test]
async fn a_plain_call_is_plain() {
    let heard = sent_by(Server::claude, Request::new("¿Dónde?").system("Be brief.")).await.unwrap();
    assert!(heard.head.starts_with("POST /v1/messages HTTP/1.1"));
    assert_eq!(heard.header("anthropic-version"), Some("2026-10-21"));
    assert_eq!(heard.header("content-type"), Some("application/json"));
    assert_eq!(heard.header("anthropic-beta"), None);
    // the bytes, because the order of the keys is part of the promise
    assert_eq!(
        String::from_utf8(heard.bytes).unwrap(),
        r#"{"model":"claude-opus-5-5","max_tokens":8192,"system":"Be brief.","messages":[{"role":"user","content":[{"type":"text","text":"¿Dónde?"}]}]}"#
    );
}

#[tokio::test]
async fn every_field_has_its_place() {
    let request = Request {
        max_tokens: Some(900),
        stop_sequences: vec!["END".into()],
        effort: Some(Effort::High),
        temperature: Some(0.5),
        tools: vec![
            search(),
            ToolSpec::Server(
                serde_json::value::RawValue::from_string(
                    r#"{"type":"web_search_20260318","name":"web_search"}"#.into(),
                )
                .unwrap(),
            ),
        ],
        disable_parallel_tool_use: true,
        extra:
            json!({"service_tier": "standard_only", "metadata": {"user_id": "u-1"}, "betas": ["a-1", "b-2"]})
                .as_object()
                .unwrap()
                .clone(),
        ..Request::new("hello")
    };
    let heard = sent_by(Server::claude, request).await.unwrap();
    assert_eq!(heard.header("anthropic-beta"), Some("a-1,b-2"));
    assert_eq!(
        heard.json(),
        json!({
            "model": "claude-opus-5-5",
            "max_tokens": 900,
            "tools": [
                {"name": "search", "description": "Searches.", "input_schema":
                    {"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]}},
                {"type": "web_search_20260318", "name": "web_search"},
            ],
            "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
            "stop_sequences": ["END"],
            "output_config": {"effort": "high"},
            "service_tier": "standard_only",
            "metadata": {"user_id": "u-1"},
        })
    );
}

#[tokio::test]
async fn a_callers_own_field_replaces_ours() {
    let extra = json!({"max_tokens": 5, "output_config": {"effort": "low"}, "system": null});
    let request = Request {
        extra: extra.as_object().unwrap().clone(),
        effort: Some(Effort::Max),
        ..Request::new("hello").system("gone").expect(Expect::OneOf(desks()))
    };
    let body = sent(request).await;
    assert_eq!((&body["max_tokens"], body.get("system")), (&json!(5), None));
    assert_eq!(body["output_config"]["effort"], "low");
    assert_eq!(body["output_config"]["format"]["type"], "json_schema");
}

#[tokio::test]
async fn what_a_model_refuses_is_not_sent() {
    let forced = |choice| Request { tools: vec![search()], tool_choice: choice, ..Request::new("hello") };
    let prefill = || {
        let mut request = Request::new("hello");
        request.messages.push(Message::assistant("{"));
        request
    };
    let extra = |value: Value| Request { extra: value.as_object().unwrap().clone(), ..Request::new("hello") };
    for model in ["claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-1", "claude-from-the-future"] {
        for (request, says) in [
            (forced(ToolChoice::Any), "takes no forced tool_choice"),
            (forced(ToolChoice::Tool("search".into())), "takes no forced tool_choice"),
            (prefill(), "takes no prefill"),
            (extra(json!({"top_p": 0.9})), "takes no top_p"),
            (extra(json!({"temperature": 1})), "takes no temperature"),
            (extra(json!({"thinking": {"type": "disabled"}})), "always thinks"),
            (extra(json!({"thinking": {"type": "enabled", "budget_tokens": 2000}})), "always thinks"),
        ] {
            let error = sent_to(model, request).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest);
            assert!(error.message().contains(says) && error.message().contains(model), "{error}");
        }
        sent_to(model, extra(json!({"thinking": {"type": "adaptive"}}))).await.unwrap();
        let cool = Request { temperature: Some(0.0), ..Request::new("hello") };
        assert_eq!(sent_to(model, cool).await.unwrap().get("temperature"), None);
    }
    let body = sent_to("claude-haiku-5-5", forced(ToolChoice::Tool("search".into()))).await.unwrap();
    assert_eq!(body["tool_choice"], json!({"type": "tool", "name": "search"}));
    assert!(sent_to("claude-haiku-4-5-20251001", prefill()).await.is_ok());
    assert!(sent_to("claude-haiku-5-5", prefill()).await.is_err());
    // another model behind the same API takes what it takes
    assert!(sent_to("llama3.2:3b", forced(ToolChoice::Any)).await.is_ok());

    let nothing_to_call = Request { tool_choice: ToolChoice::Any, ..Request::new("hello") };
    assert_eq!(sent_to("llama3", nothing_to_call).await.unwrap_err().kind(), ErrorKind::InvalidRequest);
    assert_eq!(sent_to("llama3", Request::default()).await.unwrap_err().kind(), ErrorKind::InvalidRequest);
}

#[tokio::test]
async fn a_length_is_capped_at_what_the_model_can_write() {
    let long = Request { max_tokens: Some(500_000), ..Request::new("hello") };
    assert_eq!(sent(long.clone()).await["max_tokens"], 128_000);
    assert_eq!(sent_to("claude-haiku-4-5", long).await.unwrap()["max_tokens"], 64_000);
}

#[tokio::test]
async fn a_reply_is_streamed_when_it_may_be_long_or_somebody_listens() {
    let of = |max_tokens, listens: bool| Request {
        max_tokens,
        on_text: listens.then(|| OnText::new(|_| {})),
        ..Request::new("hello")
    };
    assert_eq!(sent(of(None, false)).await.get("stream"), None);
    assert_eq!(sent(of(Some(21_333), false)).await.get("stream"), None);
    assert_eq!(sent(of(Some(21_334), false)).await["stream"], true);
    assert_eq!(sent(of(None, true)).await["stream"], true);
}

#[tokio::test]
async fn a_prompt_is_cached_where_that_can_pay() {
    let (short, long) = ("word ".repeat(300), "word ".repeat(600));
    let mark = json!({"type": "ephemeral"});
    // 512 tokens for this model, at four bytes each
    assert_eq!(sent(Request::new(&short)).await.get("cache_control"), None);
    assert_eq!(sent(Request::new(&long)).await["cache_control"], mark);
    assert_eq!(sent_to("claude-haiku-4-5", Request::new(&long)).await.unwrap().get("cache_control"), None);
    // a long system prompt is found again by calls that share nothing else
    let body = sent(Request::new("hello").system(&long)).await;
    assert_eq!(body["system"], json!([{"type": "text", "text": long, "cache_control": mark}]));
    assert_eq!(body["cache_control"], mark);
    // the caller decides otherwise
    let off = json!({"cache_control": null}).as_object().unwrap().clone();
    let body = sent(Request { extra: off, ..Request::new("hello").system(&long) }).await;
    assert_eq!((body.get("cache_control"), &body["system"]), (None, &json!(long)));
    let marked = json!({"type": "text", "text": long, "cache_control": {"type": "ephemeral", "ttl": "1h"}});
    let mut own = Request::new("hello");
    own.messages[0].content.push(serde_json::from_value(marked).unwrap());
    assert_eq!(sent(own).await.get("cache_control"), None);
}

#[tokio::test]
async fn labels_are_a_schema_where_the_model_knows_one_and_words_elsewhere() {
    let request = Request::new("I was charged twice").system("Which desk?").expect(Expect::OneOf(desks()));
    let body = sent(request.clone()).await;
    assert_eq!(
        body["output_config"]["format"]["schema"],
        json!({
            "type": "object",
            "properties": {
                "reasoning": {"type": "string", "description": "Your reasoning, in a sentence or two."},
                "label": {"type": "string", "enum": ["billing", "bug"]},
            },
            "required": ["reasoning", "label"],
            "additionalProperties": false,
        })
    );
    // the model reasons before it chooses
    let schema = body["output_config"]["format"]["schema"]["properties"].to_string();
    assert!(schema.find("reasoning") < schema.find("label"));
    let system = body["system"].as_str().unwrap();
    assert!(
        system.starts_with("Which desk?") && system.contains("- billing: charges and refunds"),
        "{system}"
    );
    assert!(!system.contains("<label>"));

    let body = sent_to("claude-from-the-future", request).await.unwrap();
    assert_eq!(body.get("output_config"), None);
    assert!(body["system"].as_str().unwrap().ends_with(&desks().envelope()));
}

#[tokio::test]
async fn a_choice_is_read_without_regard_to_case() {
    let choice = async |text: &str, stop: &str| {
        let mut body = message(text);
        body["stop_reason"] = stop.into();
        let server = Server::always(ok(&body)).await;
        server.claude().call(Request::new("x").expect(Expect::OneOf(desks()))).await.unwrap().choice
    };
    let chosen = choice(r#"{"reasoning": "a charge", "label": "Billing"}"#, "end_turn").await.unwrap();
    assert_eq!((chosen.label.as_str(), chosen.reasoning.as_deref()), ("billing", Some("a charge")));
    for text in [
        r#"{"reasoning": "a cha"#,
        r#"{"label": "shipping"}"#,
        "I cannot help.",
        "<label>bug</label>",
        r#"["billing"]"#,
    ] {
        assert_eq!(choice(text, "end_turn").await, None, "{text}");
    }
}

#[tokio::test]
async fn every_reason_to_stop_is_known_or_kept() {
    for (reason, stop) in [
        ("end_turn", Stop::EndTurn),
        ("max_tokens", Stop::MaxTokens),
        ("stop_sequence", Stop::StopSequence("END".into())),
        ("tool_use", Stop::ToolUse),
        ("pause_turn", Stop::PauseTurn),
        ("compaction", Stop::Compaction),
        ("model_context_window_exceeded", Stop::ContextWindow),
        ("refusal", Stop::Refusal { category: Some("cyber".into()), explanation: Some("no".into()) }),
        ("content_filter", Stop::Other("content_filter".into())),
    ] {
        let mut body = message("x");
        body["stop_reason"] = reason.into();
        body["stop_sequence"] = "END".into();
        body["stop_details"] = json!({"type": "refusal", "category": "cyber", "explanation": "no"});
        assert_eq!(received(body).await.stop, stop);
    }
    let mut body = message("x");
    body["stop_reason"] = "refusal".into();
    body["stop_details"] = json!({"type": "refusal", "category": null, "explanation": null});
    assert_eq!(received(body.clone()).await.stop, Stop::Refusal { category: None, explanation: None });
    body["stop_details"] = Value::Null;
    assert_eq!(received(body).await.stop, Stop::Refusal { category: None, explanation: None });
}

#[tokio::test]
async fn usage_tells_both_classes_of_cache_writes_and_survives_what_is_missing() {
    let usage = async |usage: Value| {
        let mut body = message("x");
        body["usage"] = usage;
        received(body).await.usage
    };
    let all = json!({
        "input_tokens": 1, "output_tokens": 2, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 4,
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
        "output_tokens_details": {"thinking_tokens": 1}, "server_tool_use": {"web_search_requests": 3},
        "service_tier": "standard",
    });
    let expected = Usage {
        input_tokens: 1,
        output_tokens: 2,
        cache_write_5m_tokens: 10,
        cache_write_1h_tokens: 20,
        cache_read_tokens: 4,
        thinking_tokens: 1,
        web_searches: 3,
    };
    assert_eq!(usage(all).await, expected);
    let sum_only = json!({"input_tokens": 1, "cache_creation_input_tokens": 30, "cache_creation": null});
    assert_eq!(
        usage(sum_only).await,
        Usage { input_tokens: 1, cache_write_5m_tokens: 30, ..Usage::default() }
    );
    assert_eq!(usage(Value::Null).await, Usage::default());
    // what a compaction used is in no other number
    let compacted = json!({
        "input_tokens": 5, "output_tokens": 6,
        "iterations": [
            {"type": "compaction", "input_tokens": 100, "output_tokens": 10},
            {"type": "message", "input_tokens": 5, "output_tokens": 6},
        ],
    });
    assert_eq!(usage(compacted).await, Usage { input_tokens: 105, output_tokens: 16, ..Usage::default() });
}

#[tokio::test]
async fn a_turn_goes_back_as_it_came() {
    let content = r#"[{"type":"thinking","thinking":"","signature":"Eq=="},{"type":"text","text":"caf\u00e9"},{"type":"tool_use","id":"t_1","name":"search","input":{"z": 1, "a": 1e2}},{"type":"redacted_thinking","data":"Em=="}]"#;
    let body = format!(
        r#"{{"id":"m","type":"message","role":"assistant","model":"m","content":{content},"stop_reason":"tool_use","usage":{{}}}}"#
    );
    let server = Server::each(move |n| {
        if n == 0 { response(200, "content-type: application/json\r\n", &body) } else { ok(&message("hi")) }
    })
    .await;
    let claude = server.claude();
    let mut request = Request::new("hello");
    let reply = claude.call(request.clone()).await.unwrap();
    assert_eq!(reply.stop, Stop::ToolUse);
    request.messages.push(Message { role: Role::Assistant, content: reply.content });
    request
        .messages
        .push(Message { role: Role::User, content: vec![Block::tool_result("t_1", "none", true)] });
    claude.call(request).await.unwrap();
    let sent = String::from_utf8(server.requests().remove(1).bytes).unwrap();
    assert!(sent.contains(&format!(r#"{{"role":"assistant","content":{content}}}"#)), "{sent}");
}

#[tokio::test]
async fn an_empty_text_is_not_sent_back() {
    let request = Request {
        messages: vec![
            Message::user("hello"),
            Message { role: Role::Assistant, content: vec![Block::text("")] },
            Message { role: Role::User, content: vec![Block::text(""), Block::text("go on")] },
        ],
        ..Request::default()
    };
    let turn = |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text}]});
    assert_eq!(sent(request).await["messages"], json!([turn("hello"), turn("go on")]));
}

#[tokio::test]
async fn calls_share_one_connection_and_side_by_side_they_do_not_wait() {
    let body = message("hi").to_string();
    let keep = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let server = Server::always(vec![send(keep), Step::Keep]).await;
    let claude = server.claude();
    for _ in 0..5 {
        claude.clone().ask("hello").await.unwrap();
    }
    assert_eq!((server.requests().len(), server.connections()), (5, 1));
}

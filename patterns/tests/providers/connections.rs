//! A model by its name, and why it was taken.

use patterns::providers::{Env, Why, connect_default_in, connect_in};
use patterns::{ErrorKind, Llm, Request};

use crate::server::*;

fn env<const N: usize>(pairs: [(&'static str, String); N]) -> Env {
    Env::of(move |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone()))
}

fn key(name: &'static str) -> (&'static str, String) {
    (name, KEY.to_owned())
}

fn set(name: &'static str, value: &str) -> (&'static str, String) {
    (name, value.to_owned())
}

#[test]
fn the_environment_decides_in_a_documented_order() {
    let why = |env: Env| {
        connect_default_in(&env)
            .map(|(connection, why)| (connection.model(&Request::default()).unwrap(), why.to_string()))
            .map_err(|error| error.kind())
    };
    let is = |model: &str, why: &str| Ok((model.to_owned(), why.to_owned()));
    let all = || {
        [
            key("ANTHROPIC_API_KEY"),
            key("ANTHROPIC_AUTH_TOKEN"),
            key("OPENAI_API_KEY"),
            set("PATTERNS_MODEL", "ollama:llama3.2"),
        ]
    };
    assert_eq!(why(env(all())), is("ollama:llama3.2", "PATTERNS_MODEL names it"));
    let [api, token, openai, _] = all();
    assert_eq!(
        why(env([api.clone(), token.clone(), openai.clone(), set("PATTERNS_MODEL", " ")])),
        is("anthropic:claude-opus-5-5", "ANTHROPIC_API_KEY is set")
    );
    assert_eq!(
        why(env([
            set("ANTHROPIC_API_KEY", ""),
            token,
            openai.clone(),
            set("ANTHROPIC_MODEL", "claude-haiku-5-5")
        ])),
        is("anthropic:claude-haiku-5-5", "ANTHROPIC_AUTH_TOKEN is set")
    );
    assert_eq!(why(env([openai.clone()])), is("openai:gpt-5", "OPENAI_API_KEY is set"));
    assert_eq!(
        why(env([openai, set("OPENAI_MODEL", "gpt-4.1")])),
        is("openai:gpt-4.1", "OPENAI_API_KEY is set")
    );
    #[cfg(not(feature = "embedded"))]
    {
        let error = connect_default_in(&env([])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        for way in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "PATTERNS_MODEL", "embedded"] {
            assert!(error.message().contains(way), "{error}");
        }
    }
    #[cfg(feature = "embedded")]
    assert_eq!(why(env([])), is("embedded", "no key is set"));
    assert_eq!(Why::NoKey.to_string(), "no key is set");
}

#[test]
fn a_missing_key_is_told_before_any_call() {
    for (name, says) in
        [("anthropic:claude-opus-5-5", "ANTHROPIC_API_KEY"), ("openai:gpt-5", "OPENAI_API_KEY")]
    {
        let error = connect_in(name, &env([])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains(says), "{error}");
    }
    assert!(connect_in("ollama:llama3.2", &env([])).is_ok());
    // a server of one's own needs none
    assert!(
        connect_in("anthropic:llama3.2", &env([set("ANTHROPIC_BASE_URL", "http://127.0.0.1:11434")])).is_ok()
    );
    assert!(connect_in("openai:qwen", &env([set("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1")])).is_ok());
}

#[test]
fn a_wrong_set_up_is_told_before_any_call() {
    for (name, env) in [
        ("anthropic:m", env([key("ANTHROPIC_API_KEY"), set("ANTHROPIC_BASE_URL", "localhost:8080")])),
        ("anthropic:m", env([key("ANTHROPIC_API_KEY"), set("ANTHROPIC_BASE_URL", "file:///etc")])),
        ("anthropic:m", env([key("ANTHROPIC_API_KEY"), set("ANTHROPIC_CUSTOM_HEADERS", "no colon")])),
        ("anthropic:m", env([key("ANTHROPIC_API_KEY"), set("ANTHROPIC_CUSTOM_HEADERS", "bad name: x")])),
        ("script:/no/such/file.jsonl", env([])),
        ("nobody:m", env([])),
    ] {
        assert_eq!(connect_in(name, &env).unwrap_err().kind(), ErrorKind::Config, "{name}");
    }
}

#[tokio::test]
async fn the_environment_of_claude_is_honoured() {
    let server = Server::always(ok(&message("hi"))).await;
    let claude = connect_in(
        "claude-opus-5-5",
        &env([
            key("ANTHROPIC_API_KEY"),
            set("ANTHROPIC_AUTH_TOKEN", "not this one"),
            set("ANTHROPIC_BASE_URL", &format!("{}/", server.url())),
            set("ANTHROPIC_CUSTOM_HEADERS", "x-team: blue\n\nanthropic-version: 2023-06-01\n"),
        ]),
    )
    .unwrap();
    assert_eq!(claude.provider(), "anthropic");
    claude.ask("hello").await.unwrap();
    let heard = server.request();
    assert!(heard.head.starts_with("POST /v1/messages "));
    assert_eq!(heard.header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert_eq!(
        (heard.header("x-team"), heard.header("anthropic-version")),
        (Some("blue"), Some("2023-06-01"))
    );

    let own = [set("ANTHROPIC_BASE_URL", &server.url()), set("ANTHROPIC_CUSTOM_HEADERS", "x-api-key: mine")];
    connect_in("anthropic:m", &env(own)).unwrap().ask("hello").await.unwrap();
    let heard = server.request();
    assert_eq!((heard.header("x-api-key"), heard.header("authorization")), (Some("mine"), None));
}

#[tokio::test]
async fn the_environment_of_openai_is_honoured() {
    let body = serde_json::json!({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]});
    let server = Server::always(ok(&body)).await;
    let gpt = connect_in(
        "openai:gpt-5",
        &env([
            key("OPENAI_API_KEY"),
            set("OPENAI_BASE_URL", &format!("{}/v1", server.url())),
            set("OPENAI_ORG_ID", "org-1"),
            set("OPENAI_PROJECT_ID", "proj-1"),
        ]),
    )
    .unwrap();
    assert_eq!(gpt.ask("hello").await.unwrap(), "hi");
    let heard = server.request();
    assert_eq!(heard.header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert_eq!(heard.header("openai-organization"), Some("org-1"));
    assert_eq!(heard.header("openai-project"), Some("proj-1"));
}

#[tokio::test]
async fn a_request_may_name_another_model() {
    let claude = Server::always(ok(&message("claude"))).await;
    let body = serde_json::json!({"choices": [{"message": {"content": "llama"}, "finish_reason": "stop"}]});
    let llama = Server::each(move |_| {
        let mut steps = ok(&body);
        steps.push(Step::Keep);
        steps
    })
    .await;
    let env = env([
        key("ANTHROPIC_API_KEY"),
        set("ANTHROPIC_BASE_URL", &claude.url()),
        set("OLLAMA_HOST", &llama.address.to_string()),
    ]);
    let connection = connect_in("anthropic:claude-opus-5-5", &env).unwrap();
    let with = |model: &str| Request { model: Some(model.to_owned()), ..Request::new("hello") };
    for (asked, full) in [
        ("claude-haiku-5-5", "anthropic:claude-haiku-5-5"),
        ("anthropic:claude-haiku-5-5", "anthropic:claude-haiku-5-5"),
    ] {
        assert_eq!(connection.model(&with(asked)).as_deref(), Some(full));
        connection.call(with(asked)).await.unwrap();
        assert_eq!(claude.request().json()["model"], "claude-haiku-5-5");
    }
    assert_eq!(connection.model(&with("ollama:llama3.2:3b")).as_deref(), Some("ollama:llama3.2:3b"));
    for model in ["llama3.2:3b", "qwen3", "llama3.2:3b"] {
        let reply = connection.clone().call(with(&format!("ollama:{model}"))).await.unwrap();
        assert_eq!((reply.text().as_ref(), &reply.model), ("llama", &format!("ollama:{model}")));
        assert_eq!(llama.request().json()["model"], model);
    }
    assert_eq!(claude.requests().len(), 0);
    // a provider that cannot be connected fails its own calls and no others
    let error = connection.call(with("openai:gpt-5").at("draft")).await.unwrap_err();
    assert_eq!((error.kind(), error.path().as_str()), (ErrorKind::Config, "draft"));
    assert_eq!(connection.ask("hello").await.unwrap(), "claude");
}

//! Keys go to the service and nowhere else.

use patterns::providers::anthropic::Auth;
use patterns::providers::{Anthropic, Env, OpenAi, Secret, connect_in};
use patterns::{ErrorKind, Llm, Request};
use serde_json::json;

use crate::server::*;

const OWN: &str = "gateway-password-77";

#[tokio::test]
async fn nothing_that_can_be_shown_holds_a_key() {
    let env = Env::of(|name| match name {
        "ANTHROPIC_API_KEY" | "OPENAI_API_KEY" | "OLLAMA_API_KEY" => Some(KEY.to_owned()),
        "ANTHROPIC_CUSTOM_HEADERS" => Some(format!("x-gateway: {OWN}")),
        _ => None,
    });
    let echo = json!({"type": "error", "error": {"message": format!("invalid key {KEY}")}}).to_string();
    let server = Server::always(response(401, "", &echo)).await;
    let gateway = Server::always(response(407, "", OWN)).await;
    let claude = server.builder().header("x-gateway", OWN);
    let elsewhere = server.builder().base_url(format!("https://me:{KEY}@host"));
    let mut shown = vec![format!("{claude:?} {elsewhere:?} {env:?} {:?}", Secret::new(KEY))];
    for name in ["anthropic:claude-opus-5-5", "openai:gpt-5", "ollama:llama3.2"] {
        shown.push(format!("{:?}", connect_in(name, &env).unwrap()));
    }
    shown.push(format!("{:?}", OpenAi::builder("gpt-5").key(KEY)));
    let request = Request::new("hello");
    shown.push(format!("{request:?} {}", serde_json::to_string(&request).unwrap()));

    let claude = claude.build().unwrap();
    shown.push(format!("{claude:?}"));
    for error in [
        claude.call(request.clone()).await.unwrap_err(),
        gateway.builder().header("x-gateway", OWN).build().unwrap().call(request.clone()).await.unwrap_err(),
        server.gpt().call(request.clone()).await.unwrap_err(),
        Server::always(vec![]).await.claude().call(request.clone()).await.unwrap_err(),
        Server::always(response(200, "", &echo)).await.claude().call(request.clone()).await.unwrap_err(),
        Server::always(stream(&format!("data: {echo}\n\n"))).await.claude().call(request).await.unwrap_err(),
        server.builder().header("x y", "z").build().unwrap_err(),
        Anthropic::builder("m", format!("{KEY}\n")).build().unwrap_err(),
        Anthropic::builder("m", KEY).base_url(format!("https://me:{KEY}@host")).build().unwrap_err(),
        Anthropic::builder("m", KEY).base_url(format!("ftp://{KEY}@host")).build().unwrap_err(),
    ] {
        shown.push(format!("{error} {error:?} {error:#?} {:?}", error.body()));
        let mut source: Option<&dyn std::error::Error> = std::error::Error::source(&error);
        while let Some(cause) = source {
            shown.push(format!("{cause} {cause:?}"));
            source = cause.source();
        }
    }
    for text in shown {
        assert!(!text.contains(KEY) && !text.contains(OWN), "{text}");
    }
}

#[tokio::test]
async fn a_key_that_is_no_secret_leaves_what_a_service_says_readable() {
    let says = "request exceeds the available context size (4096 tokens), none is left";
    let body = json!({"error": {"message": says}}).to_string();
    let server = Server::always(response(400, "", &body)).await;
    for word in ["x", "none", "4096", "context"] {
        let claude = Anthropic::builder("m", word).base_url(server.url()).header("x-version", word);
        let error = claude.build().unwrap().call(Request::new("hello")).await.unwrap_err();
        assert_eq!((error.message(), error.body()), (says, Some(&*body)));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_no_other_host_hears_the_key() {
    let other = Server::always(ok(&message("stolen"))).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("location: http://localhost:{}/v1/messages\r\n", other.address.port());
        let server = Server::always(response(status, &location, "")).await;
        let error = server.claude().call(Request::new("hello")).await.unwrap_err();
        assert_eq!((error.kind(), error.status()), (ErrorKind::Protocol, Some(status)));
        assert!(error.message().contains("redirects to localhost"), "{error}");
        assert_eq!(server.requests().len(), 1);
    }
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn the_key_is_in_one_header_only() {
    let server = Server::always(ok(&message("hi"))).await;
    let heard = async |builder: patterns::providers::anthropic::AnthropicBuilder| {
        builder.build().unwrap().ask("hello").await.unwrap();
        let heard = server.request();
        (heard.header("authorization").map(str::to_owned), heard.header("x-api-key").map(str::to_owned))
    };
    let bearer = Some(format!("Bearer {KEY}"));
    assert_eq!(heard(server.builder()).await, (bearer.clone(), None));
    assert_eq!(heard(server.builder().auth(Auth::Bearer)).await, (bearer, None));
    assert_eq!(heard(server.builder().auth(Auth::ApiKey)).await, (None, Some(KEY.to_owned())));
    assert_eq!(heard(server.builder().header("X-Api-Key", "mine")).await, (None, Some("mine".to_owned())));
}

//! What comes back when something goes wrong, one attempt each.

use std::time::{Duration, SystemTime};

use patterns::providers::{Anthropic, Timeouts};
use patterns::{Error, ErrorKind, Llm, OnText, Request};
use serde_json::json;

use crate::server::*;

async fn fails(steps: Vec<Step>) -> Error {
    fails_within(PATIENT, steps).await
}

async fn fails_within(timeouts: Timeouts, steps: Vec<Step>) -> Error {
    let server = Server::always(steps).await;
    let error = server.claude_within(timeouts).call(Request::new("hello").at("draft")).await.unwrap_err();
    assert_eq!(server.requests().len(), 1, "a provider tries once");
    assert_eq!(error.path().as_str(), "draft");
    assert_eq!(error.model(), Some("anthropic:claude-opus-5-5"));
    error
}

fn body(kind: &str, code: Option<&str>, message: &str) -> String {
    let mut error = json!({"type": kind, "message": message});
    if let Some(code) = code {
        error["details"] = json!({"error_code": code});
    }
    json!({"type": "error", "error": error, "request_id": "req_9"}).to_string()
}

#[tokio::test]
async fn a_status_has_its_kind_and_says_whether_trying_again_helps() {
    use ErrorKind::*;
    for (status, name, kind, transient) in [
        (400, "invalid_request_error", InvalidRequest, false),
        (401, "authentication_error", Authentication, false),
        (402, "billing_error", Authentication, false),
        (403, "permission_error", Permission, false),
        (404, "not_found_error", NotFound, false),
        (408, "timeout_error", TimedOut, true),
        (409, "conflict_error", InvalidRequest, true),
        (413, "request_too_large", InvalidRequest, false),
        (429, "rate_limit_error", RateLimited, true),
        (500, "api_error", Server, true),
        (503, "api_error", Server, true),
        (504, "timeout_error", TimedOut, true),
        (529, "overloaded_error", Overloaded, true),
    ] {
        let error = fails(response(status, "", &body(name, None, "so it is"))).await;
        assert_eq!((error.kind(), error.is_transient()), (kind, transient), "{status}: {error}");
        assert_eq!((error.status(), error.code()), (Some(status), Some(name)));
        assert_eq!(error.request_id(), Some("req_9"));
        assert!(error.message().starts_with("so it is"), "{error}");
        assert!(error.body().unwrap().contains("so it is"));
    }
}

#[tokio::test]
async fn a_proxy_that_answers_html_is_shown() {
    for (status, kind) in [(413, ErrorKind::InvalidRequest), (502, ErrorKind::Server)] {
        let error = fails(response(status, "content-type: text/html\r\n", "<html>bad gateway</html>")).await;
        assert_eq!((error.kind(), error.body()), (kind, Some("<html>bad gateway</html>")));
    }
}

#[tokio::test]
async fn an_error_without_the_envelope_is_read_all_the_same() {
    for text in [
        r#"{"error": {"message": "no fixture matched"}}"#,
        r#"{"error": "no fixture matched"}"#,
        r#"{"message": "no fixture matched"}"#,
        r#"{"detail": "no fixture matched"}"#,
    ] {
        let error = fails(response(404, "x-request-id: req_7\r\n", text)).await;
        assert!(error.message().starts_with("no fixture matched"), "{error}");
        assert_eq!(error.request_id(), Some("req_7"));
    }
}

#[tokio::test]
async fn how_long_to_wait_is_read_in_every_spelling() {
    let wait = async |headers: &str| {
        fails(response(429, headers, &body("rate_limit_error", None, "slow down"))).await.retry_after()
    };
    assert_eq!(wait("retry-after: 1\r\n").await, Some(Duration::from_secs(1)));
    assert_eq!(wait("retry-after: 0.5\r\n").await, Some(Duration::from_millis(500)));
    assert_eq!(wait("retry-after-ms: 300\r\nretry-after: 1\r\n").await, Some(Duration::from_millis(300)));
    assert_eq!(wait("retry-after: 120\r\n").await, Some(Duration::from_secs(120)));
    for nothing in
        ["", "retry-after: 0\r\n", "retry-after: soon\r\n", "retry-after: -3\r\n", "retry-after: 1e300\r\n"]
    {
        assert_eq!(wait(nothing).await, None, "{nothing}");
    }
    let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3_000));
    let until = wait(&format!("retry-after: {date}\r\n")).await.unwrap();
    assert!((2_900..=3_000).contains(&until.as_secs()), "{until:?}");
    let past = httpdate::fmt_http_date(SystemTime::now() - Duration::from_secs(30));
    assert_eq!(wait(&format!("retry-after: {past}\r\n")).await, None);
}

#[tokio::test]
async fn the_service_has_the_last_word_on_trying_again() {
    let transient = async |status, headers: &str| {
        fails(response(status, headers, &body("x", None, "x"))).await.is_transient()
    };
    assert!(!transient(429, "x-should-retry: false\r\n").await);
    assert!(transient(400, "x-should-retry: true\r\n").await);
    assert!(!transient(529, "x-should-retry: false\r\n").await);
}

#[tokio::test]
async fn a_spend_cap_is_not_waited_for() {
    for (code, retry) in
        [("enforced_spend_limit_reached", ""), ("contract_spend_limit_reached", "x-should-retry: true\r\n")]
    {
        let error = fails(response(429, retry, &body("rate_limit_error", Some(code), "cap"))).await;
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::RateLimited, false));
        assert_eq!(error.code(), Some(code));
    }
    let text = "You have reached your specified API usage limits. You will regain access on 2026-12-01.";
    let error = fails(response(400, "", &body("invalid_request_error", None, text))).await;
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Authentication, false));
    let other =
        fails(response(429, "", &body("rate_limit_error", Some("ramp_limit_exceeded"), "ramp"))).await;
    assert!(other.is_transient());
}

#[tokio::test]
async fn a_prompt_that_is_too_long_is_its_own_kind() {
    let text = "prompt is too long: 1200000 tokens > 1000000 maximum";
    let error = fails(response(400, "", &body("invalid_request_error", None, text))).await;
    assert_eq!(error.kind(), ErrorKind::ContextWindow);
}

#[tokio::test]
async fn a_200_that_is_no_message_is_an_error() {
    for (text, says) in [
        ("<html>login</html>", "HTML"),
        ("", "an empty body"),
        (r#"{"type": "message", "content": ["#, "broken JSON"),
        ("{}", "without content"),
        (r#"{"type": "message", "content": [], "stop_reason": null}"#, "without a stop reason"),
        ("[]", "broken JSON"),
    ] {
        let error = fails(response(200, "content-type: application/json\r\n", text)).await;
        assert_eq!(error.kind(), ErrorKind::Protocol, "{text}");
        assert!(error.message().contains(says), "{error}");
        assert!(!error.is_transient());
    }
    let error = fails(response(200, "", &body("overloaded_error", None, "Overloaded"))).await;
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Overloaded, true));
    assert_eq!(error.code(), Some("overloaded_error"));
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_connection_that_breaks() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\nconnection: close\r\n\r\n{\"type\": \"mes";
    for steps in [
        vec![Step::Reset],
        vec![],
        vec![send(cut)],
        vec![send(cut), Step::Reset],
        vec![send("HTTP/1.1 200 OK\r\ncontent-le")],
    ] {
        let error = fails(steps).await;
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Connection, true), "{error:?}");
        assert!(error.message().contains("127.0.0.1"), "{error}");
    }
}

#[tokio::test]
async fn nobody_there_says_where_one_looked() {
    // a port that is taken, so that nobody else gets it, and where nobody listens
    let taken = tokio::net::TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", taken.local_addr().unwrap());
    let claude = Anthropic::builder("claude-opus-5-5", KEY).base_url(url).build().unwrap();
    let error = claude.call(Request::new("hello")).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Connection, true));
    assert!(error.message().starts_with("no connection to 127.0.0.1"), "{error}");
}

#[tokio::test]
async fn silence_and_dripping_both_have_an_end() {
    let silent = fails_within(Timeouts { total: SHORT, ..PATIENT }, vec![FOR_EVER]).await;
    assert_eq!((silent.kind(), silent.is_transient()), (ErrorKind::TimedOut, true));

    // each drip comes in time, and the whole does not
    let mut drip =
        vec![send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n")];
    for _ in 0..400 {
        drip.extend([Step::Wait(Duration::from_millis(100)), send(" ")]);
    }
    let error = fails_within(Timeouts { total: SHORT, ..PATIENT }, drip).await;
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.message().contains("did not finish"), "{error}");

    let begun = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{";
    let error = fails_within(Timeouts { idle: SHORT, ..PATIENT }, vec![send(begun), FOR_EVER]).await;
    assert!(error.message().contains("was silent for 2s"), "{error}");
}

#[tokio::test]
async fn a_call_that_is_dropped_hangs_up() {
    let server = Server::always(vec![Step::Listen]).await;
    let claude = server.claude();
    tokio::select! {
        () = server.asked.notified() => {}
        end = claude.call(Request::new("hello")) => panic!("{end:?}"),
    }
    let left = tokio::time::timeout(PATIENT.idle, server.left.notified()).await;
    assert!(left.is_ok(), "the server still has a connection that nobody listens to");
}

#[tokio::test]
async fn no_timeout_is_too_long_to_be_given() {
    let for_ever = Timeouts { idle: Duration::MAX, total: Duration::MAX, streamed: Duration::MAX };
    for on_text in [None, Some(OnText::unseen())] {
        let server = Server::always(ok(&message("done"))).await;
        let request = Request { on_text, ..Request::new("hello") };
        assert_eq!(server.claude_within(for_ever).call(request).await.unwrap().text(), "done");
    }
}

//! llmock: every fault that it knows, and its own verdict on how we took it (`llmock report`, called by `run.sh`).

use std::time::Duration;

use patterns::layers::{Limit, Retry};
use patterns::{Connection, Error, ErrorKind, Llm, Reply, Request};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{both, peer, streamed};

/// The server has one scenario at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

fn peers(url: &str) -> [Connection; 2] {
    both(format!("{url}/anthropic"), format!("{url}/v1"))
}

/// As a user would call it. The waits are longer than a busy server takes to notice that its stream was hung up on: until then
/// the verdict takes another attempt for another call. Ten attempts are the most that it allows. A stream meets a random
/// fault with a probability of 0.15, so that ten do in one of some millions of runs.
async fn patiently(llm: impl Llm, request: Request) -> Result<Reply, Error> {
    let retry = Retry::times(9).backoff(Duration::from_secs(1), Duration::from_secs(16));
    llm.retry(retry).call(request).await
}

async fn scenario(url: &str, behavior: Value) {
    let mut request =
        reqwest::Request::new(reqwest::Method::POST, format!("{url}/_llmock/scenario").parse().unwrap());
    request.headers_mut().insert("content-type", "application/json".parse().unwrap());
    *request.body_mut() = Some(json!({"behaviors": [behavior]}).to_string().into());
    let response = http().execute(request).await.unwrap();
    assert!(response.status().is_success(), "{}", response.text().await.unwrap());
}

fn http() -> reqwest::Client {
    let tls = rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder().tls_backend_preconfigured(tls).build().unwrap()
}

#[tokio::test]
async fn each_fault_is_seen_and_passes() {
    let Some(url) = peer("LLMOCK_URL") else { return };
    let _guard = ONE_AT_A_TIME.lock().await;
    for (number, behavior) in [
        json!({"type": "fail", "status": 429, "retry_after": 1, "times": 2}),
        json!({"type": "fail", "status": 529, "times": 2}),
        json!({"type": "fail", "status": 500, "times": 1}),
        json!({"type": "fail", "status": 408, "times": 1}),
        json!({"type": "stream_fault", "kind": "truncate", "after_chunks": 3}),
        json!({"type": "stream_fault", "kind": "disconnect", "after_chunks": 2}),
        json!({"type": "stream_fault", "kind": "malformed", "after_chunks": 2}),
    ]
    .into_iter()
    .enumerate()
    {
        for (api, llm) in peers(&url).into_iter().enumerate() {
            scenario(&url, behavior.clone()).await;
            let request = streamed(Request::new(format!("fault {number} on api {api}")));
            let reply = patiently(llm, request).await;
            assert!(!reply.unwrap().into_answer().unwrap().is_empty());
        }
    }
}

#[tokio::test]
async fn what_cannot_help_is_not_tried_again() {
    let Some(url) = peer("LLMOCK_URL") else { return };
    let _guard = ONE_AT_A_TIME.lock().await;
    for (status, kind) in [
        (400, ErrorKind::InvalidRequest),
        (401, ErrorKind::Authentication),
        (403, ErrorKind::Permission),
        (404, ErrorKind::NotFound),
    ] {
        for llm in peers(&url) {
            scenario(&url, json!({"type": "fail", "status": status, "times": 1})).await;
            let reply = patiently(llm, Request::new(format!("never {status}"))).await;
            assert_eq!(reply.unwrap_err().kind(), kind);
        }
    }
}

/// A server that fails at random, started with its own rates.
#[tokio::test]
async fn among_random_faults_every_call_gets_its_answer() {
    let Some(url) = peer("LLMOCK_CHAOS_URL") else { return };
    // a few at once: the server answers all at once no faster
    let few = Limit::at_most(8);
    let calls = (0..160).map(|number| {
        let llm = peers(&url)[number % 2].clone().limit(&few);
        async move {
            // it is echoed: long enough that no fault hits the very end, which the verdict takes for a cut as well
            let plain = Request::new(format!("call {number} {}", "and so on ".repeat(8)));
            let request = if number % 4 < 2 { streamed(plain) } else { plain };
            patiently(llm, request).await.unwrap().into_answer().unwrap()
        }
    });
    for answer in futures::future::join_all(calls).await {
        assert!(!answer.is_empty());
    }
}

//! llmock: every fault that it knows, and its own verdict on how we took it (`llmock report`, called by `run.sh`).

use std::time::Duration;

use patterns::{Connection, Error, ErrorKind, Llm, Reply, Request};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{both, peer, streamed};

/// The server has one scenario at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

fn peers(url: &str) -> [Connection; 2] {
    both(format!("{url}/anthropic"), format!("{url}/v1"))
}

/// Tries again for as long as the errors say that it may help, as the retry layer does.
async fn patiently(llm: &Connection, request: &Request) -> (usize, Result<Reply, Error>) {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match llm.call(request.clone()).await {
            Err(error) if error.is_transient() && attempts < 9 => {
                let backoff = Duration::from_millis(60 << attempts.min(5));
                tokio::time::sleep(error.retry_after().unwrap_or_default().max(backoff)).await;
            }
            result => return (attempts, result),
        }
    }
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
        for (api, llm) in peers(&url).iter().enumerate() {
            scenario(&url, behavior.clone()).await;
            let request = streamed(Request::new(format!("fault {number} on api {api}")));
            let (attempts, reply) = patiently(llm, &request).await;
            let times = behavior["times"].as_u64().unwrap_or(1) as usize;
            assert_eq!(attempts, times + 1, "{behavior} {reply:?}");
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
            let (attempts, reply) = patiently(&llm, &Request::new(format!("never {status}"))).await;
            assert_eq!((attempts, reply.unwrap_err().kind()), (1, kind));
        }
    }
}

/// A server that fails at random, started with its own rates.
#[tokio::test]
async fn among_random_faults_every_call_gets_its_answer() {
    let Some(url) = peer("LLMOCK_CHAOS_URL") else { return };
    let calls = (0..24).map(|number| {
        let url = url.clone();
        async move {
            let llm = &peers(&url)[number % 2];
            let plain = Request::new(format!("call {number}"));
            let request = if number % 4 < 2 { streamed(plain) } else { plain };
            let (_, reply) = patiently(llm, &request).await;
            reply.unwrap().into_answer().unwrap()
        }
    });
    for answer in futures::future::join_all(calls).await {
        assert!(!answer.is_empty());
    }
}

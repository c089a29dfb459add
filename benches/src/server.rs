//! A server that answers every message alike, and counts.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpListener;

/// What the server has seen since it was last asked.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Seen {
    pub(crate) calls: u64,
    /// The most calls that were under way at once.
    pub(crate) peak: u64,
    pub(crate) connections: u64,
}

#[derive(Debug, Default)]
struct Counts {
    calls: AtomicU64,
    under_way: AtomicU64,
    peak: AtomicU64,
    connections: AtomicU64,
    delay_ms: AtomicU64,
}

impl Counts {
    fn take(&self) -> Seen {
        Seen {
            calls: self.calls.swap(0, Relaxed),
            peak: self.peak.swap(0, Relaxed),
            connections: self.connections.swap(0, Relaxed),
        }
    }
}

/// Serves on a free port, which it prints, until it is killed. `GET /seen?MS` gives the counts, begins new ones, and has later
/// calls answered after `MS` milliseconds.
pub(crate) fn serve() -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        let counts = Arc::new(Counts::default());
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let counts = Arc::clone(&counts);
            let known = AtomicBool::new(false);
            tokio::spawn(async move {
                let answer = service_fn(|request| {
                    if request.uri().path() != "/seen" && !known.swap(true, Relaxed) {
                        counts.connections.fetch_add(1, Relaxed);
                    }
                    answer(Arc::clone(&counts), request)
                });
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    })
}

async fn answer(
    counts: Arc<Counts>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() == "/seen" {
        let delay = request.uri().query().and_then(|ms| ms.parse().ok()).unwrap_or(0);
        counts.delay_ms.store(delay, Relaxed);
        return Ok(Response::new(Full::from(serde_json::to_vec(&counts.take()).unwrap())));
    }
    let body =
        request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let calls = counts.calls.fetch_add(1, Relaxed) + 1;
    counts.peak.fetch_max(counts.under_way.fetch_add(1, Relaxed) + 1, Relaxed);
    let delay = counts.delay_ms.load(Relaxed);
    if delay > 0 {
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
    let reply = json!({
        "id": format!("msg_{calls:020}"),
        "type": "message",
        "role": "assistant",
        "model": crate::client::MODEL,
        "content": [{"type": "text", "text": "Seven words say what there is said. ".repeat(20)}],
        "stop_reason": "end_turn",
        "stop_sequence": null,
        "usage": {"input_tokens": body.len() / 4, "output_tokens": 180, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
    });
    counts.under_way.fetch_sub(1, Relaxed);
    Ok(Response::builder()
        .header("content-type", "application/json")
        .header("request-id", format!("req_{calls:020}"))
        .header("anthropic-ratelimit-requests-limit", "100000")
        .header("anthropic-ratelimit-requests-remaining", "99999")
        .header("anthropic-ratelimit-requests-reset", "2026-11-30T12:00:00Z")
        .body(Full::from(reply.to_string()))
        .unwrap())
}

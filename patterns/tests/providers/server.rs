//! A server on 127.0.0.1 that says what it is told, byte by byte, and keeps what it heard.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use patterns::providers::anthropic::AnthropicBuilder;
use patterns::providers::{Anthropic, OpenAi, Timeouts};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

pub(crate) const KEY: &str = "sk-ant-test-0123456789abcdef";

/// What the server does with a connection once it has read the request.
#[derive(Clone)]
pub(crate) enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// Says nothing until the other side hangs up.
    Listen,
    Reset,
    /// Waits for the next request; otherwise the connection is closed.
    Keep,
}

pub(crate) fn send(text: impl Into<Vec<u8>>) -> Step {
    Step::Send(text.into())
}

/// A response with this status, these header lines and this body, after which the connection is closed.
pub(crate) fn response(status: u16, headers: &str, body: &str) -> Vec<Step> {
    vec![send(format!(
        "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    ))]
}

pub(crate) fn ok(body: &Value) -> Vec<Step> {
    response(200, "content-type: application/json\r\nrequest-id: req_1\r\n", &body.to_string())
}

/// A stream that is closed at its end.
pub(crate) fn stream(events: &str) -> Vec<Step> {
    vec![
        send(
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n",
        ),
        send(events),
    ]
}

/// The same as chunks, with or without the last one; with it, the connection can be used again.
pub(crate) fn chunked(events: &str, whole: bool) -> Vec<Step> {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: text/event-stream\r\n\r\n";
    let end = if whole { "0\r\n\r\n" } else { "" };
    let mut steps = vec![send(format!("{head}{:x}\r\n{events}\r\n{end}", events.len()))];
    if whole {
        steps.push(Step::Keep);
    }
    steps
}

pub(crate) fn message(text: &str) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {"input_tokens": 12, "output_tokens": 3},
    })
}

pub(crate) struct Heard {
    pub(crate) head: String,
    pub(crate) bytes: Vec<u8>,
}

impl Heard {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap()
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    heard: Arc<Mutex<Vec<Heard>>>,
    connections: Arc<Mutex<usize>>,
    /// Told when a request has been read.
    pub(crate) asked: Arc<Notify>,
    /// Told when the other side hangs up on [`Step::Listen`].
    pub(crate) left: Arc<Notify>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Answers every request with these steps.
    pub(crate) async fn always(steps: Vec<Step>) -> Self {
        Self::each(move |_| steps.clone()).await
    }

    /// Answers the n-th request, from 0, with these steps.
    pub(crate) async fn each(steps: impl Fn(usize) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::<Mutex<Vec<Heard>>>::default();
        let connections = Arc::<Mutex<usize>>::default();
        let (steps, record, count) = (Arc::new(steps), Arc::clone(&heard), Arc::clone(&connections));
        let (asked, left) = (Arc::<Notify>::default(), Arc::<Notify>::default());
        let signs = (Arc::clone(&asked), Arc::clone(&left));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *count.lock().unwrap() += 1;
                let (steps, record, signs) = (Arc::clone(&steps), Arc::clone(&record), signs.clone());
                tokio::spawn(async move {
                    // the other side hanging up is part of many tests
                    let _ = serve(stream, &*steps, &record, &signs).await;
                });
            }
        });
        Self { address, heard, connections, asked, left, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Heard> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }

    /// The only request so far.
    pub(crate) fn request(&self) -> Heard {
        let mut all = self.requests();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }

    pub(crate) fn builder(&self) -> AnthropicBuilder {
        Anthropic::builder("claude-opus-5-5", KEY).base_url(self.url())
    }

    pub(crate) fn claude(&self) -> Anthropic {
        self.claude_within(PATIENT)
    }

    pub(crate) fn claude_within(&self, timeouts: Timeouts) -> Anthropic {
        self.builder().timeouts(timeouts).build().unwrap()
    }

    pub(crate) fn gpt(&self) -> OpenAi {
        let url = format!("{}/v1", self.url());
        OpenAi::builder("gpt-5").key(KEY).base_url(url).timeouts(PATIENT).build().unwrap()
    }
}

const MINUTE: Duration = Duration::from_secs(60);
/// Longer than a busy machine takes for anything. A test of a timeout shortens the one that it is about, so that no other
/// can strike first.
pub(crate) const PATIENT: Timeouts = Timeouts { idle: MINUTE, total: MINUTE, streamed: MINUTE };
/// The timeout that a test is about: long enough to be asked within it.
pub(crate) const SHORT: Duration = Duration::from_secs(2);
/// A silence that no test sees the end of.
pub(crate) const FOR_EVER: Step = Step::Wait(Duration::from_secs(1_000_000));

async fn serve(
    mut stream: TcpStream,
    steps: &(dyn Fn(usize) -> Vec<Step> + Send + Sync),
    record: &Mutex<Vec<Heard>>,
    (asked, left): &(Arc<Notify>, Arc<Notify>),
) -> std::io::Result<()> {
    loop {
        let Some(heard) = read_request(&mut stream).await? else { return Ok(()) };
        keep_for_the_schema_check(&heard);
        let number = {
            let mut all = record.lock().unwrap();
            all.push(heard);
            all.len() - 1
        };
        asked.notify_one();
        let steps = steps(number);
        let keep = matches!(steps.last(), Some(Step::Keep));
        for step in steps {
            match step {
                Step::Send(bytes) => {
                    stream.write_all(&bytes).await?;
                    stream.flush().await?;
                }
                Step::Wait(time) => tokio::time::sleep(time).await,
                Step::Listen => {
                    while stream.read(&mut [0; 64]).await? > 0 {}
                    left.notify_one();
                }
                Step::Keep => {}
                Step::Reset => {
                    // what was sent shall arrive before the reset
                    tokio::time::sleep(Duration::from_millis(30)).await;
                    stream.set_zero_linger()?;
                    return Ok(());
                }
            }
        }
        if !keep {
            return stream.shutdown().await;
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> std::io::Result<Option<Heard>> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut heard = Heard { head, bytes: bytes.split_off(end + 4) };
        let length: usize = heard.header("content-length").map_or(0, |length| length.parse().unwrap());
        while heard.bytes.len() < length {
            if stream.read_buf(&mut heard.bytes).await? == 0 {
                return Ok(None);
            }
        }
        return Ok(Some(heard));
    }
}

/// Every body that the suite sends can be checked against the types of the official SDK: see `tests/peers`.
fn keep_for_the_schema_check(heard: &Heard) {
    static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let Some(folder) = std::env::var_os("PATTERNS_BODIES") else { return };
    // blocks that no version of the SDK knows are sent back on purpose
    let from_the_future = String::from_utf8_lossy(&heard.bytes).contains("block_from_the_future");
    if heard.head.starts_with("POST /v1/messages ") && !from_the_future {
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        std::fs::write(std::path::Path::new(&folder).join(format!("{number:03}.json")), &heard.bytes)
            .unwrap();
    }
}

//! Streamed replies of the Messages API, whole and broken.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use patterns::providers::Timeouts;
use patterns::{Error, ErrorKind, Llm, OnText, Reply, Request, Stop};

use crate::server::*;

const START: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"claude-opus-5-5","stop_reason":null,"usage":{"input_tokens":20,"output_tokens":1,"cache_read_input_tokens":7}}}

"#;
const THOUGHT: &str = r#"event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"Eq=="}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

"#;
const TEXT: &str = r#"event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Ho"}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"la é"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

"#;
const CALL: &str = r#"event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"search","input":{},"caller":{"type":"direct"}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"z\": 1e2,"}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":" \"a\": [1]}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

"#;
const END: &str = r#"event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":30}}

event: message_stop
data: {"type":"message_stop"}

"#;

fn whole() -> String {
    [START, THOUGHT, TEXT, CALL, END].concat()
}

/// The reply, and the pieces that a listener heard.
async fn call(steps: Vec<Step>) -> (patterns::Result<Reply>, Vec<String>) {
    call_within(PATIENT, steps).await
}

async fn call_within(timeouts: Timeouts, steps: Vec<Step>) -> (patterns::Result<Reply>, Vec<String>) {
    let server = Server::always(steps).await;
    let pieces = Arc::<Mutex<Vec<String>>>::default();
    let heard = Arc::clone(&pieces);
    let on_text = OnText::new(move |piece: &str| heard.lock().unwrap().push(piece.to_owned()));
    let claude = server.claude_within(timeouts);
    let reply = claude.call(Request { on_text: Some(on_text), ..Request::new("hello") }).await;
    let pieces = pieces.lock().unwrap().clone();
    (reply, pieces)
}

async fn reads(events: &str) -> Reply {
    call(stream(events)).await.0.unwrap()
}

async fn fails(steps: Vec<Step>) -> Error {
    fails_within(PATIENT, steps).await
}

async fn fails_within(timeouts: Timeouts, steps: Vec<Step>) -> Error {
    call_within(timeouts, steps).await.0.unwrap_err()
}

fn raw(reply: &Reply) -> Vec<&str> {
    reply.content.iter().map(|block| block.raw().get()).collect()
}

#[tokio::test]
async fn a_stream_becomes_the_message_that_it_spells() {
    let (reply, pieces) = call(stream(&whole())).await;
    let reply = reply.unwrap();
    assert_eq!(pieces, ["Ho", "la é"]);
    assert_eq!(
        raw(&reply),
        [
            r#"{"type":"thinking","thinking":"hm","signature":"Eq=="}"#,
            r#"{"type":"text","text":"Hola é"}"#,
            r#"{"type":"tool_use","id":"toolu_1","name":"search","input":{"z": 1e2, "a": [1]},"caller":{"type":"direct"}}"#,
        ]
    );
    assert_eq!((reply.stop, reply.id.as_deref()), (Stop::ToolUse, Some("msg_1")));
    assert_eq!(reply.model, "anthropic:claude-opus-5-5");
    let usage = reply.usage;
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cache_read_tokens), (20, 30, 7));
}

#[tokio::test]
async fn how_the_bytes_come_does_not_matter() {
    let expected = reads(&whole()).await;
    let bytewise = {
        let mut steps = stream("");
        steps.extend(whole().bytes().map(|byte| Step::Send(vec![byte])));
        steps
    };
    let with_unknown = whole().replace(
        THOUGHT,
        &format!(": a comment\nevent: news\ndata: {{\"type\":\"news\",\"delta\":7,\"index\":0,\"message\":[]}}\n\n{THOUGHT}"),
    );
    let with_unknown_delta = whole().replace(
        TEXT,
        &TEXT.replacen(
            "event: content_block_delta",
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"new_delta\",\"x\":[1]}}\n\nevent: content_block_delta",
            1,
        ),
    );
    let nameless: String = whole().split_inclusive('\n').filter(|line| !line.starts_with("event:")).collect();
    for (what, steps) in [
        ("chunked", chunked(&whole(), true)),
        ("1 byte per write", bytewise),
        ("CRLF", stream(&whole().replace('\n', "\r\n"))),
        ("CR", stream(&whole().replace('\n', "\r"))),
        ("byte order mark", stream(&format!("\u{feff}{}", whole()))),
        ("unknown event", stream(&with_unknown)),
        ("unknown delta", stream(&with_unknown_delta)),
        ("no event names", stream(&nameless)),
        ("no blank line at the end", stream(whole().trim_end())),
        ("the last chunk is missing", chunked(&whole(), false)),
    ] {
        let (reply, _) = call(steps).await;
        assert_eq!(reply.unwrap_or_else(|error| panic!("{what}: {error:?}")), expected, "{what}");
    }
}

#[tokio::test]
async fn a_stream_without_its_end_is_an_error_that_keeps_the_text() {
    let cut = [START, THOUGHT, TEXT].concat();
    let without_stop_event = whole().replace("event: message_stop\ndata: {\"type\":\"message_stop\"}\n", "");
    for (what, steps, partial) in [
        ("after some events", stream(&cut), Some("Hola é")),
        ("after the start", stream(START), None),
        ("all but message_stop", stream(&without_stop_event), Some("Hola é")),
        ("nothing at all", stream(""), None),
        ("in the middle of an event", stream(&whole()[..whole().len() - 9]), Some("Hola é")),
        (
            "no stop reason",
            stream(&whole().replace(r#""stop_reason":"tool_use""#, r#""stop_reason":null"#)),
            Some("Hola é"),
        ),
    ] {
        let error = fails(steps).await;
        assert_eq!((error.kind(), error.partial()), (ErrorKind::Protocol, partial), "{what}: {error:?}");
        assert_eq!(error.is_transient(), what != "no stop reason");
    }
    let error = fails(stream(&cut)).await;
    assert_eq!(error.usage().unwrap().input_tokens, 20);
}

#[tokio::test]
async fn a_stream_cut_anywhere_is_never_an_answer() {
    let whole = whole();
    let needed = whole.rfind('}').unwrap() + 1;
    let cut = {
        let whole = whole.clone();
        move |n: usize| stream(&whole[..whole.floor_char_boundary(n)])
    };
    let server = Server::each(cut).await;
    let claude = server.builder().build().unwrap();
    let request = Request { on_text: Some(OnText::new(|_| {})), ..Request::new("hello") };
    for n in 0..=whole.len() {
        let reply = claude.call(request.clone()).await;
        assert_eq!(reply.is_ok(), n >= needed, "{n}: {reply:?}");
        if let Err(error) = reply {
            assert!("Hola é".starts_with(error.partial().unwrap_or_default()), "{error:?}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_breaks_in_a_stream_keeps_the_text() {
    let cut = [START, THOUGHT, TEXT].concat();
    let mut reset = stream(&cut);
    reset.push(Step::Reset);
    let mut in_chunk = chunked(&cut, false);
    in_chunk.push(send("5\r\nda"));
    for steps in [reset, in_chunk] {
        let error = fails(steps).await;
        assert_eq!((error.kind(), error.partial()), (ErrorKind::Connection, Some("Hola é")), "{error:?}");
        assert!(error.is_transient());
    }
}

#[tokio::test]
async fn an_error_in_a_stream_has_its_type() {
    for (name, kind, transient) in [
        ("overloaded_error", ErrorKind::Overloaded, true),
        ("api_error", ErrorKind::Server, true),
        ("rate_limit_error", ErrorKind::RateLimited, true),
        ("invalid_request_error", ErrorKind::InvalidRequest, false),
        ("a_new_error", ErrorKind::Server, true),
    ] {
        let event = format!(
            "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"{name}\",\"message\":\"so it is\"}}}}\n\n"
        );
        let error = fails(stream(&[START, THOUGHT, TEXT, &event].concat())).await;
        assert_eq!((error.kind(), error.is_transient()), (kind, transient), "{error:?}");
        assert_eq!((error.code(), error.partial()), (Some(name), Some("Hola é")));
    }
}

#[tokio::test]
async fn a_broken_event_is_an_error() {
    for bad in [
        "data: {\"type\":\n\n",
        "data: <html>\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":9,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n",
    ] {
        let error = fails(stream(&[START, THOUGHT, TEXT, bad, END].concat())).await;
        assert_eq!((error.kind(), error.partial()), (ErrorKind::Protocol, Some("Hola é")), "{bad}");
        assert!(error.is_transient());
    }
}

#[tokio::test]
async fn a_tool_call_that_is_cut_off_is_never_handed_on() {
    let cut = CALL.replace(r#" \"a\": [1]}"#, r#" \"a\": ["#);
    let error = fails(stream(&[START, THOUGHT, TEXT, &cut, END].concat())).await;
    assert_eq!((error.kind(), error.partial()), (ErrorKind::Protocol, Some("Hola é")));
    assert!(error.message().contains("arguments are cut off"), "{error}");
    // no end of the block at all
    let open = CALL.split("event: content_block_stop").next().unwrap();
    let error = fails(stream(&[START, open, END].concat())).await;
    assert!(error.message().contains("tool call without an end"), "{error}");
    // when the whole turn was cut, that is what there is to say: the turn goes on without the call
    let end = END.replace("tool_use", "max_tokens");
    let reply = reads(&[START, THOUGHT, TEXT, &cut, &end].concat()).await;
    assert_eq!((reply.stop.clone(), reply.content.len()), (Stop::MaxTokens, 2));
    // in recorded streams of that kind not even the block has its end
    let reply =
        reads(&[START, TEXT.split("event: content_block_stop").next().unwrap(), open, &end].concat()).await;
    assert_eq!((reply.text().as_ref(), reply.content.len()), ("Hola é", 1));
    // arguments that were never sent are no arguments
    let none = CALL.replace(r#"{\"z\": 1e2,"#, "").replace(r#" \"a\": [1]}"#, "");
    let reply = reads(&[START, &none, END].concat()).await;
    assert_eq!(reply.content[0].as_tool_use().unwrap().input.get(), "{}");
}

#[tokio::test]
async fn blocks_that_are_new_survive() {
    let new = r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"","citations":[]}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"type":"char_location","b":1.50,"a":2}}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}

data: {"type":"content_block_stop","index":0}

data: {"type":"content_block_start","index":1,"content_block":{"type":"compaction","content":null,"encrypted_content":null}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"compaction_delta","content":"so far","encrypted_content":"Ep"}}

data: {"type":"content_block_stop","index":1}

data: {"type":"content_block_start","index":2,"content_block":{"type":"from_the_future","n":1e2,"deep":{"z":1,"a":2}}}

data: {"type":"content_block_stop","index":2}

"#;
    let reply = reads(&[START, new, END].concat()).await;
    assert_eq!(
        raw(&reply),
        [
            r#"{"type":"text","text":"x","citations":[{"type":"char_location","b":1.50,"a":2}]}"#,
            r#"{"type":"compaction","content":"so far","encrypted_content":"Ep"}"#,
            r#"{"type":"from_the_future","n":1e2,"deep":{"z":1,"a":2}}"#,
        ]
    );
}

#[tokio::test]
async fn a_refusal_in_a_stream_has_its_reason() {
    let end = END.replace(
        r#""stop_reason":"tool_use""#,
        r#""stop_reason":"refusal","stop_details":{"type":"refusal","category":"bio","explanation":"policy"}"#,
    );
    let reply = reads(&[START, &end].concat()).await;
    assert_eq!(
        reply.stop,
        Stop::Refusal { category: Some("bio".into()), explanation: Some("policy".into()) }
    );
}

#[tokio::test]
async fn a_stream_that_falls_silent_is_given_up() {
    let mut steps = stream(&[START, THOUGHT, TEXT].concat());
    steps.push(FOR_EVER);
    let error = fails_within(Timeouts { idle: SHORT, ..PATIENT }, steps).await;
    assert_eq!((error.kind(), error.partial()), (ErrorKind::TimedOut, Some("Hola é")));
    assert!(error.message().contains("was silent"), "{error}");
    // pings keep it alive, but not for ever
    let mut steps = stream(START);
    for _ in 0..400 {
        steps.extend([Step::Wait(Duration::from_millis(100)), send("data: {\"type\":\"ping\"}\n\n")]);
    }
    let error = fails_within(Timeouts { streamed: SHORT, ..PATIENT }, steps).await;
    assert!(error.message().contains("did not finish"), "{error}");
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let (reply, pieces) = call(ok(&message("hello there"))).await;
    assert_eq!(reply.unwrap().text(), "hello there");
    assert_eq!(pieces, ["hello there"]);
    // and one that streams unasked
    let server = Server::always(stream(&whole())).await;
    assert_eq!(server.claude().call(Request::new("x")).await.unwrap().text(), "Hola é");
    // and one that refuses before the first event
    let (reply, _) =
        call(response(529, "", r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#)).await;
    assert_eq!(reply.unwrap_err().kind(), ErrorKind::Overloaded);
}

#[tokio::test]
async fn a_stream_leaves_its_connection_to_the_next() {
    let server = Server::always(chunked(&whole(), true)).await;
    let claude = server.claude();
    let on_text = Some(OnText::new(|_| {}));
    for _ in 0..3 {
        claude.call(Request { on_text: on_text.clone(), ..Request::new("x") }).await.unwrap();
    }
    assert_eq!((server.requests().len(), server.connections()), (3, 1));
}

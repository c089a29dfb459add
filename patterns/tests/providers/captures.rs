//! Streams that real services sent, recorded by others. They are read where they lie, if they are there.

use patterns::{Llm, OnText, Reply, Request, Stop};

use crate::server::*;

async fn replay(events: &str) -> Reply {
    let server = Server::always(chunked(events, true)).await;
    let request = Request { on_text: Some(OnText::new(|_| {})), ..Request::new("hello") };
    server.claude().call(request).await.unwrap()
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "what was not tested shall be seen")]
async fn recorded_streams_are_read() {
    let Some(shared) = std::env::var_os("PATTERNS_SHARED") else {
        eprintln!(
            "NOT TESTED: the recorded streams; set PATTERNS_SHARED to the folder that has reference/captures"
        );
        return;
    };
    let captures = std::path::Path::new(&shared).join("reference/captures");
    let file = |name: &str| std::fs::read_to_string(captures.join(name)).unwrap();
    let refusal = |category: Option<&str>, explanation: Option<&str>| Stop::Refusal {
        category: category.map(str::to_owned),
        explanation: explanation.map(str::to_owned),
    };
    for (name, stop, kinds, text) in [
        ("basic_response.txt", Stop::EndTurn, "text", "Hello there!"),
        (
            "tool_use_response.txt",
            Stop::ToolUse,
            "text tool_use",
            "I'll check the current weather in Paris for you.",
        ),
        ("compaction_response.txt", Stop::EndTurn, "compaction text", "Hello there!"),
        ("fallback_response.txt", Stop::EndTurn, "fallback text", "Hello there!"),
        ("fallback_credit_response.txt", Stop::EndTurn, "text", "Hello there!"),
        (
            "refusal_response.txt",
            refusal(Some("cyber"), Some("This request was refused due to policy.")),
            "text",
            "",
        ),
        // the call was cut off, so there is none
        (
            "incomplete_partial_json_response.txt",
            Stop::MaxTokens,
            "text",
            "I'll create a comprehensive tax guide",
        ),
        ("stream-a-refusal.sse", refusal(None, None), "thinking text", ""),
        ("stream-a-toolrefusal.sse", refusal(None, None), "server_tool_use web_search_tool_result text", ""),
        ("stream-b-fallback.sse", Stop::EndTurn, "text", "Viewing safely"),
    ] {
        let reply = replay(&file(&format!("sdk-fixtures/{name}"))).await;
        let of: Vec<_> = reply.content.iter().map(patterns::Block::kind).collect();
        assert_eq!((&reply.stop, of.join(" ").as_str()), (&stop, kinds), "{name}");
        assert!(reply.text().contains(text), "{name}: {}", reply.text());
        assert!(reply.usage.input_tokens > 0, "{name}");
    }
    let (_, events) = file("aimock/stream_think.txt")
        .split_once("\n\n")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let reply = replay(&events).await;
    assert_eq!(
        reply.content[0].raw().get(),
        r#"{"type":"thinking","thinking":"pienso luego existo","signature":"aimock-placeholder-signature"}"#
    );
    assert_eq!(reply.text(), "42");
}

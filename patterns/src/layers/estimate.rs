//! How long a prompt is, before anybody has counted its tokens.

use crate::llm::{Expect, Request, ToolSpec};
use crate::message::Block;

/// What a message or a tool takes besides its text.
const FRAME: u64 = 16;
/// What the service adds to explain the use of tools.
const TOOL_USE: u64 = 1_000;
/// The most that an image takes.
const IMAGE: u64 = 5_000;

/// A number of tokens that the prompt does not exceed, as far as its bytes can tell: every byte outside of ASCII, digit and
/// sign counts as a token, every two letters or blanks as one. Usual English has half as many. What a request only points to
/// (a file's id, a URL, what the service's own tools find) is not known and not counted.
pub(super) fn prompt_tokens(request: &Request) -> u64 {
    let mut tokens = text(&request.system) + FRAME;
    for message in &request.messages {
        tokens += FRAME + message.content.iter().map(block).sum::<u64>();
    }
    if !request.tools.is_empty() {
        tokens += TOOL_USE;
    }
    for tool in &request.tools {
        tokens += FRAME
            + match tool {
                ToolSpec::Function { name, description, input_schema, .. } => {
                    text(name) + text(description) + text(&input_schema.to_string())
                }
                ToolSpec::Server(raw) => text(raw.get()),
            };
    }
    if let Expect::OneOf(one_of) = &request.expect {
        tokens += text(&one_of.envelope());
    }
    for (field, value) in &request.extra {
        tokens += text(field) + text(&value.to_string());
    }
    tokens
}

fn block(block: &Block) -> u64 {
    match block.as_text() {
        Some(content) => text(content),
        None if block.kind() == "image" => IMAGE,
        None => text(block.raw().get()),
    }
}

fn text(text: &str) -> u64 {
    // sums of bytes in short pieces, which compilers turn into vector instructions; 240 is a whole number of vectors
    let is_letter = |b: &u8| u8::from((b | 0x20).wrapping_sub(b'a') < 26) | u8::from(*b == b' ');
    let letters: u64 =
        text.as_bytes().chunks(240).map(|piece| u64::from(piece.iter().map(is_letter).sum::<u8>())).sum();
    text.len() as u64 - letters + letters.div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_counts_everything_that_is_sent() {
        let bare = prompt_tokens(&Request::default());
        let asked = prompt_tokens(&Request::new("What is the capital of France?"));
        assert!(asked >= bare + 8 && asked < 64, "{asked}");
        assert_eq!(text("四つの目"), 12);
        assert_eq!(text("12345, 678"), 10);
        assert_eq!(text(&"Az [`{@ ".repeat(1_000)), 6_000);

        let mut request = Request::new("x").system("You are terse.");
        request.extra.insert("metadata".into(), serde_json::json!({ "user_id": "abcdefgh" }));
        let before = prompt_tokens(&request);
        request.tools.push(ToolSpec::Function {
            name: "search".into(),
            description: "finds".into(),
            input_schema: serde_json::json!({ "type": "object" }),
            strict: false,
        });
        assert!(prompt_tokens(&request) > before + TOOL_USE);
    }
}

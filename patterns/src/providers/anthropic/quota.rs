//! What a response says of the rate limits.

use std::time::SystemTime;

use crate::event::Event;
use crate::llm::Request;
use crate::providers::http::Answer;

/// What is limited, and the headers that say what is left and when all of it is back.
const LIMITS: [(&str, &str, &str); 4] = [
    ("requests", "anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("tokens", "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("input tokens", "anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    (
        "output tokens",
        "anthropic-ratelimit-output-tokens-remaining",
        "anthropic-ratelimit-output-tokens-reset",
    ),
];

/// Tells of each limit of which nothing is left.
pub(super) fn tell(answer: &Answer<'_>, request: &Request) {
    if request.on_event.is_none() {
        return;
    }
    for (what, remaining, reset) in LIMITS {
        if answer.header(remaining) != Some("0") {
            continue;
        }
        let at = answer.header(reset).and_then(|at| humantime::parse_rfc3339_weak(at).ok());
        if let Some(left) = at.and_then(|at| at.duration_since(SystemTime::now()).ok()) {
            request.tell(Event::Quota { what: what.to_owned(), remaining: 0, resets_in: left.as_secs_f64() });
        }
    }
}

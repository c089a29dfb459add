//! What a response says of the rate limits.

use std::time::SystemTime;

use reqwest::header::HeaderName;

use crate::event::Event;
use crate::llm::Request;
use crate::providers::http::Answer;

/// What is limited, and the headers that say what is left and when all of it is back.
static LIMITS: [(&str, HeaderName, HeaderName); 4] = [
    (
        "requests",
        HeaderName::from_static("anthropic-ratelimit-requests-remaining"),
        HeaderName::from_static("anthropic-ratelimit-requests-reset"),
    ),
    (
        "tokens",
        HeaderName::from_static("anthropic-ratelimit-tokens-remaining"),
        HeaderName::from_static("anthropic-ratelimit-tokens-reset"),
    ),
    (
        "input tokens",
        HeaderName::from_static("anthropic-ratelimit-input-tokens-remaining"),
        HeaderName::from_static("anthropic-ratelimit-input-tokens-reset"),
    ),
    (
        "output tokens",
        HeaderName::from_static("anthropic-ratelimit-output-tokens-remaining"),
        HeaderName::from_static("anthropic-ratelimit-output-tokens-reset"),
    ),
];

/// Tells of each limit of which nothing is left.
pub(super) fn tell(answer: &Answer<'_>, request: &Request) {
    if request.on_event.is_none() {
        return;
    }
    for (what, remaining, reset) in &LIMITS {
        if answer.header(remaining) != Some("0") {
            continue;
        }
        let at = answer.header(reset).and_then(|at| humantime::parse_rfc3339_weak(at).ok());
        if let Some(left) = at.and_then(|at| at.duration_since(SystemTime::now()).ok()) {
            request.tell(&Event::Quota {
                what: (*what).to_owned(),
                remaining: 0,
                resets_in: left.as_secs_f64(),
            });
        }
    }
}

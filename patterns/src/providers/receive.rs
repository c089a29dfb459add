//! A reply from a response, whichever way it came: as one body or as a stream.

use serde::de::IgnoredAny;

use super::http::Answer;
use super::labels::choice_of;
use super::sse::Events;
use crate::error::{Error, Result};
use crate::llm::{Expect, Request};
use crate::reply::Reply;

/// A reply that is put together from the events of a stream.
pub(super) trait Assembly {
    /// Takes the data of one event.
    fn hear(&mut self, answer: &Answer<'_>, data: &[u8]) -> Result<()>;

    /// Whether the stream has said that it is over.
    fn ended(&self) -> bool;

    /// The reply, or why the stream makes none.
    fn finish(&mut self, answer: &Answer<'_>) -> Result<Reply>;

    /// Adds what is known of the reply to the error that ended it.
    fn describe(self, error: Error) -> Error;
}

/// Receives the reply to `request`: by `assembly` if it is a stream, which the server decides, or else by `read`.
pub(super) async fn receive(
    mut answer: Answer<'_>,
    request: &Request,
    mut assembly: impl Assembly,
    read: fn(&Answer<'_>, &[u8]) -> Result<Reply>,
) -> Result<Reply> {
    let mut reply = if answer.is_event_stream() {
        match assemble(&mut answer, &mut assembly).await {
            Ok(reply) => reply,
            Err(error) => return Err(assembly.describe(error)),
        }
    } else {
        let body = answer.body().await?;
        let reply = read(&answer, &body)?;
        if let Some(on_text) = &request.on_text {
            on_text.hear(&reply.text());
        }
        reply
    };
    if let Expect::OneOf(one_of) = &request.expect {
        reply.choice = choice_of(&reply.text(), one_of);
    }
    Ok(reply)
}

async fn assemble(answer: &mut Answer<'_>, assembly: &mut impl Assembly) -> Result<Reply> {
    let mut events = Events::default();
    while !assembly.ended() {
        let Some(bytes) = answer.chunk().await? else {
            // the blank line after the last event may be missing, the event itself may not
            let last = events.push(b"\n\n").then(|| events.next()).flatten();
            if let Some(data) = last.filter(|data| serde_json::from_slice::<IgnoredAny>(data).is_ok()) {
                assembly.hear(answer, &data)?;
            }
            return assembly.finish(answer);
        };
        if !events.push(&bytes) {
            return Err(answer.malformed("an event without an end", &[]));
        }
        while let Some(data) = events.next() {
            assembly.hear(answer, &data)?;
        }
    }
    answer.drain().await;
    assembly.finish(answer)
}

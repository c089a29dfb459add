//! Brings a reply that stopped early to its end.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{BoxFuture, FutureExt};

use super::Layer;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::llm::{DEFAULT_MAX_TOKENS, Llm, OnText, Request};
use crate::message::{Block, Message, Role};
use crate::providers::limits;
use crate::reply::{Reply, Stop, Usage};

/// Brings a reply that stopped early to its end, where that is possible.
///
/// | stop reason | what happens |
/// |---|---|
/// | `max_tokens` | asked once more with twice the room, up to the model's longest reply; then the cut reply is left as it is, and [`Reply::answer`] makes it [`Truncated`](ErrorKind::Truncated) |
/// | `pause_turn`, `compaction` | the reply is sent back unchanged and the model goes on, at most five times; then [`Cap`](ErrorKind::Cap) |
/// | `refusal`, `model_context_window_exceeded`, unknown ones | left as they are: [`Reply::answer`] says what they are |
/// | `end_turn`, `stop_sequence`, `tool_use` | left as they are |
///
/// A reply of several requests is joined: all content blocks in order, the last stop reason, the usage of all of them. A
/// reply that was cut after its text had been shown ([`Request::on_text`]) is not asked for again.
#[derive(Clone, Copy, Debug)]
pub struct Complete {
    grow: bool,
    resumes: u32,
}

impl Default for Complete {
    fn default() -> Self {
        Self { grow: true, resumes: 5 }
    }
}

impl Complete {
    /// Whether a reply cut at `max_tokens` is asked for once more with twice the room. Default: yes.
    #[must_use]
    pub fn grow(mut self, grow: bool) -> Self {
        self.grow = grow;
        self
    }

    /// How often a paused turn is resumed. Default: 5.
    #[must_use]
    pub fn resumes(mut self, resumes: u32) -> Self {
        self.resumes = resumes;
        self
    }

    /// Twice the room, if the model has it.
    fn more_room(llm: &dyn Llm, request: &Request) -> Option<u32> {
        let now = request.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
        let longest =
            llm.model(request).and_then(|model| limits(&model)).map_or(u32::MAX, |(longest, _)| longest);
        let more = now.saturating_mul(2).min(longest);
        (more > now).then_some(more)
    }
}

impl Layer for Complete {
    fn around<'a>(&'a self, llm: &'a dyn Llm, mut request: Request) -> BoxFuture<'a, Result<Reply>> {
        async move {
            let shows = request.on_text.as_ref().is_some_and(OnText::shows);
            tell_first_text(&mut request);
            let mut grown = !self.grow;
            let mut resumes = 0;
            let mut before = Vec::new(); // content of the paused replies
            let mut cut: Option<Reply> = None;
            let mut used = Usage::default();
            loop {
                request.tell(&Event::Sent);
                let mut reply = match (llm.call(request.clone()).await, cut.take()) {
                    (Ok(reply), _) => reply,
                    // the model has less room than that
                    (Err(error), Some(cut)) if error.kind() == ErrorKind::InvalidRequest => {
                        return Ok(joined(before, cut, used));
                    }
                    (Err(error), cut) => {
                        used += error.usage().copied().unwrap_or_default();
                        let mut error = error.at(&request.path);
                        if let (Some(cut), None) = (cut, error.partial()) {
                            error = error.with_partial(cut.text());
                        }
                        return Err(if used == Usage::default() { error } else { error.with_usage(used) });
                    }
                };
                used += reply.usage;
                match reply.stop {
                    Stop::MaxTokens if !grown && (!shows || reply.text().is_empty()) => {
                        grown = true;
                        if let Some(more) = Self::more_room(llm, &request) {
                            request.max_tokens = Some(more);
                            request.tell_with(|| Event::Continued { stop: reply.stop.as_str().to_owned() });
                            cut = Some(reply);
                            continue;
                        }
                    }
                    Stop::PauseTurn | Stop::Compaction if resumes < self.resumes => {
                        resumes += 1;
                        request.tell_with(|| Event::Continued { stop: reply.stop.as_str().to_owned() });
                        before.append(&mut reply.content);
                        resume(&mut request, &before, resumes > 1);
                        continue;
                    }
                    Stop::PauseTurn | Stop::Compaction => {
                        let reply = joined(before, reply, used);
                        let message = format!(
                            "the model paused its turn {} times without an end; ask for less in one turn",
                            resumes + 1
                        );
                        return Err(Error::new(ErrorKind::Cap, message)
                            .with_partial(reply.text())
                            .with_model(reply.model)
                            .with_usage(used)
                            .at(&request.path));
                    }
                    _ => {}
                }
                return Ok(joined(before, reply, used));
            }
        }
        .boxed()
    }
}

/// The reply with what came before it.
fn joined(mut before: Vec<Block>, mut reply: Reply, used: Usage) -> Reply {
    if !before.is_empty() {
        before.append(&mut reply.content);
        reply.content = before;
    }
    reply.usage = used;
    reply
}

/// Puts what the model wrote so far at the end of the conversation, as one turn.
fn resume(request: &mut Request, so_far: &[Block], again: bool) {
    if again {
        request.messages.pop();
    }
    request.messages.push(Message { role: Role::Assistant, content: so_far.to_vec() });
}

/// Tells when the first text of a streamed reply has come.
fn tell_first_text(request: &mut Request) {
    let Some(on_event) = request.on_event.clone() else { return };
    let Some(on_text) = request.on_text.take() else { return };
    let path = request.path.clone();
    let told = AtomicBool::new(false);
    request.on_text = Some(on_text.after(move |_| {
        if !told.swap(true, Ordering::Relaxed) {
            on_event.hear(&path, &Event::FirstText);
        }
    }));
}

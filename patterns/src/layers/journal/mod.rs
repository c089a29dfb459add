//! Writes down every reply, so that a run that was killed goes on where it was.

use std::collections::HashMap;
use std::path::Path as File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, FutureExt};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::Layer;
use crate::error::Result;
use crate::event::Event;
use crate::llm::{Llm, Request};
use crate::path::Path;
use crate::reply::{Reply, Stop, Usage};
use crate::request::is_default;

mod effect;
mod file;
mod key;

pub use effect::{Effect, Pending};
use file::{Lines, Span};
use key::{Fingerprint, Key, Seed};

/// Writes down every reply, and answers from what is written: a run that was killed and is started again with the same
/// journal makes only the calls that are missing.
///
/// The file is JSON Lines, only ever appended to: one line a finished call. A call is known again by its place in the flow
/// and a hash of its whole request, model and sample number included, never by the order of arrival; so a changed
/// prompt is asked anew, and with it whatever depends on its answer. The hash (SipHash-1-3, 128 bits) is keyed by random
/// numbers of each journal, so that no input can be made to look like another one. Of equal calls at one place (the same
/// words in every round of a loop) each gets a reply of its own.
///
/// Only answers and tool calls are written; failures, refusals and cut replies are asked for again. A last line that was torn
/// by a crash is dropped. The file belongs to one process at a time and is made readable to its owner only. A replayed call
/// uses and costs nothing: its [`usage`](Reply::usage) is empty.
///
/// Each line is handed to the operating system at once, which survives the death of the process, but not that of the machine.
#[derive(Clone, Debug)]
pub struct Journal {
    seed: Seed,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    lines: Lines,
    calls: HashMap<Key, Entries<Span>>,
    effects: HashMap<Key, Entries<Option<String>>>,
    replayed: u64,
}

/// What is written of equal calls, and how many of them this run has made.
#[derive(Debug)]
struct Entries<T> {
    written: Vec<T>,
    asked: usize,
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self { written: Vec::new(), asked: 0 }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "R: Deserialize<'de>"))]
struct Line<R> {
    path: Path,
    /// Which of several samples it was; to be seen by people, the hash has it, too.
    #[serde(default, skip_serializing_if = "is_default")]
    sample: u32,
    /// Of the request or the effect.
    hash: Fingerprint,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reply: Option<R>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    effect: Option<Stage>,
}

/// How far something with an effect has come.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stage {
    Begun,
    /// With this result.
    Done(String),
}

impl<R> Line<R> {
    fn reply(key: &Key, sample: u32, reply: R) -> Self {
        Self { path: key.path.clone(), sample, hash: key.hash, reply: Some(reply), effect: None }
    }

    fn effect(key: &Key, stage: Stage) -> Self {
        Self { path: key.path.clone(), sample: 0, hash: key.hash, reply: None, effect: Some(stage) }
    }
}

impl Journal {
    /// Opens a journal to go on with it, or begins one.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) when the file cannot be read or written, is in use by another run, or is no journal of this
    /// version.
    pub fn open(file: impl AsRef<File>) -> Result<Self> {
        let mut calls: HashMap<Key, Entries<Span>> = HashMap::new();
        let mut effects: HashMap<Key, Entries<Option<String>>> = HashMap::new();
        let (lines, seed) = Lines::open(file.as_ref(), |line, span| {
            let Ok(line) = serde_json::from_slice::<Line<IgnoredAny>>(line) else { return false };
            let key = Key { path: line.path, hash: line.hash };
            if line.reply.is_some() {
                calls.entry(key).or_default().written.push(span);
            } else {
                let written = &mut effects.entry(key).or_default().written;
                match line.effect {
                    Some(Stage::Begun) => written.push(None),
                    Some(Stage::Done(result)) => match written.iter_mut().find(|done| done.is_none()) {
                        Some(begun) => *begun = Some(result),
                        None => return false,
                    },
                    None => return false,
                }
            }
            true
        })?;
        Ok(Self { seed, state: Arc::new(Mutex::new(State { lines, calls, effects, replayed: 0 })) })
    }

    /// How many calls were answered from the journal.
    pub fn replayed(&self) -> u64 {
        self.state().replayed
    }

    /// How many replies are written.
    pub fn replies(&self) -> usize {
        self.state().calls.values().map(|entries| entries.written.len()).sum()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reply that is written for this call, if there is one.
    fn find(&self, key: &Key) -> Result<Option<Reply>> {
        let mut state = self.state();
        let Some(entries) = state.calls.get_mut(key) else { return Ok(None) };
        let Some(span) = entries.written.get(entries.asked).copied() else { return Ok(None) };
        entries.asked += 1;
        let line: Line<Reply> = state.lines.read(span)?;
        state.replayed += 1;
        Ok(line.reply.map(|reply| Reply { usage: Usage::default(), ..reply }))
    }

    fn write(&self, key: Key, sample: u32, reply: &Reply) -> Result<()> {
        let mut state = self.state();
        let span = state.lines.append(&Line::reply(&key, sample, reply))?;
        let entries = state.calls.entry(key).or_default();
        entries.written.reserve_exact(1); // there is seldom another
        entries.written.push(span);
        entries.asked += 1;
        Ok(())
    }
}

/// Whether the reply is one that a resumed run may go on with.
fn is_answer(reply: &Reply) -> bool {
    match &reply.stop {
        Stop::ToolUse => true,
        Stop::EndTurn | Stop::StopSequence(_) => reply.choice.is_some() || !reply.text().trim().is_empty(),
        _ => false,
    }
}

impl Layer for Journal {
    fn around<'a>(&'a self, llm: &'a dyn Llm, request: Request) -> BoxFuture<'a, Result<Reply>> {
        async move {
            let key = Key::of_call(self.seed, llm, &request)?;
            let sample = request.sample;
            if let Some(reply) = self.find(&key).map_err(|error| error.at(&request.path))? {
                request.tell(&Event::Replayed);
                if let Some(on_text) = &request.on_text {
                    on_text.hear(&reply.text());
                }
                return Ok(reply);
            }
            let reply = llm.call(request).await?;
            if is_answer(&reply) {
                let path = key.path.clone();
                self.write(key, sample, &reply).map_err(|error| error.at(&path).with_usage(reply.usage))?;
            }
            Ok(reply)
        }
        .boxed()
    }
}

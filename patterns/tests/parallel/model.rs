//! A model that plays a part: it answers by a closure, takes its time, and remembers what it was asked.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use patterns::{Choice, Error, ErrorKind, Event, Llm, Path, Reply, Request, Result, Stop};
use tokio::time::{Instant, sleep};

/// What the model does with a call.
pub(crate) struct Act {
    pub(crate) after: Duration,
    pub(crate) reply: Result<Reply>,
}

impl Act {
    /// Answers only after so many seconds.
    pub(crate) fn after(mut self, seconds: u64) -> Self {
        self.after = Duration::from_secs(seconds);
        self
    }
}

pub(crate) fn say(text: &str) -> Act {
    Act { after: Duration::ZERO, reply: Ok(Reply::text_of(text)) }
}

/// Chooses natively.
pub(crate) fn choose(label: &str) -> Act {
    let choice = Choice { label: label.to_owned(), reasoning: None, probabilities: Vec::new() };
    Act { after: Duration::ZERO, reply: Ok(Reply { choice: Some(choice), ..Reply::text_of(label) }) }
}

/// What no prompt may ever hold.
pub(crate) const CANARY: &str = "CANARY-7f3a";

pub(crate) fn fail(kind: ErrorKind) -> Act {
    Act { after: Duration::ZERO, reply: Err(Error::new(kind, format!("{CANARY} went wrong"))) }
}

pub(crate) fn stop(stop: Stop, text: &str) -> Act {
    Act { after: Duration::ZERO, reply: Ok(Reply { stop, ..Reply::text_of(text) }) }
}

/// One call as the model saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) prompt: String,
    pub(crate) sample: u32,
    pub(crate) model: Option<String>,
    pub(crate) start: Instant,
}

type Answer<'a> = Box<dyn Fn(&Request) -> Act + Send + Sync + 'a>;

pub(crate) struct Model<'a> {
    answer: Answer<'a>,
    seen: Mutex<Vec<Seen>>,
    events: Mutex<Vec<(String, Event)>>,
    active: AtomicUsize,
    peak: AtomicUsize,
    finished: AtomicUsize,
}

impl<'a> Model<'a> {
    pub(crate) fn new(answer: impl Fn(&Request) -> Act + Send + Sync + 'a) -> Self {
        Self {
            answer: Box::new(answer),
            seen: Mutex::default(),
            events: Mutex::default(),
            active: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
        }
    }

    /// Answers by the path of the call.
    pub(crate) fn by_path(answer: impl Fn(&str) -> Act + Send + Sync + 'a) -> Self {
        Self::new(move |request| answer(request.path.as_str()))
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn calls(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.path).collect()
    }

    /// The prompt of the only call at this path.
    pub(crate) fn prompt(&self, path: &str) -> String {
        let seen: Vec<_> = self.seen().into_iter().filter(|seen| seen.path == path).collect();
        assert_eq!(seen.len(), 1, "calls at `{path}`, of {:?}", self.paths());
        seen[0].prompt.clone()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().iter().map(|(_, event)| event.clone()).collect()
    }

    /// How the branches ended, in order of their end.
    pub(crate) fn ends(&self) -> Vec<(String, String)> {
        let ends = self.events().into_iter().filter_map(|event| match event {
            Event::BranchEnded { branch, outcome, .. } => Some((branch, outcome)),
            _ => None,
        });
        ends.collect()
    }

    pub(crate) fn degraded(&self) -> bool {
        self.events().iter().any(|event| matches!(event, Event::Degraded { .. }))
    }

    pub(crate) fn active(&self) -> usize {
        self.active.load(Ordering::SeqCst)
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::SeqCst)
    }

    /// How many calls were dropped under way.
    pub(crate) fn dropped(&self) -> usize {
        self.calls() - self.finished.load(Ordering::SeqCst) - self.active()
    }

    pub(crate) fn assert_no_canary(&self) {
        for seen in self.seen() {
            assert!(
                !seen.prompt.contains(CANARY),
                "error text in the prompt of {}: {}",
                seen.path,
                seen.prompt
            );
        }
    }
}

impl Llm for Model<'_> {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        async move {
            let texts: Vec<_> = request.messages.iter().map(|message| message.text().into_owned()).collect();
            self.seen.lock().unwrap().push(Seen {
                path: request.path.to_string(),
                prompt: format!("{}{}", request.system, texts.join("\n---\n")),
                sample: request.sample,
                model: request.model.clone(),
                start: Instant::now(),
            });
            let active = self.active.fetch_add(1, Ordering::SeqCst) + 1;
            self.peak.fetch_max(active, Ordering::SeqCst);
            let guard = Active(&self.active);
            let Act { after, reply } = (self.answer)(&request);
            if !after.is_zero() {
                sleep(after).await;
            }
            self.finished.fetch_add(1, Ordering::SeqCst);
            drop(guard);
            reply
        }
        .boxed()
    }

    fn note(&self, path: Path, event: Event) {
        self.events.lock().unwrap().push((path.to_string(), event));
    }
}

struct Active<'a>(&'a AtomicUsize);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Seconds of the paused clock since `start`.
pub(crate) fn seconds(start: Instant) -> u64 {
    start.elapsed().as_secs()
}

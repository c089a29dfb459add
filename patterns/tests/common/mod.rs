//! A scripted model for the tests of the patterns: it answers by the path of the call and remembers what it was asked.
#![allow(dead_code, clippy::unwrap_used)] // each test binary uses a part, and a test may panic

use std::sync::Mutex;

use futures::future::{BoxFuture, FutureExt};
use patterns::{Event, Llm, Path, Reply, Request, Result};

type Answer = Box<dyn Fn(&Request) -> Result<Reply> + Send + Sync>;

/// A model that answers by a closure, and remembers every request and event.
pub(crate) struct Model {
    answer: Answer,
    pub(crate) asked: Mutex<Vec<(String, String)>>,
    pub(crate) requests: Mutex<Vec<Request>>,
    pub(crate) told: Mutex<Vec<(String, Event)>>,
}

impl Model {
    pub(crate) fn new(answer: impl Fn(&Request) -> Result<Reply> + Send + Sync + 'static) -> Self {
        Self {
            answer: Box::new(answer),
            asked: Mutex::default(),
            requests: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// Answers with a text that depends on the path.
    pub(crate) fn by_path(answer: impl Fn(&str) -> &'static str + Send + Sync + 'static) -> Self {
        Self::new(move |request| Ok(Reply::text_of(answer(request.path.as_str()))))
    }

    /// Gives these replies, one a call.
    pub(crate) fn replies(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies: Mutex<Vec<Reply>> = Mutex::new(replies.into_iter().collect());
        Self::new(move |_| {
            let mut replies = replies.lock().unwrap();
            assert!(!replies.is_empty(), "one call more than there are replies");
            Ok(replies.remove(0))
        })
    }

    /// Answers with these texts, in turn; the last one again and again.
    pub(crate) fn in_turn(answers: &'static [&'static str]) -> Self {
        let next = Mutex::new(0);
        Self::new(move |_| {
            let mut next = next.lock().unwrap();
            let answer = answers[(*next).min(answers.len() - 1)];
            *next += 1;
            Ok(Reply::text_of(answer))
        })
    }

    pub(crate) fn calls(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(path, _)| path.clone()).collect()
    }

    /// Everything that was sent at this path: system prompt and turns.
    pub(crate) fn sent(&self, path: &str) -> String {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(at, _)| at == path).map(|(_, text)| text.clone()).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.told.lock().unwrap().iter().map(|(_, event)| event.clone()).collect()
    }
}

impl Llm for Model {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        let turns: Vec<_> = request.messages.iter().map(|message| message.text().into_owned()).collect();
        let text = format!("{}\n{}", request.system, turns.join("\n"));
        self.asked.lock().unwrap().push((request.path.to_string(), text));
        self.requests.lock().unwrap().push(request.clone());
        let reply = (self.answer)(&request).map_err(|error| error.at(&request.path));
        async move { reply }.boxed()
    }

    fn note(&self, path: Path, event: Event) {
        self.told.lock().unwrap().push((path.to_string(), event));
    }
}

//! Tells when a run starts and how it ends.

use crate::error::Result;
use crate::event::Event;
use crate::llm::Llm;
use crate::path::Path;
use crate::shape::Shape;

/// Awaits `run` and tells through `llm` when it starts ([`Event::RunStarted`]) and how it ends ([`Event::RunEnded`]), also
/// when it is dropped. See [the module](super) for an example.
///
/// # Errors
/// Those of `run`.
pub async fn told<T>(llm: &dyn Llm, shape: &Shape, run: impl Future<Output = Result<T>>) -> Result<T> {
    let calls = shape.calls();
    llm.note(
        Path::root(),
        Event::RunStarted { pattern: shape.pattern.clone(), fewest: calls.fewest, most: calls.most },
    );
    let mut end = End { llm, told: false };
    let result = run.await;
    match &result {
        Ok(_) => end.tell("ok", None, None),
        Err(error) => end.tell("failed", Some(error.kind().to_string()), Some(error.to_string())),
    }
    result
}

/// A run under way. When it is dropped without a result, it was cancelled.
struct End<'a> {
    llm: &'a dyn Llm,
    told: bool,
}

impl End<'_> {
    fn tell(&mut self, outcome: &str, error: Option<String>, reason: Option<String>) {
        self.told = true;
        self.llm.note(Path::root(), Event::RunEnded { outcome: outcome.to_owned(), error, reason });
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        if !self.told {
            self.tell("cancelled", None, None);
        }
    }
}

//! A listener for the whole run.

use futures::future::BoxFuture;

use super::Layer;
use crate::error::Result;
use crate::event::Event;
use crate::llm::{Llm, OnEvent, Request};
use crate::path::Path;
use crate::reply::Reply;

/// Tells a listener what happens in a run: what the patterns note and what the layers further in and the provider tell of
/// each call. It belongs outside of them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use std::sync::{Arc, Mutex};
/// use patterns::layers::Meter;
/// use patterns::{Flow, Llm, Reply, Request};
///
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let model = async |request: Request| Ok(Reply::text_of(request.text()));
/// let llm = model.meter(&Meter::default()).observe({
///     let seen = Arc::clone(&seen);
///     move |path, event| seen.lock().unwrap().push(format!("{path}: {event:?}"))
/// });
/// "Outline.".then("Write.").run(&llm, "bees").await?;
/// assert!(seen.lock().unwrap()[0].starts_with("step 1: CallStarted"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Observe(OnEvent);

impl Observe {
    /// Calls `listen` with each event and its place. It must not block.
    pub fn new(listen: impl Fn(&Path, &Event) + Send + Sync + 'static) -> Self {
        Self(OnEvent::new(listen))
    }
}

impl From<OnEvent> for Observe {
    fn from(on_event: OnEvent) -> Self {
        Self(on_event)
    }
}

impl Layer for Observe {
    fn around<'a>(&'a self, llm: &'a dyn Llm, mut request: Request) -> BoxFuture<'a, Result<Reply>> {
        request.on_event = Some(match request.on_event.take() {
            None => self.0.clone(),
            Some(outer) => {
                let own = self.0.clone();
                OnEvent::new(move |path, event| {
                    own.hear(path, event);
                    outer.hear(path, event);
                })
            }
        });
        llm.call(request)
    }

    fn hear(&self, path: &Path, event: &Event) {
        self.0.hear(path, event);
    }
}

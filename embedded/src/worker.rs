//! The thread that computes. All calls that are under way go through the model together, one batch after the other.

use crate::error::{Error, ErrorKind, Result};
use crate::model::{Found, Model, Span};
use crate::text::Text;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, mpsc};

/// The most tokens of one batch. Twice as many would be a little faster (the dense weights come from memory once for
/// each), but meanwhile nobody else gets a turn, and a call that was dropped is computed on.
const BATCH: usize = 128;

/// What the thread works with.
pub(crate) struct Shared {
    pub(crate) model: Model,
    pub(crate) text: Text,
    pub(crate) calibrations: crate::choose::Calibrations,
    pub(crate) under_way: AtomicUsize,
}

/// One call that is under way.
pub(crate) trait Job: Send {
    /// Whether somebody still waits for it.
    fn is_wanted(&self) -> bool;
    /// The tokens to be read next: at least one, at most about `room`.
    fn spans(&mut self, room: usize) -> Vec<Span<'_>>;
    /// Takes what was found out about its spans; true when the job is done.
    fn take(&mut self, shared: &Shared, found: Vec<Found>) -> bool;
    /// Ends the job.
    fn fail(&mut self, error: Error);
}

type Start = Box<dyn FnOnce(&Shared) -> Option<Box<dyn Job>> + Send>;

/// A handle to the thread; the thread ends with the last one.
#[derive(Clone)]
pub(crate) struct Worker(Sender<Start>);

impl Worker {
    pub(crate) fn start(shared: Arc<Shared>) -> Result<Worker> {
        let (sender, receiver) = mpsc::channel();
        // a pool of the engine's own: work that starts within a pool is handed out faster than from outside
        let pool = rayon::ThreadPoolBuilder::new()
            .thread_name(|n| format!("patterns-embedded {n}"))
            // without this a panic would end the process; like this the calls end with an error
            .panic_handler(|_| ())
            .build()
            .map_err(|error| Error::new(ErrorKind::Internal, format!("no threads for the model: {error}")))?;
        pool.spawn(move || work(&shared, &receiver));
        Ok(Worker(sender))
    }

    /// Has a job made and done. What `start` does is done on the thread too.
    pub(crate) fn submit(&self, start: impl FnOnce(&Shared) -> Option<Box<dyn Job>> + Send + 'static) {
        // when the thread is gone, the job's channel closes, and the caller hears of it there
        let _ = self.0.send(Box::new(start));
    }
}

fn work(shared: &Shared, starts: &Receiver<Start>) {
    let mut jobs: Vec<Box<dyn Job>> = Vec::new();
    loop {
        if jobs.is_empty() {
            let Ok(start) = starts.recv() else { return };
            jobs.extend(start(shared));
        }
        while let Ok(start) = starts.try_recv() {
            jobs.extend(start(shared));
        }
        jobs.retain(|job| job.is_wanted());
        shared.under_way.store(jobs.len(), Ordering::Relaxed);
        if !jobs.is_empty() {
            step(shared, &mut jobs);
        }
        shared.under_way.store(jobs.len(), Ordering::Relaxed);
        // whoever waits behind a full batch comes first in the next
        if !jobs.is_empty() {
            jobs.rotate_left(1);
        }
    }
}

/// One batch with as many jobs as have room in it.
fn step(shared: &Shared, jobs: &mut Vec<Box<dyn Job>>) {
    let (mut spans, mut counts) = (Vec::new(), Vec::new());
    let mut room = BATCH;
    for job in jobs.iter_mut() {
        if room == 0 {
            break;
        }
        let new = job.spans(room);
        room = room.saturating_sub(new.iter().map(|span| span.tokens.len()).sum());
        counts.push(new.len());
        spans.extend(new);
    }
    let found = shared.model.forward(&mut spans);
    drop(spans);
    let mut counts = counts.into_iter();
    match found {
        Ok(found) => {
            let mut found = found.into_iter();
            jobs.retain_mut(|job| match counts.next() {
                Some(count) => !job.take(shared, found.by_ref().take(count).collect()),
                None => true,
            });
        }
        Err(error) => jobs.retain_mut(|job| {
            let was_in_it = counts.next().is_some();
            if was_in_it {
                job.fail(Error::new(error.kind(), error.to_string()));
            }
            !was_in_it
        }),
    }
}

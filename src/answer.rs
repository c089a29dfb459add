//! The answer, shown on a terminal while it is written.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use patterns::{Event, OnText, Result};

use crate::progress::Progress;
use crate::terminal::{harmless, print_answer, say};

/// Standard output while a flow runs. Text is shown as it is written only on a terminal; a pipe gets the answer whole,
/// and nothing else.
#[derive(Clone)]
pub(crate) struct Answer {
    streams: bool,
    progress: Progress,
    shown: Arc<Mutex<String>>,
}

impl Answer {
    /// `whole`: the answer is not to be shown before it is there.
    pub(crate) fn new(whole: bool, progress: &Progress) -> Self {
        let streams = !whole && io::stdout().is_terminal();
        Self { streams, progress: progress.clone(), shown: Arc::default() }
    }

    /// The listener for the flow, if there is to be one.
    pub(crate) fn listener(&self) -> Option<OnText> {
        let answer = self.clone();
        self.streams.then(|| OnText::provisional(move |piece| answer.show(piece)))
    }

    fn shown(&self) -> MutexGuard<'_, String> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, piece: &str) {
        if piece.is_empty() {
            return;
        }
        let mut shown = self.shown();
        if shown.is_empty() {
            self.progress.leave(true); // this call is the last one
        }
        shown.push_str(piece);
        let mut out = io::stdout().lock();
        let _ = out.write_all(harmless(piece).as_bytes()).and_then(|()| out.flush());
    }

    /// Hears whether the reply that is being shown has to be written anew.
    pub(crate) fn hear(&self, event: &Event) {
        let anew = match event {
            Event::Retried { .. } => true,
            Event::Continued { stop } => stop == "max_tokens",
            _ => false,
        };
        if anew && self.end_line() {
            self.shown().clear();
            say("patterns: the reply broke off and is written anew");
            self.progress.leave(false);
        }
    }

    /// Ends the line of the text that was shown; false when none was.
    pub(crate) fn end_line(&self) -> bool {
        let mut shown = self.shown();
        if !shown.is_empty() && !shown.ends_with('\n') {
            shown.push('\n');
            let _ = writeln!(io::stdout().lock());
        }
        !shown.is_empty()
    }

    /// Shows the answer, unless it has been shown.
    pub(crate) fn finish(&self, text: &str) -> Result<()> {
        if self.shown().trim() == text.trim() {
            return Ok(());
        }
        print_answer(text)
    }
}

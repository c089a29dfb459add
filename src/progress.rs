//! What a person sees on standard error while a flow runs: the tree of what runs now, or a line for each event.

mod live;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use console::Term;
use futures::future::BoxFuture;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use patterns::layers::Layer;
use patterns::{Calls, Event, Llm, OnText, Path, Reply, Request, Result};

use crate::args::Show;
use crate::terminal::say;
use live::Live;
use patterns::trace::one_line;

/// How often the picture is drawn anew.
const FRAME: Duration = Duration::from_millis(100);
/// Takes the picture away, from the cursor on. What is erased from the very first cell of the screen, tmux keeps in its
/// history; so the first column is erased last.
const WIPE: &str = "\r\x1b[C\x1b[J\r\x1b[K";

/// The picture of a run while it runs, as a layer. Nothing is drawn when standard error is no terminal.
#[derive(Clone)]
pub(crate) struct Progress(Arc<Inner>);

struct Inner {
    how: Show,
    term: Term,
    calls: AtomicU64,
    state: Mutex<State>,
}

struct State {
    live: Live,
    started: Instant,
    running: bool,
    /// How many others have the terminal: a question is open while Ctrl-C is told.
    aside: usize,
}

impl Progress {
    pub(crate) fn new(quiet: bool, how: Show) -> Self {
        let term = Term::buffered_stderr();
        let how = match how {
            _ if quiet => Show::None,
            Show::Live if !term.is_term() || is_dumb() => Show::None,
            how => how,
        };
        let state = State { live: Live::default(), started: Instant::now(), running: false, aside: 0 };
        Self(Arc::new(Inner { how, term, calls: AtomicU64::new(0), state: Mutex::new(state) }))
    }

    /// Whether a picture is drawn.
    pub(crate) fn is_live(&self) -> bool {
        self.0.how == Show::Live
    }

    /// Begins to draw the run of a flow that makes so many calls.
    pub(crate) fn start(&self, calls: Calls) {
        let mut state = self.state();
        state.live = Live::new(calls);
        state.started = Instant::now();
        state.running = true;
        drop(state);
        if self.is_live() {
            let progress = self.clone();
            tokio::spawn(async move {
                let mut frames = tokio::time::interval(FRAME);
                loop {
                    frames.tick().await;
                    if !progress.draw() {
                        break;
                    }
                }
            });
        }
    }

    /// Draws the picture as it is now; false when the run is over.
    fn draw(&self) -> bool {
        let state = self.state();
        if !state.running || state.aside > 0 {
            return state.running;
        }
        let (rows, columns) = self.0.term.size();
        let most = usize::from(rows / 2).clamp(3, 14);
        let lines = state.live.lines(Instant::now(), most, usize::from(columns).saturating_sub(1));
        // The cursor stays at the beginning of the picture. So everything below it is the picture, however the terminal
        // breaks its lines when it gets narrower, and what a person types, as ^C, moves nothing. Lines are cut and not broken
        // (?7l) while the picture is drawn, since a terminal may be narrower than it has told yet.
        let mut frame = String::from("\r\x1b[?7l");
        for (n, line) in lines.iter().enumerate() {
            let _ = write!(frame, "{}{line}\x1b[K", if n > 0 { "\r\n" } else { "" });
        }
        let up = lines.len().saturating_sub(1);
        let _ =
            write!(frame, "\x1b[J\x1b[?7h{}\r", if up > 0 { format!("\x1b[{up}A") } else { String::new() });
        self.put(&frame);
        true
    }

    /// In one write, so that no half picture is seen.
    fn put(&self, frame: &str) {
        let _ = self.0.term.write_str(frame).and_then(|()| self.0.term.flush());
    }

    fn hear(&self, call: Option<u64>, path: &Path, event: &Event) {
        match self.0.how {
            Show::None => {}
            Show::Live => self.state().live.hear(Instant::now(), call, path, event),
            Show::Plain => {
                if !matches!(event, Event::Sent | Event::Used { .. } | Event::Quota { .. }) {
                    let at = self.state().started.elapsed().as_secs_f64();
                    let place = path.before("");
                    // what went wrong names its place, too
                    let words = event.to_string().replacen(&place, "", usize::from(!place.is_empty()));
                    say(&format!("[{at:8.3}] {}{words}", one_line(&place)));
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A bar for something that is fetched.
    pub(crate) fn bytes(&self, what: &str) -> ProgressBar {
        let target = if self.is_live() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style =
            ProgressStyle::with_template("  {prefix} {wide_bar:.cyan/dim} {bytes}/{total_bytes} {eta:.dim}");
        let bar = ProgressBar::with_draw_target(None, target).with_prefix(what.to_owned());
        bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }

    /// Leaves the terminal to somebody else for a while.
    pub(crate) fn aside<T>(&self, other: impl FnOnce() -> T) -> T {
        self.leave(true);
        let result = other();
        self.leave(false);
        result
    }

    /// Takes the picture off the terminal, or lets it be drawn again.
    pub(crate) fn leave(&self, away: bool) {
        let mut state = self.state();
        if away && state.aside == 0 {
            self.wipe(&state);
        }
        state.aside = if away { state.aside + 1 } else { state.aside.saturating_sub(1) };
    }

    /// Takes everything off the terminal.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        if state.aside == 0 {
            self.wipe(&state);
        }
        state.running = false;
    }

    fn wipe(&self, state: &State) {
        if state.running && self.0.how == Show::Live {
            self.put(WIPE);
        }
    }
}

/// Whether the terminal says that it cannot move its cursor.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

impl Layer for Progress {
    fn around<'a>(&'a self, llm: &'a dyn Llm, mut request: Request) -> BoxFuture<'a, Result<Reply>> {
        if self.0.how == Show::None || (self.0.how == Show::Live && !self.state().running) {
            return llm.call(request);
        }
        let call = self.0.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let progress = self.clone();
        request.listen(move |path, event| progress.hear(Some(call), path, event));
        if self.is_live() {
            // streamed, so that it can be seen how fast each call writes
            let progress = self.clone();
            let count = OnText::provisional(move |piece| progress.state().live.wrote(call, piece.len()));
            request.on_text = Some(match request.on_text.take() {
                Some(own) => count.and(own),
                None => count,
            });
        }
        llm.call(request)
    }

    fn hear(&self, path: &Path, event: &Event) {
        self.hear(None, path, event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_stays_away_until_everybody_has_left_the_terminal() {
        let progress = Progress::new(false, Show::Live);
        let is_away = || progress.state().aside > 0;
        progress.aside(|| {
            progress.aside(|| assert!(is_away()));
            assert!(is_away(), "a question is still open");
        });
        assert!(!is_away());
    }
}

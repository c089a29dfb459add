//! What a person sees on standard error while a flow runs: the tree of what runs now, or a line for each event.

mod live;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use console::{Term, measure_text_width};
use futures::future::BoxFuture;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use patterns::layers::Layer;
use patterns::{Calls, Event, Llm, OnText, Path, Reply, Request, Result};

use crate::args::Show;
use crate::terminal::{one_line, say};
use live::Live;

/// How often the picture is drawn anew.
const FRAME: Duration = Duration::from_millis(100);

/// The picture of a run while it runs, as a layer. Nothing is drawn when standard error is no terminal.
#[derive(Clone)]
pub(crate) struct Progress(Arc<Inner>);

struct Inner {
    how: Show,
    bars: MultiProgress,
    bar: ProgressBar,
    term: Term,
    calls: AtomicU64,
    /// Somebody else has the terminal.
    aside: AtomicBool,
    state: Mutex<State>,
}

struct State {
    live: Live,
    started: Instant,
    /// The widths of the lines on the screen, and that of the screen when they were drawn.
    drawn: (Vec<usize>, usize),
    running: bool,
}

impl Progress {
    pub(crate) fn new(quiet: bool, how: Show) -> Self {
        let term = Term::stderr();
        let how = match how {
            _ if quiet => Show::None,
            Show::Live if !term.is_term() => Show::None,
            how => how,
        };
        let target =
            if how == Show::Live { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bars = MultiProgress::with_draw_target(target);
        let bar = bars.add(ProgressBar::new_spinner().with_style(style("{msg}")));
        let state =
            State { live: Live::default(), started: Instant::now(), drawn: (Vec::new(), 0), running: false };
        let (calls, aside) = (AtomicU64::new(0), AtomicBool::new(false));
        Self(Arc::new(Inner { how, bars, bar, term, calls, aside, state: Mutex::new(state) }))
    }

    /// Begins to draw the run of a flow that makes so many calls.
    pub(crate) fn start(&self, calls: Calls) {
        let mut state = self.state();
        state.live = Live::new(calls);
        state.started = Instant::now();
        state.running = true;
        drop(state);
        if self.0.how == Show::Live {
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
        let mut state = self.state();
        if !state.running {
            return false;
        }
        if self.0.aside.load(Ordering::Relaxed) {
            return true;
        }
        let (rows, columns) = self.0.term.size();
        let (rows, columns) = (usize::from(rows), usize::from(columns));
        self.clean_up(&mut state, columns);
        let most = (rows / 2).clamp(3, 14);
        let lines = state.live.lines(Instant::now(), most, columns.saturating_sub(1));
        state.drawn = (lines.iter().map(|line| measure_text_width(line)).collect(), columns);
        self.0.bar.set_message(lines.join("\n"));
        self.0.bar.tick();
        true
    }

    /// Takes off the rows that a narrower terminal has made of the lines on the screen, of which indicatif does not know.
    fn clean_up(&self, state: &mut State, columns: usize) {
        let (widths, before) = &state.drawn;
        if columns >= *before || columns == 0 {
            return;
        }
        let Some((last, lines)) = widths.split_last() else { return };
        // indicatif fills the last line with blanks
        let rows = lines.iter().map(|width| width.div_ceil(columns).max(1)).sum::<usize>()
            + (*last).max(*before).div_ceil(columns).max(1);
        let more = rows.saturating_sub(widths.len());
        self.0.bars.suspend(|| {
            let _ = self.0.term.clear_last_lines(more);
        });
    }

    fn hear(&self, call: Option<u64>, path: &Path, event: &Event) {
        match self.0.how {
            Show::None => {}
            Show::Live => self.state().live.hear(Instant::now(), call, path, event),
            Show::Plain => {
                if !matches!(event, Event::Sent | Event::Used { .. } | Event::Quota { .. }) {
                    let at = self.state().started.elapsed().as_secs_f64();
                    let place = if path.is_root() { String::new() } else { format!("{path}: ") };
                    say(&format!("[{at:8.3}] {}", one_line(&format!("{place}{event}"))));
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A bar for something that is fetched.
    pub(crate) fn bytes(&self, what: &str) -> ProgressBar {
        let bar = self.0.bars.add(ProgressBar::no_length());
        bar.set_style(style("  {prefix} {wide_bar:.cyan/dim} {bytes}/{total_bytes} {eta:.dim}"));
        bar.set_prefix(what.to_owned());
        bar
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
        // under the lock, so that no picture is being drawn
        let mut state = self.state();
        self.0.aside.store(away, Ordering::Relaxed);
        if away {
            self.wipe(&mut state);
        }
    }

    /// Takes everything off the terminal.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.running = false;
        self.wipe(&mut state);
    }

    fn wipe(&self, state: &mut State) {
        let columns = usize::from(self.0.term.size().1);
        self.clean_up(state, columns);
        state.drawn = (Vec::new(), 0);
        self.0.bar.set_message("");
        let _ = self.0.bars.clear();
    }
}

impl Layer for Progress {
    fn around<'a>(&'a self, llm: &'a dyn Llm, mut request: Request) -> BoxFuture<'a, Result<Reply>> {
        if self.0.how == Show::None {
            return llm.call(request);
        }
        let call = self.0.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let progress = self.clone();
        request.listen(move |path, event| progress.hear(Some(call), path, event));
        if self.0.how == Show::Live {
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

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

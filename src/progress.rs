//! What a person sees on standard error while a flow runs: one line for each call under way, and a summary.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use patterns::{Event, Path};

/// How many calls have a line of their own; the rest is counted in the summary.
const LINES: usize = 8;

/// The picture of a run while it runs. Nothing is drawn when standard error is no terminal.
#[derive(Clone)]
pub(crate) struct Progress {
    bars: MultiProgress,
    state: Arc<Mutex<State>>,
}

struct State {
    summary: ProgressBar,
    lines: HashMap<String, ProgressBar>,
    under_way: usize,
    done: u64,
    tokens: u64,
    cost: f64,
}

impl Progress {
    pub(crate) fn new(quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bars = MultiProgress::with_draw_target(target);
        let summary = bars.add(ProgressBar::new_spinner());
        summary.set_style(style("{spinner:.dim} {msg} {elapsed:.dim}"));
        let state = State { summary, lines: HashMap::new(), under_way: 0, done: 0, tokens: 0, cost: 0.0 };
        Self { bars, state: Arc::new(Mutex::new(state)) }
    }

    /// Begins to draw.
    pub(crate) fn start(&self) {
        self.with(|state| state.summary.enable_steady_tick(Duration::from_millis(120)));
    }

    /// Hears what happens in the run.
    pub(crate) fn hear(&self, path: &Path, event: &Event) {
        let place = if path.is_root() { "call" } else { path.as_str() };
        match event {
            Event::CallStarted { .. } => self.with(|state| {
                state.under_way += 1;
                if state.lines.len() < LINES {
                    let line = self.bars.insert_before(&state.summary, ProgressBar::new_spinner());
                    line.set_style(style("  {spinner:.cyan} {prefix} {msg:.dim} {elapsed:.dim}"));
                    line.set_prefix(place.to_owned());
                    line.enable_steady_tick(Duration::from_millis(120));
                    state.lines.insert(place.to_owned(), line);
                }
            }),
            Event::CallEnded { usage, cost, .. } => self.with(|state| {
                state.under_way = state.under_way.saturating_sub(1);
                state.done += 1;
                state.tokens += usage.total_tokens();
                state.cost += cost.unwrap_or(0.0);
                if let Some(line) = state.lines.remove(place) {
                    line.finish_and_clear();
                    self.bars.remove(&line);
                }
            }),
            Event::Waiting { why, .. } => self.say(place, &format!("waits for {why}")),
            Event::Retried { attempt, reason, seconds, .. } => {
                self.say(place, &format!("attempt {attempt} failed ({reason}), again in {seconds:.1} s"));
            }
            Event::Sent => self.say(place, ""),
            Event::FirstText => self.say(place, "writes"),
            _ => {}
        }
    }

    fn say(&self, place: &str, message: &str) {
        self.with(|state| {
            if let Some(line) = state.lines.get(place) {
                line.set_message(message.to_owned());
            }
        });
    }

    fn with(&self, change: impl FnOnce(&mut State)) {
        if let Ok(mut state) = self.state.lock() {
            change(&mut state);
            let mut message = format!("{} calls done", state.done);
            if state.under_way > 0 {
                message.push_str(&format!(", {} under way", state.under_way));
            }
            if state.tokens > 0 {
                message.push_str(&format!(", {} tokens", state.tokens));
            }
            if state.cost > 0.0 {
                message.push_str(&format!(", ${:.4}", state.cost));
            }
            state.summary.set_message(message);
        }
    }

    /// A bar for something that is fetched.
    pub(crate) fn bytes(&self, what: &str) -> ProgressBar {
        let bar = self.bars.add(ProgressBar::no_length());
        bar.set_style(style("  {prefix} {wide_bar:.cyan/dim} {bytes}/{total_bytes} {eta:.dim}"));
        bar.set_prefix(what.to_owned());
        bar
    }

    /// Leaves the terminal to somebody else for a while.
    pub(crate) fn aside<T>(&self, other: impl FnOnce() -> T) -> T {
        self.bars.suspend(other)
    }

    /// Takes everything off the terminal.
    pub(crate) fn end(&self) {
        self.with(|state| {
            for (_, line) in state.lines.drain() {
                line.finish_and_clear();
            }
            state.summary.finish_and_clear();
        });
        let _ = self.bars.clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

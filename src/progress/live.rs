//! What runs now, as lines of text.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use console::{style, truncate_str};
use patterns::{Calls, Event, Path};

use patterns::trace::one_line;

/// The calls under way and what is over.
#[derive(Default)]
pub(super) struct Live {
    bounds: Calls,
    started: Option<Instant>,
    calls: BTreeMap<u64, Call>,
    /// By the path of a fan-out: how many branches there are, and how many have ended.
    branches: HashMap<String, (usize, usize)>,
    /// The latest that a pattern told at a place.
    remarks: HashMap<String, String>,
    done: u64,
    failed: u64,
    replayed: u64,
    saved: usize,
    tokens: u64,
    cost: f64,
}

struct Call {
    path: Path,
    state: State,
    since: Instant,
    wrote: usize,
}

#[derive(PartialEq)]
enum State {
    /// Waits for this, and perhaps until then.
    Waits(String, Option<Instant>),
    Asks,
    Writes,
}

impl Live {
    pub(super) fn new(bounds: Calls) -> Self {
        Self { bounds, started: Some(Instant::now()), ..Self::default() }
    }

    pub(super) fn hear(&mut self, now: Instant, call: Option<u64>, path: &Path, event: &Event) {
        match (event, call) {
            (Event::CallStarted { .. }, Some(n)) => {
                let call = Call { path: path.clone(), state: State::Asks, since: now, wrote: 0 };
                self.calls.insert(n, call);
            }
            (Event::CallEnded { usage, cost, outcome, .. }, Some(n)) => {
                self.calls.remove(&n);
                self.done += 1;
                self.failed += u64::from(outcome == "failed");
                self.replayed += u64::from(outcome == "replayed");
                self.tokens += usage.total_tokens();
                self.cost += cost.unwrap_or(0.0);
            }
            (Event::Waiting { why, seconds }, Some(n)) => self.turn(n, now, why.clone(), *seconds),
            (Event::Retried { error, seconds, .. }, Some(n)) => {
                self.turn(n, now, format!("the next attempt ({error})"), Some(*seconds));
            }
            (Event::Sent, Some(n)) => {
                if let Some(call) = self.calls.get_mut(&n) {
                    (call.state, call.since, call.wrote) = (State::Asks, now, 0);
                }
            }
            (Event::FirstText, Some(n)) => {
                if let Some(call) = self.calls.get_mut(&n) {
                    (call.state, call.since) = (State::Writes, now);
                }
            }
            (Event::FannedOut { branches }, _) => {
                self.branches.insert(path.as_str().to_owned(), (branches.len(), 0));
            }
            (Event::BranchEnded { .. }, _) => {
                if let Some((_, ended)) = self.branches.get_mut(path.as_str()) {
                    *ended += 1;
                }
            }
            (Event::Decided { saved, .. }, _) => self.saved += saved,
            (Event::Routed { .. } | Event::Judged { .. } | Event::Gate { open: false, .. }, _) => {
                self.remarks.insert(path.as_str().to_owned(), event.to_string());
            }
            _ => {}
        }
    }

    fn turn(&mut self, n: u64, now: Instant, why: String, seconds: Option<f64>) {
        if let Some(call) = self.calls.get_mut(&n) {
            let until = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()).map(|wait| now + wait);
            (call.state, call.since) = (State::Waits(why, until), now);
        }
    }

    /// Counts the bytes that a call has written.
    pub(super) fn wrote(&mut self, n: u64, bytes: usize) {
        if let Some(call) = self.calls.get_mut(&n) {
            call.wrote += bytes;
        }
    }

    /// The picture: at most `most` lines, none of them wider than `width`.
    pub(super) fn lines(&self, now: Instant, most: usize, width: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let room = most.saturating_sub(2);
        // those at work have a line before those that wait; their order is that of their start, so that none jumps
        let mut shown: Vec<u64> = self.calls.keys().copied().collect();
        if shown.len() > room {
            shown.sort_by_key(|n| (matches!(self.calls[n].state, State::Waits(..)), *n));
            shown.truncate(room);
            shown.sort_unstable();
        }
        let mut above: Vec<&str> = Vec::new();
        for n in &shown {
            let call = &self.calls[n];
            if lines.len() + usize::from(self.calls.len() > shown.len()) >= most - 1 {
                break;
            }
            let segments: Vec<&str> = call.path.segments().collect();
            let parents = segments.len().saturating_sub(1);
            // the places above are named once, in one line, when they change
            if above != segments[..parents] {
                above = segments[..parents].to_vec();
                if !above.is_empty() && lines.len() + 2 < most {
                    lines.push(self.place(&above));
                }
            }
            let indent = if above.is_empty() { "" } else { "  " };
            let name = segments.last().copied().unwrap_or("call");
            lines.push(format!("{indent}{} {}", style(one_line(name)).cyan(), describe(call, now)));
        }
        let hidden = self.calls.len() - shown.len();
        if hidden > 0 {
            let waiting = self.calls.values().filter(|call| matches!(call.state, State::Waits(..))).count();
            let at_work = self.calls.len() - waiting;
            let text = format!("… {hidden} more; {at_work} at work, {waiting} waiting");
            lines.push(style(text).dim().to_string());
        }
        lines.push(self.summary(now));
        lines.into_iter().map(|line| truncate_str(&line, width, "…").into_owned()).collect()
    }

    /// A place above calls, with how far its fan-out is and what its pattern told last.
    fn place(&self, segments: &[&str]) -> String {
        let path = segments.join("/");
        let mut line = style(one_line(&path)).bold().to_string();
        if let Some((all, ended)) = self.branches.get(&path) {
            line.push_str(&format!(" {ended} of {all} branches done"));
        }
        if let Some(remark) = self.remarks.get(&path) {
            line.push_str(&style(format!(" {remark}")).dim().to_string());
        }
        line
    }

    fn summary(&self, now: Instant) -> String {
        let elapsed = self.started.map_or(Duration::ZERO, |started| now.saturating_duration_since(started));
        let mut parts = Vec::new();
        parts.push(match (self.bounds.fewest, self.bounds.most) {
            (fewest, Some(most)) if fewest == most => format!("{} of {most} calls", self.done),
            (_, Some(most)) => format!("{} calls of at most {most}", self.done),
            (_, None) => format!("{} calls", self.done),
        });
        if let Some((all, ended)) = self.branches.get("") {
            parts.push(format!("{ended} of {all} branches"));
        }
        if self.failed > 0 {
            parts.push(format!("{} failed", self.failed));
        }
        if self.tokens > 0 {
            parts.push(format!("{} tokens", self.tokens));
        }
        if self.cost > 0.0 {
            parts.push(format!("${:.4}", self.cost));
        }
        let saved = self.saved as u64 + self.replayed;
        if saved > 0 {
            parts.push(format!("saved {saved}"));
        }
        parts.push(clock(elapsed));
        if let Some(left) = self.left(elapsed) {
            parts.push(format!("about {} left", clock(left)));
        }
        style(parts.join(" · ")).dim().to_string()
    }

    /// How long it will take, where the number of calls is certain and some are done.
    fn left(&self, elapsed: Duration) -> Option<Duration> {
        let most = self.bounds.most.filter(|most| *most == self.bounds.fewest)?;
        let left = u32::try_from(most.checked_sub(self.done)?).ok()?;
        let done = u32::try_from(self.done).ok().filter(|done| *done >= 2)?;
        (left > 0).then(|| elapsed / done * left)
    }
}

fn describe(call: &Call, now: Instant) -> String {
    let since = now.saturating_duration_since(call.since);
    let (text, time) = match &call.state {
        State::Waits(why, Some(until)) => {
            let left = until.saturating_duration_since(now).as_secs_f64();
            (format!("waits for {}, {left:.0} s more", one_line(why)), None)
        }
        State::Waits(why, None) => (format!("waits for {}", one_line(why)), Some(since)),
        State::Asks => ("asks".to_owned(), Some(since)),
        State::Writes => (format!("writes{}", rate(call.wrote, since)), Some(since)),
    };
    let time = time.map(|time| format!(" {}", clock(time))).unwrap_or_default();
    style(format!("{text}{time}")).dim().to_string()
}

/// How fast a call writes. What a token is only the provider knows; four bytes are about one.
#[allow(clippy::cast_precision_loss)]
fn rate(bytes: usize, since: Duration) -> String {
    if since < Duration::from_millis(300) {
        return String::new();
    }
    format!(", about {:.0} tokens/s", bytes as f64 / 4.0 / since.as_secs_f64())
}

fn clock(time: Duration) -> String {
    let s = time.as_secs();
    if s >= 3600 {
        format!("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
    } else {
        format!("{}:{:02}", s / 60, s % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use console::measure_text_width;
    use patterns::Usage;

    fn busy(n: u64) -> (Live, Instant) {
        let (mut live, now) = (Live::new(Calls::exactly(n)), Instant::now());
        for call in 1..=n {
            let path = Path::from(&*format!("section {call}"));
            live.hear(now, Some(call), &path, &Event::CallStarted { model: None });
            let event = if call % 10 == 0 {
                Event::Sent
            } else {
                Event::Waiting { why: "a slot".into(), seconds: None }
            };
            live.hear(now, Some(call), &path, &event);
        }
        (live, now)
    }

    #[test]
    fn two_hundred_branches_fit_on_the_screen_and_those_at_work_are_seen() {
        let (live, now) = busy(200);
        for (most, width) in [(3, 20), (12, 40), (12, 79), (14, 119)] {
            let lines = live.lines(now, most, width);
            assert!(lines.len() <= most, "{lines:#?}");
            assert!(lines.iter().all(|line| measure_text_width(line) <= width), "{lines:#?}");
        }
        let lines = live.lines(now, 12, 79).join("\n");
        assert!(lines.contains("section 10") && lines.contains("section 100"), "{lines}");
        assert!(lines.contains("190 more; 20 at work, 180 waiting"), "{lines}");
    }

    #[test]
    fn a_call_that_has_ended_leaves_no_line() {
        let (mut live, now) = busy(3);
        for call in 1..=3 {
            let event = Event::CallEnded {
                model: None,
                usage: Usage { output_tokens: 5, ..Usage::default() },
                cost: Some(0.5),
                outcome: "ok".into(),
                stop: None,
                error: None,
                reason: None,
            };
            live.hear(now, Some(call), &Path::from("section"), &event);
        }
        let lines = live.lines(now, 12, 79);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("3 of 3 calls · 15 tokens · $1.5000"), "{lines:?}");
    }

    #[test]
    fn what_a_model_wrote_cannot_move_the_cursor() {
        let (mut live, now) = (Live::new(Calls::ANY), Instant::now());
        let path = Path::from("task \u{1b}[2Jgone\nfar");
        live.hear(now, Some(1), &path, &Event::CallStarted { model: None });
        let lines = live.lines(now, 12, 79);
        let plain = console::strip_ansi_codes(&lines[0]);
        assert!(plain.starts_with("task  [2Jgone far asks"), "{plain:?}");
    }
}

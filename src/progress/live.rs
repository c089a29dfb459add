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
    now: BTreeMap<Key, Now>,
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

/// A call by its number, or a tool by the path of its turn and the id of its call.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Call(u64),
    Tool(String, String),
}

/// Something under way.
struct Now {
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
    /// A tool of this name.
    Runs(String),
}

impl Now {
    fn waits(&self) -> bool {
        matches!(self.state, State::Waits(..))
    }
}

impl Live {
    pub(super) fn new(bounds: Calls) -> Self {
        Self { bounds, started: Some(Instant::now()), ..Self::default() }
    }

    pub(super) fn hear(&mut self, now: Instant, call: Option<u64>, path: &Path, event: &Event) {
        match (event, call) {
            (Event::CallStarted { .. }, Some(n)) => {
                self.begin(Key::Call(n), path, State::Asks, now);
            }
            (Event::ToolCall { id, name, .. }, _) => {
                let key = Key::Tool(path.as_str().to_owned(), id.clone());
                self.begin(key, path, State::Runs(name.clone()), now);
            }
            (Event::ToolResult { id, .. }, _) => {
                self.now.remove(&Key::Tool(path.as_str().to_owned(), id.clone()));
            }
            (Event::CallEnded { usage, cost, outcome, .. }, Some(n)) => {
                self.now.remove(&Key::Call(n));
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
                if let Some(call) = self.now.get_mut(&Key::Call(n)) {
                    (call.state, call.since, call.wrote) = (State::Asks, now, 0);
                }
            }
            (Event::FirstText, Some(n)) => {
                if let Some(call) = self.now.get_mut(&Key::Call(n)) {
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

    fn begin(&mut self, key: Key, path: &Path, state: State, since: Instant) {
        self.now.insert(key, Now { path: path.clone(), state, since, wrote: 0 });
    }

    fn turn(&mut self, n: u64, now: Instant, why: String, seconds: Option<f64>) {
        if let Some(call) = self.now.get_mut(&Key::Call(n)) {
            let until = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()).map(|wait| now + wait);
            (call.state, call.since) = (State::Waits(why, until), now);
        }
    }

    /// Counts the bytes that a call has written.
    pub(super) fn wrote(&mut self, n: u64, bytes: usize) {
        if let Some(call) = self.now.get_mut(&Key::Call(n)) {
            call.wrote += bytes;
        }
    }

    /// The picture: at most `most` lines, none of them wider than `width`.
    pub(super) fn lines(&self, now: Instant, most: usize, width: usize) -> Vec<String> {
        let room = most.saturating_sub(1);
        let mut lines = Vec::new();
        let mut above: &str = "";
        let order = self.order(room);
        let mut drawn = 0;
        for key in order {
            let call = &self.now[key];
            let (parent, name) = call.path.as_str().rsplit_once('/').unwrap_or(("", call.path.as_str()));
            let free = room - lines.len() - usize::from(drawn + 1 < self.now.len());
            if free == 0 {
                break;
            }
            // the places above are named once, in one line, when they change
            if parent != above && !parent.is_empty() && free > 1 {
                lines.push(self.place(parent));
                above = parent;
            }
            let (indent, name) = match name {
                "" => ("", "call"),
                _ if parent.is_empty() => ("", name),
                _ if parent == above => ("  ", name),
                _ => ("", call.path.as_str()),
            };
            lines.push(format!("{indent}{} {}", style(one_line(name)).cyan(), describe(call, now)));
            drawn += 1;
        }
        let hidden = self.now.len() - drawn;
        if hidden > 0 {
            let waiting = self.now.values().filter(|call| call.waits()).count();
            let at_work = self.now.len() - waiting;
            let text = format!("… {hidden} more; {at_work} at work, {waiting} waiting");
            lines.push(style(text).dim().to_string());
        }
        lines.push(self.summary(now, width));
        lines.into_iter().map(|line| truncate_str(&line, width, "…").into_owned()).collect()
    }

    /// What has a line, in the order of the lines. Those at work come before those that wait when there is no room for all;
    /// else the order is that of their start, so that none jumps, with those of one place together.
    fn order(&self, room: usize) -> Vec<&Key> {
        let mut order: Vec<_> = self.now.iter().collect();
        if order.len() > room {
            order.sort_by_key(|(_, call)| call.waits());
            order.truncate(room);
            order.sort_unstable_by_key(|(key, _)| *key);
        }
        let mut first = HashMap::new();
        let mut keyed: Vec<_> = order
            .into_iter()
            .map(|(key, call)| {
                let parent = call.path.as_str().rsplit_once('/').map_or("", |(parent, _)| parent);
                (*first.entry(parent).or_insert(key), key)
            })
            .collect();
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, key)| key).collect()
    }

    /// A place above calls, with how far its fan-out is and what its pattern told last.
    fn place(&self, path: &str) -> String {
        let mut line = style(one_line(path)).bold().to_string();
        if let Some((all, ended)) = self.branches.get(path) {
            line.push_str(&format!(" {ended} of {all} branches done"));
        }
        if let Some(remark) = self.remarks.get(path) {
            line.push_str(&style(format!(" {remark}")).dim().to_string());
        }
        line
    }

    /// What the run has come to so far. Where there is no room for all, the least telling parts are left out.
    fn summary(&self, now: Instant, width: usize) -> String {
        let elapsed = self.started.map_or(Duration::ZERO, |started| now.saturating_duration_since(started));
        let calls = match (self.bounds.fewest, self.bounds.most) {
            (fewest, Some(most)) if fewest == most => format!("{} of {most} calls", self.done),
            (_, Some(most)) => format!("{} of at most {most} calls", self.done),
            (_, None) => format!("{} {}", self.done, if self.done == 1 { "call" } else { "calls" }),
        };
        let branches = self.branches.get("").map(|(all, ended)| format!("{ended} of {all} branches"));
        let saved = self.saved as u64 + self.replayed;
        // with how soon a part is left out
        let parts = [
            (1, Some(calls)),
            (4, branches),
            (3, (self.failed > 0).then(|| format!("{} failed", self.failed))),
            (6, (self.tokens > 0).then(|| format!("{} tokens", self.tokens))),
            (3, (self.cost > 0.0).then(|| format!("${:.4}", self.cost))),
            (5, (saved > 0).then(|| format!("saved {saved}"))),
            (0, Some(clock(elapsed))),
            (2, self.left(elapsed).map(|left| format!("about {} left", clock(left)))),
        ];
        let join = |most: u8| {
            let parts = parts.iter().filter(|(place, _)| *place <= most);
            parts.filter_map(|(_, part)| part.as_deref()).collect::<Vec<_>>().join(" · ")
        };
        let fits = (0..=6).rev().map(join).find(|line| line.chars().count() <= width);
        style(fits.unwrap_or_default()).dim().to_string()
    }

    /// How long it will take, where it is certain how many calls or branches there are and some are done.
    fn left(&self, elapsed: Duration) -> Option<Duration> {
        let (all, done) = match (self.bounds.most, self.branches.get("")) {
            (Some(most), _) if most == self.bounds.fewest => (most, self.done),
            (_, Some((all, ended))) => (*all as u64, *ended as u64),
            _ => return None,
        };
        let left = u32::try_from(all.checked_sub(done)?).ok()?;
        let done = u32::try_from(done).ok().filter(|done| *done >= 2)?;
        (left > 0).then(|| elapsed * left / done)
    }
}

fn describe(call: &Now, now: Instant) -> String {
    let since = now.saturating_duration_since(call.since);
    let (text, time) = match &call.state {
        State::Waits(why, Some(until)) => {
            let left = until.saturating_duration_since(now).as_secs_f64();
            (format!("waits for {}, {left:.0} s more", one_line(why)), None)
        }
        State::Waits(why, None) => (format!("waits for {}", one_line(why)), Some(since)),
        State::Asks => ("asks".to_owned(), Some(since)),
        State::Runs(tool) => (format!("runs {}", one_line(tool)), Some(since)),
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
    fn whatever_has_no_line_is_counted_and_each_place_is_named_once() {
        let (mut live, now) = (Live::new(Calls::ANY), Instant::now());
        // the calls of many places come in turn
        for call in 0..30 {
            let path = Path::from(&*format!("input {}/step {call}", call % 10));
            live.hear(now, Some(call), &path, &Event::CallStarted { model: None });
        }
        for most in 3..40 {
            let lines = live.lines(now, most, 79);
            assert!(lines.len() <= most, "{most}: {lines:#?}");
            let drawn = lines.iter().filter(|line| line.contains(" asks")).count();
            let hidden = lines.iter().find_map(|line| {
                console::strip_ansi_codes(line).strip_prefix("… ")?.split(' ').next()?.parse::<usize>().ok()
            });
            assert_eq!(drawn + hidden.unwrap_or(0), 30, "{most}: {lines:#?}");
            let places: Vec<_> =
                lines.iter().filter(|line| !line.contains(' ') || !line.contains("step")).collect();
            let mut once = places.clone();
            once.dedup();
            assert_eq!(places, once);
        }
        assert_eq!(live.lines(now, 50, 79).len(), 30 + 10 + 1);
    }

    #[test]
    fn a_tool_that_runs_is_seen() {
        let (mut live, now) = (Live::new(Calls::ANY), Instant::now());
        let (id, name, turn) = ("toolu_1".to_owned(), "search".to_owned(), Path::from("turn 1"));
        let call = Event::ToolCall { id: id.clone(), name: name.clone(), input: "x".into() };
        live.hear(now, None, &turn, &call);
        let later = now + Duration::from_secs(65);
        assert_eq!(console::strip_ansi_codes(&live.lines(later, 12, 79)[0]), "turn 1 runs search 1:05");
        live.hear(now, None, &turn, &Event::ToolResult { id, name, characters: 3, error: None });
        assert_eq!(live.lines(later, 12, 79).len(), 1);
    }

    #[test]
    fn what_is_left_is_told_where_it_is_certain_how_much_there_is() {
        let mut live = Live::new(Calls::between(1, 50)); // as of a list whose length is not known before
        let started = Instant::now();
        let after = |live: &Live, s| live.lines(started + Duration::from_secs(s), 12, 79).pop().unwrap();
        assert!(!after(&live, 10).contains("left"));
        let branches: Vec<String> = (1..=10).map(|n| n.to_string()).collect();
        live.hear(started, None, &Path::root(), &Event::FannedOut { branches: branches.clone() });
        for branch in &branches[..4] {
            let event = Event::BranchEnded { branch: branch.clone(), outcome: "ok".into(), reason: None };
            live.hear(started, None, &Path::root(), &event);
        }
        assert!(
            after(&live, 10).contains("4 of 10 branches · 0:10 · about 0:15 left"),
            "{}",
            after(&live, 10)
        );
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

//! A run as a timeline in text.

use std::fmt::Write as _;
use std::time::Duration;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::run::{Call, Node, Run, Sum};
use super::tools::Ran;
use crate::draw::one_line;
use crate::path::Path;
use crate::price::Usd;

/// How many siblings have a line each; the others are put together in one.
const SIBLINGS: usize = 12;

/// A terminal that has fewer columns breaks the lines.
const NARROWEST: usize = 20;

/// From so many columns on there is room for remarks beside the bars.
const REMARKS: usize = 44;

impl Run {
    /// The run as a timeline for a terminal of `width` columns: a line for every place and call, `█` for work, `░` for
    /// waiting, `▒` for the tools of an agent's turn, `*` before the calls of the [critical path](Self::critical_path), and below what it came to. Of many
    /// siblings only some have a line of their own, those of the critical path among them.
    pub fn gantt(&self, width: usize) -> String {
        let legs = self.critical_path();
        let mut critical = vec![false; self.calls.len()];
        for leg in &legs {
            critical[leg.call] = true;
        }
        let mut rows = Vec::new();
        let (tree, tools) = (self.tree(), self.tools());
        lines(self, &tree, &critical, 0, &mut rows);
        for tool in &tools {
            // a place that has no line of its own tells only how long its calls took
            if let Some(row) = rows.iter_mut().find(|row| row.path.as_ref() == Some(&tool.path)) {
                row.tools.push(tool);
            }
        }
        let mut out = String::new();
        if !rows.is_empty() {
            draw(self, &rows, width.max(NARROWEST), &mut out);
            out.push('\n');
        }
        self.summary(&legs, &tools, &mut out);
        out
    }

    fn summary(&self, legs: &[super::Leg], tools: &[Ran], out: &mut String) {
        let total = self.total();
        let pattern = self.pattern.as_deref().unwrap_or("run");
        let line = format!("{pattern}: {}, {} in {}", self.ended(), calls(&total), short(self.end));
        let _ = writeln!(out, "{}", one_line(&line));
        let at_once =
            if self.end.is_zero() { 0.0 } else { total.worked.as_secs_f64() / self.end.as_secs_f64() };
        let _ = writeln!(
            out,
            "time: work {}, waiting {}; {at_once:.1} calls at work on average, none for {:.0} % of the time",
            short(total.worked),
            short(total.waited),
            100.0 * self.idle()
        );
        let on = |time: fn(&Call) -> Duration| legs.iter().map(|leg| time(&self.calls[leg.call])).sum();
        let gaps: Duration = legs.iter().map(|leg| leg.gap).sum();
        let _ = writeln!(
            out,
            "critical path: {}, work {}, waiting {}, between calls {}",
            number(legs.len()),
            short(on(Call::worked)),
            short(on(Call::waited)),
            short(gaps)
        );
        if !tools.is_empty() {
            let time: Duration = tools.iter().map(Ran::length).sum();
            let runs = if tools.len() == 1 { "run" } else { "runs" };
            let _ = write!(out, "tools: {} {runs}, {}", tools.len(), short(time));
            match tools.iter().filter(|tool| tool.failed).count() {
                0 => out.push('\n'),
                failed => {
                    let _ = writeln!(out, ", {failed} failed");
                }
            }
        }
        let usage = &total.usage;
        let _ = write!(out, "tokens: {} + {}", usage.prompt_tokens(), usage.output_tokens);
        if usage.cache_read_tokens > 0 {
            let _ = write!(out, ", {:.0} % of the prompts read from the cache", 100.0 * total.cached());
        }
        let _ = writeln!(out, "\ncost: {}", cost(&total));
        if self.saved() > 0 {
            let _ = write!(out, "saved by stopping early: {}", number(self.saved()));
            if let Some(each) = self.cost_of_a_ballot() {
                let _ = write!(out, ", about {}", Usd::new(each * count(self.saved())));
            }
            out.push('\n');
        }
        if total.replayed > 0 {
            let _ = writeln!(out, "from the journal: {}", number(total.replayed));
        }
        if self.unread > 0 {
            let _ = writeln!(out, "{} lines of the trace could not be read", self.unread);
        }
    }

    /// What a ballot that was heard cost on average, in USD.
    pub(super) fn cost_of_a_ballot(&self) -> Option<f64> {
        let ballots = self.calls.iter().filter(|call| {
            call.outcome == "ok" && call.path.segments().any(|segment| segment.starts_with("voter "))
        });
        let costs: Option<Vec<Usd>> = ballots.map(|call| call.cost).collect();
        let costs = costs.filter(|costs| !costs.is_empty())?;
        let n = count(costs.len());
        let mean = costs.into_iter().sum::<Usd>().dollars() / n;
        (mean > 0.0).then_some(mean)
    }
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn count(n: usize) -> f64 {
    n as f64
}

/// The name of a place as a person may see it.
pub(super) fn shown(name: &str) -> String {
    one_line(&name.replace("%2F", "/"))
}

/// A line of the timeline.
struct Row<'a> {
    label: String,
    /// The place, if it is one.
    path: Option<Path>,
    calls: Vec<&'a Call>,
    tools: Vec<&'a Ran>,
    critical: bool,
    sum: Sum,
}

/// The line of a place and those of what is below it.
fn lines<'a>(run: &'a Run, node: &Node, critical: &[bool], depth: usize, rows: &mut Vec<Row<'a>>) {
    let label = |name: &str| format!("{}{}", "  ".repeat(depth.saturating_sub(1)), shown(name));
    let is_critical = |node: &Node| covered(node).iter().any(|n| critical[*n]);
    if depth > 0 || !node.calls.is_empty() {
        let name = if depth == 0 { "call" } else { &node.name };
        let own = if node.children.is_empty() { node.sum } else { sum(run, &node.calls) };
        rows.push(Row {
            label: label(name),
            path: Some(node.path.clone()),
            tools: Vec::new(),
            calls: node.calls.iter().map(|n| &run.calls[*n]).collect(),
            critical: node.calls.iter().any(|n| critical[*n]),
            sum: own,
        });
    }
    let many = node.children.len() > SIBLINGS;
    let mut rest = Vec::new();
    for (n, child) in node.children.iter().enumerate() {
        if !many || n < SIBLINGS / 2 || (is_critical(child) && rows.len() < 200) {
            lines(run, child, critical, depth + 1, rows);
        } else {
            rest.push(child);
        }
    }
    if !rest.is_empty() {
        let calls: Vec<usize> = rest.iter().flat_map(|child| covered(child)).collect();
        rows.push(Row {
            label: format!("{}… {} more", "  ".repeat(depth), rest.len()),
            path: None,
            tools: Vec::new(),
            calls: calls.iter().map(|n| &run.calls[*n]).collect(),
            critical: rest.iter().any(|child| is_critical(child)),
            sum: sum(run, &calls),
        });
    }
}

/// The calls of a place and of all below it.
fn covered(node: &Node) -> Vec<usize> {
    let mut calls = node.calls.clone();
    for child in &node.children {
        calls.extend(covered(child));
    }
    calls
}

fn sum(run: &Run, calls: &[usize]) -> Sum {
    let mut sum = Sum::default();
    for n in calls {
        sum += Sum::of(&run.calls[*n]);
    }
    sum
}

fn draw(run: &Run, rows: &[Row<'_>], width: usize, out: &mut String) {
    let remarks: Vec<String> = rows.iter().map(remark).collect();
    let widest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let labels = widest(&mut rows.iter().map(|row| row.label.width())).clamp(4, width / 3);
    let room = if width < REMARKS { 0 } else { width * 2 / 5 };
    let after = widest(&mut remarks.iter().map(|remark| remark.width())).min(room);
    let columns = width - labels - after - if after > 0 { 6 } else { 4 };
    let _ = writeln!(out, "  {}  {}", pad("", labels), axis(run.end, columns));
    for (row, remark) in rows.iter().zip(&remarks) {
        let mark = if row.critical { '*' } else { ' ' };
        let bar = bar(row, run.end, columns);
        let remark = if after > 0 { cut(remark, after) } else { String::new() };
        let line = format!("{mark} {}  {bar}  {remark}", pad(&row.label, labels));
        out.push_str(line.trim_end());
        out.push('\n');
    }
    let phases = |waits: bool| {
        rows.iter()
            .flat_map(|row| &row.calls)
            .flat_map(|call| &call.phases)
            .any(|phase| phase.wait.is_some() == waits)
    };
    let legend = [
        (phases(false), "█ work"),
        (phases(true), "░ waiting"),
        (rows.iter().any(|row| !row.tools.is_empty()), "▒ tools"),
        (rows.iter().any(|row| row.critical), "* critical path"),
    ];
    let legend: Vec<_> = legend.into_iter().filter(|(is, _)| *is).map(|(_, what)| what).collect();
    let _ = writeln!(out, "{}", cut(&format!("  {}", legend.join("  ")), width));
}

fn remark(row: &Row<'_>) -> String {
    if row.calls.is_empty() {
        return String::new();
    }
    let start = row.calls.iter().map(|call| call.start).min().unwrap_or_default();
    let end = row.calls.iter().map(|call| call.end).max().unwrap_or_default();
    let mut remark = short(end.saturating_sub(start));
    if !row.tools.is_empty() {
        let time: Duration = row.tools.iter().map(|tool| tool.length()).sum();
        let _ = write!(remark, " + {} tools", short(time));
    }
    if row.sum.unpriced == 0 && row.sum.priced > Usd::ZERO {
        let _ = write!(remark, " {}", row.sum.priced);
    }
    let sum = &row.sum;
    let counted = [
        (sum.replayed, "replayed"),
        (sum.failed, "failed"),
        (sum.cancelled, "cancelled"),
        (sum.unfinished, "unfinished"),
        (sum.retries, if sum.retries == 1 { "retry" } else { "retries" }),
    ];
    for (n, what) in counted.into_iter().filter(|(n, _)| *n > 0) {
        let _ = if sum.calls == 1 && what != "retry" && what != "retries" {
            write!(remark, " {what}")
        } else {
            write!(remark, " {n} {what}")
        };
    }
    if sum.cached() > 0.0 {
        let _ = write!(remark, " {:.0} % cached", 100.0 * sum.cached());
    }
    remark
}

/// Where in `columns` a time is drawn.
fn column(at: Duration, end: Duration, columns: usize) -> usize {
    if end.is_zero() {
        return 0;
    }
    let at = at.as_nanos() * columns as u128 / end.as_nanos();
    usize::try_from(at).unwrap_or(columns).min(columns)
}

/// Work covers tools, and they cover waiting.
fn bar(row: &Row<'_>, end: Duration, columns: usize) -> String {
    let mut cells = vec![' '; columns];
    let phases = row.calls.iter().flat_map(|call| &call.phases);
    let waits =
        phases.clone().filter(|phase| phase.wait.is_some()).map(|phase| (phase.start, phase.end, '░'));
    let tools = row.tools.iter().map(|tool| (tool.start, tool.end, '▒'));
    let work = phases.filter(|phase| phase.wait.is_none()).map(|phase| (phase.start, phase.end, '█'));
    for (start, stop, mark) in waits.chain(tools).chain(work) {
        let from = column(start, end, columns).min(columns - 1);
        let to = column(stop, end, columns).max(from + 1);
        cells[from..to.min(columns)].fill(mark);
    }
    cells.into_iter().collect()
}

fn axis(end: Duration, columns: usize) -> String {
    let to = short(end);
    format!("0{}{to}", "·".repeat(columns.saturating_sub(1 + to.width())))
}

/// `text`, cut or filled to `width` columns.
fn pad(text: &str, width: usize) -> String {
    let text = cut(text, width);
    let fill = width.saturating_sub(text.width());
    text + &" ".repeat(fill)
}

fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut out, mut used) = (String::new(), 1);
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// A time in three digits or so.
pub(super) fn short(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds >= 3600.0 {
        format!("{} h {:02} min", time.as_secs() / 3600, time.as_secs() / 60 % 60)
    } else if seconds >= 100.0 {
        format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60)
    } else if seconds >= 10.0 {
        format!("{seconds:.1} s")
    } else if seconds >= 1.0 {
        format!("{seconds:.2} s")
    } else {
        format!("{:.0} ms", seconds * 1e3)
    }
}

pub(super) fn number(calls: impl TryInto<u64>) -> String {
    let calls = calls.try_into().unwrap_or(u64::MAX);
    format!("{calls} {}", if calls == 1 { "call" } else { "calls" })
}

pub(super) fn calls(sum: &Sum) -> String {
    let mut text = number(sum.calls);
    let parts = [
        (sum.failed, "failed"),
        (sum.cancelled, "cancelled"),
        (sum.replayed, "from the journal"),
        (sum.unfinished, "unfinished"),
    ];
    let parts: Vec<_> = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if !parts.is_empty() {
        let _ = write!(text, " ({})", parts.join(", "));
    }
    text
}

pub(super) fn cost(sum: &Sum) -> String {
    match (sum.cost(), sum.priced > Usd::ZERO) {
        (Some(cost), _) => cost.to_string(),
        (None, true) => format!("{} and more, which is unknown", sum.priced),
        (None, false) => "unknown".to_owned(),
    }
}

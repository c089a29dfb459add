//! A run as a page for a browser.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::gantt::{calls, cost, count, number, short, shown};
use super::run::{Node, Run};
use crate::answer::fill_all;
use crate::draw::xml_text;
use crate::event::Event;
use crate::path::Path;
use crate::price::Usd;

/// What the script of the page reads. Lists instead of objects keep ten thousand calls small.
#[derive(Serialize)]
struct Data<'a> {
    end: u128,
    /// The place above, and the name.
    nodes: Vec<(Option<usize>, String)>,
    models: Vec<&'a str>,
    calls: Vec<Row<'a>>,
    /// When, the node, what.
    notes: Vec<(u128, usize, String)>,
}

/// Times are in microseconds.
#[derive(Serialize)]
struct Row<'a> {
    /// The node.
    n: usize,
    /// From, to.
    t: (u128, u128),
    /// The model, as its place in `models`.
    #[serde(skip_serializing_if = "Option::is_none")]
    m: Option<usize>,
    /// Tokens: prompt, reply, of the prompt read from a cache.
    u: (u64, u64, u64),
    /// Cost in USD.
    c: Option<Usd>,
    #[serde(skip_serializing_if = "is_ok")]
    o: &'a str,
    /// The stop reason or the kind of error.
    #[serde(skip_serializing_if = "is_usual")]
    r: Option<&'a str>,
    /// Attempts that failed and were followed by another.
    #[serde(skip_serializing_if = "is_none")]
    a: u32,
    /// On the critical path.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    k: bool,
    /// The first text.
    #[serde(skip_serializing_if = "Option::is_none")]
    f: Option<u128>,
    /// Waiting: from, to, for what.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    w: Vec<(u128, u128, &'a str)>,
    /// Tools of the turn: from, to, which.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    x: Vec<(u128, u128, String)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<&'a Value>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the shape that serde asks for
fn is_none(n: &u32) -> bool {
    *n == 0
}

fn is_ok(outcome: &str) -> bool {
    outcome == "ok"
}

#[allow(clippy::ref_option)] // the shape that serde asks for
fn is_usual(reason: &Option<&str>) -> bool {
    matches!(reason, None | Some("end_turn"))
}

impl Run {
    /// The run as one HTML page that needs nothing else, no network either: a timeline to zoom into, the tree of places,
    /// and the prompts and replies if the trace has them. It follows the reader's choice of light or dark, and can be used
    /// with a keyboard, a screen reader or a phone.
    pub fn html(&self) -> String {
        let data = serde_json::to_string(&self.data()).unwrap_or_default().replace('<', "\\u003c");
        let title = xml_text(self.pattern.as_deref().unwrap_or("run"));
        fill_all(
            include_str!("page.html"),
            &[
                ("page_title", &title),
                ("page_style", include_str!("page.css")),
                ("page_facts", &self.facts()),
                ("page_text", &xml_text_lines(&self.gantt(110))),
                ("page_data", &data),
                ("page_script", include_str!("page.js")),
            ],
        )
    }

    fn data(&self) -> Data<'_> {
        let mut critical = vec![false; self.calls.len()];
        for leg in self.critical_path() {
            critical[leg.call] = true;
        }
        let mut nodes = Vec::new();
        let mut places = HashMap::new();
        list(&self.tree(), None, &mut nodes, &mut places);
        let mut tools: HashMap<Path, Vec<_>> = HashMap::new();
        for tool in self.tools() {
            let times = (tool.start.as_micros(), tool.end.as_micros(), tool.name);
            tools.entry(tool.path).or_default().push(times);
        }
        let mut models: Vec<&str> = Vec::new();
        let calls = self.calls.iter().zip(critical).map(|(call, k)| Row {
            n: places.get(call.path.as_str()).copied().unwrap_or(0),
            t: (call.start.as_micros(), call.end.as_micros()),
            m: call.model.as_deref().map(|model| {
                models.iter().position(|known| *known == model).unwrap_or_else(|| {
                    models.push(model);
                    models.len() - 1
                })
            }),
            u: (call.usage.prompt_tokens(), call.usage.output_tokens, call.usage.cache_read_tokens),
            c: call.cost,
            o: &call.outcome,
            r: call.reason.as_deref(),
            a: call.retries,
            k,
            f: call.first_text.map(|at| at.as_micros()),
            w: call
                .phases
                .iter()
                .filter_map(|phase| {
                    Some((phase.start.as_micros(), phase.end.as_micros(), phase.wait.as_deref()?))
                })
                .collect(),
            x: tools.remove(&call.path).unwrap_or_default(),
            request: call.request.as_ref(),
            reply: call.reply.as_ref(),
        });
        let calls = calls.collect();
        let notes = self.notes.iter().filter_map(|note| {
            // a place without a call is told at the one above it
            let place = note.path.prefixes().filter_map(|(_, path)| places.get(path)).last();
            Some((note.at.as_micros(), place.copied().unwrap_or(0), words(&note.event)?))
        });
        let notes = notes.collect();
        Data { end: self.end.as_micros(), nodes, models, calls, notes }
    }

    /// What the run came to, as a list of HTML.
    fn facts(&self) -> String {
        let total = self.total();
        let mut out = String::new();
        let mut fact = |name: &str, value: &str| {
            let _ = write!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", xml_text(value));
        };
        let outcome = match self.ending() {
            (outcome, Some(reason)) => format!("{outcome}: {reason}"),
            (outcome, None) => outcome.to_owned(),
        };
        fact("Outcome", &outcome);
        fact("Time", &short(self.end));
        fact("Calls", &calls(&total));
        fact("Cost", &cost(&total));
        fact("Tokens", &format!("{} + {}", total.usage.prompt_tokens(), total.usage.output_tokens));
        if total.usage.cache_read_tokens > 0 {
            fact("From the cache", &format!("{:.0} %", 100.0 * total.cached()));
        }
        fact("Work", &short(total.worked));
        fact("Waiting", &short(total.waited));
        fact("No call at work", &format!("{:.0} %", 100.0 * self.idle()));
        let path: Duration = self.critical_path().iter().map(|leg| self.calls[leg.call].length()).sum();
        fact("Critical path", &short(path));
        if self.saved() > 0 {
            let mut saved = number(self.saved());
            if let Some(each) = self.cost_of_a_ballot() {
                let _ = write!(saved, ", about {}", Usd::new(each * count(self.saved())));
            }
            fact("Saved by stopping early", &saved);
        }
        if self.unread > 0 {
            fact("Lines that could not be read", &self.unread.to_string());
        }
        out
    }
}

fn list(
    node: &Node,
    above: Option<usize>,
    nodes: &mut Vec<(Option<usize>, String)>,
    places: &mut HashMap<String, usize>,
) {
    let own = nodes.len();
    places.insert(node.path.as_str().to_owned(), own);
    nodes.push((above, shown(&node.name)));
    for child in &node.children {
        list(child, Some(own), nodes, places);
    }
}

/// Escaped, with its line breaks.
fn xml_text_lines(text: &str) -> String {
    text.lines().map(xml_text).collect::<Vec<_>>().join("\n")
}

/// What is worth telling of what a pattern told.
fn words(event: &Event) -> Option<String> {
    match event {
        Event::RunStarted { .. }
        | Event::RunEnded { .. }
        | Event::BranchReady { .. }
        | Event::BranchStarted { .. }
        | Event::Draft { .. } => None,
        Event::BranchEnded { outcome, .. } if outcome == "ok" => None,
        event => Some(event.to_string()),
    }
}

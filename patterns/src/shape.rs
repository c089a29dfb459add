//! The picture of a flow before it runs: tree, diagrams, fewest and most calls.

use std::fmt::{self, Write as _};
use std::ops::Add;

use serde::Serialize;

use crate::draw::one_line;

mod graph;

/// How many calls to the model a flow makes when it comes to an answer. A run that fails may make fewer, never more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// The fewest.
    pub fewest: u64,
    /// What an ordinary run makes, to plan with: all goes well at the first attempt, no vote ends early, a route takes any
    /// of its ways (their mean), and what only the run decides (tasks, items, drafts, turns) is half-way between its
    /// bounds. `None` when nothing bounds the calls.
    pub expected: Option<u64>,
    /// The most; `None` when nothing bounds them.
    pub most: Option<u64>,
}

impl Calls {
    /// No call.
    pub const NONE: Self = Self::exactly(0);
    /// Any number of calls.
    pub const ANY: Self = Self { fewest: 0, expected: None, most: None };

    /// Exactly `n`.
    pub const fn exactly(n: u64) -> Self {
        Self { fewest: n, expected: Some(n), most: Some(n) }
    }

    /// From `fewest` to `most`.
    pub const fn between(fewest: u64, most: u64) -> Self {
        Self { fewest, expected: Some(half_way(fewest, most)), most: Some(most) }
    }

    /// At least those of `fewest` times, at most those of `most` times.
    #[must_use]
    pub fn times(self, fewest: usize, most: usize) -> Self {
        let (fewest, most) = (fewest as u64, most as u64);
        let by = |n: Option<u64>, times: u64| {
            if times == 0 { Some(0) } else { n.map(|n| n.saturating_mul(times)) }
        };
        Self {
            fewest: self.fewest.saturating_mul(fewest),
            expected: by(self.expected, half_way(fewest, most)),
            most: by(self.most, most),
        }
    }

    /// Those of one attempt, and of at most so many, should the first fail.
    #[must_use]
    pub fn attempts(self, most: usize) -> Self {
        Self { most: self.times(1, most).most, ..self }
    }

    /// Those of any of the flows.
    #[must_use]
    pub fn any_of(flows: impl IntoIterator<Item = Self>) -> Self {
        let flows: Vec<Self> = flows.into_iter().collect();
        let sum = flows.iter().try_fold(0_u64, |sum, flow| Some(sum.saturating_add(flow.expected?)));
        Self {
            fewest: flows.iter().map(|flow| flow.fewest).min().unwrap_or(0),
            expected: sum.map(|sum| sum.div_ceil(flows.len().max(1) as u64)),
            most: flows.iter().try_fold(0, |most, flow| Some(flow.most?.max(most))),
        }
    }
}

const fn half_way(fewest: u64, most: u64) -> u64 {
    fewest + most.saturating_sub(fewest).div_ceil(2)
}

impl Add for Calls {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.saturating_add(b));
        Self {
            fewest: self.fewest.saturating_add(other.fewest),
            expected: sum(self.expected, other.expected),
            most: sum(self.most, other.most),
        }
    }
}

impl std::iter::Sum for Calls {
    fn sum<I: Iterator<Item = Self>>(calls: I) -> Self {
        calls.fold(Self::NONE, Add::add)
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.fewest, self.most) {
            (0, None) => f.write_str("any number of calls"),
            (fewest, None) => write!(f, "at least {fewest} {}", calls(fewest)),
            (0, Some(0)) => f.write_str("no calls"),
            (fewest, Some(most)) if fewest == most => write!(f, "{most} {}", calls(most)),
            (fewest, Some(most)) => write!(f, "{fewest} to {most} calls"),
        }
    }
}

fn calls(n: u64) -> &'static str {
    if n == 1 { "call" } else { "calls" }
}

/// The picture of a flow: its pattern, its parts and how many calls it makes.
///
/// `Display` is a tree with the bounds of every part; [`mermaid`](Shape::mermaid) is a diagram for Markdown,
/// [`dot`](Shape::dot) one for Graphviz, and [`svg`](Shape::svg) a picture that needs neither.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[must_use]
pub struct Shape {
    /// The pattern: `prompt`, `chain`, `route`, `vote` …
    pub pattern: String,
    /// What it is about, in a few words of its own: the beginning of a prompt, the name of a gate.
    pub title: String,
    /// What holds for it: `best effort`, `at most 3 drafts`.
    pub notes: Vec<String>,
    /// How many calls it makes.
    pub calls: Calls,
    /// Its parts, each with what leads to it (a way's label, `draft`, `merge`), in order.
    pub parts: Vec<(String, Shape)>,
    /// Whether the parts follow each other (a chain) instead of hanging under this node.
    #[serde(skip)]
    pub(crate) sequence: bool,
}

impl Shape {
    /// A flow of this pattern.
    pub fn new(pattern: &str, title: &str, calls: Calls) -> Self {
        Self {
            pattern: pattern.to_owned(),
            title: short(title),
            notes: Vec::new(),
            calls,
            parts: Vec::new(),
            sequence: false,
        }
    }

    /// Parts that follow each other; the calls are their sum.
    pub fn sequence(pattern: &str, parts: Vec<(String, Shape)>) -> Self {
        let calls = parts.iter().map(|(_, part)| part.calls).sum();
        Self {
            pattern: pattern.to_owned(),
            title: String::new(),
            notes: Vec::new(),
            calls,
            parts,
            sequence: true,
        }
    }

    /// Adds a part and what leads to it. The calls stay as they are.
    pub fn part(mut self, edge: impl Into<String>, part: Shape) -> Self {
        self.parts.push((edge.into(), part));
        self
    }

    /// Adds what holds for it.
    pub fn noting(mut self, note: &str) -> Self {
        if !note.is_empty() {
            self.notes.push(note.to_owned());
        }
        self
    }

    /// How many calls the flow makes.
    pub fn calls(&self) -> Calls {
        self.calls
    }

    /// The tree that `Display` prints, each piece of it painted: to colour it on a terminal.
    pub fn tree(&self, paint: &dyn Fn(Ink, &str) -> String) -> String {
        let mut out = String::new();
        self.branch(&mut out, paint, "", "");
        out
    }

    fn branch(&self, out: &mut String, paint: &dyn Fn(Ink, &str) -> String, edge: &str, indent: &str) {
        if !edge.is_empty() {
            out.push_str(&paint(Ink::Edge, &one_line(edge)));
            out.push_str(": ");
        }
        out.push_str(&paint(Ink::Pattern, &one_line(&self.pattern)));
        if !self.title.is_empty() {
            let _ = write!(out, " \"{}\"", paint(Ink::Title, &self.title));
        }
        for note in &self.notes {
            let _ = write!(out, ", {}", one_line(note));
        }
        let _ = writeln!(out, " {}", paint(Ink::Calls, &format!("({})", self.calls)));
        for (n, (edge, part)) in self.parts.iter().enumerate() {
            let (branch, below) =
                if n + 1 == self.parts.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            out.push_str(&paint(Ink::Line, &format!("{indent}{branch}")));
            part.branch(out, paint, edge, &format!("{indent}{below}"));
        }
    }
}

/// A piece of the [tree](Shape::tree) of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ink {
    /// The lines of the tree.
    Line,
    /// What leads to a part.
    Edge,
    /// A pattern's name.
    Pattern,
    /// What it is about.
    Title,
    /// How many calls it makes.
    Calls,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tree(&|_, piece| piece.to_owned()))
    }
}

/// The first words of a text, on one line.
fn short(text: &str) -> String {
    one_line(&crate::error::excerpt(&text.split_whitespace().collect::<Vec<_>>().join(" "), 60))
}

//! The picture of a flow before it runs: tree, Mermaid, fewest and most calls.

use std::fmt::{self, Write as _};
use std::ops::Add;

use serde::Serialize;

/// How many calls to the model a flow makes when it comes to an answer. A run that fails may make fewer, never more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// The fewest.
    pub fewest: u64,
    /// The most; `None` when nothing bounds them.
    pub most: Option<u64>,
}

impl Calls {
    /// No call.
    pub const NONE: Self = Self::exactly(0);
    /// Any number of calls.
    pub const ANY: Self = Self { fewest: 0, most: None };

    /// Exactly `n`.
    pub const fn exactly(n: u64) -> Self {
        Self { fewest: n, most: Some(n) }
    }

    /// From `fewest` to `most`.
    pub const fn between(fewest: u64, most: u64) -> Self {
        Self { fewest, most: Some(most) }
    }

    /// At least those of `fewest` times, at most those of `most` times.
    #[must_use]
    pub fn times(self, fewest: usize, most: usize) -> Self {
        Self {
            fewest: self.fewest.saturating_mul(fewest as u64),
            most: if most == 0 { Some(0) } else { self.most.map(|n| n.saturating_mul(most as u64)) },
        }
    }

    /// Either these or `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { fewest: self.fewest.min(other.fewest), most: self.most.zip(other.most).map(|(a, b)| a.max(b)) }
    }
}

impl Add for Calls {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            fewest: self.fewest.saturating_add(other.fewest),
            most: self.most.zip(other.most).map(|(a, b)| a.saturating_add(b)),
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
/// `Display` is a tree with the bounds of every part; [`mermaid`](Shape::mermaid) is a diagram for Markdown.
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

    /// The flow as a Mermaid flowchart.
    pub fn mermaid(&self) -> String {
        let mut out = String::from("flowchart TD\n");
        let mut next = 0;
        self.draw(&mut out, &mut next);
        out
    }

    /// Draws this node and its parts; gives the first and the last node of it.
    fn draw(&self, out: &mut String, next: &mut usize) -> (usize, usize) {
        if self.sequence && !self.parts.is_empty() {
            let mut ends: Option<(usize, usize)> = None;
            for (_, part) in &self.parts {
                let (first, last) = part.draw(out, next);
                ends = Some(match ends {
                    None => (first, last),
                    Some((start, before)) => {
                        let _ = writeln!(out, "    n{before} --> n{first}");
                        (start, last)
                    }
                });
            }
            return ends.unwrap_or((*next, *next));
        }
        let node = *next;
        *next += 1;
        let (open, close) = match &*self.pattern {
            "gate" => ("{{", "}}"),
            "step" => ("([", "])"),
            "prompt" => ("[", "]"),
            _ => ("[[", "]]"),
        };
        let title = if self.title.is_empty() { String::new() } else { format!(": {}", self.title) };
        let head: Vec<_> =
            [format!("{}{title}", self.pattern)].into_iter().chain(self.notes.iter().cloned()).collect();
        let _ = writeln!(out, "    n{node}{open}\"{}<br/>{}\"{close}", escaped(&head.join(", ")), self.calls);
        for (edge, part) in &self.parts {
            let (first, _) = part.draw(out, next);
            let _ = if edge.is_empty() {
                writeln!(out, "    n{node} --> n{first}")
            } else {
                writeln!(out, "    n{node} -->|\"{}\"| n{first}", escaped(edge))
            };
        }
        (node, node)
    }

    fn tree(&self, f: &mut fmt::Formatter<'_>, edge: &str, indent: &str) -> fmt::Result {
        if !edge.is_empty() {
            write!(f, "{edge}: ")?;
        }
        f.write_str(&self.pattern)?;
        if !self.title.is_empty() {
            write!(f, " \"{}\"", self.title)?;
        }
        for note in &self.notes {
            write!(f, ", {note}")?;
        }
        writeln!(f, " ({})", self.calls)?;
        for (n, (edge, part)) in self.parts.iter().enumerate() {
            let (branch, below) =
                if n + 1 == self.parts.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            write!(f, "{indent}{branch}")?;
            part.tree(f, edge, &format!("{indent}{below}"))?;
        }
        Ok(())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tree(f, "", "")
    }
}

/// The first words of a text, on one line.
fn short(text: &str) -> String {
    crate::error::excerpt(&text.split_whitespace().collect::<Vec<_>>().join(" "), 60)
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("#quot;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '#' => out.push_str("#35;"),
            '|' => out.push_str("#124;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

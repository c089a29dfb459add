//! A run as a diagram.

use std::fmt::Write as _;

use super::gantt::{calls, cost, short, shown};
use super::run::{Node, Run, Sum};
use crate::draw::{dot_text, mermaid_text};
use crate::price::Usd;

/// The most children of one place that are drawn one by one.
const SIBLINGS: usize = 20;

/// A node or an edge to draw.
struct Drawn {
    above: Option<usize>,
    title: String,
    detail: String,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Plain,
    Critical,
    Failed,
}

impl Run {
    /// The run as a Mermaid flowchart: its places with their calls, times and costs. Those of the
    /// [critical path](Self::critical_path) have a thick border, those without an answer a dashed one.
    pub fn mermaid(&self) -> String {
        let mut out = String::from("flowchart TD\n");
        for (n, node) in self.drawn().iter().enumerate() {
            let (title, detail) = (mermaid_text(&node.title), mermaid_text(&node.detail));
            let class = match node.state {
                State::Plain => "",
                State::Critical => ":::critical",
                State::Failed => ":::failed",
            };
            let _ = writeln!(out, "    n{n}[\"{title}<br/>{detail}\"]{class}");
            if let Some(above) = node.above {
                let _ = writeln!(out, "    n{above} --> n{n}");
            }
        }
        out.push_str("    classDef critical stroke-width:4px\n    classDef failed stroke-dasharray:4\n");
        out
    }

    /// The run as a graph for Graphviz (`dot -Tsvg`), with the same nodes as [`mermaid`](Self::mermaid).
    pub fn dot(&self) -> String {
        let mut out = String::from("digraph run {\n    node [shape=box, fontname=\"sans-serif\"];\n");
        for (n, node) in self.drawn().iter().enumerate() {
            let style = match node.state {
                State::Plain => "",
                State::Critical => ", penwidth=3",
                State::Failed => ", style=dashed",
            };
            let (title, detail) = (dot_text(&node.title), dot_text(&node.detail));
            let _ = writeln!(out, "    n{n} [label=\"{title}\\n{detail}\"{style}];");
            if let Some(above) = node.above {
                let _ = writeln!(out, "    n{above} -> n{n};");
            }
        }
        out.push_str("}\n");
        out
    }

    fn drawn(&self) -> Vec<Drawn> {
        let mut critical = vec![false; self.calls.len()];
        for leg in self.critical_path() {
            critical[leg.call] = true;
        }
        let mut root = self.tree();
        root.name = self.pattern.clone().unwrap_or_else(|| "run".to_owned());
        let mut out = Vec::new();
        draw(&root, None, &critical, &mut out);
        out
    }
}

fn draw(node: &Node, above: Option<usize>, critical: &[bool], out: &mut Vec<Drawn>) {
    let own = out.len();
    let state = if node.sum.failed > 0 || node.sum.unfinished > 0 {
        State::Failed
    } else if is_critical(node, critical) {
        State::Critical
    } else {
        State::Plain
    };
    let time = node.span.map(|(start, end)| end.saturating_sub(start)).unwrap_or_default();
    let mut detail = format!("{}, {}", calls(&node.sum), short(time));
    if node.sum.priced > Usd::ZERO {
        let _ = write!(detail, ", {}", cost(&node.sum));
    }
    out.push(Drawn { above, title: shown(&node.name), detail, state });
    for child in node.children.iter().take(SIBLINGS) {
        draw(child, Some(own), critical, out);
    }
    if let Some(rest) = node.children.get(SIBLINGS..).filter(|rest| !rest.is_empty()) {
        let mut sum = Sum::default();
        for child in rest {
            sum += child.sum;
        }
        let state = if rest.iter().any(|child| is_critical(child, critical)) {
            State::Critical
        } else {
            State::Plain
        };
        let (title, detail) = (format!("… {} more", rest.len()), calls(&sum));
        out.push(Drawn { above: Some(own), title, detail, state });
    }
}

fn is_critical(node: &Node, critical: &[bool]) -> bool {
    node.calls.iter().any(|n| critical[*n]) || node.children.iter().any(|child| is_critical(child, critical))
}

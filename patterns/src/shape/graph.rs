//! The picture of a flow as a diagram.

use std::fmt::Write as _;

use super::Shape;
use crate::draw::{dot_text, mermaid_text, xml_text};

/// The nodes of a flow and what leads from one to another.
#[derive(Default)]
struct Graph<'s> {
    nodes: Vec<Placed<'s>>,
    edges: Vec<(usize, usize, &'s str)>,
}

/// A node and where the middle of its upper edge is.
struct Placed<'s> {
    shape: &'s Shape,
    x: u32,
    y: u32,
}

/// A part of the graph with its first and last node.
struct Block {
    first: usize,
    last: usize,
    width: u32,
    height: u32,
}

// sizes of the picture, in pixels
const WIDTH: u32 = 210;
const HEIGHT: u32 = 62;
const BESIDE: u32 = 24;
const BELOW: u32 = 46;

impl<'s> Graph<'s> {
    fn of(shape: &'s Shape) -> (Self, u32, u32) {
        let mut graph = Self::default();
        let Block { width, height, .. } = graph.add(shape);
        (graph, width, height)
    }

    /// Adds a shape with its upper left corner at the origin.
    fn add(&mut self, shape: &'s Shape) -> Block {
        if shape.sequence && !shape.parts.is_empty() { self.stack(shape) } else { self.hang(shape) }
    }

    /// Parts that follow each other, one below the other.
    fn stack(&mut self, shape: &'s Shape) -> Block {
        let mut placed: Vec<(usize, Block)> = Vec::new();
        for (_, part) in &shape.parts {
            let from = self.nodes.len();
            placed.push((from, self.add(part)));
        }
        let width = placed.iter().map(|(_, block)| block.width).max().unwrap_or(WIDTH);
        let (mut y, ends) = (0, self.nodes.len());
        for (n, (from, block)) in placed.iter().enumerate() {
            let to = placed.get(n + 1).map_or(ends, |(next, _)| *next);
            self.shift(*from, to, (width - block.width) / 2, y);
            y += block.height + BELOW;
        }
        for pair in placed.windows(2) {
            self.edges.push((pair[0].1.last, pair[1].1.first, ""));
        }
        let end = |block: Option<&(usize, Block)>, last: bool| {
            block.map_or(0, |(_, block)| if last { block.last } else { block.first })
        };
        Block { first: end(placed.first(), false), last: end(placed.last(), true), width, height: y - BELOW }
    }

    /// A node with its parts side by side below it.
    fn hang(&mut self, shape: &'s Shape) -> Block {
        let own = self.nodes.len();
        self.nodes.push(Placed { shape, x: 0, y: 0 });
        let (mut x, mut height) = (0, HEIGHT);
        for (edge, part) in &shape.parts {
            let from = self.nodes.len();
            let block = self.add(part);
            self.shift(from, self.nodes.len(), x, HEIGHT + BELOW);
            x += block.width + BESIDE;
            height = height.max(HEIGHT + BELOW + block.height);
            self.edges.push((own, block.first, edge));
        }
        let width = x.saturating_sub(BESIDE).max(WIDTH);
        if let Some(only) = self.nodes.get(own + 1).filter(|_| shape.parts.len() == 1) {
            self.nodes[own].x = only.x;
        } else {
            self.nodes[own].x = width / 2;
        }
        Block { first: own, last: own, width, height }
    }

    fn shift(&mut self, from: usize, to: usize, x: u32, y: u32) {
        for node in &mut self.nodes[from..to] {
            node.x += x;
            node.y += y;
        }
    }
}

fn title(shape: &Shape) -> String {
    let title = if shape.title.is_empty() { String::new() } else { format!(": {}", shape.title) };
    let head = format!("{}{title}", shape.pattern);
    [head].into_iter().chain(shape.notes.iter().cloned()).collect::<Vec<_>>().join(", ")
}

impl Shape {
    /// The flow as a Mermaid flowchart.
    pub fn mermaid(&self) -> String {
        let (graph, ..) = Graph::of(self);
        let mut out = String::from("flowchart TD\n");
        for (n, Placed { shape, .. }) in graph.nodes.iter().enumerate() {
            let (open, close) = match &*shape.pattern {
                "gate" => ("{{", "}}"),
                "step" => ("([", "])"),
                "prompt" => ("[", "]"),
                _ => ("[[", "]]"),
            };
            let title = mermaid_text(&title(shape));
            let _ = writeln!(out, "    n{n}{open}\"{title}<br/>{}\"{close}", shape.calls);
        }
        for (from, to, edge) in &graph.edges {
            let _ = if edge.is_empty() {
                writeln!(out, "    n{from} --> n{to}")
            } else {
                writeln!(out, "    n{from} -->|\"{}\"| n{to}", mermaid_text(edge))
            };
        }
        out
    }

    /// The flow as a graph for Graphviz (`dot -Tsvg`).
    pub fn dot(&self) -> String {
        let (graph, ..) = Graph::of(self);
        let mut out = String::from("digraph flow {\n    node [shape=box, fontname=\"sans-serif\"];\n");
        for (n, Placed { shape, .. }) in graph.nodes.iter().enumerate() {
            let form = match &*shape.pattern {
                "gate" => ", shape=hexagon",
                "step" | "prompt" => ", style=rounded",
                _ => "",
            };
            let _ =
                writeln!(out, "    n{n} [label=\"{}\\n{}\"{form}];", dot_text(&title(shape)), shape.calls);
        }
        for (from, to, edge) in &graph.edges {
            let _ = if edge.is_empty() {
                writeln!(out, "    n{from} -> n{to};")
            } else {
                writeln!(out, "    n{from} -> n{to} [label=\"{}\"];", dot_text(edge))
            };
        }
        out.push_str("}\n");
        out
    }

    /// The flow as an SVG picture, in light or dark as the reader's system asks for.
    pub fn svg(&self) -> String {
        let (graph, width, height) = Graph::of(self);
        let (width, height) = (width.max(WIDTH) + 2 * BESIDE, height + 2 * BESIDE);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"t\">\n\
             <title id=\"t\">{}, {}</title>\n{STYLE}<g transform=\"translate({BESIDE} {BESIDE})\">\n",
            xml_text(&title(self)),
            self.calls
        );
        for (from, to, edge) in &graph.edges {
            let (a, b) = (&graph.nodes[*from], &graph.nodes[*to]);
            let (x1, y1, x2, y2) = (a.x, a.y + HEIGHT, b.x, b.y);
            let bend = BELOW / 2;
            let _ = writeln!(
                out,
                "<path d=\"M{x1} {y1}C{x1} {} {x2} {} {x2} {y2}\" marker-end=\"url(#a)\"/>",
                y1 + bend,
                y2.saturating_sub(bend)
            );
            if !edge.is_empty() {
                let _ = writeln!(
                    out,
                    "<text class=\"edge\" x=\"{x2}\" y=\"{}\">{}</text>",
                    y2 - 14,
                    xml_text(&excerpt(edge, 26))
                );
            }
        }
        for Placed { shape, x, y } in &graph.nodes {
            let left = x.saturating_sub(WIDTH / 2);
            let about = if shape.title.is_empty() { shape.notes.join(", ") } else { shape.title.clone() };
            let _ = writeln!(
                out,
                "<g><title>{}</title><rect class=\"{}\" x=\"{left}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\"/>\
                 <text class=\"pattern\" x=\"{x}\" y=\"{}\">{}</text><text x=\"{x}\" y=\"{}\">{}</text>\
                 <text class=\"calls\" x=\"{x}\" y=\"{}\">{}</text></g>",
                xml_text(&title(shape)),
                if shape.pattern == "gate" { "gate" } else { "flow" },
                y + 19,
                xml_text(&shape.pattern),
                y + 36,
                xml_text(&excerpt(&about, 30)),
                y + 53,
                shape.calls
            );
        }
        out.push_str("</g>\n</svg>\n");
        out
    }
}

fn excerpt(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

const STYLE: &str = "<style>
svg{background:#fff;color:#1b1f24}
text{font:12px system-ui,sans-serif;text-anchor:middle;fill:currentColor}
.pattern{font-weight:600}
.calls,.edge{fill:#57606a;font-size:11px}
rect{fill:#eef4ff;stroke:#3b6fd4}
.gate{fill:#fff6e0;stroke:#a66a00;stroke-dasharray:5 3}
path{fill:none;stroke:#57606a}
marker path{fill:#57606a;stroke:none}
.edge{paint-order:stroke;stroke:#fff;stroke-width:4px}
@media(prefers-color-scheme:dark){
svg{background:#14171c;color:#e6e9ee}
.calls,.edge{fill:#a5afbd}
rect{fill:#1b2638;stroke:#7aa5f5}
.gate{fill:#2b2413;stroke:#e0ac4d}
path{stroke:#a5afbd}
marker path{fill:#a5afbd}
.edge{stroke:#14171c}
}
</style>
<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker></defs>
";

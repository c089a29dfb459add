//! Text inside of diagrams: what a flow or a model wrote can never be read as a part of the diagram.

/// As a label of Mermaid, between quotes.
pub(crate) fn mermaid_text(text: &str) -> String {
    escaped(text, |c| match c {
        '"' => Some("#quot;"),
        '<' => Some("#lt;"),
        '>' => Some("#gt;"),
        '#' => Some("#35;"),
        '|' => Some("#124;"),
        '`' => Some("#96;"),
        _ => None,
    })
}

/// As a label of Graphviz, between quotes.
pub(crate) fn dot_text(text: &str) -> String {
    escaped(text, |c| match c {
        '"' => Some("\\\""),
        '\\' => Some("\\\\"),
        _ => None,
    })
}

/// As text or an attribute of XML.
pub(crate) fn xml_text(text: &str) -> String {
    escaped(text, |c| match c {
        '"' => Some("&quot;"),
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        _ => None,
    })
}

fn escaped(text: &str, escape: impl Fn(char) -> Option<&'static str>) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match escape(c) {
            Some(escaped) => out.push_str(escaped),
            None if c.is_control() => out.push(' '),
            None => out.push(c),
        }
    }
    out
}

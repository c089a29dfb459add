//! Text inside of diagrams and lines: what a flow or a model wrote can never be read as a part of them.

/// A text as one line that can be shown on a terminal: whatever would move the cursor, change the screen, begin a line or
/// turn the order of the line round is a blank.
pub fn one_line(text: &str) -> String {
    text.chars().map(harmless).collect()
}

/// A blank for control characters, separators of lines and what embeds or overrides the direction of a line.
pub(crate) fn harmless(c: char) -> char {
    match c {
        '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => ' ',
        c if c.is_control() => ' ',
        c => c,
    }
}

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
            None => out.push(harmless(c)),
        }
    }
    out
}

//! The content of an element as its writer meant it.

use std::borrow::Cow;

use memchr::memchr;
use quick_xml::escape;

use super::chars::blank;
use super::chars::trim;
use super::chars::white;
use super::lex::CDATA;
use super::lex::CDATA_END;
use super::lex::Lexer;
use super::lex::Piece;
use super::lex::Rules;

/// CDATA wrappers go, entities are decoded once if the writer escaped, the edges are trimmed.
pub(super) fn content(inner: &str) -> String {
    let has_section = inner.contains(CDATA);
    if !has_section && memchr(b'&', inner.as_bytes()).is_none() {
        return edges(inner).to_owned();
    }
    if has_section
        && !inner.contains(CDATA_END)
        && let Some(raw) = trim(inner).strip_prefix(CDATA)
    {
        return edges(raw).to_owned();
    }
    let parts = parts(inner);
    // raw markup or a bare `&` shows that the writer did not escape: then the entities are meant as they stand
    let escaped = parts.iter().all(|part| match part {
        Part::Prose(text) => memchr(b'<', text.as_bytes()).is_none() && references(text).all(|r| r.is_ok()),
        Part::Markup(_) => false,
        Part::Code(_) | Part::Section(_) => true,
    });
    let has_section = parts.iter().any(|part| matches!(part, Part::Section(_)));
    let mut content = String::with_capacity(inner.len());
    for part in parts {
        match part {
            Part::Prose(text) if has_section && blank(text) => {}
            Part::Prose(text) if escaped => content.push_str(&unescape(text)),
            Part::Prose(text) | Part::Markup(text) | Part::Code(text) | Part::Section(text) => {
                content.push_str(text);
            }
        }
    }
    edges(&content).to_owned()
}

enum Part<'t> {
    Prose(&'t str),
    Markup(&'t str),
    Code(&'t str),
    Section(&'t str),
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut at = 0;
    for piece in Lexer::new(text, Rules { code: true, wide: false }) {
        let (range, part) = match piece {
            Piece::Tag(tag) => (tag.start..tag.end, Part::Markup(&text[tag.start..tag.end])),
            Piece::Comment(range) => (range.clone(), Part::Markup(&text[range])),
            Piece::Code(range) => (range.clone(), Part::Code(&text[range])),
            Piece::Cdata(range) => {
                let inside = range.start + CDATA.len()..range.end - CDATA_END.len();
                (range, Part::Section(&text[inside]))
            }
        };
        if at < range.start {
            parts.push(Part::Prose(&text[at..range.start]));
        }
        parts.push(part);
        at = range.end;
    }
    if at < text.len() {
        parts.push(Part::Prose(&text[at..]));
    }
    parts
}

/// White space at the edges goes; a block of code keeps the indent of its first line.
fn edges(text: &str) -> &str {
    let trimmed = trim(text);
    let start = text.len() - text.trim_start_matches(white).len();
    let Some(line) = text[..start].rfind('\n') else { return trimmed };
    let block = text[line + 1..].trim_end_matches(white);
    let indented = |line: &str| blank(line) || line.starts_with([' ', '\t']);
    let is_code = block.contains('\n') && !trimmed.starts_with('<') && block.lines().all(indented);
    if is_code { block } else { trimmed }
}

/// Every `&` of the text: a reference with its place, or a bare one.
fn references(text: &str) -> impl Iterator<Item = Result<std::ops::Range<usize>, ()>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + memchr(b'&', &text.as_bytes()[at..])?;
        let name = &text.as_bytes()[start + 1..];
        let length = name.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'#').count();
        at = start + 1 + length;
        let complete = length > 0 && name.get(length) == Some(&b';');
        Some(if complete { Ok(start..at + 1) } else { Err(()) })
    })
}

/// Undoes one level of escaping. Only the five predefined entities and valid numeric references are
/// known; whatever a reply defines itself stays as it is.
pub(super) fn unescape(text: &str) -> Cow<'_, str> {
    let mut plain = String::new();
    let mut at = 0;
    for reference in references(text).flatten() {
        if let Ok(character) = escape::unescape(&text[reference.clone()]) {
            plain.push_str(&text[at..reference.start]);
            plain.push_str(&character);
            at = reference.end;
        }
    }
    if at == 0 {
        return Cow::Borrowed(text);
    }
    plain.push_str(&text[at..]);
    Cow::Owned(plain)
}

//! Field lines, `**Category:** billing`, and the wrapping that stands round a value.

use std::sync::LazyLock;

use memchr::memchr;
use memchr::memchr3;
use regex::Regex;

use super::chars::blank;
use super::chars::fold;
use super::chars::trim;
use super::lex::last_line_start;

/// The names under which a value may be given where its tag is missing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) names: &'static [&'static str],
    /// The name of the tag counts as well.
    pub(super) tag: &'a str,
}

impl Fields<'_> {
    /// The values of all fields of the text, in no particular order. Where a field has no value on
    /// its line, the next line is the value if it is `whole`.
    pub(super) fn values<'t>(&self, text: &'t str, whole: impl Fn(&str) -> bool) -> Vec<&'t str> {
        static JSON: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(r#""([^"\\\n]{1,40})"\s*:\s*(?:"((?:[^"\\]|\\.)*)"|(-?[0-9.]+))"#).ok()
        });
        let mut values = Vec::new();
        let mut at = 0;
        while let Some(mark) = next_mark(text, at) {
            let start = last_line_start(text, at, mark).unwrap_or(at);
            let end = line_end(text, mark);
            at = end;
            let Some(value) = self.value(&text[start..end]) else { continue };
            if !blank(value.trim_matches(['*', '_'])) {
                values.push(value);
                continue;
            }
            let rest = text[end..].trim_start();
            values.extend(Some(&rest[..line_end(rest, 0)]).filter(|line| whole(line)));
        }
        if text.contains('"')
            && let Some(json) = &*JSON
        {
            for pair in json.captures_iter(text) {
                let value = pair.get(2).or(pair.get(3));
                values.extend(value.filter(|_| self.is_name(&pair[1])).map(|value| value.as_str()));
            }
        }
        values
    }

    /// The value of a field line.
    fn value<'t>(&self, line: &'t str) -> Option<&'t str> {
        const LONGEST: usize = 60;
        if line.trim_start().starts_with('|') {
            return None;
        }
        let mut start = line.char_indices().take(LONGEST);
        let (at, mark) = start.find(|(_, c)| matches!(c, ':' | '：' | '='))?;
        let name = &line[..at];
        if name.trim_end().ends_with('"') || !self.is_name(name) {
            return None;
        }
        Some(&line[at + mark.len_utf8()..])
    }

    fn is_name(&self, name: &str) -> bool {
        let name = fold(name);
        let mut name = name.trim_matches(|c: char| !c.is_alphanumeric());
        name = name.strip_suffix(" is").unwrap_or(name);
        for word in ["my ", "the ", "final ", "overall "] {
            name = name.strip_prefix(word).unwrap_or(name);
        }
        self.names.contains(&name) || name == fold(self.tag)
    }

    /// Takes off what stands round a value: comments, a fence, a list marker, its own field name.
    pub(super) fn peel<'t>(&self, text: &'t str) -> &'t str {
        let mut text = trim(text);
        while let Some(rest) = text.strip_prefix("<!--").and_then(|rest| rest.split_once("-->")) {
            text = trim(rest.1);
        }
        while let Some(rest) = text.strip_suffix("-->").and_then(|rest| rest.rsplit_once("<!--")) {
            text = trim(rest.0);
        }
        for fence in ["```", "~~~"] {
            if let Some(inside) = text.strip_prefix(fence).and_then(|rest| rest.strip_suffix(fence))
                && let Some((_, inside)) = inside.split_once('\n')
            {
                text = trim(inside);
            }
        }
        text = without_number(text);
        match self.value(text.lines().next().unwrap_or("")) {
            Some(value) => without_number(&text[text.lines().next().map_or(0, str::len) - value.len()..]),
            None => text,
        }
    }
}

/// The next character that could end the name of a field.
fn next_mark(text: &str, from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr3(b':', b'=', WIDE_COLON.as_bytes()[0], &text.as_bytes()[at..])?;
        let rest = &text.as_bytes()[at..];
        if rest[0].is_ascii() || rest.starts_with(WIDE_COLON.as_bytes()) {
            return Some(at);
        }
        at += 1;
    }
}

const WIDE_COLON: &str = "：";

fn line_end(text: &str, from: usize) -> usize {
    memchr(b'\n', &text.as_bytes()[from..]).map_or(text.len(), |end| from + end)
}

/// `2. technical`
fn without_number(text: &str) -> &str {
    let text = trim(text);
    let rest = text.trim_start_matches(['(', '[', '*', '-', '>', '#', ' ', '\t']);
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    if !(1..=3).contains(&digits) {
        return text;
    }
    let after = rest[digits..].trim_start_matches(['\u{FE0F}', '\u{20E3}', '*']);
    let after = after.strip_prefix(['.', ')', ']', ':']).unwrap_or(if after.len() < rest.len() - digits {
        after
    } else {
        ""
    });
    if after.starts_with(char::is_whitespace) { trim(after) } else { text }
}

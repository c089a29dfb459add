//! The pieces of a reply: tags, comments, CDATA sections, code.
//!
//! One pass from left to right; whichever piece begins first wins. Every search that fails is
//! remembered, so that no input makes the pass look twice at the same stretch of text.

use std::ops::Range;

use memchr::memchr;
use memchr::memchr2;
use memchr::memchr3;
use memchr::memmem;
use memchr::memrchr;
use unicode_normalization::char::is_combining_mark;

use super::chars::white;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Open,
    Close,
    Empty,
}

#[derive(Debug, Clone)]
pub(super) struct Tag {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) name: Range<usize>,
    pub(super) form: Form,
}

#[derive(Debug, Clone)]
pub(super) enum Piece {
    Tag(Tag),
    Comment(Range<usize>),
    /// The whole section; the text in it lies between `<![CDATA[` and `]]>`.
    Cdata(Range<usize>),
    Code(Range<usize>),
}

pub(super) const CDATA: &str = "<![CDATA[";
pub(super) const CDATA_END: &str = "]]>";

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rules {
    /// Fences and code spans are pieces of their own; otherwise they are plain text.
    pub(super) code: bool,
    /// `＜`, `＞` and `／` are read as `<`, `>` and `/`.
    pub(super) wide: bool,
}

#[derive(Debug)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    rules: Rules,
    at: usize,
    comment_ends: bool,
    section_ends: bool,
    line: Line,
    closers: Option<Closers>,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str, rules: Rules) -> Self {
        Lexer {
            text,
            rules,
            at: 0,
            comment_ends: true,
            section_ends: true,
            line: Line::default(),
            closers: None,
        }
    }

    fn next_mark(&self) -> Option<usize> {
        let rest = &self.text.as_bytes()[self.at..];
        if rest.first() == Some(&b'<') {
            return Some(self.at);
        }
        let offset = match (self.rules.wide, self.rules.code) {
            (false, false) => memchr(b'<', rest),
            (false, true) => memchr3(b'<', b'`', b'~', rest),
            (true, code) => rest.iter().enumerate().position(|(i, &b)| match b {
                b'<' => true,
                b'`' | b'~' => code,
                0xEF => rest[i..].starts_with("＜".as_bytes()),
                _ => false,
            }),
        };
        offset.map(|offset| self.at + offset)
    }

    fn comment_end(&mut self, start: usize) -> Option<usize> {
        let inside = self.text.as_bytes()[start..].strip_prefix(b"<!--").filter(|_| self.comment_ends)?;
        let length = memmem::find(inside, b"-->");
        self.comment_ends = length.is_some();
        length.map(|length| start + 4 + length + 3)
    }

    fn section_end(&mut self, start: usize) -> Option<usize> {
        let section = &self.text.as_bytes()[start..];
        if !self.section_ends || !section.starts_with(CDATA.as_bytes()) {
            return None;
        }
        let length = memmem::find(section, CDATA_END.as_bytes());
        self.section_ends = length.is_some();
        length.map(|length| start + length + CDATA_END.len())
    }

    /// The end of a fence that is closed, or of a code span on one line. `run` is how many marks stand
    /// there.
    fn code_end(&mut self, start: usize, run: usize) -> Option<usize> {
        let mark = self.text.as_bytes()[start];
        self.line.reach(self.text, start);
        if run >= 3 && self.opens_fence(start, run, mark) {
            let closers = self.closers.get_or_insert_with(|| Closers::of(self.text));
            if let Some(end) = closers.after(self.line.end, mark, run) {
                return Some(end);
            }
        }
        if mark == b'`' { self.line.span_end(self.text, start, run) } else { None }
    }

    fn opens_fence(&self, start: usize, run: usize, mark: u8) -> bool {
        let before = self.text[..start].trim_end_matches([' ', '\t']);
        let stands_first = before.is_empty() || before.ends_with(['\n', '>']);
        let info = &self.text.as_bytes()[start + run..self.line.end];
        stands_first && (mark == b'~' || memchr(b'`', info).is_none())
    }
}

impl Iterator for Lexer<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        while let Some(start) = self.next_mark() {
            let bytes = self.text.as_bytes();
            let mark = bytes[start];
            if mark == b'`' || mark == b'~' {
                let run = run_length(self.text, start);
                self.at = start + run;
                if let Some(end) = self.code_end(start, run) {
                    self.at = end;
                    return Some(Piece::Code(start..end));
                }
            } else if bytes.get(start + 1) == Some(&b'!') {
                self.at = start + 1;
                if let Some(end) = self.comment_end(start) {
                    self.at = end;
                    return Some(Piece::Comment(start..end));
                }
                if let Some(end) = self.section_end(start) {
                    self.at = end;
                    return Some(Piece::Cdata(start..end));
                }
            } else {
                self.at = start + if mark == b'<' { 1 } else { "＜".len() };
                if let Some(tag) = tag_at(self.text, start, self.rules.wide) {
                    self.at = tag.end;
                    return Some(Piece::Tag(tag));
                }
            }
        }
        self.at = self.text.len();
        None
    }
}

fn run_length(text: &str, start: usize) -> usize {
    let bytes = &text.as_bytes()[start..];
    bytes.iter().take_while(|&&b| b == bytes[0]).count()
}

/// A longer run of backticks begins no code span.
const LONGEST_RUN: usize = 32;

/// The line under way, and where on it the last run of backticks of each length stands.
#[derive(Debug, Default)]
struct Line {
    end: usize,
    known: bool,
    last_runs: Option<[usize; LONGEST_RUN + 1]>,
}

impl Line {
    fn reach(&mut self, text: &str, at: usize) {
        if !self.known || at >= self.end {
            self.end = memchr(b'\n', &text.as_bytes()[at..]).map_or(text.len(), |n| at + n);
            self.known = true;
            self.last_runs = None;
        }
    }

    /// Where the code span that starts here ends: after the next run of the same length.
    fn span_end(&mut self, text: &str, start: usize, run: usize) -> Option<usize> {
        let line = &text[..self.end];
        let last = self.last_runs.get_or_insert_with(|| {
            let mut last = [0; LONGEST_RUN + 1];
            for (length, found) in runs(line, start).filter(|&(length, _)| length <= LONGEST_RUN) {
                last[length] = found;
            }
            last
        });
        if last.get(run).is_none_or(|&last| last <= start) {
            return None;
        }
        runs(line, start + run).find(|&(length, _)| length == run).map(|(length, found)| found + length)
    }
}

/// The runs of backticks from a place on: how long they are and where they start.
fn runs(text: &str, from: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut at = from;
    std::iter::from_fn(move || {
        let found = at + text.as_bytes()[at..].iter().position(|&b| b == b'`')?;
        let length = run_length(text, found);
        at = found + length;
        Some((length, found))
    })
}

/// All lines that can close a fence.
#[derive(Debug)]
struct Closers {
    lines: Vec<Closer>,
}

#[derive(Debug)]
struct Closer {
    start: usize,
    end: usize,
    mark: u8,
    run: usize,
    /// The longest run of backticks and of tildes from here on: says at once when a search is in vain.
    longest: [usize; 2],
}

impl Closers {
    fn of(text: &str) -> Self {
        let mut lines = Vec::new();
        let mut start = 0;
        while start < text.len() {
            let end = memchr(b'\n', &text.as_bytes()[start..]).map_or(text.len(), |n| start + n);
            let line = text[start..end].trim_start_matches([' ', '\t']);
            if let Some(&mark @ (b'`' | b'~')) = line.as_bytes().first() {
                let run = run_length(line, 0);
                let after = line[run..].trim_start();
                if run >= 3 && (after.is_empty() || after.starts_with(['<', '＜'])) {
                    let end = end - line.len() + run;
                    lines.push(Closer { start, end, mark, run, longest: [0; 2] });
                }
            }
            start = end + 1;
        }
        let mut longest = [0; 2];
        for closer in lines.iter_mut().rev() {
            let kind = usize::from(closer.mark == b'~');
            longest[kind] = closer.run.max(longest[kind]);
            closer.longest = longest;
        }
        Closers { lines }
    }

    fn after(&self, at: usize, mark: u8, run: usize) -> Option<usize> {
        let kind = usize::from(mark == b'~');
        let later = &self.lines[self.lines.partition_point(|closer| closer.start < at)..];
        if later.first()?.longest[kind] < run {
            return None;
        }
        later.iter().find(|closer| closer.mark == mark && closer.run >= run).map(|closer| closer.end)
    }
}

/// The tag whose `<` stands at `start`, if one does.
#[inline]
pub(super) fn tag_at(text: &str, start: usize, wide: bool) -> Option<Tag> {
    match ascii_tag_at(text, start) {
        Plain::Tag(tag) => Some(tag),
        Plain::None => None,
        Plain::Unsure => any_tag_at(text, start, wide),
    }
}

enum Plain {
    Tag(Tag),
    None,
    Unsure,
}

/// The usual case in a few steps: a name of ASCII letters and nothing after it.
#[inline]
fn ascii_tag_at(text: &str, start: usize) -> Plain {
    let bytes = text.as_bytes();
    if bytes[start] != b'<' {
        return Plain::Unsure;
    }
    let close = bytes.get(start + 1) == Some(&b'/');
    let name_start = start + 1 + usize::from(close);
    match bytes.get(name_start) {
        Some(b) if b.is_ascii_alphabetic() => {}
        Some(b) if *b <= b' ' || !b.is_ascii() || matches!(b, b'/' | b'\\') => return Plain::Unsure,
        _ => return Plain::None,
    }
    let length = bytes[name_start..].iter().take_while(|b| NAME_BYTES[usize::from(**b)]).count();
    let name = name_start..name_start + length;
    match bytes.get(name.end) {
        Some(b'>') => {
            let form = if close { Form::Close } else { Form::Open };
            Plain::Tag(Tag { start, end: name.end + 1, name, form })
        }
        Some(b) if *b <= b' ' || !b.is_ascii() || *b == b'/' => Plain::Unsure,
        _ => Plain::None,
    }
}

/// The ASCII part of [`name_char`].
const NAME_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
        byte += 1;
    }
    table
};

fn any_tag_at(text: &str, start: usize, wide: bool) -> Option<Tag> {
    let plain = |c: char| match c {
        '＜' if wide => '<',
        '＞' if wide => '>',
        '／' if wide => '/',
        c => c,
    };
    let mut chars = text[start..].char_indices().map(|(i, c)| (start + i, plain(c)));
    chars.next();
    let (mut at, mut c) = chars.find(|&(_, c)| !white(c))?;
    let close = matches!(c, '/' | '\\');
    if close {
        (at, c) = chars.find(|&(_, c)| !white(c))?;
    }
    if !c.is_alphabetic() {
        return None;
    }
    let name_start = at;
    let (name_end, next) = chars.find(|&(_, c)| !name_char(c))?;
    if !(next == '>' || next == '/' || next.is_whitespace()) {
        return None;
    }
    let name = name_start..name_end;
    let end = match close {
        true => first_end(text, name_end, wide),
        false => attributes_end(text, name_end, wide).or_else(|| first_end(text, name_end, wide)),
    }?;
    let inside = &text[name_end..end];
    let inside = inside.strip_suffix(['>', '＞']).unwrap_or(inside).trim_end_matches(white);
    let empty = inside.ends_with('/') || (wide && inside.ends_with('／'));
    let form = match (close, empty) {
        (true, _) => Form::Close,
        (false, true) => Form::Empty,
        (false, false) => Form::Open,
    };
    Some(Tag { start, end, name, form })
}

/// Letters, digits and marks in a name; zero-width characters in it are skipped when it is folded.
pub(super) fn name_char(c: char) -> bool {
    c.is_alphanumeric()
        || matches!(c, '_' | '-' | '.' | ':')
        || (!c.is_ascii() && (super::chars::invisible(c) || is_combining_mark(c)))
}

/// Past the first `>`, unless a `<` comes before it.
fn first_end(text: &str, from: usize, wide: bool) -> Option<usize> {
    let (at, mark) = bracket(text, from, wide)?;
    (mark == b'>').then(|| at + width(text, at))
}

fn bracket(text: &str, from: usize, wide: bool) -> Option<(usize, u8)> {
    let rest = &text.as_bytes()[from..];
    if !wide {
        let found = memchr2(b'<', b'>', rest)?;
        return Some((from + found, rest[found]));
    }
    let (found, c) = text[from..].char_indices().find(|(_, c)| matches!(c, '<' | '>' | '＜' | '＞'))?;
    Some((from + found, if matches!(c, '<' | '＜') { b'<' } else { b'>' }))
}

fn width(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(0, char::len_utf8)
}

/// Past the `>` of an open tag whose quotes pair up: a quoted value may hold brackets.
///
/// A quote must follow `=`, and white space or the end of the tag must follow its partner. With this,
/// of all the open tags that are still unfinished at some place no two are in the same state
/// (outside, in `"`, in `'`), so that however many begin, at most three are ever followed at once.
fn attributes_end(text: &str, from: usize, wide: bool) -> Option<usize> {
    let mut at = from;
    let (mut bracket_at, mut mark) = bracket(text, at, wide)?;
    loop {
        if bracket_at < at {
            (bracket_at, mark) = bracket(text, at, wide)?;
        }
        let rest = &text.as_bytes()[at..bracket_at];
        let Some(quote_at) = memchr2(b'"', b'\'', rest).map(|n| at + n) else {
            return (mark == b'>').then(|| bracket_at + width(text, bracket_at));
        };
        if !text[from..quote_at].trim_end().ends_with('=') {
            return None;
        }
        let quote = text.as_bytes()[quote_at];
        at = quote_at + 1 + memchr(quote, &text.as_bytes()[quote_at + 1..])? + 1;
        let next = text[at..].chars().next()?;
        if !(next.is_whitespace() || matches!(next, '/' | '>' | '＞')) {
            return None;
        }
    }
}

/// Whether only white space or a list marker stands between the start of the line and `at`.
/// `line` is where the line starts.
pub(super) fn leads_line(text: &str, line: usize, at: usize) -> bool {
    let before = text[line..at].trim_matches(white);
    matches!(before, "" | "-" | "*" | "+" | "•")
        || before
            .strip_suffix(['.', ')'])
            .is_some_and(|number| number.len() <= 4 && number.bytes().all(|b| b.is_ascii_digit()))
}

pub(super) fn last_line_start(text: &str, from: usize, at: usize) -> Option<usize> {
    memrchr(b'\n', &text.as_bytes()[from..at]).map(|n| from + n + 1)
}

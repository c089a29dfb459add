//! Which elements of a name a reply holds: thinking is skipped, mentions are told from elements,
//! forgotten and misspelt close tags are repaired, a reply that was cut is recognised.

use std::borrow::Cow;
use std::ops::Range;

use super::chars::fold;
use super::chars::white;
use super::content::unescape;
use super::lex::Form;
use super::lex::Rules;
use super::lex::last_line_start;
use super::lex::leads_line;
use super::lex::name_char;
use super::pair;
use super::thinking;
use super::token::Class;
use super::token::Token;
use super::token::Tokens;

/// An element. Its content starts where its open tag ends.
#[derive(Debug, Clone)]
pub(super) struct Element {
    pub(super) start: usize,
    open_end: usize,
    inner_end: usize,
    pub(super) end: usize,
}

impl Element {
    pub(super) fn new(open: &Token, inner_end: usize, end: usize) -> Self {
        Element { start: open.start, open_end: open.end, inner_end, end }
    }

    pub(super) fn open(&self) -> Range<usize> {
        self.start..self.open_end
    }

    pub(super) fn inner(&self) -> Range<usize> {
        self.open_end..self.inner_end
    }
}

/// What a reply holds of one name. Offsets belong to `text`, which is the reply itself unless its
/// tags were escaped.
#[derive(Debug)]
pub(super) struct Found<'t> {
    pub(super) text: Cow<'t, str>,
    pub(super) elements: Vec<Element>,
    /// The open tag of the element that the end of the reply cut off.
    pub(super) cut: Option<Range<usize>>,
    /// The stretches of thinking, in order.
    pub(super) hidden: Vec<Range<usize>>,
}

impl Found<'_> {
    /// The reply without its thinking.
    pub(super) fn prose(&self) -> String {
        let mut prose = String::new();
        let mut at = 0;
        for range in &self.hidden {
            prose.push_str(&self.text[at..range.start.max(at)]);
            at = range.end;
        }
        prose.push_str(&self.text[at..]);
        prose
    }

    /// Whether the reply ends in an open tag of the name that was not finished.
    pub(super) fn ends_in_open_tag(&self, name: &str) -> bool {
        unfinished_tag(&self.text, &fold(name)).is_some_and(|at| {
            let line = last_line_start(&self.text, 0, at).unwrap_or(0);
            self.text[..at].ends_with('>') || leads_line(&self.text, line, at)
        })
    }
}

/// Finds the elements called `name` in a whole reply.
pub(super) fn find<'t>(text: &'t str, name: &str) -> Found<'t> {
    let name = fold(name);
    let plain = search(text, &name, Rules::default(), true);
    if plain.settled() || !plain.nothing_seen() {
        return plain.conclude(text, &name);
    }
    if text.contains('＜') {
        let wide = search(text, &name, Rules { wide: true, ..Rules::default() }, true);
        if wide.settled() {
            return wide.conclude(text, &name);
        }
    }
    if !escaped_tag(text, &name) {
        return plain.conclude(text, &name);
    }
    let text = unescape(text).into_owned();
    let found = search(&text, &name, Rules::default(), true).conclude(&text, &name);
    let Found { elements, cut, hidden, .. } = found;
    Found { elements, cut, hidden, text: Cow::Owned(text) }
}

/// Finds the fields of a record, in order, each with the index of its name. They stand side by
/// side: a field inside another one is content, and so are thinking tags and escaped tags.
pub(super) fn find_fields(text: &str, names: &[&str]) -> Vec<(usize, Element)> {
    let mut fields = Vec::new();
    let mut open_ended = Vec::new();
    for (field, name) in names.iter().enumerate() {
        let pass = search(text, &fold(name), Rules::default(), false);
        fields.extend(pass.elements.into_iter().map(|element| (field, element)));
        open_ended.extend(pass.cut.map(|open| (field, open)));
    }
    // a field that is not closed runs to the next one, or to the end of the record
    let closed = fields.iter().map(|(_, element): &(usize, Element)| element.start);
    let starts: Vec<usize> = closed.chain(open_ended.iter().map(|(_, open)| open.start)).collect();
    for (field, open) in open_ended {
        let end = starts.iter().copied().filter(|&start| start > open.start).min().unwrap_or(text.len());
        fields.push((field, Element { start: open.start, open_end: open.end, inner_end: end, end }));
    }
    fields.sort_by_key(|(_, element)| element.start);
    keep_outermost(&mut fields, |(_, element)| element);
    fields
}

pub(super) fn keep_outermost<T>(elements: &mut Vec<T>, element: impl Fn(&T) -> &Element) {
    let mut end = 0;
    elements.retain(|item| {
        let outermost = element(item).start >= end;
        end = end.max(element(item).end);
        outermost
    });
}

/// The tags of one pass over the text, and what they add up to.
#[derive(Debug, Default)]
struct Pass {
    elements: Vec<Element>,
    cut: Option<Range<usize>>,
    hidden: Vec<Range<usize>>,
    unfinished_thinking: bool,
    opens: usize,
    closes: usize,
    first_close: Range<usize>,
    coded: bool,
}

impl Pass {
    fn settled(&self) -> bool {
        !self.elements.is_empty() || self.cut.is_some()
    }

    fn nothing_seen(&self) -> bool {
        self.opens == 0 && self.closes == 0
    }

    /// The last resorts: the open tag was part of the prompt, or the reply ends inside it.
    fn conclude<'t>(mut self, text: &'t str, name: &str) -> Found<'t> {
        if !self.settled() {
            self.elements.extend(self.after_prefill(text));
        }
        if !self.settled() {
            self.cut = unfinished_tag(text, name).map(|start| start..text.len());
        }
        if !self.settled() && self.unfinished_thinking {
            self.cut = self.hidden.last().cloned();
        }
        Found { text: Cow::Borrowed(text), elements: self.elements, cut: self.cut, hidden: self.hidden }
    }

    fn after_prefill(&self, text: &str) -> Option<Element> {
        let close = &self.first_close;
        let start = self.hidden.iter().rfind(|range| range.end <= close.start).map_or(0, |range| range.end);
        let plain = self.opens == 0 && self.closes == 1 && !text[start..close.start].contains(['<', '>']);
        plain.then_some(Element { start, open_end: start, inner_end: close.start, end: close.end })
    }
}

/// First without what stands in code; if that holds no element, with it. In a whole `reply` thinking
/// is hidden.
fn search(text: &str, name: &str, rules: Rules, reply: bool) -> Pass {
    let read = |rules: Rules| pass(text, Tokens::of(text, name, rules), rules, reply);
    let outside = read(Rules { code: true, ..rules });
    if !outside.elements.is_empty() || !outside.coded {
        return outside;
    }
    let inside = read(Rules { code: false, ..rules });
    let better = match (&outside.cut, inside.elements.first()) {
        // an element that was only cut because its close tag seemed to stand in code
        (Some(cut), Some(first)) => {
            inside.cut.is_none() && first.open() == *cut && first.end > first.inner_end
        }
        (Some(_), None) => false,
        (None, _) => inside.settled() || outside.nothing_seen(),
    };
    if better { inside } else { outside }
}

/// One pass over the tags of the text.
fn pass(text: &str, tokens: Tokens, rules: Rules, reply: bool) -> Pass {
    let Tokens { list: mut tokens, coded } = tokens;
    let mut pass = Pass { coded, ..Pass::default() };
    if reply {
        let thinking = thinking::hidden(&tokens, text.len());
        pass.hidden = thinking.ranges;
        pass.unfinished_thinking = thinking.unfinished;
        let mut ranges = pass.hidden.iter().peekable();
        if ranges.peek().is_some() {
            tokens.retain(|token| {
                while ranges.next_if(|range| range.end <= token.start).is_some() {}
                ranges.peek().is_none_or(|range| token.start < range.start)
            });
        }
    }
    for token in tokens.iter().filter(|token| token.class == Class::Asked) {
        match token.form {
            Form::Close if pass.closes == 0 => (pass.closes, pass.first_close) = (1, token.start..token.end),
            Form::Close => pass.closes += 1,
            Form::Open | Form::Empty => pass.opens += 1,
        }
    }
    if pass.opens > 0 {
        let elements = pair::elements(text, &tokens, rules.wide, !rules.code);
        (pass.elements, pass.cut) = (elements.found, elements.cut);
    }
    pass
}

/// Where the text ends in `<` and the beginning of the name, or in the name and some attributes.
fn unfinished_tag(text: &str, name: &str) -> Option<usize> {
    let start = text.rfind('<')?;
    let tail = &text[start + 1..];
    let begun = &tail[..tail.find(|c| !name_char(c)).unwrap_or(tail.len())];
    let rest = &tail[begun.len()..];
    let begun = fold(begun);
    let cut = match rest.chars().next() {
        None => begun.chars().nth(1).is_some() && name.starts_with(&begun),
        Some(c) => begun == name && c.is_whitespace() && !rest.contains('>'),
    };
    cut.then_some(start)
}

fn escaped_tag(text: &str, name: &str) -> bool {
    text.match_indices("&lt;").any(|(at, mark)| {
        let rest = text[at + mark.len()..].trim_start_matches(white);
        let end = rest.find(|c| !name_char(c)).unwrap_or(rest.len());
        fold(&rest[..end]) == name
    })
}

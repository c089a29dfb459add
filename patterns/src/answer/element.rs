//! Which elements of a name a reply holds: thinking is skipped, mentions are told from elements,
//! forgotten and misspelt close tags are repaired, a reply that was cut is recognised.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use super::chars::blank;
use super::chars::fold;
use super::chars::white;
use super::content::unescape;
use super::lex::Form;
use super::lex::Lexer;
use super::lex::Piece;
use super::lex::Rules;
use super::lex::Tag;
use super::lex::last_line_start;
use super::lex::leads_line;
use super::lex::name_char;
use super::thinking;

/// An element: where its open tag, its content and the whole of it stand.
#[derive(Debug, Clone)]
pub(super) struct Element {
    pub(super) open: Range<usize>,
    pub(super) inner: Range<usize>,
    pub(super) end: usize,
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
    let plain = search(text, &name, Rules::default());
    if plain.settled() || !plain.nothing_seen() {
        return plain.conclude(text, &name);
    }
    if text.contains('＜') {
        let wide = search(text, &name, Rules { wide: true, ..Rules::default() });
        if wide.settled() {
            return wide.conclude(text, &name);
        }
    }
    if !escaped_tag(text, &name) {
        return plain.conclude(text, &name);
    }
    let text = unescape(text).into_owned();
    let found = search(&text, &name, Rules::default()).conclude(&text, &name);
    let Found { elements, cut, hidden, .. } = found;
    Found { elements, cut, hidden, text: Cow::Owned(text) }
}

/// Finds the fields of a record, in order, each with the index of its name. They stand side by
/// side: a field inside another one is content, and so are thinking tags and escaped tags.
pub(super) fn find_fields(text: &str, names: &[&str]) -> Vec<(usize, Element)> {
    let mut fields = Vec::new();
    let mut open_ended = Vec::new();
    for (field, name) in names.iter().enumerate() {
        let pass = search_as(text, &fold(name), Rules::default(), false);
        fields.extend(pass.elements.into_iter().map(|element| (field, element)));
        open_ended.extend(pass.cut.map(|open| (field, open)));
    }
    // a field that is not closed runs to the next one, or to the end of the record
    let starts: Vec<usize> = fields.iter().map(|(_, element)| element.open.start).collect();
    let starts: Vec<usize> =
        starts.into_iter().chain(open_ended.iter().map(|(_, open)| open.start)).collect();
    for (field, open) in open_ended {
        let end = starts.iter().copied().filter(|&start| start > open.start).min().unwrap_or(text.len());
        fields.push((field, Element { inner: open.end..end, open, end }));
    }
    fields.sort_by_key(|(_, element)| element.open.start);
    keep_outermost(&mut fields, |(_, element)| element);
    fields
}

fn keep_outermost<T>(elements: &mut Vec<T>, element: impl Fn(&T) -> &Element) {
    let mut end = 0;
    elements.retain(|item| {
        let outermost = element(item).open.start >= end;
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
    closes: Vec<Range<usize>>,
    coded: bool,
}

impl Pass {
    fn settled(&self) -> bool {
        !self.elements.is_empty() || self.cut.is_some()
    }

    fn nothing_seen(&self) -> bool {
        self.opens == 0 && self.closes.is_empty()
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
        let [close] = &self.closes[..] else { return None };
        let start = self.hidden.iter().rfind(|range| range.end <= close.start).map_or(0, |range| range.end);
        let inner = start..close.start;
        let plain = self.opens == 0 && !text[inner.clone()].contains(['<', '>']);
        plain.then(|| Element { open: start..start, inner, end: close.end })
    }
}

/// First without what stands in code; if that holds no element, with it.
fn search(text: &str, name: &str, rules: Rules) -> Pass {
    search_as(text, name, rules, true)
}

fn search_as(text: &str, name: &str, rules: Rules, reply: bool) -> Pass {
    let outside = Tags::of(text, name, Rules { code: true, ..rules }).pass(reply, false);
    if !outside.elements.is_empty() || !outside.coded {
        return outside;
    }
    let inside = Tags::of(text, name, Rules { code: false, ..rules }).pass(reply, true);
    let better = match (&outside.cut, inside.elements.first()) {
        // an element that was only cut because its close tag seemed to stand in code
        (Some(cut), Some(first)) => inside.cut.is_none() && first.open == *cut && first.end > first.inner.end,
        (Some(_), None) => false,
        (None, _) => inside.settled() || outside.nothing_seen(),
    };
    if better { inside } else { outside }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Asked,
    Thinking,
    Other,
}

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) tag: Tag,
    pub(super) class: Class,
    /// It begins its line, or follows another tag: it is meant as a tag, not as the name of one.
    pub(super) strong: bool,
}

#[derive(Debug)]
struct Tags<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    coded: bool,
}

impl<'t> Tags<'t> {
    fn of(text: &'t str, name: &str, rules: Rules) -> Self {
        let mut tags = Tags { text, tokens: Vec::new(), coded: false };
        let mut line = 0;
        let mut line_is_fresh = true;
        let mut seen = 0;
        let mut last: Option<(usize, bool)> = None;
        for piece in Lexer::new(text, rules) {
            match piece {
                Piece::Code(_) => tags.coded = true,
                Piece::Cdata(_) => {}
                Piece::Comment(range) => last = Some((range.end, true)),
                Piece::Tag(tag) => {
                    if let Some(start) = last_line_start(text, seen, tag.start) {
                        line = start;
                        line_is_fresh = true;
                    }
                    let follows = match last {
                        Some((end, _)) if end == tag.start => true,
                        // `</task> <task>`, but not `the <a> <b> tags`
                        Some((end, true)) => blank(&text[end..tag.start]) && !reads_as_mention(text, tag.end),
                        _ => text[..tag.start].ends_with("?>"),
                    };
                    let strong = follows || (line_is_fresh && leads_line(text, line, tag.start));
                    line_is_fresh = false;
                    seen = tag.start;
                    last = Some((tag.end, tag.form != Form::Open));
                    let class = classify(&text[tag.name.clone()], name);
                    tags.tokens.push(Token { tag, class, strong });
                }
            }
        }
        tags
    }

    fn pass(mut self, reply: bool, in_code: bool) -> Pass {
        let mut pass = Pass { coded: self.coded, ..Pass::default() };
        if reply {
            let thinking = thinking::hidden(&self.tokens, self.text.len());
            pass.hidden = thinking.ranges;
            pass.unfinished_thinking = thinking.unfinished;
            let mut ranges = pass.hidden.iter().peekable();
            self.tokens.retain(|token| {
                while ranges.next_if(|range| range.end <= token.tag.start).is_some() {}
                ranges.peek().is_none_or(|range| token.tag.start < range.start)
            });
        }
        for token in &self.tokens {
            match (token.class, token.tag.form) {
                (Class::Asked, Form::Close) => pass.closes.push(token.tag.start..token.tag.end),
                (Class::Asked, _) => pass.opens += 1,
                _ => {}
            }
        }
        if pass.opens > 0 {
            self.elements(&mut pass, in_code);
        }
        pass
    }

    fn elements(&self, pass: &mut Pass, in_code: bool) {
        let mut opens = self.pair();
        if let Some(element) = self.open_as_close(&opens, pass) {
            pass.elements.push(element);
            return;
        }
        self.widen(&mut opens);
        let mut elements: Vec<Element> = opens.iter().filter_map(|open| self.paired(open)).collect();
        if elements.len() < opens.len() {
            self.repair(&opens, &mut elements, pass, in_code);
        }
        elements.sort_by_key(|element| element.open.start);
        keep_outermost(&mut elements, |element| element);
        pass.elements = elements;
    }

    /// Every close tag belongs to the nearest open one before it.
    fn pair(&self) -> Vec<Open> {
        let mut opens: Vec<Open> = Vec::new();
        let mut waiting = Vec::new();
        for (at, token) in self.tokens.iter().enumerate().filter(|(_, token)| token.class == Class::Asked) {
            match token.tag.form {
                Form::Open => {
                    waiting.push(opens.len());
                    opens.push(Open { at, close: None, strong: token.strong });
                }
                Form::Empty => opens.push(Open { at, close: Some(at), strong: token.strong }),
                Form::Close => {
                    if let Some(open) = waiting.pop() {
                        opens[open].close = Some(at);
                    }
                }
            }
        }
        opens
    }

    /// `<label>billing<label>`: the slash was forgotten.
    fn open_as_close(&self, opens: &[Open], pass: &Pass) -> Option<Element> {
        let [first, second] = opens else { return None };
        if !pass.closes.is_empty() || first.close.is_some() || second.close.is_some() {
            return None;
        }
        let (first, second) = (&self.tokens[first.at].tag, &self.tokens[second.at].tag);
        let inner = first.end..second.start;
        let whole = !blank(&self.text[inner.clone()]) && blank(&self.text[second.end..]);
        whole.then(|| Element { open: first.start..first.end, inner, end: second.end })
    }

    /// `<response>Wrap it in <response> tags</response>` is one element: its open tag was paired
    /// with nothing, because the one that the sentence names took its close tag.
    fn widen(&self, opens: &mut [Open]) {
        for first in 0..opens.len() {
            if !opens[first].strong || opens[first].close.is_some() {
                continue;
            }
            let until =
                opens[first + 1..].iter().position(|open| open.strong).map_or(opens.len(), |n| first + 1 + n);
            let weak =
                (first + 1..until).filter(|&i| opens[i].close.is_some_and(|close| close != opens[i].at));
            let Some(last) = weak.max_by_key(|&i| opens[i].close) else { continue };
            let names_itself = |open: &Open| reads_as_mention(self.text, self.tokens[open.at].tag.end);
            // `<label> is the tag, so: <label>billing</label>` is the other way round
            if names_itself(&opens[first]) && !names_itself(&opens[last]) {
                opens[first].strong = false;
                continue;
            }
            opens[first].close = opens[last].close.take();
        }
    }

    fn paired(&self, open: &Open) -> Option<Element> {
        let close = &self.tokens[open.close?].tag;
        let open = &self.tokens[open.at].tag;
        let inner = open.end..close.start.max(open.end);
        Some(Element { open: open.start..open.end, inner, end: close.end })
    }

    /// Open tags that no close tag belongs to: repaired, taken for a mention, or cut off.
    fn repair(&self, opens: &[Open], elements: &mut Vec<Element>, pass: &mut Pass, in_code: bool) {
        let nesting = Nesting::of(self, opens);
        let found = !elements.is_empty();
        let lost =
            |strong: bool| opens.iter().filter(move |open| open.close.is_none() && open.strong == strong);
        for open in lost(true) {
            let tag = &self.tokens[open.at].tag;
            match nesting.end_of(open.at) {
                // a legend: `- <label>: the class`
                _ if found && self.text[tag.end..].starts_with([':', ',']) => {}
                Some((inner_end, end)) => {
                    let inner = tag.end..inner_end;
                    elements.push(Element { open: tag.start..tag.end, inner, end });
                }
                None => pass.cut = pass.cut.take().or(Some(tag.start..tag.end)),
            }
        }
        let Some(last) = lost(false).next_back() else { return };
        let tag = &self.tokens[last.at].tag;
        let next = self.text[tag.end..].chars().next();
        if elements.is_empty() && pass.cut.is_none() {
            if let Some((inner_end, end)) = nesting.end_of(last.at) {
                elements.push(Element { open: tag.start..tag.end, inner: tag.end..inner_end, end });
            } else if !in_code && !reads_as_mention(self.text, tag.end) {
                pass.cut = Some(tag.start..tag.end);
            }
        } else if !in_code
            && next.is_some_and(char::is_alphanumeric)
            && elements.iter().all(|element| element.end <= tag.start)
        {
            // after the last element a text begins that never ends: a list that was cut
            pass.cut = pass.cut.take().or(Some(tag.start..tag.end));
        }
    }
}

#[derive(Debug)]
struct Open {
    at: usize,
    close: Option<usize>,
    strong: bool,
}

/// Which tags belong together, whatever their name; only built when an open tag was left over.
struct Nesting<'a, 't> {
    tags: &'a Tags<'t>,
    partner: Vec<Option<usize>>,
    html: Vec<bool>,
}

impl<'a, 't> Nesting<'a, 't> {
    fn of(tags: &'a Tags<'t>, opens: &[Open]) -> Self {
        let tokens = &tags.tokens;
        let mut partner = vec![None; tokens.len()];
        for open in opens {
            if let Some(close) = open.close {
                partner[open.at] = Some(close);
                partner[close] = Some(open.at);
            }
        }
        let mut html = vec![false; tokens.len()];
        let mut waiting: Vec<(usize, String)> = Vec::new();
        let mut waiting_for: HashMap<String, usize> = HashMap::new();
        for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.class != Class::Asked) {
            let name = fold(&tags.text[token.tag.name.clone()]);
            html[at] = is_html(&name);
            match token.tag.form {
                Form::Empty => partner[at] = Some(at),
                Form::Open => {
                    *waiting_for.entry(name.clone()).or_default() += 1;
                    waiting.push((at, name));
                }
                Form::Close if waiting_for.get(&name).is_none_or(|&count| count == 0) => {}
                Form::Close => {
                    while let Some((open, open_name)) = waiting.pop() {
                        if let Some(count) = waiting_for.get_mut(&open_name) {
                            *count -= 1;
                        }
                        if open_name == name {
                            partner[open] = Some(at);
                            partner[at] = Some(open);
                            break;
                        }
                    }
                }
            }
        }
        Nesting { tags, partner, html }
    }

    /// Where the element ends whose open tag was left over: the end of its content, and of the whole.
    fn end_of(&self, open: usize) -> Option<(usize, usize)> {
        let tokens = &self.tags.tokens;
        let body = tokens[open].tag.end;
        // the first field inside, if text stands before it: the place where a forgotten close tag belongs
        let mut field: Option<Option<usize>> = None;
        let mut at = open + 1;
        while let Some(token) = tokens.get(at) {
            let start = token.tag.start;
            let asked = token.class == Class::Asked;
            match token.tag.form {
                Form::Open if asked && token.strong => {
                    let end = field.flatten().unwrap_or(start);
                    return Some((end, end));
                }
                Form::Open | Form::Empty => {
                    if !asked && !self.html[at] && field.is_none() {
                        field = Some((!blank(&self.tags.text[body..start])).then_some(start));
                    }
                    at = self.partner[at].unwrap_or(at);
                }
                Form::Close if asked => {}
                Form::Close => match self.partner[at] {
                    Some(partner) if partner > open => {}
                    Some(_) => {
                        let end = field.flatten().unwrap_or(start);
                        return Some((end, end));
                    }
                    None if self.html[at] => {}
                    None => return Some((start, token.tag.end)),
                },
            }
            at += 1;
        }
        let end = field.flatten()?;
        self.ends_in_closed_element(open).then_some((end, end))
    }

    fn ends_in_closed_element(&self, open: usize) -> bool {
        let Some(last) = self.tags.tokens.last() else { return false };
        let closed =
            last.tag.form != Form::Open && self.partner.last().is_some_and(|p| p.is_some_and(|p| p > open));
        closed && self.tags.text[last.tag.end..].chars().all(|c| white(c) || matches!(c, '`' | '~'))
    }
}

fn classify(name: &str, asked: &str) -> Class {
    let same = match name.is_ascii() {
        true => name.eq_ignore_ascii_case(asked),
        false => fold(name) == asked,
    };
    match same {
        true => Class::Asked,
        false if thinking::is_name(name) => Class::Thinking,
        false => Class::Other,
    }
}

/// What follows the tag shows that a sentence names it: `the <label> tag`, `(<label>)`.
fn reads_as_mention(text: &str, end: usize) -> bool {
    text[end..].chars().next().is_some_and(|c| {
        matches!(
            c,
            ' ' | ',' | '.' | ';' | ':' | ')' | '!' | '?' | '"' | '\'' | '`' | '”' | '’' | '»' | '*' | '_'
        )
    })
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

/// Elements of running text: one that follows an open tag is content, not the next field.
fn is_html(name: &str) -> bool {
    const NAMES: [&str; 50] = [
        "a",
        "abbr",
        "b",
        "big",
        "blockquote",
        "br",
        "center",
        "cite",
        "code",
        "dd",
        "del",
        "dfn",
        "div",
        "dl",
        "dt",
        "em",
        "font",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "i",
        "img",
        "ins",
        "kbd",
        "li",
        "mark",
        "ol",
        "p",
        "pre",
        "q",
        "s",
        "samp",
        "small",
        "span",
        "strong",
        "sub",
        "sup",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "u",
        "ul",
        "var",
    ];
    NAMES.binary_search(&name).is_ok()
}

//! From tags to elements: which open and which close tag belong together, and what becomes of an
//! open tag that is left over.

use std::ops::Range;

use super::chars::blank;
use super::element::Element;
use super::element::keep_outermost;
use super::lex::Form;
use super::nesting::Nesting;
use super::token::Class;
use super::token::Token;
use super::token::reads_as_mention;

/// For each token the one it belongs to.
#[derive(Debug)]
pub(super) struct Partners(Vec<usize>);

impl Partners {
    const NONE: usize = usize::MAX;

    pub(super) fn none(tokens: &[Token]) -> Self {
        Partners(vec![Self::NONE; tokens.len()])
    }

    /// Every close tag of the asked name belongs to the nearest open one before it.
    pub(super) fn asked(tokens: &[Token]) -> Self {
        let mut partners = Partners::none(tokens);
        let mut waiting = Vec::new();
        for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.class == Class::Asked) {
            match token.form {
                Form::Open => waiting.push(at),
                Form::Empty => partners.join(at, at),
                Form::Close => {
                    if let Some(open) = waiting.pop() {
                        partners.join(open, at);
                    }
                }
            }
        }
        partners
    }

    pub(super) fn join(&mut self, open: usize, close: usize) {
        self.0[open] = close;
        self.0[close] = open;
    }

    pub(super) fn of(&self, at: usize) -> Option<usize> {
        Some(self.0[at]).filter(|&partner| partner != Self::NONE)
    }

    fn part(&mut self, open: usize) -> Option<usize> {
        let close = self.of(open)?;
        self.0[open] = Self::NONE;
        Some(close)
    }
}

/// The elements of the asked name, and the open tag of the one that was cut.
#[derive(Debug, Default)]
pub(super) struct Elements {
    pub(super) found: Vec<Element>,
    pub(super) cut: Option<Range<usize>>,
}

/// `in_code`: the tags stand in code, where an open tag alone is a mention.
pub(super) fn elements(text: &str, tokens: &[Token], wide: bool, in_code: bool) -> Elements {
    if let Some(element) = open_as_close(text, tokens) {
        return Elements { found: vec![element], cut: None };
    }
    let mut partners = Partners::asked(tokens);
    let mentions = widen(text, tokens, &mut partners);
    let mut elements = Elements::default();
    if lost(tokens, &partners).next().is_none() {
        elements.found.extend((0..tokens.len()).filter_map(|at| paired(tokens, &partners, at)));
    } else {
        let nesting = Nesting::new(text, tokens, wide, partners);
        elements.with_repairs(text, tokens, &nesting, &mentions);
        if elements.found.is_empty() && elements.cut.is_none() {
            elements.without_any(text, tokens, &nesting, in_code);
        } else if !in_code {
            elements.list_goes_on(text, tokens, &nesting);
        }
    }
    keep_outermost(&mut elements.found, |element| element);
    elements
}

/// The open tags that no close tag belongs to.
fn lost<'a>(tokens: &'a [Token], partners: &'a Partners) -> impl DoubleEndedIterator<Item = usize> + 'a {
    (0..tokens.len()).filter(|&at| tokens[at].opens() && partners.of(at).is_none())
}

fn paired(tokens: &[Token], partners: &Partners, at: usize) -> Option<Element> {
    let open = &tokens[at];
    if open.class != Class::Asked || open.form == Form::Close {
        return None;
    }
    let close = &tokens[partners.of(at)?];
    Some(Element::new(open, close.start.max(open.end), close.end))
}

/// `<label>billing<label>`: the slash was forgotten.
fn open_as_close(text: &str, tokens: &[Token]) -> Option<Element> {
    let mut asked = tokens.iter().filter(|token| token.class == Class::Asked);
    let (first, second) = (asked.next()?, asked.next()?);
    let meant = first.strong || !reads_as_mention(text, first.end);
    let two_opens = first.opens() && second.opens() && asked.next().is_none() && meant;
    let whole = two_opens && !blank(&text[first.end..second.start]) && blank(&text[second.end..]);
    whole.then(|| Element::new(first, second.start, second.end))
}

/// `<response>Wrap it in <response> tags</response>` is one element: its open tag was paired
/// with nothing, because the one that the sentence names took its close tag.
///
/// Returns the open tags that turn out to be mentions themselves.
fn widen(text: &str, tokens: &[Token], partners: &mut Partners) -> Vec<usize> {
    let mut mentions = Vec::new();
    let mut strong: Option<usize> = None;
    let mut widest: Option<(usize, usize)> = None;
    let mut settle = |strong: Option<usize>, widest: Option<(usize, usize)>, partners: &mut Partners| {
        let (Some(first), Some((weak, _))) = (strong, widest) else { return };
        let names_itself = |at: usize| reads_as_mention(text, tokens[at].end);
        if names_itself(first) && !names_itself(weak) {
            // `<label> is the tag, so: <label>billing</label>` is the other way round
            mentions.push(first);
        } else if let Some(close) = partners.part(weak) {
            partners.join(first, close);
        }
    };
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.opens()) {
        if token.strong {
            settle(strong, widest.take(), partners);
            strong = Some(at).filter(|&at| partners.of(at).is_none());
        } else if let Some(close) = partners.of(at).filter(|_| strong.is_some()) {
            widest = widest.filter(|&(_, widest)| widest > close).or(Some((at, close)));
        }
    }
    settle(strong, widest, partners);
    mentions
}

impl Elements {
    /// Pairs, and strong open tags that were left over: repaired, or cut off.
    fn with_repairs(&mut self, text: &str, tokens: &[Token], nesting: &Nesting<'_>, mentions: &[usize]) {
        let partners = nesting.partners();
        let any_pair = (0..tokens.len()).any(|at| paired(tokens, partners, at).is_some());
        let mut mentions = mentions.iter().copied().peekable();
        for (at, token) in tokens.iter().enumerate() {
            let mentioned = mentions.next_if_eq(&at).is_some();
            if let Some(element) = paired(tokens, partners, at) {
                self.found.push(element);
            } else if token.opens() && token.strong && !mentioned {
                match nesting.end_of(at) {
                    // a legend: `- <label>: the class`
                    _ if any_pair && text[token.end..].starts_with([':', ',']) => {}
                    Some((inner_end, end)) => self.found.push(Element::new(token, inner_end, end)),
                    None => self.cut = self.cut.take().or(Some(token.start..token.end)),
                }
            }
        }
    }

    /// No element was found: the last open tag within a line may begin one, or be a mention.
    fn without_any(&mut self, text: &str, tokens: &[Token], nesting: &Nesting<'_>, in_code: bool) {
        let Some(last) = lost(tokens, nesting.partners()).next_back() else { return };
        let token = &tokens[last];
        if let Some((inner_end, end)) = nesting.end_of(last) {
            self.found.push(Element::new(token, inner_end, end));
        } else if !in_code && !reads_as_mention(text, token.end) {
            self.cut = Some(token.start..token.end);
        }
    }

    /// After the last element a text begins that never ends: a list that was cut.
    fn list_goes_on(&mut self, text: &str, tokens: &[Token], nesting: &Nesting<'_>) {
        let Some(last) = lost(tokens, nesting.partners()).rfind(|&at| !tokens[at].strong) else { return };
        let token = &tokens[last];
        let begins = text[token.end..].starts_with(char::is_alphanumeric);
        if begins && self.found.iter().all(|element| element.end <= token.start) {
            self.cut = self.cut.take().or(Some(token.start..token.end));
        }
    }
}

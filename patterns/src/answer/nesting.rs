//! Which tags belong together, whatever their name; needed only where an open tag was left over.

use std::collections::HashMap;

use super::chars::blank;
use super::chars::fold;
use super::chars::white;
use super::lex::Form;
use super::lex::tag_at;
use super::pair::Partners;
use super::token::Class;
use super::token::Token;

pub(super) struct Nesting<'t> {
    text: &'t str,
    tokens: &'t [Token],
    partners: Partners,
    html: Vec<bool>,
}

impl<'t> Nesting<'t> {
    /// Adds the pairs of all other names to those of the asked one.
    pub(super) fn new(text: &'t str, tokens: &'t [Token], wide: bool, mut partners: Partners) -> Self {
        let mut html = vec![false; tokens.len()];
        let mut waiting: Vec<(usize, String)> = Vec::new();
        let mut waiting_for: HashMap<String, usize> = HashMap::new();
        for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.class != Class::Asked) {
            let name = tag_at(text, token.start, wide).map_or_else(String::new, |tag| fold(&text[tag.name]));
            html[at] = is_html(&name);
            match token.form {
                Form::Empty => partners.join(at, at),
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
                            partners.join(open, at);
                            break;
                        }
                    }
                }
            }
        }
        Nesting { text, tokens, partners, html }
    }

    pub(super) fn partners(&self) -> &Partners {
        &self.partners
    }

    /// Where the element ends whose open tag was left over: the end of its content, and of the whole.
    pub(super) fn end_of(&self, open: usize) -> Option<(usize, usize)> {
        let body = self.tokens[open].end;
        // the first field inside, if text stands before it: the place where a forgotten close tag belongs
        let mut field: Option<Option<usize>> = None;
        let mut at = open + 1;
        while let Some(token) = self.tokens.get(at) {
            let start = token.start;
            let asked = token.class == Class::Asked;
            match token.form {
                Form::Open if asked && token.strong => {
                    let end = field.flatten().unwrap_or(start);
                    return Some((end, end));
                }
                Form::Open | Form::Empty => {
                    if !asked && !self.html[at] && field.is_none() {
                        field = Some((!blank(&self.text[body..start])).then_some(start));
                    }
                    at = self.partners.of(at).unwrap_or(at);
                }
                Form::Close if asked => {}
                Form::Close => match self.partners.of(at) {
                    Some(partner) if partner > open => {}
                    Some(_) => {
                        let end = field.flatten().unwrap_or(start);
                        return Some((end, end));
                    }
                    None if self.html[at] => {}
                    None => return Some((start, token.end)),
                },
            }
            at += 1;
        }
        let end = field.flatten()?;
        self.ends_in_closed_element(open).then_some((end, end))
    }

    fn ends_in_closed_element(&self, open: usize) -> bool {
        let Some(last) = self.tokens.last() else { return false };
        let partner = self.partners.of(self.tokens.len() - 1);
        last.form != Form::Open
            && partner.is_some_and(|partner| partner > open)
            && self.text[last.end..].chars().all(|c| white(c) || matches!(c, '`' | '~'))
    }
}

/// Elements of running text: one that follows an open tag is content, not the next field.
fn is_html(name: &str) -> bool {
    const NAMES: &str = " a abbr b big blockquote br center cite code dd del dfn div dl dt em font h1 h2 h3 h4 h5 \
        h6 hr i img ins kbd li mark ol p pre q s samp small span strong sub sup table tbody td \
        th thead tr u ul var ";
    !name.is_empty() && NAMES.contains(&format!(" {name} "))
}

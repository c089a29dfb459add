//! The tags of a reply that the search for elements is about.

use memchr::memchr_iter;

use super::chars::blank;
use super::chars::fold;
use super::lex::Form;
use super::lex::Lexer;
use super::lex::Piece;
use super::lex::Rules;
use super::lex::last_line_start;
use super::lex::leads_line;
use super::thinking;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Asked,
    Thinking,
    Other,
}

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) form: Form,
    pub(super) class: Class,
    /// It begins its line, or follows another tag: it is meant as a tag, not as the name of one.
    pub(super) strong: bool,
}

impl Token {
    /// It opens an element that is asked for; an empty element does not.
    pub(super) fn opens(&self) -> bool {
        self.class == Class::Asked && self.form == Form::Open
    }
}

#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) list: Vec<Token>,
    /// Code was left out.
    pub(super) coded: bool,
}

impl Tokens {
    pub(super) fn of(text: &str, name: &str, rules: Rules) -> Self {
        // most lists are short, and a long one must not be moved about while it grows
        let most = memchr_iter(b'<', text.as_bytes()).count();
        let mut tokens = Tokens { list: Vec::with_capacity(most), coded: false };
        let mut line = 0;
        let mut line_is_fresh = true;
        let mut seen = 0;
        // where the last tag or comment ended, and whether it left nothing open
        let mut last: Option<(usize, bool)> = None;
        for piece in Lexer::new(text, rules) {
            match piece {
                Piece::Code(_) => tokens.coded = true,
                Piece::Cdata(_) => {}
                Piece::Comment(range) => last = Some((range.end, true)),
                Piece::Tag(tag) => {
                    let adjoins = last.is_some_and(|(end, _)| end == tag.start);
                    let strong = adjoins || {
                        if let Some(start) = last_line_start(text, seen, tag.start) {
                            line = start;
                            line_is_fresh = true;
                        }
                        seen = tag.start;
                        let follows = match last {
                            // `</task> <task>`, but not `the <a> <b> tags`
                            Some((end, true)) => {
                                blank(&text[end..tag.start]) && !reads_as_mention(text, tag.end)
                            }
                            _ => text[..tag.start].ends_with("?>"),
                        };
                        follows || (line_is_fresh && leads_line(text, line, tag.start))
                    };
                    line_is_fresh = false;
                    last = Some((tag.end, tag.form != Form::Open));
                    let class = classify(&text[tag.name], name);
                    tokens.list.push(Token { start: tag.start, end: tag.end, form: tag.form, class, strong });
                }
            }
        }
        tokens
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
pub(super) fn reads_as_mention(text: &str, end: usize) -> bool {
    text[end..].chars().next().is_some_and(|c| {
        matches!(
            c,
            ' ' | ',' | '.' | ';' | ':' | ')' | '!' | '?' | '"' | '\'' | '`' | '”' | '’' | '»' | '*' | '_'
        )
    })
}

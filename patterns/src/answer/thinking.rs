//! Thinking blocks: what a model wrote before it answered is no answer.

use std::ops::Range;

use super::chars::fold;
use super::lex::Form;
use super::pair::Partners;
use super::token::Class;
use super::token::Token;

const NAMES: [&str; 6] = ["think", "thinking", "thought", "thoughts", "reasoning", "scratchpad"];

pub(super) fn is_name(name: &str) -> bool {
    match name.is_ascii() {
        true => NAMES.iter().any(|thinking| name.eq_ignore_ascii_case(thinking)),
        false => NAMES.contains(&fold(name).as_str()),
    }
}

#[derive(Debug, Default)]
pub(super) struct Thinking {
    pub(super) ranges: Vec<Range<usize>>,
    /// The last block runs to the end of the reply.
    pub(super) unfinished: bool,
}

/// What thinking hides. Inside an asked element a thinking tag is content.
pub(super) fn hidden(tokens: &[Token], length: usize) -> Thinking {
    let mut thinking = Thinking::default();
    let is = |token: &Token, form| token.class == Class::Thinking && token.form == form;
    if !tokens.iter().any(|token| token.class == Class::Thinking) {
        return thinking;
    }
    let partners = Partners::asked(tokens);
    let last_close = tokens.iter().rposition(|token| is(token, Form::Close));
    let is_asked =
        |at: usize| tokens[at].class == Class::Asked && (tokens[at].strong || partners.of(at).is_some());
    let last_asked = (0..tokens.len()).rfind(|&at| is_asked(at) && tokens[at].form != Form::Close);
    let mut seen_asked = false;
    let mut at = 0;
    while at < tokens.len() {
        let token = &tokens[at];
        if token.class == Class::Asked && token.form != Form::Close {
            seen_asked |= is_asked(at);
            at = partners.of(at).unwrap_or(at);
        } else if is(token, Form::Open) {
            if last_close.is_some_and(|last| last > at) {
                let start = token.start;
                at += tokens[at..].iter().position(|token| is(token, Form::Close)).unwrap_or(0);
                thinking.ranges.push(start..tokens[at].end);
            } else if token.strong || !seen_asked {
                thinking.ranges.push(token.start..length);
                thinking.unfinished = true;
                break;
            }
        } else if is(token, Form::Close) && (!seen_asked || last_asked.is_some_and(|last| last > at)) {
            // its open tag was part of the prompt: all before it is thinking
            thinking.ranges.clear();
            thinking.ranges.push(0..token.end);
            seen_asked = false;
        }
        at += 1;
    }
    thinking
}

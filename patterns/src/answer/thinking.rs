//! Thinking blocks: what a model wrote before it answered is no answer.

use std::ops::Range;

use super::chars::fold;
use super::element::Class;
use super::element::Token;
use super::lex::Form;

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
    let is = |token: &Token, form| token.class == Class::Thinking && token.tag.form == form;
    if !tokens.iter().any(|token| token.class == Class::Thinking) {
        return thinking;
    }
    let closes = closes(tokens);
    let last_close = tokens.iter().rposition(|token| is(token, Form::Close));
    let is_asked =
        |at: usize| tokens[at].class == Class::Asked && (tokens[at].strong || closes[at].is_some());
    let last_asked = (0..tokens.len()).rfind(|&at| is_asked(at) && tokens[at].tag.form != Form::Close);
    let mut seen_asked = false;
    let mut at = 0;
    while at < tokens.len() {
        let token = &tokens[at];
        if token.class == Class::Asked && token.tag.form != Form::Close {
            seen_asked |= is_asked(at);
            at = closes[at].unwrap_or(at);
        } else if is(token, Form::Open) {
            if last_close.is_some_and(|last| last > at) {
                let start = token.tag.start;
                at += tokens[at..].iter().position(|token| is(token, Form::Close)).unwrap_or(0);
                thinking.ranges.push(start..tokens[at].tag.end);
            } else if token.strong || !seen_asked {
                thinking.ranges.push(token.tag.start..length);
                thinking.unfinished = true;
                break;
            }
        } else if is(token, Form::Close) && (!seen_asked || last_asked.is_some_and(|last| last > at)) {
            // its open tag was part of the prompt: all before it is thinking
            thinking.ranges = vec![0..token.tag.end];
            seen_asked = false;
        }
        at += 1;
    }
    thinking
}

/// For each asked open tag the close tag that belongs to it.
fn closes(tokens: &[Token]) -> Vec<Option<usize>> {
    let mut closes = vec![None; tokens.len()];
    let mut waiting = Vec::new();
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.class == Class::Asked) {
        match token.tag.form {
            Form::Open => waiting.push(at),
            Form::Empty => closes[at] = Some(at),
            Form::Close => {
                if let Some(open) = waiting.pop() {
                    closes[open] = Some(at);
                }
            }
        }
    }
    closes
}

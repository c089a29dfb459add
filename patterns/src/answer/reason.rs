//! What follows a label or stands before it: a reason, a reservation, a denial.

use super::word::is_negation;
use super::word::word_end;
use super::word::words;

/// The text after a leading label is the reason for it: what stands after the separator.
pub(super) fn reason(rest: &[char]) -> Option<(char, &[char])> {
    let closers =
        rest.iter().take_while(|c| matches!(c, '*' | '_' | '`' | '"' | '\'' | '”' | '»' | ')' | ']' | '}'));
    let rest = &rest[closers.count()..];
    let spaces = rest.iter().take_while(|c| c.is_whitespace() && **c != '\n').count();
    let (gap, rest) = rest.split_at(spaces);
    let (&mark, after) = rest.split_first()?;
    match mark {
        '\n' | ':' | ';' | '(' | '.' | '。' | '—' | '!' => Some((mark, after)),
        '-' | '–' => {
            let dashes = after.iter().take_while(|&&c| c == mark).count();
            let spaced = !gap.is_empty() && after.get(dashes).is_none_or(|c| c.is_whitespace());
            (spaced || dashes > 0).then_some((mark, &after[dashes..]))
        }
        _ => {
            let after = if mark == ',' { after } else { rest };
            let because = first_words(after, 3);
            let reason = match because.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["as", "long", "as"] => false,
                [first, ..] => matches!(first, "because" | "since" | "as" | "due"),
                [] => false,
            };
            reason.then_some((' ', after))
        }
    }
}

/// Lines, sentences, parentheses.
pub(super) fn pieces(reason: &[char]) -> impl Iterator<Item = &[char]> {
    reason.split(|c| matches!(c, '\n' | '.' | ';' | '!' | '?' | '。' | '(' | ')'))
}

fn first_words(text: &[char], most: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = 0;
    while found.len() < most && at < text.len() && text[at] != '\n' {
        match text[at].is_alphanumeric() {
            true => {
                let end = word_end(text, at);
                found.push(text[at..end].iter().collect());
                at = end;
            }
            false => at += 1,
        }
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hedge {
    /// Right after the label: `PASS if ..`.
    Directly,
    /// After a separator, where `if` may well begin the reason.
    AfterSeparator,
}

pub(super) fn hedged(rest: &[char], place: Hedge, strict: bool) -> bool {
    let sentence_over =
        rest.iter().find(|c| !c.is_whitespace()).is_some_and(|c| matches!(c, '.' | '!' | '?'));
    if place == Hedge::Directly && sentence_over {
        return false;
    }
    let words = first_words(rest, 5);
    let Some(first) = words.first() else { return false };
    let with_reservations = || {
        words.iter().any(|word| {
            ["reservation", "caveat", "condition", "exception", "concern", "qualification", "proviso"]
                .iter()
                .any(|doubt| word.starts_with(doubt))
        })
    };
    match first.as_str() {
        "or" => true,
        "but" => strict || place == Hedge::AfterSeparator,
        "with" => with_reservations() && (strict || place == Hedge::AfterSeparator),
        "except" | "provided" | "providing" | "assuming" | "pending" | "conditional" | "conditionally" => {
            strict
        }
        "if" | "unless" | "once" | "until" | "when" | "subject" | "though" | "although" | "however"
        | "contingent" => strict && place == Hedge::Directly,
        "as" => strict && words.iter().skip(1).take(2).eq(["long", "as"]),
        "only" | "on" => {
            strict && words.get(1).is_some_and(|word| word == "if" || word == "when" || word == "condition")
        }
        _ => false,
    }
}

/// `PASS?`
pub(super) fn asked(rest: &[char]) -> bool {
    rest.iter().find(|c| !c.is_whitespace() && !matches!(c, '*' | '"' | '\'' | '`')) == Some(&'?')
}

/// `PASS: no`, `PASS - false`
pub(super) fn denied(reason: &[char]) -> bool {
    let Some(word) = first_words(reason, 1).pop() else { return false };
    let start = reason.iter().position(|c| c.is_alphanumeric()).unwrap_or(0);
    let after = reason[start + word.chars().count()..].iter().find(|&&c| c != ' ');
    matches!(word.as_str(), "no" | "false" | "not") && after.is_none_or(|c| !c.is_alphanumeric())
}

/// `PASS is not warranted`, `PASS=false`
pub(super) fn taken_back(rest: &[char]) -> bool {
    let words = first_words(rest, 3);
    let verb = |word: &String| {
        matches!(word.as_str(), "is" | "was" | "would" | "should" | "could" | "can" | "has" | "be")
    };
    match words.split_first() {
        Some((first, _)) if first == "not" || first == "cannot" || first.ends_with("n't") => true,
        Some((first, others)) => {
            verb(first) && others.iter().any(|word| is_negation(word)) || rest.first() == Some(&'=')
        }
        None => false,
    }
}

/// What stands before the only label makes it a supposition: `would PASS`, `almost a PASS`.
pub(super) fn supposed(before: &[char]) -> bool {
    let before: String = before.iter().collect();
    let mut words = words(&before).peekable();
    while let Some(word) = words.next() {
        match word {
            "would" | "could" | "should" | "might" | "may" => {
                let says = |next: &&str| {
                    matches!(
                        *next,
                        "say" | "be" | "rate" | "call" | "give" | "judge" | "grade" | "mark" | "go"
                    )
                };
                if words.next_if(says).is_none() {
                    return true;
                }
            }
            "if" | "unless" | "until" | "whether" | "almost" | "nearly" | "conditional" | "conditionally"
            | "far" | "near" | "nowhere" | "close" | "short" | "refuse" | "refuses" | "refused"
            | "decline" | "declines" | "declined" | "reject" | "rejects" | "rejected" | "borderline"
            | "provisional" | "tentative" | "partial" | "maybe" | "perhaps" | "possibly" => {
                return true;
            }
            _ => {}
        }
    }
    false
}

//! Which of the allowed labels a piece of text asserts.

use std::collections::HashMap;

use super::chars::empty_or_dots;
use super::chars::fold;
use super::chars::trim;
use super::chars::unify;
use super::field::Fields;

/// What a piece of text says about a choice. Labels are indices into the allowed ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reading {
    Blank,
    Label(usize),
    /// Several labels, or one with a reservation.
    Unsettled,
    Unknown,
}

/// A longer text, in bytes, is no label with decoration round it.
const LONGEST_DECORATED: usize = 1000;

/// The allowed labels, ready to be recognised.
#[derive(Debug)]
pub(super) struct Choice<'a, 'f> {
    labels: Vec<Label<'a>>,
    /// Labels by their first character, the longest first.
    by_first: HashMap<char, Vec<usize>>,
    fields: Fields<'f>,
    /// A reservation makes the answer unsettled: for verdicts, where a wrong one ends a loop.
    strict: bool,
}

#[derive(Debug)]
struct Label<'a> {
    spelled: &'a str,
    key: Key,
    /// Folded; a space stands for any run of separators.
    pattern: Vec<char>,
}

/// A text taken apart: decoration, the part from the first letter or digit to the last, decoration.
#[derive(Debug)]
struct Key {
    before: String,
    core: String,
    after: String,
    /// The core as it was spelled.
    plain: String,
}

impl Key {
    fn of(text: &str) -> Self {
        let unified = unify(trim(text));
        let plain = unified.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
        let folded = fold(&unified);
        let start = folded.find(char::is_alphanumeric).unwrap_or(folded.len());
        let end = folded.trim_end_matches(|c: char| !c.is_alphanumeric()).len().max(start);
        let core = one_separator(&folded[start..end]);
        Key { before: folded[..start].to_owned(), core, after: folded[end..].to_owned(), plain }
    }

    /// How much of the text the label covers, if the rest is decoration.
    fn covered_by(&self, label: &Key) -> Option<usize> {
        if self.core.is_empty() {
            let covers =
                label.core.is_empty() && !label.before.is_empty() && self.before.contains(&label.before);
            return covers.then_some(label.before.len());
        }
        if self.core != label.core {
            return None;
        }
        let before: Vec<char> = self.before.strip_suffix(&label.before)?.chars().collect();
        let after: Vec<char> = self.after.strip_prefix(&label.after)?.chars().collect();
        let first = label.before.chars().chain(label.core.chars()).next();
        let part_of_word = before.last().is_some_and(|&c| negates(c) || is_sign(c, first))
            || continues(&after, label.core.chars().nth(1).is_none());
        (!part_of_word).then_some(label.before.len() + label.core.len() + label.after.len())
    }
}

/// `!PASS`, `~~PASS~~`: a mark that takes the word back.
fn negates(c: char) -> bool {
    matches!(c, '!' | '¬' | '≠' | '~')
}

fn is_sign(c: char, next: Option<char>) -> bool {
    c == '-' && next.is_some_and(|c| c.is_ascii_digit())
}

/// `C++`, `C#`, `A+`, `A-` are other words than `C` and `A`.
fn continues(after: &[char], single: bool) -> bool {
    let ends = after.get(1).is_none_or(|c| !c.is_alphanumeric());
    ends && match after.first() {
        Some('+' | '#') => true,
        Some('-') => single,
        _ => false,
    }
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || c == '_' || c == '-'
}

fn one_separator(text: &str) -> String {
    let mut one = String::with_capacity(text.len());
    for c in text.chars() {
        match is_separator(c) {
            true if one.ends_with(' ') => {}
            true => one.push(' '),
            false => one.push(c),
        }
    }
    one
}

/// A label named as a whole word.
#[derive(Debug, Clone, Copy)]
struct Mention {
    label: usize,
    start: usize,
    end: usize,
    negated: bool,
}

impl<'a, 'f> Choice<'a, 'f> {
    pub(super) fn new<S: AsRef<str>>(allowed: &'a [S], fields: Fields<'f>, strict: bool) -> Self {
        let mut labels: Vec<Label<'a>> = Vec::new();
        for spelled in allowed.iter().map(AsRef::as_ref) {
            if !trim(spelled).is_empty() && labels.iter().all(|label| label.spelled != spelled) {
                let key = Key::of(spelled);
                let pattern = format!("{}{}{}", key.before, key.core, key.after).chars().collect();
                labels.push(Label { spelled, key, pattern });
            }
        }
        let mut by_first: HashMap<char, Vec<usize>> = HashMap::new();
        for (i, label) in labels.iter().enumerate() {
            if let Some(&first) = label.pattern.first() {
                by_first.entry(first).or_default().push(i);
            }
        }
        for group in by_first.values_mut() {
            group.sort_by_key(|&i| std::cmp::Reverse(labels[i].pattern.len()));
        }
        Choice { labels, by_first, fields, strict }
    }

    pub(super) fn spelled(&self, label: usize) -> &'a str {
        self.labels[label].spelled
    }

    /// The labels in words, for an error.
    pub(super) fn listed(&self) -> String {
        self.labels.iter().map(|label| label.spelled).collect::<Vec<_>>().join(", ")
    }

    /// The separator between a label that leads the line and its reason; a space if the reason is a word.
    pub(super) fn separator(&self, line: &str) -> Option<char> {
        let chars: Vec<char> = fold(line).chars().take(LONGEST_DECORATED).collect();
        let first = *self.mentions(&chars).first()?;
        let leads = !first.negated && !chars[..first.start].iter().any(|c| c.is_alphanumeric());
        reason(&chars[first.end..]).filter(|_| leads).map(|(separator, _)| separator)
    }

    pub(super) fn fields(&self) -> &Fields<'f> {
        &self.fields
    }

    /// What the content of an element says. A label may itself hold an entity or a CDATA mark: then
    /// it equals the content as it was written.
    pub(super) fn read_element(&self, content: &str, raw: &str) -> Reading {
        self.equal(content).or_else(|| self.equal(raw)).unwrap_or_else(|| self.read(content))
    }

    /// What the value of a field says.
    pub(super) fn read(&self, content: &str) -> Reading {
        if let Some(reading) = self.equal(content) {
            return reading;
        }
        if empty_or_dots(content) {
            return Reading::Blank;
        }
        self.said(self.fields.peel(content))
    }

    /// The text is a label and decoration, nothing else.
    pub(super) fn equal(&self, content: &str) -> Option<Reading> {
        let content = trim(content);
        if let Some(i) = self.labels.iter().position(|label| label.spelled == content) {
            return Some(Reading::Label(i));
        }
        if content.len() > LONGEST_DECORATED {
            return None;
        }
        self.same(&Key::of(content)).or_else(|| {
            let peeled = self.fields.peel(content);
            if peeled.len() == content.len() { None } else { self.same(&Key::of(peeled)) }
        })
    }

    fn same(&self, key: &Key) -> Option<Reading> {
        let hits = self.labels.iter().enumerate();
        let hits = hits.filter_map(|(i, label)| Some((key.covered_by(&label.key)?, i)));
        let hits: Vec<(usize, usize)> = hits.collect();
        let longest = hits.iter().map(|&(length, _)| length).max()?;
        let mut best: Vec<usize> =
            hits.into_iter().filter(|&(length, _)| length == longest).map(|(_, i)| i).collect();
        if best.len() > 1 {
            best.retain(|&i| self.labels[i].key.plain == key.plain);
        }
        match best[..] {
            [_] if self.strict && key.after.contains('?') => Some(Reading::Unsettled),
            [label] => Some(Reading::Label(label)),
            _ => Some(Reading::Unsettled),
        }
    }

    /// The text says more than a label: a label with a reason after it, or a sentence.
    fn said(&self, text: &str) -> Reading {
        let chars: Vec<char> = fold(text).chars().collect();
        let mentions = self.mentions(&chars);
        let mut asserted = mentions.iter().filter(|mention| !mention.negated);
        let Some(first) = asserted.next() else { return Reading::Unknown };
        let rest = &chars[first.end..];
        let leads = !chars[..first.start].iter().any(|c| c.is_alphanumeric());
        if leads {
            if let Some((_, reason)) = reason(rest) {
                let settled = !hedged(reason, Hedge::AfterSeparator, self.strict)
                    && !pieces(reason).any(|piece| self.names_only_others(piece, first.label));
                return if settled { Reading::Label(first.label) } else { Reading::Unsettled };
            }
            if hedged(rest, Hedge::Directly, self.strict) {
                return Reading::Unsettled;
            }
        }
        if asserted.any(|mention| mention.label != first.label) {
            return Reading::Unsettled;
        }
        let doubtful = self.strict
            && (hedged(rest, Hedge::Directly, true)
                || asked(rest)
                || (!leads && supposed(&chars[..first.start])));
        if doubtful { Reading::Unsettled } else { Reading::Label(first.label) }
    }

    /// The piece is nothing but other labels: `technical`, `or technical, other`.
    fn names_only_others(&self, piece: &[char], label: usize) -> bool {
        let mentions = self.mentions(piece);
        if mentions.is_empty() || mentions.iter().any(|mention| mention.negated || mention.label == label) {
            return false;
        }
        let mut between = String::new();
        let mut at = 0;
        for mention in &mentions {
            between.extend(&piece[at..mention.start]);
            between.push(' ');
            at = mention.end;
        }
        between.extend(&piece[at..]);
        words(&between)
            .all(|word| matches!(word, "and" | "or" | "also" | "maybe" | "perhaps" | "possibly" | "x"))
    }

    fn mentions(&self, text: &[char]) -> Vec<Mention> {
        let mut mentions = Vec::new();
        let mut negation = Negation::default();
        let mut at = 0;
        while at < text.len() {
            if starts_word(text, at)
                && let Some((label, end)) = self.label_at(text, at)
            {
                let negated = negation.holds() || (at > 0 && negates(text[at - 1]));
                mentions.push(Mention { label, start: at, end, negated });
                negation.word("");
                at = end;
            } else if text[at].is_alphanumeric() {
                let end = word_end(text, at);
                let word: String = text[at..end].iter().collect();
                negation.word(&word);
                at = end;
            } else {
                negation.mark(text[at]);
                at += 1;
            }
        }
        mentions
    }

    fn label_at(&self, text: &[char], at: usize) -> Option<(usize, usize)> {
        let candidates = self.by_first.get(&text[at])?;
        candidates.iter().find_map(|&i| {
            let pattern = &self.labels[i].pattern;
            let end = match_pattern(pattern, text, at)?;
            let single = pattern.len() == 1;
            (ends_word(text, end) && !continues(&text[end..], single)).then_some((i, end))
        })
    }
}

fn match_pattern(pattern: &[char], text: &[char], at: usize) -> Option<usize> {
    let mut end = at;
    for &wanted in pattern {
        let found = *text.get(end)?;
        if wanted == ' ' && is_separator(found) {
            end += text[end..].iter().take_while(|&&c| is_separator(c)).count();
        } else if wanted == found {
            end += 1;
        } else {
            return None;
        }
    }
    Some(end)
}

/// `-`, `_`, `&` and `.` join words (`bug-fix`, `R&D`, `Node.js`), a comma joins digits.
fn joins(before: Option<&char>, joint: char, after: Option<&char>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return false };
    match joint {
        '-' | '_' | '&' | '.' => before.is_alphanumeric() && after.is_alphanumeric(),
        ',' => before.is_ascii_digit() && after.is_ascii_digit(),
        _ => false,
    }
}

fn starts_word(text: &[char], at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else { return true };
    let earlier = before.checked_sub(1).map(|i| &text[i]);
    !text[before].is_alphanumeric()
        && !joins(earlier, text[before], Some(&text[at]))
        && !(is_sign(text[before], Some(text[at])) && earlier.is_none_or(|c| !c.is_alphanumeric()))
}

fn ends_word(text: &[char], end: usize) -> bool {
    let Some(&next) = text.get(end) else { return true };
    let in_word = next.is_alphanumeric() || unicode_normalization::char::is_combining_mark(next);
    !in_word && !joins(text.get(end.wrapping_sub(1)), next, text.get(end + 1))
}

/// Letters and digits, and an apostrophe between them.
fn word_end(text: &[char], at: usize) -> usize {
    let mut end = at;
    while let Some(&c) = text.get(end) {
        let inner = c == '\'' && text.get(end + 1).is_some_and(|c| c.is_alphanumeric());
        if !(c.is_alphanumeric() || inner) {
            break;
        }
        end += 1;
    }
    end
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|word| !word.is_empty())
}

/// Whether the word to come is negated: `not billing`, `does not really PASS`, `isn't a billing`.
#[derive(Debug, Default)]
struct Negation {
    left: u8,
    last_was_negation: bool,
    last_was_anything: bool,
}

impl Negation {
    fn holds(&self) -> bool {
        self.left > 0
    }

    fn word(&mut self, word: &str) {
        let negates = is_negation(word) || (word == "but" && self.last_was_anything);
        self.left = match word {
            _ if negates => 3,
            "but" => 0,
            _ => self.left.saturating_sub(1),
        };
        self.last_was_negation = negates;
        self.last_was_anything = word == "anything";
    }

    fn mark(&mut self, mark: char) {
        let ends = matches!(mark, '.' | ';' | ':' | '!' | '?' | '\n' | '。')
            || (mark == ',' && self.last_was_negation);
        if ends {
            *self = Negation::default();
        }
    }
}

fn is_negation(word: &str) -> bool {
    const WORDS: [&str; 34] = [
        "not", "never", "no", "nor", "neither", "none", "nothing", "nobody", "cannot", "without", "unlike",
        "than", "instead", "unable", "hardly", "cant", "dont", "wont", "isnt", "doesnt", "didnt", "wasnt",
        "nicht", "kein", "keine", "nunca", "jamás", "não", "non", "pas", "ni", "sin", "fails", "failed",
    ];
    WORDS.contains(&word) || word.ends_with("n't")
}

/// The text after a leading label is the reason for it: what stands after the separator.
fn reason(rest: &[char]) -> Option<(char, &[char])> {
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
fn pieces(reason: &[char]) -> impl Iterator<Item = &[char]> {
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
enum Hedge {
    /// Right after the label: `PASS if ..`.
    Directly,
    /// After a separator, where `if` may well begin the reason.
    AfterSeparator,
}

fn hedged(rest: &[char], place: Hedge, strict: bool) -> bool {
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
fn asked(rest: &[char]) -> bool {
    rest.iter().find(|c| !c.is_whitespace() && !matches!(c, '*' | '"' | '\'' | '`')) == Some(&'?')
}

/// What stands before the only label makes it a supposition: `would PASS`, `almost a PASS`.
fn supposed(before: &[char]) -> bool {
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
            | "borderline" | "provisional" | "tentative" | "partial" | "maybe" | "perhaps" | "possibly" => {
                return true;
            }
            _ => {}
        }
    }
    false
}

//! Which of the allowed labels a piece of text asserts.

use std::collections::HashMap;

use super::chars::empty_or_dots;
use super::chars::fold;
use super::chars::trim;
use super::chars::unify;
use super::field::Fields;
use super::reason::Hedge;
use super::reason::asked;
use super::reason::denied;
use super::reason::hedged;
use super::reason::pieces;
use super::reason::reason;
use super::reason::supposed;
use super::reason::taken_back;
use super::word::Negation;
use super::word::continues;
use super::word::ends_word;
use super::word::is_sign;
use super::word::negates;
use super::word::starts_word;
use super::word::word_end;
use super::word::words;

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
                let unsettled = hedged(reason, Hedge::AfterSeparator, self.strict)
                    || (self.strict && denied(reason))
                    || pieces(reason).any(|piece| self.names_only_others(piece, first.label));
                return if unsettled { Reading::Unsettled } else { Reading::Label(first.label) };
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
                || taken_back(rest)
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

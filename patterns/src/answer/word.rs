//! Words in folded text: where they begin and end, and whether one is negated.

/// `!PASS`, `~~PASS~~`: a mark that takes the word back.
pub(super) fn negates(c: char) -> bool {
    matches!(c, '!' | '¬' | '≠' | '~')
}

pub(super) fn is_sign(c: char, next: Option<char>) -> bool {
    c == '-' && next.is_some_and(|c| c.is_ascii_digit())
}

/// `C++`, `C#`, `A+`, `A-` are other words than `C` and `A`.
pub(super) fn continues(after: &[char], single: bool) -> bool {
    let ends = after.get(1).is_none_or(|c| !c.is_alphanumeric());
    ends && match after.first() {
        Some('+' | '#') => true,
        Some('-') => single,
        _ => false,
    }
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

pub(super) fn starts_word(text: &[char], at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else { return true };
    let earlier = before.checked_sub(1).map(|i| &text[i]);
    let signed = is_sign(text[before], Some(text[at])) && earlier.is_none_or(|c| !c.is_alphanumeric());
    !text[before].is_alphanumeric() && !joins(earlier, text[before], Some(&text[at])) && !signed
}

pub(super) fn ends_word(text: &[char], end: usize) -> bool {
    let Some(&next) = text.get(end) else { return true };
    let in_word = next.is_alphanumeric() || unicode_normalization::char::is_combining_mark(next);
    !in_word && !joins(text.get(end.wrapping_sub(1)), next, text.get(end + 1))
}

/// Letters and digits, and an apostrophe between them.
pub(super) fn word_end(text: &[char], at: usize) -> usize {
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

pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '\'').filter(|word| !word.is_empty())
}

/// Whether the word to come is negated: `not billing`, `does not really PASS`, `isn't a billing`.
#[derive(Debug, Default)]
pub(super) struct Negation {
    left: u8,
    last_was_negation: bool,
    last_was_anything: bool,
}

impl Negation {
    pub(super) fn holds(&self) -> bool {
        self.left > 0
    }

    pub(super) fn word(&mut self, word: &str) {
        let negates = is_negation(word) || (word == "but" && self.last_was_anything);
        self.left = match word {
            _ if negates => 3,
            "but" => 0,
            _ => self.left.saturating_sub(1),
        };
        self.last_was_negation = negates;
        self.last_was_anything = word == "anything";
    }

    pub(super) fn mark(&mut self, mark: char) {
        let ends = matches!(mark, '.' | ';' | ':' | '!' | '?' | '\n' | '。')
            || (mark == ',' && self.last_was_negation);
        if ends {
            *self = Negation::default();
        }
    }
}

pub(super) fn is_negation(word: &str) -> bool {
    const WORDS: [&str; 34] = [
        "not", "never", "no", "nor", "neither", "none", "nothing", "nobody", "cannot", "without", "unlike",
        "than", "instead", "unable", "hardly", "cant", "dont", "wont", "isnt", "doesnt", "didnt", "wasnt",
        "nicht", "kein", "keine", "nunca", "jamás", "não", "non", "pas", "ni", "sin", "fails", "failed",
    ];
    WORDS.contains(&word) || word.ends_with("n't")
}

//! Characters that a reader must not trip over: invisible ones, look-alikes, upper and lower case.

use unicode_normalization::UnicodeNormalization;

/// Zero-width and direction marks: they never carry meaning at an edge or inside a name.
pub(super) fn invisible(c: char) -> bool {
    matches!(
        c,
        '\u{AD}'
            | '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2060}'
            | '\u{2066}'..='\u{2069}'
            | '\u{FEFF}'
    )
}

pub(super) fn white(c: char) -> bool {
    c.is_whitespace() || invisible(c)
}

pub(super) fn blank(text: &str) -> bool {
    trim_start(text).is_empty()
}

pub(super) fn trim(text: &str) -> &str {
    trim_start(text).trim_matches(white)
}

fn trim_start(text: &str) -> &str {
    let ascii = text.bytes().take_while(u8::is_ascii_whitespace).count();
    text[ascii..].trim_start_matches(white)
}

/// Nothing, or only the dots that stand for "something goes here".
pub(super) fn empty_or_dots(text: &str) -> bool {
    text.chars().all(|c| white(c) || c == '.' || c == '…')
}

/// The text in one spelling: compatibility forms unified, invisible characters dropped, one kind
/// of apostrophe and of hyphen. Upper and lower case stay.
pub(super) fn unify(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let unified = text.chars().filter(|&c| !invisible(c)).nfkc();
    unified
        .filter(|&c| !invisible(c))
        .map(|c| match c {
            '’' | '‘' | 'ʼ' => '\'',
            '\u{2010}' | '\u{2212}' => '-',
            c => c,
        })
        .collect()
}

/// [`unify`], and upper and lower case made equal (`ß` is `ss`, `ς` is `σ`).
pub(super) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let folded = unify(text);
    folded.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfkc().collect()
}

/// A reply as a person sees it in an error: one bounded line.
pub(super) fn excerpt(text: &str) -> String {
    const WIDTH: usize = 80;
    let text = trim_start(text);
    match text.char_indices().nth(WIDTH) {
        None => trim(text).to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

use super::chars::blank;
use super::chars::trim;
use super::chars::unify;
use super::choice::Choice;
use super::element::find;
use super::field::Fields;
use super::label::VERDICT_FIELDS;
use super::label::in_elements;
use super::label::outer_lines;
use super::tag::element;
use super::unread::Unread;
use super::unread::UnreadKind;

/// Reads whether a step's text gives the gate word, such as `FAIL`: true stops the chain.
///
/// `<gate>` decides if it is there. Otherwise the word must be the whole reply, its first line (a
/// reason may follow: `FAIL - no ending`), its last line or the value of a field (`Result: FAIL`).
/// `FAIL-SAFE`, `FAILÉ`, `will FAIL if`, `did not FAIL` and a table cell are content and give false.
///
/// # Errors
///
/// - [`Missing`](UnreadKind::Missing): the text is blank. An empty step must not slip through a gate.
/// - [`Truncated`](UnreadKind::Truncated): it ends in the tag, or while thinking.
///
/// ```
/// use patterns::answer::gate;
///
/// assert!(gate("FAIL: the outline has no ending", "FAIL").unwrap());
/// assert!(!gate("FAIL states and how to recover from them\n\nChapter 1", "FAIL").unwrap());
/// ```
pub fn gate(text: &str, word: &str) -> Result<bool, Unread> {
    let tag = "gate";
    let found = find(text, tag);
    let words = [word];
    let choice = Choice::new(&words, Fields { names: VERDICT_FIELDS, tag }, false);
    match in_elements(&found, tag, &choice) {
        Ok(Some(_)) => return Ok(true),
        Ok(None) => {}
        Err(unread) if unread.kind() == UnreadKind::Truncated => return Err(unread),
        // the word with a reservation stops as well: a gate fails closed
        Err(unread) => return Ok(unread.kind() == UnreadKind::Ambiguous),
    }
    let prose = found.prose();
    if blank(&prose) {
        return Err(Unread::new(UnreadKind::Missing, format!("{} or any other text", element(tag)), [prose]));
    }
    let equal = |text: &str| choice.equal(text).is_some();
    let (first, last) = outer_lines(&prose);
    if equal(first) || equal(last) || leads(&choice, first, word) {
        return Ok(true);
    }
    if equal(&prose) && !prose.trim_start().starts_with('|') {
        return Ok(true);
    }
    let values = choice.fields().values(&prose, equal);
    Ok(values.iter().any(|value| equal(value) || choice.separator(value).is_some()))
}

/// The line starts with the word, and a reason for it follows. Written in another case than the
/// gate word it counts only before a colon.
fn leads(choice: &Choice<'_, '_>, line: &str, word: &str) -> bool {
    let line = unify(trim(line).lines().next().unwrap_or(""));
    let start = line.trim_start_matches(|c: char| !c.is_alphanumeric());
    let exact = start.starts_with(&unify(trim(word)));
    match choice.separator(&line) {
        None => false,
        Some(separator) => exact || separator == ':',
    }
}

use super::chars::trim;
use super::choice::Choice;
use super::choice::Reading;
use super::content::content;
use super::element::Found;
use super::element::find;
use super::field::Fields;
use super::tag::element;
use super::tag::truncated;
use super::unread::Unread;
use super::unread::UnreadKind;

const LABEL_FIELDS: &[&str] =
    &["label", "category", "class", "classification", "route", "topic", "intent", "answer", "selection"];

pub(super) const VERDICT_FIELDS: &[&str] = &[
    "evaluation",
    "verdict",
    "result",
    "rating",
    "decision",
    "status",
    "outcome",
    "grade",
    "assessment",
    "answer",
    "gate",
    "check",
];

/// Reads which of the allowed labels a reply gives, spelled as in `allowed`.
///
/// The label is looked for in `<label>`, then in a field line (`Category: billing`), then as the
/// whole, the first or the last line of the reply. A mention in free prose is never enough.
/// [`label_in`] takes another tag.
///
/// # Errors
///
/// - [`Missing`](UnreadKind::Missing): neither tag nor field nor a line of its own.
/// - [`Truncated`](UnreadKind::Truncated): the reply ends in the tag, or while thinking.
/// - [`Ambiguous`](UnreadKind::Ambiguous): several labels.
/// - [`UnknownLabel`](UnreadKind::UnknownLabel): the tag or field says something else. There are
///   no synonyms, no stemming, no nearest spelling; a caller that has a fallback takes it here.
///
/// ```
/// use patterns::answer::label;
///
/// let desks = ["billing", "technical", "other"];
/// assert_eq!(label("<label>**Billing** - it is not a technical problem</label>", &desks).unwrap(), "billing");
/// assert!(label("<label>not billing</label>", &desks).is_err());
/// ```
pub fn label<'a, S: AsRef<str>>(text: &str, allowed: &'a [S]) -> Result<&'a str, Unread> {
    label_in(text, "label", allowed)
}

/// [`label`], read from the tag called `tag`.
///
/// # Errors
///
/// Those of [`label`].
///
/// ```
/// use patterns::answer::label_in;
///
/// let reply = "<selection>\nDeep dive.\n</selection>";
/// assert_eq!(label_in(reply, "selection", &["deep_dive", "summary"]).unwrap(), "deep_dive");
/// ```
pub fn label_in<'a, S: AsRef<str>>(text: &str, tag: &str, allowed: &'a [S]) -> Result<&'a str, Unread> {
    let fields = Fields { names: LABEL_FIELDS, tag };
    read(text, tag, &Choice::new(allowed, fields, false))
}

/// Reads a judge's verdict from `<evaluation>`: one of `words`, spelled as there.
///
/// Like [`label`], but stricter, because a wrong `PASS` ends a loop: a verdict with a reservation
/// (`PASS with reservations`, `PASS if ..`, `would PASS`, `PASS?`) is ambiguous. What stands outside
/// the tag never counts while the tag is there.
///
/// # Errors
///
/// Those of [`label`].
///
/// ```
/// use patterns::answer::verdict;
///
/// let words = ["PASS", "NEEDS_IMPROVEMENT", "FAIL"];
/// let reply = "<evaluation>\nNeeds improvement.\n</evaluation><feedback>To PASS, add tests.</feedback>";
/// assert_eq!(verdict(reply, &words).unwrap(), "NEEDS_IMPROVEMENT");
/// assert!(verdict("<evaluation>cannot PASS</evaluation>", &words).is_err());
/// ```
pub fn verdict<'a, S: AsRef<str>>(text: &str, words: &'a [S]) -> Result<&'a str, Unread> {
    verdict_in(text, "evaluation", words)
}

/// [`verdict`], read from the tag called `tag`.
///
/// # Errors
///
/// Those of [`label`].
pub fn verdict_in<'a, S: AsRef<str>>(text: &str, tag: &str, words: &'a [S]) -> Result<&'a str, Unread> {
    let fields = Fields { names: VERDICT_FIELDS, tag };
    read(text, tag, &Choice::new(words, fields, true))
}

fn read<'a>(text: &str, tag: &str, choice: &Choice<'a, '_>) -> Result<&'a str, Unread> {
    let found = find(text, tag);
    let label = match in_elements(&found, tag, choice)? {
        Some(label) => label,
        None => in_prose(&found, tag, choice)?,
    };
    Ok(choice.spelled(label))
}

/// The label that the elements give; none if there is no element.
pub(super) fn in_elements(
    found: &Found<'_>,
    tag: &str,
    choice: &Choice<'_, '_>,
) -> Result<Option<usize>, Unread> {
    if let Some(open) = &found.cut {
        return Err(truncated(&found.text[open.start..], tag));
    }
    if found.elements.is_empty() {
        return Ok(None);
    }
    let inner = || found.elements.iter().map(|element| &found.text[element.inner()]);
    let readings = inner().map(|raw| choice.read_element(&content(raw), raw));
    match combine(readings) {
        Ok(label) => Ok(Some(label)),
        Err(kind) => Err(Unread::new(kind, wanted(tag, choice), inner())),
    }
}

fn wanted(tag: &str, choice: &Choice<'_, '_>) -> String {
    format!("{} with one of {}", element(tag), choice.listed())
}

/// Exactly one label among several readings; those that settle nothing yield to it.
fn combine(readings: impl IntoIterator<Item = Reading>) -> Result<usize, UnreadKind> {
    let mut kind = UnreadKind::Missing;
    let mut label = None;
    for reading in readings {
        match reading {
            Reading::Blank => {}
            Reading::Label(one) if label.is_some_and(|other| other != one) => {
                return Err(UnreadKind::Ambiguous);
            }
            Reading::Label(one) => label = Some(one),
            Reading::Unsettled => kind = UnreadKind::Ambiguous,
            Reading::Unknown if kind == UnreadKind::Missing => kind = UnreadKind::UnknownLabel,
            Reading::Unknown => {}
        }
    }
    label.ok_or(kind)
}

/// The label that a reply without the tag gives: as a whole, in a field, on its first or last line.
fn in_prose(found: &Found<'_>, tag: &str, choice: &Choice<'_, '_>) -> Result<usize, Unread> {
    let prose = found.prose();
    let unread = |kind| Unread::new(kind, wanted(tag, choice), [&prose]);
    if let Some(reading) = choice.equal(&prose) {
        return combine([reading]).map_err(unread);
    }
    let values = choice.fields().values(&prose, |line| choice.equal(line).is_some());
    if !values.is_empty() {
        let readings = values.iter().map(|value| choice.read(value));
        return combine(readings).map_err(|kind| Unread::new(kind, wanted(tag, choice), &values));
    }
    let (first, last) = outer_lines(&prose);
    let readings = [first, last].into_iter().filter_map(|line| choice.equal(line));
    combine(readings).map_err(unread)
}

/// The first and the last line that are not blank; a row of a table is no line of its own.
pub(super) fn outer_lines(text: &str) -> (&str, &str) {
    let text = trim(text);
    let first = text.find('\n').map_or(text, |end| &text[..end]);
    let last = text.rfind('\n').map_or(text, |end| &text[end + 1..]);
    let whole = |line| if str::starts_with(str::trim_start(line), '|') { "" } else { line };
    (whole(first), whole(last))
}

use std::sync::LazyLock;

use regex::Regex;

use super::chars::blank;
use super::chars::unify;
use super::content::content;
use super::element::find;
use super::field::Fields;
use super::label::outer_lines;
use super::tag::element;
use super::tag::truncated;
use super::unread::Unread;
use super::unread::UnreadKind;

const FIELDS: Fields<'static> = Fields { names: &["score", "rating", "grade", "mark"], tag: "score" };

/// Reads a score between 0 and 1: `8/10`, `4 out of 5`, `85 %`, `0.85`.
///
/// The score is looked for in `<score>`, then in a field line (`Score: 8/10`), then as the whole,
/// the first or the last line of the reply. There is no default and no clamping. A whole number
/// without a scale, such as `8`, could mean anything and is refused; [`score_out_of`] knows the scale.
///
/// # Errors
///
/// - [`Missing`](UnreadKind::Missing): neither tag nor field nor a line of its own.
/// - [`Truncated`](UnreadKind::Truncated): the reply ends in the tag, or while thinking.
/// - [`Ambiguous`](UnreadKind::Ambiguous): several scores that differ, a range, or a number without scale.
/// - [`UnknownLabel`](UnreadKind::UnknownLabel): words (`high`), or a number that is off its scale.
///
/// ```
/// use patterns::answer::score;
///
/// assert_eq!(score("<score>**8/10** - clear and short</score>").unwrap(), 0.8);
/// assert_eq!(score("Score: 85 %").unwrap(), 0.85);
/// assert!(score("<score>8</score>").is_err());
/// assert!(score("<score>high</score>").is_err());
/// ```
pub fn score(text: &str) -> Result<f64, Unread> {
    read(text, None)
}

/// [`score`], where a number without a scale counts from 0 to `scale`.
///
/// A scale that the reply itself gives goes first. A fraction below 1 on a scale above 1 (`0.85`
/// of 10?) is ambiguous. A `scale` that is not a positive number is no scale.
///
/// # Errors
///
/// Those of [`score`].
///
/// ```
/// use patterns::answer::score_out_of;
///
/// assert_eq!(score_out_of("<score>8</score>", 10.0).unwrap(), 0.8);
/// assert_eq!(score_out_of("<score>4/5</score>", 10.0).unwrap(), 0.8);
/// assert!(score_out_of("<score>11</score>", 10.0).is_err());
/// ```
pub fn score_out_of(text: &str, scale: f64) -> Result<f64, Unread> {
    read(text, Some(scale).filter(|scale| scale.is_finite() && *scale > 0.0))
}

fn read(text: &str, scale: Option<f64>) -> Result<f64, Unread> {
    let found = find(text, "score");
    if let Some(open) = found.cut {
        return Err(truncated(&found.text[open.start..], "score"));
    }
    let elements = found.elements.iter().map(|element| content(&found.text[element.inner()]));
    let contents: Vec<String> = elements.filter(|content| !blank(content)).collect();
    if !found.elements.is_empty() {
        return agree(contents.iter().map(String::as_str), scale, text);
    }
    let prose = found.prose();
    let values = FIELDS.values(&prose, is_alone);
    if !values.is_empty() {
        return agree(values.into_iter().filter(|value| !blank(value)), scale, &prose);
    }
    let (first, last) = outer_lines(&prose);
    agree([first, last].into_iter().filter(|line| is_alone(line)), scale, &prose)
}

/// All places that give a score give the same one.
fn agree<'t>(texts: impl Iterator<Item = &'t str>, scale: Option<f64>, reply: &str) -> Result<f64, Unread> {
    let texts: Vec<&str> = texts.collect();
    let unread = |kind| {
        let wanted = match scale {
            Some(scale) => format!("{} with a number from 0 to {scale}", element("score")),
            None => format!("{} with its scale, such as 8/10 or 85 %", element("score")),
        };
        if texts.is_empty() { Unread::new(kind, wanted, [reply]) } else { Unread::new(kind, wanted, &texts) }
    };
    let scores: Result<Vec<f64>, UnreadKind> = texts.iter().map(|text| value(text, scale)).collect();
    let scores = scores.map_err(unread)?;
    match scores.split_first() {
        None => Err(unread(UnreadKind::Missing)),
        Some((&first, rest)) if rest.iter().all(|&other| same(first, other)) => Ok(first),
        Some(_) => Err(unread(UnreadKind::Ambiguous)),
    }
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

/// A number as it stands in a text.
struct Number {
    start: usize,
    end: usize,
    value: f64,
    /// What the text says it is out of.
    scale: Option<f64>,
    whole: bool,
}

/// What one text says: the number that leads it, or the only one that has a scale.
fn value(text: &str, scale: Option<f64>) -> Result<f64, UnreadKind> {
    let text = unify(FIELDS.peel(text));
    let numbers = numbers(&text)?;
    if let Some(first) = numbers.first()
        && !text[..first.start].contains(char::is_alphanumeric)
        && leads(&text[first.end..])
    {
        return on_scale(first, scale);
    }
    let mut scaled = numbers.iter().filter(|number| number.scale.is_some());
    let Some(first) = scaled.next() else {
        return Err(if numbers.is_empty() { UnreadKind::UnknownLabel } else { UnreadKind::Ambiguous });
    };
    let value = on_scale(first, scale)?;
    for other in scaled {
        if !same(on_scale(other, scale)?, value) {
            return Err(UnreadKind::Ambiguous);
        }
    }
    let doubtful =
        ["not", "never", "under", "below", "over", "above", "least", "most", "than", "between", "from", "if"];
    let before = text[..first.start].to_lowercase();
    let mut words = before.split(|c: char| !c.is_alphanumeric());
    if words.any(|word| doubtful.contains(&word)) { Err(UnreadKind::Ambiguous) } else { Ok(value) }
}

/// A number that nothing but a reason follows.
fn leads(rest: &str) -> bool {
    let rest = rest.trim_start_matches(['*', '_', '`', '"', '\'', ')', ']', '}']);
    let trimmed = rest.trim_start_matches([' ', '\t']);
    match trimmed.chars().next() {
        None => true,
        Some('-' | '–') => {
            trimmed.len() < rest.len() && trimmed[1..].starts_with(|c: char| !c.is_ascii_digit())
        }
        Some(c) => matches!(c, '\n' | '\r' | ':' | ';' | ',' | '(' | '.' | '—' | '!' | '<'),
    }
}

fn on_scale(number: &Number, scale: Option<f64>) -> Result<f64, UnreadKind> {
    let value = match (number.scale, scale) {
        (Some(own), _) => number.value / own,
        (None, Some(scale)) if scale > 1.0 && !number.whole && number.value < 1.0 => {
            return Err(UnreadKind::Ambiguous);
        }
        (None, Some(scale)) => number.value / scale,
        (None, None) if number.whole || number.value > 1.0 => return Err(UnreadKind::Ambiguous),
        (None, None) => number.value,
    };
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(UnreadKind::UnknownLabel) }
}

/// The numbers of a text; a range, a date or a comparison is no score.
fn numbers(text: &str) -> Result<Vec<Number>, UnreadKind> {
    static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)(\d+)([.,]\d+)?(?:\s*(?:(%|percent\b|per cent\b)|(?:/|⁄|out of\b|of\b)\s*(\d+(?:[.,]\d+)?)))?").ok()
    });
    let mut numbers = Vec::new();
    for found in NUMBER.iter().flat_map(|number| number.captures_iter(text)) {
        let Some(all) = found.get(0) else { continue };
        let before = &text[..all.start()];
        let after = &text[all.end()..];
        if before.ends_with(char::is_alphanumeric) {
            continue;
        }
        let negative =
            before.ends_with('-') && !before.trim_end_matches('-').ends_with(char::is_alphanumeric);
        let compared = before.trim_end().ends_with(['<', '>', '≤', '≥']);
        let joined = before.ends_with(['-', '–', '/', '.', ',', '+']) && !negative;
        let continued = after.starts_with(['/', '⁄', '+'])
            || after
                .strip_prefix(['-', '–', '.', ','])
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if compared || joined || continued {
            return Err(UnreadKind::Ambiguous);
        }
        if after.starts_with(char::is_alphabetic) {
            continue;
        }
        let fraction = found.get(2).map(|fraction| fraction.as_str());
        let value = decimal(&format!("{}{}", &found[1], fraction.unwrap_or("")))?;
        let scale = match (found.get(3), found.get(4)) {
            (Some(_), _) => Some(100.0),
            (_, Some(scale)) => Some(decimal(scale.as_str())?),
            _ => None,
        };
        numbers.push(Number {
            start: all.start(),
            end: all.end(),
            value: if negative { -value } else { value },
            scale,
            whole: fraction.is_none(),
        });
    }
    Ok(numbers)
}

/// A comma may mark the fraction; before three digits it may also group thousands.
fn decimal(number: &str) -> Result<f64, UnreadKind> {
    if number.split_once(',').is_some_and(|(_, digits)| digits.len() == 3) {
        return Err(UnreadKind::Ambiguous);
    }
    number.replace(',', ".").parse().map_err(|_| UnreadKind::UnknownLabel)
}

/// A line that is a number and decoration.
fn is_alone(line: &str) -> bool {
    let line = unify(FIELDS.peel(line));
    match numbers(&line).as_deref() {
        Ok([number]) => {
            let outside = [&line[..number.start], &line[number.end..]];
            outside.iter().all(|text| !text.contains(char::is_alphanumeric))
        }
        _ => false,
    }
}

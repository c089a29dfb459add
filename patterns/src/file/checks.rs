//! The checks that a flow file can name: plain code with parameters, a word, a judge, a person.

use regex::Regex;

use super::build::Build;
use super::read::{Table, Value};
use crate::gate::Check;
use crate::judge::Judge;

/// The keys of the checks, for messages.
const KEYS: &str = "judge, word, contains, lacks, matches, at_least_words, at_most_words, at_least_lines, at_most_lines, \
                    same_lines, descending, unchanged_without_tags, person";

impl Build<'_, '_> {
    /// A check of a list as in `until`: criteria for a judge, or a table with one check.
    pub(super) fn check(&self, value: &Value<'_, '_>) -> Option<Check<'static>> {
        if value.as_text().is_some() {
            return self.words(value).map(|criteria| Check::judge(Judge::criteria(criteria)));
        }
        let table = value.table()?;
        let check = self.check_in(&table);
        table.finish();
        check
    }

    /// The one check that a table names.
    pub(super) fn check_in(&self, table: &Table<'_, '_>) -> Option<Check<'static>> {
        let mut checks = Vec::new();
        // every key is asked for, so that `finish` knows them all
        checks.extend(table.get("judge").and_then(|value| self.judge(&value, table)));
        checks.extend(table.get("word").and_then(|value| value.text().map(Check::word)));
        checks.extend(table.get("contains").and_then(|value| {
            let wanted = value.text()?.to_owned();
            Some(Check::code(move |text| {
                require(text.contains(&wanted), || format!("it must contain \"{wanted}\""))
            }))
        }));
        checks.extend(table.get("lacks").and_then(|value| {
            let banned = value.text()?.to_owned();
            Some(Check::code(move |text| {
                require(!text.contains(&banned), || format!("it must not contain \"{banned}\""))
            }))
        }));
        checks.extend(table.get("matches").and_then(|value| {
            let regex = self.regex(&value)?;
            Some(Check::code(move |text| {
                require(regex.is_match(text), || format!("it must match `{regex}`"))
            }))
        }));
        checks.extend(count(table, "at_least_words", |n, text| {
            let words = text.split_whitespace().count();
            require(words >= n, || format!("it has {words} words and needs at least {n}"))
        }));
        checks.extend(count(table, "at_most_words", |n, text| {
            let words = text.split_whitespace().count();
            require(words <= n, || format!("it has {words} words and may have at most {n}"))
        }));
        checks.extend(count(table, "at_least_lines", |n, text| {
            let lines = lines(text).count();
            require(lines >= n, || format!("it has {lines} lines and needs at least {n}"))
        }));
        checks.extend(count(table, "at_most_lines", |n, text| {
            let lines = lines(text).count();
            require(lines <= n, || format!("it has {lines} lines and may have at most {n}"))
        }));
        checks.extend(table.get("same_lines").and_then(|value| {
            let extra = value.count(0)?;
            Some(Check::compare(move |input, text| {
                let (had, has) = (lines(input).count() + extra, lines(text).count());
                require(had == has, || format!("it has {has} lines and must have {had}"))
            }))
        }));
        checks.extend(flag(table, "descending", || Check::code(descending)));
        checks.extend(flag(table, "unchanged_without_tags", || Check::compare(unchanged_without_tags)));
        checks.extend(flag(table, "person", || match &self.options.ask {
            Some(ask) => Check::person({
                let ask = ask.clone();
                move |question| ask(question)
            }),
            None => {
                table.report("asks a person, but nobody can be asked here");
                Check::code(|_| false)
            }
        }));
        if checks.len() > 1 {
            table.report("holds more than one check; write one table for each");
        }
        if checks.is_empty() {
            table.report(format!("holds no check; there are: {KEYS}"));
        }
        checks.pop()
    }

    fn judge(&self, value: &Value<'_, '_>, table: &Table<'_, '_>) -> Option<Check<'static>> {
        let judge = match value.as_text() {
            Some(_) => Judge::criteria(self.words(value)?),
            None => Judge::flow(self.flow(value)),
        };
        Some(Check::judge(match table.get("at_least") {
            Some(threshold) => judge.at_least(threshold.number(0.0, 1.0)?),
            None => judge,
        }))
    }

    pub(super) fn regex(&self, value: &Value<'_, '_>) -> Option<Regex> {
        Regex::new(value.text()?)
            .map_err(|error| value.report(format!("is no regular expression: {error}")))
            .ok()
    }
}

fn count(
    table: &Table<'_, '_>,
    key: &str,
    check: impl Fn(usize, &str) -> Result<(), String> + Send + Sync + 'static,
) -> Option<Check<'static>> {
    let n = table.get(key)?.count(1)?;
    Some(Check::code(move |text| check(n, text)))
}

fn flag(table: &Table<'_, '_>, key: &str, check: impl FnOnce() -> Check<'static>) -> Option<Check<'static>> {
    let value = table.get(key)?;
    match value.flag()? {
        true => Some(check()),
        false => {
            value.report("says nothing; leave it out or write true");
            None
        }
    }
}

fn require(holds: bool, reason: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(reason()) }
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim().is_empty())
}

/// The first number of each line that has one must not rise.
fn descending(text: &str) -> Result<(), String> {
    let mut before: Option<f64> = None;
    for line in lines(text) {
        let Some(number) = first_number(line) else { continue };
        if before.is_some_and(|before| number > before) {
            return Err(format!("the line \"{}\" stands after a smaller number", line.trim()));
        }
        before = Some(number);
    }
    require(before.is_some(), || "no line has a number".to_owned())
}

/// The first number of a line, thousands separated by commas or not: `1,200.5`.
pub(crate) fn first_number(line: &str) -> Option<f64> {
    let start = line.find(|c: char| c.is_ascii_digit())?;
    let negative = line[..start].ends_with('-');
    let digits: String =
        line[start..].chars().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ',')).collect();
    let number: f64 = digits.trim_end_matches(['.', ',']).replace(',', "").parse().ok()?;
    Some(if negative { -number } else { number })
}

/// The text must be the input, but for added tags.
fn unchanged_without_tags(input: &str, text: &str) -> Result<(), String> {
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        bare.push_str(&rest[..start]);
        match rest[start..].find('>') {
            Some(end) if rest[start + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') => {
                rest = &rest[start + end + 1..];
            }
            _ => {
                bare.push('<');
                rest = &rest[start + 1..];
            }
        }
    }
    bare.push_str(rest);
    require(bare.split_whitespace().eq(input.split_whitespace()), || {
        "without its tags it must be the same text, word for word".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_their_signs_and_thousands() {
        for (line, number) in
            [("92: points", 92.0), ("| 1,200.5 | x", 1200.5), ("-3%: churn", -3.0), ("$43.", 43.0)]
        {
            assert_eq!(first_number(line), Some(number), "{line}");
        }
        assert_eq!(first_number("none"), None);
    }

    #[test]
    fn a_rising_number_is_not_descending() {
        assert!(descending("| Metric | Value |\n|---|---|\n| a | 92 |\n| b | 8 |").is_ok());
        assert!(descending("a 8\nb 92").is_err());
        assert!(descending("no numbers").is_err());
    }

    #[test]
    fn tags_may_be_added_but_no_word_changed() {
        assert!(unchanged_without_tags("Bees dance. 1 < 2.", "Bees <c n=\"1\">dance</c>. 1 < 2.").is_ok());
        assert!(unchanged_without_tags("Bees dance.", "Bees <c>sing</c>.").is_err());
    }
}

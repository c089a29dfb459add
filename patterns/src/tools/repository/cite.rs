//! Citations, `path:line`, and whether they exist.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::Repository;
use super::path::{Found, open};
use crate::gate::Check;

/// A place that an answer cites.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Citation {
    /// The path, as it is written.
    pub path: String,
    /// The first line.
    pub first: usize,
    /// The last line; the same as the first, unless a range is cited.
    pub last: usize,
    /// The cited lines, or why there are none.
    pub lines: Result<Vec<String>, String>,
}

/// The end of a citation in a word: the lines, and what follows.
static LINES: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(.+?):L?(\d{1,7})(?:[-–]L?(\d{1,7}))?(.*)$").ok());

/// A word: between words stands what is in no path.
static WORD: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#"[^\s"'`<>|,;*=]+"#).ok());

/// How a list of lines goes on.
static FURTHER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^, ?L?([1-9]\d{0,6})(?:[-–]L?(\d{1,7}))?").ok());

/// Path, first and last line.
type Place<'c> = (&'c str, usize, usize);

/// Ends of names that stand for hosts rather than files.
const HOSTS: [&str; 12] =
    ["app", "com", "dev", "internal", "invalid", "io", "lan", "local", "localhost", "net", "org", "test"];

/// The most places that are looked at for one text.
const MOST_PLACES: usize = 1_000;
/// The most spaces of a cited path.
const MOST_SPACES: usize = 4;
/// The most lines that one citation shows.
const MOST: usize = 40;

/// The first and the last line of a range in the groups from `n` on.
fn range(parts: &Captures<'_>, n: usize) -> (usize, usize) {
    let line = |n| parts.get(n).and_then(|n| n.as_str().parse().ok());
    let first = line(n).unwrap_or(0);
    (first, line(n + 1).unwrap_or(first))
}

/// The next range of a list of lines, and what follows it. In `a.rs:3, 7 tests` there is none.
fn further(text: &str) -> Option<((usize, usize), &str)> {
    let parts = FURTHER.as_ref()?.captures(text)?;
    let after = &text[parts[0].len()..];
    let counts = parts[0].starts_with(", ") && after.trim_start().starts_with(char::is_alphanumeric);
    (ends_number(after) && !counts).then(|| (range(&parts, 1), after))
}

/// Whether a number of a line can stand before this: `1.2.3` and `12:30pm` have none, and `host:80/x` is an address.
fn ends_number(rest: &str) -> bool {
    let mut rest = rest.chars();
    match rest.next() {
        Some('.' | '_') => !rest.next().is_some_and(char::is_alphanumeric),
        Some('/' | '%') => false,
        Some(c) => !c.is_alphanumeric(),
        None => true,
    }
}

impl fmt::Display for Citation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path, self.first)?;
        if self.last == self.first { Ok(()) } else { write!(f, "-{}", self.last) }
    }
}

impl Repository {
    /// The places that a text cites as `path:line`, `path:first-last` or a list of these (`path:3,7-9`), each with its
    /// lines. Addresses (`http://localhost:80`, `example.com:80`), versions and times are no citations. At most 1,000 places
    /// are looked at.
    pub fn citations(&self, text: &str) -> Vec<Citation> {
        let mut files = HashMap::new();
        let mut found: Vec<(String, usize, usize)> = Vec::new();
        let mut add = |cited| {
            if found.len() < MOST_PLACES && !found.contains(&cited) {
                found.push(cited);
            }
        };
        let words = WORD.iter().flat_map(|words| words.find_iter(text));
        // where the words start that one space each parts from this one, and where the last one ends
        let (mut starts, mut end) = (Vec::new(), 0);
        for at in words {
            if &text[end..at.start()] != " " {
                starts.clear();
            }
            starts.push(at.start());
            end = at.end();
            if at.as_str().contains("://") {
                continue;
            }
            let mut word = at.as_str();
            while let Some(parts) = LINES.as_ref().and_then(|lines| lines.captures(word)) {
                let (path, rest) = (&parts[1], parts.get(4).map_or("", |rest| rest.as_str()));
                let path_end = end - word.len() + path.len();
                word = rest;
                let path = ends_number(rest).then(|| self.path_in(path, &mut files)).flatten();
                let Some(mut path) = path else { continue };
                if files.get(&path) != Some(&true) {
                    // a name may have spaces
                    let longer = starts.iter().rev().skip(1).take(MOST_SPACES).find_map(|start| {
                        let longer = self.path_in(&text[*start..path_end], &mut files)?;
                        (files.get(&longer) == Some(&true)).then_some(longer)
                    });
                    path = longer.unwrap_or(path);
                }
                let (first, mut last) = range(&parts, 2);
                add((path.clone(), first, last));
                let mut after = if rest.is_empty() { &text[at.end()..] } else { "" };
                while let Some(((further, end), left)) = further(after).filter(|((n, _), _)| *n > last) {
                    add((path.clone(), further, end));
                    (last, after) = (end, left);
                }
            }
        }
        let mut lines = self.cited(&found);
        let lines = found.iter().map(|(path, first, last)| lines.remove(&(path.as_str(), *first, *last)));
        let lines: Vec<_> = lines.collect();
        found
            .into_iter()
            .zip(lines)
            .map(|((path, first, last), lines)| {
                let lines = lines.unwrap_or_else(|| Err("it was not looked at".to_owned()));
                Citation { path, first, last, lines }
            })
            .collect()
    }

    /// The path at the end of a word: the longest part that is a file here, or else what looks like a path.
    fn path_in(&self, word: &str, files: &mut HashMap<String, bool>) -> Option<String> {
        let mut is_file = |path: &str| {
            *files.entry(path.to_owned()).or_insert_with(|| {
                open(&self.root, path).is_ok_and(|opened| matches!(opened.found, Found::File(_)))
            })
        };
        let mut part = word;
        loop {
            if is_file(part) {
                return Some(part.to_owned());
            }
            // brackets and words before it: `(a.rs`, `[x](a.rs`, `see:a.rs`; a name may begin with them, too
            let next = match part.chars().next()? {
                c if !c.is_alphanumeric() && !matches!(c, '.' | '/' | '~' | '_' | '@') => c.len_utf8(),
                _ => match part.find([':', '(']) {
                    Some(end) => end + 1,
                    None => break,
                },
            };
            part = &part[next..];
        }
        let name = part.rsplit('/').next().unwrap_or(part);
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        let has_ending = ending.chars().any(char::is_alphabetic)
            && ending.chars().all(|c| c.is_alphanumeric() || c == '_');
        let is_path = part.contains('/') || (has_ending && !HOSTS.contains(&ending));
        (is_path && part.chars().any(char::is_alphabetic)).then(|| part.to_owned())
    }

    /// The lines of citations. Each file is read once, however often it is cited.
    fn cited<'c>(
        &self,
        found: &'c [(String, usize, usize)],
    ) -> HashMap<Place<'c>, Result<Vec<String>, String>> {
        let mut by_path: HashMap<&str, HashMap<Place<'c>, Vec<String>>> = HashMap::new();
        for (path, first, last) in found {
            by_path.entry(path).or_default().insert((path, *first, *last), Vec::new());
        }
        let mut all = HashMap::new();
        for (path, mut places) in by_path {
            let seen = self.lines(path, |number, line| {
                for ((_, first, last), lines) in &mut places {
                    if (*first..=*last).contains(&number) && lines.len() < MOST {
                        lines.push(crate::error::excerpt(line, 200));
                    }
                }
            });
            all.extend(places.into_iter().map(|(place, lines)| {
                let (_, first, last) = place;
                let lines = match &seen {
                    Err(message) => Err(message.clone()),
                    Ok(_) if last < first => Err(format!("{first}-{last} is no range of lines")),
                    Ok(seen) if first == 0 || last > seen.lines => {
                        Err(seen.no_line(path, if first == 0 { 0 } else { last }))
                    }
                    Ok(_) => Ok(lines),
                };
                (place, lines)
            }));
        }
        all
    }

    /// A check that accepts an answer when every place that it cites exists. For [`Agent::until`](crate::Agent::until).
    pub fn citations_exist(&self) -> Check<'static> {
        let repository = self.clone();
        Check::code(move |answer: &str| {
            let wrong: Vec<String> = repository
                .citations(answer)
                .iter()
                .filter_map(|c| Some(format!("{c} does not exist ({})", c.lines.as_ref().err()?)))
                .collect();
            if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
        })
    }

    /// The lines that a text cites, to show them to a judge.
    pub fn cited_lines(&self, text: &str) -> String {
        let mut out = String::new();
        for citation in self.citations(text) {
            let place = citation.to_string();
            match citation.lines {
                Ok(lines) => {
                    for (n, line) in lines.iter().enumerate() {
                        out.push_str(&format!("{}:{}: {line}\n", citation.path, citation.first + n));
                    }
                }
                Err(reason) => {
                    out.push_str(&format!("{place}: none ({reason})\n"));
                }
            }
        }
        out
    }
}

//! Citations, `path:line`, and whether they exist.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::Repository;
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

static CITATION: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"([\w@+.-][\w@+./-]*):(\d{1,7})(?:[-–](\d{1,7}))?\b").ok());

/// The most lines that one citation shows.
const MOST: usize = 40;

impl Repository {
    /// The places that a text cites as `path:line` or `path:first-last`, each with its lines. Addresses
    /// (`http://localhost:80`) and times are no citations.
    pub fn citations(&self, text: &str) -> Vec<Citation> {
        let mut found: BTreeMap<(String, usize, usize), usize> = BTreeMap::new();
        for captures in CITATION.iter().flat_map(|citation| citation.captures_iter(text)) {
            let (Some(whole), path) = (captures.get(0), &captures[1]) else { continue };
            let address = text[..whole.start()].ends_with("//") || text[..whole.start()].ends_with('/');
            let looks_like_a_path = path.contains(['/', '.']) && path.chars().any(char::is_alphabetic);
            if address || !(looks_like_a_path || self.lines(path, |_, _| {}).is_ok()) {
                continue;
            }
            let first = captures[2].parse().unwrap_or(0);
            let last = captures.get(3).and_then(|last| last.as_str().parse().ok()).unwrap_or(first);
            let order = found.len();
            found.entry((path.to_owned(), first, last)).or_insert(order);
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by_key(|(_, order)| *order);
        found
            .into_iter()
            .map(|((path, first, last), _)| {
                let lines = self.cited(&path, first, last);
                Citation { path, first, last, lines }
            })
            .collect()
    }

    fn cited(&self, path: &str, first: usize, last: usize) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        let all = self.lines(path, |number, line| {
            if (first..=last).contains(&number) && lines.len() < MOST {
                lines.push(crate::error::excerpt(line, 200));
            }
        })?;
        if first == 0 || last > all {
            return Err(format!("`{path}` has {all} lines; there is no line {last}"));
        }
        if lines.is_empty() {
            return Err(format!("{first}-{last} is no range of lines"));
        }
        Ok(lines)
    }

    /// A check that accepts an answer when every place that it cites exists. For [`Agent::until`](crate::Agent::until).
    pub fn citations_exist(&self) -> Check<'static> {
        let repository = self.clone();
        Check::code(move |answer: &str| {
            let wrong: Vec<String> = repository
                .citations(answer)
                .iter()
                .filter_map(|c| {
                    Some(format!("{}:{} does not exist ({})", c.path, c.first, c.lines.as_ref().err()?))
                })
                .collect();
            if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
        })
    }

    /// The lines that a text cites, to show them to a judge.
    pub fn cited_lines(&self, text: &str) -> String {
        let mut out = String::new();
        for citation in self.citations(text) {
            match citation.lines {
                Ok(lines) => {
                    for (n, line) in lines.iter().enumerate() {
                        out.push_str(&format!("{}:{}: {line}\n", citation.path, citation.first + n));
                    }
                }
                Err(reason) => {
                    out.push_str(&format!("{}:{}: none ({reason})\n", citation.path, citation.first));
                }
            }
        }
        out
    }
}

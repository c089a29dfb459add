//! `search`.

use std::io::Read as _;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use cap_std::fs::File;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Repository;
use super::list::{fits, glob};
use super::path::{Found, open, open_file};
use super::walk::walk;

/// The most lines of one answer.
const MOST: usize = 100;
/// The most characters of one line.
const LONGEST_LINE: usize = 300;
/// The longest that one search takes.
const LONGEST: Duration = Duration::from_secs(10);

/// The arguments of `search`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Search {
    /// The regular expression, in the syntax of Rust's `regex`: `fn load_config`, `(?i)timeout`.
    pub pattern: String,
    /// The file or folder that is searched, relative to the root. Default: everything.
    pub path: Option<String>,
    /// Only files whose name or path matches, as `*.rs` or `src/**/*.py`.
    pub glob: Option<String>,
}

/// What a search has found so far.
struct Hits {
    lines: Vec<String>,
    files: usize,
    full: bool,
}

impl Repository {
    /// Searches files line by line; gives `path:line: text`.
    ///
    /// # Errors
    /// What the model shall be told: no regular expression, no such path, or why it may not be read.
    pub fn search(&self, args: &Search) -> Result<String, String> {
        let matcher = RegexMatcherBuilder::new()
            .line_terminator(Some(b'\n'))
            .size_limit(10 << 20)
            .build(&args.pattern)
            .map_err(|error| {
                format!(
                    "`{}` is no regular expression: {error}; put a `\\` before ( [ {{ . * + ? to mean the character",
                    args.pattern
                )
            })?;
        let glob = glob(args.glob.as_deref())?;
        let mut opened = open(&self.root, args.path.as_deref().unwrap_or_default())?;
        let mut searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(16 << 20))
            .line_number(true)
            .build();
        let mut hits = Hits { lines: Vec::new(), files: 0, full: false };
        let mut late = false;
        match opened.found {
            Found::File(file) => hits.search(&mut searcher, &matcher, &opened.path, file),
            Found::Dir(dir) => {
                let start = Instant::now();
                let _ = walk(&dir, &opened.path, &mut opened.ignored, &mut |dir, path, entry| {
                    late = start.elapsed() > LONGEST || self.is_stopped();
                    if late || hits.full {
                        return ControlFlow::Break(());
                    }
                    if glob.as_ref().is_none_or(|glob| fits(glob, path))
                        && let Ok(file) = open_file(dir, &entry.name, &entry.meta)
                    {
                        hits.search(&mut searcher, &matcher, path, file);
                    }
                    ControlFlow::Continue(())
                });
            }
        }
        let Hits { mut lines, files, full } = hits;
        if late {
            lines.push(format!("[stopped after {} s; search a subfolder with `path`]", LONGEST.as_secs()));
        } else if full {
            lines.push(format!("[the first {MOST} lines; use a narrower pattern, or `path` or `glob`]"));
        } else if lines.is_empty() {
            lines.push(format!("no line of {files} files matches `{}`", args.pattern));
        }
        Ok(lines.join("\n"))
    }
}

impl Hits {
    /// Searches one file. One that cannot be read to its end gives what was found before.
    fn search(&mut self, searcher: &mut Searcher, matcher: &RegexMatcher, path: &str, file: File) {
        self.files += 1;
        let _ = searcher.search_reader(
            matcher,
            file.into_std().take(64 << 20),
            Lossy(|number, line| {
                if self.lines.len() == MOST {
                    self.full = true;
                    return Ok(false);
                }
                let line = crate::error::excerpt(line, LONGEST_LINE);
                self.lines.push(format!("{path}:{number}: {line}"));
                Ok(true)
            }),
        );
    }
}

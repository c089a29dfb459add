//! `search`.

use std::io::{self, Read};
use std::ops::ControlFlow;

use cap_std::fs::File;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Lossy;
use grep_searcher::{Searcher, SearcherBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use super::list::{fits, glob};
use super::path::{Found, open, open_file};
use super::read::text_of;
use super::walk::{Unseen, walk};
use super::{Clock, Repository};

/// The most lines of one answer.
const MOST: usize = 100;
/// The most characters of one line.
const LONGEST_LINE: usize = 300;
/// The most bytes of one compiled pattern, which bounds what each byte of a file can cost.
const LARGEST_PATTERN: usize = 1 << 20;

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
    /// Text files that were searched.
    files: usize,
    /// Files that could not be searched to their end.
    broken: usize,
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
            .size_limit(LARGEST_PATTERN)
            .dfa_size_limit(16 << 20)
            .build(&args.pattern)
            .map_err(|error| no_pattern(&args.pattern, &error.to_string()))?;
        let glob = glob(args.glob.as_deref())?;
        let mut opened = open(&self.root, args.path.as_deref().unwrap_or_default())?;
        let mut searcher = SearcherBuilder::new().heap_limit(Some(16 << 20)).line_number(true).build();
        let mut hits = Hits { lines: Vec::new(), files: 0, broken: 0, full: false };
        let clock = self.clock();
        let unseen = match opened.found {
            Found::File(file) => {
                hits.search(&mut searcher, &matcher, &opened.path, file, clock);
                if hits.files == 0 && hits.broken == 0 {
                    return Err(format!("`{}` is no text file", opened.path));
                }
                Unseen::default()
            }
            Found::Dir(dir) => {
                walk(&dir, &opened.path, &mut opened.ignored, clock, &mut |dir, path, entry| {
                    if glob.as_ref().is_none_or(|glob| fits(glob, path)) {
                        match open_file(dir, &entry.name, &entry.meta) {
                            Ok(file) => hits.search(&mut searcher, &matcher, path, file, clock),
                            Err(_) => hits.broken += 1,
                        }
                    }
                    if hits.full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })
            }
        };
        let Hits { mut lines, files, broken, full } = hits;
        if full {
            lines.push(format!("[the first {MOST} lines; use a narrower pattern, or `path` or `glob`]"));
        } else if clock.is_over() {
            lines.push(format!("[{clock}; search a subfolder with `path`]"));
        } else if lines.is_empty() {
            lines.push(format!("no line of {files} files matches `{}`", args.pattern));
        }
        if broken > 0 {
            lines.push(format!("[{broken} files could not be read to their end]"));
        }
        lines.extend(unseen.note());
        Ok(lines.join("\n"))
    }
}

fn no_pattern(pattern: &str, error: &str) -> String {
    if error.contains("size limit") {
        return format!(
            "`{pattern}` is too large; use smaller counts in {{ }}, or `[a-z]` in place of `\\w` or `\\p`"
        );
    }
    format!(
        "`{pattern}` is no regular expression: {error}; put a `\\` before ( [ {{ . * + ? to mean the character"
    )
}

impl Hits {
    /// Searches one file. One that cannot be read to its end gives what was found before.
    fn search(
        &mut self,
        searcher: &mut Searcher,
        matcher: &RegexMatcher,
        path: &str,
        file: File,
        clock: Clock<'_>,
    ) {
        let (file, all) = match text_of(file) {
            Ok(Some(text)) => text,
            Ok(None) => return, // no text
            Err(_) => {
                self.broken += 1;
                return;
            }
        };
        self.files += 1;
        let found = searcher.search_reader(
            matcher,
            Timed { file, clock },
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
        self.broken += usize::from(found.is_err() || !all);
    }
}

/// A file that ends when the time is over.
struct Timed<'r, R> {
    file: R,
    clock: Clock<'r>,
}

impl<R: Read> Read for Timed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.clock.is_over() { Ok(0) } else { self.file.read(buffer) }
    }
}

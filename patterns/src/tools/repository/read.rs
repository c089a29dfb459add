//! `read_file`.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Cursor, Read};

use cap_std::fs::File;
use encoding_rs_io::DecodeReaderBytesBuilder;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Repository;
use super::path::{Found, open};

/// The most lines of one answer.
const MOST_LINES: usize = 400;
/// The most characters of one line.
const LONGEST_LINE: usize = 2_000;
/// How many bytes of a file tell whether it is text.
const START: usize = 8_000;
/// The most bytes of a file that are looked at.
const MOST_BYTES: u64 = 64 << 20;

/// How much of a file was looked at.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) lines: usize,
    /// Whether that is the whole file.
    pub(super) all: bool,
}

impl Seen {
    /// Why there is no such line.
    pub(super) fn no_line(self, path: &str, line: usize) -> String {
        let Self { lines, all } = self;
        if all {
            format!("`{path}` has {lines} lines; there is no line {line}")
        } else {
            format!(
                "`{path}` is too long; line {line} is beyond its first {} MiB, {lines} lines",
                MOST_BYTES >> 20
            )
        }
    }
}

/// The arguments of `read_file`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct ReadFile {
    /// The file, relative to the root, as `src/main.rs`.
    pub path: String,
    /// The first line that is read. Default: 1.
    #[schemars(range(min = 1))]
    pub first_line: Option<usize>,
    /// How many lines are read. Default: 400, which is the most.
    #[schemars(range(min = 1, max = 400))]
    pub lines: Option<usize>,
}

impl Repository {
    /// Reads lines of a file, each as `12| text`.
    ///
    /// # Errors
    /// What the model shall be told: no such file, no text, no such line, or why it may not be read.
    pub fn read_file(&self, args: &ReadFile) -> Result<String, String> {
        let first = args.first_line.unwrap_or(1).max(1);
        let count = args.lines.unwrap_or(MOST_LINES).clamp(1, MOST_LINES);
        let mut out = String::new();
        let seen = self.lines(&args.path, |number, line| {
            if (first..first + count).contains(&number) {
                match line.char_indices().nth(LONGEST_LINE) {
                    Some((end, _)) => {
                        let _ = writeln!(out, "{number}| {} [line cut]", &line[..end]);
                    }
                    None => {
                        let _ = writeln!(out, "{number}| {line}");
                    }
                }
            }
        })?;
        if seen.lines == 0 {
            return Ok("(the file is empty)".to_owned());
        }
        if first > seen.lines {
            return Err(seen.no_line(&args.path, first));
        }
        let next = first + count;
        if next <= seen.lines {
            let more = if seen.all { "" } else { "more than " };
            let _ = writeln!(
                out,
                "[lines {first} to {} of {more}{}; go on with first_line {next}]",
                next - 1,
                seen.lines
            );
        }
        Ok(out)
    }

    /// Shows `see` every line of a text file with its number, and gives their count. A file in UTF-16 is told by its mark,
    /// as `search` does.
    pub(super) fn lines(&self, path: &str, mut see: impl FnMut(usize, &str)) -> Result<Seen, String> {
        let opened = open(&self.root, path)?;
        let Found::File(file) = opened.found else {
            return Err(format!("`{path}` is a folder; list it with list_files"));
        };
        let unreadable = |error| format!("`{path}` cannot be read: {error}");
        let Some((text, all)) = text_of(file).map_err(unreadable)? else {
            return Err(format!("`{path}` is no text file"));
        };
        let text = DecodeReaderBytesBuilder::new()
            .utf8_passthru(true)
            .strip_bom(true)
            .bom_override(true)
            .build(text);
        let mut reader = BufReader::new(text);
        let (mut number, mut line) = (0, Vec::new());
        loop {
            line.clear();
            match reader.read_until(b'\n', &mut line) {
                Ok(0) => return Ok(Seen { lines: number, all }),
                Ok(_) => {}
                Err(error) => return Err(unreadable(error)),
            }
            number += 1;
            let text = String::from_utf8_lossy(&line);
            see(number, text.trim_end_matches(['\n', '\r']));
        }
    }
}

/// A file as far as it is looked at, and whether that is all of it; or nothing when it is no text: it has a zero byte near
/// its start, as git sees it, and no mark of UTF-16.
pub(super) fn text_of(file: File) -> io::Result<Option<(impl Read, bool)>> {
    let all = file.metadata()?.len() <= MOST_BYTES;
    let mut file = file.into_std();
    let mut start = Vec::with_capacity(START);
    (&mut file).take(START as u64).read_to_end(&mut start)?;
    let is_utf16 = start.starts_with(&[0xff, 0xfe]) || start.starts_with(&[0xfe, 0xff]);
    let is_text = is_utf16 || !start.contains(&0);
    Ok(is_text.then(|| (Cursor::new(start).chain(file).take(MOST_BYTES), all)))
}

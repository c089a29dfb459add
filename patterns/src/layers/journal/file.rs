//! A file of JSON lines that is only ever appended to, by one process at a time.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::key::Seed;
use crate::error::{Error, ErrorKind, Result};

const FORMAT: &str = "patterns";
const VERSION: u32 = 2;
/// How a header begins that was torn in the middle.
const BEGIN: &[u8] = b"{\"journal\":\"patterns\"";
/// What is kept of the room in which lines are written.
const ROOM: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    file: File,
    end: u64,
    /// The line that is being written.
    line: Vec<u8>,
}

/// Where a line stands in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    start: u64,
    len: usize,
}

#[derive(Serialize, Deserialize)]
struct Header {
    journal: String,
    version: u32,
    /// Missing in another version only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seed: Option<Seed>,
}

impl Lines {
    /// Opens the file, or begins it, and gives each line to `read`, which says whether it could. A last line that is torn is
    /// cut off. Gives the journal's seed, too.
    pub(super) fn open(path: &Path, mut read: impl FnMut(&[u8], Span) -> bool) -> Result<(Self, Seed)> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(|error| trouble(path, "cannot be opened", error))?;
        // a device or a pipe may have no end
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err(trouble(path, "cannot be used", "it is no regular file; use another one"));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(trouble(
                    path,
                    "is in use",
                    "another run writes to it; wait for its end or use another file",
                ));
            }
            Err(TryLockError::Error(error)) => return Err(trouble(path, "cannot be locked", error)),
        }

        let mut lines = Self { path: path.to_owned(), file, end: 0, line: Vec::new() };
        let mut reader =
            BufReader::new(lines.file.try_clone().map_err(|error| lines.trouble("cannot be read", error))?);
        let mut line = Vec::new();
        let mut number = 0;
        let mut damaged = None;
        let mut seed = None;
        loop {
            line.clear();
            let len = reader
                .read_until(b'\n', &mut line)
                .map_err(|error| lines.trouble("cannot be read", error))?;
            if len == 0 || !line.ends_with(b"\n") {
                if seed.is_none() && !line.iter().zip(BEGIN).all(|(is, begins)| is == begins) {
                    return Err(lines.is_none());
                }
                break;
            }
            if let Some(number) = damaged {
                let why = format!("line {number} is no line of a journal; mend or remove it");
                return Err(lines.trouble("is damaged", why));
            }
            number += 1;
            let span = Span { start: lines.end, len };
            let good = match seed {
                Some(_) => read(&line, span),
                None => {
                    seed = Some(lines.header(&line)?);
                    true
                }
            };
            if good {
                lines.end += len as u64;
            } else {
                damaged = Some(number); // all is well if it is the last one
            }
        }
        lines.file.set_len(lines.end).map_err(|error| lines.trouble("cannot be written", error))?;
        let seed = match seed {
            Some(seed) => seed,
            None => {
                let seed = Seed::random();
                lines.append(&Header { journal: FORMAT.to_owned(), version: VERSION, seed: Some(seed) })?;
                seed
            }
        };
        Ok((lines, seed))
    }

    fn header(&self, line: &[u8]) -> Result<Seed> {
        match serde_json::from_slice::<Header>(line) {
            Ok(Header { journal, version: VERSION, seed: Some(seed) }) if journal == FORMAT => Ok(seed),
            Ok(Header { journal, version, .. }) if journal == FORMAT && version != VERSION => {
                let why = format!(
                    "it has version {version} of the format, and this program knows version {VERSION}; use another file"
                );
                Err(self.trouble("cannot be used", why))
            }
            _ => Err(self.is_none()),
        }
    }

    fn is_none(&self) -> Error {
        self.trouble("cannot be used", "it is no journal; it is left as it is, use another file")
    }

    /// Appends a line.
    pub(super) fn append(&mut self, line: &impl Serialize) -> Result<Span> {
        self.line.clear();
        self.line.shrink_to(ROOM);
        serde_json::to_writer(&mut self.line, line)
            .map_err(|error| self.trouble("cannot be written", error))?;
        self.line.push(b'\n');
        if let Err(error) = self.file.write_all(&self.line) {
            let _ = self.file.set_len(self.end); // half a line would spoil the next one
            return Err(self.trouble("cannot be written", error));
        }
        let span = Span { start: self.end, len: self.line.len() };
        self.end += self.line.len() as u64;
        Ok(span)
    }

    /// Reads a line again.
    pub(super) fn read<T: for<'de> Deserialize<'de>>(&mut self, span: Span) -> Result<T> {
        let mut bytes = vec![0; span.len];
        self.file
            .seek(SeekFrom::Start(span.start))
            .and_then(|_| self.file.read_exact(&mut bytes))
            .map_err(|error| self.trouble("cannot be read", error))?;
        serde_json::from_slice(&bytes).map_err(|error| self.trouble("is damaged", error))
    }

    fn trouble(&self, what: &str, why: impl fmt::Display) -> Error {
        trouble(&self.path, what, why)
    }
}

fn trouble(path: &Path, what: &str, why: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("the journal {} {what}: {why}", path.display()))
}

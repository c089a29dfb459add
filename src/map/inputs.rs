//! The inputs of a map, read as they are needed: JSON Lines, CSV, or a folder of texts.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use patterns::{Error, ErrorKind, Result};
use serde_json::{Map, Value};

/// One input.
pub(super) struct Input {
    /// Its number, from 1.
    pub(super) number: usize,
    /// Its text, or why it has none.
    pub(super) text: Result<String>,
    /// What else came with it, handed on to the outcome.
    rest: Map<String, Value>,
}

impl Input {
    /// The place in the flow under which it runs.
    pub(super) fn place(&self) -> String {
        format!("input {}", self.number)
    }

    /// Adds what else came with the input to a line about it.
    pub(super) fn tag(&self, mut line: Value) -> Value {
        if !self.rest.is_empty() {
            line["fields"] = Value::Object(self.rest.clone());
        }
        line
    }
}

enum Kind {
    Lines,
    Csv,
    Folder,
}

fn kind(inputs: &Path) -> Result<Kind> {
    let meta = fs::metadata(inputs).map_err(|error| unreadable(inputs, &error))?;
    match inputs.extension().and_then(|end| end.to_str()) {
        _ if meta.is_dir() => Ok(Kind::Folder),
        Some("jsonl" | "ndjson") => Ok(Kind::Lines),
        Some("csv") => Ok(Kind::Csv),
        _ => Err(Error::new(
            ErrorKind::Config,
            format!("{} is no folder and ends neither in .jsonl nor in .csv", inputs.display()),
        )),
    }
}

/// How many inputs there are.
pub(super) fn count(inputs: &Path) -> Result<u64> {
    let count = match kind(inputs)? {
        Kind::Folder => files(inputs)?.len(),
        Kind::Lines => {
            lines(inputs)?.filter(|line| line.as_ref().map_or(true, |line| !line.trim().is_empty())).count()
        }
        Kind::Csv => records(inputs)?.into_byte_records().count(),
    };
    Ok(count as u64)
}

/// The inputs, in order, each read when its turn comes.
pub(super) fn read(inputs: &Path, field: Option<&str>) -> Result<Box<dyn Iterator<Item = Input> + Send>> {
    let field = field.map(str::to_owned);
    let place = inputs.to_owned();
    let bodies: Box<dyn Iterator<Item = Result<Value>> + Send> = match kind(inputs)? {
        Kind::Folder => Box::new(files(inputs)?.into_iter().map(|file| {
            let text = fs::read_to_string(&file).map_err(|error| unreadable(&file, &error))?;
            let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
            Ok(serde_json::json!({ "file": name, "text": text }))
        })),
        Kind::Lines => Box::new(lines(inputs)?.filter_map(move |line| match line {
            Ok(line) if line.trim().is_empty() => None,
            Ok(line) => {
                // some editors begin a file with a mark of its encoding
                let line = line.strip_prefix('\u{feff}').unwrap_or(&line);
                Some(serde_json::from_str(line).map_err(|error| wrong(format!("is not JSON: {error}"))))
            }
            Err(error) => Some(Err(unreadable(&place, &error))),
        })),
        Kind::Csv => {
            let mut records = records(inputs)?;
            let head = records
                .headers()
                .map_err(|error| wrong(format!("{} has no head: {error}", inputs.display())))?
                .clone();
            Box::new(records.into_records().map(move |record| {
                let record = record.map_err(|error| wrong(format!("is not CSV: {error}")))?;
                Ok(Value::Object(
                    head.iter().zip(&record).map(|(key, value)| (key.to_owned(), value.into())).collect(),
                ))
            }))
        }
    };
    Ok(Box::new(bodies.enumerate().map(move |(n, body)| {
        let number = n + 1;
        match body.and_then(|body| split(body, field.as_deref())) {
            Ok((text, rest)) => Input { number, text: Ok(text), rest },
            Err(error) => Input { number, text: Err(error), rest: Map::new() },
        }
    })))
}

/// The text of an input and the rest of it.
fn split(body: Value, field: Option<&str>) -> Result<(String, Map<String, Value>)> {
    let mut fields = match body {
        Value::String(text) if text.trim().is_empty() => return Err(wrong("is an empty text".to_owned())),
        Value::String(text) => return Ok((text, Map::new())),
        Value::Object(fields) => fields,
        other => return Err(wrong(format!("is neither a text nor an object: {other}"))),
    };
    let key = match field {
        Some(field) => field.to_owned(),
        None if fields.contains_key("text") => "text".to_owned(),
        None if fields.contains_key("input") => "input".to_owned(),
        None if fields.len() == 1 => fields.keys().next().cloned().unwrap_or_default(),
        None => {
            let keys: Vec<_> = fields.keys().map(String::as_str).collect();
            return Err(wrong(format!(
                "has several fields ({}); say with --field which is the text",
                keys.join(", ")
            )));
        }
    };
    match fields.shift_remove(&key) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok((text, fields)),
        Some(Value::String(_)) => Err(wrong(format!("has an empty `{key}`"))),
        Some(other) => Err(wrong(format!("has a `{key}` that is no text: {other}"))),
        None => Err(wrong(format!("has no `{key}`"))),
    }
}

fn lines(file: &Path) -> Result<std::io::Lines<BufReader<File>>> {
    Ok(BufReader::new(File::open(file).map_err(|error| unreadable(file, &error))?).lines())
}

fn records(file: &Path) -> Result<csv::Reader<File>> {
    csv::Reader::from_path(file).map_err(|error| wrong(format!("{} cannot be read: {error}", file.display())))
}

/// The files of a folder by name, hidden ones left out.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| unreadable(folder, &error))? {
        let path = entry.map_err(|error| unreadable(folder, &error))?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_file() && !hidden {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn unreadable(file: &Path, error: &std::io::Error) -> Error {
    wrong(format!("{} cannot be read: {error}", file.display()))
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::Config, message)
}

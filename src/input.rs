//! Reading the text that a flow works on.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use patterns::{Error, ErrorKind, Result};

/// The longest input in bytes: more than any model reads at once.
const LONGEST: u64 = 4 * 1024 * 1024;

/// Reads the input: a text given as an option, a file, or standard input for `-`.
pub(crate) fn read(file: Option<&Path>, text: Option<&str>) -> Result<String> {
    let (name, bytes) = match (file, text) {
        (None, Some(text)) => ("--text".to_owned(), text.as_bytes().to_vec()),
        (Some(file), None) if file.as_os_str() == "-" => {
            let mut bytes = Vec::new();
            io::stdin()
                .take(LONGEST + 1)
                .read_to_end(&mut bytes)
                .map_err(|error| wrong(format!("standard input cannot be read: {error}")))?;
            ("standard input".to_owned(), bytes)
        }
        (Some(file), None) => (file.display().to_string(), read_file(file)?),
        (Some(_), Some(_)) => return Err(wrong("give a file or --text, not both".to_owned())),
        (None, None) => {
            return Err(wrong(
                "no input; name a file, `-` for standard input, or give --text \"…\"".to_owned(),
            ));
        }
    };
    if bytes.len() as u64 > LONGEST {
        return Err(wrong(format!(
            "{name} is longer than {} MB, more than a model reads at once; cut it into pieces",
            LONGEST / 1024 / 1024
        )));
    }
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    let text = text.ok_or_else(|| {
        wrong(format!("{name} is not a text in UTF-8; convert it first, for example with iconv"))
    })?;
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    if text.trim().is_empty() {
        return Err(wrong(format!("{name} is empty; there is nothing to work on")));
    }
    Ok(text)
}

fn read_file(file: &Path) -> Result<Vec<u8>> {
    let fail = |error: io::Error| {
        wrong(match error.kind() {
            io::ErrorKind::NotFound => {
                format!("there is no file {}; for a text on the command line use --text", file.display())
            }
            io::ErrorKind::PermissionDenied => format!("{} may not be read by you", file.display()),
            _ => format!("{} cannot be read: {error}", file.display()),
        })
    };
    let meta = fs::metadata(file).map_err(fail)?;
    if meta.is_dir() {
        return Err(wrong(format!("{} is a folder, not a text", file.display())));
    }
    let mut bytes = Vec::new();
    fs::File::open(file).map_err(fail)?.take(LONGEST + 1).read_to_end(&mut bytes).map_err(fail)?;
    Ok(bytes)
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::Config, message)
}

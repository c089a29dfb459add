//! Running the program as a person does, without anything of this machine's environment.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// What a run of the program left.
pub(crate) struct Run {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

/// The root of the project.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Takes everything out of the environment that would choose a model.
pub(crate) fn bare(command: &mut Command) {
    command.current_dir(root());
    for (name, _) in std::env::vars() {
        if ["ANTHROPIC_", "OPENAI_", "OLLAMA_", "PATTERNS_MODEL"].iter().any(|start| name.starts_with(start))
            && name != "PATTERNS_MODEL_FILE"
        {
            command.env_remove(name);
        }
    }
}

/// The program, ready to run in the root of the project.
pub(crate) fn patterns(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_patterns"));
    bare(&mut command);
    command.args(arguments);
    command
}

/// Runs the program.
pub(crate) fn run(arguments: &[&str]) -> Run {
    finish(&mut patterns(arguments))
}

/// Runs a command to its end.
pub(crate) fn finish(command: &mut Command) -> Run {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    Run {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: output.status.code().unwrap_or(-1),
    }
}

/// Waits for something that another process does; how long that takes is no promise.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(300), "it never came: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// How many whole lines a file has.
pub(crate) fn lines(file: &str) -> usize {
    std::fs::read_to_string(file).map_or(0, |text| text.matches('\n').count())
}

/// A folder of its own for a test, gone afterwards.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap_or_else(|error| panic!("no temporary folder: {error}"))
}

/// A script of these lines in a folder, as a model.
pub(crate) fn script(folder: &tempfile::TempDir, lines: &str) -> String {
    let file = folder.path().join("script.jsonl");
    std::fs::write(&file, lines).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    format!("script:{}", file.display())
}

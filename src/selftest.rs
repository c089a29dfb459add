//! `patterns agent --selftest`: the tools and their sandbox on a temporary folder, and the loop on a scripted model.

use std::path::Path;
use std::{fs, io};

use patterns::providers::Script;
use patterns::{AgentEnd, Error, ErrorKind, Flow, Repository, Result, Tool, agent};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::terminal::print;

/// Stands in what must not be read.
const SECRET: &str = "not-to-be-read";

/// The tool, its arguments, whether it gives a result, a part of what it says, and what that shows.
type Check = (&'static str, Value, bool, &'static str, &'static str);

pub(crate) async fn run() -> Result<Exit> {
    let folder = tempfile::TempDir::new().map_err(|error| unusable(&error))?;
    let root = folder.path().join("root");
    plant(folder.path(), &root).map_err(|error| unusable(&error))?;
    let repository = Repository::open(&root)?;
    let tools = repository.tools();
    let mut failed = 0;
    for (name, args, good, part, what) in checks() {
        let said = match tools.iter().find(|tool| tool.name() == name) {
            Some(tool) => tool.call(&Script::parse("")?, args.clone()).await,
            None => Err("there is no such tool".to_owned()),
        };
        let (Ok(text) | Err(text)) = &said;
        let held = said.is_ok() == good && text.contains(part) && !text.contains(SECRET);
        failed += report(held, what, text)?;
    }
    failed += the_loop(&repository).await?;
    print(if failed == 0 { "everything holds" } else { "something is broken: please report it" })?;
    Ok(if failed == 0 { Exit::Done } else { Exit::Failed })
}

/// Prints a line; counts a failure.
fn report(held: bool, what: &str, said: &str) -> Result<usize> {
    if held {
        print(&format!("ok    {what}"))?;
    } else {
        print(&format!("FAIL  {what}: {}", said.lines().next().unwrap_or("it says nothing")))?;
    }
    Ok(usize::from(!held))
}

fn plant(folder: &Path, root: &Path) -> io::Result<()> {
    let files = [
        ("root/src/config.py", "import os\n\ndef load_config():\n    return os.environ\n"),
        ("root/.gitignore", "build/\n"),
        ("root/build/out.txt", SECRET),
        ("root/.env", SECRET),
        ("outside.txt", SECRET),
    ];
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, text)?;
    }
    fs::write(root.join("long.txt"), "a line\n".repeat(1_000))?;
    #[cfg(unix)]
    std::os::unix::fs::symlink("../outside.txt", root.join("link"))?;
    Ok(())
}

fn checks() -> Vec<Check> {
    let read = |path: &str| json!({ "path": path });
    vec![
        ("list_files", json!({}), true, "src/config.py", "list_files shows the files"),
        (
            "search",
            json!({"pattern": "def load_config"}),
            true,
            "src/config.py:3:",
            "search gives path and line",
        ),
        (
            "search",
            json!({"pattern": "load_weather"}),
            true,
            "no line of",
            "nothing found is a result, not a failure",
        ),
        (
            "search",
            json!({"pattern": "load("}),
            false,
            "no regular expression",
            "a broken pattern is explained",
        ),
        (
            "search",
            json!({"pattern": "^not-to-be"}),
            true,
            "no line of",
            "search sees no secrets and nothing ignored",
        ),
        ("read_file", read("src/config.py"), true, "3| def load_config", "read_file numbers the lines"),
        (
            "read_file",
            read("long.txt"),
            true,
            "go on with first_line 401",
            "read_file gives at most 400 lines",
        ),
        (
            "read_file",
            read("src/confg.py"),
            false,
            "config.py",
            "a missing file is answered by what there is",
        ),
        (
            "read_file",
            json!({"file": "x"}),
            false,
            "`path` is missing",
            "wrong arguments are answered by the right ones",
        ),
        ("read_file", read("../outside.txt"), false, "leads upwards", "`..` is refused"),
        ("read_file", read("/etc/passwd"), false, "absolute path", "absolute paths are refused"),
        ("read_file", read("src\\..\\..\\outside.txt"), false, "`\\`", "backslashes are refused"),
        ("read_file", read(".env"), false, "secrets", "files of secrets are refused"),
        ("read_file", read("build/out.txt"), false, ".gitignore", "what .gitignore leaves out is refused"),
        #[cfg(unix)]
        ("read_file", read("link"), false, "symbolic link", "links out of the folder are refused"),
    ]
}

/// The loop: two calls in one turn, then an answer; and the cap.
async fn the_loop(repository: &Repository) -> Result<usize> {
    let tools = || -> Vec<Tool<'static>> { repository.tools() };
    let calls = r#"{"content": [{"type": "tool_use", "id": "a", "name": "search", "input": {"pattern": "def load_config"}}, {"type": "tool_use", "id": "b", "name": "nope", "input": {}}], "repeat": true, "path": "turn 1"}"#;
    let script = Script::parse(&format!("{calls}\n{{\"reply\": \"It is in src/config.py:3.\"}}"))?;
    let desk = agent("Answer.").with_all(tools()).until(repository.citations_exist());
    let done = desk.run(&script, "Where is the config loaded?").await?;
    let results = done.messages.get(2).map_or(0, |message| message.content.len());
    let held = done.why == AgentEnd::Answered
        && results == 2
        && done.verdict.is_some_and(|verdict| verdict.accepted);
    let mut failed = report(
        held,
        "the loop runs the calls of a turn, answers wrong ones, and checks the citations",
        &done.text,
    )?;

    let script = Script::parse(calls)?;
    let done = agent("Answer.").with_all(tools()).turns(1).run(&script, "Where?").await?;
    let held = done.why == AgentEnd::Turns && done.messages.len() == 2;
    failed +=
        report(held, "the loop stops at its cap, before tools whose results nobody would read", &done.text)?;
    Ok(failed)
}

fn unusable(error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("no temporary folder can be used: {error}; set TMPDIR to another one"))
}

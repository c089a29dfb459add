//! Standard output carries the result alone; everything else goes to standard error, in colour on a terminal only.

use std::io::{self, IsTerminal, Write};

use console::style;
use futures::future::BoxFuture;
use patterns::{Error, ErrorKind, Question, Result};

use crate::progress::Progress;

/// Writes the result. A reader that has gone away is a clean end.
#[allow(clippy::print_stdout)]
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    match out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(end.as_bytes()))
        .and_then(|()| out.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::new(ErrorKind::Io, format!("the result cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// A text that can be shown on a terminal: whatever would move the cursor or change the screen is a blank.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && !matches!(c, '\n' | '\t') { ' ' } else { c }).collect()
}

/// Writes the answer of a flow; on a terminal it can do no harm there.
pub(crate) fn print_answer(text: &str) -> Result<()> {
    if io::stdout().is_terminal() { print(&harmless(text)) } else { print(text) }
}

/// Says something beside the result.
pub(crate) fn say(text: &str) {
    line(&harmless(text));
}

fn line(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Says something less important beside the result.
pub(crate) fn whisper(text: &str) {
    line(&style(harmless(text)).for_stderr().dim().to_string());
}

/// Says what went wrong.
pub(crate) fn complain(text: &str) {
    line(&format!("{} {}", style("patterns:").for_stderr().red().bold(), harmless(text)));
}

/// Warns of a result that is not the whole of what was asked for.
pub(crate) fn warn(text: &str) {
    line(&format!("{} {}", style("degraded:").for_stderr().yellow().bold(), harmless(text)));
}

/// Asks a person at a gate and gives the line typed; `None` at the end of input.
pub(crate) fn ask(question: Question, progress: Progress) -> BoxFuture<'static, Option<String>> {
    Box::pin(async move {
        let line = tokio::task::spawn_blocking(move || {
            progress.aside(|| {
                line(&format!(
                    "{}\n\n{}\n",
                    style(harmless(&question.gate)).for_stderr().bold(),
                    harmless(question.text.trim_end())
                ));
                let _ = write!(io::stderr().lock(), "Go on? Only `yes` is a yes: ");
                let mut line = String::new();
                let read = io::stdin().read_line(&mut line);
                if !io::stdin().is_terminal() {
                    say("");
                }
                matches!(read, Ok(n) if n > 0).then_some(line)
            })
        });
        line.await.ok().flatten()
    })
}

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

/// The same on one line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Says something beside the result.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Says something less important beside the result.
pub(crate) fn whisper(text: &str) {
    say(&style(text).for_stderr().dim().to_string());
}

/// Says what went wrong.
pub(crate) fn complain(text: &str) {
    say(&format!("{} {text}", style("patterns:").for_stderr().red().bold()));
}

/// Warns of a result that is not the whole of what was asked for.
pub(crate) fn warn(text: &str) {
    say(&format!("{} {text}", style("degraded:").for_stderr().yellow().bold()));
}

/// Asks a person at a gate and gives the line typed; `None` at the end of input.
pub(crate) fn ask(question: Question, progress: Progress) -> BoxFuture<'static, Option<String>> {
    Box::pin(async move {
        let line = tokio::task::spawn_blocking(move || {
            progress.aside(|| {
                say(&format!(
                    "{}\n\n{}\n",
                    style(&question.gate).for_stderr().bold(),
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

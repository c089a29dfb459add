//! Looking at a run after it: `patterns trace`.

use std::path::Path;

use console::{Term, style};
use patterns::trace::{Diff, Run};
use patterns::{Error, ErrorKind, Result};

use crate::args::{self, TraceCommand};
use crate::exit::Exit;
use crate::terminal::{print, say};

/// `patterns trace FILE`, `patterns trace diff A B`
pub(crate) fn trace(args: &args::Trace) -> Result<Exit> {
    if let Some(TraceCommand::Diff { before, after }) = &args.command {
        let (before, after) = (Run::read(before)?, Run::read(after)?);
        print(&Diff::new(&before, &after).to_string())?;
        return Ok(Exit::Done);
    }
    let Some(file) = &args.file else {
        return Err(Error::new(
            ErrorKind::Config,
            "name the trace of a run; a run writes one with --trace FILE",
        ));
    };
    let run = Run::read(file)?;
    if let Some(out) = &args.html {
        page(&run, out)?;
    } else if args.mermaid {
        print(&run.mermaid())?;
    } else if args.dot {
        print(&run.dot())?;
    } else {
        let width =
            args.width.unwrap_or_else(|| Term::stdout().size_checked().map_or(100, |(_, columns)| columns));
        print(&coloured(&run.gantt(usize::from(width))))?;
    }
    Ok(Exit::Done)
}

fn page(run: &Run, out: &Path) -> Result<()> {
    if out.as_os_str() == "-" {
        return print(&run.html());
    }
    std::fs::write(out, run.html()).map_err(|error| {
        Error::new(ErrorKind::Io, format!("the page {} cannot be written: {error}", out.display()))
    })?;
    say(&format!("wrote {}", out.display()));
    Ok(())
}

/// The timeline, with the critical path in bold on a terminal.
fn coloured(gantt: &str) -> String {
    let bold = |line: &str| {
        if line.starts_with("* ") { style(line).bold().to_string() } else { line.to_owned() }
    };
    gantt.lines().map(|line| bold(line) + "\n").collect()
}

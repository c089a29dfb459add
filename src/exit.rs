//! The exit codes of the program.

use std::process::ExitCode;

use patterns::{Error, ErrorKind};

/// How a run of the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// It failed: there is no answer.
    Failed = 1,
    /// It was stopped by a cap (turns, budget, time), with what there was.
    Capped = 2,
    /// Done, but degraded: branches are missing, a draft was not accepted, a vote has no winner.
    Degraded = 3,
    /// Wrong usage.
    Usage = 64,
    /// Interrupted.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Exit {
    /// The code for a run that ended with this error.
    pub(crate) fn of(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::OverBudget | ErrorKind::Cap => Self::Capped,
            ErrorKind::Undecided | ErrorKind::NotAccepted => Self::Degraded,
            ErrorKind::Config => Self::Usage,
            ErrorKind::Cancelled => Self::Interrupted,
            _ => Self::Failed,
        }
    }
}

/// The table for `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0    done
  1    failed: there is no answer
  2    stopped by a cap (turns, budget, time), with what there was
  3    done but degraded: branches missing, draft not accepted, no decision
  64   wrong usage
  130  interrupted

Model: --model, else PATTERNS_MODEL, else Claude with ANTHROPIC_API_KEY, else
OpenAI with OPENAI_API_KEY, else a small model that runs inside the program.";

//! The tools that ran in a run.

use std::collections::HashMap;
use std::time::Duration;

use super::run::Run;
use crate::event::Event;
use crate::path::Path;

/// A tool that an agent's turn ran.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ran {
    /// The turn.
    pub path: Path,
    /// The tool.
    pub name: String,
    /// When it started.
    pub start: Duration,
    /// When its result was there; the end of the trace when it tells none.
    pub end: Duration,
    /// Whether it failed, or the trace does not tell its result.
    pub failed: bool,
}

impl Ran {
    /// How long it took.
    pub fn length(&self) -> Duration {
        self.end.saturating_sub(self.start)
    }
}

impl Run {
    /// The tools that agents ran, in the order of their start.
    pub fn tools(&self) -> Vec<Ran> {
        let mut ran: Vec<Ran> = Vec::new();
        let mut open = HashMap::new();
        for note in &self.notes {
            match &note.event {
                Event::ToolCall { id, name, .. } => {
                    open.insert((&note.path, id), ran.len());
                    let (path, name) = (note.path.clone(), name.clone());
                    ran.push(Ran { path, name, start: note.at, end: self.end, failed: true });
                }
                Event::ToolResult { id, error, .. } => {
                    // one that was answered without running it never started
                    if let Some(n) = open.remove(&(&note.path, id)) {
                        (ran[n].end, ran[n].failed) = (note.at, error.is_some());
                    }
                }
                _ => {}
            }
        }
        ran
    }
}

//! What is told of a run: to the terminal, to a file, to a collector.

use patterns::trace::Trace;
use patterns::{Llm, Result};

use crate::args::How;
use crate::export::Export;
use crate::progress::Progress;
use crate::terminal::complain;

/// Everybody who watches a run.
pub(crate) struct Watch {
    progress: Progress,
    trace: Option<Trace>,
    export: Export,
}

impl Watch {
    pub(crate) fn start(how: &How, progress: &Progress) -> Result<Self> {
        let trace = how.trace.as_ref().map(Trace::create).transpose()?;
        let trace = trace.map(|trace| trace.content(how.trace_content));
        Ok(Self { progress: progress.clone(), trace, export: Export::start()? })
    }

    /// The layers that watch, outside of all others.
    pub(crate) fn round<L: Llm>(&self, llm: L) -> impl Llm + use<L> {
        llm.layer(self.progress.clone()).layer(self.trace.clone()).layer(self.export.spans())
    }

    /// Writes and sends what is left. Whoever cannot be told does not spoil the run.
    pub(crate) fn finish(self) {
        if let Some(trace) = self.trace
            && let Err(error) = trace.finish()
        {
            complain(&error.to_string());
        }
        self.export.finish();
    }
}

//! Spans for an OpenTelemetry collector, where the environment names one and the program was built with the feature `otel`.

use patterns::Result;
use patterns::layers::Spans;

/// The exporter, if there is to be one.
pub(crate) struct Export {
    #[cfg(feature = "otel")]
    exporter: Option<patterns::otel::Exporter>,
}

#[cfg(feature = "otel")]
impl Export {
    pub(crate) fn start() -> Result<Self> {
        let exporter = patterns::otel::Exporter::from_env()?;
        exporter.as_ref().map_or(Ok(()), patterns::otel::Exporter::install)?;
        Ok(Self { exporter })
    }

    /// The layer that makes the spans.
    pub(crate) fn spans(&self) -> Option<Spans> {
        self.exporter.as_ref().map(|_| Spans::default())
    }

    /// Sends what is left. A collector that is not there does not spoil the run.
    pub(crate) fn finish(self) {
        if let Some(exporter) = self.exporter
            && let Err(error) = exporter.finish()
        {
            crate::terminal::complain(&error.to_string());
        }
    }
}

#[cfg(not(feature = "otel"))]
#[allow(clippy::unused_self, clippy::unnecessary_wraps)] // as the other one
impl Export {
    pub(crate) fn start() -> Result<Self> {
        Ok(Self {})
    }

    pub(crate) fn spans(&self) -> Option<Spans> {
        None
    }

    pub(crate) fn finish(self) {}
}

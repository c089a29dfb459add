//! Sends the spans of a run to an OpenTelemetry collector (feature `otel`).
//!
//! [`Spans`](crate::layers::Spans) makes them; this hands them on over OTLP. Everything is said by the
//! [environment variables](https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/) of
//! OpenTelemetry: `OTEL_EXPORTER_OTLP_ENDPOINT` (or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`), `OTEL_EXPORTER_OTLP_HEADERS`,
//! `OTEL_EXPORTER_OTLP_TIMEOUT`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`,
//! `OTEL_BSP_…`, `OTEL_SDK_DISABLED`. The protocol is `http/protobuf`.
//!
//! ```no_run
//! # fn main() -> patterns::Result<()> {
//! let exporter = patterns::otel::Exporter::from_env()?; // None: no endpoint is named
//! if let Some(exporter) = &exporter {
//!     exporter.install()?;
//! }
//! // … runs, with `layers::Spans` round their model …
//! if let Some(exporter) = exporter {
//!     exporter.finish()?;
//! }
//! # Ok(()) }
//! ```

use std::env;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;

use crate::error::{Error, ErrorKind, Result};
use crate::providers::tls;

const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Sends spans to a collector, in the background.
#[derive(Clone, Debug)]
pub struct Exporter {
    provider: SdkTracerProvider,
}

impl Exporter {
    /// An exporter as the environment says. `None` when it names no endpoint, or turns traces off by
    /// `OTEL_SDK_DISABLED=true` or `OTEL_TRACES_EXPORTER=none`: nothing is sent anywhere that nobody asked for.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] when the environment asks for something that cannot be done.
    pub fn from_env() -> Result<Option<Self>> {
        let set = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let is = |name: &str, value: &str| set(name).is_some_and(|is| is.trim().eq_ignore_ascii_case(value));
        let Some(endpoint) = ENDPOINTS.iter().find_map(|name| set(name)) else { return Ok(None) };
        if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Ok(None);
        }
        let tls = tls(endpoint.trim_start().starts_with("https"))?;
        // its own thread, since this client must not be built inside of an async runtime
        let client = std::thread::spawn(move || {
            reqwest::blocking::Client::builder().tls_backend_preconfigured(tls).build()
        });
        let client = client
            .join()
            .map_err(|_| wrong("its client cannot be built"))?
            .map_err(|error| wrong(&error.to_string()))?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .build()
            .map_err(|error| wrong(&error.to_string()))?;
        let mut resource = Resource::builder();
        let named = set("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|list| list.contains("service.name="));
        if set("OTEL_SERVICE_NAME").is_none() && !named {
            resource = resource.with_service_name("patterns");
        }
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        Ok(Some(Self { provider }))
    }

    /// The layer for a subscriber of one's own. It takes the spans of this library and no others.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let tracer = self.provider.tracer("patterns");
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(|meta| meta.target() == "patterns"))
    }

    /// Makes this the subscriber of the whole program.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] when the program has one already; give that one the [`layer`](Self::layer).
    pub fn install(&self) -> Result<()> {
        let subscriber = tracing_subscriber::registry().with(self.layer());
        tracing::subscriber::set_global_default(subscriber).map_err(|_| {
            Error::new(
                ErrorKind::Config,
                "the program has a `tracing` subscriber already; add the exporter's `layer` to it",
            )
        })
    }

    /// Sends what is left. It blocks until the collector has it, or the time is over.
    ///
    /// # Errors
    /// [`ErrorKind::Connection`] when it could not be sent.
    pub fn finish(self) -> Result<()> {
        self.provider.shutdown().map_err(|error| {
            Error::new(ErrorKind::Connection, format!("not all spans reached the collector: {error}"))
        })
    }
}

fn wrong(why: &str) -> Error {
    let message = format!("spans cannot be sent as OTEL_EXPORTER_OTLP_… says: {why}");
    Error::new(ErrorKind::Config, message)
}

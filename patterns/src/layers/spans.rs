//! Spans of `tracing`, by the conventions of OpenTelemetry for generative AI.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, FutureExt};
use tracing::field::Empty;
use tracing::{Instrument, Span, info, info_span};

use super::Layer;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::llm::{Llm, Request};
use crate::path::Path;
use crate::reply::{Reply, Usage};

/// Makes spans of [`tracing`](https://docs.rs/tracing): one for the run, one for each branch of a fan-out, one for each
/// call of the model or of a tool. It belongs outside of the other layers. Without a subscriber it costs next to nothing.
///
/// Names and attributes follow the
/// [semantic conventions for generative AI](https://opentelemetry.io/docs/specs/semconv/gen-ai/) of OpenTelemetry, version
/// 1.41, so that any subscriber that hands spans on understands them; the `otel` feature of this library has one.
///
/// | span | kind | attributes |
/// |---|---|---|
/// | `invoke_workflow {pattern}`, or `invoke_agent`, from [`told`](crate::trace::told) | internal | `gen_ai.operation.name`, `gen_ai.workflow.name`, `error.type` |
/// | `branch {name}` | internal | `patterns.path`, `patterns.outcome`, `error.type` |
/// | `execute_tool {name}` | internal | `gen_ai.operation.name`, `gen_ai.tool.name`, `gen_ai.tool.call.id`, `patterns.path`, `patterns.outcome`, `error.type` |
/// | `chat {model}` | client, or internal for a model in the process | `gen_ai.operation.name`, `gen_ai.provider.name`, `gen_ai.request.model`, `gen_ai.request.max_tokens`, `gen_ai.request.temperature`, `gen_ai.response.model`, `gen_ai.response.id`, `gen_ai.response.finish_reasons`, `gen_ai.usage.input_tokens`, `gen_ai.usage.output_tokens`, `gen_ai.usage.cache_read.input_tokens`, `gen_ai.usage.cache_creation.input_tokens`, `error.type`, `patterns.path`, `patterns.cost` (USD), `patterns.outcome` |
///
/// What else the patterns and layers tell are events of the span that it belongs to. Prompts, replies and whatever quotes
/// them are left out.
///
/// A layer is for one run: of runs that go on at the same time, give each its own.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use patterns::layers::Spans;
/// use patterns::trace::told;
/// use patterns::{Flow, Llm, Reply, Request};
///
/// let model = async |request: Request| Ok(Reply::text_of(request.text()));
/// let llm = model.layer(Spans::default());
/// let flow = "Outline.".then("Write.");
/// told(&llm, &flow.shape(), flow.run(&llm, "bees")).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Spans(Arc<Mutex<Open>>);

/// The spans that are open.
#[derive(Debug, Default)]
struct Open {
    /// By their path.
    spans: HashMap<String, Span>,
    /// The path of a branch, by that of its fan-out and its name.
    branches: HashMap<(String, String), String>,
    /// The tools that run, by the path of the turn and the id of the call.
    tools: HashMap<(String, String), Span>,
}

impl Spans {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The innermost open span round this place, or else the current one.
    fn around(&self, path: &Path) -> Span {
        let open = self.open();
        let mut place = path.as_str();
        loop {
            if let Some(span) = open.spans.get(place) {
                return span.clone();
            }
            if place.is_empty() {
                return Span::current();
            }
            place = above(place);
        }
    }

    fn call(&self, llm: &dyn Llm, request: &Request) -> Span {
        let model = llm.model(request).unwrap_or_default();
        let (provider, model) = model.split_once(':').unwrap_or(("_OTHER", &model));
        // one that runs in the process is no client's call
        let kind = if matches!(provider, "embedded" | "script" | "_OTHER") { "internal" } else { "client" };
        info_span!(
            target: "patterns",
            parent: &self.around(&request.path),
            "chat",
            otel.name = format!("chat {model}").trim_end(),
            otel.kind = kind,
            otel.status_code = Empty,
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = provider,
            gen_ai.request.model = (!model.is_empty()).then_some(model),
            gen_ai.request.max_tokens = request.max_tokens.map(i64::from),
            gen_ai.request.temperature = request.temperature.map(f64::from),
            gen_ai.response.model = Empty,
            gen_ai.response.id = Empty,
            gen_ai.response.finish_reasons = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.usage.cache_read.input_tokens = Empty,
            gen_ai.usage.cache_creation.input_tokens = Empty,
            error.type = Empty,
            patterns.path = request.path.as_str(),
            patterns.cost = Empty,
            patterns.outcome = Empty,
        )
    }
}

/// The path without its last segment.
fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

impl Layer for Spans {
    fn around<'a>(&'a self, llm: &'a dyn Llm, mut request: Request) -> BoxFuture<'a, Result<Reply>> {
        let span = self.call(llm, &request);
        if span.is_disabled() {
            return llm.call(request);
        }
        let replayed = Arc::new(AtomicBool::new(false));
        request.listen({
            let (span, replayed) = (span.clone(), Arc::clone(&replayed));
            move |_, event| {
                if *event == Event::Replayed {
                    replayed.store(true, Ordering::Relaxed);
                }
                tell(&span, event);
            }
        });
        let call = llm.call(request).instrument(span.clone());
        async move {
            let result = call.await;
            match &result {
                Ok(reply) => {
                    answered(&span, reply);
                    // what the journal answers has used nothing now
                    if !replayed.load(Ordering::Relaxed) {
                        used(&span, &reply.usage);
                    }
                }
                Err(error) => failed(&span, error),
            }
            result
        }
        .boxed()
    }

    fn hear(&self, path: &Path, event: &Event) {
        let place = path.as_str();
        match event {
            Event::RunStarted { pattern, .. } => {
                let (operation, workflow) = match pattern.as_str() {
                    "agent" => ("invoke_agent", None),
                    pattern => ("invoke_workflow", Some(pattern)),
                };
                let span = info_span!(
                    target: "patterns",
                    "run",
                    otel.name = format!("{operation} {}", workflow.unwrap_or_default()).trim_end(),
                    otel.kind = "internal",
                    otel.status_code = Empty,
                    gen_ai.operation.name = operation,
                    gen_ai.workflow.name = workflow,
                    error.type = Empty,
                    patterns.outcome = Empty,
                );
                self.open().spans.insert(place.to_owned(), span);
            }
            Event::RunEnded { outcome, error, .. } => {
                // whatever a run that was dropped has left open ends with it
                let open = std::mem::take(&mut *self.open());
                if let Some(span) = open.spans.get(place) {
                    ended(span, outcome, error.as_deref());
                }
            }
            Event::BranchStarted { branch } => {
                let span = info_span!(
                    target: "patterns",
                    parent: &self.around(&Path::from(above(place))),
                    "branch",
                    otel.name = format!("branch {branch}"),
                    otel.kind = "internal",
                    otel.status_code = Empty,
                    error.type = Empty,
                    patterns.path = place,
                    patterns.outcome = Empty,
                );
                if !span.is_disabled() {
                    let mut open = self.open();
                    open.branches.insert((above(place).to_owned(), branch.clone()), place.to_owned());
                    open.spans.insert(place.to_owned(), span);
                }
            }
            Event::BranchEnded { branch, outcome, .. } => {
                let mut open = self.open();
                let span = match open.branches.remove(&(place.to_owned(), branch.clone())) {
                    Some(place) => open.spans.remove(&place),
                    None => None,
                };
                drop(open); // a subscriber may do what it likes when a span ends
                if let Some(span) = span {
                    ended(&span, outcome, (outcome != "ok").then_some(outcome));
                }
            }
            Event::ToolCall { id, name, .. } => {
                let span = info_span!(
                    target: "patterns",
                    parent: &self.around(path),
                    "execute_tool",
                    otel.name = format!("execute_tool {name}"),
                    otel.kind = "internal",
                    otel.status_code = Empty,
                    gen_ai.operation.name = "execute_tool",
                    gen_ai.tool.name = name,
                    gen_ai.tool.call.id = id,
                    error.type = Empty,
                    patterns.path = place,
                    patterns.outcome = Empty,
                );
                self.open().tools.insert((place.to_owned(), id.clone()), span);
            }
            Event::ToolResult { id, error, .. } => {
                let span = self.open().tools.remove(&(place.to_owned(), id.clone()));
                match span {
                    Some(span) if error.is_some() => ended(&span, "failed", Some("tool_failed")),
                    Some(span) => ended(&span, "ok", None),
                    None => tell(&self.around(path), event), // it was answered without running it
                }
            }
            event => tell(&self.around(path), event),
        }
    }
}

/// What happens in a span, as an event of it.
fn tell(span: &Span, event: &Event) {
    match event {
        Event::CallEnded { cost, outcome, usage, .. } => {
            span.record("patterns.outcome", outcome);
            if let Some(cost) = cost {
                span.record("patterns.cost", *cost);
            }
            // of any other the result tells it, and no attribute may be there twice
            if outcome == "cancelled" {
                used(span, usage);
            }
        }
        Event::CallStarted { .. } | Event::Sent | Event::Used { .. } | Event::Quota { .. } => {}
        event => info!(target: "patterns", parent: span, "{}", event.clone().without_content()),
    }
}

fn ended(span: &Span, outcome: &str, error: Option<&str>) {
    span.record("patterns.outcome", outcome);
    if let Some(error) = error.filter(|_| outcome != "cancelled") {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", kind(error));
    }
}

/// The words of an error as an identifier.
fn kind(words: &str) -> String {
    words.replace(' ', "_")
}

fn answered(span: &Span, reply: &Reply) {
    let model = reply.model.split_once(':').map_or(&*reply.model, |(_, model)| model);
    span.record("gen_ai.response.model", model);
    if let Some(id) = &reply.id {
        span.record("gen_ai.response.id", id);
    }
    finish_reasons(span, reply.stop.as_str());
}

/// The conventions ask for a list, which `tracing` does not know.
#[cfg(feature = "otel")]
fn finish_reasons(span: &Span, reason: &str) {
    use opentelemetry::{Array, StringValue, Value};
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;
    let reasons = Value::Array(Array::String(vec![StringValue::from(reason.to_owned())]));
    span.set_attribute("gen_ai.response.finish_reasons", reasons);
}

#[cfg(not(feature = "otel"))]
fn finish_reasons(span: &Span, reason: &str) {
    span.record("gen_ai.response.finish_reasons", reason);
}

fn failed(span: &Span, error: &Error) {
    span.record("otel.status_code", "ERROR");
    span.record("error.type", kind(error.kind().as_str()));
    if let Some(usage) = error.usage() {
        used(span, usage);
    }
}

fn used(span: &Span, usage: &Usage) {
    if *usage == Usage::default() {
        return; // nothing is known, which is not the same as nothing
    }
    let record = |name: &str, tokens: u64| {
        span.record(name, i64::try_from(tokens).unwrap_or(i64::MAX));
    };
    record("gen_ai.usage.input_tokens", usage.prompt_tokens());
    record("gen_ai.usage.output_tokens", usage.output_tokens);
    if usage.cache_read_tokens > 0 {
        record("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens);
    }
    let written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens;
    if written > 0 {
        record("gen_ai.usage.cache_creation.input_tokens", written);
    }
}

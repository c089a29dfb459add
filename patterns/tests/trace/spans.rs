//! What the spans are named and hold, as a subscriber of `tracing` sees them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use patterns::layers::{Journal, Options, Spans, standard};
use patterns::providers::Script;
use patterns::trace::told;
use patterns::{Event, Flow, Llm, Path, agent, sections};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

#[derive(Clone, Default, Debug)]
struct Seen {
    name: String,
    parent: Option<String>,
    fields: BTreeMap<String, String>,
    closed: bool,
}

/// Remembers every span.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<BTreeMap<u64, Seen>>>);

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl tracing::field::Visit for Fields<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}").trim_matches('"').to_owned();
        let before = self.0.insert(field.name().to_owned(), value);
        assert_eq!(before, None, "{} is told twice", field.name());
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Memory {
    fn on_new_span(
        &self,
        attributes: &tracing::span::Attributes<'_>,
        id: &tracing::span::Id,
        context: Context<'_, S>,
    ) {
        let mut fields = BTreeMap::new();
        attributes.record(&mut Fields(&mut fields));
        let parent = context.span(id).and_then(|span| span.parent()).map(|parent| parent.id().into_u64());
        let mut seen = self.0.lock().unwrap();
        let parent = parent.map(|parent| seen[&parent].name.clone());
        let name = fields.get("otel.name").cloned().unwrap_or_default();
        seen.insert(id.into_u64(), Seen { name, parent, fields, closed: false });
    }
    fn on_record(&self, id: &tracing::span::Id, values: &tracing::span::Record<'_>, _: Context<'_, S>) {
        values.record(&mut Fields(&mut self.0.lock().unwrap().get_mut(&id.into_u64()).unwrap().fields));
    }
    fn on_close(&self, id: tracing::span::Id, _: Context<'_, S>) {
        self.0.lock().unwrap().get_mut(&id.into_u64()).unwrap().closed = true;
    }
}

#[test]
fn spans_are_named_and_nested_as_the_conventions_say() {
    let memory = Memory::default();
    let subscriber = tracing_subscriber::registry().with(memory.clone());
    let script = Script::parse(
        r#"{"path":"step 1/section a","reply":"plugh","usage":{"input_tokens":7,"output_tokens":3,"cache_read_tokens":5}}
        {"path":"step 1/section b","error":{"kind":"refused","message":"plugh"}}
        {"path":"step 2","reply":"plugh"}"#,
    )
    .unwrap();
    let flow = sections().on("a", "Look: xyzzy").on("b", "Look: xyzzy").best_effort().then("Join: xyzzy");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    tracing::subscriber::with_default(subscriber, || {
        runtime.block_on(async {
            let llm = standard(script, Options::default()).layer(Spans::default());
            told(&llm, &flow.shape(), flow.run(&llm, "bees")).await.unwrap();
        });
    });
    check(&memory);
}

#[test]
fn a_tool_has_a_span_from_its_call_to_its_result() {
    let memory = Memory::default();
    let subscriber = tracing_subscriber::registry().with(memory.clone());
    tracing::subscriber::with_default(subscriber, || {
        let llm = Script::replies(["unused"]).layer(Spans::default());
        let (id, name) = ("toolu_1".to_owned(), "search".to_owned());
        let call = Event::ToolCall { id: id.clone(), name: name.clone(), input: "xyzzy".into() };
        llm.note(Path::from("turn 1"), call);
        llm.note(
            Path::from("turn 1"),
            Event::ToolResult { id, name, characters: 3, error: Some("xyzzy".into()) },
        );
    });
    let seen = memory.0.lock().unwrap();
    let span = seen.values().next().unwrap();
    assert_eq!((span.name.as_str(), span.closed), ("execute_tool search", true));
    assert_eq!(span.fields["gen_ai.tool.call.id"], "toolu_1");
    assert_eq!(span.fields["error.type"], "tool_failed");
    assert!(!format!("{span:?}").contains("xyzzy"));
}

#[tokio::test]
async fn an_agent_is_named_as_one_and_what_the_journal_answers_uses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let memory = Memory::default();
    let subscriber = tracing_subscriber::registry().with(memory.clone());
    let guard = tracing::subscriber::set_default(subscriber);
    for _ in 0..2 {
        let script = Script::parse(r#"{"reply":"done","usage":{"input_tokens":7}}"#).unwrap();
        let journal = Journal::open(folder.path().join("journal.jsonl")).unwrap();
        let options = Options { journal: Some(journal), ..Options::default() };
        let llm = standard(script, options).layer(Spans::default());
        let flow = agent("Answer.");
        told(&llm, &flow.shape(), flow.run(&llm, "bees")).await.unwrap();
    }
    drop(guard);
    let seen = memory.0.lock().unwrap();
    let names: Vec<_> = seen.values().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["invoke_agent", "chat script", "invoke_agent", "chat script"]);
    let tokens = |span: &Seen| span.fields.get("gen_ai.usage.input_tokens").cloned();
    let calls: Vec<_> = seen.values().filter(|span| span.name == "chat script").collect();
    assert_eq!((tokens(calls[0]), tokens(calls[1])), (Some("7".into()), None));
    assert_eq!(calls[1].fields["patterns.outcome"], "replayed");
}

fn check(memory: &Memory) {
    let seen = memory.0.lock().unwrap();
    let spans: Vec<_> = seen.values().map(|span| (span.name.as_str(), span.parent.as_deref())).collect();
    assert_eq!(
        spans,
        [
            ("invoke_workflow chain", None),
            ("branch a", Some("invoke_workflow chain")),
            ("chat script", Some("branch a")),
            ("branch b", Some("invoke_workflow chain")),
            ("chat script", Some("branch b")),
            ("chat script", Some("invoke_workflow chain")),
        ]
    );
    assert!(seen.values().all(|span| span.closed), "a span was left open");
    let all: Vec<_> = seen.values().collect();
    let field = |n: usize, name: &str| all[n].fields.get(name).map(String::as_str);
    assert_eq!(field(0, "gen_ai.operation.name"), Some("invoke_workflow"));
    assert_eq!(field(0, "gen_ai.workflow.name"), Some("chain"));
    assert_eq!(field(2, "gen_ai.operation.name"), Some("chat"));
    assert_eq!(field(2, "gen_ai.provider.name"), Some("script"));
    // all tokens of the prompt, those from the cache included
    assert_eq!(field(2, "gen_ai.usage.input_tokens"), Some("12"));
    assert_eq!(field(2, "gen_ai.usage.cache_read.input_tokens"), Some("5"));
    assert_eq!(field(2, "gen_ai.usage.output_tokens"), Some("3"));
    assert_eq!((field(2, "error.type"), field(2, "patterns.outcome")), (None, Some("ok")));
    assert_eq!((field(4, "error.type"), field(4, "otel.status_code")), (Some("refused"), Some("ERROR")));
    assert_eq!(field(4, "gen_ai.usage.input_tokens"), None);
    assert_eq!(
        (field(3, "error.type"), field(3, "patterns.path")),
        (Some("refused"), Some("step 1/section b"))
    );
    for span in &all {
        for value in span.fields.values() {
            assert!(!value.contains("plugh") && !value.contains("xyzzy"), "{span:?}");
        }
    }
}

//! What traces promise.
#![allow(clippy::print_stdout, clippy::unwrap_used)] // a test may panic

mod file;
mod harmless;
#[cfg(feature = "tracing")]
mod spans;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use patterns::layers::{Meter, Options, Retry, standard};
use patterns::providers::Script;
use patterns::trace::{Diff, Run, Trace, told};
use patterns::{
    Check, Error, ErrorKind, Event, Flow, Llm, OnText, Path, Plan, Reply, Request, Result, Task, Usage,
    chain, orchestrate, prompt, refine, route, sections, step, vote,
};
use proptest::prelude::*;

/// A file in memory.
#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for File {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl File {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Runs a flow under the layers of a run and gives its trace.
async fn traced<F: Flow>(
    flow: &F,
    model: impl Llm,
    content: bool,
    meter: &Meter,
) -> (String, Result<F::Output>) {
    let file = File::default();
    let trace = Trace::to(file.clone()).content(content);
    let options =
        Options { meter: meter.clone(), retry: Some(Retry::times(2)), limit: None, ..Options::default() };
    let llm = standard(model, options).layer(trace.clone());
    let result = told(&llm, &flow.shape(), flow.run(&llm, "the bees")).await;
    trace.finish().unwrap();
    (file.text(), result)
}

fn priced(text: &str, output_tokens: u64) -> Reply {
    let usage = Usage { input_tokens: 1000, output_tokens, cache_read_tokens: 77, ..Usage::default() };
    Reply { usage, model: "anthropic:claude-opus-5".to_owned(), ..Reply::text_of(text) }
}

#[tokio::test(start_paused = true)]
async fn the_sum_of_the_events_is_the_meter() {
    let tries = Mutex::new(HashMap::new());
    let model = async |request: Request| {
        let path = request.path.as_str().to_owned();
        let attempt = {
            let mut tries = tries.lock().unwrap();
            let n = tries.entry(path.clone()).or_insert(0_u64);
            *n += 1;
            *n
        };
        tokio::time::sleep(Duration::from_millis(10 * path.len() as u64)).await;
        match (path.as_str(), attempt) {
            ("step 1/section slow", 1) => Err(Error::new(ErrorKind::Overloaded, "overloaded")
                .with_usage(Usage { input_tokens: 5, ..Usage::default() })),
            ("step 1/section bad", _) => Err(Error::new(ErrorKind::Refused, "no")),
            (path, _) if path.contains("voter 3") => {
                tokio::time::sleep(Duration::from_secs(60)).await;
                Ok(priced("<label>no</label>", 3))
            }
            (path, _) if path.contains("voter") => Ok(priced("<label>yes</label>", path.len() as u64)),
            _ => Ok(priced("a text", 12)),
        }
    };
    let views = sections().on("slow", "Look.").on("bad", "Look.").on("good", "Look.").best_effort();
    let flow = views.then(vote(3, "Is it?").among(["yes", "no"])).then("Write.");
    let meter = Meter::default();
    let (text, result) = traced(&flow, model, false, &meter).await;
    assert!(result.is_ok());
    let (run, report) = (Run::parse(&text).unwrap(), meter.report());
    let total = run.total();
    assert_eq!(
        (total.calls, total.failed, total.cancelled, total.usage, total.priced, total.unpriced),
        (
            report.total.calls,
            report.total.failed,
            report.total.cancelled,
            report.total.usage,
            report.total.priced,
            report.total.unpriced
        )
    );
    assert_eq!((total.failed, total.cancelled, total.retries), (1, 1, 1));
    assert!(total.unpriced == 0 && total.priced > patterns::price::Usd::ZERO);
    for (path, line) in &report.places {
        let here: u64 =
            run.calls.iter().filter(|call| call.path == *path).map(|call| call.usage.output_tokens).sum();
        assert_eq!(here, line.usage.output_tokens, "{path}");
    }
    assert_eq!(run.saved(), 1);
    assert_eq!(run.outcome.as_deref(), Some("ok"));
}

#[tokio::test(start_paused = true)]
async fn waiting_is_told_apart_from_work() {
    let first = Mutex::new(true);
    let model = async |_: Request| {
        tokio::time::sleep(Duration::from_secs(2)).await;
        if std::mem::take(&mut *first.lock().unwrap()) {
            let wait = Duration::from_secs(7);
            return Err(Error::new(ErrorKind::RateLimited, "slow down").with_retry_after(wait));
        }
        Ok(Reply::text_of("done"))
    };
    let (text, result) = traced(&"Write.", model, false, &Meter::default()).await;
    assert_eq!(result.unwrap(), "done");
    let run = Run::parse(&text).unwrap();
    let call = &run.calls[0];
    assert_eq!((call.worked(), call.waited()), (Duration::from_secs(4), Duration::from_secs(7)));
    assert_eq!((call.retries, call.sent), (1, 2));
    assert!((run.idle() - 7.0 / 11.0).abs() < 1e-9);
}

#[tokio::test(start_paused = true)]
async fn a_trace_cut_anywhere_can_be_read_and_drawn() {
    let script = Script::parse(
        r#"{"path":"step 1/plan","reply":"<tasks><task><id>a</id><description>x</description></task><task><id>b</id><description>y</description><needs>a</needs></task></tasks>","delay":5}
        {"path":"*","reply":"a réply","delay":10,"repeat":true}"#,
    )
    .unwrap();
    let flow = orchestrate("Split.").work("Work.").merge("Join.").then("Write.");
    let (text, result) = traced(&flow, script, true, &Meter::default()).await;
    result.unwrap();
    let whole = Run::parse(&text).unwrap();
    let header = text.find('\n').unwrap();
    for end in header..=text.len() {
        let run = Run::parse(&String::from_utf8_lossy(&text.as_bytes()[..end])).unwrap();
        assert!(run.calls.len() <= whole.calls.len() && run.unread <= 1);
        if end % 97 == 0 || end == text.len() {
            run.gantt(80);
            run.mermaid();
            run.html();
            Diff::new(&whole, &run).to_string();
        }
    }
}

/// A run can come to an answer and yet not be well: what is shown of it says so, and not `ok`.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_not_the_whole_is_never_shown_as_ok() {
    let script = || {
        Script::parse(
            r#"{"path":"step 1/section b","error":{"status":400,"message":"no"}}
            {"path":"*","reply":"fine","repeat":true}"#,
        )
        .unwrap()
    };
    let views = sections().on("a", "Look.").on("b", "Look.").best_effort().then("Join.");
    let capped = Path::from("task 1");
    for content in [true, false] {
        let (text, result) = traced(&views, script(), content, &Meter::default()).await;
        result.unwrap();
        let run = Run::parse(&text).unwrap();
        let reason = if content { "step 1: no result: b (failed)" } else { "step 1: no result" };
        assert_eq!(run.shortfalls(), [reason]);
        assert!(run.gantt(80).contains(&format!("chain: degraded ({reason}), 3 calls")), "{}", run.gantt(80));
        assert!(run.html().contains(&format!("<dd>degraded: {reason}</dd>")));
        let (whole, _) = traced(&prompt("Write."), script(), content, &Meter::default()).await;
        let whole = Run::parse(&whole).unwrap();
        assert!(whole.gantt(80).contains("prompt: ok, 1 call"));
        let diff = Diff::new(&whole, &run).to_string();
        assert!(diff.contains(&format!("outcome  ok → degraded ({reason})")), "{diff}");
    }
    let file = File::default();
    let trace = Trace::to(file.clone());
    let llm = script().layer(trace.clone());
    told(&llm, &prompt("Write.").shape(), async {
        for n in 1..=5 {
            llm.note(capped.clone(), Event::Capped { reason: format!("cap {n}") });
        }
        Ok(())
    })
    .await
    .unwrap();
    trace.finish().unwrap();
    let gantt = Run::parse(&file.text()).unwrap().gantt(80);
    let end = "prompt: capped (task 1: cap 1; task 1: cap 2; task 1: cap 3; and 2 more), 0 calls";
    assert!(gantt.contains(end), "{gantt}");
}

#[test]
fn what_is_no_trace_is_refused_with_a_reason() {
    for text in ["", "hello", "{}", "{\"t\":1}"] {
        let error = Run::parse(text).unwrap_err();
        assert!(error.message().contains("this is no trace"), "{error}");
    }
    let error = Run::parse("{\"trace\":99,\"patterns\":\"9.0.0\"}").unwrap_err();
    assert!(error.message().contains("format 99") && error.message().contains("9.0.0"), "{error}");
    let newer = "{\"trace\":1}\n{\"t\":1.0,\"event\":\"invented_later\",\"x\":1}\n{\"t\":2.0,\"event\":\"draft\",\"number\":1}";
    let run = Run::parse(newer).unwrap();
    assert_eq!((run.unread, run.notes.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn without_content_nothing_that_a_user_or_a_model_wrote_is_in_the_file() {
    let model = async |request: Request| {
        let path = request.path.as_str();
        Ok(Reply::text_of(if path.ends_with("judge") {
            "<feedback>plugh plugh</feedback><evaluation>NEEDS_IMPROVEMENT</evaluation>"
        } else if path == "step 3/route" {
            "<reasoning>plugh because of xyzzy</reasoning><label>a</label>"
        } else if path.contains("voter") {
            "plugh: a long text of a voter that nobody declared as a label"
        } else if path.contains("unread") {
            "no label but plugh"
        } else {
            "plugh"
        }))
    };
    let flow = refine("Draft xyzzy: {input}")
        .until("is good")
        .rounds(2)
        .then(vote(3, "What is it?"))
        .then(route("Where to?").when("a", "Answer xyzzy.").otherwise("Answer."))
        .then(prompt("End.").gate("is right", |_: &str| Err::<(), _>("it says plugh")));
    let (bare, result) = traced(&flow, &model, false, &Meter::default()).await;
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Gated);
    for word in ["plugh", "xyzzy", "the bees"] {
        assert!(!bare.contains(word), "{word} is in\n{bare}");
    }
    let (full, _) = traced(&flow, &model, true, &Meter::default()).await;
    for word in ["plugh", "xyzzy", "the bees"] {
        assert!(full.contains(word), "{word} is not in the trace with content");
    }
    let run = Run::parse(&full).unwrap();
    assert!(run.calls.iter().all(|call| call.request.is_some() && call.reply.is_some()));
}

#[tokio::test(start_paused = true)]
async fn what_is_recorded_cannot_get_out_of_its_place_in_the_page() {
    let evil = "</script><script>alert(1)</script> {page_data} <!--";
    let model = async |_: Request| Ok(Reply::text_of(evil));
    let (text, _) = traced(&prompt(evil), model, true, &Meter::default()).await;
    let page = Run::parse(&text).unwrap().html();
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(page.contains("{page_data}") && page.contains("\\u003c/script>"));
    let links = page.matches("http://").count() + page.matches("https://").count();
    assert_eq!(links, 0, "the page needs no network");
}

/// All paths through a plan, the longest by time.
fn longest(tasks: &[(u64, Vec<usize>)], task: usize) -> u64 {
    tasks[task].0 + tasks[task].1.iter().map(|need| longest(tasks, *need)).max().unwrap_or(0)
}

fn plans() -> impl Strategy<Value = Vec<(u64, Vec<usize>)>> {
    prop::collection::vec((1_u64..40, prop::collection::vec(any::<prop::sample::Index>(), 0..3)), 1..9)
        .prop_map(|tasks| {
            let mut plan: Vec<(u64, Vec<usize>)> = Vec::new();
            for (n, (length, needs)) in tasks.into_iter().enumerate() {
                let mut needs: Vec<usize> =
                    if n == 0 { Vec::new() } else { needs.iter().map(|need| need.index(n)).collect() };
                needs.sort_unstable();
                needs.dedup();
                plan.push((length, needs));
            }
            plan
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_critical_path_of_a_plan_is_its_longest_path(tasks in plans(), merge in 1_u64..40) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let plan = Plan {
            tasks: tasks
                .iter()
                .enumerate()
                .map(|(n, (_, needs))| Task {
                    id: format!("t{n}"),
                    kind: None,
                    description: "do it".into(),
                    needs: needs.iter().map(|need| format!("t{need}")).collect(),
                })
                .collect(),
        };
        let model = async |request: Request| {
            let path = request.path.as_str();
            let seconds = match path.strip_prefix("task t") {
                Some(n) => tasks[n.parse::<usize>().unwrap()].0,
                None => merge,
            };
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok(Reply::text_of("done"))
        };
        let flow = orchestrate("unused").work("Work.").merge("Join.").at_most(9);
        let text = runtime.block_on(async {
            let file = File::default();
            let trace = Trace::to(file.clone());
            let llm = standard(model, Options { limit: None, ..Options::default() }).layer(trace.clone());
            flow.run_plan(&llm, "bees", plan).await.unwrap();
            trace.finish().unwrap();
            file.text()
        });
        let run = Run::parse(&text).unwrap();
        let brute_force = (0..tasks.len()).map(|task| longest(&tasks, task)).max().unwrap() + merge;
        let legs = run.critical_path();
        let length: Duration = legs.iter().map(|leg| run.calls[leg.call].length()).sum();
        prop_assert_eq!(length, Duration::from_secs(brute_force));
        prop_assert_eq!(run.end, Duration::from_secs(brute_force));
        prop_assert!(legs.iter().all(|leg| leg.gap == Duration::ZERO));
        // and it is a path: each task is needed by the next
        let ids: Vec<usize> = legs
            .iter()
            .filter_map(|leg| run.calls[leg.call].path.as_str().strip_prefix("task t")?.parse().ok())
            .collect();
        prop_assert_eq!(ids.len() + 1, legs.len());
        for pair in ids.windows(2) {
            prop_assert!(tasks[pair[1]].1.contains(&pair[0]), "{:?} is no path of {:?}", ids, tasks);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_branch_that_nobody_waited_for_is_not_on_the_critical_path() {
    let model = async |request: Request| {
        let seconds = match request.path.as_str() {
            "step 1/section quick" => 1,
            "step 1/section slow" => 5,
            _ => 2,
        };
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        Ok(Reply::text_of("done"))
    };
    let flow = sections().on("quick", "Look.").on("slow", "Look.").then("Join.");
    let (text, _) = traced(&flow, model, false, &Meter::default()).await;
    let run = Run::parse(&text).unwrap();
    let path: Vec<_> = run.critical_path().iter().map(|leg| run.calls[leg.call].path.to_string()).collect();
    assert_eq!(path, ["step 1/section slow", "step 2"]);
    println!("{}", run.gantt(60));
}

/// What is heard of the answer while a flow runs, and what it is.
async fn streamed<F: Flow>(flow: F) -> (String, String) {
    let heard = Arc::new(Mutex::new(String::new()));
    let on_text = OnText::new({
        let heard = Arc::clone(&heard);
        move |piece| heard.lock().unwrap().push_str(piece)
    });
    let plan = "<tasks><task><id>a</id><description>x</description></task></tasks>";
    let script = Script::parse(&format!(
        r#"{{"path":"*plan","reply":"{plan}","repeat":true}}
        {{"path":"route","reply":"<label>a</label>","repeat":true}}
        {{"path":"*judge","reply":"<evaluation>PASS</evaluation>","repeat":true}}
        {{"path":"*voter*","reply":"<label>yes</label>","repeat":true}}
        {{"path":"step 2","reply":"the end","repeat":true}}
        {{"reply":"a text","repeat":true}}"#
    ))
    .unwrap();
    let llm = standard(script, Options::default()).on_answer(on_text);
    let answer = flow.run_text(&llm, "bees").await.unwrap();
    let heard = heard.lock().unwrap().clone();
    (heard, answer)
}

#[tokio::test(start_paused = true)]
async fn only_what_is_certain_to_be_the_answer_is_shown_while_it_is_written() {
    // the call that writes the answer is known
    for (heard, answer) in [
        streamed("Write.").await,
        streamed(prompt("Write.").boxed()).await,
        streamed("Outline.".then("Write.")).await,
        streamed(chain([Flow::boxed("Outline."), Flow::boxed("Write.")])).await,
        streamed("Outline.".gate("is there", |_: &str| true).then("Write.")).await,
        streamed(route("Which?").when("a", "Answer.").otherwise("Answer.")).await,
        streamed(route("Which?").when("a", "Outline.".then("Write.")).otherwise("Answer.")).await,
        streamed(orchestrate("Split.").work("Work.").merge("Join.")).await,
        streamed("Write.".with_model("script:x")).await,
        streamed(sections().on("a", "Look.").then("Join.")).await,
    ] {
        assert_eq!(heard, answer);
    }
    // it may be rejected, changed, or is one of several
    for (heard, _) in [
        streamed("Write.".gate("is short", |_: &str| true)).await,
        streamed("Outline.".then("Write.").gate("is short", |_: &str| true)).await,
        streamed("Write.".gate_by("is good", Check::judge("good"))).await,
        streamed(refine("Write.").until("good")).await,
        streamed(vote(3, "Is it?").among(["yes", "no"])).await,
        streamed(vote(3, "What is it?")).await,
        streamed(sections().on("a", "Look.").on("b", "Look.")).await,
        streamed(orchestrate("Split.").work("Work.")).await,
        streamed("Write.".map(|text| text.to_uppercase())).await,
        streamed(step("code", async |llm, text| "Write.".run(llm, text).await)).await,
        streamed("Outline.".then("Write.").then(vote(3, "Is it?").among(["yes", "no"]))).await,
    ] {
        assert_eq!(heard, "");
    }
}

#[test]
fn the_tools_of_a_turn_are_told_apart_from_its_call() {
    let run = Run::parse(
        r#"{"trace":1}
{"t":0.0,"event":"run_started","pattern":"agent","fewest":1,"most":4}
{"t":0.0,"path":"turn 1","call":1,"event":"call_started"}
{"t":2.0,"path":"turn 1","call":1,"event":"call_ended","usage":{},"outcome":"ok"}
{"t":2.0,"path":"turn 1","event":"tool_call","id":"a","name":"search","input":null}
{"t":2.0,"path":"turn 1","event":"tool_result","id":"never ran","name":"delete","characters":9,"error":"denied"}
{"t":6.0,"path":"turn 1","event":"tool_result","id":"a","name":"search","characters":3}
{"t":6.0,"path":"turn 1","event":"tool_call","id":"b","name":"read","input":null}
{"t":8.0,"path":"turn 2","call":2,"event":"call_started"}"#,
    )
    .unwrap();
    let tools: Vec<_> =
        run.tools().iter().map(|tool| (tool.name.clone(), tool.length(), tool.failed)).collect();
    let expected = [
        ("search".to_owned(), Duration::from_secs(4), false),
        ("read".to_owned(), Duration::from_secs(2), true),
    ];
    assert_eq!(tools, expected);
    let gantt = run.gantt(80);
    let turn = gantt.lines().find(|line| line.contains("turn 1")).unwrap();
    let cells = |mark: char| turn.chars().filter(|c| *c == mark).count();
    assert!(cells('▒').abs_diff(3 * cells('█')) <= 3, "{gantt}");
    assert!(
        gantt.contains("2.00 s + 6.00 s tools") && gantt.contains("tools: 2 runs, 6.00 s, 1 failed"),
        "{gantt}"
    );
    assert!(run.html().contains(r#""x":[[2000000,6000000,"search"],[6000000,8000000,"read"]]"#));
}

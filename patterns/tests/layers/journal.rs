use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path as File, PathBuf};
use std::sync::Arc;

use patterns::layers::{Effect, Journal, Limit, Meter, Options, standard};
use patterns::{
    ErrorKind, Flow, Llm, OnText, Parts, Path, Reply, Request, Result, Stop, orchestrate, refine, sections,
    vote,
};
use tempfile::TempDir;
use tokio::sync::Notify;

use crate::fake::{Answer, Fake, Seen, load, seconds, stopped, text};

/// A model whose answer depends on nothing but the request, and takes its time. At call `hang` it hangs for ever and says so.
fn model(hang: Option<usize>, hung: &Arc<Notify>) -> Fake {
    let hung = hung.clone();
    Fake::new(move |n, request| {
        if hang == Some(n) {
            hung.notify_one();
            return Answer::from(Ok(text("never"))).after(seconds(1e6));
        }
        let mut hasher = DefaultHasher::new();
        (request.text(), request.sample, request.path.as_str()).hash(&mut hasher);
        let hash = hasher.finish();
        let path = request.path.as_str();
        let answer = if path.contains("voter") {
            "<reasoning>seen</reasoning><label>yes</label>".to_owned()
        } else if path.ends_with("plan") {
            let task = |id, needs| {
                format!(
                    "<task><id>{id}</id><description>{id} {hash}</description><needs>{needs}</needs></task>"
                )
            };
            format!(
                "<tasks>{}{}{}{}</tasks>",
                task("a", ""),
                task("b", ""),
                task("c", "a"),
                task("d", "b, c")
            )
        } else if path.ends_with("judge") {
            "<feedback>more</feedback><evaluation>NEEDS_IMPROVEMENT</evaluation>".to_owned()
        } else {
            format!("{hash:016x}")
        };
        Answer::from(Ok(text(&answer))).after(seconds((hash % 7) as f64))
    })
}

/// A vote of seven beside a plan whose tasks need each other, whose result is refined in three rounds: 7 + 6 + 6 calls.
fn flow(topic: &str) -> impl Flow<Output = Parts> {
    let work = orchestrate(format!("Plan {topic}."))
        .work("Do it.")
        .merge("Put it together.")
        .then(refine("Write it.").until("It is good.").rounds(3));
    sections().on("vote", vote(7, "Is it safe?").among(["yes", "no"]).unanimous()).on("work", work)
}

async fn run(llm: &dyn Llm, topic: &str) -> Result<String> {
    let parts = flow(topic).run(llm, "bees").await?;
    Ok(parts.parts.iter().map(|part| part.outcome.ok().unwrap().as_str()).collect())
}

const CALLS: usize = 19;

fn layered(fake: Fake, journal: &File, meter: &Meter) -> impl Llm + use<> {
    let options = Options {
        meter: meter.clone(),
        journal: Some(Journal::open(journal).unwrap()),
        limit: Some(Limit::at_most(3)),
        ..Options::default()
    };
    standard(fake, options)
}

fn file() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.jsonl");
    (dir, file)
}

async fn whole(file: &File) -> (String, Arc<Seen>) {
    let fake = model(None, &Arc::default());
    let seen = fake.seen.clone();
    let answer = run(&layered(fake, file, &Meter::default()), "bees").await.unwrap();
    (answer, seen)
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_after_any_call_is_resumed_with_exactly_the_missing_calls() {
    let (_dir, file) = file();
    let (expected, seen) = whole(&file).await;
    assert_eq!(load(&seen.calls), CALLS);
    for k in 0..CALLS {
        fs::remove_file(&file).unwrap();
        let hung = Arc::new(Notify::new());
        let fake = model(Some(k), &hung);
        let seen = fake.seen.clone();
        {
            let llm = layered(fake, &file, &Meter::default());
            tokio::select! {
                biased;
                () = hung.notified() => {}
                end = run(&llm, "bees") => panic!("{end:?}"),
            }
        }
        let finished = load(&seen.calls) - load(&seen.cancelled);
        let meter = Meter::default();
        let fake = model(None, &hung);
        let seen = fake.seen.clone();
        assert_eq!(run(&layered(fake, &file, &meter), "bees").await.unwrap(), expected);
        assert_eq!(load(&seen.calls), CALLS - finished, "ended at call {k}");
        let total = meter.total();
        assert_eq!(
            (total.calls, total.replayed, total.sent),
            (CALLS as u64, finished as u64, load(&seen.calls) as u64)
        );
        assert_eq!(total.usage, *seen.usage.lock().unwrap());
        // and a third time there is nothing left to do
        let (again, seen) = whole(&file).await;
        assert_eq!((again, load(&seen.calls)), (expected.clone(), 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_was_cut_anywhere_is_good_up_to_its_last_whole_line() {
    let (_dir, file) = file();
    let (expected, _) = whole(&file).await;
    let bytes = fs::read(&file).unwrap();
    let ends: Vec<_> = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(n, _)| n + 1).collect();
    let near_ends = ends.iter().flat_map(|end| end.saturating_sub(2)..=(end + 2).min(bytes.len()));
    for cut in (0..bytes.len()).step_by(97).chain(near_ends) {
        fs::write(&file, &bytes[..cut]).unwrap();
        let (answer, seen) = whole(&file).await;
        let lines = bytes[..cut].iter().filter(|b| **b == b'\n').count();
        assert_eq!(
            (answer, load(&seen.calls)),
            (expected.clone(), CALLS - lines.saturating_sub(1)),
            "cut at {cut}"
        );
        assert_eq!(Journal::open(&file).unwrap().replies(), CALLS);
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_prompt_runs_again_and_so_does_what_depends_on_it() {
    let (_dir, file) = file();
    whole(&file).await;
    let fake = model(None, &Arc::default());
    let seen = fake.seen.clone();
    run(&layered(fake, &file, &Meter::default()), "wasps").await.unwrap();
    let asked = seen.starts.lock().unwrap();
    // the plan and all that is made of it, but not the vote
    assert_eq!(asked.len(), 12);
    assert!(asked.iter().all(|(path, _)| path.as_str().starts_with("section work/")), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn another_model_or_sample_or_place_is_another_call() {
    let (_dir, file) = file();
    let journal = Journal::open(&file).unwrap();
    let ask = async |model: &str, request: Request| {
        let fake = Fake::new(|_, _| Ok(text("done")).into()).model(model);
        let seen = fake.seen.clone();
        fake.journal(&journal).call(request).await.unwrap();
        load(&seen.calls)
    };
    assert_eq!(ask("a:1", Request::new("?")).await, 1);
    assert_eq!(ask("a:2", Request::new("?")).await, 1);
    assert_eq!(ask("a:1", Request { sample: 2, ..Request::new("?") }).await, 1);
    assert_eq!(ask("a:1", Request::new("?").at("step 2")).await, 1);
    assert_eq!(ask("a:1", Request::new("?").system("Be terse.")).await, 1);
    drop(journal);
    let journal = Journal::open(&file).unwrap();
    assert_eq!(journal.replies(), 5);
}

#[tokio::test]
async fn only_answers_are_written_and_failures_are_asked_for_again() {
    let (_dir, file) = file();
    let refused = Stop::Refusal { category: None, explanation: None };
    let ends: [(Result<Reply>, bool); 8] = [
        (Ok(text("done")), true),
        (Ok(stopped(Stop::StopSequence("#".into()), "done")), true),
        (Ok(stopped(Stop::ToolUse, "")), true),
        (Ok(stopped(Stop::EndTurn, " ")), false),
        (Ok(stopped(Stop::MaxTokens, "half")), false),
        (Ok(stopped(refused, "no")), false),
        (Ok(stopped(Stop::Other("odd".into()), "half")), false),
        (Err(crate::fake::status(400)), false),
    ];
    for (n, (end, written)) in ends.into_iter().enumerate() {
        let end = std::sync::Mutex::new(Some(end));
        let journal = Journal::open(&file).unwrap();
        let before = journal.replies();
        let fake = Fake::new(move |_, _| end.lock().unwrap().take().unwrap().into());
        let _ = fake.journal(&journal).call(Request::new(n.to_string())).await;
        assert_eq!(journal.replies() - before, usize::from(written), "{n}");
    }
}

#[tokio::test]
async fn a_replayed_reply_is_the_same_but_uses_nothing_and_is_heard() {
    let (_dir, file) = file();
    let block = r#"{"type":"thinking","thinking":"caf\u00e9","signature":"Eq=="}"#;
    let reply = Reply {
        content: vec![serde_json::from_str(block).unwrap(), patterns::Block::text("a \"b\"\n{c}")],
        id: Some("msg_1".into()),
        ..text("")
    };
    let given = reply.clone();
    let fake = Fake::new(move |_, _| Ok(given.clone()).into());
    let first = fake.journal(&Journal::open(&file).unwrap()).call("?".into()).await.unwrap();
    let heard = Arc::new(std::sync::Mutex::new(String::new()));
    let request = Request {
        on_text: Some(OnText::new({
            let heard = heard.clone();
            move |text| heard.lock().unwrap().push_str(text)
        })),
        ..Request::new("?")
    };
    let journal = Journal::open(&file).unwrap();
    let again =
        Fake::new(|_, _| Err(crate::fake::status(500)).into()).journal(&journal).call(request).await.unwrap();
    assert_eq!(again, Reply { usage: patterns::Usage::default(), ..first });
    assert_eq!(again.content[0].raw().get(), block);
    assert_eq!(*heard.lock().unwrap(), "a \"b\"\n{c}");
    assert_eq!(journal.replayed(), 1);
}

#[test]
fn a_second_run_on_the_same_journal_is_refused() {
    let (_dir, file) = file();
    let first = Journal::open(&file).unwrap();
    let error = Journal::open(&file).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().contains("is in use: another run writes to it"), "{error}");
    drop(first);
    Journal::open(&file).unwrap();
}

#[cfg(unix)]
#[test]
fn a_journal_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let (_dir, file) = file();
    Journal::open(&file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_file_that_is_no_journal_is_left_alone() {
    let (_dir, file) = file();
    let zero = "0".repeat(32);
    let header = format!("{{\"journal\":\"patterns\",\"version\":2,\"seed\":\"{zero}\"}}\n");
    let good = format!("{{\"path\":\"a\",\"hash\":\"{zero}\",\"reply\":{{}}}}\n");
    for (content, says) in [
        ("my precious notes\n".to_owned(), "it is no journal"),
        ("a note without an end".to_owned(), "it is no journal"),
        ("{\"journal\":\"patterns\",\"version\":1}\n".to_owned(), "version 1 of the format"),
        (format!("{header}{good}nonsense\n{good}"), "line 3 is no line of a journal"),
    ] {
        fs::write(&file, &content).unwrap();
        let error = Journal::open(&file).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
    }
    #[cfg(unix)]
    for endless in ["/dev/zero", "/dev/null"] {
        let error = Journal::open(endless).unwrap_err();
        assert!(error.to_string().contains("no regular file"), "{error}");
    }
    // a line without an end or one that cannot be read is what a crash leaves behind
    fs::write(&file, &header[..20]).unwrap();
    assert_eq!(Journal::open(&file).unwrap().replies(), 0);
    fs::write(&file, format!("{header}{good}nonsense\n")).unwrap();
    assert_eq!(Journal::open(&file).unwrap().replies(), 1);
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("{header}{good}"));
}

#[test]
fn what_has_an_effect_is_never_repeated_without_asking() {
    let (_dir, file) = file();
    let place = Path::from("agent/turn 2");
    let begin = |journal: &Journal, what: &str| journal.effect(&place, what).unwrap();
    let journal = Journal::open(&file).unwrap();
    let Effect::New(first) = begin(&journal, "write a.txt") else { panic!() };
    first.done("12 bytes").unwrap();
    let Effect::New(second) = begin(&journal, "write a.txt") else { panic!("the same again is meant") };
    drop((second, journal)); // the run dies in the middle of it

    let journal = Journal::open(&file).unwrap();
    assert!(matches!(begin(&journal, "write a.txt"), Effect::Done(result) if result == "12 bytes"));
    let Effect::Unsure(second) = begin(&journal, "write a.txt") else { panic!() };
    second.done("13 bytes").unwrap();
    assert!(matches!(begin(&journal, "write a.txt"), Effect::New(_)));
    assert!(matches!(begin(&journal, "write b.txt"), Effect::New(_)));
    drop(journal);

    let journal = Journal::open(&file).unwrap();
    assert!(matches!(begin(&journal, "write a.txt"), Effect::Done(result) if result == "12 bytes"));
    assert!(matches!(begin(&journal, "write a.txt"), Effect::Done(result) if result == "13 bytes"));
}

use patterns::layers::{Chaos, Options, Record, standard};
use patterns::providers::Script;
use patterns::{Choice, ErrorKind, Flow, Llm, Reply, Request, Stop, vote};
use tokio::time::Instant;

use crate::fake::{Fake, load, status, stopped, text, too_many};

fn chaos(text: &str) -> Chaos {
    text.parse().unwrap()
}

async fn ends(chaos: Chaos, calls: usize) -> Vec<String> {
    let llm = Fake::new(|_, _| Ok(text("a whole answer")).into()).chaos(chaos);
    let mut ends = Vec::new();
    for n in 0..calls {
        let end = llm.call(Request::new("?").at(&format!("call {n}"))).await;
        ends.push(match end {
            Ok(reply) => reply.stop.as_str().to_owned(),
            Err(error) => error.kind().to_string(),
        });
    }
    ends
}

#[tokio::test(start_paused = true)]
async fn faults_come_as_often_as_they_are_asked_for_and_the_same_for_a_seed() {
    let faults = "429:0.2, truncate:0.1, refuse:0.05, reset:0.1, 529:0.05, slow:2s";
    let begin = Instant::now();
    let all = ends(chaos(faults), 4_000).await;
    assert_eq!(begin.elapsed().as_secs(), 8_000);
    for (end, share) in [
        ("rate limited", 0.2),
        ("max_tokens", 0.1),
        ("refusal", 0.05),
        ("no connection", 0.1),
        ("overloaded", 0.05),
        ("end_turn", 0.5),
    ] {
        let found = all.iter().filter(|other| *other == end).count() as f64 / 4_000.0;
        assert!((found - share).abs() < 0.02, "{end}: {found}");
    }
    assert_eq!(ends(chaos(faults), 4_000).await, all);
    assert_ne!(ends(chaos(faults).seed(1), 4_000).await, all);
}

#[tokio::test(start_paused = true)]
async fn what_befalls_a_call_does_not_depend_on_the_order_of_calls() {
    let llm = Fake::new(|_, _| Ok(text("done")).into()).chaos(chaos("500:0.5"));
    let forth: Vec<_> = ends(chaos("500:0.5"), 50).await.iter().map(|end| end == "end_turn").collect();
    let mut back = Vec::new();
    for n in (0..50).rev() {
        back.push(llm.call(Request::new("?").at(&format!("call {n}"))).await.is_ok());
    }
    back.reverse();
    assert_eq!(back, forth);
    // and the next attempt of the same call has dice of its own
    let mut again = Vec::new();
    for n in 0..50 {
        again.push(llm.call(Request::new("?").at(&format!("call {n}"))).await.is_ok());
    }
    assert_ne!(again, forth);
}

#[tokio::test(start_paused = true)]
async fn the_layers_outside_get_a_flow_through_it() {
    let fake = Fake::new(|_, request| Ok(text(&request.text())).into());
    let seen = fake.seen.clone();
    let options =
        Options { chaos: Some(chaos("429:0.1,529:0.1,reset:0.05,truncate:0.05")), ..Options::default() };
    let llm = standard(fake, options);
    let inputs: Vec<_> = (0..200).map(|n| format!("input {n}")).collect();
    let ends = "{input}".then("{input}").run_each(&llm, &inputs, 0).await;
    let done = ends.iter().zip(&inputs).filter(|(end, input)| end.ok() == Some(input)).count();
    assert!(done >= 190, "{done} of 200");
    assert!(load(&seen.calls) >= 400);
}

#[test]
fn a_text_that_makes_no_sense_is_refused_with_what_would() {
    for (text, says) in [
        ("429", "no `:`"),
        ("429:2", "from 0 to 1"),
        ("429:0.6,reset:0.6", "add up to 1.20"),
        ("404:0.1", "408, 409, 429, 500 to 599"),
        ("flood:0.1", "truncate"),
        ("slow:fast", "2s or 300ms"),
        ("slow:-1s", "2s or 300ms"),
    ] {
        let error = text.parse::<Chaos>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(says), "{error}");
    }
    chaos("");
    chaos("slow:300ms");
}

#[tokio::test(start_paused = true)]
async fn a_recorded_run_can_be_played_again_without_the_model() {
    let flow = "Say it nicer: {input}".then(vote(3, "Is it nice?").among(["yes", "no"]));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("script.jsonl");
    let fake = Fake::new(|n, request| match request.path.as_str() {
        "step 1" if n == 0 => Err(status(529)).into(),
        "step 1" => Ok(text("dear")).into(),
        _ => Ok(text(if n % 2 == 0 { "<label>yes</label>" } else { "<label>no</label>" })).into(),
    });
    let options = Options { record: Some(Record::create(&file).unwrap()), ..Options::default() };
    let first = flow.run(&standard(fake, options), "hey").await.unwrap();
    let script = Script::read(&file).unwrap();
    let again = flow.run(&standard(script.clone(), Options::default()), "hey").await.unwrap();
    assert_eq!((again.winner, again.counts), (first.winner, first.counts));
    assert_eq!(script.unused(), Vec::<String>::new());
}

#[tokio::test]
async fn a_recording_is_a_script_of_every_reply_and_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("script.jsonl");
    let fake = Fake::new(|n, _| match n {
        0 => Ok(text("one\n\"quoted\"")).into(),
        1 => Ok(stopped(Stop::MaxTokens, "half")).into(),
        2 => {
            let choice = Choice { label: "billing".into(), reasoning: None, probabilities: Vec::new() };
            Ok(Reply { choice: Some(choice), ..text("<label>billing</label>") }).into()
        }
        3 => Err(too_many(1.5)).into(),
        _ => Err(status(400)).into(),
    });
    let llm = fake.record(Record::create(&file).unwrap());
    for n in 0..5 {
        let _ = llm.call(Request::new(format!("question {n}")).at("route")).await;
    }
    let written = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<serde_json::Value> =
        written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    for (n, line) in lines.iter().enumerate() {
        assert_eq!((&line["path"], &line["text"]), (&"route".into(), &format!("question {n}").into()));
    }
    assert_eq!(lines[0]["content"][0]["text"], "one\n\"quoted\"");
    assert_eq!((&lines[0]["stop"], &lines[0]["usage"]["output_tokens"]), (&"end_turn".into(), &5.into()));
    assert_eq!((&lines[1]["stop"], &lines[2]["reply"]), (&"max_tokens".into(), &"billing".into()));
    assert_eq!(
        lines[3]["error"],
        serde_json::json!({ "kind": "rate_limited", "status": 429, "message": "no", "retry_after": 1.5 })
    );
    assert_eq!(lines[4]["error"]["kind"], "invalid_request");
    let error = Record::create(&file).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
}

use patterns::layers::Complete;
use patterns::{Block, ErrorKind, Llm, OnText, Reply, Request, Stop};

use crate::fake::{Answer, Fake, load, status, stopped, text};

fn scripted(replies: Vec<Reply>) -> Fake {
    Fake::new(move |n, _| Answer::from(Ok(replies[n.min(replies.len() - 1)].clone())))
}

fn refusal() -> Stop {
    Stop::Refusal { category: Some("cyber".into()), explanation: None }
}

#[tokio::test]
async fn every_stop_reason_has_its_own_end() {
    let cut = || stopped(Stop::MaxTokens, "half");
    let paused = || stopped(Stop::PauseTurn, "so far, ");
    let table = [
        (vec![text("done")], 1, Ok("done")),
        (vec![stopped(Stop::StopSequence("###".into()), "done")], 1, Ok("done")),
        (vec![cut(), text("done")], 2, Ok("done")),
        (vec![cut(), cut(), text("done")], 2, Err(ErrorKind::Truncated)),
        (vec![paused(), text("done")], 2, Ok("so far, done")),
        (vec![stopped(Stop::Compaction, "so far, "), paused(), text("done")], 3, Ok("so far, so far, done")),
        (vec![paused(), cut(), text("done")], 3, Ok("so far, done")),
        (vec![paused()], 6, Err(ErrorKind::Cap)),
        (vec![stopped(refusal(), "")], 1, Err(ErrorKind::Refused)),
        (vec![cut(), stopped(refusal(), "")], 2, Err(ErrorKind::Refused)),
        (vec![stopped(Stop::ContextWindow, "half")], 1, Err(ErrorKind::ContextWindow)),
        (vec![stopped(Stop::ToolUse, "")], 1, Err(ErrorKind::Protocol)),
        (vec![stopped(Stop::Other("content_filter".into()), "half")], 1, Err(ErrorKind::Protocol)),
    ];
    for (replies, calls, ends) in table {
        let stops: Vec<_> = replies.iter().map(|reply| reply.stop.as_str().to_owned()).collect();
        let fake = scripted(replies);
        let seen = fake.seen.clone();
        let answer = fake.complete(Complete::default()).ask("?").await;
        let answer = answer.as_deref().map_err(patterns::Error::kind);
        assert_eq!((answer, load(&seen.calls)), (ends, calls), "{stops:?}");
    }
}

#[tokio::test]
async fn usage_is_that_of_all_requests_whether_there_is_a_reply_or_not() {
    let cut = || stopped(Stop::MaxTokens, "half");
    let paused = || stopped(Stop::PauseTurn, "half");
    let llm = scripted(vec![paused(), cut(), text("done")]).complete(Complete::default());
    assert_eq!(llm.call("?".into()).await.unwrap().usage.total_tokens(), 45);
    let llm = scripted(vec![paused()]).complete(Complete::default().resumes(2));
    let error = llm.ask("?").await.unwrap_err();
    assert_eq!(error.usage().unwrap().total_tokens(), 45);
    assert_eq!(error.partial(), Some("halfhalfhalf"));
    let llm =
        Fake::new(|n, _| if n == 0 { Ok(stopped(Stop::MaxTokens, "half")) } else { Err(status(500)) }.into())
            .complete(Complete::default());
    let error = llm.ask("?").await.unwrap_err();
    assert_eq!((error.usage().unwrap().total_tokens(), error.partial()), (15, Some("half")));
}

#[tokio::test]
async fn a_cut_reply_gets_twice_the_room_up_to_what_the_model_has() {
    for (model, asked, then) in [
        ("anthropic:claude-opus-5-5", None, Some(16_384)),
        ("anthropic:claude-opus-5-5", Some(100), Some(200)),
        ("anthropic:claude-opus-5-5", Some(100_000), Some(128_000)),
        ("anthropic:claude-opus-5-5", Some(128_000), None),
        ("openai:unknown", Some(100_000), Some(200_000)),
    ] {
        let asked_for = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let fake = Fake::new({
            let asked_for = asked_for.clone();
            move |_, request| {
                asked_for.lock().unwrap().push(request.max_tokens);
                Answer::from(Ok(stopped(Stop::MaxTokens, "half")))
            }
        });
        let llm = fake.model(model).complete(Complete::default());
        llm.call(Request { max_tokens: asked, ..Request::new("?") }).await.unwrap();
        let expected: Vec<_> = [Some(asked), then.map(Some)].into_iter().flatten().collect();
        assert_eq!(*asked_for.lock().unwrap(), expected, "{model}");
    }
}

#[tokio::test]
async fn more_room_than_the_model_has_costs_nothing_but_the_attempt() {
    let llm =
        Fake::new(|n, _| if n == 0 { Ok(stopped(Stop::MaxTokens, "half")) } else { Err(status(400)) }.into())
            .complete(Complete::default());
    let error = llm.ask("?").await.unwrap_err();
    assert_eq!((error.kind(), error.partial()), (ErrorKind::Truncated, Some("half")));
}

#[tokio::test]
async fn a_paused_turn_is_sent_back_unchanged() {
    let thinking = r#"{"type":"thinking","thinking":"","signature":"Eq=="}"#;
    let block: Block = serde_json::from_str(thinking).unwrap();
    let fake = Fake::new(move |n, request| {
        let sent = serde_json::to_string(&request.messages).unwrap();
        if n > 0 {
            let turns: Vec<_> = (0..n).map(|_| thinking).collect();
            assert!(
                sent.ends_with(&format!(r#"{{"role":"assistant","content":[{}]}}]"#, turns.join(","))),
                "{sent}"
            );
        }
        let stop = if n < 2 { Stop::PauseTurn } else { Stop::EndTurn };
        Answer::from(Ok(Reply { content: vec![block.clone()], ..stopped(stop, "") }))
    });
    let reply = fake.complete(Complete::default()).call("?".into()).await.unwrap();
    assert_eq!(reply.content.len(), 3);
}

#[tokio::test]
async fn what_was_shown_is_not_asked_for_again() {
    for (on_text, calls) in [(Some(OnText::new(|_| ())), 1), (Some(OnText::unseen()), 2), (None, 2)] {
        let fake = scripted(vec![stopped(Stop::MaxTokens, "half")]);
        let seen = fake.seen.clone();
        let request = Request { on_text, ..Request::new("?") };
        let reply = fake.complete(Complete::default()).call(request).await.unwrap();
        assert_eq!((reply.stop, load(&seen.calls)), (Stop::MaxTokens, calls));
    }
}

//! aimock: messages, streams, thinking with its signature, tools, a failure and then an answer.

use patterns::{Block, Error, ErrorKind, Expect, Llm, Message, OneOf, Reply, Request, Role, Stop, ToolSpec};
use serde_json::json;

use crate::{both, peer, streamed};

fn peers() -> Option<[patterns::Connection; 2]> {
    let url = peer("AIMOCK_URL")?;
    Some(both(url.clone(), format!("{url}/v1")))
}

/// The replies of both APIs, each plain and streamed.
async fn replies(request: Request) -> Option<Vec<Result<Reply, Error>>> {
    let mut all = Vec::new();
    for llm in peers()? {
        all.push(llm.call(request.clone()).await);
        all.push(llm.call(streamed(request.clone())).await);
    }
    Some(all)
}

#[tokio::test]
async fn a_text_comes_whole() {
    for reply in replies(Request::new("say hola")).await.unwrap_or_default() {
        let reply = reply.unwrap();
        assert_eq!((reply.text().as_ref(), &reply.stop), ("¡Hola! ¿Qué tal?", &Stop::EndTurn));
    }
}

#[tokio::test]
async fn thinking_comes_with_its_signature_and_goes_back() {
    let Some([claude, _]) = peers() else { return };
    for request in [Request::new("think first"), streamed(Request::new("think first"))] {
        let reply = claude.call(request.clone()).await.unwrap();
        assert_eq!(reply.text(), "42");
        let thinking = reply.content[0].raw().get();
        assert!(
            thinking.contains("six times seven") && thinking.contains("\"signature\":\"aimock"),
            "{thinking}"
        );
        let mut next = request;
        next.messages.push(Message { role: Role::Assistant, content: reply.content });
        next.messages.push(Message::user("say hola"));
        assert_eq!(claude.call(next).await.unwrap().text(), "¡Hola! ¿Qué tal?");
    }
}

#[tokio::test]
async fn tools_are_called_and_answered() {
    let search = ToolSpec::Function {
        name: "search".into(),
        description: "Searches.".into(),
        input_schema: json!({"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]}),
        strict: false,
    };
    for llm in peers().into_iter().flatten() {
        for stream in [false, true] {
            let mut request = Request { tools: vec![search.clone()], ..Request::new("look twice") };
            if stream {
                request = streamed(request);
            }
            let reply = llm.call(request.clone()).await.unwrap();
            assert_eq!(reply.stop, Stop::ToolUse);
            let calls: Vec<_> = reply.content.iter().filter_map(Block::as_tool_use).collect();
            assert_eq!(calls.iter().map(|call| call.id).collect::<Vec<_>>(), ["toolu_01A", "toolu_01B"]);
            assert_eq!(calls[0].input.get(), r#"{"pattern":"load","path":"src"}"#);
            let results =
                calls.iter().map(|call| Block::tool_result(call.id, "src/main.rs", false)).collect();
            request.messages.push(Message { role: Role::Assistant, content: reply.content });
            request.messages.push(Message { role: Role::User, content: results });
            assert_eq!(llm.call(request).await.unwrap().into_answer().unwrap(), "Found both.");
        }
    }
}

#[tokio::test]
async fn a_cut_reply_and_a_filtered_one_are_no_answers() {
    for reply in replies(Request::new("be cut")).await.unwrap_or_default() {
        let error = reply.unwrap().into_answer().unwrap_err();
        assert_eq!((error.kind(), error.partial()), (ErrorKind::Truncated, Some("Once upon a")));
    }
    for reply in replies(Request::new("be filtered")).await.unwrap_or_default() {
        assert!(reply.unwrap().into_answer().is_err());
    }
}

#[tokio::test]
async fn a_choice_is_made_by_schema() {
    let Some([claude, _]) = peers() else { return };
    let request = Request::new("which desk").expect(Expect::OneOf(OneOf::new(["billing", "bug"])));
    for request in [request.clone(), streamed(request)] {
        assert_eq!(claude.call(request).await.unwrap().choice.unwrap().label, "billing");
    }
}

#[tokio::test]
async fn an_overload_is_transient_and_then_there_is_an_answer() {
    let Some([claude, _]) = peers() else { return };
    let error = claude.call(Request::new("be busy")).await.unwrap_err();
    assert_eq!((error.kind(), error.status()), (ErrorKind::Overloaded, Some(529)));
    assert!(error.is_transient() && error.message().contains("Overloaded"), "{error}");
    assert_eq!(claude.ask("be busy").await.unwrap(), "Here I am.");
}

#[tokio::test]
async fn what_no_fixture_answers_is_an_error_with_its_reason() {
    for reply in replies(Request::new("nobody expects this")).await.unwrap_or_default() {
        let error = reply.unwrap_err();
        assert!(error.status().is_some_and(|status| status >= 400), "{error:?}");
        assert!(error.message().to_lowercase().contains("fixture"), "{error}");
    }
}

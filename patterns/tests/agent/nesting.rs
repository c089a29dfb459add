//! An agent is a flow like any other, and any flow is a tool.

use patterns::{ErrorKind, Flow, Reply, Request, Stop, Tool, agent, refine, route, step, tool};

use super::common::Model;
use super::{N, calls, reply};

fn look() -> Tool<'static> {
    tool("look", "Looks.", async |N { n }: N| Ok(format!("seen {n}")))
}

#[tokio::test]
async fn an_agent_is_a_way_a_draft_and_a_step() {
    let model = Model::new(|request: &Request| {
        Ok(match request.path.as_str() {
            "route" => Reply::text_of("<label>find</label>"),
            "route/find/draft 1/turn 1" => calls(&[("a", "look", r#"{"n":1}"#)]),
            "route/find/draft 1/turn 2" => Reply::text_of("found"),
            path => panic!("nobody should ask at {path}"),
        })
    });
    let desk = route("What is wanted?")
        .when("find", refine(agent("Find.").with(look())).until_code(|text| text == "found"))
        .otherwise(agent("Chat."));
    assert_eq!(desk.run(&model, "Where?").await.unwrap().text, "found");
}

#[tokio::test]
async fn a_subagent_gets_its_task_alone_and_gives_back_a_bounded_text() {
    let model = Model::new(|request: &Request| {
        let mut reply = match request.path.as_str() {
            "turn 1" => {
                calls(&[("a", "research", r#"{"task":"bees"}"#), ("b", "research", r#"{"task":"ants"}"#)])
            }
            "turn 1/call 1 research/turn 1" => Reply::text_of("b".repeat(9_000)),
            "turn 1/call 2 research/turn 1" => Reply::text_of("ants dig"),
            _ => Reply::text_of("done"),
        };
        reply.usage.output_tokens = 5;
        Ok(reply)
    });
    let lead =
        agent("Lead.").with(Tool::flow("research", "Finds out about one subject.", agent("Research.")));
    let done = lead.run(&model, "Compare bees and ants.").await.unwrap();
    assert_eq!(model.sent("turn 1/call 2 research/turn 1"), "Research.\nants");
    let results: Vec<_> =
        done.messages[2].content.iter().filter_map(patterns::Block::as_tool_result).collect();
    assert_eq!(results[0].text.lines().next().map(str::len), Some(4_000));
    assert!(results[0].text.ends_with("[cut: the first 4000 of 9000 characters. Give a smaller task.]"));
    assert_eq!(results[1].text, "ants dig");
    assert_eq!(done.usage.output_tokens, 20, "the calls of subagents are counted");
}

#[tokio::test]
async fn a_subagent_without_an_answer_is_a_failed_call_with_what_there_is() {
    let model = Model::new(|request: &Request| {
        Ok(match request.path.as_str() {
            "turn 1" => calls(&[("a", "research", r#"{"task":"bees"}"#)]),
            "turn 1/call 1 research/turn 1" => {
                reply(Stop::MaxTokens, r#"[{"type":"text","text":"bees are"}]"#)
            }
            _ => Reply::text_of("done"),
        })
    });
    let lead = agent("Lead.").with(Tool::flow("research", "Finds out.", agent("Research.")));
    let done = lead.run(&model, "Bees?").await.unwrap();
    let result = done.messages[2].content[0].as_tool_result().unwrap();
    assert!(result.is_error);
    assert!(result.text.starts_with("the reply was cut at max_tokens"), "{}", result.text);
    assert!(result.text.ends_with("\nWhat there is so far:\nbees are"), "{}", result.text);
}

#[tokio::test]
async fn the_bounds_are_known_before_the_run() {
    let calls = |agent: patterns::Agent<'static>| agent.shape().calls().to_string();
    assert_eq!(calls(agent("Go.")), "1 to 12 calls");
    assert_eq!(calls(agent("Go.").turns(1)), "1 call");
    assert_eq!(calls(agent("Go.").with(look()).turns(4)), "1 to 4 calls");
    assert_eq!(calls(agent("Go.").turns(4).until("Good.")), "2 to 8 calls");
    let sub = || Tool::flow("research", "Finds out.", agent("Research.").turns(3));
    assert_eq!(
        calls(agent("Lead.").turns(4).with(sub())),
        "at least 1 call",
        "nothing bounds how often it is called"
    );
    assert_eq!(calls(agent("Lead.").turns(4).tool_calls(5).with(sub())), "1 to 19 calls");
    let free =
        Tool::flow("shout", "Shouts.", step("shout", async |_, text| Ok(text.to_uppercase())).calls(0..=0));
    assert_eq!(calls(agent("Lead.").turns(4).with(free)), "1 to 4 calls");
    let shape = agent("Lead.").turns(4).with(sub()).shape().to_string();
    assert!(
        shape.contains("research: agent \"Research.\", at most 3 turns, no tools (1 to 3 calls)"),
        "{shape}"
    );
}

#[tokio::test]
async fn an_agent_that_cannot_run_says_why_before_the_first_call() {
    let model = Model::by_path(|_| "never asked");
    let rows = [
        (agent("Go.").turns(0), "`turns(0)` asks nobody; use at least 1"),
        (agent("Go.").rounds(0), "`rounds(0)` judges nothing; use at least 1, or no check"),
        (agent("Go.").with(look()).with(look()), "two tools are named `look`; rename one"),
        (
            agent("Go.").with(look()).disallow(["lok"]),
            "`lok` is allowed or disallowed, but no tool has this name",
        ),
        (
            agent("Go.").with(look()).tool_choice(patterns::ToolChoice::Tool("lok".into())),
            "`lok` must be called first, but no tool that may be called has this name",
        ),
        (
            agent("Go.").with(Tool::flow("a", "b", agent("x").turns(0))),
            "`turns(0)` asks nobody; use at least 1",
        ),
        (
            agent("Go.").with(tool("look here", "Looks.", async |_: N| Ok(String::new()))),
            "`look here` is no name for a tool; use 1 to 64 of the letters a-z, A-Z, digits, `_` and `-`",
        ),
    ];
    for (agent, message) in rows {
        let error = agent.run(&model, "Go.").await.unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Config, message));
        assert_eq!(agent.check().unwrap_err().message(), message);
    }
    assert_eq!(model.calls(), 0);
}

#[tokio::test]
async fn a_tool_is_a_step_of_a_chain() {
    let model = Model::by_path(|_| "Here you are:\n```json\n{\"n\": 4}\n```");
    let chain = "Which number is meant?".then(look()).map(|text| text.to_uppercase());
    assert_eq!(chain.run(&model, "the fourth").await.unwrap(), "SEEN 4");
    assert_eq!(chain.shape().calls().to_string(), "1 call");

    let model = Model::by_path(|_| "four");
    let error = "Which number is meant?".then(look()).run(&model, "the fourth").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tool);
    assert!(error.message().contains("is not the JSON of its arguments"), "{}", error.message());
}

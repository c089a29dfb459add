//! The agent loop on aimock: calls that run at once, thinking that goes back with its signature, an overload on the way.

use patterns::layers::{self, Options};
use patterns::{Agent, AgentEnd, Flow, agent, tool};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{both, peer};

#[derive(Deserialize, JsonSchema)]
struct Place {
    place: String,
}

fn desk() -> Agent<'static> {
    agent("Say what is where.").with(tool("look", "What is in a place.", async |Place { place }: Place| {
        if place == "hive" { Ok("bees".to_owned()) } else { Err(format!("nobody has been to the {place}")) }
    }))
}

#[tokio::test]
async fn two_calls_of_one_turn_are_answered_together() {
    let Some(url) = peer("AIMOCK_URL") else { return };
    for (llm, thinks) in both(url.clone(), format!("{url}/v1")).into_iter().zip([true, false]) {
        let done = desk().run(&llm, "look and think").await.unwrap();
        assert_eq!((&done.why, done.turns), (&AgentEnd::Answered, 2));
        assert_eq!(done.text, "Bees in the hive, nothing known of the moon.");
        let results: Vec<_> =
            done.messages[2].content.iter().filter_map(patterns::Block::as_tool_result).collect();
        assert_eq!(
            results.iter().map(|r| (r.id, r.is_error)).collect::<Vec<_>>(),
            [("toolu_02A", false), ("toolu_02B", true)]
        );
        if thinks {
            let thinking = done.messages[1].content[0].raw().get();
            assert!(
                thinking.contains("two places") && thinking.contains("\"signature\":\"aimock"),
                "{thinking}"
            );
        }
    }
}

#[tokio::test]
async fn an_overload_on_the_way_is_tried_again() {
    let Some(url) = peer("AIMOCK_URL") else { return };
    let [claude, _] = both(url.clone(), format!("{url}/v1"));
    let llm = layers::standard(claude, Options::default());
    let done = desk().run(&llm, "look when busy").await.unwrap();
    assert_eq!((done.text.as_str(), done.turns), ("Bees.", 2));
}

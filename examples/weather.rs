//! The agent loop with one tool: the weather, never guessed.
//!
//! Run it with ANTHROPIC_API_KEY or another model that calls tools: `cargo run --release --example weather`. Without one:
//! `PATTERNS_MODEL=script:examples/scripts/weather.jsonl cargo run --example weather`.
#![allow(clippy::print_stdout)]

use patterns::schemars::{self, JsonSchema};
use patterns::{Event, Flow, Llm, Result, agent, connect_default, layers, tool};
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Celsius,
    Fahrenheit,
}

#[derive(Deserialize, JsonSchema)]
struct Place {
    /// The city, without its country, as Oslo.
    city: String,
    unit: Unit,
}

const STATIONS: [(&str, &str, f64); 3] =
    [("Oslo", "snow", -3.0), ("Lagos", "clear", 31.0), ("Lima", "mist", 18.5)];

#[tokio::main]
async fn main() -> Result<()> {
    let weather =
        tool("weather", "The weather in a city, now. Call it once for each city.", async |place: Place| {
            let Some((city, sky, celsius)) = STATIONS.iter().find(|(city, ..)| *city == place.city) else {
                let known = STATIONS.map(|(city, ..)| city).join(", ");
                return Err(format!("there is no station in `{}`; there is one in {known}", place.city));
            };
            Ok(match place.unit {
                Unit::Celsius => format!("{city}: {sky}, {celsius} °C"),
                Unit::Fahrenheit => format!("{city}: {sky}, {} °F", celsius * 9.0 / 5.0 + 32.0),
            })
        });
    let reporter =
        agent("You report the weather, from the tool alone. Say of which cities you know nothing.")
            .with(weather)
            .turns(5);
    println!("{}", reporter.shape());

    let llm = layers::standard(connect_default()?.0, layers::Options::default()).observe(|_, event| {
        if matches!(event, Event::Turn { .. } | Event::ToolResult { .. }) {
            println!("{event}");
        }
    });
    let done = reporter.run(&llm, "Is it colder in Oslo or in Lagos, in Celsius? And in Atlantis?").await?;
    println!("\n{}", String::try_from(done)?);
    Ok(())
}

//! The schema of a tool's arguments, and what is held against it.

use patterns::{Flow, Llm, Reply, Request, ToolSpec, agent, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::common::Model;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Celsius,
    Fahrenheit,
}

#[derive(Deserialize, JsonSchema)]
struct Range {
    #[schemars(range(min = 1))]
    from: u32,
    to: Option<u32>,
}

/// Not seen by the model.
#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Everything {
    /// The city, without its country.
    #[schemars(length(min = 1, max = 20))]
    city: String,
    unit: Unit,
    /// How many days.
    #[serde(default)]
    days: u8,
    ranges: Vec<Range>,
    #[serde(default)]
    note: Option<String>,
}

fn everything() -> patterns::Tool<'static> {
    tool("everything", "All kinds.", async |args: Everything| {
        let unit = match args.unit {
            Unit::Celsius => "°C",
            Unit::Fahrenheit => "°F",
        };
        Ok(format!(
            "{} {unit} {} {}",
            args.city,
            args.days,
            args.ranges.iter().map(|r| r.from + r.to.unwrap_or(0)).sum::<u32>()
        ))
    })
}

#[test]
fn the_model_sees_inline_closed_schemas_and_the_rest_in_words() {
    let tool = everything();
    let mut schema = tool.input_schema().clone();
    assert_eq!(
        schema["properties"].as_object_mut().unwrap().remove("unit").unwrap(),
        json!({"type": "string", "enum": ["celsius", "fahrenheit"]})
    );
    assert_eq!(
        schema,
        json!({
            "description": "Not seen by the model.",
            "type": "object",
            "properties": {
                "city": {"description": "The city, without its country. {minLength: 1, maxLength: 20}", "type": "string"},
                "days": {"description": "How many days. {minimum: 0, maximum: 255, default: 0}", "type": "integer"},
                "ranges": {"type": "array", "items": {
                    "type": "object",
                    "properties": {
                        "from": {"type": "integer", "description": "{minimum: 1}"},
                        "to": {"type": "integer", "description": "{minimum: 0}"},
                    },
                    "required": ["from"],
                    "additionalProperties": false,
                }},
                "note": {"type": "string"},
            },
            "required": ["city", "unit", "ranges"],
            "additionalProperties": false,
        })
    );
}

#[tokio::test]
async fn wrong_arguments_are_answered_by_what_would_be_right() {
    let tool = everything();
    let llm = async |_: Request| Ok(Reply::default());
    let right = json!({"city": "Oslo", "unit": "celsius", "ranges": [{"from": 1, "to": 2}, {"from": 4}]});
    assert_eq!(tool.call(&llm, right.clone()).await, Ok("Oslo °C 0 7".to_owned()));
    let with = |key: &str, value: Value| {
        let mut args = right.clone();
        args[key] = value;
        args
    };
    for (args, defect) in [
        (json!([1]), "the arguments must be of type object, not [1]"),
        (json!("Oslo"), "the arguments must be of type object, not \"Oslo\""),
        (with("town", json!("Oslo")), "`town` is no argument"),
        (with("city", json!("")), "`city` must have at least 1 characters, not 0"),
        (with("city", json!(7)), "`city` must be of type string, not 7"),
        (with("unit", json!("kelvin")), "`unit` must be one of \"celsius\" | \"fahrenheit\", not \"kelvin\""),
        (with("days", json!(256)), "`days` must be at most 255, not 256"),
        (with("days", json!(1.5)), "`days` must be of type integer, not 1.5"),
        (with("ranges", json!([{"from": 0}])), "`ranges[0].from` must be at least 1, not 0"),
        (with("ranges", json!([{"from": 1, "till": 2}])), "`ranges[0].till` is no argument"),
        (json!({"unit": "celsius", "ranges": []}), "`city` is missing"),
    ] {
        let message = tool.call(&llm, args.clone()).await.unwrap_err();
        assert!(
            message.starts_with(&format!("invalid arguments for `everything`: {defect}")),
            "{args}: {message}"
        );
        assert!(
            message.contains("{city: string, unit: \"celsius\" | \"fahrenheit\", days?: integer"),
            "{message}"
        );
    }
    // what models write and mean
    for args in [with("unit", json!("Celsius")), with("days", json!(0.0)), with("note", Value::Null)] {
        assert_eq!(tool.call(&llm, args).await, Ok("Oslo °C 0 7".to_owned()));
    }
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[tokio::test]
async fn a_tool_without_arguments_takes_none() {
    let llm = async |_: Request| Ok(Reply::default());
    let now = tool("now", "The time.", async |_: Nothing| Ok("noon".to_owned()));
    assert_eq!(
        now.input_schema(),
        &json!({"type": "object", "properties": {}, "additionalProperties": false})
    );
    for args in [json!({}), Value::Null] {
        assert_eq!(now.call(&llm, args).await, Ok("noon".to_owned()));
    }
    assert!(now.call(&llm, json!({"zone": "UTC"})).await.unwrap_err().contains("`zone` is no argument"));
}

/// Which of these tools are strict, in one request.
async fn strict(tools: Vec<patterns::Tool<'static>>) -> Vec<bool> {
    let model = Model::replies([Reply::text_of("done")]);
    agent("Go.").with_all(tools).run(&model, "Go.").await.unwrap();
    let requests = model.requests.lock().unwrap();
    let strict = requests[0].tools.iter().map(|tool| matches!(tool, ToolSpec::Function { strict: true, .. }));
    strict.collect()
}

fn of_schema(n: usize, schema: Value) -> patterns::Tool<'static> {
    tool(format!("t{n}"), "Any.", async |args: Value| Ok(args.to_string())).schema(schema)
}

#[tokio::test]
async fn a_schema_that_a_grammar_cannot_hold_is_not_strict() {
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Tree {
        children: Vec<Tree>,
    }
    assert_eq!(strict(vec![everything()]).await, [true]);
    assert_eq!(
        strict(vec![tool("tree", "A tree.", async |_: Tree| Ok(String::new()))]).await,
        [false],
        "recursion"
    );
    assert_eq!(strict(vec![tool("any", "Anything.", async |_: Value| Ok(String::new()))]).await, [false]);
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    assert_eq!(strict(vec![of_schema(0, map)]).await, [false]);
    let condition = json!({"type": "object", "properties": {"a": {"not": {"type": "null"}}}});
    assert_eq!(strict(vec![of_schema(0, condition)]).await, [false]);
}

#[tokio::test]
async fn the_limits_of_a_request_are_kept() {
    let plain = |n| {
        of_schema(n, json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}))
    };
    let tools: Vec<bool> = strict((0..22).map(plain).collect()).await;
    assert_eq!(tools.iter().filter(|strict| **strict).count(), 20);
    let optional = |n| {
        of_schema(
            n,
            json!({"type": "object", "properties": {"a": {}, "b": {"type": "string"}, "c": {"type": "string"}}}),
        )
    };
    assert_eq!(
        strict((0..10).map(optional).collect()).await.iter().filter(|strict| **strict).count(),
        8,
        "24 optional ones"
    );
    let union = json!({"type": "object", "required": ["a"], "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}});
    assert_eq!(
        strict((0..18).map(|n| of_schema(n, union.clone())).collect()).await.iter().filter(|s| **s).count(),
        16
    );
}

#[tokio::test]
async fn a_recursive_type_is_still_held_against_its_schema() {
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Tree {
        children: Vec<Tree>,
    }
    let llm = async |_: Request| Ok(Reply::default());
    let tree = tool("tree", "A tree.", async |tree: Tree| Ok(tree.children.len().to_string()));
    assert_eq!(tree.call(&llm, json!({"children": [{"children": []}]})).await, Ok("1".to_owned()));
    let message = tree.call(&llm, json!({"children": [{"kids": []}]})).await.unwrap_err();
    assert!(message.contains("`children[0].kids` is no argument"), "{message}");
    let mut deep = json!({"children": []});
    for _ in 0..200 {
        deep = json!({"children": [deep]});
    }
    assert!(tree.call(&llm, deep).await.is_err_and(|message| message.contains("nested too deeply")));
}

#[tokio::test]
async fn what_a_closure_owns_can_be_used_in_a_tool() {
    let llm = async |_: Request| Ok(Reply::default());
    let names = std::sync::Arc::new(vec!["Ada".to_owned()]);
    let greet = tool("greet", "Greets.", move |_: Nothing| {
        let names = names.clone();
        async move { Ok(names.join(", ")) }
    });
    assert_eq!(greet.call(&llm as &dyn Llm, json!({})).await, Ok("Ada".to_owned()));
}

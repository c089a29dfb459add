//! One flow over many inputs: in order, with an error file, and never twice.

use std::fs;

use serde_json::Value;

use crate::run::{Run, folder, run, script};

const FLOW: &str = "flow = \"Say it louder: {input}\"\n";

struct Map {
    folder: tempfile::TempDir,
}

impl Map {
    fn new() -> Self {
        let map = Self { folder: folder() };
        map.put("flow.toml", FLOW);
        map
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
    }

    fn run(&self, inputs: &str, script_lines: &str, more: &[&str]) -> Run {
        let model = script(&self.folder, script_lines);
        let (flow, inputs, out) = (self.at("flow.toml"), self.at(inputs), self.at("out.jsonl"));
        run(&[&["map", &flow, &inputs, "-o", &out, "--model", &model], more].concat())
    }

    fn lines(&self, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.at(name)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[test]
fn outcomes_come_in_the_order_of_the_inputs_whatever_takes_longest() {
    let map = Map::new();
    map.put("in.jsonl", "{\"text\": \"one\", \"id\": \"a\"}\n\"two\"\n\n{\"input\": \"three\"}\n");
    let script = r#"
{"text": "one", "reply": "ONE", "delay": 300}
{"text": "two", "reply": "TWO"}
{"text": "three", "reply": "THREE"}
"#;
    let run = map.run("in.jsonl", script, &[]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let out = map.lines("out.jsonl");
    let texts: Vec<_> = out.iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["ONE", "TWO", "THREE"]);
    assert_eq!(out[0]["fields"]["id"], "a");
    assert!(!fs::exists(map.at("out.errors.jsonl")).unwrap());
}

#[test]
fn failures_go_to_a_file_of_their_own_and_only_they_are_tried_again() {
    let map = Map::new();
    map.put("in.csv", "name,text\nAda,one\nBob,two\nEve,\n");
    let run = map.run("in.csv", r#"{"text": "one", "reply": "ONE"}"#, &[]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    let errors = map.lines("out.errors.jsonl");
    assert_eq!(errors.len(), 2);
    assert_eq!((errors[0]["input"].as_u64(), errors[0]["fields"]["name"].as_str()), (Some(2), Some("Bob")));
    assert!(errors[1]["error"].as_str().unwrap().contains("has an empty `text`"));
    for place in ["input 2: ", "input 3: "] {
        assert_eq!(run.stderr.matches(place).count(), 1, "named once: {}", run.stderr);
    }

    // the first is answered from the journal: the script knows it no more
    let run = map.run("in.csv", r#"{"text": "two", "reply": "TWO"}"#, &[]);
    assert!(run.stderr.contains("calls answered already: 1"), "{}", run.stderr);
    let texts: Vec<_> =
        map.lines("out.jsonl").iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect();
    assert_eq!(texts, ["ONE", "TWO"]);
    assert_eq!(map.lines("out.errors.jsonl").len(), 1);
}

#[test]
fn a_folder_of_texts_is_a_list_of_inputs() {
    let map = Map::new();
    fs::create_dir(map.at("texts")).unwrap();
    for (name, text) in [("b.txt", "two"), ("a.txt", "one"), (".hidden", "never")] {
        map.put(&format!("texts/{name}"), text);
    }
    let run = map.run(
        "texts",
        "{\"text\": \"one\", \"reply\": \"ONE\"}\n{\"text\": \"two\", \"reply\": \"TWO\"}",
        &[],
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    let files: Vec<_> = map
        .lines("out.jsonl")
        .iter()
        .map(|line| line["fields"]["file"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(files, ["a.txt", "b.txt"]);
}

#[test]
fn a_budget_ends_the_map_with_what_is_done() {
    let map = Map::new();
    map.put("in.jsonl", &"\"x\"\n".repeat(9));
    let run =
        map.run("in.jsonl", r#"{"reply": "ok", "repeat": true}"#, &["--max-calls", "3", "--at-once", "1"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert_eq!(map.lines("out.jsonl").len(), 3);
}

#[test]
fn an_outcome_that_is_not_whole_says_so() {
    let map = Map::new();
    map.put("flow.toml", "flow = { vote = \"Is it?\", voters = 2, among = [\"yes\", \"no\"] }");
    map.put("in.jsonl", "\"x\"\n");
    let script = "{\"path\": \"*voter 1\", \"reply\": \"<label>yes</label>\"}\n{\"path\": \"*voter 2\", \"reply\": \"<label>no</label>\"}";
    let run = map.run("in.jsonl", script, &[]);
    assert_eq!(run.code, 1, "no input has an answer: {}", run.stderr);
    let out = map.lines("out.jsonl");
    assert_eq!(out[0]["text"], Value::Null);
    assert!(out[0]["degraded"][0].is_string() && out[0]["reason"].is_string(), "{out:?}");
}

#[test]
fn inputs_that_are_no_list_are_refused() {
    let map = Map::new();
    map.put("in.txt", "x");
    assert_eq!(map.run("in.txt", "", &[]).code, 64);
    assert_eq!(map.run("missing.jsonl", "", &[]).code, 64);
}

#[test]
fn what_is_read_is_never_written_over() {
    let map = Map::new();
    let script = r#"{"reply": "ok", "repeat": true}"#;
    let inputs = "{\"text\": \"one\"}\n";
    fs::create_dir(map.at("texts")).unwrap();
    map.put("texts/a.txt", "one");
    map.put("flow.toml", FLOW);
    for (name, output) in [
        ("out.jsonl", "out.jsonl"),
        ("out.errors.jsonl", "out.jsonl"),
        ("out.journal.jsonl", "out.jsonl"),
        ("in.jsonl", "flow.toml"),
        ("in.jsonl", "./texts/../in.jsonl"),
        ("texts", "texts/out.jsonl"),
    ] {
        if name != "texts" {
            map.put(name, inputs);
        }
        let model = crate::run::script(&map.folder, script);
        let mapped =
            run(&["map", &map.at("flow.toml"), &map.at(name), "-o", &map.at(output), "--model", &model]);
        assert_eq!(mapped.code, 64, "{name} to {output}: {}", mapped.stderr);
        assert!(mapped.stderr.contains("give another name with -o"), "{}", mapped.stderr);
        assert_eq!(fs::read_to_string(map.at("flow.toml")).unwrap(), FLOW);
        assert_eq!(fs::read_dir(map.at("texts")).unwrap().count(), 1);
        if name != "texts" {
            assert_eq!(fs::read_to_string(map.at(name)).unwrap(), inputs);
            fs::remove_file(map.at(name)).unwrap();
        }
    }
}

#[test]
fn lists_that_other_systems_have_written_are_read() {
    let map = Map::new();
    map.put("in.jsonl", "\u{feff}{\"text\": \"one\"}\r\n\r\n\"two\"\r\n\"\"");
    map.put("in.csv", "\u{feff}text,id\r\none,1\r\n\"two\",2");
    let script = r#"{"reply": "ok", "repeat": true}"#;
    let run = map.run("in.jsonl", script, &[]);
    assert_eq!((run.code, map.lines("out.jsonl").len()), (3, 2), "{}", run.stderr);
    assert!(run.stderr.contains("input 3: is an empty text"), "{}", run.stderr);
    let run = map.run("in.csv", script, &[]);
    assert_eq!((run.code, map.lines("out.jsonl").len()), (0, 2), "{}", run.stderr);
}

#[test]
fn a_budget_ends_the_map_also_where_a_pattern_would_end_without_what_is_missing() {
    let map = Map::new();
    map.put("in.jsonl", &"\"x\"\n".repeat(9));
    let votes = "flow = { vote = \"Is it?\", voters = 2, among = [\"yes\", \"no\"] }";
    let refined = "flow = { refine = \"Write.\", until = \"good\" }";
    let sides = "flow = { sections = [{ name = \"a\", flow = \"A\" }, { name = \"b\", flow = \"B\" }], policy = { at_least = 1 } }";
    let reply = r#"{"reply": "<label>yes</label><evaluation>PASS</evaluation>", "repeat": true}"#;
    for (flow, lines) in [(votes, 2), (refined, 2), (sides, 3)] {
        map.put("flow.toml", flow);
        let _ = fs::remove_file(map.at("out.journal.jsonl"));
        let run = map.run("in.jsonl", reply, &["--max-calls", "5", "--at-once", "1"]);
        assert_eq!(run.code, 2, "{flow}: {}", run.stderr);
        assert!(run.stderr.contains("run it again with more to go on"), "{}", run.stderr);
        // what there is of the last one is kept where it is a text
        let out = map.lines("out.jsonl");
        assert_eq!(out.len(), lines, "{flow}: {out:?}");
        assert!(out.iter().all(|line| line["text"].is_string()), "{flow}: {out:?}");
    }
}

//! The cases of a corpus file: one JSON object a line, long strings written as rules.

use patterns::answer;
use patterns::answer::Unread;
use patterns::answer::UnreadKind;
use serde_json::Value;
use serde_json::json;

pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) op: String,
    pub(crate) input: Value,
    pub(crate) tag: String,
    pub(crate) allowed: Vec<String>,
    pub(crate) expected: Value,
    pub(crate) why: String,
    pub(crate) debatable: bool,
}

pub(crate) fn load(lines: &str) -> Vec<Case> {
    lines
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| case(&serde_json::from_str(line).unwrap()))
        .collect()
}

/// Both corpus files.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = load(include_str!("../data/tags.jsonl"));
    cases.extend(load(include_str!("../data/tags_more.jsonl")));
    cases
}

fn case(value: &Value) -> Case {
    let word = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let allowed = match &value["allowed"] {
        Value::Array(list) => list.iter().map(text).collect(),
        Value::String(word) => vec![word.clone()],
        _ => Vec::new(),
    };
    Case {
        id: word("id"),
        kind: word("kind"),
        op: word("op"),
        input: value["input"].clone(),
        tag: word("tag"),
        allowed,
        expected: expand(&value["expected"]),
        why: word("why"),
        debatable: value["debatable"].as_bool().unwrap(),
    }
}

/// A string, or a rule that makes one.
pub(crate) fn text(value: &Value) -> String {
    if let Some(plain) = value.as_str() {
        return plain.to_owned();
    }
    if let Some(rule) = value.get("repeat") {
        return text(&rule[0]).repeat(usize::try_from(rule[1].as_u64().unwrap()).unwrap());
    }
    value["concat"].as_array().expect("a string rule").iter().map(text).collect()
}

fn expand(value: &Value) -> Value {
    match value {
        Value::Object(rule) if rule.contains_key("repeat") || rule.contains_key("concat") => {
            text(value).into()
        }
        Value::Object(rule) if rule.contains_key("list_repeat") => {
            let item = text(&rule["list_repeat"][0]);
            let count = usize::try_from(rule["list_repeat"][1].as_u64().unwrap()).unwrap();
            vec![item; count].into()
        }
        Value::Array(items) => items.iter().map(expand).collect(),
        other => other.clone(),
    }
}

impl Case {
    /// The whole reply, for a stream the joined pieces.
    pub(crate) fn reply(&self) -> String {
        if self.op != "stream" {
            return text(&self.input);
        }
        if let Value::Array(pieces) = &self.input {
            return pieces.iter().map(text).collect();
        }
        let rule = self.input.as_object().unwrap();
        match rule.values().next().unwrap() {
            Value::Array(split) if rule.contains_key("split_every") => text(&split[0]),
            whole => text(whole),
        }
    }

    /// The reading of any text by the op of this case, written as the corpus writes it.
    pub(crate) fn read(&self, reply: &str) -> Value {
        let word = || self.allowed[0].as_str();
        match self.op.as_str() {
            "tag" | "stream" => shown(answer::tag(reply, &self.tag)),
            "tags" => shown(answer::tags(reply, &self.tag)),
            "label" => shown(answer::label(reply, &self.allowed)),
            "verdict" => shown(answer::verdict(reply, &self.allowed)),
            "gate" => shown(answer::gate(reply, word()).map(|given| given.then(word))),
            other => panic!("unknown op {other}"),
        }
    }
}

pub(crate) fn shown<T: Into<Value>>(result: Result<T, Unread>) -> Value {
    match result {
        Ok(value) => value.into(),
        Err(unread) => json!({ "error": kind(&unread) }),
    }
}

pub(crate) fn kind(unread: &Unread) -> &'static str {
    match unread.kind() {
        UnreadKind::Missing => "missing",
        UnreadKind::Truncated => "truncated",
        UnreadKind::Ambiguous => "ambiguous",
        UnreadKind::UnknownLabel => "unknown_label",
    }
}

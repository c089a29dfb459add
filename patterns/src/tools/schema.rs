//! The JSON Schema of a tool's arguments: what the model sees of it, and what its calls are held against.
//!
//! The model sees what constrained decoding accepts (the Messages API's list of 2026): subschemas put inline, no further
//! properties, and whatever it does not accept said in the description instead. Calls are held against the whole.

use std::fmt::Write as _;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The schema of a tool's arguments.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    whole: Value,
    for_model: Value,
    strict: Option<Weight>,
}

/// What a strict tool costs of the limits that the Messages API sets to one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Weight {
    optional: usize,
    unions: usize,
}

/// How much room for strict tools is left in one request: the Messages API takes 20 of them, with 24 arguments that may be
/// left out and 16 that are of several types.
#[derive(Debug)]
pub(crate) struct Limits {
    tools: usize,
    weight: Weight,
}

impl Default for Limits {
    fn default() -> Self {
        Self { tools: 20, weight: Weight { optional: 24, unions: 16 } }
    }
}

impl Limits {
    /// Whether these arguments can be strict; takes the room if so.
    pub(crate) fn admit(&mut self, arguments: &Arguments) -> bool {
        let left = &mut self.weight;
        match arguments.strict {
            Some(w) if self.tools > 0 && w.optional <= left.optional && w.unions <= left.unions => {
                self.tools -= 1;
                left.optional -= w.optional;
                left.unions -= w.unions;
                true
            }
            _ => false,
        }
    }
}

impl Arguments {
    /// Those of a type.
    pub(crate) fn of<T: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
        if schema["type"] == "null" {
            schema = json!({ "type": "object" }); // of `()`
        }
        close(&mut schema);
        Self::new(schema)
    }

    /// Those of a schema.
    pub(crate) fn new(whole: Value) -> Self {
        let mut strict = true;
        let mut for_model = simplified(&whole, &mut strict);
        if for_model["type"] != "object" {
            // the root of a tool's arguments is an object, whatever else it is
            for_model["type"] = json!("object");
            strict = false;
        }
        let mut weight = Weight::default();
        weigh(&for_model, &mut weight);
        Self { whole, for_model, strict: strict.then_some(weight) }
    }

    /// The schema as the model sees it.
    pub(crate) fn for_model(&self) -> &Value {
        &self.for_model
    }

    /// Holds arguments against the schema. Labels of an enum may differ in case, which constrained decoding does not
    /// promise; they come back as declared. No arguments at all are `{}`.
    pub(crate) fn validate(&self, args: Value) -> Result<Value, String> {
        let mut args = if args.is_null() { json!({}) } else { args };
        let mut defects = Vec::new();
        Holding { root: &self.whole, defects: &mut defects }.hold(&self.whole, &mut args, "", 0);
        if !args.is_object() && defects.is_empty() {
            defects.push("the arguments are no JSON object".to_owned());
        }
        if defects.is_empty() { Ok(args) } else { Err(defects.join("; ")) }
    }

    /// The arguments in short: `{pattern: string, path?: string}`.
    pub(crate) fn signature(&self) -> String {
        let mut out = String::from("{");
        for (n, (name, schema)) in properties(&self.for_model).into_iter().flatten().enumerate() {
            let optional = if requires(&self.for_model, name) { "" } else { "?" };
            let _ = write!(out, "{}{name}{optional}: {}", if n == 0 { "" } else { ", " }, kind_of(schema));
        }
        out.push('}');
        out
    }
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

fn requires(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|required| required.iter().any(|n| n == name))
}

fn kind_of(schema: &Value) -> String {
    if let Some(Value::Array(values)) = schema.get("enum") {
        return values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ");
    }
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "array" => format!("[{}]", kind_of(&schema["items"])),
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "),
        _ => "any".to_owned(),
    }
}

/// Allows no properties but those declared, in every object that does not say otherwise.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("type").is_some_and(|kind| kind == "object") {
                map.entry("properties").or_insert_with(|| json!({}));
                map.entry("additionalProperties").or_insert(json!(false));
            }
            for (key, inner) in map {
                if !matches!(key.as_str(), "enum" | "const" | "default" | "examples") {
                    close(inner);
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(close),
        _ => {}
    }
}

const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6"];

/// The schema with the keywords that constrained decoding accepts; clears `strict` where it accepts none that would do.
fn simplified(schema: &Value, strict: &mut bool) -> Value {
    let Value::Object(map) = schema else {
        *strict = false; // `true` and `false`: anything and nothing
        return json!({});
    };
    let mut out = Map::new();
    let mut notes = Vec::new();
    for (key, value) in map {
        match (key.as_str(), value) {
            ("type" | "enum" | "const" | "description" | "required", _) => {
                out.insert(key.clone(), value.clone());
            }
            ("properties", Value::Object(inner)) => {
                let inner = inner.iter().map(|(name, property)| {
                    let mut property = simplified(property, strict);
                    if !requires(schema, name) {
                        without_null(&mut property); // leaving it out says the same
                    }
                    (name.clone(), property)
                });
                out.insert(key.clone(), Value::Object(inner.collect()));
            }
            ("items", _) => {
                out.insert(key.clone(), simplified(value, strict));
            }
            ("anyOf" | "oneOf" | "allOf", Value::Array(all)) => {
                let all = all.iter().map(|one| simplified(one, strict)).collect();
                let key = if key == "oneOf" { "anyOf" } else { key };
                out.insert(key.to_owned(), Value::Array(all));
            }
            ("additionalProperties", Value::Bool(false)) => {}
            ("format", Value::String(format)) if FORMATS.contains(&format.as_str()) || format == "uuid" => {
                out.insert(key.clone(), value.clone());
            }
            ("minItems", Value::Number(n)) if n.as_u64().is_some_and(|n| n <= 1) => {
                out.insert(key.clone(), value.clone());
            }
            // widths of Rust's numbers say nothing to a model
            ("format", _) | ("default", Value::Null) => {}
            ("title" | "examples" | "$schema" | "$id" | "$comment", _) => {}
            (
                "default" | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf"
                | "minLength" | "maxLength" | "pattern" | "minItems" | "maxItems" | "uniqueItems"
                | "minProperties" | "maxProperties",
                _,
            ) => notes.push(format!("{key}: {value}")),
            // recursion, maps, conditions: a model can be told, a grammar cannot
            _ => {
                *strict = false;
                out.insert(key.clone(), value.clone());
            }
        }
    }
    if out.get("type").is_some_and(|kind| kind == "object") {
        out.entry("properties").or_insert_with(|| json!({}));
        out.entry("additionalProperties").or_insert(json!(false));
    }
    if !notes.is_empty() {
        let notes = format!("{{{}}}", notes.join(", "));
        let described = match out.get("description").and_then(Value::as_str) {
            Some(text) => format!("{text} {notes}"),
            None => notes,
        };
        out.insert("description".to_owned(), Value::String(described));
    }
    Value::Object(out)
}

/// Takes "or null" away.
fn without_null(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    if let Some(Value::Array(kinds)) = map.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            map.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(any)) = map.get_mut("anyOf") {
        any.retain(|one| one["type"] != "null");
        if let [Value::Object(only)] = any.as_slice() {
            let mut only = only.clone();
            map.remove("anyOf");
            if map.contains_key("description") {
                only.remove("description"); // the field's own says more
            }
            map.extend(only);
        }
    }
}

fn weigh(schema: &Value, weight: &mut Weight) {
    if let Some(properties) = properties(schema) {
        weight.optional += properties.keys().filter(|name| !requires(schema, name)).count();
        properties.values().for_each(|property| weigh(property, weight));
    }
    if schema["type"].is_array() {
        weight.unions += 1;
    }
    for key in ["anyOf", "allOf"] {
        if let Some(Value::Array(all)) = schema.get(key) {
            weight.unions += usize::from(key == "anyOf");
            all.iter().for_each(|one| weigh(one, weight));
        }
    }
    if let Some(items) = schema.get("items") {
        weigh(items, weight);
    }
}

/// Holds a value against a schema and collects what is wrong. Keywords that it does not know hold.
struct Holding<'a> {
    root: &'a Value,
    defects: &'a mut Vec<String>,
}

impl<'a> Holding<'a> {
    fn hold(&mut self, schema: &'a Value, value: &mut Value, at: &str, depth: usize) {
        if depth > 64 {
            self.defect(at, "is nested too deeply");
            return;
        }
        let Value::Object(map) = schema else {
            if schema == &Value::Bool(false) {
                self.defect(at, "is not allowed");
            }
            return;
        };
        for (key, rule) in map {
            match (key.as_str(), rule) {
                ("$ref", Value::String(to)) => {
                    if let Some(schema) = to.strip_prefix('#').and_then(|to| self.root.pointer(to)) {
                        self.hold(schema, value, at, depth + 1);
                    }
                }
                ("type", _) if !is_kind(rule, value) => {
                    self.defect(at, &format!("must be of type {}, not {}", kind_of(schema), excerpt(value)));
                    return; // the rest speaks of another type
                }
                ("type", kind) if kind == "integer" => {
                    // JSON knows one kind of number, and some models write 5.0 for 5
                    if let Some(n) = value.as_f64().filter(|n| value.is_f64() && n.abs() < 9e15) {
                        #[allow(clippy::cast_possible_truncation)] // it has no fraction and is small
                        let whole = n as i64;
                        *value = json!(whole);
                    }
                }
                ("enum", Value::Array(all)) if all.contains(value) => {}
                ("enum", Value::Array(all)) => match all.iter().find(|one| same_label(one, value)) {
                    Some(one) => *value = one.clone(),
                    None => {
                        self.defect(
                            at,
                            &format!("must be one of {}, not {}", kind_of(schema), excerpt(value)),
                        );
                    }
                },
                ("const", one) if same_label(one, value) => *value = one.clone(),
                ("const", one) => self.defect(at, &format!("must be {one}, not {}", excerpt(value))),
                ("anyOf" | "oneOf", Value::Array(all)) => self.hold_any(all, value, at, depth),
                ("allOf", Value::Array(all)) => {
                    for one in all {
                        self.hold(one, value, at, depth + 1);
                    }
                }
                _ => match value {
                    Value::Object(fields) => self.hold_object(schema, (key, rule), fields, at, depth),
                    Value::Array(items) => self.hold_array((key, rule), items, at, depth),
                    Value::Number(n) => self.hold_number((key, rule), n.as_f64(), at),
                    Value::String(text) => self.hold_text((key, rule), text, at),
                    Value::Null | Value::Bool(_) => {}
                },
            }
        }
    }

    /// One of several schemas must hold; when none does, the defects of the one that came closest are told.
    fn hold_any(&mut self, all: &'a [Value], value: &mut Value, at: &str, depth: usize) {
        let mut least: Option<Vec<String>> = None;
        for one in all {
            let (mut candidate, mut defects) = (value.clone(), Vec::new());
            Holding { root: self.root, defects: &mut defects }.hold(one, &mut candidate, at, depth + 1);
            if defects.is_empty() {
                *value = candidate;
                return;
            }
            if least.as_ref().is_none_or(|least| defects.len() < least.len()) {
                least = Some(defects);
            }
        }
        self.defects.extend(least.unwrap_or_default());
    }

    fn hold_object(
        &mut self,
        schema: &'a Value,
        (key, rule): (&str, &'a Value),
        fields: &mut Map<String, Value>,
        at: &str,
        depth: usize,
    ) {
        match (key, rule) {
            ("required", Value::Array(names)) => {
                for name in names.iter().filter_map(Value::as_str) {
                    if !fields.contains_key(name) {
                        self.defect(&inside(at, name), "is missing");
                    }
                }
            }
            ("properties", Value::Object(properties)) => {
                for (name, schema) in properties {
                    if let Some(value) = fields.get_mut(name) {
                        self.hold(schema, value, &inside(at, name), depth + 1);
                    }
                }
            }
            ("additionalProperties", rule) => {
                let declared = properties(schema);
                let others =
                    fields.iter_mut().filter(|(name, _)| declared.is_none_or(|d| !d.contains_key(*name)));
                for (name, value) in others {
                    if rule == &Value::Bool(false) {
                        self.defect(&inside(at, name), "is no argument");
                    } else {
                        self.hold(rule, value, &inside(at, name), depth + 1);
                    }
                }
            }
            _ => {}
        }
    }

    fn hold_array(&mut self, (key, rule): (&str, &'a Value), items: &mut [Value], at: &str, depth: usize) {
        let count = items.len() as u64;
        match (key, rule.as_u64()) {
            ("items", _) => {
                for (n, item) in items.iter_mut().enumerate() {
                    self.hold(rule, item, &format!("{at}[{n}]"), depth + 1);
                }
            }
            ("minItems", Some(least)) if count < least => {
                self.defect(at, &format!("must have at least {least} items, not {count}"));
            }
            ("maxItems", Some(most)) if count > most => {
                self.defect(at, &format!("must have at most {most} items, not {count}"));
            }
            _ => {}
        }
    }

    fn hold_number(&mut self, (key, rule): (&str, &Value), n: Option<f64>, at: &str) {
        let (Some(n), Some(bound)) = (n, rule.as_f64()) else { return };
        let defect = match key {
            "minimum" if n < bound => "at least",
            "maximum" if n > bound => "at most",
            "exclusiveMinimum" if n <= bound => "more than",
            "exclusiveMaximum" if n >= bound => "less than",
            _ => return,
        };
        self.defect(at, &format!("must be {defect} {rule}, not {n}"));
    }

    fn hold_text(&mut self, (key, rule): (&str, &Value), text: &str, at: &str) {
        let length = text.chars().count() as u64;
        match (key, rule.as_u64(), rule.as_str()) {
            ("minLength", Some(least), _) if length < least => {
                self.defect(at, &format!("must have at least {least} characters, not {length}"));
            }
            ("maxLength", Some(most), _) if length > most => {
                self.defect(at, &format!("must have at most {most} characters, not {length}"));
            }
            // patterns that this engine cannot read are left to the tool
            ("pattern", _, Some(pattern)) if regex::Regex::new(pattern).is_ok_and(|p| !p.is_match(text)) => {
                self.defect(at, &format!("must match the pattern {pattern}"));
            }
            _ => {}
        }
    }

    fn defect(&mut self, at: &str, what: &str) {
        if self.defects.len() < 8 {
            let at = if at.is_empty() { "the arguments".to_owned() } else { format!("`{at}`") };
            self.defects.push(format!("{at} {what}"));
        }
    }
}

fn inside(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

fn is_kind(kinds: &Value, value: &Value) -> bool {
    let one = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0),
        _ => true,
    };
    match kinds {
        Value::String(kind) => one(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).any(one),
        _ => true,
    }
}

fn same_label(one: &Value, value: &Value) -> bool {
    match (one, value) {
        (Value::String(one), Value::String(value)) => one.to_lowercase() == value.to_lowercase(),
        _ => one == value,
    }
}

fn excerpt(value: &Value) -> String {
    crate::error::excerpt(&value.to_string(), 60)
}

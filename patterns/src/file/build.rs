//! From TOML to flows.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use toml::de::DeTable;

use super::read::{Defect, Source, Table, Value, nearest};
use super::{Ended, Options, Size};
use crate::answer::fill_all;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{BoxFlow, Flow, Under};
use crate::llm::{Effort, Llm};
use crate::orchestrate::Orchestrate;
use crate::prompt::{Prompt, prompt};
use crate::refine::Refine;
use crate::route::Route;
use crate::sections::{ForEach, Sections};
use crate::shape::Shape;
use crate::vote::Vote;

/// The keys that make a table a flow of some kind.
const KINDS: [&str; 10] = [
    "prompt",
    "prompt_file",
    "chain",
    "route",
    "sections",
    "for_each",
    "vote",
    "orchestrate",
    "refine",
    "use",
];

/// The outermost pattern of a file, with its type, so that its outcome can be told.
pub(super) struct Pattern {
    name: &'static str,
    flow: Outermost,
    model: Option<String>,
}

/// Does the same with the flow of whatever pattern.
macro_rules! each {
    ($outermost:expr, $flow:ident => $do:expr) => {
        match $outermost {
            Outermost::Text($flow) => $do,
            Outermost::Route($flow) => $do,
            Outermost::Sections($flow) => $do,
            Outermost::ForEach($flow) => $do,
            Outermost::Vote($flow) => $do,
            Outermost::Orchestrate($flow) => $do,
            Outermost::Refine($flow) => $do,
        }
    };
}

enum Outermost {
    Text(BoxFlow<'static>),
    Route(Route<'static>),
    Sections(Sections<'static>),
    ForEach(ForEach<'static, BoxFlow<'static>>),
    Vote(Vote<'static>),
    Orchestrate(Orchestrate<'static>),
    Refine(Refine<'static>),
}

impl Pattern {
    pub(super) async fn end(&self, llm: &dyn Llm, input: &str) -> Result<Ended> {
        let llm: &dyn Llm = &self.under(llm);
        Ok(match &self.flow {
            Outermost::Text(flow) => {
                let text = flow.run(llm, input).await?;
                let outcome = serde_json::json!({ "text": text });
                Ended { pattern: self.name, outcome, text: Some(text), error: None }
            }
            Outermost::Route(flow) => ended(self.name, flow.run(llm, input).await?),
            Outermost::Sections(flow) => ended(self.name, flow.run(llm, input).await?),
            Outermost::ForEach(flow) => ended(self.name, flow.run(llm, input).await?),
            Outermost::Vote(flow) => ended(self.name, flow.run(llm, input).await?),
            Outermost::Orchestrate(flow) => ended(self.name, flow.run(llm, input).await?),
            Outermost::Refine(flow) => ended(self.name, flow.run(llm, input).await?),
        })
    }

    /// The label of a route, without going its way.
    pub(super) async fn decide(&self, llm: &dyn Llm, input: &str) -> Result<Ended> {
        let Outermost::Route(flow) = &self.flow else {
            return Err(Error::new(ErrorKind::Config, "only a route has a label; this flow is none"));
        };
        let routed = flow.decide(&self.under(llm), input).await?;
        let label = routed.label.clone();
        Ok(Ended { text: Some(label), ..ended(self.name, routed) })
    }

    /// The plan of an orchestrator, without running it.
    pub(super) async fn plan_only(&self, llm: &dyn Llm, input: &str) -> Result<Ended> {
        let Outermost::Orchestrate(flow) = &self.flow else {
            return Err(Error::new(ErrorKind::Config, "only an orchestrator has a plan; this flow is none"));
        };
        let plan = flow.plan_only(&self.under(llm), input).await?;
        let outcome = serde_json::json!({ "plan": plan });
        let text = serde_json::to_string_pretty(&plan).unwrap_or_default();
        Ok(Ended { pattern: "plan", outcome, text: Some(text), error: None })
    }

    /// `llm` with the model that this flow names, if it names one.
    fn under<'a>(&'a self, llm: &'a dyn Llm) -> Under<'a> {
        match &self.model {
            Some(model) => Under::with_model(llm, model),
            None => Under::new(llm, "").as_answer(),
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        each!(&self.flow, flow => flow.check())
    }

    pub(super) fn shape(&self) -> Shape {
        let shape = each!(&self.flow, flow => flow.shape());
        self.model.iter().fold(shape, |shape, model| shape.noting(model))
    }

    fn boxed(self) -> BoxFlow<'static> {
        let flow = each!(self.flow, flow => flow.boxed());
        match self.model {
            Some(model) => flow.with_model(model).boxed(),
            None => flow,
        }
    }
}

fn ended<O>(pattern: &'static str, outcome: O) -> Ended
where
    O: Serialize + TryInto<String, Error: Into<crate::Error>>,
{
    let json = serde_json::to_value(&outcome).unwrap_or_default();
    let (text, error) = match outcome.try_into() {
        Ok(text) => (Some(text), None),
        Err(error) => (None, Some(error.into())),
    };
    Ended { pattern, outcome: json, text, error }
}

/// A file on its way to a flow. Defects are collected; what is built beside them is thrown away.
pub(super) struct Build<'d, 's> {
    pub(super) options: &'d Options,
    parts: Option<Table<'d, 's>>,
    /// The parts that are being built, to see a part that uses itself.
    open: RefCell<Vec<String>>,
    values: BTreeMap<String, String>,
    used_values: RefCell<BTreeSet<String>>,
    size: RefCell<Size>,
}

impl Build<'_, '_> {
    /// Builds the flow of a file; gives what it says about itself, too.
    pub(super) fn file(text: &str, options: &Options) -> Result<(String, Pattern, Size), Vec<Defect>> {
        let source = Source::new(text);
        let root = match DeTable::parse(text) {
            Ok(root) => root,
            Err(error) => {
                let offset = error.span().map_or(0, |span| span.start);
                source.report(offset, "", format!("is not TOML: {}", error.message()));
                return Err(source.into_defects());
            }
        };
        let built = Self::root(&source, &Table::new(&source, root.get_ref(), String::new(), 0), options);
        let defects = source.into_defects();
        match built {
            Some(built) if defects.is_empty() => Ok(built),
            _ => Err(defects),
        }
    }

    fn root<'d, 's>(
        source: &'d Source<'s>,
        root: &Table<'d, 's>,
        options: &'d Options,
    ) -> Option<(String, Pattern, Size)> {
        let about = root.get("about").and_then(|value| value.text()).unwrap_or_default().to_owned();
        let mut values = BTreeMap::new();
        let vars = root.get("vars").and_then(|vars| vars.table());
        for name in vars.iter().flat_map(Table::keys) {
            if let Some(value) = vars
                .as_ref()
                .and_then(|vars| vars.get(name))
                .and_then(|value| value.text().map(str::to_owned))
            {
                values.insert(name.to_owned(), value);
            }
        }
        values.extend(options.set.iter().cloned());
        let parts = root.get("parts").and_then(|parts| parts.table());
        let words = source.text().len() + values.values().map(String::len).sum::<usize>();
        let build = Build {
            options,
            parts,
            open: RefCell::default(),
            values,
            used_values: RefCell::default(),
            size: RefCell::new(Size { words, ..Size::default() }),
        };
        let flow = root.need("flow", "the flow itself, as a text or a table")?;
        let pattern = build.pattern(&flow);
        root.finish();
        if let Some(parts) = &build.parts {
            for name in parts.keys() {
                if !parts.is_known(name) {
                    parts.report_at(name, "is used by nothing; say `{ use = \"…\" }` somewhere or delete it");
                }
            }
        }
        for name in build.values.keys() {
            if !build.used_values.borrow().contains(name) {
                let message = format!("no prompt says {{{name}}}; use the variable or delete it");
                match &vars {
                    Some(vars) if vars.has(name) => vars.report_at(name, message),
                    _ => source.report(0, name, message),
                }
            }
        }
        Some((about, pattern?, build.size.into_inner()))
    }

    /// A flow of any kind. After a defect it is an empty prompt.
    pub(super) fn flow(&self, value: &Value<'_, '_>) -> BoxFlow<'static> {
        self.pattern(value).map_or_else(|| prompt("").boxed(), Pattern::boxed)
    }

    fn pattern(&self, value: &Value<'_, '_>) -> Option<Pattern> {
        if let Some(text) = value.as_text() {
            let flow = self.prompt(value, text, None).boxed();
            return Some(Pattern { name: "prompt", flow: Outermost::Text(flow), model: None });
        }
        if value.is_list() {
            value.report("is a list; write `{ chain = [..] }` for steps that follow each other");
            return None;
        }
        let table = value.table()?;
        let kinds: Vec<&str> = KINDS.into_iter().filter(|kind| table.has(kind)).collect();
        let [kind] = kinds[..] else {
            let near = table.keys().find_map(|key| nearest(key, KINDS.into_iter()).map(|near| (key, near)));
            table.report(match (&kinds[..], near) {
                ([], Some((key, near))) => format!("is no flow: `{key}` is unknown; did you mean `{near}`?"),
                ([], None) => format!("is no flow; it needs one of: {}", KINDS.join(", ")),
                (several, _) => format!("is several flows at once: {}; keep one", several.join(", ")),
            });
            return None;
        };
        let model = table.get("model").and_then(|model| model.text()).map(str::to_owned);
        self.size.borrow_mut().models.extend(model.clone());
        let main = table.get(kind)?;
        let (name, flow) = match kind {
            "prompt" => ("prompt", Outermost::Text(self.prompt(&main, main.text()?, Some(&table)).boxed())),
            "prompt_file" => {
                ("prompt", Outermost::Text(self.prompt(&main, &self.file_text(&main)?, Some(&table)).boxed()))
            }
            "chain" => ("chain", Outermost::Text(self.chain(&main))),
            "route" => ("route", Outermost::Route(self.route(&main, &table)?)),
            "sections" => ("sections", Outermost::Sections(self.sections(&main, &table))),
            "for_each" => ("for_each", Outermost::ForEach(self.for_each(&main, &table))),
            "vote" => ("vote", Outermost::Vote(self.vote(&main, &table)?)),
            "orchestrate" => ("orchestrate", Outermost::Orchestrate(self.orchestrate(&main, &table)?)),
            "refine" => ("refine", Outermost::Refine(self.refine(&main, &table)?)),
            _ => return self.part(&main, &table, model),
        };
        table.finish();
        Some(Pattern { name, flow, model })
    }

    /// `{ use = "NAME" }`
    fn part(&self, main: &Value<'_, '_>, table: &Table<'_, '_>, model: Option<String>) -> Option<Pattern> {
        let name = main.text()?;
        table.finish();
        let names: Vec<&str> = self.parts.iter().flat_map(Table::keys).collect();
        let Some(part) = self.parts.as_ref().and_then(|parts| parts.get(name)) else {
            main.report(match nearest(name, names.iter().copied()) {
                Some(near) => format!("there is no part `{name}`; did you mean `{near}`?"),
                None => format!("there is no part `{name}`; write [parts.{name}]"),
            });
            return None;
        };
        if self.open.borrow().iter().any(|open| open == name) {
            main.report(format!("the part `{name}` uses itself"));
            return None;
        }
        self.open.borrow_mut().push(name.to_owned());
        let pattern = self.pattern(&part);
        self.open.borrow_mut().pop();
        let pattern = pattern?;
        Some(match model {
            Some(model) if pattern.model.is_none() => Pattern { model: Some(model), ..pattern },
            _ => pattern,
        })
    }

    fn prompt(&self, value: &Value<'_, '_>, text: &str, table: Option<&Table<'_, '_>>) -> Prompt {
        if text.trim().is_empty() {
            value.report("is empty; say what the model shall do");
        }
        let mut flow = prompt(text);
        let mut texts = vec![(value.clone(), text.to_owned())];
        if let Some(table) = table {
            let inline = table.get("system");
            let system = inline
                .clone()
                .and_then(|value| value.text().map(str::to_owned))
                .or_else(|| table.get("system_file").and_then(|value| self.file_text(&value)));
            if let (Some(value), Some(system)) = (inline.or_else(|| table.get("system_file")), system) {
                flow = flow.system(&system);
                texts.push((value, system));
            }
            if let Some(tokens) = table.get("max_tokens").and_then(|value| value.count(1)) {
                let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
                let mut size = self.size.borrow_mut();
                size.max_tokens = size.max_tokens.max(tokens);
                flow = flow.max_tokens(tokens);
            }
            if let Some(temperature) = table.get("temperature").and_then(|value| value.number(0.0, 2.0)) {
                #[allow(clippy::cast_possible_truncation)] // from 0 to 2
                let temperature = temperature as f32;
                flow = flow.temperature(temperature);
            }
            if let Some(value) = table.get("effort") {
                let effort = value.text().and_then(|text| serde_json::from_value::<Effort>(text.into()).ok());
                match effort {
                    Some(effort) => flow = flow.effort(effort),
                    None => value.report("must be low, medium, high, xhigh or max"),
                }
            }
        }
        for (value, text) in texts {
            for (name, known) in self.variables(&value, &text, true) {
                flow = flow.with(name, known);
            }
        }
        flow
    }

    /// The variables of a text with their values.
    fn variables<'t>(&self, value: &Value<'_, '_>, text: &'t str, input: bool) -> Vec<(&'t str, &str)> {
        let mut found = Vec::new();
        for name in variables(text) {
            match self.values.get(name) {
                Some(known) => {
                    self.used_values.borrow_mut().insert(name.to_owned());
                    found.push((name, known.as_str()));
                }
                None if name == "input" && input => {}
                None => value.report(format!(
                    "{{{name}}} has no value; add `{name} = \"…\"` under [vars] (to mean it as it stands: \
                     `{name} = \"{{{name}}}\"`)"
                )),
            }
        }
        found
    }

    /// A text that is no prompt of its own (a question, criteria), with its variables filled in.
    pub(super) fn words(&self, value: &Value<'_, '_>) -> Option<String> {
        let text = value.text()?;
        if text.trim().is_empty() {
            value.report("is empty");
        }
        Some(fill_all(text, &self.variables(value, text, false)))
    }

    /// The text of a file beside the flow file.
    fn file_text(&self, value: &Value<'_, '_>) -> Option<String> {
        let name = value.text()?;
        let Some(folder) = &self.options.folder else {
            value.report("names a file, but this flow has no folder to look in");
            return None;
        };
        let text = std::fs::read_to_string(folder.join(name));
        let text = text
            .map_err(|error| value.report(format!("{name} cannot be read beside the flow file: {error}")))
            .ok()?;
        self.size.borrow_mut().words += text.len();
        Some(text)
    }
}

/// The names in braces of a prompt: `{name}`, of small letters, digits and `_`.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(|rest| {
        let (name, _) = rest.split_once('}')?;
        let simple = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        simple.then_some(name)
    })
}

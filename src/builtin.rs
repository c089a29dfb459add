//! The flows that come with the program, and the options that change them.

use std::path::Path;

use patterns::file::{FlowFile, Options};
use patterns::{Error, ErrorKind, Result};
use toml::{Table, Value};

use crate::args::{Chain, Command, FromFile, Orchestrate, Refine, Route, Section, Vote};

/// The flows that come with the program: files like any other.
pub(crate) const FLOWS: [(&str, &str); 6] = [
    ("chain", include_str!("flows/chain.toml")),
    ("route", include_str!("flows/route.toml")),
    ("section", include_str!("flows/section.toml")),
    ("vote", include_str!("flows/vote.toml")),
    ("orchestrate", include_str!("flows/orchestrate.toml")),
    ("refine", include_str!("flows/refine.toml")),
];

/// The text of a built-in flow.
pub(crate) fn text(name: &str) -> Option<&'static str> {
    FLOWS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// What the options change in a built-in flow.
type Change<'a> = Box<dyn Fn(&mut Table) + 'a>;

/// The flow of a subcommand: from its file, or the built-in one with the changes that the options ask for.
pub(crate) fn flow(command: &Command, options: Options) -> Result<FlowFile> {
    let (name, from, changes): (_, &FromFile, Change<'_>) = match command {
        Command::Chain(args) => ("chain", &args.from, Box::new(|flow| chain(flow, args))),
        Command::Route(args) => ("route", &args.from, Box::new(|flow| route(flow, args))),
        Command::Section(args) => ("section", &args.from, Box::new(|flow| section(flow, args))),
        Command::Vote(args) => ("vote", &args.from, Box::new(|flow| vote(flow, args))),
        Command::Orchestrate(args) => ("orchestrate", &args.from, Box::new(|flow| orchestrate(flow, args))),
        Command::Refine(args) => ("refine", &args.from, Box::new(|flow| refine(flow, args))),
        _ => return Err(Error::new(ErrorKind::Config, "this command has no flow")),
    };
    let (text, options) = match &from.flow {
        Some(file) => (read(file)?, beside(file, options)),
        None => (
            text(name).unwrap_or_default().to_owned(),
            Options { name: format!("the built-in flow `{name}`"), ..options },
        ),
    };
    let Ok(mut file) = text.parse::<Table>() else { return FlowFile::parse(&text, &options) };
    let before = file.clone();
    if let Some(Value::Table(flow)) = file.get_mut("flow") {
        changes(flow);
    }
    if file == before {
        return FlowFile::parse(&text, &options); // as it stands, so that defects name its lines
    }
    if let Some(Value::Table(parts)) = file.get_mut("parts")
        && !matches!(command, Command::Chain(_))
        && from.flow.is_none()
    {
        parts.clear(); // those of the built-in flow, which the options have replaced
    }
    FlowFile::parse(&file.to_string(), &options)
}

/// Reads a flow file as text.
pub(crate) fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).map_err(|error| {
        let message = match error.kind() {
            std::io::ErrorKind::NotFound => format!(
                "there is no flow file {}; `patterns new NAME` writes one to start from",
                file.display()
            ),
            _ => format!("{} cannot be read: {error}", file.display()),
        };
        Error::new(ErrorKind::Config, message)
    })
}

/// The options for a flow file: its name, and the folder in which it stands.
pub(crate) fn beside(file: &Path, options: Options) -> Options {
    let folder =
        file.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    Options { name: file.display().to_string(), folder: folder.map(Path::to_owned), ..options }
}

fn table<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Table(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// A prompt whose braces mean what they are: given on the command line, it has no variables but its input.
fn set<T: Into<Value> + Clone>(flow: &mut Table, key: &str, value: Option<&T>) {
    if let Some(value) = value {
        flow.insert(key.to_owned(), value.clone().into());
    }
}

fn chain(flow: &mut Table, args: &Chain) {
    if args.steps.is_empty() {
        return;
    }
    let mut steps: Vec<Value> = Vec::new();
    for step in &args.steps {
        steps.push(step.as_str().into());
        if let Some(word) = &args.stop_word {
            steps.push(table([
                ("gate", format!("does not say {word}").into()),
                ("word", word.as_str().into()),
            ]));
        }
    }
    flow.insert("chain".to_owned(), steps.into());
}

fn route(flow: &mut Table, args: &Route) {
    if args.when.is_empty() {
        return;
    }
    let way = |(label, about): &(String, String)| {
        let system = format!(
            "You answer at the desk \"{label}\" ({about}). Answer in a few sentences; say what is missing."
        );
        let answer = table([("system", system.into()), ("prompt", "Answer this:\n\n{input}".into())]);
        table([("label", label.as_str().into()), ("about", about.as_str().into()), ("flow", answer)])
    };
    flow.insert("route".to_owned(), "Which of these does the text belong to?".into());
    flow.insert("when".to_owned(), args.when.iter().map(way).collect::<Vec<_>>().into());
}

fn section(flow: &mut Table, args: &Section) {
    if args.on.is_empty() {
        return;
    }
    let side = |(name, prompt): &(String, String)| {
        table([("name", name.as_str().into()), ("flow", prompt.as_str().into())])
    };
    let policy: Value = match args.at_least {
        Some(n) => table([("at_least", i64::from(n).into())]),
        None => "best_effort".into(),
    };
    let sections =
        table([("sections", args.on.iter().map(side).collect::<Vec<_>>().into()), ("policy", policy)]);
    flow.clear();
    match &args.merge {
        Some(merge) => flow.insert("chain".to_owned(), vec![sections, merge.as_str().into()].into()),
        None => {
            if let Value::Table(sections) = sections {
                *flow = sections;
            }
            None
        }
    };
}

fn vote(flow: &mut Table, args: &Vote) {
    set(flow, "vote", args.question.as_ref());
    if !args.among.is_empty() {
        flow.insert("among".to_owned(), args.among.clone().into());
    }
    set(flow, "voters", args.voters.map(i64::from).as_ref());
    set(flow, "needing", args.needing.map(i64::from).as_ref());
}

fn orchestrate(flow: &mut Table, args: &Orchestrate) {
    set(flow, "orchestrate", args.plan.as_ref());
    set(flow, "work", args.work.as_ref());
    set(flow, "merge", args.merge.as_ref());
    set(flow, "at_most", args.at_most.map(i64::from).as_ref());
}

fn refine(flow: &mut Table, args: &Refine) {
    set(flow, "refine", args.prompt.as_ref());
    set(flow, "until", args.until.as_ref());
    set(flow, "rounds", args.rounds.map(i64::from).as_ref());
}

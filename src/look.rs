//! Looking at flows before they run: `patterns check` and `patterns new`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use console::style;
use patterns::file::{FlowFile, Options};
use patterns::{Error, ErrorKind, Flow, Ink, Result, Shape};

use crate::args;
use crate::builtin;
use crate::exit::Exit;
use crate::terminal::{print, say};

/// `patterns check FLOW`
pub(crate) fn check(args: &args::Check) -> Result<Exit> {
    let options = Options {
        set: args.set.clone(),
        ask: Some(Arc::new(|_| Box::pin(async { None }))),
        ..Options::default()
    };
    let name = args.flow.to_string_lossy();
    let (text, options) = match builtin::text(&name) {
        Some(text) if !args.flow.exists() => {
            (text.to_owned(), Options { name: format!("the built-in flow `{name}`"), ..options })
        }
        _ => (builtin::read(&args.flow)?, builtin::beside(&args.flow, options)),
    };
    let flow = FlowFile::parse(&text, &options)?;
    let shape = flow.shape();
    if args.mermaid {
        print(&shape.mermaid())?;
    } else if args.dot {
        print(&shape.dot())?;
    } else if args.svg {
        print(&shape.svg())?;
    } else {
        if !flow.about().is_empty() {
            print(flow.about())?;
        }
        picture(&shape)?;
    }
    Ok(Exit::Done)
}

/// Prints the tree of a flow, in colour on a terminal, and its bounds.
pub(crate) fn picture(shape: &Shape) -> Result<()> {
    print(&shape.tree(&|ink, piece| {
        let styled = match ink {
            Ink::Line | Ink::Calls => style(piece).dim(),
            Ink::Edge => style(piece).cyan(),
            Ink::Pattern => style(piece).bold(),
            _ => style(piece),
        };
        styled.to_string()
    }))?;
    let calls = shape.calls();
    let expected = match calls.expected {
        Some(expected) if calls.most != Some(calls.fewest) => format!(", about {expected} as a rule"),
        _ => String::new(),
    };
    print(&format!("{calls} for one input{expected}"))
}

/// `patterns new NAME`
pub(crate) fn new(args: &args::New) -> Result<Exit> {
    let Some(text) = builtin::text(&args.pattern) else {
        let known: Vec<_> = builtin::FLOWS.iter().map(|(name, _)| *name).collect();
        let message = format!("there is no pattern `{}`; there are: {}", args.pattern, known.join(", "));
        return Err(Error::new(ErrorKind::Config, message));
    };
    let mut file = PathBuf::from(&args.name);
    if file.extension().is_none() {
        file.set_extension("toml");
    }
    let text = format!("{}\n{text}", introduction(&file));
    let write = || {
        use std::io::Write;
        std::fs::File::create_new(&file)?.write_all(text.as_bytes())
    };
    write().map_err(|error| {
        let message = match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                format!("{} is there already and is left alone", file.display())
            }
            _ => format!("{} cannot be written: {error}", file.display()),
        };
        Error::new(ErrorKind::Config, message)
    })?;
    say(&format!("wrote {}", file.display()));
    Ok(Exit::Done)
}

/// The comment at the head of a new flow file.
fn introduction(file: &Path) -> String {
    let file = file.display();
    format!(
        "\
# A flow for `patterns`. Look at it with `patterns check {file}`, run it with `patterns run {file} INPUT`.
#
# A flow is a text (a prompt, with its input at {{input}} or else appended), or a table with one of these keys:
#   prompt       with system, max_tokens, effort, temperature; prompt_file and system_file name files beside this one
#   chain        a list of flows, with gates: {{ gate = \"is short\", at_most_words = 80, repair = 1 }}
#   route        a question, with [[when]] tables (label, about, matches, flow) and otherwise
#   sections     a list of {{ name, flow }}, with policy and at_once
#   for_each     a flow for every line of the input
#   vote         a question with voters, among, needing
#   orchestrate  a prompt for the plan, with work, merge and at_most
#   refine       a flow with until (criteria or checks) and rounds
#   use          the name of a [parts.NAME] table
# Each may have a model of its own: model = \"anthropic:claude-haiku-5-5\".
# Checks, for gates and until: judge, word, contains, lacks, matches, at_least_words, at_most_words, at_least_lines,
#   at_most_lines, same_lines, descending, unchanged_without_tags, person.
# Variables: {{name}} in a prompt, its value under [vars] or by --set name=value.
"
    )
}

//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

use crate::exit;
use crate::keep::Keep;
use crate::map;

/// The workflow patterns of "Building effective agents" in a shell.
///
/// Every pattern runs on a text: a file, `-` for standard input, or --text. The answer goes to standard output, all else to
/// standard error. Without a key a small model inside the program answers; with ANTHROPIC_API_KEY it is Claude.
#[derive(Debug, Parser)]
#[command(name = "patterns", version, max_term_width = 100, after_help = exit::HELP, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Prompt chaining: each step works on the text of the one before, with gates between
    Chain(Chain),
    /// Routing: find the desk for a text and have it answered there
    Route(Route),
    /// Parallelization: look at a text from several sides at once
    Section(Section),
    /// Parallelization: have several voters answer one question
    Vote(Vote),
    /// Orchestrator-workers: split a task, have the parts done, join them
    Orchestrate(Orchestrate),
    /// Evaluator-optimizer: draft, judge and draft again, with a cap
    Refine(Refine),
    /// Agent: answer a question about a folder by looking into it, with citations
    Agent(Agent),
    /// Run a flow from a file
    Run(Run),
    /// Run a flow from a file on many inputs
    Map(map::Args),
    /// Look at a flow file before it runs: its picture, its bounds, what is wrong with it
    Check(Check),
    /// Write a commented flow file to start from
    New(New),
    /// Look at a run after it: its timeline, what decided how long it took, where the money went
    Trace(Trace),
}

/// What every run takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// The text to work on: a file, or `-` for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) input: Option<PathBuf>,

    /// The text to work on, given here
    #[arg(long, value_name = "TEXT", conflicts_with = "input")]
    pub(crate) text: Option<String>,

    #[command(flatten)]
    pub(crate) how: How,
}

/// How a flow is run.
#[derive(Debug, Args)]
pub(crate) struct How {
    /// The model: anthropic:MODEL, openai:MODEL, ollama:MODEL, embedded[:FILE.gguf] or script:FILE
    #[arg(long, value_name = "MODEL", help_heading = "Running")]
    pub(crate) model: Option<String>,

    /// Give a variable of the flow file a value
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, help_heading = "Running")]
    pub(crate) set: Vec<(String, String)>,

    /// Print the whole outcome as JSON
    #[arg(long, help_heading = "Running")]
    pub(crate) json: bool,

    /// Print the flow's picture and its bounds, and make no call
    #[arg(long, help_heading = "Running")]
    pub(crate) dry_run: bool,

    /// Say nothing on standard error but what went wrong
    #[arg(long, short, help_heading = "Running")]
    pub(crate) quiet: bool,

    /// How the run is shown while it runs; `live` shows nothing when standard error is no terminal
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Show::Live, help_heading = "Running")]
    pub(crate) progress: Show,

    /// Write what happens to a file, for `patterns trace`; without prompts and replies
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Running")]
    pub(crate) trace: Option<PathBuf>,

    /// Write prompts and replies to the trace, too
    #[arg(long, requires = "trace", help_heading = "Running")]
    pub(crate) trace_content: bool,

    /// How many calls may be under way at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = "Running")]
    pub(crate) at_once: u32,

    #[command(flatten)]
    pub(crate) keep: Keep,
}

/// How a run is shown while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Show {
    /// The tree of what runs now
    Live,
    /// A line for each event, for logs
    Plain,
    /// Nothing
    None,
}

/// Where the flow comes from, if not from the program.
#[derive(Debug, Args)]
pub(crate) struct FromFile {
    /// Take the flow from this file instead of the built-in one
    #[arg(long, value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    pub(crate) flow: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Chain {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) from: FromFile,
    /// A step, as a prompt; repeat it for each step
    #[arg(long = "step", value_name = "PROMPT", conflicts_with = "flow")]
    pub(crate) steps: Vec<String>,
    /// End the chain when a step answers with this word
    #[arg(long, value_name = "WORD", requires = "steps")]
    pub(crate) stop_word: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Route {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) from: FromFile,
    /// A desk and what it is for; repeat it for each desk
    #[arg(long, value_name = "NAME=\"DESCRIPTION\"", value_parser = pair, conflicts_with = "flow")]
    pub(crate) when: Vec<(String, String)>,
    /// Only say which desk, without answering
    #[arg(long)]
    pub(crate) label_only: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Section {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) from: FromFile,
    /// A side to look from, and what is asked there; repeat it for each side
    #[arg(long, value_name = "NAME=\"PROMPT\"", value_parser = pair, conflicts_with = "flow")]
    pub(crate) on: Vec<(String, String)>,
    /// How the views are joined
    #[arg(long, value_name = "PROMPT", requires = "on")]
    pub(crate) merge: Option<String>,
    /// How many sides must come to an answer; default: as many as can
    #[arg(long, value_name = "N", requires = "on")]
    pub(crate) at_least: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct Vote {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) from: FromFile,
    /// The question about the text
    #[arg(long, value_name = "PROMPT", conflicts_with = "flow")]
    pub(crate) question: Option<String>,
    /// The possible answers
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', conflicts_with = "flow")]
    pub(crate) among: Vec<String>,
    /// How many voters there are
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) voters: Option<u32>,
    /// How many voters must agree; default: more than for any other answer
    #[arg(long, value_name = "K")]
    pub(crate) needing: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct Orchestrate {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) from: FromFile,
    /// How the task is split
    #[arg(long, value_name = "PROMPT", conflicts_with = "flow")]
    pub(crate) plan: Option<String>,
    /// What every worker is told
    #[arg(long, value_name = "PROMPT", conflicts_with = "flow")]
    pub(crate) work: Option<String>,
    /// How the results are joined
    #[arg(long, value_name = "PROMPT", conflicts_with = "flow")]
    pub(crate) merge: Option<String>,
    /// The most parts that the task may be split into
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) at_most: Option<u32>,
    /// Print the plan and do nothing of it
    #[arg(long)]
    pub(crate) plan_only: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Refine {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) from: FromFile,
    /// What is to be written
    #[arg(long, value_name = "PROMPT", conflicts_with = "flow")]
    pub(crate) prompt: Option<String>,
    /// What makes a draft acceptable
    #[arg(long, value_name = "CRITERIA", conflicts_with = "flow")]
    pub(crate) until: Option<String>,
    /// The most drafts, the first included
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct Agent {
    /// The question
    #[arg(value_name = "QUESTION", required_unless_present = "selftest")]
    pub(crate) question: Option<String>,
    /// The folder that the agent may look into, and nothing outside of it
    #[arg(long, value_name = "FOLDER", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) root: PathBuf,
    /// The most turns
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) max_turns: u32,
    /// Have a judge hold the answer against the lines that it cites
    #[arg(long)]
    pub(crate) judge: bool,
    /// Also give the agent the tools of an MCP server; repeat it for more. You are asked before a tool changes something
    #[arg(long, value_name = "COMMAND|URL")]
    pub(crate) mcp: Vec<String>,
    /// Run this tool of an MCP server without asking; repeat it for more
    #[arg(long, value_name = "TOOL", requires = "mcp")]
    pub(crate) allow: Vec<String>,
    /// Check the tools and their sandbox on a temporary folder; needs no key and no model
    #[arg(long, exclusive = true)]
    pub(crate) selftest: bool,
    #[command(flatten)]
    pub(crate) how: How,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The flow file
    #[arg(value_name = "FLOW.toml", value_hint = ValueHint::FilePath)]
    pub(crate) flow: PathBuf,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The flow file, or the name of a built-in flow: chain, route, section, vote, orchestrate, refine
    #[arg(value_name = "FLOW", value_hint = ValueHint::FilePath)]
    pub(crate) flow: PathBuf,
    /// Print the picture as a Mermaid diagram
    #[arg(long, group = "picture")]
    pub(crate) mermaid: bool,
    /// Print the picture as a Graphviz graph
    #[arg(long, group = "picture")]
    pub(crate) dot: bool,
    /// Print the picture as SVG
    #[arg(long, group = "picture")]
    pub(crate) svg: bool,
    /// Give a variable of the flow file a value
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) set: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub(crate) struct New {
    /// The name of the flow; NAME.toml is written
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The pattern to start from: chain, route, section, vote, orchestrate or refine
    #[arg(long, value_name = "PATTERN", default_value = "route")]
    pub(crate) pattern: String,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Trace {
    /// The trace that a run wrote with --trace
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    /// Write the run as a page for a browser, `-` for standard output
    #[arg(long, value_name = "OUT", value_hint = ValueHint::FilePath, group = "form")]
    pub(crate) html: Option<PathBuf>,
    /// Print the run as a Mermaid diagram
    #[arg(long, group = "form")]
    pub(crate) mermaid: bool,
    /// Print the run as a Graphviz graph
    #[arg(long, group = "form")]
    pub(crate) dot: bool,
    /// How wide the timeline is, in columns; default: as wide as the terminal
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(20..=1000))]
    pub(crate) width: Option<u16>,
    #[command(subcommand)]
    pub(crate) command: Option<TraceCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// What is different between two runs: calls, time, cost, outcome
    Diff {
        /// The trace of the first run
        #[arg(value_hint = ValueHint::FilePath)]
        before: PathBuf,
        /// The trace of the second run
        #[arg(value_hint = ValueHint::FilePath)]
        after: PathBuf,
    },
}

/// `NAME=VALUE`
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write NAME=VALUE, with quotes round a value of several words".to_owned()),
    }
}

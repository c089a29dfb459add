//! One flow over many inputs: `patterns map`.

mod inputs;

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Mutex};

use clap::ValueHint;
use futures::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use patterns::file::{Ended, FlowFile, Options};
use patterns::layers::{Journal, Observe};
use patterns::trace::told;
use patterns::{Error, ErrorKind, Event, Flow, Llm, Path, Result, Status, Under};
use serde_json::json;

use self::inputs::Input;
use crate::args::How;
use crate::builtin;
use crate::exit::Exit;
use crate::keep::Hand;
use crate::look::picture;
use crate::model;
use crate::progress::Progress;
use crate::terminal::{complain, print, say, warn, whisper};
use crate::watch::Watch;

/// `patterns map FLOW INPUTS -o OUT`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The flow file
    #[arg(value_name = "FLOW.toml", value_hint = ValueHint::FilePath)]
    flow: PathBuf,
    /// The inputs: JSON Lines, CSV with a head, or a folder of texts
    #[arg(value_name = "INPUTS", value_hint = ValueHint::AnyPath)]
    inputs: PathBuf,
    /// Where the outcomes go, one JSON object a line in the order of the inputs; what failed goes to a file beside it
    #[arg(long, short, value_name = "OUT.jsonl", value_hint = ValueHint::FilePath)]
    output: PathBuf,
    /// The field of an input that is its text; without it `text` or `input`, or the only one
    #[arg(long, value_name = "NAME")]
    field: Option<String>,
    #[command(flatten)]
    how: How,
}

/// What single inputs have told of their outcomes that are not the whole of what was asked for.
type Degraded = Arc<Mutex<HashMap<String, Short>>>;

/// How an outcome falls short.
#[derive(Default)]
struct Short {
    reasons: Vec<String>,
    over_budget: bool,
}

/// What became of all inputs.
#[derive(Default)]
struct Count {
    done: u64,
    failed: u64,
    degraded: u64,
}

pub(crate) async fn run(args: &Args) -> Result<Exit> {
    let how = &args.how;
    let text = builtin::read(&args.flow)?;
    spare(args)?;
    let options = builtin::beside(&args.flow, Options { set: how.set.clone(), ..Options::default() });
    let flow = FlowFile::parse(&text, &options)?;
    let shape = flow.shape();
    let total = inputs::count(&args.inputs)?;
    if how.dry_run {
        picture(&shape)?;
        print(&format!("{total} inputs; each, beside its own text:"))?;
        if let Some(cost) = how.keep.cost(how.model.as_deref(), shape.calls(), flow.size(), "")? {
            print(&cost)?;
        }
        return Ok(Exit::Done);
    }

    let progress = Progress::new(how.quiet, how.progress);
    let connection = model::get_ready(how.model.as_deref(), how.quiet, &progress).await?;
    let journal = Journal::open(how.keep.resume.clone().unwrap_or_else(|| beside(&args.output, "journal")))?;
    if journal.replies() > 0 && !how.quiet {
        whisper(&format!("going on: calls answered already: {}", journal.replies()));
    }
    let degraded = Degraded::default();
    let observe = Observe::new(note(degraded.clone()));
    let (llm, hand) = how.keep.round(connection, how.at_once, Some(journal), observe)?;
    let watch = Watch::start(how, &progress)?;
    let llm = watch.round(llm);
    let bar = bar(total, !progress.is_live());
    let run = told(&llm, &shape, each(args, &flow, &llm, &hand, &degraded, &bar));
    let count = hand.stop.until_ctrl_c(run, |say| bar.suspend(say)).await;
    bar.finish_and_clear();
    watch.finish();
    if !how.quiet {
        whisper(&hand.meter.total().to_string());
    }
    let count = count?;
    let errors = beside(&args.output, "errors");
    let Count { done, failed, .. } = count;
    if !how.quiet {
        say(&format!("{done} of {total} inputs done, in {}", args.output.display()));
    }
    if failed > 0 {
        warn(&format!(
            "{failed} of {total} inputs failed, see {}; run the same command again to try only these",
            errors.display()
        ));
    }
    if count.degraded > 0 {
        warn(&format!(
            "{} of {total} outcomes are not the whole of what was asked for; see their field `degraded`",
            count.degraded
        ));
    }
    Ok(match (done, failed + count.degraded) {
        (_, 0) => Exit::Done,
        (0, _) => Exit::Failed,
        _ => Exit::Degraded,
    })
}

/// Refuses to write over what is read.
fn spare(args: &Args) -> Result<()> {
    let found = |file: &FilePath| std::fs::canonicalize(file).ok();
    let (flow, inputs) = (found(&args.flow), found(&args.inputs));
    for written in [args.output.clone(), beside(&args.output, "errors"), beside(&args.output, "journal")] {
        let file = found(&written);
        let folder = written.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = found(folder.unwrap_or(FilePath::new(".")));
        let why = if file.is_some() && (file == flow || file == inputs) {
            "is read here and would be written over"
        } else if folder.is_some() && folder == inputs {
            "would be one of the inputs the next time"
        } else {
            continue;
        };
        let message = format!("{} {why}; give another name with -o", written.display());
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(())
}

/// Runs the flow on every input, a bounded number at once, and writes the outcomes in the order of the inputs.
async fn each(
    args: &Args,
    flow: &FlowFile,
    llm: &dyn Llm,
    hand: &Hand,
    degraded: &Degraded,
    bar: &ProgressBar,
) -> Result<Count> {
    let inputs = inputs::read(&args.inputs, args.field.as_deref())?;
    let errors = beside(&args.output, "errors");
    let (mut out, mut failures) = (create(&args.output)?, create(&errors)?);
    let jobs = inputs.map(|input| async move {
        let result = match &input.text {
            Ok(text) => flow.run(&Under::new(llm, input.place()), text).await,
            Err(error) => Err(error.clone().at(&Path::from(&*input.place()))),
        };
        (input, result)
    });
    let mut outcomes = stream::iter(jobs).buffered(args.how.at_once as usize);
    let mut count = Count::default();
    while let Some((input, result)) = outcomes.next().await {
        let Short { reasons, over_budget } =
            degraded.lock().ok().and_then(|mut all| all.remove(&input.place())).unwrap_or_default();
        let interrupted = || Error::new(ErrorKind::Cancelled, "interrupted; run it again to go on");
        match result {
            Ok(ended) => {
                // a fan-out ends without its missing branches, also when the whole run has come to its end
                let short = ended.text.is_none() || !reasons.is_empty();
                let is_interrupted = short && hand.stop.is_thrown();
                if ended.text.is_some() || !(is_interrupted || over_budget) {
                    count.done += u64::from(ended.text.is_some());
                    count.degraded += u64::from(short);
                    write(&mut out, &args.output, &outcome(&input, &ended, &reasons))?;
                }
                if is_interrupted {
                    return Err(interrupted());
                }
                if over_budget {
                    return Err(used_up("the budget is used up", &count));
                }
            }
            Err(_) if hand.stop.is_thrown() => return Err(interrupted()),
            Err(error) if error.kind() == ErrorKind::OverBudget => {
                return Err(used_up(error.message(), &count));
            }
            Err(error) => {
                count.failed += 1;
                bar.suspend(|| complain(&error.to_string()));
                write(&mut failures, &errors, &failure(&input, &error))?;
            }
        }
        bar.inc(1);
        let cost = hand.meter.total().cost().map(|cost| format!(", {cost}")).unwrap_or_default();
        bar.set_message(format!("{} failed{cost}", count.failed));
    }
    if count.failed == 0 {
        drop(failures);
        let _ = std::fs::remove_file(&errors); // it is empty
    }
    Ok(count)
}

fn used_up(why: &str, count: &Count) -> Error {
    let message = format!("{why} after {} inputs; run it again with more to go on", count.done);
    Error::new(ErrorKind::OverBudget, message)
}

fn outcome(input: &Input, ended: &Ended, degraded: &[String]) -> serde_json::Value {
    let mut line = json!({ "input": input.number, "text": ended.text, "outcome": ended.outcome });
    if !degraded.is_empty() {
        line["degraded"] = json!(degraded);
    }
    if let Some(error) = &ended.error {
        line["reason"] = json!(error.to_string());
    }
    input.tag(line)
}

fn failure(input: &Input, error: &Error) -> serde_json::Value {
    input.tag(json!({
        "input": input.number,
        "kind": error.kind().as_str(),
        "path": error.path(),
        "error": error.to_string(),
        "partial": error.partial(),
    }))
}

fn note(degraded: Degraded) -> impl Fn(&Path, &Event) + Send + Sync + 'static {
    move |path, event| {
        let (reason, over_budget) = match event {
            Event::Degraded { reason } => (Some(reason), false),
            Event::Capped { reason } => (Some(reason), true), // the only cap that ends a pattern so
            Event::BranchEnded { outcome, .. } if outcome == Status::OverBudget.as_str() => (None, true),
            _ => return,
        };
        if let (Some(input), Ok(mut all)) = (path.segments().next(), degraded.lock()) {
            let short = all.entry(input.to_owned()).or_default();
            short.reasons.extend(reason.cloned());
            short.over_budget |= over_budget;
        }
    }
}

/// `OUT.jsonl` → `OUT.errors.jsonl`
fn beside(output: &FilePath, what: &str) -> PathBuf {
    output.with_extension(format!("{what}.jsonl"))
}

fn create(file: &FilePath) -> Result<BufWriter<File>> {
    File::create(file).map(BufWriter::new).map_err(|error| unwritable(file, &error))
}

fn write(out: &mut BufWriter<File>, file: &FilePath, line: &serde_json::Value) -> Result<()> {
    // flushed line by line, so that what is done can be read while the rest runs
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| unwritable(file, &error))
}

fn unwritable(file: &FilePath, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{} cannot be written: {error}", file.display()))
}

fn bar(total: u64, hidden: bool) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if hidden {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let template = "{bar:30.cyan/dim} {pos}/{len} {msg} {elapsed:.dim} eta {eta}";
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

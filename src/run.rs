//! One run of a flow: input, model, layers, result.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use patterns::file::{Ended, FlowFile, Options};
use patterns::layers::{Journal, Observe};
use patterns::trace::told as told_of;
use patterns::{Error, ErrorKind, Event, Flow, Llm, Path, Request, Result, Status};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::args::{self, Command, Common, How};
use crate::builtin;
use crate::exit::Exit;
use crate::input;
use crate::look::picture;
use crate::model;
use crate::progress::Progress;
use crate::terminal::{ask, complain, print, print_answer, say, warn, whisper};
use crate::watch::Watch;

/// `patterns route`, `patterns vote` …
pub(crate) async fn pattern(command: &Command) -> Result<Exit> {
    let common = match command {
        Command::Chain(args) => &args.common,
        Command::Route(args) => &args.common,
        Command::Section(args) => &args.common,
        Command::Vote(args) => &args.common,
        Command::Orchestrate(args) => &args.common,
        Command::Refine(args) => &args.common,
        _ => return Err(Error::new(ErrorKind::Config, "this command runs no flow")),
    };
    let goal = match command {
        Command::Route(args) if args.label_only => Goal::Label,
        Command::Orchestrate(args) if args.plan_only => Goal::Plan,
        _ => Goal::Answer,
    };
    let progress = Progress::new(common.how.quiet, common.how.progress);
    let flow = builtin::flow(command, options(&common.how, &progress))?;
    run(&flow, common, goal, progress).await
}

/// `patterns run FLOW FILE`
pub(crate) async fn file(args: &args::Run) -> Result<Exit> {
    let progress = Progress::new(args.common.how.quiet, args.common.how.progress);
    let text = builtin::read(&args.flow)?;
    let options = builtin::beside(&args.flow, options(&args.common.how, &progress));
    run(&FlowFile::parse(&text, &options)?, &args.common, Goal::Answer, progress).await
}

fn options(how: &How, progress: &Progress) -> Options {
    let progress = progress.clone();
    let ask = move |question| ask(question, progress.clone());
    Options { set: how.set.clone(), ask: Some(Arc::new(ask)), ..Options::default() }
}

/// How far a flow is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    Answer,
    Label,
    Plan,
}

/// What a run told of itself: why its result is not the whole of what was asked for.
#[derive(Default)]
struct Told {
    degraded: Vec<String>,
    capped: Vec<String>,
}

async fn run(flow: &FlowFile, common: &Common, goal: Goal, progress: Progress) -> Result<Exit> {
    let how = &common.how;
    let shape = flow.shape();
    if how.dry_run {
        picture(&shape)?;
        let input = match (&common.input, &common.text) {
            (None, None) => String::new(),
            (file, text) => input::read(file.as_deref(), text.as_deref())?,
        };
        if let Some(cost) = how.keep.cost(how.model.as_deref(), shape.calls(), flow.size(), &input)? {
            print(&cost)?;
        }
        return Ok(Exit::Done);
    }
    let input = input::read(common.input.as_deref(), common.text.as_deref())?;
    let connection = model::get_ready(how.model.as_deref(), how.quiet, &progress).await?;
    let told = Arc::new(Mutex::new(Told::default()));
    let answer = Answer::new(how.json || goal != Goal::Answer, &progress);
    let watch = Watch::start(how, &progress)?;
    let journal = how.keep.resume.as_ref().map(Journal::open).transpose()?;
    let observe = Observe::new(listen(answer.clone(), told.clone()));
    let (llm, hand) = how.keep.round(connection, how.at_once, journal, observe)?;
    let llm = watch.round(llm);
    let llm: Box<dyn Llm> = match answer.listener() {
        Some(on_text) => Box::new(llm.on_answer(on_text)),
        None => Box::new(llm),
    };

    let started = Instant::now();
    progress.start(shape.calls());
    let run = told_of(&llm, &shape, reach(flow, goal, &llm, &input));
    let result = hand.stop.until_ctrl_c(run, |say| progress.aside(say)).await;
    progress.end();
    let shown = answer.end_line();
    watch.finish();

    let total = hand.meter.total();
    let model = llm.model(&Request::default()).unwrap_or_default();
    let cost = format!("{total}, {:.1} s", started.elapsed().as_secs_f64());
    let told = told.lock().map(|mut told| std::mem::take(&mut *told)).unwrap_or_default();
    let ended = match result {
        Ok(ended) => ended,
        Err(error) => {
            let exit = if hand.stop.is_thrown() { Exit::Interrupted } else { Exit::of(&error) };
            // a cap gives back what there was; what failed shows it beside the result
            match error.partial().filter(|_| !shown) {
                Some(partial) if matches!(error.kind(), ErrorKind::NotAccepted | ErrorKind::OverBudget) => {
                    print_answer(partial)?;
                }
                Some(partial) => whisper(&format!("what there was:\n{}", partial.trim_end())),
                None => {}
            }
            complain(&error.to_string());
            if !how.quiet {
                whisper(&cost);
            }
            return Ok(exit);
        }
    };

    let exit = match (&told.capped[..], &told.degraded[..], &ended.text) {
        _ if hand.stop.is_thrown() => Exit::Interrupted,
        ([_, ..], _, _) => Exit::Capped,
        (_, [_, ..], _) | (_, _, None) => Exit::Degraded,
        _ => Exit::Done,
    };
    if !how.quiet
        && let Some(remark) = remark(&ended)
    {
        say(&remark);
    }
    if how.json {
        print(&format!(
            "{:#}",
            json!({
                "pattern": ended.pattern,
                "outcome": ended.outcome,
                "text": ended.text,
                "model": model,
                "meter": total,
                "seconds": started.elapsed().as_secs_f64(),
                "degraded": told.degraded,
                "capped": told.capped,
            })
        ))?;
    } else if let Some(text) = &ended.text {
        answer.finish(text)?;
    }
    for reason in told.capped.iter().chain(&told.degraded) {
        warn(reason);
    }
    if let Some(error) = &ended.error
        && told.degraded.is_empty()
    {
        warn(&error.to_string());
    }
    if !how.quiet {
        whisper(&cost);
    }
    Ok(exit)
}

async fn reach(flow: &FlowFile, goal: Goal, llm: &dyn Llm, input: &str) -> Result<Ended> {
    match goal {
        Goal::Answer => flow.run(llm, input).await,
        Goal::Label => flow.decide(llm, input).await,
        Goal::Plan => flow.plan_only(llm, input).await,
    }
}

fn listen(answer: Answer, told: Arc<Mutex<Told>>) -> impl Fn(&Path, &Event) + Send + Sync + 'static {
    move |path, event| {
        answer.hear(event);
        let Ok(mut told) = told.lock() else { return };
        match event {
            Event::Degraded { reason } => told.degraded.push(path.before(reason)),
            Event::Capped { reason } => told.capped.push(path.before(reason)),
            Event::BranchEnded { branch, outcome, .. } if outcome == Status::OverBudget.as_str() => {
                told.capped.push(path.before(&format!("{branch}: over budget")));
            }
            _ => {}
        }
    }
}

/// One line on how the outermost pattern came to its outcome.
fn remark(ended: &Ended) -> Option<String> {
    let outcome = &ended.outcome;
    let text = |key: &str| outcome[key].as_str().map(str::to_owned);
    match ended.pattern {
        "route" => {
            let mut line = text("label")?;
            if let Some(confidence) = outcome["confidence"].as_f64() {
                line.push_str(&format!(" (probability {confidence:.2})"));
            }
            match &outcome["how"] {
                Value::String(how) if how == "rule" => line.push_str(", by a rule"),
                Value::Object(how) => line.push_str(&format!(", since {}", how.values().next()?.as_str()?)),
                _ => {}
            }
            if let Some(reasoning) = text("reasoning") {
                line.push_str(&format!(": {reasoning}"));
            }
            Some(line)
        }
        "vote" => {
            let counts = outcome["counts"].as_array()?.iter();
            let counts: Option<Vec<_>> =
                counts.map(|of| Some(format!("{} {}", of["label"].as_str()?, of["votes"]))).collect();
            Some(format!("{}; asked {}, saved {}", counts?.join(", "), outcome["asked"], outcome["saved"]))
        }
        "refine" => Some(format!(
            "{} after {} drafts",
            if outcome["accepted"] == true { "accepted" } else { "not accepted" },
            outcome["rounds"].as_array()?.len()
        )),
        _ => None,
    }
}

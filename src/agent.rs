//! `patterns agent`: a question about a folder, answered by looking into it.

use std::future::ready;
use std::time::Instant;

use patterns::layers::{Journal, Observe};
use patterns::trace::told;
use patterns::{
    Agent, AgentEnd, Decision, Error, ErrorKind, Event, Flow, Llm, Mcp, Path, Repository, Request, Result,
    ToolCall, agent,
};
use serde_json::json;

use crate::args::{self, Show};
use crate::exit::Exit;
use crate::keep::Stop;
use crate::look::picture;
use crate::model;
use crate::progress::Progress;
use crate::terminal::{ask, complain, print, print_answer, say, warn, whisper};
use crate::watch::Watch;

const SYSTEM: &str = "You answer questions about the files of one folder, which you can read and not change. Look before you \
    answer: search for the names in question, then read the lines that matter. Cite every claim as path:line with the \
    numbers that search and read_file show, as in src/main.rs:12. Nothing found is a finding, too: say what you looked for \
    and did not find. Never guess.";

const JUDGE: &str = "The answer answers the question, and the lines in <evidence>, which are those that it cites, support \
    every claim in it.";

pub(crate) async fn run(args: &args::Agent) -> Result<Exit> {
    let how = &args.how;
    let question = args.question.as_deref().unwrap_or_default();
    if question.trim().is_empty() {
        let message = "the question is empty; ask for instance \"Where is the config loaded?\"";
        return Err(Error::new(ErrorKind::Config, message));
    }
    let progress = Progress::new(how.quiet, how.progress);
    let journal = match &how.keep.resume {
        Some(file) if !how.dry_run => Some(Journal::open(file)?),
        _ => None,
    };
    let agent = build(args, journal.as_ref()).await?;
    let shape = agent.shape();
    if how.dry_run {
        picture(&shape)?;
        print("what its tools will give is not known, nor what that costs; --max-usd sets a limit")?;
        return Ok(Exit::Done);
    }
    let connection = model::get_ready(how.model.as_deref(), how.quiet, &progress).await?;
    let watch = Watch::start(how, &progress)?;
    let tell = !how.quiet && how.progress != Show::Plain;
    let observe = Observe::new(listen(progress.clone(), tell));
    let (llm, hand) = how.keep.round(connection, how.at_once, journal, observe)?;
    let llm = watch.round(llm);
    let agent = in_hand(agent, &hand.stop, &progress);

    let started = Instant::now();
    progress.start(shape.calls());
    let run = told(&llm, &shape, agent.run(&llm, question));
    let result = hand.stop.until_ctrl_c(run, |say| progress.aside(say)).await;
    progress.end();
    watch.finish();

    let done = result?;
    let seconds = started.elapsed().as_secs_f64();
    let accepted = done.verdict.as_ref().is_none_or(|verdict| verdict.accepted);
    let answered = done.why == AgentEnd::Answered;
    if how.json {
        let model = llm.model(&Request::default()).unwrap_or_default();
        let total = hand.meter.total();
        print(&format!(
            "{:#}",
            json!({ "agent": done, "model": model, "meter": total, "seconds": seconds })
        ))?;
    } else if answered {
        print_answer(&done.text)?;
    } else if !done.text.trim().is_empty() {
        whisper(&format!("what there was:\n{}", done.text.trim_end()));
    }
    for denied in &done.denied {
        say(&format!("not run: {}: {}", denied.call, denied.reason));
    }
    let exit = match &done.why {
        _ if hand.stop.is_thrown() => Exit::Interrupted,
        AgentEnd::Answered if accepted => Exit::Done,
        AgentEnd::Answered => {
            warn(done.verdict.as_ref().map_or("", |verdict| verdict.feedback.as_str()));
            Exit::Degraded
        }
        AgentEnd::Turns => {
            let turns = args.max_turns;
            say(&format!(
                "Agent stopped: no final answer after max_turns={turns}; raise --max-turns or ask a narrower question"
            ));
            Exit::Capped
        }
        AgentEnd::Failed { kind, reason } => {
            complain(reason);
            Exit::of(&Error::new(*kind, reason))
        }
        _ => Exit::Failed,
    };
    if !how.quiet {
        whisper(&format!("{}, {seconds:.1} s", hand.meter.total()));
    }
    Ok(exit)
}

async fn build(args: &args::Agent, journal: Option<&Journal>) -> Result<Agent<'static>> {
    let repository = Repository::open(&args.root).map_err(|error| {
        Error::new(ErrorKind::Config, format!("{}; name another --root", error.message()))
    })?;
    let mut tools = repository.tools();
    for server in &args.mcp {
        for tool in Mcp::connect(server).await?.tools() {
            let mut name = tool.name().to_owned();
            while tools.iter().any(|other| other.name() == name) {
                name.insert_str(0, "mcp_");
            }
            tools.push(tool.named(name));
        }
    }
    let mut agent = agent(SYSTEM)
        .with_all(tools)
        .allow(&args.allow)
        .turns(args.max_turns as usize)
        .until(repository.citations_exist());
    if let Some(time) = args.how.keep.time() {
        agent = agent.tool_time(time);
    }
    if let Some(journal) = journal {
        agent = agent.journal(journal);
    }
    if args.judge {
        agent = agent.until(JUDGE).evidence(move |answer| repository.cited_lines(answer));
    }
    Ok(agent)
}

/// Tools with effects are asked about; once the run is interrupted, nobody is asked and no tool is let through any more.
fn in_hand(agent: Agent<'static>, stop: &Stop, progress: &Progress) -> Agent<'static> {
    let (thrown, stop, progress) = (stop.clone(), stop.clone(), progress.clone());
    agent
        .before(move |_: &ToolCall| {
            let interrupted = || Decision::Deny("interrupted".to_owned());
            ready(if thrown.is_thrown() { interrupted() } else { Decision::Allow })
        })
        .ask(move |question| {
            let (stop, answer) = (stop.clone(), ask(question, progress.clone()));
            Box::pin(async move { answer.await.filter(|_| !stop.is_thrown()) })
        })
}

/// One line a turn, before its tools run.
fn listen(progress: Progress, tell: bool) -> impl Fn(&Path, &Event) + Send + Sync + 'static {
    move |_, event| {
        if tell && matches!(event, Event::Turn { .. }) {
            progress.aside(|| say(&event.to_string()));
        }
    }
}

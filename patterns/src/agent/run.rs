//! The loop: ask, run the tools, give their results back, until the model is done.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use futures::future::{BoxFuture, FutureExt};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::context::clear_results;
use super::guard::{Denied, Stopped, ToolCall, outcome_of, written};
use super::{Agent, AgentEnd, Agented};
use crate::answer::wrap;
use crate::error::{ErrorKind, Result};
use crate::event::Event;
use crate::flow::Under;
use crate::judge::Verdict;
use crate::layers::Effect;
use crate::llm::{Llm, Request, ToolChoice};
use crate::message::{Block, Message, Role, ToolUse};
use crate::outcome::fan_out;
use crate::path::Path;
use crate::reply::{Reply, Stop, Usage};
use crate::tools::Tool;

/// One run of an agent.
pub(super) struct Run<'r, 'f> {
    agent: &'r Agent<'f>,
    llm: Counted<'r>,
    input: &'r str,
    request: Request,
    turns: usize,
    text: String,
    verdict: Option<Verdict>,
    judged: usize,
    denied: Vec<Denied>,
    runs: usize,
    /// When the tools have to be done.
    tools_end: Option<Instant>,
    earlier: HashMap<(String, String), (usize, u64)>,
}

impl<'r, 'f> Run<'r, 'f> {
    pub(super) fn new(agent: &'r Agent<'f>, llm: &'r dyn Llm, input: &'r str) -> Self {
        let request = Request { messages: vec![Message::user(input)], ..agent.request() };
        Self {
            agent,
            llm: Counted { llm, usage: Mutex::default() },
            input,
            request,
            turns: 0,
            text: String::new(),
            verdict: None,
            judged: 0,
            denied: Vec::new(),
            runs: 0,
            tools_end: agent.tool_time.map(crate::time::after),
            earlier: HashMap::new(),
        }
    }

    pub(super) async fn go(mut self) -> Result<Agented> {
        let why = loop {
            match self.turn().await {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(why)) => break why,
                Err(error) if self.turns == 0 => return Err(error),
                Err(error) => {
                    if let Some(partial) = error.partial() {
                        self.text = partial.to_owned();
                    }
                    break error.into();
                }
            }
        };
        let event = match (&why, &self.verdict) {
            (AgentEnd::Answered, Some(verdict)) if !verdict.accepted => {
                Some(Event::Degraded { reason: format!("the answer was not accepted: {}", verdict.feedback) })
            }
            (AgentEnd::Answered, _) => None,
            (AgentEnd::Turns, _)
            | (AgentEnd::Failed { kind: ErrorKind::OverBudget | ErrorKind::Cap, .. }, _) => {
                Some(Event::Capped { reason: why.reason(self.turns) })
            }
            (AgentEnd::Failed { .. }, _) => None,
        };
        if let Some(event) = event {
            self.llm.note(Path::root(), event);
        }
        Ok(Agented {
            text: self.text,
            turns: self.turns,
            why,
            verdict: self.verdict,
            messages: self.request.messages,
            usage: self.llm.usage(),
            denied: self.denied,
        })
    }

    /// One call to the model, and what it asks for.
    async fn turn(&mut self) -> Result<ControlFlow<AgentEnd>> {
        let number = self.turns + 1;
        let reply = self.llm.call(self.request.clone().at(&format!("turn {number}"))).await?;
        self.turns = number;
        // a forced choice holds for the first turn only, or the loop could not end
        if matches!(self.request.tool_choice, ToolChoice::Any | ToolChoice::Tool(_)) {
            self.request.tool_choice = ToolChoice::Auto;
        }
        let uses: Vec<ToolUse<'_>> = reply.content.iter().filter_map(Block::as_tool_use).collect();
        self.llm.note(
            Path::from(&*format!("turn {number}")),
            Event::Turn {
                number,
                stop: reply.stop.as_str().to_owned(),
                usage: reply.usage,
                calls: uses.iter().map(|call| (call.name.to_owned(), input_of(*call))).collect(),
            },
        );
        let text = reply.text();
        if !text.trim().is_empty() {
            self.text = text.into_owned();
        }
        let last = number >= self.agent.turns;
        let results = match &reply.stop {
            // nobody would read the results
            Stop::ToolUse if last && !uses.is_empty() => None,
            Stop::ToolUse if !uses.is_empty() => Some(self.run_tools(number, &uses).await),
            _ => None,
        };
        let end = self.end_of(&reply, uses.is_empty(), last);
        let prompt_tokens = reply.usage.prompt_tokens() + reply.usage.output_tokens;
        if !reply.content.is_empty() {
            self.request.messages.push(Message { role: Role::Assistant, content: reply.content });
        }
        if let Some(content) = results {
            self.request.messages.push(Message { role: Role::User, content });
            if let Some((tokens, keep)) = self.agent.clear
                && prompt_tokens > tokens
                && clear_results(&mut self.request.messages, keep)
            {
                self.earlier.clear(); // what is gone may well be asked for again
            }
        }
        match end {
            Some(AgentEnd::Answered) => self.judge(last).await,
            Some(end) => Ok(ControlFlow::Break(end)),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    /// Why the loop ends with this reply, if it does.
    fn end_of(&self, reply: &Reply, no_uses: bool, last: bool) -> Option<AgentEnd> {
        match &reply.stop {
            Stop::ToolUse if no_uses => Some(AgentEnd::Failed {
                kind: ErrorKind::Protocol,
                reason: "the model stopped for a tool and called none".to_owned(),
            }),
            Stop::ToolUse | Stop::PauseTurn | Stop::Compaction => last.then_some(AgentEnd::Turns),
            // cut, refused, empty, or for a reason that nobody here knows: no tool of such a turn is run
            _ => Some(reply.answer().map_or_else(AgentEnd::from, |_| AgentEnd::Answered)),
        }
    }

    /// Runs the calls of a turn, those that may run at once, and gives the results in the order of the calls.
    async fn run_tools(&mut self, turn: usize, uses: &[ToolUse<'_>]) -> Vec<Block> {
        let agent = self.agent;
        let mut results: Vec<Option<Result<String, String>>> = Vec::new();
        let mut admitted: Vec<(usize, &Tool<'f>, ToolCall)> = Vec::new();
        let place = self.llm.place().join(&format!("turn {turn}"));
        for (n, call) in uses.iter().enumerate() {
            let runs_left = agent.tool_calls.is_none_or(|most| self.runs < most);
            let place = place.join(&place_of(n, call.name));
            results.push(match agent.admit(&place, turn, *call, runs_left).await {
                Ok((tool, call)) => {
                    self.runs += 1;
                    admitted.push((n, tool, call));
                    None
                }
                Err(Stopped::Wrong(message)) => Some(self.told(turn, *call, Err(message))),
                Err(Stopped::Denied(denied)) => {
                    let told = format!("{NOT_RUN}: {}", denied.reason);
                    self.denied.push(denied);
                    Some(self.told(turn, *call, Err(told)))
                }
                Err(Stopped::Done(result)) => {
                    self.runs += 1;
                    Some(self.told(turn, *call, result))
                }
            });
        }
        // tools with effects never run at the same time: they take their turns here, in the order of the calls
        let effects = tokio::sync::Mutex::new(());
        let jobs: Vec<BoxFuture<'_, Result<String, String>>> = admitted
            .iter()
            .map(|(n, tool, call)| {
                run_one(agent, &self.llm, tool, call, *n, &effects, self.tools_end).boxed()
            })
            .collect();
        fan_out(jobs, agent.at_once, |job, result| {
            let n = admitted[job].0;
            results[n] = Some(self.told(turn, uses[n], result));
            ControlFlow::Continue(())
        })
        .await;
        let blocks = uses.iter().zip(results).map(|(call, result)| {
            let result = result.unwrap_or_else(|| Err(NOT_RUN.to_owned()));
            let is_error = result.is_err();
            let (Ok(mut text) | Err(mut text)) = result;
            let note = self.repeated(turn, *call, &text);
            text.push_str(&note);
            Block::tool_result(call.id, &text, is_error)
        });
        blocks.collect()
    }

    /// Cuts a result to the length that the model is given, and tells of it.
    fn told(
        &self,
        turn: usize,
        call: ToolUse<'_>,
        mut result: Result<String, String>,
    ) -> Result<String, String> {
        let (Ok(text) | Err(text)) = &mut result;
        if let Some(tool) = self.agent.offered().find(|tool| tool.name() == call.name) {
            *text = tool.capped(std::mem::take(text), self.agent.output_cap);
        }
        let characters = text.chars().count();
        let event = Event::ToolResult {
            id: call.id.to_owned(),
            name: call.name.to_owned(),
            characters,
            error: result.as_ref().err().cloned(),
        };
        self.llm.note(Path::from(&*format!("turn {turn}")), event);
        result
    }

    /// What is said when a call and its result are the same as before. The same call with another result (a job that is
    /// waited for) is no repetition.
    fn repeated(&mut self, turn: usize, call: ToolUse<'_>, text: &str) -> String {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let result = hasher.finish();
        match self.earlier.insert((call.name.to_owned(), input_of(call).to_string()), (turn, result)) {
            Some((earlier, same)) if same == result => format!(
                "\n[this call and its result are the same as in turn {earlier}. Asking again changes nothing: \
                 use what you have, or ask differently.]"
            ),
            _ => String::new(),
        }
    }

    /// Holds the answer against the agent's checks; asks for a better one while rounds and turns are left.
    async fn judge(&mut self, last: bool) -> Result<ControlFlow<AgentEnd>> {
        if self.agent.checks.is_empty() {
            return Ok(ControlFlow::Break(AgentEnd::Answered));
        }
        self.judged += 1;
        let verdict = self.verdict().await?;
        self.llm.note(
            Path::root(),
            Event::Judged {
                number: self.judged,
                accepted: verdict.accepted,
                score: verdict.score,
                feedback: (!verdict.feedback.is_empty()).then(|| verdict.feedback.clone()),
            },
        );
        let over = verdict.accepted || last || self.judged >= self.agent.rounds;
        if !over {
            let feedback =
                if verdict.feedback.is_empty() { "It was not accepted." } else { &verdict.feedback };
            // a call in the answer itself never ran; the Messages API wants each answered, before anything else is said
            let mut content: Vec<Block> = self.request.messages.last().map_or_else(Vec::new, |answer| {
                let calls = answer.content.iter().filter_map(Block::as_tool_use);
                calls.map(|call| Block::tool_result(call.id, NOT_RUN, true)).collect()
            });
            content.push(Block::text(&format!(
                "Your answer will not do yet:\n{}\n\nMend what is wrong, with the tools where you need them, and give the \
                 whole answer again.",
                wrap("feedback", feedback)
            )));
            self.request.messages.push(Message { role: Role::User, content });
        }
        self.verdict = Some(verdict);
        Ok(if over { ControlFlow::Break(AgentEnd::Answered) } else { ControlFlow::Continue(()) })
    }

    /// What the checks say of the answer and of its evidence; the first that does not accept it decides.
    async fn verdict(&self) -> Result<Verdict> {
        let llm = Under::new(&self.llm, format!("check {}", self.judged));
        let evidence = self.agent.evidence.as_ref().map(|evidence| evidence(&self.text)).unwrap_or_default();
        let mut verdict = None;
        for check in &self.agent.checks {
            let text = if check.is_judge() && !evidence.is_empty() {
                format!("{}\n\n{}", self.text, wrap("evidence", &evidence))
            } else {
                self.text.clone()
            };
            let said = check.assess(&llm, self.input, &text, true).await?.unwrap_or_else(|unread| Verdict {
                accepted: false,
                rating: None,
                score: None,
                feedback: format!("the verdict cannot be read: {unread}"),
            });
            if !said.accepted {
                return Ok(said);
            }
            verdict = Some(said);
        }
        Ok(verdict.unwrap_or(Verdict { accepted: true, rating: None, score: None, feedback: String::new() }))
    }
}

const NOT_RUN: &str = "this call was not run";

/// The segment of a call's path: the flow behind the tool is in it, and the journal knows an effect by it.
fn place_of(n: usize, name: &str) -> String {
    format!("call {} {name}", n + 1)
}

const TIME_OVER: &str = "the time for tools is over";

/// Runs one call, told before it starts.
async fn run_one(
    agent: &Agent<'_>,
    llm: &dyn Llm,
    tool: &Tool<'_>,
    call: &ToolCall,
    n: usize,
    effects: &tokio::sync::Mutex<()>,
    end: Option<Instant>,
) -> Result<String, String> {
    let _in_turn = if tool.has_effects() { Some(effects.lock().await) } else { None };
    if end.is_some_and(|end| Instant::now() >= end) {
        return Err(format!("{NOT_RUN}: {TIME_OVER}"));
    }
    let turn = Under::new(llm, format!("turn {}", call.turn));
    turn.note(
        Path::root(),
        Event::ToolCall { id: call.id.clone(), name: call.name.clone(), input: call.input.clone() },
    );
    let place = Under::new(&turn, place_of(n, &call.name));
    let run = async {
        let run = tool.start(&place, call.input.clone());
        match end {
            None => run.await,
            Some(end) => timeout_at(end, run).await.unwrap_or_else(|_| Err(tool.stopped(TIME_OVER))),
        }
    };
    let mut result = match &agent.journal {
        Some(journal) if tool.has_effects() => match journal.effect(&place.place(), &call.to_string()) {
            Ok(Effect::New(pending) | Effect::Unsure(pending)) => {
                let result = run.await;
                match pending.done(&written(&result)) {
                    Ok(()) => result,
                    Err(error) => {
                        Err(format!("it ran, but that could not be written down: {}", error.message()))
                    }
                }
            }
            Ok(Effect::Done(result)) => outcome_of(result),
            Err(error) => Err(format!("{NOT_RUN}: {}", error.message())),
        },
        _ => run.await,
    };
    for hook in &agent.after {
        result = hook.look(call, result).await;
    }
    result
}

/// The arguments for a log line: JSON that cannot be read is shown as the text it is.
fn input_of(call: ToolUse<'_>) -> Value {
    serde_json::from_str(call.input.get()).unwrap_or_else(|_| Value::String(call.input.get().to_owned()))
}

/// Adds up what the calls of the agent, its subagents and its judge use.
struct Counted<'r> {
    llm: &'r dyn Llm,
    usage: Mutex<Usage>,
}

impl Counted<'_> {
    fn usage(&self) -> Usage {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Llm for Counted<'_> {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        async move {
            let reply = self.llm.call(request).await;
            let used = match &reply {
                Ok(reply) => Some(reply.usage),
                Err(error) => error.usage().copied(),
            };
            if let Some(used) = used {
                *self.usage.lock().unwrap_or_else(PoisonError::into_inner) += used;
            }
            reply
        }
        .boxed()
    }
    fn note(&self, path: Path, event: Event) {
        self.llm.note(path, event);
    }
    fn model(&self, request: &Request) -> Option<String> {
        self.llm.model(request)
    }
    fn place(&self) -> Path {
        self.llm.place()
    }
}

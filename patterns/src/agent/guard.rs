//! What stands between a call that the model asks for and the tool: names, arguments, hooks, the limit, a person.

use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use serde::Serialize;
use serde_json::Value;

use super::Agent;
use crate::gate::Question;
use crate::message::ToolUse;
use crate::path::Path;
use crate::tools::Tool;

/// A call of a tool: what hooks see, and what a denial names.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolCall {
    /// The turn in which the model asked for it, from 1.
    pub turn: usize,
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments.
    pub input: Value,
}

/// As `refund({"order":"A-7"})`. A person decides by what is shown here, so characters that have no shape or turn the
/// direction of the text are spelled out, as JSON allows.
impl fmt::Display for ToolCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name)?;
        for c in self.input.to_string().chars() {
            if c.is_control() || is_shapeless(c) {
                let mut units = [0; 2];
                c.encode_utf16(&mut units).iter().try_for_each(|unit| write!(f, "\\u{unit:04x}"))?;
            } else {
                write!(f, "{c}")?;
            }
        }
        f.write_str(")")
    }
}

/// Joiners, marks of direction, tags: what is there and cannot be seen.
fn is_shapeless(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// What a hook says of a call before it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Nothing against it. The other hooks and the person are still asked.
    Allow,
    /// It does not run, for this reason; the model is told.
    Deny(String),
    /// It runs only if a person says `yes`, even when the tool is allowed beforehand or has no effects.
    Ask,
    /// It runs with these arguments instead. They are held against the schema, and the next hook sees them.
    Rewrite(Value),
}

/// A call that did not run because a hook, a person or nobody's answer stood against it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Denied {
    /// The call.
    pub call: ToolCall,
    /// Why.
    pub reason: String,
}

pub(super) mod sealed {
    use super::{Decision, ToolCall};

    /// Proves that the future of an async closure is `Send`, which `AsyncFn` alone cannot say on stable Rust.
    pub trait SendBefore<'a> {
        type Future: Future<Output = Decision> + Send;
        fn start(&'a self, call: &'a ToolCall) -> Self::Future;
    }

    impl<'a, F, Fut> SendBefore<'a> for F
    where
        F: Fn(&'a ToolCall) -> Fut,
        Fut: Future<Output = Decision> + Send,
    {
        type Future = Fut;
        fn start(&'a self, call: &'a ToolCall) -> Fut {
            self(call)
        }
    }

    /// The same for a hook that sees a result.
    pub trait SendAfter<'a> {
        type Future: Future<Output = Result<String, String>> + Send;
        fn start(&'a self, call: &'a ToolCall, result: Result<String, String>) -> Self::Future;
    }

    impl<'a, F, Fut> SendAfter<'a> for F
    where
        F: Fn(&'a ToolCall, Result<String, String>) -> Fut,
        Fut: Future<Output = Result<String, String>> + Send,
    {
        type Future = Fut;
        fn start(&'a self, call: &'a ToolCall, result: Result<String, String>) -> Fut {
            self(call, result)
        }
    }
}

/// A hook before a tool.
pub(super) trait Before: Send + Sync {
    fn decide<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Decision>;
}

impl<F: for<'a> sealed::SendBefore<'a> + Send + Sync> Before for F {
    fn decide<'a>(&'a self, call: &'a ToolCall) -> BoxFuture<'a, Decision> {
        self.start(call).boxed()
    }
}

/// A hook after a tool.
pub(super) trait After: Send + Sync {
    fn look<'a>(
        &'a self,
        call: &'a ToolCall,
        result: Result<String, String>,
    ) -> BoxFuture<'a, Result<String, String>>;
}

impl<F: for<'a> sealed::SendAfter<'a> + Send + Sync> After for F {
    fn look<'a>(
        &'a self,
        call: &'a ToolCall,
        result: Result<String, String>,
    ) -> BoxFuture<'a, Result<String, String>> {
        self.start(call, result).boxed()
    }
}

pub(super) type Person<'f> = Arc<dyn Fn(Question) -> BoxFuture<'static, Option<String>> + Send + Sync + 'f>;

/// Why a call does not run; the model is told.
pub(super) enum Stopped {
    /// It is wrong: no such tool, wrong arguments, the limit is used up.
    Wrong(String),
    /// Somebody stands against it.
    Denied(Denied),
    /// It ran before the run was resumed, and this came of it.
    Done(Result<String, String>),
}

impl<'f> Agent<'f> {
    /// Looks at a call before it runs: the name, the arguments, then the hooks, and the person last, so that nobody is
    /// asked about a call that cannot run, or did.
    pub(super) async fn admit(
        &self,
        place: &Path,
        turn: usize,
        asked: ToolUse<'_>,
        runs_left: bool,
    ) -> Result<(&Tool<'f>, ToolCall), Stopped> {
        let Some(tool) = self.offered().find(|tool| tool.name() == asked.name) else {
            let names: Vec<_> = self.offered().map(Tool::name).collect();
            let list = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
            return Err(Stopped::Wrong(format!("no tool is named `{}`; the tools are: {list}", asked.name)));
        };
        if !runs_left {
            return Err(Stopped::Wrong(format!(
                "the limit of {} tool calls is used up; answer with what you have and say what is missing",
                self.tool_calls.unwrap_or_default()
            )));
        }
        let input = serde_json::from_str(asked.input.get())
            .map_err(|error| Stopped::Wrong(format!("the arguments cannot be read: {error}")))?;
        let input = tool.validate(input).map_err(Stopped::Wrong)?;
        let mut call = ToolCall { turn, id: asked.id.to_owned(), name: asked.name.to_owned(), input };
        let mut ask = tool.has_effects() && !self.allowed.iter().any(|name| name == tool.name());
        for hook in &self.before {
            match hook.decide(&call).await {
                Decision::Allow => {}
                Decision::Deny(reason) => return Err(denied(call, reason)),
                Decision::Ask => ask = true,
                Decision::Rewrite(input) => call.input = tool.validate(input).map_err(Stopped::Wrong)?,
            }
        }
        let mut about = "";
        if let Some(journal) = self.journal.as_ref().filter(|_| tool.has_effects()) {
            match journal.known(place, &call.to_string()) {
                Some(Some(result)) => return Err(Stopped::Done(outcome_of(result))),
                Some(None) => (ask, about) = (true, UNSURE),
                None => {}
            }
        }
        if ask && let Err(reason) = self.approve(&call, about).await {
            let about = if about.is_empty() { "" } else { "; " }.to_owned() + about;
            return Err(denied(call, reason + &about));
        }
        Ok((tool, call))
    }

    async fn approve(&self, call: &ToolCall, about: &str) -> Result<(), String> {
        let Some(person) = &self.person else {
            return Err("it needs a person's yes, and nobody can be asked here".to_owned());
        };
        let text = if about.is_empty() { call.to_string() } else { format!("{call}\n{about}") };
        match person(Question { gate: call.name.clone(), text }).await {
            Some(line) if line.trim() == "yes" => Ok(()),
            Some(_) => Err("the person did not say yes".to_owned()),
            None => Err("nobody answered".to_owned()),
        }
    }
}

const UNSURE: &str = "an earlier run ended in the middle of this very call, so it may have been done already";

fn denied(call: ToolCall, reason: String) -> Stopped {
    Stopped::Denied(Denied { call, reason })
}

/// What came of a tool with effects, for the journal.
pub(super) fn written(result: &Result<String, String>) -> String {
    serde_json::to_string(result).unwrap_or_default()
}

pub(super) fn outcome_of(written: String) -> Result<String, String> {
    serde_json::from_str(&written).unwrap_or(Ok(written))
}

//! Replies from a file, for tests, examples and rehearsals.

use std::fmt;
use std::path::Path as FilePath;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use serde::Deserialize;

use super::kind_of_status;
use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::llm::{Expect, Llm, Request};
use crate::message::Block;
use crate::reply::{Choice, Reply, Stop, Usage};

/// Replies from a file of JSON Lines, or built in code. Clones share what has been used.
///
/// Each line answers one call, or with `"repeat": true` every call that it matches. The first unused line that
/// matches is taken; when none does, the call fails with [`Unscripted`](ErrorKind::Unscripted), which shows the
/// request and the lines left. What is matched is the request, never the order in which calls happen to start: give
/// calls that run side by side lines that tell them apart, and the run is the same every time.
///
/// | field | meaning |
/// |---|---|
/// | `path` | the call's [path](crate::Path), where `*` stands for anything: `route`, `*/judge`, `sections/*` |
/// | `text` | a part of the text of the last turn, or of a result of a tool in it |
/// | `reply` | the text of the reply |
/// | `content` | or its content blocks, as the Messages API has them |
/// | `stop` | why it stopped, as the Messages API spells it; by default `end_turn`, or `tool_use` if there is such a block |
/// | `error` | or an error: `{"kind": "overloaded", "status": 529, "message": "…", "retry_after": 1.5}`, of which kind or status must be there |
/// | `usage` | what it used: `{"input_tokens": 12, "output_tokens": 3}` |
/// | `delay` | milliseconds before the answer |
/// | `pace` | milliseconds after each word, when somebody hears the text as it is written |
/// | `repeat` | whether the line can be used again |
///
/// Empty lines, and lines that begin with `#`, are skipped. Where [one of a set of labels](Expect::OneOf) is wanted, a
/// reply that is nothing but one of the labels is that choice.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use patterns::Llm;
/// use patterns::providers::Script;
///
/// let script = Script::parse(r#"
///     {"text": "charged twice", "reply": "I am sorry. The second charge is refunded."}
///     {"reply": "Could you say more?", "repeat": true}
/// "#)?;
/// assert_eq!(script.ask("I was charged twice").await?, "I am sorry. The second charge is refunded.");
/// assert_eq!(script.ask("Help!").await?, "Could you say more?");
/// assert_eq!(script.unused(), Vec::<String>::new());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Script {
    name: String,
    lines: Arc<Mutex<Vec<Line>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(skip)]
    number: usize,
    #[serde(skip)]
    used: bool,
    path: Option<String>,
    text: Option<String>,
    reply: Option<String>,
    content: Option<Vec<Block>>,
    stop: Option<String>,
    error: Option<Failure>,
    #[serde(default)]
    usage: Usage,
    #[serde(default)]
    delay: u64,
    #[serde(default)]
    pace: u64,
    #[serde(default)]
    repeat: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    kind: Option<String>,
    status: Option<u16>,
    message: Option<String>,
    retry_after: Option<f64>,
}

impl Script {
    /// These replies, one a call, in any order of calls; for calls that follow one another that is in order.
    pub fn replies<R: Into<String>>(replies: impl IntoIterator<Item = R>) -> Self {
        let lines = replies.into_iter().map(|reply| Line { reply: Some(reply.into()), ..Line::default() });
        Self::new("replies", lines.collect())
    }

    /// The lines of a text.
    ///
    /// # Errors
    /// [`Config`](ErrorKind::Config) with the number of the line that is not understood.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_named("script", text)
    }

    /// The lines of a file.
    ///
    /// # Errors
    /// [`Config`](ErrorKind::Config) when the file cannot be read or has a line that is not understood.
    pub fn read(file: impl AsRef<FilePath>) -> Result<Self> {
        let file = file.as_ref();
        let text = std::fs::read_to_string(file).map_err(|error| {
            let message = format!("the script {} cannot be read: {error}", file.display());
            Error::new(ErrorKind::Config, message).with_source(error)
        })?;
        Self::parse_named(&file.display().to_string(), &text)
    }

    fn parse_named(name: &str, text: &str) -> Result<Self> {
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |what: String| {
                Error::new(
                    ErrorKind::Config,
                    format!("line {number} of the script {name} is not usable: {what}"),
                )
            };
            let line: Line = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            let answers = [line.reply.is_some(), line.content.is_some(), line.error.is_some()];
            if answers.iter().filter(|has| **has).count() != 1 {
                return Err(wrong("it needs one of `reply`, `content` and `error`".into()));
            }
            if let Some(failure) = &line.error {
                failure.kind().map_err(wrong)?;
            }
            lines.push(Line { number, ..line });
        }
        Ok(Self::new(name, lines))
    }

    fn new(name: &str, mut lines: Vec<Line>) -> Self {
        for (n, line) in lines.iter_mut().enumerate() {
            if line.number == 0 {
                line.number = n + 1;
            }
        }
        Self { name: name.to_owned(), lines: Arc::new(Mutex::new(lines)) }
    }

    /// The lines that no call has used, as `line 3 (path route/judge)`. A test ends with this being empty.
    pub fn unused(&self) -> Vec<String> {
        self.lines().iter().filter(|line| !line.used).map(ToString::to_string).collect()
    }

    fn lines(&self) -> MutexGuard<'_, Vec<Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, request: &Request) -> Result<Line> {
        let mut text = request.text();
        let last = request.messages.last().into_iter().flat_map(|message| &message.content);
        for result in last.filter_map(Block::as_tool_result) {
            text.push('\n');
            text.push_str(result.text);
        }
        let mut lines = self.lines();
        if let Some(line) = lines.iter_mut().find(|line| line.answers(request.path.as_str(), &text)) {
            line.used = true;
            return Ok(line.clone());
        }
        let left: Vec<_> = lines.iter().filter(|line| !line.used).map(ToString::to_string).collect();
        let left =
            if left.is_empty() { "none is left".to_owned() } else { format!("left are {}", left.join(", ")) };
        Err(Error::new(
            ErrorKind::Unscripted,
            format!(
                "no line of the script {} answers the call at `{}` whose last turn is \"{}\"; {left}",
                self.name,
                request.path,
                excerpt(&text, 200)
            ),
        ))
    }

    async fn answer(&self, request: &Request) -> Result<Reply> {
        let line = self.take(request)?;
        if line.delay > 0 {
            tokio::time::sleep(Duration::from_millis(line.delay)).await;
        }
        if let Some(failure) = line.error {
            return Err(failure.into_error());
        }
        let content = match (line.content, line.reply) {
            (Some(content), _) => content,
            (None, reply) => vec![Block::text(&reply.unwrap_or_default())],
        };
        let stop = match line.stop.as_deref() {
            None if content.iter().any(|block| block.as_tool_use().is_some()) => Stop::ToolUse,
            None => Stop::EndTurn,
            Some(reason) => Stop::named(reason),
        };
        let mut reply =
            Reply { content, stop, usage: line.usage, model: self.full_name(), ..Reply::default() };
        if let Expect::OneOf(one_of) = &request.expect
            && let Some(label) = one_of.find(&reply.text())
        {
            let label = label.name.clone();
            reply.choice = Some(Choice { label, reasoning: None, probabilities: Vec::new() });
        }
        if let Some(on_text) = &request.on_text {
            for piece in reply.text().split_inclusive(' ') {
                on_text.hear(piece);
                if line.pace > 0 {
                    tokio::time::sleep(Duration::from_millis(line.pace)).await;
                }
            }
        }
        Ok(reply)
    }

    fn full_name(&self) -> String {
        format!("script:{}", self.name)
    }
}

impl Line {
    fn answers(&self, path: &str, text: &str) -> bool {
        (self.repeat || !self.used)
            && self.path.as_deref().is_none_or(|pattern| matches(pattern, path))
            && self.text.as_deref().is_none_or(|part| text.contains(part))
    }
}

/// Whether `pattern`, in which `*` stands for anything, is the whole of `text`.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

impl Failure {
    fn kind(&self) -> Result<ErrorKind, String> {
        match (self.kind.as_deref(), self.status) {
            (Some(name), _) => {
                KINDS.into_iter().find(|(known, _)| *known == name).map(|(_, kind)| kind).ok_or_else(|| {
                    let known: Vec<_> = KINDS.iter().map(|(known, _)| *known).collect();
                    format!("`{name}` is no kind of error; there are {}", known.join(", "))
                })
            }
            (None, Some(status)) => Ok(kind_of_status(status)),
            (None, None) => Err("an error needs a `kind` or a `status`".into()),
        }
    }

    fn into_error(self) -> Error {
        let kind = self.kind().unwrap_or(ErrorKind::Server);
        let mut error =
            Error::new(kind, self.message.unwrap_or_else(|| format!("the script says so: {kind}")));
        if let Some(status) = self.status {
            error = error.with_status(status);
        }
        match self.retry_after.map(Duration::try_from_secs_f64) {
            Some(Ok(wait)) => error.with_retry_after(wait),
            _ => error,
        }
    }
}

/// The kinds of error that a call can end with, as a script spells them.
const KINDS: [(&str, ErrorKind); 14] = [
    ("config", ErrorKind::Config),
    ("invalid_request", ErrorKind::InvalidRequest),
    ("authentication", ErrorKind::Authentication),
    ("permission", ErrorKind::Permission),
    ("not_found", ErrorKind::NotFound),
    ("rate_limited", ErrorKind::RateLimited),
    ("overloaded", ErrorKind::Overloaded),
    ("server", ErrorKind::Server),
    ("connection", ErrorKind::Connection),
    ("timed_out", ErrorKind::TimedOut),
    ("protocol", ErrorKind::Protocol),
    ("truncated", ErrorKind::Truncated),
    ("refused", ErrorKind::Refused),
    ("context_window", ErrorKind::ContextWindow),
];

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.number)?;
        match (&self.path, &self.text) {
            (Some(path), Some(text)) => write!(f, " (path {path}, text \"{}\")", excerpt(text, 60)),
            (Some(path), None) => write!(f, " (path {path})"),
            (None, Some(text)) => write!(f, " (text \"{}\")", excerpt(text, 60)),
            (None, None) => write!(f, " (any call)"),
        }
    }
}

impl Llm for Script {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply>> {
        async move {
            self.answer(&request).await.map_err(|error| error.at(&request.path).with_model(self.full_name()))
        }
        .boxed()
    }

    fn model(&self, _: &Request) -> Option<String> {
        Some(self.full_name())
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("name", &self.name).field("unused", &self.unused()).finish()
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;
    use crate::llm::{OnText, OneOf};

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, path, yes) in [
            ("route", "route", true),
            ("route", "route/billing", false),
            ("route*", "route/billing", true),
            ("*/judge", "refine/draft 2/judge", true),
            ("*/judge", "judge", false),
            ("*judge", "judge", true),
            ("refine/*/judge", "refine/draft 1/judge", true),
            ("refine/*/judge", "refine/judge", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*ba", "aba", true),
            ("ab*ba", "aba", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, path), yes, "{pattern} {path}");
        }
    }

    #[tokio::test]
    async fn the_request_decides_and_not_the_order_of_calls() {
        let script = || {
            Script::parse(
                r#"
                # the two branches run side by side
                {"path": "sections/customers", "reply": "c"}
                {"path": "sections/*", "text": "staff", "reply": "s"}
                {"path": "sections/*", "reply": "other"}
                "#,
            )
            .unwrap()
        };
        let call = |path: &str, text: &str| Request { path: path.into(), ..Request::new(text) };
        let calls = [
            call("sections/staff", "the staff"),
            call("sections/customers", "the staff's customers"),
            call("sections/press", "the press"),
        ];
        let answers = async |script: &Script, order: [usize; 3]| {
            let calls = order.map(|n| script.call(calls[n].clone()));
            let replies = join_all(calls).await;
            let mut texts: Vec<_> = order
                .into_iter()
                .zip(replies.into_iter().map(|reply| reply.unwrap().text().into_owned()))
                .collect();
            texts.sort();
            texts
        };
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let script = script();
            let texts = answers(&script, order).await;
            assert_eq!(texts, [(0, "s".into()), (1, "c".into()), (2, "other".into())]);
            assert!(script.unused().is_empty());
        }
    }

    #[tokio::test]
    async fn a_call_that_no_line_answers_shows_itself_and_what_is_left() {
        let script = Script::parse(
            "{\"path\": \"route\", \"reply\": \"a\"}\n\n{\"text\": \"refund\", \"reply\": \"b\", \"repeat\": true}",
        )
        .unwrap();
        let request = Request { path: "route/bug".into(), ..Request::new("It\ncrashes") };
        let error = script.call(request).await.unwrap_err();
        assert_eq!((error.kind(), error.is_transient()), (ErrorKind::Unscripted, false));
        assert_eq!(error.path().as_str(), "route/bug");
        for part in ["`route/bug`", "\"It crashes\"", "line 1 (path route), line 3 (text \"refund\")"] {
            assert!(error.message().contains(part), "{error}");
        }
        script.ask("refund").await.unwrap();
        script.ask("refund again").await.unwrap();
        assert_eq!(script.clone().unused(), ["line 1 (path route)"]);
        let error = Script::replies(["a"; 0]).ask("x").await.unwrap_err();
        assert!(error.message().ends_with("none is left"), "{error}");
    }

    #[tokio::test]
    async fn replies_are_given_in_order_once() {
        let script = Script::replies(["a", "b"]);
        assert_eq!(script.ask("x").await.unwrap(), "a");
        assert_eq!(script.ask("x").await.unwrap(), "b");
        assert_eq!(script.ask("x").await.unwrap_err().kind(), ErrorKind::Unscripted);
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_can_say_all_that_a_model_can() {
        let script = Script::parse(
            r#"
            {"text": "1", "content": [{"type": "text", "text": "x"}, {"type": "tool_use", "id": "t", "name": "n", "input": {}}]}
            {"text": "2", "reply": "cut", "stop": "max_tokens", "usage": {"input_tokens": 4, "output_tokens": 2}}
            {"text": "3", "error": {"status": 529, "retry_after": 1.5}}
            {"text": "4", "error": {"kind": "connection", "message": "gone"}}
            {"text": "5", "reply": "slow reply", "delay": 2000}
            {"text": "6", "reply": "no", "stop": "refusal"}
            "#,
        )
        .unwrap();
        let call = |text: &str| script.call(Request::new(text));
        assert_eq!(call("1").await.unwrap().stop, Stop::ToolUse);
        let cut = call("2").await.unwrap();
        assert_eq!(
            (cut.stop, cut.usage.total_tokens(), cut.model.as_str()),
            (Stop::MaxTokens, 6, "script:script")
        );
        let busy = call("3").await.unwrap_err();
        assert_eq!((busy.kind(), busy.status()), (ErrorKind::Overloaded, Some(529)));
        assert_eq!(busy.retry_after(), Some(Duration::from_millis(1_500)));
        let gone = call("4").await.unwrap_err();
        assert_eq!((gone.kind(), gone.message(), gone.is_transient()), (ErrorKind::Connection, "gone", true));

        let pieces = Arc::<Mutex<Vec<String>>>::default();
        let heard = Arc::clone(&pieces);
        let on_text = OnText::new(move |piece: &str| heard.lock().unwrap().push(piece.to_owned()));
        let before = tokio::time::Instant::now();
        script.call(Request { on_text: Some(on_text), ..Request::new("5") }).await.unwrap();
        assert_eq!(before.elapsed(), Duration::from_secs(2));
        assert_eq!(*pieces.lock().unwrap(), ["slow ", "reply"]);
        assert_eq!(script.ask("6").await.unwrap_err().kind(), ErrorKind::Refused);
    }

    #[tokio::test]
    async fn a_label_alone_is_a_choice() {
        let script = Script::replies(["Billing", "perhaps billing"]);
        let request = Request::new("x").expect(Expect::OneOf(OneOf::new(["billing", "bug"])));
        let choice = script.call(request.clone()).await.unwrap().choice.unwrap();
        assert_eq!(choice.label, "billing");
        assert_eq!(script.call(request).await.unwrap().choice, None);
    }

    #[test]
    fn a_line_that_is_not_understood_is_named() {
        for (line, says) in [
            ("{", "EOF"),
            (r#"{"repyl": "x"}"#, "repyl"),
            (r#"{"path": "x"}"#, "it needs one of"),
            (r#"{"reply": "x", "error": {"status": 500}}"#, "it needs one of"),
            (r#"{"error": {"message": "x"}}"#, "needs a `kind` or a `status`"),
            (r#"{"error": {"kind": "overload"}}"#, "there are config, "),
            (r#"{"content": [{"type": "text"}]}"#, "text"),
        ] {
            let error = Script::parse(&format!("\n{line}\n")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(
                error.message().starts_with("line 2 of the script") && error.message().contains(says),
                "{error}"
            );
        }
    }
}

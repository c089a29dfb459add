//! Flows read from TOML files.
//!
//! A flow file holds a whole flow, patterns in patterns, and is checked before the first call: unknown keys, missing or
//! unused variables, two ways of one label, ways that nothing can reach. Each defect names its line and key.
//!
//! ```toml
//! about = "Routes a support ticket to its desk and answers it."
//!
//! [flow]
//! route = "Which desk should answer this ticket?"
//! otherwise = "Answer helpfully; say what is missing."
//!
//! [[flow.when]]
//! label = "billing"
//! about = "payments, invoices, refunds and prices"
//! flow = "You are a billing specialist. Explain the charge to {whom}."
//!
//! [[flow.when]]
//! label = "bug"
//! about = "something is broken"
//! matches = "panicked at"          # a rule: no call is made for such a ticket
//! flow = { use = "engineer" }
//!
//! [parts.engineer]
//! refine = { prompt = "Give numbered steps.", max_tokens = 600 }
//! until = ["every step can be followed by a layman", { at_most_words = 200 }]
//! rounds = 2
//!
//! [vars]
//! whom = "the customer"
//! ```
//!
//! A flow is a text (a prompt), or a table with one of the keys `prompt`, `prompt_file`, `chain`, `route`, `sections`,
//! `for_each`, `vote`, `orchestrate`, `refine` or `use`; each may have a `model` of its own.

mod build;
mod checks;
mod kinds;
mod read;

use std::fmt;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use serde::Serialize;

pub use self::read::Defect;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::Flow;
use crate::gate::Question;
use crate::llm::Llm;
use crate::shape::Shape;

use self::build::{Build, Pattern};

/// How a person is asked at a gate: the question in, the line typed out, `None` at the end of input.
pub type Ask = Arc<dyn Fn(Question) -> BoxFuture<'static, Option<String>> + Send + Sync>;

/// What a flow file is read with.
#[derive(Clone, Default)]
pub struct Options {
    /// The name of the file, for messages.
    pub name: String,
    /// The folder in which `prompt_file` and the like are looked up. `None`: no other file is read.
    pub folder: Option<PathBuf>,
    /// Values of variables, before those of the file's `[vars]`.
    pub set: Vec<(String, String)>,
    /// How a person is asked. `None`: a gate with `person` is a defect.
    pub ask: Option<Ask>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("name", &self.name)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// A flow from a file; a flow like any other.
#[must_use = "flows do nothing unless run"]
pub struct FlowFile {
    about: String,
    flow: Pattern,
    size: Size,
}

/// What a run of a flow can cost depends on, beside the number of its calls.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Size {
    /// The flow's own words in bytes, those of the files that it names included: no prompt holds more of them.
    pub words: usize,
    /// The most tokens that a part asks for as its reply; 0 when no part says it.
    pub max_tokens: u32,
    /// The models that parts name.
    pub models: Vec<String>,
}

/// What came of a flow file: the outcome of its outermost pattern.
#[derive(Debug, Serialize)]
pub struct Ended {
    /// The outermost pattern: `route`, `vote` …
    pub pattern: &'static str,
    /// The pattern's outcome with all its fields, as documented there ([`Routed`](crate::Routed),
    /// [`Tally`](crate::Tally) …).
    pub outcome: serde_json::Value,
    /// The text of the outcome; `None` where there is no answer, as of a vote without a winner.
    pub text: Option<String>,
    /// Why there is no text.
    #[serde(skip)]
    pub error: Option<Error>,
}

impl TryFrom<Ended> for String {
    type Error = Error;
    fn try_from(ended: Ended) -> Result<String> {
        match (ended.text, ended.error) {
            (Some(text), _) => Ok(text),
            (None, Some(error)) => Err(error),
            (None, None) => Err(Error::new(ErrorKind::Empty, "the flow has no answer")),
        }
    }
}

impl FlowFile {
    /// Reads a flow file; prompts in files are looked up beside it.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the file cannot be read, else as [`parse`](Self::parse).
    pub fn read(file: impl AsRef<FilePath>) -> Result<Self> {
        let file = file.as_ref();
        let text = std::fs::read_to_string(file).map_err(|error| {
            Error::new(ErrorKind::Io, format!("{} cannot be read: {error}", file.display()))
        })?;
        let folder = file.parent().map(FilePath::to_owned);
        Self::parse(&text, &Options { name: file.display().to_string(), folder, ..Options::default() })
    }

    /// Reads a flow from TOML.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] with every defect and its line; the cause is [`Defects`].
    pub fn parse(text: &str, options: &Options) -> Result<Self> {
        let name = options.name.clone();
        let (about, flow, size) =
            Build::file(text, options).map_err(|defects| Defects { name, defects }.into_error())?;
        let file = Self { about, flow, size };
        file.check()?; // what only the patterns themselves can see
        Ok(file)
    }

    /// What the cost of a run depends on, beside the number of its calls.
    pub fn size(&self) -> &Size {
        &self.size
    }

    /// The label that a route gives to `input`, without going its way; the text of the outcome is the label.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] when the outermost pattern is no route, else those of [`Route::decide`](crate::Route::decide).
    pub async fn decide(&self, llm: &dyn Llm, input: &str) -> Result<Ended> {
        self.flow.decide(llm, input).await
    }

    /// The plan that an orchestrator makes for `input`, without running it; the text of the outcome is the plan as JSON.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] when the outermost pattern is no orchestrator, else those of
    /// [`Orchestrate::plan_only`](crate::Orchestrate::plan_only).
    pub async fn plan_only(&self, llm: &dyn Llm, input: &str) -> Result<Ended> {
        self.flow.plan_only(llm, input).await
    }

    /// What the file says of itself under `about`.
    pub fn about(&self) -> &str {
        &self.about
    }
}

/// Everything that is wrong in a flow file: the cause of the [`ErrorKind::Config`] error of [`FlowFile::parse`].
#[derive(Clone, Debug)]
pub struct Defects {
    /// The name of the file.
    pub name: String,
    /// The defects, by line.
    pub defects: Vec<Defect>,
}

impl Defects {
    fn into_error(self) -> Error {
        Error::new(ErrorKind::Config, self.to_string()).with_source(self)
    }
}

impl fmt::Display for Defects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, defect) in self.defects.iter().enumerate() {
            write!(f, "{}{}, {defect}", if n > 0 { "\n" } else { "" }, self.name)?;
        }
        Ok(())
    }
}

impl std::error::Error for Defects {}

impl Flow for FlowFile {
    type Output = Ended;

    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<Ended>> {
        self.flow.end(llm, input).boxed()
    }

    fn check(&self) -> Result<()> {
        self.flow.check()
    }

    fn shape(&self) -> Shape {
        self.flow.shape()
    }
}

impl fmt::Debug for FlowFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowFile").field("about", &self.about).finish_non_exhaustive()
    }
}

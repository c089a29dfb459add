//! Tools: what a model in the [agent loop](crate::agent) may call, and this program runs.

#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "tools")]
mod repository;
mod schema;

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[cfg(feature = "mcp")]
pub use self::mcp::Mcp;
#[cfg(feature = "tools")]
pub use self::repository::{Citation, ListFiles, ReadFile, Repository, Search};
pub(crate) use self::schema::{Arguments, Limits};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::Flow;
use crate::llm::Llm;
use crate::shape::{Calls, Shape};

mod sealed {
    /// Names the future of an async function, which spares its callers a `'static` bound.
    pub trait AsyncTool<T>: Send + Sync {
        type Future: Future<Output = Result<String, String>> + Send;
        fn start(&self, args: T) -> Self::Future;
    }

    impl<T, F, Fut> AsyncTool<T> for F
    where
        F: Fn(T) -> Fut + Send + Sync,
        Fut: Future<Output = Result<String, String>> + Send,
    {
        type Future = Fut;
        fn start(&self, args: T) -> Fut {
            self(args)
        }
    }
}

/// A tool: a name, a description that says when to use it, and the code that runs.
///
/// The arguments are a type of your own: its JSON Schema, derived by [`schemars`](crate::schemars), is what the model sees,
/// with the doc comments of the fields as descriptions. It is strict: no other arguments are allowed. Whatever the model
/// sends is held against it before `run` sees it, and wrong arguments are answered by a message that says what would be
/// right. `Err` is told to the model as the result of a failed call, so let it say what to do instead.
///
/// `run` captures by reference or not at all; for state of its own write `move |args| { let db = db.clone(); async move { .. } }`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use patterns::{Flow, Llm, Reply, Request, tool};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Place {
///     /// The city, without its country.
///     city: String,
/// }
/// let weather = tool("weather", "The weather in a city, now.", async |place: Place| match place.city.as_str() {
///     "Oslo" => Ok("snow, -3 °C".to_owned()),
///     other => Err(format!("no station in `{other}`; Oslo has one")),
/// });
///
/// // a tool is a flow, too: its input is the JSON of its arguments
/// let llm = async |_: Request| Ok(Reply::text_of(r#"{"city": "Oslo"}"#));
/// let now = "Which city is meant? Answer with {\"city\": ..}.".then(weather);
/// assert_eq!(now.run(&llm, "How cold is Norway's capital?").await?, "snow, -3 °C");
/// # Ok(()) }
/// ```
pub fn tool<'f, T, F>(name: impl Into<String>, description: impl Into<String>, run: F) -> Tool<'f>
where
    T: DeserializeOwned + JsonSchema + 'f,
    F: AsyncFn(T) -> Result<String, String> + sealed::AsyncTool<T> + 'f,
{
    Tool::new(name.into(), description.into(), Arguments::of::<T>(), Typed { run, args: PhantomData })
}

/// A tool of the [agent loop](crate::agent); made by [`tool`] or [`Tool::flow`].
#[must_use = "a tool does nothing until it is given to an agent"]
pub struct Tool<'f> {
    name: String,
    description: String,
    arguments: Arguments,
    effects: bool,
    cap: Option<usize>,
    hint: String,
    timeout: Option<Duration>,
    shape: Option<Shape>,
    run: Box<dyn Run + 'f>,
}

/// Runs a tool on arguments that were held against its schema.
trait Run: Send + Sync {
    fn run<'a>(&'a self, llm: &'a dyn Llm, args: Value) -> BoxFuture<'a, Result<String, String>>;
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

struct Typed<F, T> {
    run: F,
    args: PhantomData<fn(T)>,
}

impl<T: DeserializeOwned, F: sealed::AsyncTool<T>> Run for Typed<F, T> {
    fn run<'a>(&'a self, _: &'a dyn Llm, args: Value) -> BoxFuture<'a, Result<String, String>> {
        match serde_json::from_value(args) {
            Ok(args) => self.run.start(args).boxed(),
            Err(error) => async move { Err(format!("invalid arguments: {error}")) }.boxed(),
        }
    }
}

/// The arguments of a flow as a tool.
#[derive(Deserialize, JsonSchema)]
struct Task {
    /// The whole task, with everything that is needed to do it: nothing else of the conversation is known.
    task: String,
}

struct FlowTool<F>(F);

impl<F: Flow> Run for FlowTool<F> {
    fn run<'a>(&'a self, llm: &'a dyn Llm, args: Value) -> BoxFuture<'a, Result<String, String>> {
        async move {
            let Task { task } = serde_json::from_value(args).map_err(|error| error.to_string())?;
            self.0.run_text(llm, &task).await.map_err(|error| match error.partial() {
                Some(partial) => format!("{}\nWhat there is so far:\n{partial}", error.message()),
                None => error.message().to_owned(),
            })
        }
        .boxed()
    }
    fn check(&self) -> Result<()> {
        self.0.check()
    }
}

impl<'f> Tool<'f> {
    fn new(name: String, description: String, arguments: Arguments, run: impl Run + 'f) -> Self {
        Self {
            name,
            description,
            arguments,
            effects: false,
            cap: None,
            hint: "Ask for less: a narrower range or a more specific question.".to_owned(),
            timeout: None,
            shape: None,
            run: Box::new(run),
        }
    }

    /// A flow as a tool, for instance an agent as the subagent of another. It is given a task in words and sees nothing
    /// else of the conversation; its text comes back, at most 4,000 characters of it unless [`cap`](Tool::cap) says
    /// otherwise.
    pub fn flow(name: impl Into<String>, description: impl Into<String>, flow: impl Flow + 'f) -> Self {
        let shape = Some(flow.shape());
        let tool = Self::new(name.into(), description.into(), Arguments::of::<Task>(), FlowTool(flow));
        Self { shape, ..tool }.cap(4_000, "Give a smaller task.")
    }

    /// Marks a tool that changes something outside: it runs only when a [person](crate::Agent::ask) says `yes` or it is
    /// [allowed](crate::Agent::allow) beforehand, and never at the same time as another such tool.
    pub fn with_effects(mut self) -> Self {
        self.effects = true;
        self
    }

    /// Sets the most characters of a result, and what is said when one is cut: how to ask for less. Default: the agent's
    /// [cap](crate::Agent::output_cap).
    pub fn cap(mut self, characters: usize, how_to_ask_for_less: impl Into<String>) -> Self {
        self.cap = Some(characters);
        self.hint = how_to_ask_for_less.into();
        self
    }

    /// Sets how long one run may take; after it the model is told that there was no result in time. Default: as long as it
    /// takes.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Gives it another name, for instance when two servers have a tool of the same one.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the JSON Schema of the arguments, for tools whose arguments are a [`Value`].
    pub fn schema(mut self, schema: Value) -> Self {
        self.arguments = Arguments::new(schema);
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it does and when to use it.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Whether it changes something outside.
    pub fn has_effects(&self) -> bool {
        self.effects
    }

    /// The JSON Schema of the arguments, as the model sees it.
    pub fn input_schema(&self) -> &Value {
        self.arguments.for_model()
    }

    pub(crate) fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// The flow behind the tool, if it calls a model.
    pub(crate) fn inner_shape(&self) -> Option<&Shape> {
        self.shape.as_ref()
    }

    /// Holds arguments against the schema.
    ///
    /// # Errors
    /// What is wrong and what would be right, to be told to the model.
    pub fn validate(&self, args: Value) -> Result<Value, String> {
        self.arguments.validate(args).map_err(|defects| {
            format!(
                "invalid arguments for `{}`: {defects}. The arguments are {}. Nothing was run; correct the call.",
                self.name,
                self.arguments.signature()
            )
        })
    }

    /// Validates the arguments and runs the tool. `llm` is for tools that are [flows](Tool::flow).
    ///
    /// # Errors
    /// What the model shall be told: wrong arguments, the tool's own message, or no result in time.
    pub async fn call(&self, llm: &dyn Llm, args: Value) -> Result<String, String> {
        self.start(llm, self.validate(args)?).await
    }

    /// Runs the tool on validated arguments.
    pub(crate) async fn start(&self, llm: &dyn Llm, args: Value) -> Result<String, String> {
        let run = self.run.run(llm, args);
        match self.timeout {
            None => run.await,
            Some(limit) => tokio::time::timeout(limit, run).await.unwrap_or_else(|_| {
                Err(self.stopped(&format!("it gave no result within {} s", limit.as_secs_f64())))
            }),
        }
    }

    /// What the model is told of a run that was stopped in the middle.
    pub(crate) fn stopped(&self, why: &str) -> String {
        let unsure = if self.effects {
            "; it may have been done all the same, so do not just call it again"
        } else {
            ""
        };
        format!("`{}` was stopped, {why}{unsure}", self.name)
    }

    /// The result as the model is given it: at most the tool's cap, or `cap` characters.
    pub(crate) fn capped(&self, text: String, cap: usize) -> String {
        let cap = self.cap.unwrap_or(cap);
        match text.char_indices().nth(cap) {
            None => text,
            Some((end, _)) => {
                let all = text.chars().count();
                format!("{}\n[cut: the first {cap} of {all} characters. {}]", &text[..end], self.hint)
            }
        }
    }

    pub(crate) fn check_self(&self) -> Result<()> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(fits) {
            let message = format!(
                "`{}` is no name for a tool; use 1 to 64 of the letters a-z, A-Z, digits, `_` and `-`",
                self.name
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        self.run.check()
    }
}

impl Flow for Tool<'_> {
    type Output = String;

    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<String>> {
        async move {
            self.check_self()?;
            let json = input.find('{').zip(input.rfind('}')).and_then(|(start, end)| input.get(start..=end));
            let args = serde_json::from_str(json.unwrap_or(input)).map_err(|error| {
                format!("the input of `{}` is not the JSON of its arguments: {error}", self.name)
            });
            let result = match args {
                Ok(args) => self.call(llm, args).await,
                Err(message) => Err(message),
            };
            result.map_err(|message| Error::new(ErrorKind::Tool, message).at(&llm.place()))
        }
        .boxed()
    }

    fn shape(&self) -> Shape {
        let shape = Shape::new("tool", &self.name, self.shape.as_ref().map_or(Calls::NONE, Shape::calls));
        match &self.shape {
            Some(inner) => shape.part("", inner.clone()),
            None => shape,
        }
    }

    fn check(&self) -> Result<()> {
        self.check_self()
    }
}

impl fmt::Debug for Tool<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("name", &self.name)
            .field("effects", &self.effects)
            .finish_non_exhaustive()
    }
}

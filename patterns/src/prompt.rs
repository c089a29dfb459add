//! A prompt: the shortest flow.

use futures::future::{BoxFuture, FutureExt};

use crate::answer::{appended, fill_all, with_input};
use crate::choose::choose;
use crate::error::Result;
use crate::flow::{Came, Flow, Last, last_apart};
use crate::llm::{Effort, Llm, OnText, Request};
use crate::message::Message;
use crate::shape::{Calls, Shape};

/// One call with a prompt.
///
/// The prompt names its input as `{input}`; without that the input is appended in an `<input>` tag. Either way the
/// input is put in literally: braces, dollars and tags in it mean nothing, and it cannot close its own tag.
/// Other braces in the prompt are left alone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use patterns::{Flow, Reply, Request, prompt};
///
/// let llm = async |request: Request| Ok(Reply::text_of(request.text()));
/// let translate = prompt("Translate into French: {input}");
/// assert_eq!(translate.run(&llm, "a {cat}").await?, "Translate into French: a {cat}");
///
/// // a plain string is a prompt, too
/// assert_eq!("Translate.".run(&llm, "a cat").await?, "Translate.\n\n<input>\na cat\n</input>");
/// # Ok(()) }
/// ```
pub fn prompt(text: impl Into<String>) -> Prompt {
    Prompt { text: text.into(), values: Vec::new(), request: Request::default() }
}

/// One call with a prompt; made by [`prompt`].
#[derive(Clone, Debug)]
#[must_use = "flows do nothing unless run"]
pub struct Prompt {
    text: String,
    values: Vec<(String, String)>,
    request: Request,
}

impl Prompt {
    /// Puts `value` in the place of every `{name}` of the prompt and of the system prompt, as literally as the input.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> patterns::Result<()> {
    /// use patterns::{Flow, Reply, Request, prompt};
    ///
    /// let llm = async |request: Request| Ok(Reply::text_of(request.text()));
    /// let explain = prompt("Explain {input} to {whom}.").with("whom", "a {input}");
    /// assert_eq!(explain.run(&llm, "tides").await?, "Explain tides to a {input}.");
    /// # Ok(()) }
    /// ```
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.values.push((name.into(), value.into()));
        self
    }

    /// The request for this input.
    fn request(&self, input: &str) -> Request {
        let mut values: Vec<(&str, &str)> =
            self.values.iter().map(|(name, value)| (&**name, &**value)).collect();
        let system = if values.is_empty() {
            self.request.system.clone()
        } else {
            fill_all(&self.request.system, &values)
        };
        let text = if self.text.contains("{input}") {
            values.push(("input", input));
            fill_all(&self.text, &values)
        } else {
            appended(&fill_all(&self.text, &values), input)
        };
        Request { system, messages: vec![Message::user(text)], ..self.request.clone() }
    }

    /// Sets the system prompt: who the model is, what holds for every input.
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.request.system = system.into();
        self
    }

    /// Sets the longest reply in tokens, thinking included. Default: the provider's.
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.request.max_tokens = Some(tokens);
        self
    }

    /// Sets how hard the model shall think, where it can be told.
    pub fn effort(mut self, effort: Effort) -> Self {
        self.request.effort = Some(effort);
        self
    }

    /// Sets the sampling temperature, 0 and up, for providers that take one.
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.request.temperature = Some(temperature);
        self
    }

    /// Ends the reply at this text.
    pub fn stop_at(mut self, text: impl Into<String>) -> Self {
        self.request.stop_sequences.push(text.into());
        self
    }

    /// Hands the text of the reply to `listen` as it is written.
    pub fn on_text(mut self, listen: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.request.on_text = Some(OnText::new(listen));
        self
    }
}

impl Flow for Prompt {
    type Output = String;

    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<String>> {
        answer(llm, self.request(input))
    }

    fn run_last<'a>(
        &'a self,
        llm: &'a dyn Llm,
        input: &'a str,
        last: Last<'a>,
    ) -> BoxFuture<'a, Result<Came>> {
        last_call(self, llm, input, || self.request(input), last)
    }

    fn shape(&self) -> Shape {
        let values: Vec<(&str, &str)> = self.values.iter().map(|(name, value)| (&**name, &**value)).collect();
        Shape::new("prompt", &fill_all(&self.text, &values), Calls::exactly(1))
    }
}

impl Flow for str {
    type Output = String;

    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<String>> {
        answer(llm, Request::new(with_input(self, input)))
    }

    fn run_last<'a>(
        &'a self,
        llm: &'a dyn Llm,
        input: &'a str,
        last: Last<'a>,
    ) -> BoxFuture<'a, Result<Came>> {
        last_call(self, llm, input, || Request::new(with_input(self, input)), last)
    }

    fn shape(&self) -> Shape {
        Shape::new("prompt", self, Calls::exactly(1))
    }
}

impl Flow for String {
    type Output = String;

    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<String>> {
        self.as_str().run(llm, input)
    }

    fn run_last<'a>(
        &'a self,
        llm: &'a dyn Llm,
        input: &'a str,
        last: Last<'a>,
    ) -> BoxFuture<'a, Result<Came>> {
        self.as_str().run_last(llm, input, last)
    }

    fn shape(&self) -> Shape {
        self.as_str().shape()
    }
}

/// Makes the call; who waits for the answer of the flow hears its text.
fn answer(llm: &dyn Llm, mut request: Request) -> BoxFuture<'_, Result<String>> {
    if let Some(listener) = llm.answer_to() {
        request.on_text = Some(match request.on_text.take() {
            Some(own) => own.and(listener),
            None => listener,
        });
    }
    text(llm, request).boxed()
}

async fn text(llm: &dyn Llm, request: Request) -> Result<String> {
    llm.call(request).await?.into_answer().map_err(|error| error.at(&llm.place()))
}

/// Makes the call as the last of a flow.
fn last_call<'a, F: Flow + ?Sized>(
    flow: &'a F,
    llm: &'a dyn Llm,
    input: &'a str,
    request: impl FnOnce() -> Request,
    last: Last<'a>,
) -> BoxFuture<'a, Result<Came>> {
    match last {
        Last::Passes(_) => last_apart(flow, llm, input, last),
        Last::Chooses(one_of) => {
            choose(llm, request(), one_of).map(|chosen| chosen.map(Came::chosen)).boxed()
        }
        Last::EndsWith(ending) => {
            let mut request = request();
            request.messages = vec![Message::user(format!("{}\n\n{ending}", request.text()))];
            text(llm, request).map(|text| text.map(Came::text)).boxed()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_a_user_writes_arrives_byte_for_byte(input in ".*", braces in "[{}$<>/input ]*") {
            let input = format!("{input}{braces}");
            prop_assert_eq!(with_input("a {input} b {x} $1 {", &input), format!("a {input} b {{x}} $1 {{"));
            prop_assert!(input.is_empty() || with_input("Say it.", &input).contains(&input));
        }
    }
}

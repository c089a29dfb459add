use crate::choose::{Calibrations, Choice, choose};
use crate::error::{Error, ErrorKind, Result};
use crate::generate::{Event, Generated, Generation, Options};
use crate::model::Model;
use crate::model::gguf::Gguf;
use crate::score::{Beginning, Scoring};
use crate::text::{Message, Text};
use crate::worker::{Shared, Worker};
use futures::StreamExt as _;
use futures::channel::{mpsc, oneshot};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A language model in memory. Clones share it; calls that are under way at the same time are computed together, on a
/// thread of the engine's own, so no async executor is held up. Any executor will do.
///
/// Dropping the future of a call stops its work: at the latest when the pass through the model that is under way is
/// over.
#[derive(Clone)]
pub struct Engine {
    worker: Worker,
    shared: Arc<Shared>,
    name: Arc<str>,
}

impl Engine {
    /// Loads a model from a GGUF file of the llama architecture, as [`Engine::load`] does, on a thread of its own.
    ///
    /// # Errors
    /// As [`Engine::load`].
    pub async fn open(file: impl Into<PathBuf>) -> Result<Engine> {
        let file = file.into();
        off_the_executor(move || Engine::load(file)).await
    }

    /// Loads a model from a GGUF file of the llama architecture, and waits for it; in async code use [`Engine::open`].
    /// Weights, hyper-parameters, tokenizer and chat template all come from the file.
    ///
    /// # Errors
    /// [`ErrorKind::MissingWeights`] when there is no such file, [`ErrorKind::BadFile`] when it is damaged or holds
    /// another kind of model.
    pub fn load(file: impl AsRef<Path>) -> Result<Engine> {
        let mut gguf = Gguf::open(file.as_ref())?;
        let name = gguf.text("general.name").unwrap_or("unnamed").into();
        let model = Model::load(&mut gguf)?;
        let text = Text::load(&mut gguf)?;
        let shared =
            Arc::new(Shared { model, text, calibrations: Default::default(), under_way: Default::default() });
        let worker = Worker::start(Arc::clone(&shared))?;
        Ok(Engine { worker, shared, name })
    }

    /// The name that the model's file gives.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many tokens prompt and answer may have together.
    pub fn context_length(&self) -> usize {
        self.shared.model.config.context
    }

    /// How many calls are being computed at the moment.
    pub fn under_way(&self) -> usize {
        self.shared.under_way.load(Ordering::Relaxed)
    }

    /// Has the model answer a conversation. `on_text` gets the answer in pieces while it is written, in order and each
    /// of whole characters, on the task that polls this future; together they are [`Generated::text`].
    ///
    /// # Errors
    /// [`ErrorKind::ContextOverflow`] when the conversation does not fit into the context window,
    /// [`ErrorKind::BadRequest`] when there is none or the options make no sense.
    pub async fn generate(
        &self,
        messages: &[Message],
        options: &Options,
        on_text: impl FnMut(&str),
    ) -> Result<Generated> {
        let mut answers = self.run(messages, options, 1, on_text).await?;
        answers.pop().ok_or_else(stopped)
    }

    /// Has the model answer a conversation `count` times. The conversation is read once, the answers are written side
    /// by side, in much less time than one after the other. Answer number `i` (from 0) is the one that
    /// [`generate`](Engine::generate) gives with [`Options::seed`] + `i`; at temperature 0 they are all the same.
    ///
    /// # Errors
    /// As [`generate`](Engine::generate).
    pub async fn samples(
        &self,
        messages: &[Message],
        options: &Options,
        count: usize,
    ) -> Result<Vec<Generated>> {
        self.run(messages, options, count, |_| ()).await
    }

    async fn run(
        &self,
        messages: &[Message],
        options: &Options,
        count: usize,
        mut on_text: impl FnMut(&str),
    ) -> Result<Vec<Generated>> {
        check(messages, options)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let (sender, mut events) = mpsc::unbounded();
        let (messages, options) = (messages.to_vec(), options.clone());
        self.worker.submit(move |shared| Generation::start(shared, &messages, options, count, sender));
        let mut answers = vec![None; count];
        while let Some(event) = events.next().await {
            match event {
                Event::Text(text) => on_text(&text),
                Event::Done(index, answer) => answers[index] = Some(answer),
                Event::Failed(error) => return Err(error),
            }
        }
        answers.into_iter().collect::<Option<_>>().ok_or_else(stopped)
    }

    /// Says what a text is about: a probability for each choice, in their order, 1 in sum. `noun` is what the text is,
    /// in lower case and without an article, such as `support ticket` or just `text`.
    ///
    /// A small model that is asked this answers at chance. But it can tell how likely it finds a description after the
    /// text, and the text after a description (the channel of Min et al., "Noisy Channel Language Model Prompting for
    /// Few-Shot Text Classification", 2022); both are compared with what it finds for texts that say nothing in
    /// particular (Zhao et al., "Calibrate Before Use", 2021). What depends on the choices alone is computed once and
    /// kept, so the first call with new choices takes several times as long as the next.
    ///
    /// # Errors
    /// [`ErrorKind::BadRequest`] without choices, text or noun, [`ErrorKind::ContextOverflow`] when the text is too long.
    pub async fn choose(&self, text: &str, noun: &str, choices: &[Choice]) -> Result<Vec<f64>> {
        choose(self, text, noun, choices).await
    }

    /// The logarithm of the probability of each end after its beginning.
    pub(crate) async fn score(&self, beginnings: Vec<Beginning>) -> Result<Vec<Vec<f64>>> {
        let (sender, answer) = oneshot::channel();
        self.worker.submit(move |shared| Scoring::start(shared, &beginnings, sender));
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }

    pub(crate) fn calibrations(&self) -> &Calibrations {
        &self.shared.calibrations
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("name", &self.name).finish_non_exhaustive()
    }
}

fn check(messages: &[Message], options: &Options) -> Result<()> {
    if messages.is_empty() {
        return Err(Error::bad_request("there is no message to answer"));
    }
    if options.max_tokens == 0 {
        return Err(Error::bad_request("max_tokens is 0: an answer has at least 1 token"));
    }
    if !options.temperature.is_finite() || options.temperature < 0.0 {
        return Err(Error::bad_request(format!(
            "temperature {} is not a number from 0 up",
            options.temperature
        )));
    }
    if !(0.0..=1.0).contains(&options.top_p) {
        return Err(Error::bad_request(format!("top_p {} is not between 0 and 1", options.top_p)));
    }
    if !options.repeat_penalty.is_finite() || options.repeat_penalty < 1.0 {
        return Err(Error::bad_request(format!("repeat_penalty {} is below 1", options.repeat_penalty)));
    }
    Ok(())
}

/// The thread that should answer is gone.
fn stopped() -> Error {
    Error::new(ErrorKind::Internal, "the engine stopped in the middle of its work")
}

/// Does blocking work on a thread of its own. Dropping the future does not stop it.
pub(crate) async fn off_the_executor<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, result) = oneshot::channel();
    std::thread::Builder::new()
        .name("patterns-embedded load".to_owned())
        .spawn(move || sender.send(work()))
        .map_err(|error| {
            Error::new(ErrorKind::Internal, format!("no thread to load the model on: {error}"))
        })?;
    result.await.unwrap_or_else(|_| Err(stopped()))
}

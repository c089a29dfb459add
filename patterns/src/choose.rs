//! One call that must end in one of a closed set of labels.

use futures::future::BoxFuture;

use crate::answer::{Unread, label_in, tag};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::llm::{Expect, Llm, OneOf, Request};
use crate::message::{Message, Role};
use crate::path::Path;
use crate::reply::Reply;

/// What was chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The label, spelled as declared.
    pub label: String,
    /// Why, as far as the model said.
    pub reasoning: Option<String>,
    /// The probability of every label, where the provider gives probabilities.
    pub probabilities: Vec<(String, f64)>,
}

impl Chosen {
    /// The probability of the label, where the provider gives one.
    pub fn confidence(&self) -> Option<f64> {
        self.probabilities.iter().find(|(label, _)| *label == self.label).map(|(_, p)| *p)
    }

    /// By how much the label is more probable than the next one, where the provider gives probabilities.
    pub fn margin(&self) -> Option<f64> {
        let best = self.confidence()?;
        let others = self.probabilities.iter().filter(|(label, _)| *label != self.label).map(|(_, p)| *p);
        Some(best - others.fold(0.0, f64::max))
    }
}

/// Sends `request` and gives the label of its answer. An answer that cannot be read costs one more call, which asks for
/// the envelope only; then it is an [`ErrorKind::Unread`].
pub(crate) async fn choose(llm: &dyn Llm, mut request: Request, one_of: &OneOf) -> Result<Chosen> {
    let reply = call(llm, request.clone(), one_of).await?;
    let unread = match read(&reply, one_of, &llm.place())? {
        Ok(chosen) => return Ok(chosen),
        Err(unread) => unread,
    };
    llm.note(Path::root(), Event::Reasked { reason: unread.to_string() });
    request.messages.push(Message { role: Role::Assistant, content: reply.content });
    request.messages.push(Message::user(format!(
        "Your choice could not be read ({unread}). Do not repeat your answer. \
         Reply only with <{tag}></{tag}>, holding one of: {names}.",
        tag = one_of.tag,
        names = one_of.names().join(", "),
    )));
    request.path.prepend("again");
    request.expect = Expect::Text;
    let again = llm.call(request).await?;
    read(&again, one_of, &llm.place())?.map_err(|unread| unreadable(unread, &again, llm))
}

/// As [`choose`], without asking again: `Ok(Err(unread))` is an answer that cannot be read.
pub(crate) async fn choose_once(
    llm: &dyn Llm,
    request: Request,
    one_of: &OneOf,
) -> Result<Result<Chosen, Unread>> {
    read(&call(llm, request, one_of).await?, one_of, &llm.place())
}

fn call<'a>(llm: &'a dyn Llm, mut request: Request, one_of: &OneOf) -> BoxFuture<'a, Result<Reply>> {
    request.expect = Expect::OneOf(one_of.clone());
    llm.call(request)
}

fn read(reply: &Reply, one_of: &OneOf, place: &Path) -> Result<Result<Chosen, Unread>> {
    let text = reply.answer().map_err(|error| error.at(place))?;
    if let Some(choice) = &reply.choice
        && let Some(label) = one_of.find(&choice.label)
    {
        return Ok(Ok(Chosen {
            label: label.name.clone(),
            reasoning: choice.reasoning.clone(),
            probabilities: choice.probabilities.clone(),
        }));
    }
    Ok(read_text(&text, one_of))
}

/// Reads the choice that a finished text makes.
pub(crate) fn read_finished(text: &str, one_of: &OneOf, llm: &dyn Llm) -> Result<Chosen> {
    read_text(text, one_of).map_err(|unread| unreadable(unread, &Reply::text_of(text), llm))
}

/// Reads the label of a text.
fn read_text(text: &str, one_of: &OneOf) -> Result<Chosen, Unread> {
    let label = label_in(text, &one_of.tag, &one_of.names())?.to_owned();
    Ok(Chosen { label, reasoning: tag(text, &one_of.because).ok(), probabilities: Vec::new() })
}

/// The error for an answer that stays unreadable.
fn unreadable(unread: Unread, reply: &Reply, llm: &dyn Llm) -> Error {
    Error::new(ErrorKind::Unread, format!("the answer cannot be read: {unread}"))
        .with_model(&reply.model)
        .with_partial(reply.text().into_owned())
        .with_usage(reply.usage)
        .with_source(unread)
        .at(&llm.place())
}

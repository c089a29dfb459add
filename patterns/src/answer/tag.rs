use super::chars::empty_or_dots;
use super::content::content;
use super::element::Found;
use super::element::find;
use super::unread::Unread;
use super::unread::UnreadKind;

/// Reads the one element called `name`: what stands between `<name>` and `</name>`.
///
/// Names are compared whole, without regard to case. The edges of the content are trimmed, its
/// entities are decoded once if its writer escaped it; see [the rules](super#how-a-reply-is-read).
/// An empty element is an empty string.
///
/// # Errors
///
/// - [`Missing`](UnreadKind::Missing): no such element outside thinking and comments.
/// - [`Truncated`](UnreadKind::Truncated): the reply ends inside one, even if another one is complete.
/// - [`Ambiguous`](UnreadKind::Ambiguous): several elements that differ.
///
/// ```
/// use patterns::answer::tag;
///
/// let reply = "<think>Maybe <answer>7</answer>?</think>\nHere you are: <Answer>if a < b && b < c</Answer>";
/// assert_eq!(tag(reply, "answer").unwrap(), "if a < b && b < c");
/// assert!(tag("<answer>The three causes are", "answer").is_err());
/// ```
pub fn tag(text: &str, name: &str) -> Result<String, Unread> {
    let found = find(text, name);
    let contents = contents(&found, name)?;
    let mut filled = contents.iter().filter(|content| !empty_or_dots(content)).peekable();
    let mut given: Vec<&String> =
        if filled.peek().is_some() { filled.collect() } else { contents.iter().collect() };
    given.dedup();
    match given[..] {
        [] => Err(Unread::new(UnreadKind::Missing, element(name), [text])),
        [content] => Ok(content.clone()),
        _ => Err(Unread::new(UnreadKind::Ambiguous, element(name), given)),
    }
}

/// Reads all elements called `name`, in the order of the reply; duplicates and empty ones are kept.
///
/// A reply without one gives an empty list, which a planner should treat as a reason to ask again.
/// Elements inside an element of the same name belong to its content.
///
/// # Errors
///
/// [`Truncated`](UnreadKind::Truncated) if the reply ends inside an element or inside its open
/// tag: a list that was cut never passes as a short list.
///
/// ```
/// use patterns::answer::tags;
///
/// let plan = "<tasks>\n<task>Find sources</task>\n<task>Check facts</task>\n</tasks>";
/// assert_eq!(tags(plan, "task").unwrap(), ["Find sources", "Check facts"]);
/// ```
pub fn tags(text: &str, name: &str) -> Result<Vec<String>, Unread> {
    let found = find(text, name);
    let contents = contents(&found, name)?;
    if found.ends_in_open_tag(name) {
        return Err(truncated(text, name));
    }
    Ok(contents)
}

fn contents(found: &Found<'_>, name: &str) -> Result<Vec<String>, Unread> {
    match &found.cut {
        Some(open) => Err(truncated(&found.text[open.start..], name)),
        None => Ok(found.elements.iter().map(|element| content(&found.text[element.inner()])).collect()),
    }
}

pub(super) fn element(name: &str) -> String {
    format!("<{name}>")
}

pub(super) fn truncated(seen: &str, name: &str) -> Unread {
    Unread::new(UnreadKind::Truncated, element(name), [seen])
}

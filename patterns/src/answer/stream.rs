use super::chars::blank;
use super::chars::fold;
use super::chars::white;
use super::lex::Form;
use super::lex::tag_at;
use super::tag::tag;
use super::thinking;
use super::unread::Unread;

/// A tag of more bytes than this is text to the preview.
const LONGEST_TAG: usize = 256;

/// Reads one element from a reply that arrives in pieces.
///
/// Each push hands out the part of the content that is certain to be content already, so that it
/// can be shown while the reply is under way; [`finish`](TagStream::finish) then gives exactly what
/// [`tag`] gives for the whole reply, however it was cut.
///
/// The preview is raw: entities and CDATA marks stand in it. It skips thinking, and ends at the
/// first close tag that fits. Where a reply names its own tag in passing, needs a repair or gives
/// several elements, the preview may differ from the value.
///
/// ```
/// use patterns::answer::TagStream;
///
/// let mut stream = TagStream::new("answer");
/// assert_eq!(stream.push("<answer>i <"), "i");
/// assert_eq!(stream.push(" n</ans"), " < n");
/// assert_eq!(stream.push("wer>"), "");
/// assert_eq!(stream.finish().unwrap(), "i < n");
/// ```
#[derive(Debug, Clone)]
pub struct TagStream {
    name: String,
    folded: String,
    text: String,
    /// The bytes of a character that has not arrived in full.
    partial: Vec<u8>,
    place: Place,
    /// Up to here the text has been looked at.
    read: usize,
    /// From a `<` at `read` on: up to here no bracket was found.
    looked: usize,
    /// Up to here the content has been handed out.
    shown: usize,
    /// Up to here it may be: white space at the end is held back.
    sure: usize,
    /// Something of the content has been seen that is not white space.
    begun: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Before,
    Thinking,
    /// In this many elements of the name.
    Inside(usize),
    After,
}

impl TagStream {
    /// Starts to read the element called `name`.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        TagStream {
            folded: fold(&name),
            name,
            text: String::new(),
            partial: Vec::new(),
            place: Place::Before,
            read: 0,
            looked: 0,
            shown: 0,
            sure: 0,
            begun: false,
        }
    }

    /// Takes the next piece of the reply and returns the part of the content that has become certain.
    pub fn push(&mut self, piece: &str) -> &str {
        if !self.partial.is_empty() {
            self.text.push(char::REPLACEMENT_CHARACTER);
            self.partial.clear();
        }
        self.text.push_str(piece);
        self.advance()
    }

    /// Like [`push`](TagStream::push), for bytes that may be cut inside a character.
    ///
    /// Bytes that are no UTF-8 become U+FFFD, as [`String::from_utf8_lossy`] does for the whole.
    pub fn push_bytes(&mut self, piece: &[u8]) -> &str {
        let joined;
        let mut rest = piece;
        if !self.partial.is_empty() {
            joined = [&self.partial, piece].concat();
            self.partial.clear();
            rest = &joined;
        }
        while !rest.is_empty() {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    self.text.push_str(valid);
                    break;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    self.text.push_str(&String::from_utf8_lossy(valid));
                    let Some(length) = error.error_len() else {
                        self.partial = after.to_vec();
                        break;
                    };
                    self.text.push(char::REPLACEMENT_CHARACTER);
                    rest = &after[length..];
                }
            }
        }
        self.advance()
    }

    /// The reply so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Ends the reply and reads the element.
    ///
    /// # Errors
    ///
    /// Those of [`tag`], for the whole reply.
    pub fn finish(mut self) -> Result<String, Unread> {
        self.push("");
        tag(&self.text, &self.name)
    }

    fn advance(&mut self) -> &str {
        while self.place != Place::After {
            let Some(offset) = self.text[self.read..].find('<') else {
                self.take(self.text.len());
                break;
            };
            let start = self.read + offset;
            self.take(start);
            let Some(end) = self.bracket(start) else { break };
            if self.text[..end].ends_with('>') {
                self.tag(start, end);
            } else {
                self.take(end);
            }
            self.looked = 0;
        }
        let from = self.shown;
        self.shown = self.sure;
        &self.text[from..self.sure]
    }

    /// Where the `<` at `start` is settled: past its `>`, at the next `<`, or after 256 bytes.
    fn bracket(&mut self, start: usize) -> Option<usize> {
        let from = self.looked.max(start + 1);
        let limit = start + LONGEST_TAG;
        let first = self.text[start + 1..].trim_start_matches(|c| white(c) || matches!(c, '/' | '\\'));
        if first.starts_with(|c: char| !c.is_alphabetic() && c != '<') {
            return Some(start + 1);
        }
        for (i, c) in self.text[from..].char_indices() {
            match c {
                '>' => return Some(from + i + 1),
                '<' => return Some(from + i),
                _ if from + i >= limit => return Some(from + i),
                _ => {}
            }
        }
        self.looked = self.text.len();
        None
    }

    fn tag(&mut self, start: usize, end: usize) {
        let tag = tag_at(&self.text[..end], start, false).filter(|tag| tag.end == end);
        let name = tag.as_ref().map_or("", |tag| &self.text[tag.name.clone()]);
        let asked = fold(name) == self.folded;
        let thinks = !asked && thinking::is_name(name);
        match (self.place, tag.map(|tag| tag.form)) {
            (Place::Before, Some(Form::Open)) if asked => {
                self.place = Place::Inside(1);
                (self.read, self.shown, self.sure) = (end, end, end);
                return;
            }
            (Place::Before, Some(Form::Open)) if thinks => self.place = Place::Thinking,
            (Place::Thinking, Some(Form::Close)) if thinks => self.place = Place::Before,
            (Place::Inside(depth), Some(Form::Open)) if asked => self.place = Place::Inside(depth + 1),
            (Place::Inside(1), Some(Form::Close)) if asked => {
                self.place = Place::After;
                return;
            }
            (Place::Inside(depth), Some(Form::Close)) if asked => self.place = Place::Inside(depth - 1),
            _ => {}
        }
        self.take(end);
    }

    /// What comes before `end` is text. White space before the first and after the last of it is
    /// held back.
    fn take(&mut self, end: usize) {
        let text = &self.text[self.read..end];
        if matches!(self.place, Place::Inside(_)) && !blank(text) {
            if !self.begun {
                self.shown = end - text.trim_start_matches(white).len();
                self.begun = true;
            }
            self.sure = self.read + text.trim_end_matches(white).len();
        }
        self.read = end;
    }
}

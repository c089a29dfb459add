//! Server-sent events, cut out of the bytes as they come.
//!
//! The crates for it were tried: eventsource-stream panics on a byte order mark and moves its whole buffer for every
//! line; sse-stream refuses fields that the standard says to ignore.

/// An event longer than this is none of an API.
const MOST_BYTES: usize = 64 << 20;

/// Takes bytes and gives the `data` of each event. The event's name is left out: the APIs repeat it in the data.
#[derive(Default)]
pub(crate) struct Events {
    buffer: Vec<u8>,
    /// Where the line begins that is read next.
    line: usize,
    /// Up to where the buffer holds no end of that line.
    searched: usize,
    data: Vec<u8>,
    /// The last line ended with a carriage return, whose line feed may still come.
    after_return: bool,
    /// The byte order mark, if there is one, is behind us.
    begun: bool,
}

impl Events {
    /// Takes the next bytes; false when an event has become too long.
    #[must_use]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        self.buffer.drain(..self.line);
        self.searched -= self.line;
        self.line = 0;
        self.buffer.extend_from_slice(bytes);
        self.buffer.len() + self.data.len() <= MOST_BYTES
    }

    /// The data of the next event, if it is complete. An event that the stream breaks off in does not count.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if self.after_return && self.line < self.buffer.len() {
                self.after_return = false;
                self.line += usize::from(self.buffer[self.line] == b'\n');
                self.searched = self.searched.max(self.line);
            }
            let rest = &self.buffer[self.searched..];
            let Some(length) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.searched = self.buffer.len();
                return None;
            };
            let end = self.searched + length;
            let mut line = &self.buffer[self.line..end];
            if !std::mem::replace(&mut self.begun, true) {
                line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
            }
            let blank = line.is_empty();
            if let Some(value) = line.strip_prefix(b"data:") {
                self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
                self.data.push(b'\n');
            }
            self.after_return = self.buffer[end] == b'\r';
            self.line = end + 1;
            self.searched = self.line;
            if blank && self.data.pop().is_some() {
                return Some(std::mem::take(&mut self.data));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(chunks: &[&[u8]]) -> Vec<String> {
        let mut events = Events::default();
        let mut out = Vec::new();
        for chunk in chunks {
            assert!(events.push(chunk));
            while let Some(data) = events.next() {
                out.push(String::from_utf8(data).unwrap());
            }
        }
        out
    }

    #[test]
    fn comments_names_and_unknown_fields_are_ignored() {
        let stream =
            "\u{feff}: hello\nevent: ping\nid\nretry: x\nfoo: bar\ndata: {\"a\":\ndata:1}\n\n\n\ndata: left";
        assert_eq!(all(&[stream.as_bytes()]), ["{\"a\":\n1}"]);
    }

    proptest! {
        #[test]
        fn where_the_bytes_are_cut_does_not_matter(
            texts in proptest::collection::vec("[a-z é{}:]{0,12}", 0..6),
            end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
            cuts in proptest::collection::vec(1usize..9, 1..40),
        ) {
            let stream: String = texts.iter().map(|text| format!("event: x{end}data: {text}{end}{end}")).collect();
            let (mut rest, mut chunks) = (stream.as_bytes(), Vec::new());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break }
                let (chunk, after) = rest.split_at((*cut).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            prop_assert_eq!(all(&chunks), texts);
        }

        #[test]
        fn no_bytes_are_too_strange(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..20)) {
            let mut events = Events::default();
            for chunk in chunks {
                prop_assert!(events.push(&chunk));
                while events.next().is_some() {}
            }
        }
    }
}

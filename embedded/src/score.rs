//! How likely the model finds one text after another.

use crate::error::{Error, Result};
use crate::generate::fits;
use crate::model::{Found, Sequence, Span, Want};
use crate::worker::{Job, Shared};
use futures::channel::oneshot::Sender;

/// A text, and what may follow on it.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) text: String,
    pub(crate) ends: Vec<String>,
}

/// The job: first the beginnings are read, then what may follow on each. It answers with the logarithm of the
/// probability of each end.
pub(crate) struct Scoring {
    sender: Option<Sender<Result<Vec<Vec<f64>>>>>,
    /// The last token of each beginning, and the tokens of its ends.
    ends: Vec<(u32, Vec<Vec<u32>>)>,
    readings: Vec<Reading>,
}

/// Tokens on their way through the model.
struct Reading {
    sequence: Sequence,
    tokens: Vec<u32>,
    done: usize,
    /// How many the batch under way has of it.
    under_way: usize,
    /// Whether the probability of the tokens is wanted.
    scored: bool,
    /// The logarithm of the probability of all tokens but the first.
    sum: f64,
}

impl Scoring {
    pub(crate) fn start(
        shared: &Shared,
        beginnings: &[Beginning],
        sender: Sender<Result<Vec<Vec<f64>>>>,
    ) -> Option<Box<dyn Job>> {
        let mut job = Scoring { sender: Some(sender), ends: Vec::new(), readings: Vec::new() };
        for beginning in beginnings {
            if let Err(error) = job.push(shared, beginning) {
                job.fail(error);
                return None;
            }
        }
        Some(Box::new(job))
    }

    fn push(&mut self, shared: &Shared, beginning: &Beginning) -> Result<()> {
        let mut tokens = shared.text.plain(&beginning.text)?;
        let ends = beginning.ends.iter().map(|end| shared.text.plain(end)).collect::<Result<Vec<_>>>()?;
        let longest = ends.iter().map(Vec::len).max().unwrap_or(0);
        fits(tokens.len() + longest, shared.model.config.context)?;
        // the last token is read again with each end, for what it says about the end's first token
        let last = tokens.pop().ok_or_else(|| Error::bad_request("there is no text to score"))?;
        self.ends.push((last, ends));
        self.readings.push(Reading::new(Sequence::new(&shared.model.config), tokens, false));
        Ok(())
    }

    fn answer(&mut self, answer: Result<Vec<Vec<f64>>>) {
        if let Some(sender) = self.sender.take() {
            let _ = sender.send(answer);
        }
    }
}

impl Reading {
    fn new(sequence: Sequence, tokens: Vec<u32>, scored: bool) -> Reading {
        Reading { sequence, tokens, done: 0, under_way: 0, scored, sum: 0.0 }
    }

    /// How many tokens are yet to be read. The last one of a scored text need not be: nothing follows on it.
    fn rest(&self) -> usize {
        self.tokens.len() - usize::from(self.scored) - self.done
    }
}

impl Job for Scoring {
    fn is_wanted(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| !sender.is_canceled())
    }

    fn spans(&mut self, mut room: usize) -> Vec<Span<'_>> {
        let mut spans = Vec::new();
        for reading in &mut self.readings {
            let count = reading.rest().min(room);
            reading.under_way = count;
            if count > 0 {
                room -= count;
                let (start, end) = (reading.done, reading.done + count);
                let want = if reading.scored {
                    Want::Following(&reading.tokens[start + 1..=end])
                } else {
                    Want::Nothing
                };
                let tokens = &reading.tokens[start..end];
                spans.push(Span { sequence: &mut reading.sequence, tokens, want, writing: false });
            }
        }
        spans
    }

    fn take(&mut self, shared: &Shared, found: Vec<Found>) -> bool {
        for (reading, found) in self.readings.iter_mut().filter(|reading| reading.under_way > 0).zip(found) {
            reading.done += std::mem::take(&mut reading.under_way);
            if let Found::Following(sum) = found {
                reading.sum += sum;
            }
        }
        if self.readings.iter().any(|reading| reading.rest() > 0) {
            return false;
        }
        if self.readings.iter().any(|reading| reading.scored) {
            let mut sums = self.readings.iter().map(|reading| reading.sum);
            let sums = self.ends.iter().map(|(_, ends)| sums.by_ref().take(ends.len()).collect()).collect();
            self.answer(Ok(sums));
            return true;
        }
        let read = std::mem::take(&mut self.readings);
        for ((last, ends), reading) in self.ends.iter().zip(read) {
            let forks = reading.sequence.fork(&shared.model.config, ends.len());
            self.readings.extend(forks.into_iter().zip(ends).map(|(sequence, end)| {
                let tokens = [*last].into_iter().chain(end.iter().copied()).collect();
                Reading::new(sequence, tokens, true)
            }));
        }
        false
    }

    fn fail(&mut self, error: Error) {
        self.answer(Err(error));
    }
}

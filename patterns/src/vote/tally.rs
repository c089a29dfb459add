//! The outcome of a vote.

use std::fmt;

use serde::Serialize;

use super::VoteEnd;
use crate::error::{Error, ErrorKind, Result};
use crate::outcome::{Census, Outcome};

/// A label and what was cast for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// The label: as declared, or as the first ballot for it says.
    pub label: String,
    /// Its ballots; the sum of their weights in a [weighted](super::Vote::weighted) vote.
    pub votes: u64,
}

/// What a voter said.
#[derive(Clone, Debug, Serialize)]
pub struct Ballot {
    /// The voter's number, from 1.
    pub voter: usize,
    /// Its choice, `None` if it abstained; or why it came to none, which is no ballot at all.
    pub outcome: Outcome<Option<String>>,
    /// Its reasoning, or the text that the ballot was read out of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
}

/// The outcome of a vote: who won, by how much, and why it ended.
///
/// As text, for the next flow, it is the winner. Without a winner it is an [`ErrorKind::Undecided`], whose
/// [`cause`](crate::Error::cause) is the tally; when every voter that was heard failed, it is the first failure, so that
/// an exhausted budget is not taken for disagreement.
#[derive(Clone, Debug, Serialize)]
pub struct Tally {
    /// The winner; `None` when there is none.
    pub winner: Option<String>,
    /// Why the vote ended.
    pub why: VoteEnd,
    /// The labels in the order of their declaration, or of their first ballot.
    pub counts: Vec<Standing>,
    /// By how much the leader leads; 0 in a tie.
    pub margin: u64,
    /// The voters heard, in the order in which they came.
    pub ballots: Vec<Ballot>,
    /// How many voters were heard.
    pub asked: usize,
    /// How many need not be heard: their calls were dropped under way or never made.
    pub saved: usize,
    /// How many of those heard abstained.
    pub abstained: usize,
    /// How the voters ended. Those who abstained are counted as ok, those saved as cancelled.
    pub census: Census,
}

impl Tally {
    /// How many of the voters heard failed.
    pub fn failed(&self) -> usize {
        self.ballots.iter().filter(|ballot| ballot.outcome.ok().is_none()).count()
    }

    fn first_error(&self) -> Option<&Error> {
        self.ballots.iter().find_map(|ballot| ballot.outcome.error())
    }
}

impl TryFrom<Tally> for String {
    type Error = Error;

    /// The winner.
    ///
    /// # Errors
    /// [`ErrorKind::Undecided`] without a winner, or the first failure when every voter failed.
    fn try_from(tally: Tally) -> Result<Self> {
        if let Some(winner) = tally.winner {
            return Ok(winner);
        }
        let error = match tally.first_error() {
            Some(error) if tally.failed() == tally.asked => error.clone(),
            _ => Error::new(ErrorKind::Undecided, format!("the vote has no winner: {tally}")),
        };
        Err(error.with_source(tally))
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.why.as_str())?;
        let mut gap = "; ";
        for Standing { label, votes } in &self.counts {
            write!(f, "{gap}{label} {votes}")?;
            gap = ", ";
        }
        if self.abstained > 0 {
            write!(f, "; {} abstained", self.abstained)?;
        }
        if let Some(error) = self.first_error() {
            write!(f, "; {} failed, first: {error}", self.failed())?;
        }
        if self.saved > 0 {
            write!(f, "; {} not heard", self.saved)?;
        }
        Ok(())
    }
}

impl std::error::Error for Tally {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.first_error().map(|error| error as _)
    }
}

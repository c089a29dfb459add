//! When a vote is decided: exactly when nothing that the voters still to be heard can do would change the outcome.

use serde::{Deserialize, Serialize};

/// Who wins a tie. Without a rule nobody does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tie {
    /// Of the tied labels, the one declared first. It needs [`among`](super::Vote::among).
    Declared,
    /// Of the tied labels, the one whose first ballot came first.
    Arrival,
    /// This label, if it is one of the tied; the cautious answer, for example.
    To(String),
}

/// Why a vote ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// There is a winner, whatever the voters not heard would have said.
    Decided,
    /// Every voter was heard, and the leaders are level.
    Tie,
    /// No label can win by the rule any more.
    Impossible,
    /// Too few voters can still come to a ballot.
    NoQuorum,
}

impl Ended {
    /// The reason in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decided => "decided",
            Self::Tie => "tie",
            Self::Impossible => "impossible",
            Self::NoQuorum => "no quorum",
        }
    }
}

/// What it takes to win.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// More than every other label.
    Plurality,
    /// So much, and more than every other label.
    Needing(u64),
    /// Every ballot.
    Unanimous,
    /// To be the first to lead every other label by so much.
    AheadBy(u64),
}

/// A label and its ballots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// What ballots are compared by.
    pub(super) key: String,
    /// The sum of the weights of its ballots.
    pub(super) weight: u64,
    /// How many ballots had been cast before its first one; `None` without a ballot.
    first: Option<usize>,
}

/// The state of the count.
#[derive(Clone, Debug)]
pub(super) struct Count<'a> {
    pub(super) rule: Rule,
    pub(super) tie: Option<&'a Tie>,
    /// How many ballots a winner needs to rest on, at least 1.
    pub(super) quorum: usize,
    /// The labels: those declared, or those met so far.
    pub(super) standings: Vec<Standing>,
    /// Whether ballots may still name labels not met so far.
    pub(super) open: bool,
    /// Ballots cast.
    pub(super) ballots: usize,
    /// Voters still to be heard, and the sum of their weights.
    pub(super) left: usize,
    pub(super) left_weight: u64,
}

/// A decision: the winner's place among the standings, or why there is none.
pub(super) type Decision = Result<usize, Ended>;

impl<'a> Count<'a> {
    /// A count before the first ballot. `labels` is `None` for an open set.
    pub(super) fn new(
        rule: Rule,
        tie: Option<&'a Tie>,
        quorum: usize,
        labels: Option<&[&str]>,
        weights: &[u64],
    ) -> Self {
        let standing = |key: &&str| Standing { key: (*key).to_owned(), weight: 0, first: None };
        Self {
            rule,
            tie,
            quorum: quorum.max(1),
            standings: labels.unwrap_or_default().iter().map(standing).collect(),
            open: labels.is_none(),
            ballots: 0,
            left: weights.len(),
            left_weight: weights.iter().sum(),
        }
    }

    /// Hears a voter of this weight: a ballot for the label of this key, or none.
    pub(super) fn hear(&mut self, weight: u64, key: Option<&str>) {
        self.left -= 1;
        self.left_weight -= weight;
        let Some(key) = key else { return };
        let place = self.standings.iter().position(|standing| standing.key == key).unwrap_or_else(|| {
            self.standings.push(Standing { key: key.to_owned(), weight: 0, first: None });
            self.standings.len() - 1
        });
        let standing = &mut self.standings[place];
        standing.weight += weight;
        standing.first.get_or_insert(self.ballots);
        self.ballots += 1;
    }

    /// The leader's weight, and that of the next.
    fn top(&self) -> (u64, u64) {
        self.standings.iter().fold((0, 0), |(top, next), standing| {
            let weight = standing.weight;
            if weight > top { (weight, top) } else { (top, next.max(weight)) }
        })
    }

    /// By how much the leader leads.
    pub(super) fn margin(&self) -> u64 {
        let (top, next) = self.top();
        top - next
    }

    /// The outcome, once it is certain. Voters still to be heard may cast any ballot or none.
    pub(super) fn decision(&self) -> Option<Decision> {
        if self.ballots + self.left < self.quorum {
            return Some(Err(Ended::NoQuorum));
        }
        let (top, next) = self.top();
        let quorate = self.ballots >= self.quorum;
        let leader = self.standings.iter().position(|standing| standing.weight == top && top > 0);
        match self.rule {
            Rule::AheadBy(k) if quorate && top - next >= k => leader.map(Ok),
            Rule::AheadBy(k) => (top + self.left_weight - next < k).then_some(Err(Ended::Impossible)),
            Rule::Unanimous if next > 0 => Some(Err(Ended::Impossible)),
            Rule::Unanimous => leader.filter(|_| self.left == 0).map(Ok),
            Rule::Needing(k) if top + self.left_weight < k => Some(Err(Ended::Impossible)),
            Rule::Needing(k) if top < k => None,
            Rule::Needing(_) | Rule::Plurality if !quorate => None,
            Rule::Needing(_) | Rule::Plurality => {
                let safe =
                    self.standings.iter().position(|leader| leader.weight == top && self.is_safe(leader));
                match safe {
                    Some(winner) => Some(Ok(winner)),
                    None => (self.left == 0).then_some(Err(Ended::Tie)),
                }
            }
        }
    }

    /// Whether no other label can overtake this leader, or draw level and not lose the tie.
    fn is_safe(&self, leader: &Standing) -> bool {
        let beaten = |weight: u64, wins_tie: bool| {
            let reach = weight + self.left_weight;
            leader.weight > reach || (leader.weight == reach && wins_tie)
        };
        let place = |of: &Standing| self.standings.iter().position(|standing| standing.key == of.key);
        let mut others = self.standings.iter().filter(|other| other.key != leader.key);
        let known = others.all(|other| {
            let wins_tie = match self.tie {
                None => false,
                Some(Tie::Declared) => place(leader) < place(other),
                Some(Tie::Arrival) => leader.first.unwrap_or(usize::MAX) < other.first.unwrap_or(usize::MAX),
                Some(Tie::To(label)) => leader.key == *label,
            };
            beaten(other.weight, wins_tie)
        });
        // a label that nobody has named yet
        let unknown = match self.tie {
            _ if !self.open || self.left == 0 => true,
            None | Some(Tie::Declared) => beaten(0, false),
            Some(Tie::Arrival) => beaten(0, true),
            Some(Tie::To(label)) => beaten(0, leader.key == *label),
        };
        known && unknown
    }
}

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
pub enum VoteEnd {
    /// There is a winner, whatever the voters not heard would have said.
    Decided,
    /// Every voter was heard, and the leaders are level.
    Tie,
    /// No label can win by the rule any more.
    Impossible,
    /// Too few voters can still come to a ballot.
    NoQuorum,
}

impl VoteEnd {
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
pub(super) type Decision = Result<usize, VoteEnd>;

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
            return Some(Err(VoteEnd::NoQuorum));
        }
        let (top, next) = self.top();
        let quorate = self.ballots >= self.quorum;
        let leader = self.standings.iter().position(|standing| standing.weight == top && top > 0);
        match self.rule {
            Rule::AheadBy(k) if quorate && top - next >= k => leader.map(Ok),
            Rule::AheadBy(k) => (top + self.left_weight - next < k).then_some(Err(VoteEnd::Impossible)),
            Rule::Unanimous if next > 0 => Some(Err(VoteEnd::Impossible)),
            Rule::Unanimous => leader.filter(|_| self.left == 0).map(Ok),
            Rule::Needing(k) if top + self.left_weight < k => Some(Err(VoteEnd::Impossible)),
            Rule::Needing(k) if top < k => None,
            Rule::Needing(_) | Rule::Plurality if !quorate => None,
            Rule::Needing(_) | Rule::Plurality => {
                let safe =
                    self.standings.iter().position(|leader| leader.weight == top && self.is_safe(leader));
                match safe {
                    Some(winner) => Some(Ok(winner)),
                    None => (self.left == 0).then_some(Err(VoteEnd::Tie)),
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

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

    /// One kind of vote.
    #[derive(Clone, Debug)]
    struct Kind {
        rule: Rule,
        tie: Option<Tie>,
        quorum: usize,
        weights: Vec<u64>,
        labels: usize,
        open: bool,
    }

    impl Kind {
        fn count(&self) -> Count<'_> {
            let labels = (!self.open).then_some(&NAMES[..self.labels]);
            Count::new(self.rule, self.tie.as_ref(), self.quorum, labels, &self.weights)
        }

        /// The winner when everybody was heard, as plainly as it can be said.
        fn full_count(&self, cast: &[Option<usize>]) -> Option<usize> {
            if let Rule::AheadBy(k) = self.rule {
                return (1..=cast.len()).find_map(|n| {
                    let (votes, ballots) = self.votes(&cast[..n]);
                    let leads = |a: usize| (0..self.labels).all(|b| a == b || votes[a] >= votes[b] + k);
                    (0..self.labels).find(|a| ballots >= self.quorum && votes[*a] >= k && leads(*a))
                });
            }
            let (votes, ballots) = self.votes(cast);
            let top = *votes.iter().max()?;
            if ballots < self.quorum || top == 0 {
                return None;
            }
            let tied: Vec<usize> = (0..self.labels).filter(|a| votes[*a] == top).collect();
            match self.rule {
                Rule::Needing(k) if top < k => return None,
                Rule::Unanimous if votes.iter().sum::<u64>() > top => return None,
                _ => {}
            }
            match (&tied[..], &self.tie) {
                ([one], _) => Some(*one),
                (_, None) => None,
                (_, Some(Tie::Declared)) => tied.first().copied(),
                (_, Some(Tie::Arrival)) => cast.iter().flatten().copied().find(|label| tied.contains(label)),
                (_, Some(Tie::To(name))) => tied.into_iter().find(|label| NAMES[*label] == name),
            }
        }

        fn votes(&self, cast: &[Option<usize>]) -> (Vec<u64>, usize) {
            let mut votes = vec![0; self.labels];
            for (label, weight) in cast.iter().zip(&self.weights) {
                if let Some(label) = label {
                    votes[*label] += weight;
                }
            }
            (votes, cast.iter().flatten().count())
        }

        /// Every winner that is possible once `cast` was heard; until the count is decided, checks that it is decided
        /// exactly when there is one such outcome, and that it is this one.
        fn explore(&self, count: &Count<'_>, cast: &mut Vec<Option<usize>>, undecided: bool) -> u8 {
            let decision = count.decision();
            let mut possible = 0;
            if cast.len() == self.weights.len() {
                possible = bit(self.full_count(cast));
            } else {
                let weight = self.weights[cast.len()];
                for label in (0..self.labels).map(Some).chain([None]) {
                    let mut count = count.clone();
                    count.hear(weight, label.map(|label| NAMES[label]));
                    cast.push(label);
                    possible |= self.explore(&count, cast, undecided && decision.is_none());
                    cast.pop();
                }
            }
            if undecided {
                assert_eq!(
                    decision.is_some(),
                    possible.count_ones() == 1,
                    "{self:?} after {cast:?}: {decision:?}"
                );
                if let Some(decision) = decision {
                    let name = decision.ok().map(|place| count.standings[place].key.as_str());
                    let winner = name.and_then(|name| NAMES.iter().position(|known| *known == name));
                    assert_eq!(bit(winner), possible, "{self:?} after {cast:?}");
                }
            }
            possible
        }
    }

    fn bit(winner: Option<usize>) -> u8 {
        1 << winner.map_or(0, |winner| winner + 1)
    }

    fn check(weights: &[u64], labels: usize, open: bool, ties: &[Option<Tie>]) {
        let total: u64 = weights.iter().sum();
        let mut rules = vec![Rule::Plurality, Rule::Unanimous];
        rules.extend((1..=total).map(Rule::Needing));
        rules.extend((1..=total.min(4)).map(Rule::AheadBy));
        let n = weights.len();
        for rule in rules {
            for tie in ties {
                let mut quorums = vec![1, n / 2 + 1, n];
                quorums.dedup();
                for quorum in quorums {
                    let kind =
                        Kind { rule, tie: tie.clone(), quorum, weights: weights.to_vec(), labels, open };
                    kind.explore(&kind.count(), &mut Vec::new(), true);
                }
            }
        }
    }

    fn ties(declared: bool) -> Vec<Option<Tie>> {
        let mut ties = vec![None, Some(Tie::Arrival), Some(Tie::To("b".into()))];
        ties.extend(declared.then_some(Some(Tie::Declared)));
        ties
    }

    #[test]
    fn a_vote_is_decided_exactly_when_no_completion_changes_its_outcome() {
        for n in 1..=7 {
            check(&vec![1; n], 3, false, &ties(true));
        }
    }

    #[test]
    fn so_is_a_weighted_vote_in_whatever_order_the_weights_come() {
        for weights in
            [&[3, 1, 1][..], &[1, 1, 3], &[2, 2, 1, 1], &[1, 2, 4], &[4, 1, 2, 1], &[1, 3, 1, 2, 2]]
        {
            check(weights, 3, false, &ties(true));
        }
    }

    #[test]
    fn so_is_a_vote_on_labels_that_nobody_has_declared() {
        for n in 1..=4 {
            check(&vec![1; n], n + 1, true, &ties(false));
        }
        check(&[2, 1, 1], 4, true, &ties(false));
    }
}

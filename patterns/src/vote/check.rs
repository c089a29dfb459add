//! What is checked of a vote before its first call.

use super::rules::{Rule, Tie};
use super::{Reading, Vote, Voters};

impl Vote<'_> {
    /// What is wrong with the vote.
    pub(super) fn defect(&self) -> Option<String> {
        let voters = self.samples();
        let weight: u64 = self.weights().iter().sum();
        let ahead = matches!(self.rule(), Rule::AheadBy(_));
        let declared = match self.reading.first() {
            Some(Reading::Among(labels)) => Some(labels),
            _ => None,
        };
        if self.width() == 0 {
            return Some("a vote needs at least one voter".into());
        }
        if self.rules.len() > 1 {
            return Some("a vote has one rule: `needing`, `unanimous` or `ahead_by`".into());
        }
        if self.reading.len() > 1 {
            return Some("a ballot is read in one way: `among` or `normalised`".into());
        }
        if let Some(labels) = declared {
            let mut names: Vec<_> =
                labels.iter().chain(&self.abstention).map(|label| label.name.trim().to_lowercase()).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            if labels.len() < 2 || names.iter().any(String::is_empty) {
                return Some("`among` needs at least two labels, none of them empty".into());
            }
            if names.len() < all {
                return Some(
                    "two labels of a vote are the same but for case; give each a name of its own".into(),
                );
            }
        }
        match (&self.tie, declared) {
            (Some(Tie::Declared), None) => return Some("`Tie::Declared` needs labels; add `among`".into()),
            (Some(Tie::To(label)), Some(labels)) if !labels.iter().any(|known| known.name == *label) => {
                return Some(format!("the tie rule names `{label}`, which is none of the labels"));
            }
            _ => {}
        }
        if self.abstention.is_some() && declared.is_none() {
            return Some("`abstain` needs labels; add `among`, or let the normaliser give `None`".into());
        }
        if self.at_most.is_some() && !ahead {
            return Some("`at_most` is for `ahead_by`; other votes have as many samples as voters".into());
        }
        if let (Some(most), Voters::Each(list)) = (self.at_most, &self.voters)
            && most > list.len()
        {
            return Some(format!("`at_most({most})` would ask some of the {} voters twice", list.len()));
        }
        if self.at_most == Some(0) {
            return Some("`at_most(0)` draws no sample".into());
        }
        if let Some(weights) = &self.weights
            && (weights.len() != voters || weights.contains(&0))
        {
            return Some(format!("`weighted` needs one number from 1 for each of {voters} voters"));
        }
        if self.quorate() > voters {
            return Some(format!("a quorum of {} can never be met by {voters} voters", self.quorate()));
        }
        match self.rule() {
            Rule::Needing(0) | Rule::AheadBy(0) => Some("`needing` and `ahead_by` need at least 1".into()),
            Rule::Needing(k) | Rule::AheadBy(k) if k > weight => {
                Some(format!("{k} can never be reached: all ballots together weigh {weight}"))
            }
            _ => None,
        }
    }
}

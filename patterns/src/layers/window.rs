//! At most so much in any minute.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);

/// What was taken in the last minute, or will be when its turn has come. Whatever is taken is given a time such that no
/// minute holds more than the limit, in the order of asking.
#[derive(Debug, Default)]
pub(super) struct Window {
    taken: VecDeque<(Instant, u64)>,
    sum: u64,
}

impl Window {
    /// Takes `amount`, and says when it may be used. What is more than the limit waits for an empty minute.
    pub(super) fn take(&mut self, amount: u64, limit: u64, now: Instant) -> Instant {
        let amount = amount.min(limit);
        let mut at = self.taken.back().map_or(now, |(last, _)| now.max(*last));
        while let Some((first, old)) = self.taken.front().copied() {
            if first + MINUTE > at {
                if self.sum + amount <= limit {
                    break;
                }
                at = first + MINUTE;
            }
            self.taken.pop_front();
            self.sum -= old;
        }
        self.push(at, amount);
        at
    }

    /// Puts right what a call was thought to take, once that is known.
    pub(super) fn correct(&mut self, thought: u64, was: u64, now: Instant) {
        if was > thought {
            let at = self.taken.back().map_or(now, |(last, _)| now.max(*last));
            self.push(at, was - thought);
        } else {
            // the newest entries have the longest to stay
            let mut less = thought - was;
            for (_, amount) in self.taken.iter_mut().rev() {
                let part = less.min(*amount);
                *amount -= part;
                self.sum -= part;
                less -= part;
                if less == 0 {
                    break;
                }
            }
        }
    }

    fn push(&mut self, at: Instant, amount: u64) {
        self.taken.push_back((at, amount));
        self.sum += amount;
    }
}

//! Evaluator-optimizer: a draft is judged and written again until it is accepted.

use std::fmt;

use futures::future::{BoxFuture, FutureExt};
use serde::Serialize;

use crate::answer::Unread;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::flow::{BoxFlow, Flow, Under};
use crate::gate::{Check, Passes, rework};
use crate::judge::Verdict;
use crate::llm::Llm;
use crate::path::Path;
use crate::shape::{Calls, Shape};

/// Drafts, judges and drafts again, until a judge accepts or the rounds are used up. Say with
/// [`until`](Drafter::until) what makes a draft acceptable.
///
/// The last pattern of [Building effective agents](https://www.anthropic.com/engineering/building-effective-agents),
/// evaluator-optimizer. Every draft is judged, the last one too, and the cap is code. When nothing is accepted, the result
/// is the best draft, not the last, and says so.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use patterns::{Flow, Reply, Request, Why, refine};
///
/// let llm = async |request: Request| {
///     Ok(Reply::text_of(match request.path.as_str() {
///         "draft 1" => "fn min(&self) -> i32 { *self.all.iter().min().unwrap() }",
///         "draft 2" => "fn min(&self) -> i32 { self.least[self.least.len() - 1] }",
///         "draft 1/judge" => "<feedback>min is O(n).</feedback><evaluation>NEEDS_IMPROVEMENT</evaluation>",
///         _ => "<evaluation>PASS</evaluation>",
///     }))
/// };
/// let stack = refine("Implement what is described, in Rust.").until("Correct, and every operation is O(1).").rounds(3);
/// let refined = stack.run(&llm, "A stack that knows its minimum.").await?;
/// assert_eq!((refined.accepted, refined.why, refined.rounds.len()), (true, Why::Accepted, 2));
/// assert!(refined.text.contains("self.least"));
/// assert_eq!(stack.shape().calls().to_string(), "2 to 9 calls");
/// # Ok(()) }
/// ```
pub fn refine<'f>(drafter: impl Flow + 'f) -> Drafter<'f> {
    Drafter { drafter: drafter.boxed() }
}

/// A drafter without a judge; made by [`refine`]. It becomes a flow by [`until`](Drafter::until).
#[must_use = "not a flow yet: say `.until(..)`"]
pub struct Drafter<'f> {
    drafter: BoxFlow<'f>,
}

impl<'f> Drafter<'f> {
    /// Accepts a draft when this check does: criteria for a judge, a [`Judge`](crate::Judge), or any [`Check`].
    pub fn until(self, check: impl Into<Check<'f>>) -> Refine<'f> {
        Refine { drafter: self.drafter, checks: Vec::new(), rounds: 3, window: 1, plateau: 2, or_fail: false }
            .until(check)
    }

    /// Accepts a draft when plain code does: `true`, `Ok(())`, or `Err(reason)`.
    pub fn until_code<P: Passes>(self, check: impl Fn(&str) -> P + Send + Sync + 'f) -> Refine<'f> {
        self.until(Check::code(check))
    }
}

impl fmt::Debug for Drafter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drafter").finish_non_exhaustive()
    }
}

/// Drafts until accepted; made by [`refine`] and [`until`](Drafter::until).
#[must_use = "flows do nothing unless run"]
pub struct Refine<'f> {
    drafter: BoxFlow<'f>,
    checks: Vec<Check<'f>>,
    rounds: usize,
    window: usize,
    plateau: usize,
    or_fail: bool,
}

/// What came of a refinement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refined {
    /// The accepted draft, or else the best one: the one that passed the most checks, then the one of the highest score or
    /// rating, then the latest of these.
    pub text: String,
    /// Whether every check accepted it.
    pub accepted: bool,
    /// Why it ended.
    pub why: Why,
    /// Every draft with what was said of it, in order.
    pub rounds: Vec<Round>,
}

/// Why a refinement ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Why {
    /// A draft was accepted.
    Accepted,
    /// The rounds are used up.
    Cap,
    /// The score has not risen for some rounds, or a draft was the same as the one before.
    Plateau,
    /// A draft was the same as an earlier one.
    Oscillation,
    /// A verdict could not be read, not even when it was asked for again.
    Unreadable,
    /// The budget of the run was used up; the drafts judged before are kept.
    OverBudget,
    /// A later draft or verdict failed, for this reason; the drafts judged before are kept.
    Failed(String),
}

impl Why {
    /// The reason in words.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Accepted => "accepted",
            Self::Cap => "the rounds are used up",
            Self::Plateau => "the drafts do not get better",
            Self::Oscillation => "the drafts go in circles",
            Self::Unreadable => "the verdict cannot be read",
            Self::OverBudget => "the budget is used up",
            Self::Failed(reason) => reason,
        }
    }
}

/// One draft and what was said of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Round {
    /// The draft.
    pub text: String,
    /// How many checks it passed.
    pub passed: usize,
    /// What the last check said that looked at it; `None` when its verdict could not be read.
    pub verdict: Option<Verdict>,
}

impl Round {
    fn is_accepted(&self, checks: usize) -> bool {
        self.passed == checks
    }

    /// Drafts are compared by the checks passed, then by what the last one said.
    fn worth(&self) -> (usize, f64) {
        (self.passed, self.verdict.as_ref().map_or(-1.0, Verdict::worth))
    }
}

impl From<Refined> for String {
    fn from(refined: Refined) -> Self {
        refined.text
    }
}

impl<'f> Refine<'f> {
    /// Adds a check. A draft is accepted when all accept it; code is asked before words, words before judges, judges before
    /// people, and the first that does not accept ends the round.
    pub fn until(mut self, check: impl Into<Check<'f>>) -> Self {
        let check = check.into();
        let place =
            self.checks.iter().position(|other| other.rank() > check.rank()).unwrap_or(self.checks.len());
        self.checks.insert(place, check);
        self
    }

    /// Adds plain code as a check: `true`, `Ok(())`, or `Err(reason)`.
    pub fn until_code<P: Passes>(self, check: impl Fn(&str) -> P + Send + Sync + 'f) -> Self {
        self.until(Check::code(check))
    }

    /// Sets how many drafts there may be, the first included. Default: 3; at least 1.
    pub fn rounds(mut self, rounds: usize) -> Self {
        self.rounds = rounds;
        self
    }

    /// Sets how many of the latest drafts, each with its feedback, the drafter is shown. Default: 1; at least 1.
    pub fn window(mut self, drafts: usize) -> Self {
        self.window = drafts.max(1);
        self
    }

    /// Ends after so many drafts in a row whose score is not above the best. Default: 2. Counts only for judges that give
    /// scores; ratings are too coarse for it.
    pub fn plateau(mut self, drafts: usize) -> Self {
        self.plateau = drafts.max(1);
        self
    }

    /// Makes "not accepted" an error, [`ErrorKind::NotAccepted`], with the best draft as its partial text.
    pub fn or_fail(mut self) -> Self {
        self.or_fail = true;
        self
    }

    /// The input of the next draft: the task, and the latest drafts with their feedback.
    fn next_input(&self, input: &str, rounds: &[Round]) -> String {
        let rounds = &rounds[rounds.len().saturating_sub(self.window)..];
        rework(
            input,
            rounds.iter().map(|round| {
                let feedback = round.verdict.as_ref().map_or("", |verdict| verdict.feedback.as_str());
                (&*round.text, if feedback.is_empty() { "It was not accepted." } else { feedback })
            }),
        )
    }

    /// Asks the checks about a draft, cheapest first.
    async fn judge(&self, llm: &dyn Llm, input: &str, text: &str) -> Result<Round> {
        let mut round = Round { text: text.to_owned(), passed: 0, verdict: None };
        for check in &self.checks {
            let verdict: Result<Verdict, Unread> = check.assess(llm, input, text, true).await?;
            round.verdict = verdict.ok();
            match &round.verdict {
                Some(verdict) if verdict.accepted => round.passed += 1,
                _ => break,
            }
        }
        Ok(round)
    }

    /// Why there is no point in another draft, if there is none.
    fn ended(&self, rounds: &[Round]) -> Option<Why> {
        let (last, earlier) = rounds.split_last()?;
        if last.is_accepted(self.checks.len()) {
            return Some(Why::Accepted);
        }
        if last.verdict.is_none() {
            return Some(Why::Unreadable);
        }
        if let Some(twin) = earlier.iter().rposition(|round| round.text.trim() == last.text.trim()) {
            return Some(if twin + 1 == earlier.len() { Why::Plateau } else { Why::Oscillation });
        }
        let scored = |round: &Round| round.verdict.as_ref().is_some_and(|verdict| verdict.score.is_some());
        if rounds.len() > self.plateau && rounds[rounds.len() - self.plateau..].iter().all(scored) {
            let (before, late) = rounds.split_at(rounds.len() - self.plateau);
            let best = before.iter().map(Round::worth).fold((0, -1.0), better);
            if late.iter().all(|round| round.worth() <= best) {
                return Some(Why::Plateau);
            }
        }
        (rounds.len() >= self.rounds).then_some(Why::Cap)
    }

    async fn refine(&self, llm: &dyn Llm, input: &str) -> Result<Refined> {
        self.check()?;
        let mut rounds: Vec<Round> = Vec::new();
        let why = loop {
            match self.round(llm, input, &rounds).await {
                Ok(round) => rounds.push(round),
                Err(error) if rounds.is_empty() => return Err(error),
                Err(error) if error.kind() == ErrorKind::OverBudget => break Why::OverBudget,
                Err(error) => break Why::Failed(error.to_string()),
            }
            if let Some(why) = self.ended(&rounds) {
                break why;
            }
        };
        let best = rounds.iter().map(Round::worth).fold((0, -1.0), better);
        // the latest of the best: it has seen the most feedback
        let text = rounds
            .iter()
            .rfind(|round| round.worth() == best)
            .map(|round| round.text.clone())
            .unwrap_or_default();
        Ok(Refined { text, accepted: why == Why::Accepted, why, rounds })
    }

    /// Writes and judges the next draft. A draft that is the same as an earlier one has its verdict, without a call.
    async fn round(&self, llm: &dyn Llm, input: &str, rounds: &[Round]) -> Result<Round> {
        let number = rounds.len() + 1;
        let llm = &Under::new(llm, format!("draft {number}"));
        let text = if rounds.is_empty() {
            self.drafter.run(llm, input).await?
        } else {
            self.drafter.run(llm, &self.next_input(input, rounds)).await?
        };
        llm.note(Path::root(), Event::Draft { number });
        let round = match rounds.iter().find(|round| round.text.trim() == text.trim()) {
            Some(twin) => Round { text, ..twin.clone() },
            None => self.judge(llm, input, &text).await.map_err(|error| {
                if rounds.is_empty() && error.partial().is_none() { error.with_partial(text) } else { error }
            })?,
        };
        llm.note(
            Path::root(),
            Event::Judged {
                number,
                accepted: round.is_accepted(self.checks.len()),
                score: round.verdict.as_ref().and_then(|verdict| verdict.score),
                feedback: round.verdict.as_ref().map(|verdict| verdict.feedback.clone()),
            },
        );
        Ok(round)
    }
}

fn better(a: (usize, f64), b: (usize, f64)) -> (usize, f64) {
    if b > a { b } else { a }
}

impl Flow for Refine<'_> {
    type Output = Refined;

    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<Refined>> {
        async move {
            let refined = self.refine(llm, input).await?;
            if refined.accepted {
                return Ok(refined);
            }
            let reason =
                format!("no draft of {} was accepted: {}", refined.rounds.len(), refined.why.as_str());
            if self.or_fail {
                return Err(Error::new(ErrorKind::NotAccepted, reason)
                    .with_partial(refined.text)
                    .at(&llm.place()));
            }
            let capped = refined.why == Why::OverBudget;
            llm.note(
                Path::root(),
                if capped { Event::Capped { reason } } else { Event::Degraded { reason } },
            );
            Ok(refined)
        }
        .boxed()
    }

    fn check(&self) -> Result<()> {
        if self.rounds == 0 {
            return Err(Error::new(ErrorKind::Config, "`rounds(0)` writes no draft; use at least 1"));
        }
        self.drafter.check()
    }

    fn shape(&self) -> Shape {
        let draft = self.drafter.shape();
        // the first check may end a round; a judge may be asked twice for its verdict
        let checks: Vec<Shape> = self.checks.iter().map(|check| check.shape(self.rounds, 2)).collect();
        let fewest = checks.first().map_or(0, |check| check.calls().fewest);
        let all: Calls = checks.iter().map(Shape::calls).sum();
        let checked = Calls { fewest, expected: all.times(1, self.rounds).expected, most: all.most };
        let calls = checked + draft.calls().times(1, self.rounds);
        let mut shape = Shape::new("refine", "", calls)
            .noting(&format!("at most {} drafts", self.rounds))
            .part("draft", draft);
        for check in checks {
            shape = shape.part("until", check);
        }
        shape
    }
}

impl fmt::Debug for Refine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refine")
            .field("checks", &self.checks)
            .field("rounds", &self.rounds)
            .finish_non_exhaustive()
    }
}

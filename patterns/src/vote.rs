//! Parallelisation by voting: several answers to one question, and what they agree on.

use std::fmt;
use std::ops::ControlFlow;

use futures::future::{BoxFuture, FutureExt};

use crate::choose::Chosen;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::flow::{BoxFlow, Came, Flow, Last, Under, choose_by, last_apart};
use crate::llm::{Label, Llm, OneOf};
use crate::outcome::{Census, Outcome, Status, fan_out};
use crate::parts::tell_end;
use crate::path::Path;
use crate::sections::{refuse, with_defect};
use crate::shape::{Calls, Shape};

mod check;
mod rules;
mod tally;

use rules::{Count, Rule};
pub use rules::{Tie, VoteEnd};
pub use tally::{Ballot, Standing, Tally};

/// How many samples [`Vote::ahead_by`] draws at most unless told otherwise.
const MOST_SAMPLES: usize = 25;

/// `voters` answers of one flow to the same input, and what they agree on: voting, the second kind of parallelisation of
/// [Building effective agents](https://www.anthropic.com/engineering/building-effective-agents).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> patterns::Result<()> {
/// use patterns::{Choice, Flow, Reply, Request, vote};
///
/// let llm = async |request: Request| {
///     let label = if request.sample == 2 { "no" } else { "yes" };
///     let choice = Choice { label: label.to_owned(), reasoning: None, probabilities: vec![] };
///     Ok(Reply { choice: Some(choice), ..Reply::text_of(label) })
/// };
/// let review = vote(5, "Is this code safe?").among(["yes", "no"]);
/// let tally = review.run(&llm, "fn main() {}").await?;
/// assert_eq!(tally.winner.as_deref(), Some("yes"));
/// assert_eq!((tally.asked, tally.saved), (4, 1)); // three of five are for yes: the last need not be heard
/// # Ok(()) }
/// ```
///
/// A voter that is asked [among](Vote::among) labels casts its ballot as a route chooses its way, with one more call if
/// its answer cannot be read. [`normalised`](Vote::normalised) reads ballots by plain code; without either, answers are
/// compared as whole texts, without regard to case and white space.
///
/// The label with the most ballots wins, unless [`needing`](Vote::needing), [`unanimous`](Vote::unanimous) or
/// [`ahead_by`](Vote::ahead_by) says otherwise. A tie has no winner unless there is a [rule](Vote::tie) for it.
/// Abstentions, refusals and failures are never ballots, for nobody and against nobody; a winner must rest on the
/// ballots of a [quorum](Vote::quorum).
///
/// The vote ends as soon as nothing that the voters not heard yet can do would change the outcome, and no later; calls
/// under way are dropped. Every voter is asked as a [sample](crate::Request::sample) of its own, so that no cache makes
/// two of them one.
///
/// A vote that can never be decided, for want of voters, labels or weight or because two rules contradict each other, is
/// an [`ErrorKind::Config`](crate::ErrorKind::Config) before the first call; [`check`](Flow::check) tells it at once.
pub fn vote<'f>(voters: usize, flow: impl Flow + 'f) -> Vote<'f> {
    Vote::new(Voters::Same(flow.boxed(), voters))
}

/// A vote of different voters, each with one ballot: other models ([`Flow::with_model`]), other prompts, other personas.
///
/// ```
/// use patterns::{Flow, prompt, vote_of};
///
/// let ask = "Is this code safe?";
/// let panel = vote_of([
///     prompt(ask).system("You are a security engineer.").boxed(),
///     prompt(ask).system("You are a maintainer.").boxed(),
///     ask.with_model("anthropic:claude-opus-5-5").boxed(),
/// ])
/// .among(["yes", "no"]);
/// assert_eq!(panel.shape().calls().to_string(), "2 to 6 calls");
/// ```
pub fn vote_of<'f>(voters: impl IntoIterator<Item = BoxFlow<'f>>) -> Vote<'f> {
    Vote::new(Voters::Each(voters.into_iter().collect()))
}

/// Several answers and what they agree on; made by [`vote`] and [`vote_of`].
#[must_use = "flows do nothing unless run"]
pub struct Vote<'f> {
    voters: Voters<'f>,
    reading: Vec<Reading<'f>>,
    abstention: Option<Label>,
    rules: Vec<Rule>,
    weights: Option<Vec<u64>>,
    quorum: Option<usize>,
    tie: Option<Tie>,
    at_most: Option<usize>,
    at_once: Option<usize>,
}

enum Voters<'f> {
    Same(BoxFlow<'f>, usize),
    Each(Vec<BoxFlow<'f>>),
}

/// How a ballot is read.
enum Reading<'f> {
    Among(Vec<Label>),
    Code(Reader<'f>),
}

type Reader<'f> = Box<dyn Fn(&str) -> Option<String> + Send + Sync + 'f>;

/// What a voter said: the choice (`None`: it abstains), and why.
type Said = (Option<String>, Option<String>);

impl<'f> Vote<'f> {
    fn new(voters: Voters<'f>) -> Self {
        Self {
            voters,
            reading: Vec::new(),
            abstention: None,
            rules: Vec::new(),
            weights: None,
            quorum: None,
            tie: None,
            at_most: None,
            at_once: None,
        }
    }

    /// Lets the voters choose among these labels; a `(label, description)` says in a sentence what a label stands for.
    pub fn among<L: Into<Label>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        self.reading.push(Reading::Among(labels.into_iter().map(Into::into).collect()));
        self
    }

    /// Adds a label with which a voter abstains: it has been heard, but cast no ballot. It needs [`among`](Vote::among).
    pub fn abstain(mut self, label: impl Into<Label>) -> Self {
        self.abstention = Some(label.into());
        self
    }

    /// Reads the ballot out of a voter's text by plain code. `None` is an abstention.
    pub fn normalised(mut self, read: impl Fn(&str) -> Option<String> + Send + Sync + 'f) -> Self {
        self.reading.push(Reading::Code(Box::new(read)));
        self
    }

    /// Lets a label win only with at least `k` ballots, and more than any other.
    pub fn needing(mut self, k: usize) -> Self {
        self.rules.push(Rule::Needing(k as u64));
        self
    }

    /// Lets a label win only if all ballots are for it. A voter that abstains or fails does not stand in the way, as long
    /// as there is a quorum; `needing(n)` of `n` voters asks for every one of them.
    pub fn unanimous(mut self) -> Self {
        self.rules.push(Rule::Unanimous);
        self
    }

    /// Lets the label win that is the first to lead every other by `k` ballots, in the order in which answers come: the
    /// rule of MAKER ([arXiv 2511.09030](https://arxiv.org/abs/2511.09030)). As many samples as [`vote`] has voters are
    /// under way at a time, until a label leads, none can any more, or [`at_most`](Vote::at_most) were drawn.
    pub fn ahead_by(mut self, k: usize) -> Self {
        self.rules.push(Rule::AheadBy(k as u64));
        self
    }

    /// Draws at most `samples` with [`ahead_by`](Vote::ahead_by), those that fail included. Default: 25, or the number of
    /// voters if that is larger. Different voters ([`vote_of`]) have one ballot each and are never drawn twice.
    pub fn at_most(mut self, samples: usize) -> Self {
        self.at_most = Some(samples);
        self
    }

    /// Lets ballots weigh differently: one whole number from 1 per voter, in order. [`needing`](Vote::needing),
    /// [`ahead_by`](Vote::ahead_by) and the counts are then in weight; the quorum counts heads.
    pub fn weighted(mut self, weights: impl IntoIterator<Item = u32>) -> Self {
        self.weights = Some(weights.into_iter().map(u64::from).collect());
        self
    }

    /// Lets a label win only if at least `ballots` voters cast one, for whatever label. Default: more than half of the
    /// voters. `needing` and `ahead_by` say themselves what a winner needs; with them the default is 1.
    pub fn quorum(mut self, ballots: usize) -> Self {
        self.quorum = Some(ballots);
        self
    }

    /// Sets who wins a tie. Default: nobody.
    pub fn tie(mut self, rule: Tie) -> Self {
        self.tie = Some(rule);
        self
    }

    /// Asks at most `n` voters at a time; 0 asks all at once. Default: all, or with [`ahead_by`](Vote::ahead_by) as many
    /// as [`vote`] has voters.
    pub fn at_once(mut self, n: usize) -> Self {
        self.at_once = Some(n);
        self
    }

    fn rule(&self) -> Rule {
        self.rules.first().copied().unwrap_or(Rule::Plurality)
    }

    /// How many voters there are to begin with.
    fn width(&self) -> usize {
        match &self.voters {
            Voters::Same(_, n) => *n,
            Voters::Each(list) => list.len(),
        }
    }

    /// How many voters may be asked in all.
    fn samples(&self) -> usize {
        match (&self.voters, self.rule()) {
            (Voters::Same(_, n), Rule::AheadBy(_)) => self.at_most.unwrap_or(MOST_SAMPLES.max(*n)),
            (Voters::Each(list), Rule::AheadBy(_)) => self.at_most.unwrap_or(list.len()),
            _ => self.width(),
        }
    }

    fn flow(&self, n: usize) -> &BoxFlow<'f> {
        match &self.voters {
            Voters::Same(flow, _) => flow,
            Voters::Each(list) => &list[n],
        }
    }

    fn weights(&self) -> Vec<u64> {
        self.weights.clone().unwrap_or_else(|| vec![1; self.samples()])
    }

    /// How many ballots a winner must rest on.
    fn quorate(&self) -> usize {
        self.quorum.unwrap_or(match self.rule() {
            Rule::Plurality | Rule::Unanimous => self.samples() / 2 + 1,
            Rule::Needing(_) | Rule::AheadBy(_) => 1,
        })
    }

    /// The labels that a voter is asked to choose among, the abstention included.
    fn one_of(&self) -> Option<OneOf> {
        match self.reading.first() {
            Some(Reading::Among(labels)) => Some(OneOf::new(labels.iter().chain(&self.abstention).cloned())),
            _ => None,
        }
    }

    /// Asks one voter.
    async fn ask(&self, llm: &dyn Llm, n: usize, input: &str, one_of: Option<&OneOf>) -> Result<Said> {
        let number = u32::try_from(n + 1).unwrap_or(u32::MAX);
        let llm = &Under::new(llm, format!("voter {number}")).sample(number);
        llm.note(Path::root(), Event::BranchStarted { branch: format!("voter {number}") });
        let flow = self.flow(n);
        let said = async {
            let Some(one_of) = one_of else {
                let text = flow.run(llm, input).await?;
                return Ok(match self.reading.first() {
                    Some(Reading::Code(read)) => (read(&text), Some(text)),
                    _ => (Some(text.trim().to_owned()).filter(|text| !text.is_empty()), None),
                });
            };
            let Chosen { label, reasoning, .. } = choose_by(flow, llm, input, one_of).await?;
            let abstains = self.abstention.as_ref().is_some_and(|abstention| abstention.name == label);
            Ok(((!abstains).then_some(label), reasoning))
        };
        said.await.map_err(|error: Error| error.at(&llm.place()))
    }

    /// What two ballots for the same choice have in common.
    fn key(&self, choice: &str) -> String {
        if self.reading.is_empty() {
            choice.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
        } else {
            choice.to_owned()
        }
    }

    async fn hold(&self, llm: &dyn Llm, input: &str) -> Result<Tally> {
        self.check().map_err(|error| error.at(&llm.place()))?;
        let one_of = self.one_of();
        let weights = self.weights();
        let labels: Option<Vec<&str>> = match self.reading.first() {
            Some(Reading::Among(labels)) => Some(labels.iter().map(|label| label.name.as_str()).collect()),
            _ => None,
        };
        let tie = self.tie.as_ref().map(|tie| match tie {
            Tie::To(label) => Tie::To(self.key(label)),
            other => other.clone(),
        });
        let mut count = Count::new(self.rule(), tie.as_ref(), self.quorate(), labels.as_deref(), &weights);
        let branches = (1..=weights.len()).map(|n| format!("voter {n}")).collect();
        llm.note(Path::root(), Event::FannedOut { branches });

        let jobs = (0..weights.len()).map(|n| self.ask(llm, n, input, one_of.as_ref()).boxed()).collect();
        let at_once = self.at_once.unwrap_or(match self.rule() {
            Rule::AheadBy(_) => self.width(),
            _ => 0,
        });
        let mut ballots = Vec::new();
        let mut names: Vec<String> = labels.iter().flatten().map(|label| (*label).to_owned()).collect();
        let mut decision = None;
        fan_out(jobs, at_once, |n, said: Result<Said>| {
            let (choice, reasoning) = match &said {
                Ok((choice, reasoning)) => (choice.clone(), reasoning.clone()),
                Err(_) => (None, None),
            };
            let voter = n + 1;
            if said.is_ok() {
                llm.note(Path::root(), Event::Ballot { voter, choice: choice.clone() });
            }
            count.hear(weights[n], choice.as_deref().map(|choice| self.key(choice)).as_deref());
            if let Some(choice) = choice
                && names.len() < count.standings.len()
            {
                names.push(choice);
            }
            let outcome = Outcome::from(said.map(|(choice, _)| choice));
            tell_end(llm, &format!("voter {voter}"), &outcome);
            ballots.push(Ballot { voter, outcome, reasoning });
            decision = count.decision();
            if decision.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .await;
        Ok(self.tally(llm, &count, decision, ballots, names))
    }

    fn tally(
        &self,
        llm: &dyn Llm,
        count: &Count<'_>,
        decision: Option<rules::Decision>,
        ballots: Vec<Ballot>,
        names: Vec<String>,
    ) -> Tally {
        let (winner, why) = match decision {
            Some(Ok(place)) => (names.get(place).cloned(), VoteEnd::Decided),
            Some(Err(why)) => (None, why),
            // every vote is decided once all are heard
            None => (None, VoteEnd::Impossible),
        };
        let mut census = Census::of(ballots.iter().map(|ballot| &ballot.outcome));
        let asked = ballots.len();
        let heard: Vec<_> = ballots.iter().map(|ballot| ballot.voter).collect();
        for n in (1..=self.samples()).filter(|n| !heard.contains(n)) {
            tell_end(llm, &format!("voter {n}"), &Outcome::<()>::Cancelled);
            census.add(Status::Cancelled);
        }
        let tally = Tally {
            winner,
            why,
            counts: names
                .into_iter()
                .zip(&count.standings)
                .map(|(label, standing)| Standing { label, votes: standing.weight })
                .collect(),
            margin: count.margin(),
            abstained: ballots.iter().filter(|ballot| matches!(ballot.outcome, Outcome::Ok(None))).count(),
            ballots,
            asked,
            saved: self.samples() - asked,
            census,
        };
        llm.note(
            Path::root(),
            Event::Decided {
                winner: tally.winner.clone(),
                why: why.as_str().to_owned(),
                asked: tally.asked,
                saved: tally.saved,
            },
        );
        if tally.winner.is_none() || tally.failed() > 0 {
            llm.note(Path::root(), Event::Degraded { reason: tally.to_string() });
        }
        tally
    }
}

impl Flow for Vote<'_> {
    type Output = Tally;

    fn run<'a>(&'a self, llm: &'a dyn Llm, input: &'a str) -> BoxFuture<'a, Result<Tally>> {
        self.hold(llm, input).boxed()
    }

    fn run_last<'a>(
        &'a self,
        llm: &'a dyn Llm,
        input: &'a str,
        last: Last<'a>,
    ) -> BoxFuture<'a, Result<Came>> {
        let Last::Chooses(one_of) = last else { return last_apart(self, llm, input, last) };
        async move {
            let winner = self.run_text(llm, input).await?;
            match one_of.find(&winner) {
                Some(label) => Ok(Came::chosen(Chosen {
                    label: label.name.clone(),
                    reasoning: None,
                    probabilities: Vec::new(),
                })),
                None => Came::read(&winner, one_of, llm),
            }
        }
        .boxed()
    }

    fn shape(&self) -> Shape {
        let flows: Vec<_> = match &self.voters {
            Voters::Same(flow, _) => vec![flow.shape()],
            Voters::Each(list) => list.iter().map(Flow::shape).collect(),
        };
        // one more call where a choice cannot be read
        let again = Calls { most: Some(u64::from(self.one_of().is_some())), ..Calls::NONE };
        let one = |n: usize| flows[n.min(flows.len() - 1)].calls() + again;
        let samples = if flows.is_empty() { 0 } else { self.samples() };
        let mut fewest: Vec<_> = (0..samples).map(|n| one(n).fewest).collect();
        fewest.sort_unstable();
        let calls = Calls {
            // voters that fail or abstain may make no call at all
            fewest: fewest.iter().take(self.fewest_ballots()).fold(0, |sum, n| sum.saturating_add(*n)),
            ..(0..samples).map(one).sum()
        };
        let mut shape = Shape::new("vote", "", calls).noting(&self.title());
        for (n, flow) in flows.into_iter().enumerate() {
            let edge = match self.voters {
                Voters::Same(..) => format!("{} times", self.width()),
                Voters::Each(_) => format!("voter {}", n + 1),
            };
            shape = shape.part(edge, flow);
        }
        with_defect(shape, self.defect())
    }

    fn check(&self) -> Result<()> {
        refuse(self.defect())?;
        match &self.voters {
            Voters::Same(flow, _) => flow.check(),
            Voters::Each(list) => list.iter().try_for_each(Flow::check),
        }
    }
}

impl Vote<'_> {
    /// The fewest ballots with which a label can win.
    fn fewest_ballots(&self) -> usize {
        let needed = match self.rule() {
            Rule::Needing(k) | Rule::AheadBy(k) => k,
            Rule::Plurality | Rule::Unanimous => 1,
        };
        let mut weights = self.weights();
        weights.sort_unstable_by(|a, b| b.cmp(a));
        let mut sum = 0;
        let heads = weights
            .iter()
            .take_while(|weight| {
                let short = sum < needed;
                sum += **weight;
                short
            })
            .count();
        heads.max(self.quorate())
    }

    fn title(&self) -> String {
        let rule = match self.rule() {
            Rule::Plurality => "plurality".to_owned(),
            Rule::Needing(k) => format!("needing {k}"),
            Rule::Unanimous => "unanimous".to_owned(),
            Rule::AheadBy(k) => format!("ahead by {k}, at most {} samples", self.samples()),
        };
        match self.one_of() {
            Some(one_of) => format!("{}, {rule}", one_of.names().join("/")),
            None => rule,
        }
    }
}

impl fmt::Debug for Vote<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vote")
            .field("voters", &self.width())
            .field("rule", &self.rule())
            .field("quorum", &self.quorate())
            .field("tie", &self.tie)
            .field("at_once", &self.at_once)
            .finish_non_exhaustive()
    }
}

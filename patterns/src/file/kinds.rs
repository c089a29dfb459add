//! The patterns of a flow file, one function each.

use std::collections::BTreeSet;

use super::build::Build;
use super::read::{Table, Value};
use crate::chain::chain;
use crate::flow::{BoxFlow, Flow};
use crate::gate::Gate;
use crate::llm::Label;
use crate::orchestrate::{Orchestrate, orchestrate};
use crate::outcome::Policy;
use crate::refine::{Refine, refine};
use crate::route::{Route, route};
use crate::sections::{ForEach, Sections, for_each, sections};
use crate::vote::{Tie, Vote, vote, vote_of};

impl Build<'_, '_> {
    pub(super) fn chain(&self, main: &Value<'_, '_>) -> BoxFlow<'static> {
        let mut steps: Vec<BoxFlow<'static>> = Vec::new();
        for item in main.items() {
            let gate = item.is_table().then(|| item.table()).flatten().filter(|table| table.has("gate"));
            let Some(table) = gate else {
                steps.push(self.flow(&item));
                continue;
            };
            let name = table.get("gate").and_then(|name| name.text()).unwrap_or_default();
            let repair = table.get("repair").and_then(|repair| repair.count(0)).unwrap_or(0);
            let check = self.check_in(&table);
            table.finish();
            let Some(step) = steps.pop() else {
                item.report("is a gate with no step before it");
                continue;
            };
            if let Some(check) = check {
                let check = check.repair(u32::try_from(repair).unwrap_or(u32::MAX));
                steps.push(Gate::new(step, name.to_owned(), check).boxed());
            }
        }
        if steps.is_empty() {
            main.report("has no step");
        }
        chain(steps).boxed()
    }

    pub(super) fn route(&self, main: &Value<'_, '_>, table: &Table<'_, '_>) -> Option<Route<'static>> {
        let mut flow = route(self.words(main)?);
        let mut labels = BTreeSet::new();
        // the rule before which nothing is left to match
        let mut catches_all: Option<String> = None;
        for way in table.need("when", "the ways, as [[flow.when]] tables").iter().flat_map(Value::items) {
            let Some(way) = way.table() else { continue };
            let label = self.label(&way);
            if let (Some(value), Some(label)) = (way.get("label"), &label)
                && !labels.insert(label.name.to_lowercase())
            {
                value.report(format!(
                    "two ways are labelled `{}`; labels are compared without regard to case",
                    label.name
                ));
            }
            for rule in way.get("matches").iter().flat_map(Value::items) {
                let (Some(regex), Some(label)) = (self.regex(&rule), &label) else { continue };
                if let Some(before) = &catches_all {
                    rule.report(format!(
                        "is never reached: the rule `{before}` before it matches every text"
                    ));
                }
                if matches_everything(&regex) {
                    catches_all = Some(regex.to_string());
                }
                flow = flow.when_matches(&label.name, regex);
            }
            let to = way.need("flow", "what is done on this way").map(|to| self.flow(&to));
            way.finish();
            if let (Some(label), Some(to)) = (label, to) {
                flow = flow.when(label, to);
            }
        }
        if let Some(otherwise) = table.get("otherwise") {
            flow = flow.otherwise(self.flow(&otherwise));
        }
        for (key, set) in [
            ("least_confidence", Route::least_confidence as fn(Route<'static>, f64) -> Route<'static>),
            ("least_margin", Route::least_margin),
        ] {
            if let Some(least) = table.get(key).and_then(|value| value.number(0.0, 1.0)) {
                flow = set(flow, least);
            }
        }
        if let Some(rule) = catches_all {
            main.report(format!(
                "the rule `{rule}` matches every text, so that nothing else is ever reached"
            ));
        }
        Some(flow)
    }

    /// `label` and `about`
    pub(super) fn label(&self, table: &Table<'_, '_>) -> Option<Label> {
        let about = table.get("about").and_then(|about| self.words(&about)).unwrap_or_default();
        let name = table.need("label", "a word or two")?;
        let text = name.text()?;
        if text.trim().is_empty() {
            name.report("is empty");
        }
        Some((text, about).into())
    }

    pub(super) fn refine(&self, main: &Value<'_, '_>, table: &Table<'_, '_>) -> Option<Refine<'static>> {
        let drafter = refine(self.flow(main));
        let checks = table.need("until", "what makes a draft acceptable")?;
        let mut checks =
            checks.items().into_iter().filter_map(|check| self.check(&check)).collect::<Vec<_>>().into_iter();
        let mut flow = drafter.until(checks.next()?);
        for check in checks {
            flow = flow.until(check);
        }
        for (key, set) in [
            ("rounds", Refine::rounds as fn(Refine<'static>, usize) -> Refine<'static>),
            ("window", Refine::window),
            ("plateau", Refine::plateau),
        ] {
            if let Some(n) = table.get(key).and_then(|value| value.count(1)) {
                flow = set(flow, n);
            }
        }
        if table.get("or_fail").and_then(|value| value.flag()) == Some(true) {
            flow = flow.or_fail();
        }
        Some(flow)
    }

    pub(super) fn sections(&self, main: &Value<'_, '_>, table: &Table<'_, '_>) -> Sections<'static> {
        let mut flow = sections();
        let mut names = BTreeSet::new();
        for item in main.items() {
            let Some(section) = item.table() else { continue };
            let name = section.need("name", "a word or two").and_then(|name| Some((name.text()?, name)));
            if let Some((name, value)) = &name
                && !names.insert(*name)
            {
                value.report(format!("two sections are named `{name}`"));
            }
            let to = section.need("flow", "what is asked in this section").map(|to| self.flow(&to));
            section.finish();
            if let (Some((name, _)), Some(to)) = (name, to) {
                flow = flow.on(name, to);
            }
        }
        if let Some(policy) = policy(table) {
            flow = flow.policy(policy);
        }
        match table.get("at_once").and_then(|n| n.count(1)) {
            Some(n) => flow.at_once(n),
            None => flow,
        }
    }

    pub(super) fn for_each(
        &self,
        main: &Value<'_, '_>,
        table: &Table<'_, '_>,
    ) -> ForEach<'static, BoxFlow<'static>> {
        let mut flow = for_each(self.flow(main));
        if let Some(split) = table.get("split") {
            flow = match split.text() {
                Some("lines") | None => flow,
                Some("json") => flow.json(),
                Some("paragraphs") => flow.split_by(paragraphs),
                Some(_) => {
                    split.report("must be \"lines\", \"paragraphs\" or \"json\" (a list of texts)");
                    flow
                }
            };
        }
        if let Some(policy) = policy(table) {
            flow = flow.policy(policy);
        }
        for (key, set) in [
            ("at_most", ForEach::at_most as fn(ForEach<'static, BoxFlow<'static>>, usize) -> _),
            ("at_once", ForEach::at_once),
        ] {
            if let Some(n) = table.get(key).and_then(|value| value.count(1)) {
                flow = set(flow, n);
            }
        }
        flow
    }

    pub(super) fn vote(&self, main: &Value<'_, '_>, table: &Table<'_, '_>) -> Option<Vote<'static>> {
        let voters = table.get("voters");
        let mut flow = if main.is_list() {
            if let Some(voters) = voters {
                voters.report("is given by the list of voters; leave it out");
            }
            vote_of(main.items().iter().map(|voter| self.flow(voter)).collect::<Vec<_>>())
        } else {
            vote(voters.map_or(Some(3), |voters| voters.count(1))?, self.flow(main))
        };
        if let Some(among) = table.get("among") {
            flow = flow
                .among(among.items().iter().filter_map(|label| self.bare_label(label)).collect::<Vec<_>>());
        }
        if let Some(label) = table.get("abstain").and_then(|label| self.bare_label(&label)) {
            flow = flow.abstain(label);
        }
        for (key, set) in [
            ("needing", Vote::needing as fn(Vote<'static>, usize) -> Vote<'static>),
            ("ahead_by", Vote::ahead_by),
            ("at_most", Vote::at_most),
            ("quorum", Vote::quorum),
            ("at_once", Vote::at_once),
        ] {
            if let Some(n) = table.get(key).and_then(|value| value.count(1)) {
                flow = set(flow, n);
            }
        }
        if table.has("ahead_by") && !table.has("at_most") {
            table.report("needs `at_most` beside `ahead_by`: the most voters, so that the vote ends");
        }
        if table.get("unanimous").and_then(|value| value.flag()) == Some(true) {
            flow = flow.unanimous();
        }
        if let Some(weights) = table.get("weights") {
            let weights = weights.items().iter().map(|weight| weight.count(0)).collect::<Option<Vec<_>>>()?;
            flow = flow.weighted(weights.into_iter().map(|weight| u32::try_from(weight).unwrap_or(u32::MAX)));
        }
        if let Some(tie) = table.get("tie") {
            flow = flow.tie(match tie.text()? {
                "declared" => Tie::Declared,
                "arrival" => Tie::Arrival,
                label => Tie::To(label.to_owned()),
            });
        }
        Some(flow)
    }

    pub(super) fn orchestrate(
        &self,
        main: &Value<'_, '_>,
        table: &Table<'_, '_>,
    ) -> Option<Orchestrate<'static>> {
        let planner = orchestrate(self.flow(main));
        let work = table.get("work").map(|work| self.flow(&work));
        let mut by_type = Vec::new();
        for item in table.get("work_on").iter().flat_map(Value::items) {
            let Some(worker) = item.table() else { continue };
            let about = worker.get("about").and_then(|about| self.words(&about)).unwrap_or_default();
            let kind = worker.need("type", "the type of task").and_then(|kind| kind.text());
            let to = worker.need("flow", "what this worker is told").map(|to| self.flow(&to));
            worker.finish();
            if let (Some(kind), Some(to)) = (kind, to) {
                by_type.push((Label::from((kind, about)), to));
            }
        }
        let mut by_type = by_type.into_iter();
        let mut flow = match (work, by_type.next()) {
            (Some(work), None) => planner.work(work),
            (None, Some((kind, to))) => planner.work_on(kind, to),
            (Some(work), Some((kind, to))) => planner.work(work).work_on(kind, to),
            (None, None) => {
                table.report("needs `work`: what every worker is told (or [[work_on]] tables by type)");
                return None;
            }
        };
        for (kind, to) in by_type {
            flow = flow.work_on(kind, to);
        }
        if let Some(merge) = table.get("merge") {
            flow = flow.merge(self.flow(&merge));
        }
        for (key, set) in [
            ("at_most", Orchestrate::at_most as fn(Orchestrate<'static>, usize) -> Orchestrate<'static>),
            ("at_once", Orchestrate::at_once),
        ] {
            if let Some(n) = table.get(key).and_then(|value| value.count(1)) {
                flow = set(flow, n);
            }
        }
        for (key, set) in [
            ("retries", Orchestrate::retries as fn(Orchestrate<'static>, u32) -> Orchestrate<'static>),
            ("rounds", Orchestrate::rounds),
        ] {
            if let Some(n) = table.get(key).and_then(|value| value.count(0)) {
                flow = set(flow, u32::try_from(n).unwrap_or(u32::MAX));
            }
        }
        Some(match policy(table) {
            Some(policy) => flow.policy(policy),
            None => flow,
        })
    }

    /// A label alone, or a table with `label` and `about`.
    fn bare_label(&self, value: &Value<'_, '_>) -> Option<Label> {
        if let Some(name) = value.as_text() {
            return Some(name.into());
        }
        let table = value.table()?;
        let label = self.label(&table);
        table.finish();
        label
    }
}

/// `policy = "all"`, `"best_effort"` or `{ at_least = n }`
fn policy(table: &Table<'_, '_>) -> Option<Policy> {
    let value = table.get("policy")?;
    if value.is_table() {
        let table = value.table()?;
        let n = table.need("at_least", "how many must come to an answer")?.count(1)?;
        table.finish();
        return Some(Policy::AtLeast(n));
    }
    match value.as_text() {
        Some("all") => Some(Policy::All),
        Some("best_effort") => Some(Policy::BestEffort),
        _ => {
            value.report("must be \"all\", \"best_effort\" or { at_least = N }");
            None
        }
    }
}

fn paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in text.lines() {
        match paragraphs.last_mut() {
            Some(last) if !line.trim().is_empty() => {
                if !last.is_empty() {
                    last.push('\n');
                }
                last.push_str(line);
            }
            Some(last) if last.is_empty() => {}
            _ => paragraphs.push(String::new()),
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    paragraphs
}

/// Whether a regular expression matches every text: it matches the empty text, and a text that no sensible rule means.
fn matches_everything(regex: &regex::Regex) -> bool {
    regex.is_match("") && regex.is_match("\u{1}\n\u{1}")
}

//! Chooses the best nodes that fit: the only place where Tombolo chooses a node.
//!
//! A node is a candidate if it is up, can run the program and meets all needs. Candidates are ordered by
//! their cost, whose parts count in this order:
//!
//! 1. the distance: the sum of the round trips to the nodes that it should be near; an unknown one comes
//!    last. If the machine file has those measured by `tombolo bench link` for the links of all candidates,
//!    these are used, otherwise those between monitors: the two are never compared with each other;
//! 2. the free speed: idle processors × speed of one, more is better. A busy node counts as 1 % idle, so that
//!    a faster one still comes first. If the speed is unknown (an emulator on the host), it is 0;
//! 3. the number of live domains, then the number of the node.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tombolo::error::Fault;
use tombolo::nodes::Target;

use crate::PlacementError;
use crate::facts::{Facts, NodeFact, integer, link_targets};
use crate::needs::{Need, NeedValue, Needs, Operator, Subject, Unit};
use tombolo::names::Value;

/// Share of a processor that counts as idle on a node whose processors are all busy, in thousandths.
const SHARE_PERMILLE: u64 = 10;

/// Cost of a node, in order of weight; see the module.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cost {
    /// Whether the distance is unknown, then the sum of round trips, in ns.
    distance: (bool, u64),
    /// Idle processors × iterations of a short loop per ms of one processor.
    free_speed: Reverse<u64>,
    domains: u64,
    number: u64,
}

impl Cost {
    /// Sum of the round trips to the nodes that it should be near, in ns; `None` if one is unknown.
    #[must_use]
    pub fn distance_ns(&self) -> Option<u64> {
        (!self.distance.0).then_some(self.distance.1)
    }

    /// Idle processors × iterations of a short loop per ms of one processor.
    #[must_use]
    pub fn free_speed(&self) -> u64 {
        self.free_speed.0
    }
}

/// Node that meets all needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Name of the node.
    pub node: String,
    /// Cost of the node.
    pub cost: Cost,
    /// Explanation of the cost for users.
    pub why: String,
    /// Each need, with the value that meets it.
    pub met: Vec<String>,
}

/// Node that does not meet the needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejected {
    /// Name of the node.
    pub node: String,
    /// Reasons: each need that is not met, with the node's value.
    pub reasons: Vec<String>,
}

/// Result of a choice: the nodes that fit and those that do not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choice {
    /// Nodes that fit, best first.
    pub candidates: Vec<Candidate>,
    /// Other nodes, by number.
    pub rejected: Vec<Rejected>,
}

/// Chooses among the nodes of a machine. With `targets`, only nodes with one of these builds are candidates.
///
/// # Errors
/// [`Fault::NoSuchNode`] if a node in `near` does not exist.
pub fn choose(facts: &Facts, needs: &Needs, targets: Option<&[Target]>) -> Result<Choice, PlacementError> {
    let available = || facts.nodes().iter().map(|node| node.name().to_owned()).collect();
    if let Some(name) = needs.near.iter().find(|name| facts.nodes().iter().all(|node| node.name() != **name))
    {
        let fault = Fault::NoSuchNode { name: name.clone(), available: available() };
        return Err(PlacementError::Machine(fault.into()));
    }
    let fitting = facts.nodes().iter().map(|node| (node, check_node(facts, node, needs, targets)));
    let fitting: Vec<(&NodeFact, _)> = fitting.collect();
    let candidates = fitting.iter().filter(|(_, met)| met.is_ok()).map(|(node, _)| *node);
    let round_trip = distance_attribute(facts, needs, candidates);
    let fastest = facts.nodes().iter().filter_map(|node| node.integer("rounds_per_ms")).max().unwrap_or(0);
    let mut choice = Choice::default();
    for (node, result) in fitting {
        match result {
            Ok(met) => choice.candidates.push(Candidate {
                node: node.name().to_owned(),
                cost: cost(facts, node, needs, round_trip),
                why: describe_node(node, fastest),
                met,
            }),
            Err(reasons) => choice.rejected.push(Rejected { node: node.name().to_owned(), reasons }),
        }
    }
    choice.candidates.sort_by(|a, b| a.cost.cmp(&b.cost));
    Ok(choice)
}

fn check_node(
    facts: &Facts,
    node: &NodeFact,
    needs: &Needs,
    targets: Option<&[Target]>,
) -> Result<Vec<String>, Vec<String>> {
    let (mut met, mut reasons) = (Vec::new(), Vec::new());
    if !node.is_up() {
        reasons.push("it is down".to_owned());
    }
    if let (Some(targets), Some(target)) = (targets, node.target())
        && !targets.contains(&target)
    {
        let built: Vec<&str> = targets.iter().map(|target| target.name()).collect();
        reasons.push(format!("it runs {}, and the image is built for {}", target.name(), built.join(", ")));
    }
    for need in &needs.conditions {
        let values = values(facts, node, needs, need);
        let holds = values.iter().all(|(_, value)| value.as_ref().is_some_and(|value| is_met(need, value)));
        let shown: Vec<String> =
            values.iter().map(|(of, value)| format!("{of} {}", format_value(need, value.as_ref()))).collect();
        let list = if holds { &mut met } else { &mut reasons };
        list.push(format!("{need}: {}", shown.join(", ")));
    }
    if reasons.is_empty() { Ok(met) } else { Err(reasons) }
}

/// Returns the values that a need is compared with, each with a phrase that says what it belongs to.
fn values(facts: &Facts, node: &NodeFact, needs: &Needs, need: &Need) -> Vec<(String, Option<Value>)> {
    let attribute = need.key.attribute;
    match need.key.subject {
        Subject::Node => vec![("it has".to_owned(), node.record().attributes.get(attribute).cloned())],
        Subject::Link => link_targets(needs, facts.host())
            .into_iter()
            .map(|goal| {
                let value = if goal == node.name() {
                    // A node has no link to itself.
                    (need.key.unit != Unit::Rate).then_some(Value::Integer(0))
                } else {
                    facts.link(node.name(), goal).and_then(|link| link.attributes.get(attribute)).cloned()
                };
                (format!("to {goal} it has"), value)
            })
            .collect(),
    }
}

fn is_met(need: &Need, value: &Value) -> bool {
    let compare = |wanted: &NeedValue| match (wanted, value) {
        (NeedValue::Word(wanted), Value::Text(value)) => Some(value.as_str().cmp(wanted)),
        (NeedValue::Number(wanted), Value::Integer(value)) => Some(u64::try_from(*value).ok()?.cmp(wanted)),
        _ => None,
    };
    let mut each =
        need.values.iter().map(|wanted| compare(wanted).is_some_and(|it| need.operator.matches(it)));
    if need.operator == Operator::NotEqual { each.all(|it| it) } else { each.any(|it| it) }
}

fn format_value(need: &Need, value: Option<&Value>) -> String {
    match value {
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Integer(value)) => need.key.unit.format(u64::try_from(*value).unwrap_or(0)),
        _ => "no known value".to_owned(),
    }
}

/// Returns the attribute of links that measures the distance of all candidates.
fn distance_attribute<'a>(
    facts: &Facts,
    needs: &Needs,
    mut candidates: impl Iterator<Item = &'a NodeFact>,
) -> &'static str {
    const MEASURED: &str = "message_round_trip_ns";
    let known = |node: &NodeFact, goal: &String| {
        node.name() == goal
            || facts.link(node.name(), goal).is_some_and(|link| integer(link, MEASURED).is_some())
    };
    if candidates.all(|node| needs.near.iter().all(|goal| known(node, goal))) {
        MEASURED
    } else {
        "round_trip_ns"
    }
}

fn cost(facts: &Facts, node: &NodeFact, needs: &Needs, round_trip: &str) -> Cost {
    let to = |goal: &String| match goal == node.name() {
        true => Some(0),
        false => facts.link(node.name(), goal).and_then(|link| integer(link, round_trip)),
    };
    let distance_ns: Option<u64> = needs.near.iter().map(to).sum();
    Cost {
        distance: (distance_ns.is_none(), distance_ns.unwrap_or(0)),
        free_speed: Reverse(free_speed(node, node.integer("free_permille").unwrap_or(0))),
        domains: node.integer("domains").unwrap_or(0),
        number: node.integer("number").unwrap_or(0),
    }
}

fn free_speed(node: &NodeFact, free_permille: u64) -> u64 {
    // Without a sample, no processor counts as free.
    let free = node.integer("free_permille").map_or(0, |_| free_permille.max(SHARE_PERMILLE));
    free.saturating_mul(node.integer("rounds_per_ms").unwrap_or(0)) / 1000
}

fn describe_node(node: &NodeFact, fastest: u64) -> String {
    let Some(free) = node.integer("free_permille") else {
        return "nothing is known of its processors yet".to_owned();
    };
    if node.kernel() != node.name() {
        let kernel = node.kernel();
        return format!(
            "it runs under an emulator on {kernel}'s processors, and what that costs is not measured"
        );
    }
    let processors = node.integer("processors").unwrap_or(1);
    let idle = match processors {
        1 => format!("{} % of its one processor is free", free / 10),
        _ => format!("{}.{} of its {processors} processors are free", free / 1000, free % 1000 / 100),
    };
    match node.integer("rounds_per_ms") {
        None => format!("{idle}; its speed is not measured yet"),
        Some(speed) if speed >= fastest => format!("{idle}, and none here is faster"),
        Some(speed) => {
            let percent = (speed * 100 / fastest.max(1)).max(1);
            format!("{idle}; each does {percent} % of what the fastest here does")
        }
    }
}

/// Automatic choice of nodes for ranks: `--on auto`.
#[derive(Clone, PartialEq, Debug)]
pub struct Auto {
    facts: Facts,
    needs: Needs,
    targets: Option<Vec<Target>>,
    /// Number of placed ranks, by the node whose processors they use.
    placed: BTreeMap<String, u64>,
}

impl Auto {
    /// Creates a chooser with these facts and needs, for nodes with one of the builds.
    #[must_use]
    pub fn new(facts: Facts, needs: Needs, targets: Option<Vec<Target>>) -> Auto {
        Auto { facts, needs, targets, placed: BTreeMap::new() }
    }

    /// Replaces facts, needs and builds. Ranks that have been placed still count.
    pub fn update(&mut self, facts: Facts, needs: Needs, targets: Option<Vec<Target>>) {
        (self.facts, self.needs, self.targets) = (facts, needs, targets);
    }

    /// Chooses a node for each of `count` ranks, one after another. Each rank takes a processor; a node gets
    /// more ranks than processors only when all candidates have at least as many.
    ///
    /// # Errors
    /// [`PlacementError::NoFit`] with each node and the reason why it does not fit.
    pub fn assign(&mut self, count: usize) -> Result<Vec<String>, PlacementError> {
        let Choice { candidates, rejected } = choose(&self.facts, &self.needs, self.targets.as_deref())?;
        if candidates.is_empty() {
            return Err(PlacementError::NoFit { rejected });
        }
        let nodes: Vec<(&NodeFact, Cost)> = candidates
            .iter()
            .filter_map(|candidate| {
                let node = self.facts.nodes().iter().find(|node| node.name() == candidate.node)?;
                Some((node, candidate.cost.clone()))
            })
            .collect();
        let mut chosen = Vec::with_capacity(count);
        for _ in 0..count {
            let placed = &self.placed;
            let best = nodes.iter().min_by_key(|(node, cost)| {
                let placed_here = placed.get(node.kernel()).copied().unwrap_or(0);
                let full = placed_here / node.integer("processors").unwrap_or(1).max(1);
                let free = node.integer("free_permille").unwrap_or(0).saturating_sub(1000 * placed_here);
                let now = Cost {
                    free_speed: Reverse(free_speed(node, free)),
                    domains: cost.domains + placed_here,
                    ..cost.clone()
                };
                (full, now)
            });
            let Some((node, _)) = best else { break };
            chosen.push(node.name().to_owned());
            let kernel = node.kernel().to_owned();
            *self.placed.entry(kernel).or_default() += 1;
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests;

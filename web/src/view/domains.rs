//! Domains, live and ended.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tombolo::DomainId;
use tombolo_admin::observe::{Seen, SeenDomain};

use super::{Filter, Missing, Page, RowRange, ms, node_name};

/// Selects and sorts domains.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct DomainsQuery {
    /// Word to find in the id, program, arguments or node.
    pub filter: String,
    /// Only domains on this node.
    pub node: Option<String>,
    /// Live, ended, or all.
    pub state: DomainState,
    /// Sort key of the domains.
    pub sort: DomainSort,
    /// Whether the greatest comes first.
    pub descending: bool,
    /// Range of the matching rows.
    #[serde(flatten)]
    pub cut: RowRange,
}

/// Selects domains by whether they live.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "they say what they are")]
pub enum DomainState {
    #[default]
    Live,
    Ended,
    All,
}

/// Sort key of domains; ties are broken by id.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "they say what they are")]
pub enum DomainSort {
    #[default]
    Id,
    Program,
    Node,
    Load,
    Memory,
    Since,
}

/// Row of a domain. Values that its kernel has not reported are null.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct DomainRow {
    pub key: String,
    pub program: String,
    pub arguments: String,
    pub node: String,
    pub isa: Option<&'static str>,
    pub pid: i32,
    pub parent: Option<String>,
    pub since_ms: u64,
    pub ended_ms: Option<u64>,
    pub exit: Option<String>,
    pub failed: bool,
    pub paused: bool,
    pub load: Option<u32>,
    pub memory_bytes: Option<u64>,
    pub threads: Option<u32>,
    pub channels: u32,
    pub restartable: bool,
    pub repeatable: bool,
    pub steerable: bool,
}

/// Details of one domain, with its row.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct DomainDetail {
    #[serde(flatten)]
    pub domain: DomainRow,
    pub output_bytes: u64,
    pub children: Vec<String>,
    pub regions: Vec<String>,
}

fn row(seen: &Seen, domain: &SeenDomain) -> DomainRow {
    let failed = domain.exit.as_ref().is_some_and(|exit| exit.shell_status() != 0);
    // A cell of a table, not a sentence: "killed by SIGKILL".
    let exit = domain.exit.as_ref().map(|exit| exit.to_string().trim_start_matches("was ").to_owned());
    let sample = domain.sample.filter(|_| domain.exit.is_none());
    DomainRow {
        key: domain.id.to_string(),
        program: domain.program.clone(),
        arguments: domain.arguments.clone(),
        node: node_name(seen, domain.node),
        isa: seen.nodes.get(&domain.node).map(|node| node.info.isa.name()),
        pid: domain.pid,
        parent: domain.parent.map(|parent| parent.to_string()),
        since_ms: ms(domain.since_ns),
        ended_ms: domain.exit.is_some().then(|| ms(domain.ended_ns)),
        // Only domains started by the machine can be paused or ended.
        steerable: exit.is_none() && domain.parent.is_some(),
        exit,
        failed,
        paused: domain.paused,
        load: sample.map(|sample| sample.load_permille),
        memory_bytes: sample.map(|sample| sample.resident_bytes),
        threads: sample.map(|sample| sample.threads),
        channels: domain.channels,
        restartable: domain.restartable,
        repeatable: domain.repeatable,
    }
}

/// Returns the domains that a query selects.
#[must_use]
pub fn domains(seen: &Seen, query: &DomainsQuery) -> Page<DomainRow> {
    let filter = Filter::new(&query.filter);
    let node = query.node.as_deref().map(|name| seen.nodes.values().find(|node| node.info.name == name));
    let node = node.map(|found| found.map(|node| node.info.id));
    let wanted = |domain: &&SeenDomain| {
        let state = match query.state {
            DomainState::Live => domain.exit.is_none(),
            DomainState::Ended => domain.exit.is_some(),
            DomainState::All => true,
        };
        let name = || seen.nodes.get(&domain.node).map_or("", |node| node.info.name.as_str());
        state
            && node.is_none_or(|node| node == Some(domain.node))
            && (filter.0.is_empty()
                || filter.matches([domain.program.as_str(), &domain.arguments, name()])
                || filter.matches([domain.id.to_string().as_str()]))
    };
    let mut all: Vec<&SeenDomain> = seen.domains.values().filter(wanted).collect();
    sort(&mut all, query.sort, query.descending);
    query.cut.of(&all, |domain| row(seen, domain))
}

fn sort(domains: &mut [&SeenDomain], by: DomainSort, descending: bool) {
    let load = |domain: &SeenDomain| domain.sample.map_or(0, |sample| sample.load_permille);
    let memory = |domain: &SeenDomain| domain.sample.map_or(0, |sample| sample.resident_bytes);
    let compare = |a: &SeenDomain, b: &SeenDomain| match by {
        DomainSort::Id => Ordering::Equal,
        DomainSort::Program => a.program.cmp(&b.program),
        DomainSort::Node => a.node.cmp(&b.node),
        DomainSort::Load => load(a).cmp(&load(b)),
        DomainSort::Memory => memory(a).cmp(&memory(b)),
        DomainSort::Since => a.since_ns.cmp(&b.since_ns),
    };
    domains.sort_by(|a, b| {
        let order = compare(a, b);
        // Ties keep their order in either direction.
        let order = if descending { order.reverse() } else { order };
        let by_id = a.id.cmp(&b.id);
        order.then(if descending && by == DomainSort::Id { by_id.reverse() } else { by_id })
    });
}

/// Returns the details of a domain.
///
/// # Errors
/// If the domain is unknown or no longer remembered.
pub fn domain(seen: &Seen, id: DomainId) -> Result<DomainDetail, Missing> {
    let domain = seen.domains.get(&id).ok_or_else(|| Missing(format!("domain {id}")))?;
    let children = seen.domains.values().filter(|other| other.parent == Some(id));
    let regions: BTreeSet<_> =
        seen.regions.values().filter(|region| region.info.maker == id).map(|region| region.info.id).collect();
    Ok(DomainDetail {
        domain: row(seen, domain),
        output_bytes: domain.output_bytes,
        children: children.map(|child| child.id.to_string()).collect(),
        regions: regions.iter().map(ToString::to_string).collect(),
    })
}

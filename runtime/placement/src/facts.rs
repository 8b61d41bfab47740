//! Facts about nodes, as far as placement needs them.

use tombolo::names::{Record, Value};
use tombolo::nodes::Target;
use tombolo::{Domain, Error, Isa};

use crate::needs::Needs;

/// Facts about a machine: all nodes, and the links to some of them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Facts {
    nodes: Vec<NodeFact>,
    links: Vec<Record>,
}

/// Facts about a node.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeFact {
    name: String,
    record: Record,
}

impl Facts {
    /// Queries the facts that a choice by these needs requires.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn query(domain: &Domain, needs: &Needs) -> Result<Facts, Error> {
        let nodes = domain.facts("node/*")?;
        let host = nodes.first().and_then(|record| record.text("node").ok()).unwrap_or_default();
        let mut links = Vec::new();
        for name in link_targets(needs, host) {
            // Names of nodes are plain; any other name has no links.
            if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                links.extend(domain.facts(&format!("link/{name}/*"))?);
                links.extend(domain.facts(&format!("link/*/{name}"))?);
            }
        }
        Ok(Facts::from_records(nodes.into_iter().chain(links)))
    }

    /// Collects facts from the root's records; others are ignored.
    pub fn from_records(records: impl IntoIterator<Item = Record>) -> Facts {
        let mut facts = Facts::default();
        for record in records {
            match record.text("node") {
                Ok(name) if record.name.starts_with("node/") => {
                    facts.nodes.push(NodeFact { name: name.to_owned(), record });
                }
                _ if record.name.starts_with("link/") => facts.links.push(record),
                _ => {}
            }
        }
        facts
    }

    /// All nodes, by number.
    #[must_use]
    pub fn nodes(&self) -> &[NodeFact] {
        &self.nodes
    }

    /// Name of the host, the first node.
    #[must_use]
    pub fn host(&self) -> &str {
        self.nodes.first().map_or("", NodeFact::name)
    }

    /// Returns the fact about the link between two nodes.
    #[must_use]
    pub fn link(&self, a: &str, b: &str) -> Option<&Record> {
        let joins = |record: &&Record| {
            let ends = (record.text("from").unwrap_or_default(), record.text("to").unwrap_or_default());
            ends == (a, b) || ends == (b, a)
        };
        self.links.iter().find(joins)
    }
}

/// Returns the nodes to which links are queried.
pub(crate) fn link_targets<'a>(needs: &'a Needs, host: &'a str) -> Vec<&'a str> {
    match &needs.near[..] {
        [] => vec![host],
        near => near.iter().map(String::as_str).collect(),
    }
}

/// Returns an attribute that is a number.
pub(crate) fn integer(record: &Record, attribute: &str) -> Option<u64> {
    match record.attributes.get(attribute) {
        Some(Value::Integer(value)) => u64::try_from(*value).ok(),
        _ => None,
    }
}

impl NodeFact {
    /// Name of the node.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Record with all facts about the node.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Whether the node is up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.record.bool("up").unwrap_or(false)
    }

    /// Returns the target of programs for this node.
    #[must_use]
    pub fn target(&self) -> Option<Target> {
        let isa = Isa::from_name(self.record.text("isa").ok()?)?;
        Some(Target { bare: self.record.text("system") == Ok("none"), isa })
    }

    /// Name of the node whose kernel and processors it uses.
    #[must_use]
    pub fn kernel(&self) -> &str {
        self.record.text("kernel").unwrap_or(&self.name)
    }

    /// Returns a numeric fact about the node.
    #[must_use]
    pub fn integer(&self, attribute: &str) -> Option<u64> {
        integer(&self.record, attribute)
    }
}

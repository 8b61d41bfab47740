//! Memory regions and the capabilities to them.

use serde::{Deserialize, Serialize};
use tombolo::region::{Backing, CapabilityInfo, Seal};
use tombolo_admin::observe::{Seen, SeenRegion};

use super::{Filter, Missing, Page, RowRange, domain_id, node_name, node_named, program_of};

/// Selects regions by a word, node or maker, and a page of them.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[serde(default)]
pub struct RegionsQuery {
    /// Word to find in the id, the maker or its program.
    pub filter: String,
    /// Only regions of this node.
    pub node: Option<String>,
    /// Only regions made by this domain.
    pub domain: Option<String>,
    /// Range of the matching rows.
    #[serde(flatten)]
    pub cut: RowRange,
}

/// A region of memory, with its maker and its uses.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct RegionRow {
    pub key: String,
    pub node: String,
    pub backing: &'static str,
    pub bytes: u64,
    pub maker: String,
    pub maker_program: String,
    pub seal: &'static str,
    pub capabilities: u32,
    pub mappings: u32,
}

/// A capability to a region, with its holder and rights.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "docs/specs/web.md")]
pub struct HolderRow {
    pub key: String,
    pub holder: String,
    pub holder_program: String,
    pub rights: String,
    pub offset_bytes: u64,
    pub bytes: u64,
    pub parent: Option<u64>,
}

fn row(seen: &Seen, region: &SeenRegion) -> RegionRow {
    let info = &region.info;
    RegionRow {
        key: info.id.to_string(),
        node: node_name(seen, info.id.node()),
        backing: match info.backing {
            Backing::Memory => "memory",
            Backing::Window => "window",
            Backing::File => "file",
            Backing::Foreign => "foreign",
            Backing::Service => "service",
        },
        bytes: info.length_bytes,
        maker: info.maker.to_string(),
        maker_program: program_of(seen, info.maker).to_owned(),
        seal: match info.seal {
            Seal::Open => "open",
            Seal::SoleWriter => "sole writer",
            Seal::Frozen => "frozen",
        },
        capabilities: info.capabilities,
        mappings: info.mappings,
    }
}

/// Returns the regions that a query selects, by id.
///
/// # Errors
/// If the query names an unknown node or domain.
pub fn regions(seen: &Seen, query: &RegionsQuery) -> Result<Page<RegionRow>, Missing> {
    let filter = Filter::new(&query.filter);
    let node = query.node.as_deref().map(|name| node_named(seen, name)).transpose()?;
    let domain = query.domain.as_deref().map(domain_id).transpose()?;
    let wanted = |region: &&SeenRegion| {
        let info = &region.info;
        node.is_none_or(|node| node.info.id == info.id.node())
            && domain.is_none_or(|domain| domain == info.maker)
            && (filter.0.is_empty()
                || filter.matches([program_of(seen, info.maker)])
                || filter.matches([info.id.to_string().as_str(), &info.maker.to_string()]))
    };
    let all: Vec<&SeenRegion> = seen.regions.values().filter(wanted).collect();
    Ok(query.cut.of(&all, |region| row(seen, region)))
}

/// Returns the rows of the capabilities to a region.
#[must_use]
pub fn holders(seen: &Seen, capabilities: &[CapabilityInfo]) -> Vec<HolderRow> {
    let row = |capability: &CapabilityInfo| HolderRow {
        key: capability.id.0.to_string(),
        holder: capability.holder.to_string(),
        holder_program: program_of(seen, capability.holder).to_owned(),
        rights: capability.rights.to_string(),
        offset_bytes: capability.extent.offset_bytes,
        bytes: capability.extent.length_bytes,
        parent: capability.parent.map(|parent| parent.0),
    };
    capabilities.iter().map(row).collect()
}

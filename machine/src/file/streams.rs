//! Virtual machines that a `[[link]]` joins to the host by a `socket`: they have no window.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::nodes::NodeDraft;
use super::report::Problem;
use super::values::Reader;
use crate::model::{NodeSettings, VmJoin};

/// Keys that are valid only for a node with a window.
const WINDOW_KEYS: [&str; 5] = ["window_mib", "doorbells", "coherence", "cache_seed", "evict_one_in"];

type Table<'t, 'i> = (&'t DeTable<'i>, Range<usize>);

/// Removes the windows from virtual machines that have a `socket` link with the host. Mistakes in links are
/// reported when those are read.
pub(super) fn apply_socket_links(
    reader: &mut Reader,
    drafts: &mut [NodeDraft],
    nodes: &[Table<'_, '_>],
    links: &[Table<'_, '_>],
) {
    let host = drafts.iter().find(|draft| draft.settings == Some(NodeSettings::Host));
    let Some(host) = host.and_then(|host| host.name.as_ref()).map(|name| name.text.clone()) else { return };
    let joined: Vec<&str> = links.iter().filter_map(|(table, _)| joined_by_socket(table, &host)).collect();
    for (draft, (table, _)) in drafts.iter_mut().zip(nodes) {
        let is_joined = draft.name.as_ref().is_some_and(|name| joined.contains(&name.text.as_str()));
        if let Some(NodeSettings::Vm(vm)) = draft.settings.as_mut().filter(|_| is_joined) {
            vm.join = VmJoin::Streams;
            refuse_window(reader, table);
        }
    }
}

/// Returns the node that a link joins to the host by a `socket`.
fn joined_by_socket<'t>(table: &'t DeTable<'_>, host: &str) -> Option<&'t str> {
    let text = |value: &'t DeValue<'_>| match value {
        DeValue::String(text) => Some(text.as_ref()),
        _ => None,
    };
    if text(table.get("transport")?.get_ref())? != "socket" {
        return None;
    }
    let DeValue::Array(between) = table.get("between")?.get_ref() else { return None };
    let ends: Vec<&str> = between.iter().filter_map(|end| text(end.get_ref())).collect();
    match ends[..] {
        [one, other] if one == host => Some(other),
        [one, other] if other == host => Some(one),
        _ => None,
    }
}

fn refuse_window(reader: &mut Reader, table: &DeTable<'_>) {
    for key in WINDOW_KEYS {
        if let Some(value) = reader.value(table, key) {
            let message = format!("a virtual machine without a window has no `{key}`");
            let problem = Problem::new(value.span(), message);
            reader.report(
                problem
                    .label("its [[link]] with the host is a `socket`")
                    .note("leave it out, or give the two the transport `window`"),
            );
        }
    }
}

//! Copy engines of a node, as measured by its programs and stored among the machine's names.

use std::str::FromStr;

use tombolo_base::NodeId;
use tombolo_control::observation::SeenEngine;
use tombolo_link::copy_cost::{Curve, Reach, Route};
use tombolo_naming::Value;

use crate::root::Core;

/// Maximum number of engines shown per node.
const MAX_ENGINES: usize = 16;

/// Maximum length of an engine's name.
const MAX_NAME_BYTES: usize = 64;

/// Length of a copy for which the fixed costs are negligible.
const LONG_BYTES: u64 = 64 << 20;

impl Core {
    /// Updates the known engines of a node.
    pub(super) fn update_engines(&mut self, id: NodeId) {
        let prefix = format!("copy.costs/{}/", self.node_name(id));
        let route = Route::copy(Reach::Mapped, Reach::Mapped).to_string();
        let engines: Vec<SeenEngine> = self
            .names
            .records_with_prefix(&prefix)
            .filter_map(|(name, attributes)| {
                let name = name.strip_prefix(&prefix)?.to_owned();
                let Some(Value::Text(text)) = attributes.get(&route) else { return None };
                // Any program may set a record: invalid ones are ignored.
                let curve = Curve::from_str(text).ok().filter(|_| name.len() <= MAX_NAME_BYTES)?;
                let time_ns = curve.time_ns(LONG_BYTES).max(1);
                let bytes_per_s = u128::from(LONG_BYTES) * 1_000_000_000 / u128::from(time_ns);
                let bytes_per_s = u64::try_from(bytes_per_s).unwrap_or(u64::MAX);
                Some(SeenEngine { name, latency_ns: curve.time_ns(0), bytes_per_s })
            })
            .take(MAX_ENGINES)
            .collect();
        if let Some(observed) = self.observing.node(id)
            && observed.engines != engines
        {
            observed.engines = engines;
            self.node_changed(id);
        }
    }
}

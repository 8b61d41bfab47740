//! What the kernel of this node tells, and domains' trace pages, once in a period.

use tombolo_control::observation::NodeSample;

use super::Agent;
use super::core::{FrequencyChange, Round};

impl Agent {
    pub(super) fn start_sampling(&mut self) {}

    pub(super) fn stop_sampling(&mut self) {}

    pub(super) fn sample(&mut self) {
        let node = NodeSample {
            cores: Vec::new(),
            governors: Vec::new(),
            memory_used_bytes: 0,
            memory_bytes: 0,
            power: Vec::new(),
            speed: 0,
            period_ms: 0,
            cost_ppm: 0,
        };
        self.core.sampled(Round { node, domains: &[], ends: &[], cost_ns: 0 });
    }

    pub(super) fn set_frequency(&mut self, ticket: u64, _change: &FrequencyChange) {
        self.core
            .frequency_set(ticket, Err("its kernel offers no way to set how fast processors run".into()));
    }

    pub(super) fn restore_frequency(&mut self) {}
}

//! The job's load balancer, in memory shared by all its processes.

use std::cell::UnsafeCell;

use crate::primitives::balance::{Balance, Measurement, NodeInfo, Placement};
use crate::primitives::lock::Spinlock;
use crate::primitives::nodes::{NODES_MAX, Nodes};

/// Decides where marked functions run. All-zero memory is a valid balancer without measurements.
#[repr(C, align(64))]
pub struct Balancer {
    lock: Spinlock,
    balance: UnsafeCell<Balance>,
}

// SAFETY: the balance is touched only while the lock is held.
unsafe impl Sync for Balancer {}

impl Balancer {
    /// Chooses a node and records the start of a call, see [`Balance::begin_call`].
    pub fn begin_call(
        &self,
        function: usize,
        from: u32,
        outer: Option<Placement>,
        nodes: &Nodes,
    ) -> Placement {
        self.with_lock(nodes, |balance, node_infos| balance.begin_call(function, from, outer, node_infos))
    }

    /// Records the end of a call and its times, see [`Balance::end_call`].
    pub fn end_call(&self, placement: Placement, times: (u64, u64), nodes: &Nodes) {
        self.with_lock(nodes, |balance, node_infos| balance.end_call(placement, times, node_infos));
    }

    /// Drops a placement without measuring it, see [`Balance::abandon_call`].
    pub fn abandon_call(&self, placement: Placement, nodes: &Nodes) {
        self.with_lock(nodes, |balance, node_infos| balance.abandon_call(placement, node_infos));
    }

    /// Lists the measured functions, see [`Balance::measurements`].
    pub fn measurements(&self, nodes: &Nodes) -> Vec<Measurement> {
        self.with_lock(nodes, |balance, node_infos| balance.measurements(node_infos.len()).collect())
    }

    fn with_lock<R>(&self, nodes: &Nodes, run: impl FnOnce(&mut Balance, &[NodeInfo]) -> R) -> R {
        let mut node_infos = [NodeInfo::default(); NODES_MAX];
        let mut count = 0;
        for ((_, node), info) in nodes.all().zip(&mut node_infos) {
            let runs_on = node.runs_on();
            *info = NodeInfo { processors: nodes.at(runs_on).processors(), runs_on };
            count += 1;
        }
        let _held = self.lock.lock();
        // SAFETY: the lock is held.
        run(unsafe { &mut *self.balance.get() }, &node_infos[..count])
    }
}

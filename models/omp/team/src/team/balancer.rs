//! The job's load balancer, in memory shared by all its processes.

use std::cell::UnsafeCell;

use crate::primitives::balance::{Balance, Choice, Known, Place};
use crate::primitives::lock::Spinlock;
use crate::primitives::nodes::{NODES, Nodes};

/// Decides where marked functions run. All-zero memory is a valid balancer without measurements.
#[repr(C, align(64))]
pub struct Balancer {
    lock: Spinlock,
    balance: UnsafeCell<Balance>,
}

// SAFETY: the balance is touched only while the lock is held.
unsafe impl Sync for Balancer {}

impl Balancer {
    /// Chooses a node and records the start of a call, see [`Balance::begin`].
    pub fn begin(&self, function: usize, from: u32, outer: Option<Choice>, nodes: &Nodes) -> Choice {
        self.with(nodes, |balance, places| balance.begin(function, from, outer, places))
    }

    /// Records the end of a call and its times, see [`Balance::end`].
    pub fn end(&self, choice: Choice, times: (u64, u64), nodes: &Nodes) {
        self.with(nodes, |balance, places| balance.end(choice, times, places));
    }

    /// Drops a choice without measuring it, see [`Balance::leave`].
    pub fn leave(&self, choice: Choice, nodes: &Nodes) {
        self.with(nodes, |balance, places| balance.leave(choice, places));
    }

    /// Lists the measured functions, see [`Balance::known`].
    pub fn known(&self, nodes: &Nodes) -> Vec<Known> {
        self.with(nodes, |balance, places| balance.known(places.len()).collect())
    }

    fn with<R>(&self, nodes: &Nodes, run: impl FnOnce(&mut Balance, &[Place]) -> R) -> R {
        let mut places = [Place::default(); NODES];
        let mut count = 0;
        for ((_, node), place) in nodes.all().zip(&mut places) {
            let runs_on = node.runs_on();
            *place = Place { processors: nodes.at(runs_on).processors(), runs_on };
            count += 1;
        }
        let _held = self.lock.hold();
        // SAFETY: the lock is held.
        run(unsafe { &mut *self.balance.get() }, &places[..count])
    }
}

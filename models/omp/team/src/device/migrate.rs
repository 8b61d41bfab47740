//! Threads that migrate: calls of marked functions are executed on the node that their caller asked for.
//!
//! A call becomes an order for a worker of that node, and the caller waits. If the function, or one that it
//! calls, migrates back to a node where a thread of the same caller waits, that thread executes the call:
//! within one such chain of calls a node has one thread, with its stack and its thread-local variables.

use std::ffi::c_void;
use std::ptr;

use super::migrant::Migrant;
use super::order::{Construct, Order, OrderKind};
use crate::primitives::{exclusive, sys};
use crate::team::task::Function;
use crate::team::thread::Thread;
use crate::team::waiting;

/// Has marked functions that a thread calls executed on this node from now on. Whether there is such a node.
#[must_use]
pub fn set_node(me: &'static Thread, node: u32) -> bool {
    if node >= me.root().nodes().count() {
        return false;
    }
    let migrant = Migrant::of(me).unwrap_or_else(|| {
        let migrant = me.store().place(Migrant::new(me));
        Migrant::take_over(Some(migrant), me);
        migrant
    });
    migrant.want(node);
    true
}

/// A thread ends that OpenMP did not start: the next that gets its record has not migrated.
pub fn forget(thread: &Thread) {
    if let Some(migrant) = Migrant::of(thread) {
        migrant.want(thread.node);
    }
}

/// The same address for a thread wherever it is, and another for each: that of the record of the thread that
/// the program has.
#[must_use]
pub fn identity(me: &'static Thread) -> usize {
    ptr::from_ref(Migrant::of(me).map_or(me, Migrant::origin)) as usize
}

/// Calls a function with a frame on the node that the caller is to migrate to. False, and the function was
/// not called, if the caller is there.
pub fn call(me: &'static Thread, function: Function, frame: *mut c_void) -> bool {
    let Some(migrant) = Migrant::of(me) else { return false };
    let node = migrant.wanted();
    if node == me.node {
        return false;
    }
    let root = me.root();
    let order = Order::new(root, node, Construct::Migration, OrderKind::Visit, &[]);
    order.visits(migrant, function, frame as usize);
    order.begin_for(me);
    let there = migrant.on(node);
    if let Some(thread) = there {
        exclusive::flush();
        migrant.give(thread, ptr::from_ref(order).cast_mut().cast());
    } else {
        let thread = root.hire_there(node);
        migrant.enter(node, Some(thread));
        order.hand_over(root, thread);
    }
    loop {
        waiting::until_surely(me, || order.is_done() || waits_for(me, migrant).is_some());
        if order.is_done() {
            break;
        }
        if let Some(order) = waits_for(me, migrant) {
            migrant.take();
            order.call(me);
            exclusive::flush();
            order.answer();
        }
    }
    if there.is_none() {
        migrant.enter(node, None);
    }
    sys::set_errno(order.errno());
    order.release(me.store());
    true
}

/// The order that this thread is to execute while it waits for another.
fn waits_for(me: &'static Thread, migrant: &Migrant) -> Option<&'static Order> {
    // SAFETY: orders lie in the store, and are released only once they are done.
    let order = unsafe { migrant.order().cast::<Order>().as_ref::<'static>() }?;
    (order.node() == me.node).then_some(order)
}

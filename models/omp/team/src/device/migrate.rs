//! Thread migration: calls of marked functions are executed on the node that the caller chose.
//!
//! A call becomes an order for a worker of that node, and the caller waits. If the function or one that it
//! calls migrates back to a node where a thread of the same caller waits, that thread executes the call. So
//! within such a chain of calls each node has one thread, with its stack and its thread-local variables.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::Ordering;

use super::migrant::Migrant;
use super::order::{self, Construct, Order, OrderKind};
use crate::primitives::leavable::{self, Begin};
use crate::primitives::{exclusive, sys};
use crate::team::balancer::Balancer;
use crate::team::task::Function;
use crate::team::thread::{Left, Thread, Visit};
use crate::team::waiting;

/// Makes a thread's calls of marked functions execute on this node from now on. Returns whether the node
/// exists.
#[must_use]
pub fn set_node(me: &'static Thread, node: u32) -> bool {
    if node >= me.root().nodes().count() {
        return false;
    }
    migrant_of(me).obeys(node);
    true
}

/// Returns a thread's migration state, creating it if needed.
fn migrant_of(me: &'static Thread) -> &'static Migrant {
    let migrant = Migrant::of(me).unwrap_or_else(|| {
        let migrant = me.store().place(Migrant::new(me));
        me.shown.migrant.store(ptr::from_ref(migrant).cast_mut().cast(), Ordering::Release);
        Migrant::take_over(Some(migrant), me);
        migrant
    });
    if is_origin(migrant, me) {
        migrant.set_name(sys::name_of_thread());
    }
    migrant
}

/// Resets the migration state at the end of a thread that OpenMP did not start, for the next owner of its
/// record.
pub fn forget(thread: &Thread) {
    if let Some(migrant) = Migrant::of(thread) {
        if let (Some(balancer), Some(choice)) = (thread.root().balancer(), migrant.chooses(None)) {
            balancer.leave(choice, thread.root().nodes());
        }
        migrant.begin_anew();
    }
}

/// Returns a value that identifies a thread of the program on all nodes: the address of its record.
#[must_use]
pub fn identity(me: &'static Thread) -> usize {
    ptr::from_ref(origin(me)) as usize
}

/// Returns the record of the thread of the program that this thread runs as.
#[must_use]
pub fn origin(me: &'static Thread) -> &'static Thread {
    Migrant::of(me).map_or(me, Migrant::origin)
}

/// Whether the program has requested that the next marked function runs on another node.
#[must_use]
pub fn is_asked_to(me: &'static Thread) -> bool {
    Migrant::of(me).is_some_and(|migrant| migrant.is_said() && migrant.wanted() != me.node)
}

/// Whether an address is in the stack of any thread that this migrating thread runs as.
#[must_use]
pub fn is_on_stack(me: &'static Thread, address: usize) -> bool {
    let on_stack = |thread: &Thread| {
        thread.stack.get().is_some_and(|stack| (stack.lowest..=stack.lowest + stack.bytes).contains(&address))
    };
    on_stack(me)
        || Migrant::of(me).is_some_and(|migrant| {
            (0..me.root().nodes().count()).filter_map(|node| migrant.on(node)).any(on_stack)
        })
}

/// Leaves the call that another node made and that this thread executes. The caller continues according to
/// `left`.
///
/// # Safety
/// The call must be of this thread and must not have returned; no function that is left may have anything to
/// clean up.
pub unsafe fn leave(visit: *const Visit, left: Left) -> ! {
    // SAFETY: the call has not returned, so the record is still on its stack.
    let visit = unsafe { &*visit };
    visit.left.set(Some(left));
    // SAFETY: guaranteed by the caller.
    unsafe { leavable::leave(visit.stack.get(), ptr::null_mut()) }
}

/// Outcome of a call of a marked function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// Not called: the caller is on the right node and must make the call itself.
    NotYet,
    /// The function has returned.
    Returned,
    /// The function was left otherwise.
    Left(Left),
}

fn called_as(left: Option<Left>) -> Called {
    left.map_or(Called::Returned, Called::Left)
}

/// Calls a function with a frame on the node that the caller must migrate to.
pub fn call(me: &'static Thread, function: Function, frame: *mut c_void) -> Called {
    let migrant = Migrant::of(me);
    if let Some(balancer) = me.root().balancer()
        && !migrant.is_some_and(Migrant::is_said)
    {
        return balanced(me, balancer, function, frame);
    }
    let Some(migrant) = migrant else { return Called::NotYet };
    let node = migrant.wanted();
    if node == me.node {
        return Called::NotYet;
    }
    visit(me, migrant, node, function, frame).0
}

/// Calls a function with a frame on another node. Returns also its duration there, in nanoseconds.
fn visit(
    me: &'static Thread,
    migrant: &'static Migrant,
    node: u32,
    function: Function,
    frame: *mut c_void,
) -> (Called, u64) {
    let order = Order::new(me.root(), node, Construct::Migration, OrderKind::Visit, &[]);
    order.visits(migrant, function, frame as usize);
    let order = executed(me, migrant, order);
    let (errno, run_ns) = (order.errno(), order.result() as u64);
    let called = called_as(order.left());
    order.hold_exceptions();
    order.release(me.store());
    sys::set_errno(errno);
    (called, run_ns)
}

/// Calls a function with a frame on the node with the shortest measured time, possibly this one.
fn balanced(me: &'static Thread, balancer: &Balancer, function: Function, frame: *mut c_void) -> Called {
    let (migrant, nodes) = (migrant_of(me), me.root().nodes());
    let outer = migrant.chooses(None);
    let choice = balancer.begin(function as usize, me.node, outer, nodes);
    migrant.chooses(Some(choice));
    let began_ns = sys::now_ns();
    let (called, run_ns) = if choice.node == me.node {
        // SAFETY: the program's function, with the frame that `tombolo ompcc` created for it.
        (called_as(unsafe { order::visit(me, function, frame) }), None)
    } else {
        let (called, run_ns) = visit(me, migrant, choice.node, function, frame);
        (called, Some(run_ns))
    };
    let errno = sys::errno();
    let all_ns = sys::now_ns().saturating_sub(began_ns);
    balancer.end(choice, (run_ns.unwrap_or(all_ns), all_ns), nodes);
    migrant.chooses(outer);
    sys::set_errno(errno);
    called
}

/// Runs the calling thread, which has not begun the program's function, on another node. Returns the
/// function's result. Meanwhile the caller executes calls that return to its own node.
pub fn live(me: &'static Thread, node: u32, begin: Begin, argument: *mut c_void) -> *mut c_void {
    let migrant = migrant_of(me);
    migrant.want(node);
    let order = Order::new(me.root(), node, Construct::Create, OrderKind::Live, &[]);
    order.lives(migrant, begin, argument as usize);
    let order = executed(me, migrant, order);
    let result = order.result();
    order.release(me.store());
    result as *mut c_void
}

/// Returns the `pthread_t` of the thread of the program that this thread runs for, unless that is this
/// thread.
#[must_use]
pub fn name(me: &'static Thread) -> Option<usize> {
    Migrant::of(me).filter(|migrant| !is_origin(migrant, me)).map(Migrant::name)
}

fn is_origin(migrant: &Migrant, me: &Thread) -> bool {
    ptr::eq(migrant.origin(), me)
}

/// Has a thread of another node execute an order for a migrating thread, and waits for it. Meanwhile the
/// caller executes calls that return to its own node.
fn executed(me: &'static Thread, migrant: &'static Migrant, order: &'static Order) -> &'static Order {
    let (root, node) = (me.root(), order.node());
    order.begin_for(me);
    let function = migrant.seen().1;
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
    migrant.go_on(me, function);
    if there.is_none() {
        migrant.enter(node, None);
    }
    order
}

/// Returns the order that this thread must execute while it waits for another.
fn waits_for(me: &'static Thread, migrant: &Migrant) -> Option<&'static Order> {
    // SAFETY: orders are in the store and are released only after completion.
    let order = unsafe { migrant.order().cast::<Order>().as_ref::<'static>() }?;
    (order.node() == me.node).then_some(order)
}

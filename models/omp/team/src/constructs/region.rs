//! Parallel regions from start to end.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering;

use super::affinity::{self, Plan};
use super::tasking;
use crate::primitives::awake::Awake;
use crate::primitives::nodes::Sequence;
use crate::primitives::wait::Sleep;
use crate::primitives::{exclusive, sys};
use crate::team::group::Group;
use crate::team::members::Team;
use crate::team::root::Root;
use crate::team::share::WorkShare;
use crate::team::task::Function;
use crate::team::thread::{Seat, Thread};
use crate::team::waiting;

/// Maximum size of a team on a device. Programs written for GPUs ask for thousands of threads, more than a
/// node's processors can use.
pub const MOST_THREADS_OF_DEVICE: u32 = 256;

/// Parameters of a region.
#[derive(Clone, Copy)]
pub struct Region {
    /// Outlined function that all threads run.
    pub function: Function,
    /// The argument of the function.
    pub data: *mut libc::c_void,
    /// `num_threads`; 0 if not given.
    pub threads: u32,
    /// `proc_bind`; 0 if not given.
    pub bind: u32,
    /// Group that all its tasks join.
    pub group: Option<&'static Group>,
}

/// Returns the default number of threads of a region.
pub fn threads(me: &'static Thread) -> u32 {
    match (me.task().icv().threads, me.team().only()) {
        (0, Some(node)) => {
            let node = me.root().nodes().at(node);
            node.processors().clamp(1, node.most_threads())
        }
        (0, None) => me.root().threads_of_nodes(),
        (threads, _) => threads,
    }
}

/// Determines the number of threads of a region.
pub fn resolve(me: &'static Thread, asked: u32) -> u32 {
    let (icv, team, root) = (me.task().icv(), me.team(), me.root());
    if asked == 1 || team.active_level() >= icv.active_levels {
        return 1;
    }
    let mut size = if asked == 0 { threads(me) } else { asked };
    if icv.dynamic {
        size = size.min(root.processors());
    }
    if let Some(node) = team.only() {
        size = size.min(root.nodes().at(node).most_threads()).min(MOST_THREADS_OF_DEVICE);
    } else if root.nodes().several() && size > 1 {
        root.threads_of_nodes();
        size = size.min(root.nodes().most_threads());
    }
    size.min(icv.limit).clamp(1, 1 << 20)
}

/// Reserves threads for a team of `wanted`, as far as `limit` allows. Returns the size of the team, including
/// the caller.
fn count_against_limit(root: &Root, limit: u32, wanted: u32) -> u32 {
    let mut busy = root.busy.load(Ordering::Relaxed);
    loop {
        let left = limit.saturating_sub(1).saturating_sub(busy);
        let extra = (wanted - 1).min(left);
        match root.busy.compare_exchange_weak(busy, busy + extra, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return extra + 1,
            Err(now) => busy = now,
        }
    }
}

/// Writes a cell that workers read at their start, unless the value is unchanged: then the line stays in
/// their caches.
#[inline]
fn change<T: Copy + PartialEq>(cell: &Cell<T>, value: T) {
    if cell.get() != value {
        cell.set(value);
    }
}

fn same(one: Option<&'static Group>, other: Option<&'static Group>) -> bool {
    one.map(ptr::from_ref) == other.map(ptr::from_ref)
}

/// Begins a region, in which the caller is thread 0. `prepare` initialises the first construct of a combined
/// one.
pub fn begin(me: &'static Thread, region: Region, prepare: impl FnOnce(&WorkShare, u32)) {
    let outside = me.seat();
    let root = me.root();
    let mut size = resolve(me, region.threads);
    let mut icv = outside.task.icv();
    let counted = icv.limit != u32::MAX && size > 1;
    if counted {
        size = count_against_limit(root, icv.limit, size);
    }
    let team = assemble(me, size);
    change(&team.league, me.league.get());
    change(&team.only, outside.team.only.get());
    let level = outside.team.level() + 1;
    if let Some(threads) = root.settings.threads.at(level as usize) {
        icv.threads = threads;
    }
    if let Some(bind) = root.settings.binds.at(level as usize) {
        icv.bind = bind;
    }
    change(&team.size, size);
    change(&team.level, level);
    change(&team.active, outside.team.active_level() + u32::from(size > 1));
    change(&team.icv, icv);
    if !same(team.group.get(), region.group) {
        team.group.set(region.group);
    }
    team.outside.0.set(Some(outside));
    team.function.set(Some(region.function));
    team.data.set(region.data);
    team.counted.set(if counted { size - 1 } else { 0 });
    team.open();
    prepare(&team.first, size);
    if root.settings.report {
        team.began_ns.set(sys::now_ns());
    }
    if size > 1 {
        exclusive::flush();
        recruit(me, team, size);
    }
    if root.nodes().several() {
        team.weigh(me, size);
        if let Some(barriers) = team.node_barriers() {
            barriers.open();
        }
    }
    if size > 1 {
        for_awake(me, team, outside, Awake::engage);
    }
    let places = affinity::plan(me, team, region.bind);
    for id in 1..size {
        engage(root, team, id, region, &places);
    }
    if size > 1 {
        team.call();
    }
    places.assign_master(me, team);
    me.sit(team.seat(0, me, team.number()));
    affinity::display(me);
}

/// Returns a team with room for `size` threads whose crew is the caller's workers.
fn assemble(me: &'static Thread, size: u32) -> &'static Team {
    let root = me.root();
    match me.spare.take() {
        Some(team) if size <= 1 << team.order => team,
        Some(small) => {
            let team = Team::obtain(root, size);
            for id in 1..small.crew.get() {
                let thread = small.member(id).thread.load(Ordering::Relaxed);
                team.member(id).thread.store(thread, Ordering::Relaxed);
            }
            team.crew.set(small.crew.get().max(1));
            small.crew.set(0);
            root.give_team(small);
            team
        }
        None => {
            let team = Team::obtain(root, size);
            team.crew.set(1);
            team
        }
    }
}

/// Hires workers until the team has `size` threads, each on the node that follows from its number.
fn recruit(me: &'static Thread, team: &Team, size: u32) {
    let crew = team.crew.get();
    if crew >= size {
        return;
    }
    let root = me.root();
    let only = team.only();
    let free = only.is_none() && root.nodes().several();
    let mut sequence = free.then(|| Sequence::new(root.nodes(), me.node));
    if let Some(sequence) = &mut sequence {
        for thread in (1..crew).filter_map(|id| team.member(id).thread()) {
            sequence.count(thread.node);
        }
    }
    for id in crew..size {
        let thread = match only {
            Some(node) => root.hire_there(node),
            None => root.hire(sequence.as_mut().map_or(0, Sequence::next_node)),
        };
        team.member(id).thread.store(ptr::from_ref(thread).cast_mut(), Ordering::Relaxed);
    }
    team.crew.set(size);
    team.weighed.set(0);
}

/// Counts the threads of a region as engaged, or no longer, on each node. A master of nested regions counts
/// once.
fn for_awake(me: &'static Thread, team: &Team, outside: Seat, tell: impl Fn(&Awake, u32)) {
    let nodes = me.root().nodes();
    let counted = u32::from(outside.team.active_level() > 0);
    if !nodes.several() {
        return tell(me.awake(), team.size() - counted);
    }
    let own = nodes.at(me.node).runs_on();
    for (index, _) in nodes.all() {
        let threads = team.on(index) - if index == own { counted } else { 0 };
        if threads > 0 {
            tell(nodes.awake(index), threads);
        }
    }
}

/// Gives a member of the team its part of the region.
fn engage(root: &'static Root, team: &'static Team, id: u32, region: Region, places: &Plan) {
    let Some(thread) = team.member(id).thread() else { sys::fatal("a team has lost one of its threads") };
    places.tell(thread, id);
    thread.given_id.set(id);
    thread.given_region.set(team.number());
    // SAFETY: teams are never freed.
    let before = unsafe { thread.given_team.replace(team).as_ref() };
    thread.given_function.set(Some(region.function));
    thread.given_data.set(region.data);
    thread.parker.give(thread.parker.given().wrapping_add(1) & (u32::MAX >> 1));
    if let Some(before) = before.filter(|&before| !ptr::eq(before, team)) {
        before.call();
    }
    if let Err(text) = root.start(thread) {
        sys::fatal(text);
    }
}

/// Ends the region that the caller began.
pub fn end(me: &'static Thread) {
    let seat = me.seat();
    let team = seat.team;
    let root = me.root();
    leave_share(me);
    finish_region(me, team);
    if root.settings.report {
        report(root, team);
    }
    if team.counted.get() > 0 {
        root.busy.fetch_sub(team.counted.get(), Ordering::Relaxed);
    }
    affinity::give_places_back(me, team);
    if let Some(outside) = team.outside.0.get() {
        me.sit(outside);
        if team.size() > 1 {
            for_awake(me, team, outside, Awake::disengage);
        }
        if outside.team.level() > 0 {
            // Other teams may need the threads of an inner region.
            team.dismiss_from(1, root);
        }
    }
    match me.spare.replace(Some(team)) {
        // An inner region left another spare team: keep the larger one.
        Some(other) if other.crew.get() > team.crew.get() => {
            me.spare.set(Some(other));
            team.dismiss_from(1, root);
            root.give_team(team);
        }
        Some(other) => {
            other.dismiss_from(1, root);
            root.give_team(other);
        }
        None => {}
    }
}

/// Adds an ended region to the report.
#[cold]
fn report(root: &Root, team: &'static Team) {
    let master = &team.member(0).tally;
    master.end();
    let members =
        team.members().map(|member| (member.thread().map_or(0, |thread| thread.node), &member.tally));
    let nanoseconds = sys::now_ns().saturating_sub(team.began_ns.get());
    root.tallies.add(root.store, team.function.get(), team.size(), members, nanoseconds);
    if let Some(outside) = team.outside.0.get() {
        outside.team.member(outside.id).tally.include(master);
    }
}

/// Waits until all workers have finished, and helps with their tasks.
fn finish_region(me: &'static Thread, team: &'static Team) {
    let others = team.size() - 1;
    team.leader.store(1, Ordering::SeqCst);
    loop {
        if team.tasked.load(Ordering::Acquire) {
            tasking::run_any(me);
        }
        let finished = || team.finished.0.load(Ordering::Acquire) == others;
        if waiting::until(me, Sleep::Counted(&team.sleepers), finished, || team.has_queued()) {
            break;
        }
    }
    if team.tasked.load(Ordering::Acquire) {
        tasking::finish_tasks(me);
        team.close();
        for member in team.members() {
            member.settle();
        }
        team.finished_outside.store(0, Ordering::Relaxed);
    }
    team.member(0).task.end_implicit();
}

/// Leaves the work-sharing construct that the thread reached last.
pub(crate) fn leave_share(me: &'static Thread) {
    let seat = me.seat();
    seat.share.leave(me.store(), seat.team.size());
}

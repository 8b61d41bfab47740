//! A region from its beginning to its end.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering;

use super::Team;
use crate::affinity::Plan;
use crate::group::Group;
use crate::nodes::{self, Sequence};
use crate::root::Root;
use crate::share::{self, WorkShare};
use crate::thread::{Function, Seat, Thread};
use crate::wait::{self, Awake, Sleep};
use crate::{affinity, device, exclusive, sys, tally, tasking};

/// What a region is to be.
#[derive(Clone, Copy)]
pub struct Region {
    /// What all run.
    pub function: Function,
    /// With what.
    pub data: *mut libc::c_void,
    /// `num_threads`; 0 where it was not given.
    pub threads: u32,
    /// `proc_bind`; 0 where it was not given.
    pub bind: u32,
    /// The group that all its tasks are of.
    pub group: Option<&'static Group>,
}

/// Threads that a region gets at most where it does not say how many.
pub fn threads(me: &'static Thread) -> u32 {
    match (me.task().icv().threads, me.team().only()) {
        (0, Some(node)) => {
            let node = me.root().nodes().at(node);
            node.processors().clamp(1, node.most_threads())
        }
        (0, None) => nodes::settle(me.root()),
        (threads, _) => threads,
    }
}

/// How many threads a region gets.
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
        size = size.min(root.nodes().at(node).most_threads()).min(device::MOST_THREADS);
    } else if root.nodes().several() && size > 1 {
        nodes::settle(root);
        size = size.min(root.nodes().most_threads());
    }
    size.min(icv.limit).clamp(1, 1 << 20)
}

/// Takes threads out of what a limit leaves; how many there are, of so many wanted.
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

/// Changes what workers read as they begin, if it is not what it was: what they have in their caches stays there.
#[inline]
fn change<T: Copy + PartialEq>(cell: &Cell<T>, value: T) {
    if cell.get() != value {
        cell.set(value);
    }
}

fn same(one: Option<&'static Group>, other: Option<&'static Group>) -> bool {
    one.map(ptr::from_ref) == other.map(ptr::from_ref)
}

/// Begins a region: from here on the caller is its thread 0. `prepare` sets up the first construct of a combined one.
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
        recruit(me, team, size);
    }
    if root.nodes().several() {
        team.weigh(me, size);
        team.open_gates();
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
    places.assign_master(me);
    me.sit(team.seat(0, me, team.number()));
    affinity::display(me);
}

/// A team for this many whose members the caller has as its workers.
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

/// Hires workers until the team has so many threads, each on the node that its number says.
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

/// Tells those who count who is awake, on each node, of the threads of a region. A master of several regions counts once.
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
    // SAFETY: teams live for ever.
    let before = unsafe { thread.given_team.replace(team).as_ref() };
    thread.given_function.set(Some(region.function));
    thread.given_data.set(region.data);
    thread.dock.give(thread.dock.given().wrapping_add(1) & (u32::MAX >> 1));
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
    if let Some(outside) = team.outside.0.get() {
        me.sit(outside);
        if team.size() > 1 {
            for_awake(me, team, outside, Awake::disengage);
        }
        if outside.team.level() > 0 {
            // Others may need the threads of an inner region.
            team.dismiss_from(1, root);
        }
    }
    match me.spare.replace(Some(team)) {
        // An inner region kept another team meanwhile: the larger one stays.
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

/// Adds a region that has ended to the report.
#[cold]
fn report(root: &Root, team: &'static Team) {
    let master = &team.member(0).tally;
    master.end();
    tally::region(root, team, team.function.get(), sys::now_ns().saturating_sub(team.began_ns.get()));
    if let Some(outside) = team.outside.0.get() {
        outside.team.member(outside.id).tally.include(master);
    }
}

/// Waits until all have finished, and helps them.
fn finish_region(me: &'static Thread, team: &'static Team) {
    let others = team.size() - 1;
    team.leader.store(1, Ordering::SeqCst);
    loop {
        if team.tasked.load(Ordering::Acquire) {
            tasking::run_any(me);
        }
        let finished = || team.finished.0.load(Ordering::Acquire) == others;
        if wait::until(me, Sleep::Counted(&team.sleepers), finished, || team.has_queued()) {
            break;
        }
    }
    if team.tasked.load(Ordering::Acquire) {
        team.finish_tasks(me);
        team.close();
        for member in team.members() {
            member.settle();
        }
        team.finished_outside.store(0, Ordering::Relaxed);
    }
    team.member(0).task.end_implicit();
}

/// A thread leaves the last construct it came to.
fn leave_share(me: &'static Thread) {
    let seat = me.seat();
    share::leave(me, seat.team, seat.share);
}

/// What a worker runs: what it is given, for ever.
pub extern "C" fn worker(argument: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: the argument is the thread's record, which lives for ever.
    if let Some(me) = unsafe { argument.cast::<Thread>().as_ref() } {
        sys::set_me(Some(me));
        me.kernel.set(sys::thread_number());
        me.awake().came();
        if me.root().nodes().several() {
            nodes::measure(me.root(), me.node);
        }
        let (mut done, mut region) = (0, 0);
        loop {
            done = wait_at_dock(me, done, region);
            region = work(me);
        }
    }
    ptr::null_mut()
}

/// Runs what a worker was given. The number of the region.
fn work(me: &'static Thread) -> u64 {
    // SAFETY: teams live for ever, and a worker is given one before its dock says so.
    let Some(team) = (unsafe { me.given_team.get().as_ref() }) else {
        device::work(me);
        return 0;
    };
    let Some(function) = me.given_function.get() else { return 0 };
    affinity::take_place(me);
    me.league.set(team.league.get());
    me.sit(team.seat(me.given_id.get(), me, me.given_region.get()));
    affinity::display(me);
    // SAFETY: the program's function, with the argument that the program gave for it.
    unsafe { function(me.given_data.get()) };
    exclusive::flush();
    finish_work(me, team)
}

/// A worker has come to the end of the region. Its number, which may be another's as soon as this returns.
fn finish_work(me: &'static Thread, team: &'static Team) -> u64 {
    let region = me.given_region.get();
    leave_share(me);
    if team.tasked.load(Ordering::Acquire) {
        tasking::run_any(me);
    }
    if let Some(tally) = tally::of(me) {
        tally.end();
    }
    let seat = me.seat();
    seat.task.end_implicit();
    let others = team.size() - 1;
    let master = team.member(0).thread();
    let finished = match team.gates() {
        // The last of a node says it for all of them.
        Some(gates) => gates.at(me.node).finish(),
        None => Some(1),
    };
    if let Some(finished) = finished
        && team.finished.0.fetch_add(finished, Ordering::SeqCst) + finished == others
        && let Some(master) = master
    {
        master.dock.tell();
    }
    region
}

/// Runs tasks of a region that a worker has come to the end of.
fn help(me: &'static Thread) {
    let run = || {
        tasking::run_any(me);
        exclusive::flush();
    };
    match tally::of(me) {
        Some(tally) => tally.help(run),
        None => run(),
    }
}

/// Waits until there is something new to do, and helps the last team meanwhile. The number of what was given. Those of a team sleep on its
/// bell, so that its master wakes them at once; who cannot help it any more sleeps at its dock.
fn wait_at_dock(me: &'static Thread, done: u32, region: u64) -> u32 {
    // SAFETY: teams live for ever.
    let team = unsafe { me.given_team.get().as_ref() };
    let mut helps = done > 0 && team.is_some();
    let is_given = || me.dock.given() != done;
    loop {
        if is_given() {
            return me.dock.given();
        }
        match team {
            Some(team) if helps => {
                if wait::at_dock(me, Sleep::Together(&team.bell), is_given, || team.has_queued()) {
                    continue;
                }
                helps = team.number() == region;
                if helps && !is_given() && team.has_queued() {
                    helps = team.admit(region);
                    if helps {
                        help(me);
                        team.discharge();
                    }
                }
            }
            _ => {
                let _ = wait::at_dock(me, Sleep::Alone, is_given, || false);
            }
        }
    }
}

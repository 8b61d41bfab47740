//! Parallel regions from start to end.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::affinity::{self, PlaceAssignment};
use super::tasking;
use crate::primitives::node_load::NodeLoad;
use crate::primitives::nodes::NodeAssignment;
use crate::primitives::wait::Sleep;
use crate::primitives::{separate_processes, sys};
use crate::team::group::Group;
use crate::team::members::Team;
use crate::team::root::Root;
use crate::team::share::WorkShare;
use crate::team::task::Function;
use crate::team::thread::{TeamState, Thread};
use crate::team::waiting;

/// Maximum size of a team on a device. Programs written for GPUs ask for thousands of threads, more than a
/// node's processors can use.
pub const DEVICE_TEAM_SIZE_MAX: u32 = 256;

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
pub fn default_threads(me: &'static Thread) -> u32 {
    match (me.task().icv().threads, me.team().confined_node()) {
        (0, Some(node)) => {
            let node = me.root().nodes().at(node);
            node.processors().clamp(1, node.max_threads())
        }
        (0, None) => me.root().threads_of_nodes(),
        (threads, _) => threads,
    }
}

/// Determines the number of threads of a region that runs `function`.
pub fn resolve_team_size(me: &'static Thread, asked: u32, function: Function) -> u32 {
    let (icv, team, root) = (me.task().icv(), me.team(), me.root());
    if asked == 1 || team.active_level() >= icv.active_levels {
        return 1;
    }
    let mut size = if asked == 0 { default_threads(me) } else { asked };
    if icv.dynamic {
        size = size.min(root.processors());
    }
    if let Some(node) = team.confined_node() {
        size = size.min(root.nodes().at(node).max_threads()).min(DEVICE_TEAM_SIZE_MAX);
    } else if root.nodes().has_several() && size > 1 {
        root.threads_of_nodes();
        size = size.min(root.nodes().max_threads());
    }
    let size = size.clamp(1, 1 << 20);
    if size > 1
        && (icv.limit == 1 || separate_processes::are_regions_limited())
        && let Some(reason) = find_reason_for_one_thread(root, function)
    {
        return one_thread(reason);
    }
    size.min(icv.limit)
}

/// Returns why a region has one thread where workers are processes; `None` if it can have several.
#[cold]
fn find_reason_for_one_thread(root: &Root, function: Function) -> Option<&'static str> {
    if separate_processes::is_before_main() {
        return Some(
            "regions before main have one thread each: workers that are processes do not exist yet (OMP_TOMBOLO=shared has \
             workers that do)",
        );
    }
    if separate_processes::has_private_stack(root.store) {
        return Some(
            "regions of threads that the program creates itself have one thread each: workers that are processes cannot reach \
             their stacks (OMP_TOMBOLO=shared has workers that can)",
        );
    }
    separate_processes::is_of_limited_library(function as usize).then_some(
        "regions of shared libraries have one thread each, as one of them used OpenMP before main: workers that are processes do not \
         share its variables (OMP_TOMBOLO=shared has workers that do)",
    )
}

/// Reports why a region has one thread, the first time. Returns its size.
#[cold]
fn one_thread(reason: &str) -> u32 {
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    if !IS_REPORTED.swap(true, Ordering::Relaxed) {
        sys::print_error(format_args!("tombolo omp: {reason}\n"));
    }
    1
}

/// Reserves threads for a team of `wanted`, as far as `limit` allows. Returns the size of the team, including
/// the caller.
fn reserve_threads(root: &Root, limit: u32, wanted: u32) -> u32 {
    let mut busy = root.threads_in_teams.load(Ordering::Relaxed);
    loop {
        let left = limit.saturating_sub(1).saturating_sub(busy);
        let extra = (wanted - 1).min(left);
        match root.threads_in_teams.compare_exchange_weak(
            busy,
            busy + extra,
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            Ok(_) => return extra + 1,
            Err(now) => busy = now,
        }
    }
}

/// Writes a cell that workers read at their start, unless the value is unchanged: then the line stays in
/// their caches.
#[inline]
fn set_if_changed<T: Copy + PartialEq>(cell: &Cell<T>, value: T) {
    if cell.get() != value {
        cell.set(value);
    }
}

fn is_same_group(one: Option<&'static Group>, other: Option<&'static Group>) -> bool {
    one.map(ptr::from_ref) == other.map(ptr::from_ref)
}

/// Begins a region, in which the caller is thread 0. `prepare` initialises the first construct of a combined
/// one.
pub fn begin(me: &'static Thread, region: Region, prepare: impl FnOnce(&WorkShare, u32)) {
    let enclosing = me.team_state();
    let root = me.root();
    let mut size = resolve_team_size(me, region.threads, region.function);
    let mut icv = enclosing.task.icv();
    let counted = icv.limit != u32::MAX && size > 1;
    if counted {
        size = reserve_threads(root, icv.limit, size);
    }
    let team = prepare_team(me, size);
    set_if_changed(&team.league, me.league.get());
    set_if_changed(&team.confined_node, enclosing.team.confined_node.get());
    let level = enclosing.team.level() + 1;
    if let Some(threads) = root.settings.threads.at(level as usize) {
        icv.threads = threads;
    }
    if let Some(bind) = root.settings.binds.at(level as usize) {
        icv.bind = bind;
    }
    set_if_changed(&team.size, size);
    set_if_changed(&team.level, level);
    set_if_changed(&team.active, enclosing.team.active_level() + u32::from(size > 1));
    set_if_changed(&team.icv, icv);
    if !is_same_group(team.group.get(), region.group) {
        team.group.set(region.group);
    }
    team.enclosing.0.set(Some(enclosing));
    team.function.set(Some(region.function));
    team.data.set(region.data);
    team.counted_threads.set(if counted { size - 1 } else { 0 });
    team.begin_region();
    prepare(&team.first, size);
    if root.settings.report {
        team.began_ns.set(sys::now_ns());
    }
    if size > 1 {
        separate_processes::flush();
        acquire_workers(me, team, size);
    }
    if root.nodes().has_several() {
        team.compute_weights(me, size);
        if let Some(barriers) = team.node_barriers() {
            barriers.reset();
        }
    }
    if size > 1 {
        update_node_loads(me, team, enclosing, NodeLoad::engage);
    }
    let places = affinity::assign_places(me, team, region.bind);
    for id in 1..size {
        assign_work(team, id, region, &places);
    }
    if size > 1 {
        team.wake_workers();
    }
    places.assign_master(me, team);
    me.set_team_state(team.join(0, me, team.region_number()));
    affinity::display(me);
}

/// Returns a team with room for `size` threads whose members are the caller and its workers.
fn prepare_team(me: &'static Thread, size: u32) -> &'static Team {
    let root = me.root();
    let team = match me.cached_team.take() {
        Some(team) if size <= 1 << team.order => team,
        Some(small) => {
            let team = Team::obtain(root, size);
            for id in 1..small.retained_threads.get() {
                let thread = small.member(id).thread.load(Ordering::Relaxed);
                team.member(id).thread.store(thread, Ordering::Relaxed);
            }
            team.retained_threads.set(small.retained_threads.get().max(1));
            small.retained_threads.set(0);
            root.return_team(small);
            team
        }
        None => {
            let team = Team::obtain(root, size);
            team.retained_threads.set(1);
            team
        }
    };
    // A worker that finishes first wakes member 0, perhaps before the caller joins the region.
    team.member(0).set_thread(me);
    team
}

/// Acquires workers until the team has `size` threads, each on the node that follows from its number.
fn acquire_workers(me: &'static Thread, team: &Team, size: u32) {
    let retained_threads = team.retained_threads.get();
    if retained_threads >= size {
        return;
    }
    let root = me.root();
    let confined_node = team.confined_node();
    let free = confined_node.is_none() && root.nodes().has_several();
    let mut assignment = free.then(|| NodeAssignment::new(root.nodes(), me.node));
    if let Some(assignment) = &mut assignment {
        for thread in (1..retained_threads).filter_map(|id| team.member(id).thread()) {
            assignment.count(thread.node);
        }
    }
    for id in retained_threads..size {
        let thread = match confined_node {
            Some(node) => root.acquire_worker_on(node),
            None => root.acquire_worker(assignment.as_mut().map_or(0, NodeAssignment::next_node)),
        };
        team.member(id).thread.store(ptr::from_ref(thread).cast_mut(), Ordering::Relaxed);
    }
    // Before any of them has work: a process that is forked while another worker runs code of the program
    // inherits the locks of the C library that this worker holds, and no thread releases its copies.
    for thread in (retained_threads..size).filter_map(|id| team.member(id).thread()) {
        if let Err(text) = root.start(thread) {
            sys::fatal(text);
        }
    }
    team.retained_threads.set(size);
    team.weights_size.set(0);
}

/// Counts the threads of a region as engaged, or no longer, on each node. A master of nested regions counts
/// once.
fn update_node_loads(
    me: &'static Thread,
    team: &Team,
    enclosing: TeamState,
    update: impl Fn(&NodeLoad, u32),
) {
    let nodes = me.root().nodes();
    let counted = u32::from(enclosing.team.active_level() > 0);
    if !nodes.has_several() {
        return update(me.node_load(), team.size() - counted);
    }
    let own = nodes.at(me.node).runs_on();
    for (index, _) in nodes.all() {
        let threads = team.threads_on(index) - if index == own { counted } else { 0 };
        if threads > 0 {
            update(nodes.node_load(index), threads);
        }
    }
}

/// Gives a member of the team its part of the region.
fn assign_work(team: &'static Team, id: u32, region: Region, places: &PlaceAssignment) {
    let Some(thread) = team.member(id).thread() else { sys::fatal("a team has lost one of its threads") };
    places.assign(thread, id);
    thread.assigned_id.set(id);
    thread.assigned_region.set(team.region_number());
    // SAFETY: teams are never freed.
    let before = unsafe { thread.assigned_team.replace(team).as_ref() };
    thread.assigned_function.set(Some(region.function));
    thread.assigned_data.set(region.data);
    thread.parker.publish_work(thread.parker.work_count().wrapping_add(1) & (u32::MAX >> 1));
    if let Some(before) = before.filter(|&before| !ptr::eq(before, team)) {
        before.wake_workers();
    }
}

/// Ends the region that the caller began.
pub fn end(me: &'static Thread) {
    let team_state = me.team_state();
    let team = team_state.team;
    let root = me.root();
    leave_share(me);
    finish_region(me, team);
    if root.settings.report {
        report(root, team);
    }
    if team.counted_threads.get() > 0 {
        root.threads_in_teams.fetch_sub(team.counted_threads.get(), Ordering::Relaxed);
    }
    affinity::restore_partition(me, team);
    if let Some(enclosing) = team.enclosing.0.get() {
        me.set_team_state(enclosing);
        if team.size() > 1 {
            update_node_loads(me, team, enclosing, NodeLoad::disengage);
        }
        if enclosing.team.level() > 0 {
            // Other teams may need the threads of an inner region.
            team.release_workers_from(1, root);
        }
    }
    match me.cached_team.replace(Some(team)) {
        // An inner region left another spare team: keep the larger one.
        Some(other) if other.retained_threads.get() > team.retained_threads.get() => {
            me.cached_team.set(Some(other));
            team.release_workers_from(1, root);
            root.return_team(team);
        }
        Some(other) => {
            other.release_workers_from(1, root);
            root.return_team(other);
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
    if let Some(enclosing) = team.enclosing.0.get() {
        enclosing.team.member(enclosing.id).tally.add_nested_wait(master);
    }
}

/// Waits until all workers have finished, and helps with their tasks.
fn finish_region(me: &'static Thread, team: &'static Team) {
    let others = team.size() - 1;
    team.leader.store(1, Ordering::SeqCst);
    loop {
        if team.has_tasks.load(Ordering::Acquire) {
            tasking::run_any(me);
        }
        let finished = || team.finished.0.load(Ordering::Acquire) == others;
        if waiting::until(me, Sleep::Counted(&team.sleepers), finished, || team.has_queued()) {
            break;
        }
    }
    if team.has_tasks.load(Ordering::Acquire) {
        tasking::finish_tasks(me);
        team.close_to_helpers();
        for member in team.members() {
            member.reset_task_counters();
        }
        team.finished_outside.store(0, Ordering::Relaxed);
    }
    team.member(0).task.end_implicit();
}

/// Leaves the work-sharing construct that the thread reached last.
pub(crate) fn leave_share(me: &'static Thread) {
    let team_state = me.team_state();
    team_state.share.leave(me.store(), team_state.team.size());
}

//! Main loop of a worker: waits for a region or a command of a device, and runs it.

use std::ptr;
use std::sync::atomic::Ordering;

use super::{fault, release};
use crate::constructs::region::leave_share;
use crate::constructs::{affinity, tasking};
use crate::device::command;
use crate::primitives::wait::{self, Sleep};
use crate::primitives::{processor_time, separate_processes, sys};
use crate::team::members::Team;
use crate::team::thread::{self, Thread};
use crate::team::thread_status::{Activity, Role};

/// Main function of a worker, which runs work until it is to end. The argument is its thread record.
pub extern "C" fn worker(argument: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: the argument is the thread's record, which is never freed.
    if let Some(me) = unsafe { argument.cast::<Thread>().as_ref() } {
        thread::set_current(Some(me));
        sys::restore_signal_mask();
        let names = (sys::thread_id(), sys::pthread_handle());
        me.status.begin(Role::Worker, Activity::Idle, me.root().next_number(), names);
        fault::watch_stack(me);
        me.node_load().add_running();
        if me.root().nodes().has_several() {
            me.root().nodes().measure(me.node);
        }
        let (mut done, mut region) = (0, 0);
        loop {
            done = wait_for_work(me, done, region);
            if me.is_to_end() {
                end(me);
                break;
            }
            me.status.set_activity(Activity::Running);
            region = work(me);
            me.status.set_activity(Activity::Idle);
        }
    }
    ptr::null_mut()
}

/// Ends a worker, whose record can then be started again.
fn end(me: &'static Thread) {
    let root = me.root();
    root.release_workers_of(me);
    root.end_idle_workers();
    release::release_state(me);
    me.reset();
    thread::set_current(None);
    root.release_worker(me);
}

/// Ends the idle workers, where they are threads. Their thread-local variables end with them.
pub fn end_idle(me: &'static Thread) {
    if !separate_processes::is_enabled() {
        me.root().release_workers_of(me);
        me.root().end_idle_workers();
    }
}

/// Runs the work that was given to a worker. Returns the number of the region, or 0.
fn work(me: &'static Thread) -> u64 {
    // SAFETY: teams are never freed, and the team was set before the parker published it.
    let Some(team) = (unsafe { me.assigned_team.get().as_ref() }) else {
        command::execute_assigned(me);
        return 0;
    };
    let Some(function) = me.assigned_function.get() else { return 0 };
    affinity::apply_assigned_place(me);
    me.league.set(team.league.get());
    me.set_team_state(team.join(me.assigned_id.get(), me, me.assigned_region.get()));
    me.status.set_team_number(me.assigned_id.get());
    me.status.charge_to(None, processor_time::current_thread_time_ns);
    affinity::display(me);
    // SAFETY: the program's function, with the argument that the program gave for it.
    unsafe { function(me.assigned_data.get()) };
    separate_processes::flush();
    finish_work(me, team)
}

/// Reports that a worker has reached the end of the region. Returns the region's number; the record may
/// already belong to another region then.
fn finish_work(me: &'static Thread, team: &'static Team) -> u64 {
    let region = me.assigned_region.get();
    leave_share(me);
    if team.has_tasks.load(Ordering::Acquire) {
        tasking::run_any(me);
    }
    if let Some(tally) = me.tally() {
        tally.end();
    }
    let team_state = me.team_state();
    team_state.task.end_implicit();
    let others = team.size() - 1;
    let master = team.member(0).thread();
    let finished = match team.node_barriers() {
        // The last worker of a node reports for all of them.
        Some(barriers) => barriers.at(me.node).finish(),
        None => Some(1),
    };
    if let Some(finished) = finished
        && team.finished.0.fetch_add(finished, Ordering::SeqCst) + finished == others
        && let Some(master) = master
    {
        master.parker.fence_and_wake();
    }
    region
}

/// Runs tasks of a region whose end the worker has already reached.
fn help(me: &'static Thread) {
    let run = || {
        tasking::run_any(me);
        separate_processes::flush();
    };
    match me.tally() {
        Some(tally) => tally.measure_help(run),
        None => run(),
    }
}

/// Waits for new work and meanwhile helps the last team with its tasks. Returns the number of the new work.
/// Workers of a team sleep on its bell, so that the master wakes them at once; a worker that can no longer
/// help sleeps on its parker.
fn wait_for_work(me: &'static Thread, done: u32, region: u64) -> u32 {
    // SAFETY: teams are never freed.
    let team = unsafe { me.assigned_team.get().as_ref() };
    let mut can_help = done > 0 && team.is_some();
    let has_new_work = || me.parker.work_count() != done;
    loop {
        if has_new_work() {
            return me.parker.work_count();
        }
        match team {
            Some(team) if can_help => {
                if wait::until(&me.local, Sleep::Together(&team.bell), has_new_work, || team.has_queued()) {
                    continue;
                }
                can_help = team.region_number() == region;
                if can_help && !has_new_work() && team.has_queued() {
                    can_help = team.try_add_helper(region);
                    if can_help {
                        help(me);
                        team.remove_helper();
                    }
                }
            }
            _ => {
                let _ = wait::until(&me.local, Sleep::Alone, has_new_work, || false);
            }
        }
    }
}

//! Main loop of a worker: waits for a region or an order of a device, and runs it.

use std::ptr;
use std::sync::atomic::Ordering;

use super::fault;
use crate::constructs::region::leave_share;
use crate::constructs::{affinity, tasking};
use crate::device::order;
use crate::primitives::wait::{self, Sleep};
use crate::primitives::{exclusive, processor_time, sys};
use crate::team::members::Team;
use crate::team::shown::{Activity, Role};
use crate::team::thread::{self, Thread};

/// Main function of a worker, which runs work forever. The argument is its thread record.
pub extern "C" fn worker(argument: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: the argument is the thread's record, which is never freed.
    if let Some(me) = unsafe { argument.cast::<Thread>().as_ref() } {
        thread::set_current(Some(me));
        sys::handle_signals();
        let names = (sys::thread_number(), sys::name_of_thread());
        me.shown.begin(Role::Worker, Activity::Idle, me.root().next_number(), names);
        fault::watch(me);
        me.awake().came();
        if me.root().nodes().several() {
            me.root().nodes().measure(me.node);
        }
        let (mut done, mut region) = (0, 0);
        loop {
            done = wait_for_work(me, done, region);
            me.shown.does(Activity::Runs);
            region = work(me);
            me.shown.does(Activity::Idle);
        }
    }
    ptr::null_mut()
}

/// Runs the work that was given to a worker. Returns the number of the region, or 0.
fn work(me: &'static Thread) -> u64 {
    // SAFETY: teams are never freed, and the team was set before the parker published it.
    let Some(team) = (unsafe { me.given_team.get().as_ref() }) else {
        order::carry_out_given(me);
        return 0;
    };
    let Some(function) = me.given_function.get() else { return 0 };
    affinity::take_place(me);
    me.league.set(team.league.get());
    me.sit(team.seat(me.given_id.get(), me, me.given_region.get()));
    me.shown.is_in_team(me.given_id.get());
    me.shown.carry(None, processor_time::own_time_ns);
    affinity::display(me);
    // SAFETY: the program's function, with the argument that the program gave for it.
    unsafe { function(me.given_data.get()) };
    exclusive::flush();
    finish_work(me, team)
}

/// Reports that a worker has reached the end of the region. Returns the region's number; the record may
/// already belong to another region then.
fn finish_work(me: &'static Thread, team: &'static Team) -> u64 {
    let region = me.given_region.get();
    leave_share(me);
    if team.tasked.load(Ordering::Acquire) {
        tasking::run_any(me);
    }
    if let Some(tally) = me.tally() {
        tally.end();
    }
    let seat = me.seat();
    seat.task.end_implicit();
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
        master.parker.tell();
    }
    region
}

/// Runs tasks of a region whose end the worker has already reached.
fn help(me: &'static Thread) {
    let run = || {
        tasking::run_any(me);
        exclusive::flush();
    };
    match me.tally() {
        Some(tally) => tally.help(run),
        None => run(),
    }
}

/// Waits for new work and meanwhile helps the last team with its tasks. Returns the number of the new work.
/// Workers of a team sleep on its bell, so that the master wakes them at once; a worker that can no longer
/// help sleeps on its parker.
fn wait_for_work(me: &'static Thread, done: u32, region: u64) -> u32 {
    // SAFETY: teams are never freed.
    let team = unsafe { me.given_team.get().as_ref() };
    let mut helps = done > 0 && team.is_some();
    let is_given = || me.parker.given() != done;
    loop {
        if is_given() {
            return me.parker.given();
        }
        match team {
            Some(team) if helps => {
                if wait::until(&me.local, Sleep::Together(&team.bell), is_given, || team.has_queued()) {
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
                let _ = wait::until(&me.local, Sleep::Alone, is_given, || false);
            }
        }
    }
}

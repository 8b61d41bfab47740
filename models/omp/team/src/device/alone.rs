//! A team of one outside of the regions around, as a device's thread or the host runs the region of a
//! `target`.

use std::ptr;

use crate::constructs::barrier;
use crate::team::members::Team;
use crate::team::thread::Thread;

/// Runs something outside of the regions around, in a team of one. `only` is the node that its teams are to
/// stay on plus one, 0 for any.
pub fn run(me: &'static Thread, only: u32, limit: u32, body: impl FnOnce()) {
    let root = me.root();
    let (outside, league, spare, data) =
        (me.stand(), me.league.replace((0, 0)), me.spare.take(), me.data.replace(ptr::null()));
    let seat = Team::outermost(root, me, only);
    if limit > 0 {
        seat.task.set_icv(|icv| icv.limit = limit);
    }
    body();
    barrier::barrier(me, false);
    let seat = me.seat();
    seat.share.leave(me.store(), seat.team.size());
    seat.task.end_implicit();
    root.give_team(seat.team);
    me.stand();
    if let Some(outside) = outside {
        me.sit(outside);
    }
    me.league.set(league);
    me.data.set(data);
    // The workers from before are kept; those of the region are for others.
    let used = if spare.is_some() || only > 0 { me.spare.replace(spare) } else { None };
    if let Some(team) = used {
        team.dismiss_from(1, root);
        root.give_team(team);
    }
}

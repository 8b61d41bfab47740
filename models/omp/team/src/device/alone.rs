//! One-thread teams outside the enclosing regions, in which a device's thread or the host runs the region of
//! a `target`.

use std::ptr;

use crate::constructs::barrier;
use crate::team::members::Team;
use crate::team::thread::Thread;

/// Runs `body` in a team of one, outside the enclosing regions. `only` is the node that nested teams are
/// confined to, plus one; 0 for any. `limit` is the thread limit; 0 for none.
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
    // Keep the previous workers; those of this region become available to others.
    let used = if spare.is_some() || only > 0 { me.spare.replace(spare) } else { None };
    if let Some(team) = used {
        team.dismiss_from(1, root);
        root.give_team(team);
    }
}

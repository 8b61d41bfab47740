//! One-thread teams outside the enclosing regions, in which a device's thread or the host runs the region of
//! a `target`.

use std::ptr;

use crate::constructs::barrier;
use crate::team::members::Team;
use crate::team::thread::Thread;

/// Runs `body` in a team of one, outside the enclosing regions. `confined_node` is the node that nested teams
/// are confined to, plus one; 0 for any. `limit` is the thread limit; 0 for none.
pub fn run_in_own_team(me: &'static Thread, confined_node: u32, limit: u32, body: impl FnOnce()) {
    let root = me.root();
    let (enclosing, league, cached_team, data) = (
        me.take_team_state(),
        me.league.replace((0, 0)),
        me.cached_team.take(),
        me.target_data.replace(ptr::null()),
    );
    let team_state = Team::create_outermost(root, me, confined_node);
    if limit > 0 {
        team_state.task.set_icv(|icv| icv.limit = limit);
    }
    body();
    barrier::barrier(me, false);
    let team_state = me.team_state();
    team_state.share.leave(me.store(), team_state.team.size());
    team_state.task.end_implicit();
    root.return_team(team_state.team);
    me.take_team_state();
    if let Some(enclosing) = enclosing {
        me.set_team_state(enclosing);
    }
    me.league.set(league);
    me.target_data.set(data);
    // Keep the previous workers; those of this region become available to others.
    let used =
        if cached_team.is_some() || confined_node > 0 { me.cached_team.replace(cached_team) } else { None };
    if let Some(team) = used {
        team.release_workers_from(1, root);
        root.return_team(team);
    }
}

//! How a thread comes to a construct that shares work, and leaves it.

use crate::team::share::WorkShare;
use crate::team::thread::Thread;

/// Comes to the next construct. The first thread that does describes it, which the second value says.
#[inline]
pub fn enter(me: &'static Thread, describe: impl FnOnce(&WorkShare)) -> (&'static WorkShare, bool) {
    let (last, team) = (me.share(), me.team());
    let progress = &me.member().progress;
    let members = team.members().map(|member| &member.progress);
    let (share, first) = progress.follow(last, me.store(), team.size(), members, describe);
    last.leave(me.store(), team.size());
    progress.go_on();
    me.set_share(share);
    (share, first)
}

//! Entering and leaving work-sharing constructs.

use crate::team::share::WorkShare;
use crate::team::thread::Thread;

/// Moves the thread on to the next construct, which the first thread initialises by `describe`. The second
/// result is whether this thread was the first.
#[inline]
pub fn enter(me: &'static Thread, describe: impl FnOnce(&WorkShare)) -> (&'static WorkShare, bool) {
    let (last, team) = (me.share(), me.team());
    let progress = &me.member().progress;
    let members = team.members().map(|member| &member.progress);
    let (share, first) = progress.next_or_append(last, me.store(), team.size(), members, describe);
    last.leave(me.store(), team.size());
    progress.advance();
    me.set_share(share);
    (share, first)
}

//! Cancellation of sends.
//!
//! A send that has not left this endpoint is dropped here. If it was offered to a peer, this endpoint asks
//! the peer to forget the offer. The peer does so and confirms it, unless a receive has taken the message
//! before, which the peer has then reported. So a message is either received or withdrawn, never both.
//!
//! A peer answers when its program calls MPI. A program must not wait for that forever, so after a timeout
//! the send counts as withdrawn in any case. If the peer requests the bytes later, it is refused, and its
//! receive keeps waiting. Bytes that were sent with the message, and that the peer has not acknowledged, may
//! still be received.

use std::time::{Duration, Instant};

use crate::completion::{Failure, flags};
use crate::matching::Posted;
use crate::memory::Memory;
use crate::wire::{Control, Status};

use super::outgoing::{From, Pending, Stream};
use super::{Core, Op, Wanted};

/// Timeout for a peer to confirm the withdrawal of a message.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

impl<V, M: Memory> Core<V, M> {
    /// Cancels the send with that context. Returns whether there is one that, as far as known here, has not
    /// been received.
    pub(super) fn cancel_send(&mut self, context: usize) -> bool {
        for peer in &mut self.peers {
            let Some(at) = peer.backlog.iter().position(|pending| pending.is_message_of(context)) else {
                continue;
            };
            if let Some(done) = peer.backlog.remove(at).and_then(Pending::given_up) {
                self.fail(done, Failure::Canceled);
            }
            return true;
        }
        // Injected sends have been reported already, and have no flags.
        let such = |op: &Op<M>| {
            matches!(op, Op::Sending { done, .. }
                if done.completion.context == context && done.completion.flags & flags::SEND != 0)
        };
        let Some(&op) = self.ops.ids(such).first() else { return false };
        let Some(Op::Sending { peer, .. }) = self.ops.get_mut(op) else { return false };
        let peer = *peer;
        if self.is_accepted(peer, op) {
            return false;
        }
        if !self.withdrawing.iter().any(|(other, _)| *other == op) {
            self.withdrawing.push((op, Instant::now()));
            self.tell(peer, Control::Withdraw { ours: op });
        }
        true
    }

    /// Handles a peer's withdrawal of a message that it offered. A message that a receive has matched or a
    /// peek has claimed cannot be withdrawn.
    pub(super) fn let_go(&mut self, peer: u32, theirs: u64) {
        for tagged in [true, false] {
            let matching = self.matching(tagged);
            if let Some(message) = matching.find_offered(peer, theirs).and_then(|index| matching.take(index))
            {
                self.note_taken(&message);
                return self.tell(peer, Control::Done { theirs, status: Status::Withdrawn });
            }
        }
    }

    /// Completes withdrawn sends whose peers have not confirmed in time.
    #[inline(never)]
    pub(super) fn give_up_withdrawing(&mut self, now: Instant) {
        let patience = self.withdrawal_patience;
        for (op, since) in std::mem::take(&mut self.withdrawing) {
            let Some(Op::Sending { peer, done, .. }) = self.ops.get_mut(op) else { continue };
            let (peer, done) = (*peer, *done);
            if self.is_accepted(peer, op) {
                continue;
            }
            if now.saturating_duration_since(since) < patience {
                self.withdrawing.push((op, since));
                continue;
            }
            if let Some(sending) = self.ops.get_mut(op) {
                *sending = Op::Withdrawn { peer };
            }
            self.fail(done, Failure::Canceled);
        }
    }

    /// Returns whether a peer has accepted a message, so that its bytes are being sent.
    fn is_accepted(&self, peer: u32, op: u64) -> bool {
        let of_it = |stream: &Stream| matches!(stream.from, From::Message(of) if of == op);
        self.peers[peer as usize].streams.iter().any(of_it)
    }

    /// Refuses to send the bytes of a withdrawn message. Returns whether it was withdrawn.
    pub(super) fn refuse_withdrawn(&mut self, peer: u32, op: u64, theirs: u64) -> bool {
        let withdrawn = matches!(self.ops.get_mut(op), Some(Op::Withdrawn { peer: of }) if *of == peer);
        if withdrawn {
            self.ops.remove(op);
            self.tell(peer, Control::Done { theirs, status: Status::Withdrawn });
        }
        withdrawn
    }

    /// Reposts a receive, as the first in the queue, whose message was withdrawn before any byte arrived. A
    /// part of a buffer for several messages is lost, as the bytes behind it may be in use.
    pub(super) fn receive_anew(&mut self, op: u64) {
        let Some(Op::Receiving { memory, multi, mut done, wanted, .. }) = self.ops.remove(op) else { return };
        let tagged = done.completion.flags & flags::TAGGED != 0;
        if multi.is_some() {
            done.completion.length = 0;
            self.came_into(multi, &mut done);
            return self.fail(done, Failure::Canceled);
        }
        let Wanted { tag, ignore, source } = wanted;
        let (context, report) = (done.completion.context, done.report);
        let posted = Posted { tag, ignore, source, context, report, used: 0, multi: None, memory };
        if self.matching(tagged).has_unexpected() {
            self.receive_kept(tagged, posted);
        } else {
            self.matching(tagged).post_first(posted);
        }
    }
}

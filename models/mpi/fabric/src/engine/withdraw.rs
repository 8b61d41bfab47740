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

use super::outgoing::{Pending, Stream, StreamSource};
use super::{Core, MatchCriteria, Op};

/// Timeout for a peer to confirm the withdrawal of a message.
pub(super) const CONFIRM_TIMEOUT: Duration = Duration::from_secs(2);

impl<V, M: Memory> Core<V, M> {
    /// Cancels the send with that context. Returns whether there is one that, as far as known here, has not
    /// been received.
    pub(super) fn cancel_send(&mut self, context: usize) -> bool {
        for peer in &mut self.peers {
            let Some(at) = peer.backlog.iter().position(|pending| pending.is_message_of(context)) else {
                continue;
            };
            if let Some(completion) = peer.backlog.remove(at).and_then(Pending::into_failed_completion) {
                self.fail(completion, Failure::Canceled);
            }
            return true;
        }
        // Injected sends have been reported already, and have no flags.
        let is_send_of_context = |op: &Op<M>| {
            matches!(op, Op::Sending { completion, .. }
                if completion.entry.context == context && completion.entry.flags & flags::SEND != 0)
        };
        let Some(&op) = self.ops.ids(is_send_of_context).first() else { return false };
        let Some(Op::Sending { peer, .. }) = self.ops.get_mut(op) else { return false };
        let peer = *peer;
        if self.is_accepted(peer, op) {
            return false;
        }
        if !self.withdrawing.iter().any(|(other, _)| *other == op) {
            self.withdrawing.push((op, Instant::now()));
            self.send_control(peer, Control::Withdraw { own_op: op });
        }
        true
    }

    /// Handles a peer's withdrawal of a message that it offered. A message that a receive has matched or a
    /// peek has claimed cannot be withdrawn.
    pub(super) fn handle_withdraw(&mut self, peer: u32, peer_op: u64) {
        for tagged in [true, false] {
            let matching = self.matching(tagged);
            if let Some(message) =
                matching.find_offered(peer, peer_op).and_then(|index| matching.take_unexpected(index))
            {
                self.return_unexpected_credit(&message);
                return self.send_control(peer, Control::Done { peer_op, status: Status::Withdrawn });
            }
        }
    }

    /// Completes withdrawn sends whose peers have not confirmed in time.
    #[inline(never)]
    pub(super) fn expire_withdrawals(&mut self, now: Instant) {
        let timeout = self.withdrawal_timeout;
        for (op, since) in std::mem::take(&mut self.withdrawing) {
            let Some(Op::Sending { peer, completion, .. }) = self.ops.get_mut(op) else { continue };
            let (peer, completion) = (*peer, *completion);
            if self.is_accepted(peer, op) {
                continue;
            }
            if now.saturating_duration_since(since) < timeout {
                self.withdrawing.push((op, since));
                continue;
            }
            if let Some(sending) = self.ops.get_mut(op) {
                *sending = Op::Withdrawn { peer };
            }
            self.fail(completion, Failure::Canceled);
        }
    }

    /// Returns whether a peer has accepted a message, so that its bytes are being sent.
    fn is_accepted(&self, peer: u32, op: u64) -> bool {
        let carries_op =
            |stream: &Stream| matches!(stream.from, StreamSource::Message(message_op) if message_op == op);
        self.peers[peer as usize].streams.iter().any(carries_op)
    }

    /// Refuses to send the bytes of a withdrawn message. Returns whether it was withdrawn.
    pub(super) fn refuse_withdrawn(&mut self, peer: u32, op: u64, peer_op: u64) -> bool {
        let withdrawn =
            matches!(self.ops.get_mut(op), Some(Op::Withdrawn { peer: receiver }) if *receiver == peer);
        if withdrawn {
            self.ops.remove(op);
            self.send_control(peer, Control::Done { peer_op, status: Status::Withdrawn });
        }
        withdrawn
    }

    /// Reposts a receive, as the first in the queue, whose message was withdrawn before any byte arrived. A
    /// part of a buffer for several messages is lost, as the bytes behind it may be in use.
    pub(super) fn repost_receive(&mut self, op: u64) {
        let Some(Op::Receiving { memory, multi, mut completion, criteria, .. }) = self.ops.remove(op) else {
            return;
        };
        let tagged = completion.entry.flags & flags::TAGGED != 0;
        if multi.is_some() {
            completion.entry.length = 0;
            self.complete_multi_recv(multi, &mut completion);
            return self.fail(completion, Failure::Canceled);
        }
        let MatchCriteria { tag, ignore, source } = criteria;
        let (context, report) = (completion.entry.context, completion.report);
        let posted = Posted { tag, ignore, source, context, report, used: 0, multi: None, memory };
        if self.matching(tagged).has_unexpected() {
            self.receive_unexpected(tagged, posted);
        } else {
            self.matching(tagged).post_first(posted);
        }
    }
}

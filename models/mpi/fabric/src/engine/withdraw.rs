//! Sends that their program takes back.
//!
//! A send that has not left this endpoint is dropped here. If it was offered to a peer, this endpoint asks
//! the peer to forget the offer. The peer does so and confirms it, unless a receive has taken the message
//! before, which the peer has then reported. So a message is either received or withdrawn, never both.
//!
//! A peer answers when its program calls MPI. A program must not wait for that for ever, so after a while a
//! send counts as withdrawn in any case. If the peer asks for the bytes later, it is refused them, and its
//! receive waits on. Bytes that went along with the message, and of which the peer has not said that they are
//! there, may still be received.

use std::time::{Duration, Instant};

use crate::completion::{Failure, flags};
use crate::matching::Posted;
use crate::memory::Memory;
use crate::wire::{Control, Status};

use super::outgoing::{From, Pending, Stream};
use super::{Core, Op, Wanted};

/// How long a peer may take to let go of a message.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

impl<V, M: Memory> Core<V, M> {
    /// Takes back the send with that context. Whether there is one that has not been received, as far as is
    /// known here.
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
        // What was injected has been told of already, and has no flags.
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

    /// A peer takes back a message that it has offered. What a receive has taken, or a peek has put aside for
    /// one, is not given back.
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

    /// Ends sends whose peers have not let go of them in time.
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

    /// Whether a peer has asked for the bytes of a message, which are going there.
    fn is_accepted(&self, peer: u32, op: u64) -> bool {
        let of_it = |stream: &Stream| matches!(stream.from, From::Message(of) if of == op);
        self.peers[peer as usize].streams.iter().any(of_it)
    }

    /// Refuses the bytes of a message that its program has back. Whether it is one.
    pub(super) fn refuse_withdrawn(&mut self, peer: u32, op: u64, theirs: u64) -> bool {
        let withdrawn = matches!(self.ops.get_mut(op), Some(Op::Withdrawn { peer: of }) if *of == peer);
        if withdrawn {
            self.ops.remove(op);
            self.tell(peer, Control::Done { theirs, status: Status::Withdrawn });
        }
        withdrawn
    }

    /// The message of a receive was taken back before any of it came: the receive is the first of those that
    /// wait again. A part of a buffer for several messages is lost, for what follows it may be in use.
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

//! Defects of the mutants.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use libtest_mimic::Trial;
use tombolo_conformance::Carrier;
use tombolo_conformance::carriers::{Shm, UnixStream};
use tombolo_link::{Hello, Side};
use tombolo_platform::event::Interest;
use tombolo_platform::time::Deadline;
use tombolo_transport::contract::Announced;
use tombolo_transport::{Capabilities, ChannelError, EndError, Stats, Transport, TransportExt};

use crate::carrier::{Mutation, Opened};
use crate::trial;

type Sent = Result<(), EndError>;
type Received = Result<Option<usize>, EndError>;

/// Creates a trial for each mutation.
macro_rules! mutations {
    ($($mutation:ty),* $(,)?) => {
        pub(crate) fn trials() -> Vec<Trial> {
            vec![$(trial::<$mutation>()),*]
        }
    };
}

mutations! {
    DropsAMessage, RepeatsAMessage, SwapsTwoMessages, CutsLongMessages, ChangesAByte, AcceptsWithoutLimit,
    AcceptsTooLong, RefusesTheLongest, FindsNoMoreRoom, Miscounts, ReportsReadableWhenEmpty,
    ForgetsToAnnounce, ForgetsToAnnounceForRoom, SkipsLastPoll, HasNoSources, NeverSleeps, IgnoresClose,
    LosesTheLastMessage, EndsOnlyOnce, LeaksItself, ReportsDeathAsClose, IgnoresDeath, ComparesNothing,
    DeclinesInSilence, OverclaimsCapabilities, UnderclaimsCapabilities,
}

/// Every hundredth message is accepted and never sent.
#[derive(Default)]
struct DropsAMessage(u64);

impl Mutation for DropsAMessage {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "transfer::order_both_ways_at_once";

    fn send(&mut self, inner: &mut impl Transport, message: &[u8]) -> Sent {
        self.0 += 1;
        if self.0.is_multiple_of(100) { Ok(()) } else { inner.try_send(message) }
    }
}

/// Every hundredth message is sent twice.
#[derive(Default)]
struct RepeatsAMessage(u64);

impl Mutation for RepeatsAMessage {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "transfer::order_both_ways_at_once";

    fn send(&mut self, inner: &mut impl Transport, message: &[u8]) -> Sent {
        inner.try_send(message)?;
        self.0 += 1;
        if self.0.is_multiple_of(100) {
            let _ = inner.try_send(message);
        }
        Ok(())
    }
}

/// Occasionally, of two messages available at the same time, the second is received first.
#[derive(Default)]
struct SwapsTwoMessages {
    received: u64,
    kept: Option<Vec<u8>>,
}

impl Mutation for SwapsTwoMessages {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "transfer::order_both_ways_at_once";

    fn receive(&mut self, inner: &mut impl Transport, buffer: &mut Vec<u8>) -> Received {
        if let Some(kept) = self.kept.take() {
            *buffer = kept;
            return Ok(Some(buffer.len()));
        }
        let received = inner.try_recv_into(buffer)?;
        self.received += u64::from(received.is_some());
        if received.is_some() && self.received.is_multiple_of(50) && inner.readable() {
            self.kept = Some(buffer.clone());
            return inner.try_recv_into(buffer);
        }
        Ok(received)
    }
}

/// A message of several slots loses its last byte.
#[derive(Default)]
struct CutsLongMessages;

impl Mutation for CutsLongMessages {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "transfer::every_length";

    fn send(&mut self, inner: &mut impl Transport, message: &[u8]) -> Sent {
        inner.try_send(&message[..message.len() - usize::from(message.len() > 200)])
    }
}

/// Changes the last byte of the longest messages.
#[derive(Default)]
struct ChangesAByte;

impl Mutation for ChangesAByte {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "transfer::lengths_around_slots_and_limit";

    fn receive(&mut self, inner: &mut impl Transport, buffer: &mut Vec<u8>) -> Received {
        let received = inner.try_recv_into(buffer)?;
        if received.is_some_and(|length_bytes| length_bytes == inner.describe().max_message_bytes) {
            *buffer.last_mut().unwrap() ^= 1;
        }
        Ok(received)
    }
}

/// Accepts and keeps every message, with room or without.
#[derive(Default)]
struct AcceptsWithoutLimit(VecDeque<Vec<u8>>);

impl Mutation for AcceptsWithoutLimit {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "transfer::a_full_channel_refuses_and_loses_nothing";

    fn send(&mut self, inner: &mut impl Transport, message: &[u8]) -> Sent {
        self.0.push_back(message.to_vec());
        while let Some(first) = self.0.front() {
            match inner.try_send(first) {
                Ok(()) => self.0.pop_front(),
                Err(EndError::Full) => break,
                Err(error) => return Err(error),
            };
        }
        Ok(())
    }
}

/// Truncates messages that are too long instead of refusing them.
#[derive(Default)]
struct AcceptsTooLong;

impl Mutation for AcceptsTooLong {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "transfer::lengths_around_slots_and_limit";

    fn send(&mut self, inner: &mut impl Transport, message: &[u8]) -> Sent {
        inner.try_send(&message[..message.len().min(inner.describe().max_message_bytes)])
    }
}

/// Its message limit is one byte less than the rings'.
#[derive(Default)]
struct RefusesTheLongest;

impl Mutation for RefusesTheLongest {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "transfer::lengths_around_slots_and_limit";

    fn max_message_bytes(inner: &impl Transport) -> usize {
        inner.describe().max_message_bytes - 1
    }
}

/// After its first lack of room it never has room again.
#[derive(Default)]
struct FindsNoMoreRoom(bool);

impl Mutation for FindsNoMoreRoom {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "waiting::a_blocked_sender_is_woken_by_room";

    fn send(&mut self, inner: &mut impl Transport, message: &[u8]) -> Sent {
        if self.0 {
            return Err(EndError::Full);
        }
        let sent = inner.try_send(message);
        self.0 = sent == Err(EndError::Full);
        sent
    }
}

/// Counts what is sent in messages of a fixed size.
#[derive(Default)]
struct Miscounts;

impl Mutation for Miscounts {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "transfer::stats_count_messages_and_bytes";

    fn stats(inner: &impl Transport) -> Stats {
        let stats = inner.stats();
        Stats { bytes_sent: stats.messages_sent * 56, ..stats }
    }
}

/// Always has something to receive.
#[derive(Default)]
struct ReportsReadableWhenEmpty;

impl Mutation for ReportsReadableWhenEmpty {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "transfer::every_length";

    fn readable(&mut self, _inner: &mut impl Transport) -> bool {
        true
    }
}

/// Sleeps without an announcement.
#[derive(Default)]
struct ForgetsToAnnounce;

impl Mutation for ForgetsToAnnounce {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "doorbells::a_sleeper_is_rung_for_a_message";

    fn announce_sleep(&mut self, _inner: &mut impl Transport, _awaited: Interest) -> Announced {
        Announced::Complete
    }
}

/// Announces sleeps for messages only.
#[derive(Default)]
struct ForgetsToAnnounceForRoom;

impl Mutation for ForgetsToAnnounceForRoom {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "waiting::a_blocked_sender_is_woken_by_room";

    fn announce_sleep(&mut self, inner: &mut impl Transport, _awaited: Interest) -> Announced {
        inner.announce_sleep(Interest::Read)
    }
}

/// Sleeps without a last poll.
#[derive(Default)]
struct SkipsLastPoll;

impl Mutation for SkipsLastPoll {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "doorbells::the_last_poll_sees_earlier_messages";

    fn may_sleep(&mut self, inner: &mut impl Transport, awaited: Interest) -> bool {
        inner.may_sleep(awaited);
        true
    }
}

/// Has no descriptors.
#[derive(Default)]
struct HasNoSources;

impl Mutation for HasNoSources {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "ending::close_wakes_a_sleeping_receiver";

    fn has_sources() -> bool {
        false
    }
}

/// Polls where it should sleep.
#[derive(Default)]
struct NeverSleeps;

impl Mutation for NeverSleeps {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "waiting::ping_pong_asleep";

    fn may_sleep(&mut self, _inner: &mut impl Transport, _awaited: Interest) -> bool {
        false
    }
}

/// Continues after it was closed.
#[derive(Default)]
struct IgnoresClose;

impl Mutation for IgnoresClose {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "ending::close_drains_then_reports_the_close";

    fn close(&mut self, _inner: &mut impl Transport) {}
}

/// Sends each message with the next one, so that the last is lost.
#[derive(Default)]
struct LosesTheLastMessage(Option<Vec<u8>>);

impl Mutation for LosesTheLastMessage {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "ending::drop_closes";

    fn send(&mut self, inner: &mut impl Transport, message: &[u8]) -> Sent {
        if let Some(before) = &self.0 {
            inner.try_send(before)?;
        }
        self.0 = Some(message.to_vec());
        Ok(())
    }
}

/// Reports its end only once.
#[derive(Default)]
struct EndsOnlyOnce(bool);

impl Mutation for EndsOnlyOnce {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "ending::both_close_in_either_order";

    fn receive(&mut self, inner: &mut impl Transport, buffer: &mut Vec<u8>) -> Received {
        let received = inner.try_recv_into(buffer);
        if received.is_err() && std::mem::replace(&mut self.0, true) {
            return Ok(None);
        }
        received
    }
}

/// Is dropped without being closed.
#[derive(Default)]
struct LeaksItself;

impl Mutation for LeaksItself {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "ending::drop_closes";
    const LEAKS_ITSELF: bool = true;
}

/// Reports a death as a close.
#[derive(Default)]
struct ReportsDeathAsClose;

impl Mutation for ReportsDeathAsClose {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "death::of_a_sender";

    fn receive(&mut self, inner: &mut impl Transport, buffer: &mut Vec<u8>) -> Received {
        inner.try_recv_into(buffer).map_err(|error| match error {
            EndError::PeerDied => EndError::Closed,
            error => error,
        })
    }
}

/// Waits for a dead peer.
#[derive(Default)]
struct IgnoresDeath;

impl Mutation for IgnoresDeath {
    type Base = UnixStream;
    const CAUGHT_BY: &'static str = "death::seen_by_a_poller";

    fn receive(&mut self, inner: &mut impl Transport, buffer: &mut Vec<u8>) -> Received {
        match inner.try_recv_into(buffer) {
            Err(EndError::PeerDied) => Ok(None),
            received => received,
        }
    }
}

/// Opens with any peer.
#[derive(Default)]
struct ComparesNothing;

impl Mutation for ComparesNothing {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "opening::both_sides_learn_of_a_difference";

    fn open(end: Vec<OwnedFd>, side: Side, hello: Hello, deadline: Deadline) -> Opened<Self> {
        Shm::open(end, side, Hello { interface_hash: 0, version: 1, ..hello }, deadline)
    }
}

/// Declines without notifying the peer.
#[derive(Default)]
struct DeclinesInSilence;

impl Mutation for DeclinesInSilence {
    type Base = UnixStream;
    const CAUGHT_BY: &'static str = "opening::a_program_can_decline";

    fn decline(end: Vec<OwnedFd>, _hello: Hello, _reason: u32) -> Result<(), ChannelError> {
        drop(end);
        Ok(())
    }
}

/// A stream that claims to count its room.
#[derive(Default)]
struct OverclaimsCapabilities;

impl Mutation for OverclaimsCapabilities {
    type Base = UnixStream;
    const CAUGHT_BY: &'static str = "transfer::room_around_the_number_of_slots";
    const CAPABILITIES: Capabilities = Capabilities::OF_STREAM.with(Capabilities::COUNTED_ROOM);
}

/// Shared memory of one kernel that does not claim what its link declares.
#[derive(Default)]
struct UnderclaimsCapabilities;

impl Mutation for UnderclaimsCapabilities {
    type Base = Shm;
    const CAUGHT_BY: &'static str = "declared::capabilities_are_those_of_the_carrier";
    const CAPABILITIES: Capabilities = Capabilities::OF_SHARED_MEMORY.without(Capabilities::ATOMICS);
}

//! Cases and their requirements.

mod death;
mod declared;
mod doorbells;
mod ending;
mod hostile;
mod in_place;
mod opening;
mod transfer;
mod waiting;

use std::fmt;

use tombolo_transport::Capabilities;

use crate::carrier::Fixture;
use crate::subject::Subject;

/// Requirement of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requirement {
    /// Capability of the transport.
    Capability(Capabilities),
    /// Operation that the suite must be able to perform on the transport.
    Fixture(Fixture),
}

impl Requirement {
    fn is_satisfied_by(self, subject: &Subject) -> bool {
        match self {
            Requirement::Capability(needed) => subject.capabilities.contains(needed),
            Requirement::Fixture(needed) => subject.fixtures.contains(&needed),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Requirement::Capability(needed) => needed.fmt(f),
            Requirement::Fixture(needed) => needed.fmt(f),
        }
    }
}

/// Case for one carrier.
pub struct Case {
    /// Name of the module, which is the topic of the case.
    pub group: &'static str,
    /// Property that must hold.
    pub name: &'static str,
    /// Requirement that the carrier lacks, if any.
    pub lacks: Option<String>,
    subject: Subject,
    test: fn(&Subject),
}

impl Case {
    /// Tests the property on the subject.
    ///
    /// # Panics
    /// Panics if the property does not hold.
    pub fn run(&self) {
        (self.test)(&self.subject);
    }
}

/// Requirements behind the words in the table below.
mod requirements {
    use super::{Capabilities, Requirement};
    use crate::carrier::Fixture;

    pub(super) const COUNTED: Requirement = Requirement::Capability(Capabilities::COUNTED_ROOM);
    pub(super) const SYSCALL_FREE: Requirement = Requirement::Capability(Capabilities::SYSCALL_FREE);
    pub(super) const MESSAGE_BELL: Requirement = Requirement::Capability(Capabilities::BELL_FOR_MESSAGES);
    pub(super) const ROOM_BELL: Requirement = Requirement::Capability(Capabilities::BELL_FOR_ROOM);
    pub(super) const DESCRIPTORS: Requirement = Requirement::Capability(Capabilities::DESCRIPTORS);
    pub(super) const EVIDENCE: Requirement = Requirement::Capability(Capabilities::EVIDENCE_OF_DEATH);
    pub(super) const NO_SPURIOUS_RESULTS: Requirement =
        Requirement::Capability(Capabilities::NO_SPURIOUS_RESULTS);
    pub(super) const WHOLE_BATCHES: Requirement = Requirement::Capability(Capabilities::WHOLE_BATCHES);
    pub(super) const HANDSHAKE: Requirement = Requirement::Fixture(Fixture::Handshake);
    pub(super) const KILLABLE: Requirement = Requirement::Fixture(Fixture::Killable);
    pub(super) const HOSTILE: Requirement = Requirement::Fixture(Fixture::Hostile);
}

macro_rules! table {
    ($($group:ident { $($case:ident $([$($need:ident),+])?),* $(,)? })*) => {
        /// Returns every case for `subject`.
        #[must_use]
        pub fn all(subject: Subject) -> Vec<Case> {
            let case = |group, name, requirements: &[Requirement], test| {
                let lacking = requirements.iter().find(|need| !need.is_satisfied_by(&subject));
                let lacks = lacking.map(|need| format!("{} lacks {need}", subject.display_name()));
                Case { group, name, lacks, subject, test }
            };
            vec![$($(
                case(
                    stringify!($group),
                    stringify!($case),
                    &[$($(requirements::$need),+)?],
                    $group::$case as fn(&Subject),
                ),
            )*)*]
        }
    };
}

table! {
    declared {
        capabilities_are_those_of_the_carrier,
        cost_can_be_measured,
        no_syscalls_while_awake [SYSCALL_FREE],
    }
    opening {
        either_side_may_come_first,
        both_sides_learn_of_a_difference [HANDSHAKE],
        a_program_can_decline [HANDSHAKE],
        silence_is_a_timeout,
        a_side_that_gives_up_has_not_died [HANDSHAKE],
        a_dead_peer_is_distinguished_from_a_silent_one [EVIDENCE, HANDSHAKE],
    }
    transfer {
        every_length,
        lengths_around_slots_and_limit,
        order_both_ways_at_once,
        a_full_channel_refuses_and_loses_nothing [NO_SPURIOUS_RESULTS],
        room_around_the_number_of_slots [COUNTED],
        the_smallest_and_the_largest_shape,
        readiness_to_send_means_room,
        stats_count_messages_and_bytes,
    }
    in_place {
        in_place_writes_are_read_in_place [NO_SPURIOUS_RESULTS],
        a_batch_arrives_whole_and_in_order [NO_SPURIOUS_RESULTS],
        a_batch_fills_the_ring_and_is_refused_beyond [NO_SPURIOUS_RESULTS, COUNTED, WHOLE_BATCHES],
        waiting_reads_in_place,
        errors_do_not_call_the_closures [NO_SPURIOUS_RESULTS],
    }
    waiting {
        ping_pong_asleep,
        ping_pong_about_to_sleep,
        streaming_asleep,
        a_blocked_sender_is_woken_by_room,
        timeouts_leave_the_channel_usable [NO_SPURIOUS_RESULTS],
        two_blocked_senders_both_continue,
        any_serves_all_in_turn,
        any_is_woken_by_each,
        any_reports_an_end,
    }
    doorbells {
        the_last_poll_sees_earlier_messages [DESCRIPTORS, NO_SPURIOUS_RESULTS],
        a_sleeper_is_rung_for_a_message [DESCRIPTORS, NO_SPURIOUS_RESULTS],
        a_sleeper_is_rung_once [DESCRIPTORS, MESSAGE_BELL, COUNTED],
        a_sleeper_is_rung_for_room [DESCRIPTORS, NO_SPURIOUS_RESULTS],
        side_is_rung_only_for_awaited_events [DESCRIPTORS, MESSAGE_BELL, ROOM_BELL, COUNTED],
        no_wake_up_is_lost_in_a_race [DESCRIPTORS, NO_SPURIOUS_RESULTS],
    }
    ending {
        close_drains_then_reports_the_close,
        both_close_in_either_order,
        drop_closes,
        accepted_messages_outlive_the_sender,
        close_wakes_a_sleeping_receiver,
        close_wakes_a_sleeping_sender,
        a_sender_that_never_polls_notices [NO_SPURIOUS_RESULTS],
    }
    death {
        of_a_sender [KILLABLE, EVIDENCE],
        of_a_receiver [KILLABLE, EVIDENCE],
        of_one_among_several [KILLABLE, EVIDENCE],
        seen_by_a_poller [KILLABLE, EVIDENCE],
        of_one_that_closed_first [KILLABLE, EVIDENCE],
    }
    hostile {
        corruption_fails_only_the_channel [HOSTILE],
        corruption_during_the_handshake [HOSTILE],
        flood_of_rings_does_not_delay_timeouts [HOSTILE],
    }
}

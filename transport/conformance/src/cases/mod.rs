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

use crate::carrier::Rig;
use crate::subject::Subject;

/// Requirement of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Capability of the transport.
    Able(Capabilities),
    /// Operation that the suite must be able to perform on the transport.
    Rig(Rig),
}

impl Need {
    fn met_by(self, subject: &Subject) -> bool {
        match self {
            Need::Able(needed) => subject.capabilities.contains(needed),
            Need::Rig(needed) => subject.rig.contains(&needed),
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::Able(needed) => needed.fmt(f),
            Need::Rig(needed) => needed.fmt(f),
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
mod needs {
    use super::{Capabilities, Need};
    use crate::carrier::Rig;

    pub(super) const COUNTED: Need = Need::Able(Capabilities::COUNTED_ROOM);
    pub(super) const SILENT: Need = Need::Able(Capabilities::SILENT);
    pub(super) const MESSAGE_BELL: Need = Need::Able(Capabilities::BELL_FOR_MESSAGES);
    pub(super) const ROOM_BELL: Need = Need::Able(Capabilities::BELL_FOR_ROOM);
    pub(super) const DESCRIPTORS: Need = Need::Able(Capabilities::DESCRIPTORS);
    pub(super) const EVIDENCE: Need = Need::Able(Capabilities::EVIDENCE_OF_DEATH);
    pub(super) const STEADY: Need = Need::Able(Capabilities::STEADY);
    pub(super) const WHOLE_BATCHES: Need = Need::Able(Capabilities::WHOLE_BATCHES);
    pub(super) const HANDSHAKE: Need = Need::Rig(Rig::Handshake);
    pub(super) const KILLABLE: Need = Need::Rig(Rig::Killable);
    pub(super) const HOSTILE: Need = Need::Rig(Rig::Hostile);
}

macro_rules! table {
    ($($group:ident { $($case:ident $([$($need:ident),+])?),* $(,)? })*) => {
        /// Returns every case for `subject`.
        #[must_use]
        pub fn all(subject: Subject) -> Vec<Case> {
            let case = |group, name, needs: &[Need], test| {
                let lacking = needs.iter().find(|need| !need.met_by(&subject));
                let lacks = lacking.map(|need| format!("{} lacks {need}", subject.listed_as()));
                Case { group, name, lacks, subject, test }
            };
            vec![$($(
                case(
                    stringify!($group),
                    stringify!($case),
                    &[$($(needs::$need),+)?],
                    $group::$case as fn(&Subject),
                ),
            )*)*]
        }
    };
}

table! {
    declared {
        capabilities_are_those_of_the_carrier,
        its_cost_can_be_measured,
        silence_while_awake [SILENT],
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
        a_full_channel_refuses_and_loses_nothing [STEADY],
        room_around_the_number_of_slots [COUNTED],
        the_smallest_and_the_largest_shape,
        readiness_to_send_means_room,
        stats_count_what_passed,
    }
    in_place {
        what_is_written_in_place_is_read_in_place [STEADY],
        a_batch_arrives_whole_and_in_order [STEADY],
        a_batch_fills_the_ring_and_is_refused_beyond [STEADY, COUNTED, WHOLE_BATCHES],
        waiting_reads_in_place,
        errors_leave_the_closures_alone [STEADY],
    }
    waiting {
        ping_pong_asleep,
        ping_pong_about_to_sleep,
        streaming_asleep,
        a_blocked_sender_is_woken_by_room,
        timeouts_leave_the_channel_usable [STEADY],
        two_blocked_senders_both_continue,
        any_serves_all_in_turn,
        any_is_woken_by_each,
        any_shows_an_end,
    }
    doorbells {
        the_last_poll_sees_earlier_messages [DESCRIPTORS, STEADY],
        a_sleeper_is_rung_for_a_message [DESCRIPTORS, STEADY],
        a_sleeper_is_rung_once [DESCRIPTORS, MESSAGE_BELL, COUNTED],
        a_sleeper_is_rung_for_room [DESCRIPTORS, STEADY],
        a_side_is_rung_only_for_what_it_awaits [DESCRIPTORS, MESSAGE_BELL, ROOM_BELL, COUNTED],
        no_wake_up_is_lost_in_a_race [DESCRIPTORS, STEADY],
    }
    ending {
        close_drains_then_reports_the_close,
        both_close_in_either_order,
        drop_closes,
        what_was_accepted_outlives_the_sender,
        close_wakes_a_sleeping_receiver,
        close_wakes_a_sleeping_sender,
        a_sender_that_never_polls_notices [STEADY],
    }
    death {
        of_a_sender [KILLABLE, EVIDENCE],
        of_a_receiver [KILLABLE, EVIDENCE],
        of_one_among_several [KILLABLE, EVIDENCE],
        seen_by_a_poller [KILLABLE, EVIDENCE],
        of_one_that_closed_first [KILLABLE, EVIDENCE],
    }
    hostile {
        scribbling_costs_the_channel_only [HOSTILE],
        scribbling_during_the_handshake [HOSTILE],
        a_flood_of_bells_does_not_stop_the_clock [HOSTILE],
    }
}

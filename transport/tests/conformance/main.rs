//! One suite that every transport passes. A further transport takes part with an `impl Carrier` and a line at the
//! end of this file.

mod carrier;
mod death;
mod doorbells;
mod ending;
mod hostile;
mod messages;
mod opening;
mod proposals;
mod transfer;
mod waiting;

/// Makes a test of each case for one transport.
macro_rules! cases {
    ($name:ident, $carrier:ident: $($module:ident { $($case:ident),* $(,)? })*) => {
        mod $name {
            $(mod $module {
                $(#[test]
                fn $case() {
                    crate::$module::$case::<crate::carrier::$carrier>();
                })*
            })*
        }
    };
}

macro_rules! every_transport {
    ($($name:ident: $carrier:ident),* $(,)?) => {
        $(cases! { $name, $carrier:
            opening {
                either_side_may_come_first,
                both_sides_learn_of_a_difference,
                a_program_can_decline,
                silence_is_a_timeout,
                a_peer_that_is_gone_is_told_from_a_silent_one,
            }
            transfer {
                every_length,
                lengths_around_slots_and_limit,
                order_both_ways_at_once,
                a_full_channel_refuses_and_loses_nothing,
                stats_count_what_passed,
            }
            waiting {
                ping_pong_asleep,
                ping_pong_dozing,
                streaming_asleep,
                a_blocked_sender_is_woken_by_room,
                timeouts_leave_the_channel_usable,
                two_blocked_senders_both_go_on,
                any_serves_all_in_turn,
                any_is_woken_by_each,
                any_shows_an_end,
            }
            doorbells {
                the_last_look_sees_what_came_before,
                a_sleeper_is_rung_for_a_message_once,
                a_sleeper_is_rung_for_room,
                nobody_is_rung_for_what_nobody_awaits,
                no_wake_up_is_lost_in_a_race,
            }
            ending {
                close_drains_then_says_so,
                drop_closes,
                what_was_accepted_outlives_the_sender,
                close_wakes_a_sleeping_receiver,
                close_wakes_a_sleeping_sender,
                a_sender_that_never_looks_notices,
            }
            death {
                of_a_sender,
                of_a_receiver,
                of_one_among_several,
                seen_by_a_poller,
            }
        })*
    };
}

macro_rules! every_memory {
    ($($name:ident: $carrier:ident),* $(,)?) => {
        $(cases! { $name, $carrier:
            hostile {
                scribbling_costs_the_channel_only,
                scribbling_during_the_handshake,
                a_flood_of_bells_does_not_stop_the_clock,
            }
        })*
    };
}

every_transport! { shm: Shm, window: Window, unix_stream: UnixStream, tcp: Tcp }
every_memory! { shm_memory: Shm, window_memory: Window }

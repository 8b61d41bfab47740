//! A waitset reports everything that happens, in turn, and polls nothing else.

mod death;
mod pairs;
mod reports;
mod scale;
mod turns;

macro_rules! each_kind {
    ($($name:ident: $kind:ident),* $(,)?) => {
        $(mod $name {
            use crate::pairs::$kind as Pair;

            #[test]
            fn reports_by_level_until_all_is_taken() {
                crate::reports::reports_by_level_until_all_is_taken::<Pair>();
            }

            #[test]
            fn reports_messages_sent_before_adding() {
                crate::reports::reports_messages_sent_before_adding::<Pair>();
            }

            #[test]
            fn reports_room() {
                crate::reports::reports_room::<Pair>();
            }

            #[test]
            fn reports_ends() {
                crate::reports::reports_ends::<Pair>();
            }

            #[test]
            fn removed_members_are_no_longer_reported() {
                crate::reports::removed_members_are_no_longer_reported::<Pair>();
            }

            #[test]
            fn use_beside_the_set_loses_no_wake_up() {
                crate::reports::use_beside_the_set_loses_no_wake_up::<Pair>();
            }

            #[test]
            fn echoes_asleep_and_awake() {
                crate::reports::echoes_asleep_and_awake::<Pair>();
            }

            #[test]
            fn a_flood_does_not_starve() {
                crate::turns::a_flood_does_not_starve::<Pair>();
            }

            #[test]
            fn all_have_the_same_share() {
                crate::turns::all_have_the_same_share::<Pair>();
            }

            #[test]
            fn idle_channels_are_not_polled() {
                crate::scale::idle_channels_are_not_polled::<Pair>();
            }

            #[test]
            fn outer_poll_sees_every_event() {
                crate::scale::outer_poll_sees_every_event::<Pair>();
            }
        })*
    };
}

each_kind! { shm: Shm, window: Window, stream: Stream }

//! Every ready member has its turn.

use std::collections::HashMap;
use std::time::Duration;

use tombolo_platform::event::{self, Interest};
use tombolo_platform::time::now_ns;
use tombolo_transport::Transport;
use tombolo_transport::waitset::{Ready, Schedule, Trigger};

use crate::pairs::{ChannelPair, finds_nothing, next, next_channel, recv, set_with_channels, spins};

/// Number of waits within which every ready member is reported, besides three that are always ready.
const SOON: usize = 64;

pub(crate) fn a_flood_does_not_starve<K: ChannelPair>() {
    for spin in spins() {
        let (mut set, tokens, mut far) = set_with_channels::<K>(4);
        set.set_spin(spin);
        assert!(finds_nothing(&mut set));
        // One channel never runs dry, one descriptor is never read, one timer is always due.
        far[0].try_send(b"flood").unwrap();
        let counter = event::eventfd().unwrap();
        event::signal(&counter).unwrap();
        let descriptor = set.add_descriptor(counter, Interest::Read, Trigger::Level).unwrap();
        let timer = set.add_timer(Schedule::every(Duration::from_nanos(1), now_ns())).unwrap();
        for round in 0..20 {
            let victim = 1 + round % 3;
            far[victim].try_send(b"please").unwrap();
            let mut reports: HashMap<String, usize> = HashMap::new();
            for _ in 0..SOON {
                let name = match next(&mut set) {
                    Ready::Channel(token) if token == tokens[0] => "flood",
                    Ready::Channel(token) => {
                        assert_eq!(token, tokens[victim]);
                        recv(&mut set, token).unwrap().unwrap();
                        "victim"
                    }
                    Ready::Descriptor(token, _) => {
                        assert_eq!(token, descriptor);
                        "descriptor"
                    }
                    Ready::Timer(token, _) => {
                        assert_eq!(token, timer);
                        "timer"
                    }
                    other @ (Ready::Woken | Ready::External(_)) => panic!("nobody said {other:?}"),
                };
                *reports.entry(name.into()).or_default() += 1;
            }
            assert_eq!(reports.get("victim"), Some(&1), "{reports:?}");
            assert!(reports.len() == 4, "somebody starved: {reports:?}");
        }
    }
}

pub(crate) fn all_have_the_same_share<K: ChannelPair>() {
    let (mut set, tokens, mut far) = set_with_channels::<K>(7);
    far.iter_mut().for_each(|channel| channel.try_send(b"flood").unwrap());
    // On every transport within a kernel a sent message is there at once.
    let mut reports: HashMap<_, u32> = HashMap::new();
    for _ in 0..700 {
        *reports.entry(next_channel(&mut set)).or_default() += 1;
    }
    for token in tokens {
        assert!((95..=105).contains(&reports[&token]), "{reports:?}");
    }
}

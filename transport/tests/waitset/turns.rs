//! Every ready member has its turn.

use std::collections::HashMap;
use std::time::Duration;

use tombolo_platform::event::{self, Interest};
use tombolo_platform::time::now_ns;
use tombolo_transport::Transport;
use tombolo_transport::waitset::{Ready, Schedule, Trigger};

use crate::pairs::{ChannelPair, next, next_channel, nothing, recv, set_of, spins};

/// Number of waits within which every ready member is reported, besides three that are always ready.
const SOON: usize = 64;

pub(crate) fn a_flood_does_not_starve<K: ChannelPair>() {
    for spin in spins() {
        let (mut set, tokens, mut far) = set_of::<K>(4);
        set.set_spin(spin);
        assert!(nothing(&mut set));
        // One channel never runs dry, one descriptor is never read, one timer is always due.
        far[0].try_send(b"flood").unwrap();
        let counter = event::eventfd().unwrap();
        event::signal(&counter).unwrap();
        let descriptor = set.add_descriptor(counter, Interest::Read, Trigger::Level).unwrap();
        let timer = set.add_timer(Schedule::every(Duration::from_nanos(1), now_ns())).unwrap();
        for round in 0..20 {
            let victim = 1 + round % 3;
            far[victim].try_send(b"please").unwrap();
            let mut told: HashMap<String, usize> = HashMap::new();
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
                    other @ (Ready::Woken | Ready::Outside(_)) => panic!("nobody said {other:?}"),
                };
                *told.entry(name.into()).or_default() += 1;
            }
            assert_eq!(told.get("victim"), Some(&1), "{told:?}");
            assert!(told.len() == 4, "somebody starved: {told:?}");
        }
    }
}

pub(crate) fn all_have_the_same_share<K: ChannelPair>() {
    let (mut set, tokens, mut far) = set_of::<K>(7);
    far.iter_mut().for_each(|channel| channel.try_send(b"flood").unwrap());
    // On every transport within a kernel a sent message is there at once.
    let mut told: HashMap<_, u32> = HashMap::new();
    for _ in 0..700 {
        *told.entry(next_channel(&mut set)).or_default() += 1;
    }
    for token in tokens {
        assert!((95..=105).contains(&told[&token]), "{told:?}");
    }
}

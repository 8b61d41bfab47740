use core::num::NonZeroU16;

use proptest::prelude::*;
use tombolo_base::coherence::{Caches, Evictions};
use tombolo_base::sync::Ordering;
use tombolo_base::{CacheMaintenance, Isa, NodeId, SharedMemory};

use super::*;

const MS: u64 = 1_000_000;
const SILENCE_NS: u64 = 1_000 * MS;
/// Large enough for the rendezvous; an interpreter takes seconds to clear a long window.
const WINDOW_BYTES: usize = if cfg!(miri) { 1 << 12 } else { 1 << 16 };

struct Key(u64);

impl Secret for Key {
    fn proof(&self, role: Role, session: Nonce, attempt: Nonce, signed: &[u64]) -> [u64; 4] {
        let mut sum = self.0 ^ session.get().rotate_left(7) ^ attempt.get().rotate_left(23) ^ role as u64;
        signed.iter().for_each(|word| sum = (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3));
        [sum, !sum, sum.rotate_left(11), sum ^ 5]
    }
}

fn nonce(number: u64) -> Nonce {
    Nonce::new(number).unwrap()
}

fn terms() -> Terms {
    Terms {
        release: 7,
        length_bytes: 1 << 20,
        bells: 4,
        kind: BellKind::Poll,
        caches: None,
        isa: Isa::Aarch64,
    }
}

fn open<C: CacheMaintenance>(window: &SharedMemory<C>, session: u64) -> Host {
    Host::open(window, terms(), (NodeId(3), "card0", "lab"), nonce(session), SILENCE_NS)
}

fn joiner<C: CacheMaintenance>(window: &SharedMemory<C>, attempt: u64) -> Joiner {
    Joiner::new(window, Terms { bells: 0, ..terms() }, None, nonce(attempt), (42, 8192), SILENCE_NS)
}

/// Lets the joiner see that the root is alive, request its turn and get it, and polls the joiner.
fn step(window: &SharedMemory, host: &mut Host, joiner: &mut Joiner, now: u64, key: u64) -> JoinEvent {
    joiner.poll(window, now, &Key(key));
    host.write_heartbeat(window);
    let event = joiner.poll(window, now, &Key(key));
    if event != JoinEvent::Waiting(Waiting::ForAnswer) {
        return event;
    }
    assert_eq!(host.poll(window, now, &Key(1)), HostEvent::Nothing, "it grants");
    joiner.poll(window, now, &Key(key))
}

fn join(window: &SharedMemory, host: &mut Host, joiner: &mut Joiner, now: u64) -> (Bells, Accepted) {
    assert_eq!(step(window, host, joiner, now, 1), JoinEvent::Waiting(Waiting::ForAnswer));
    let HostEvent::Claimed(claim) = host.poll(window, now, &Key(1)) else { panic!("no claim") };
    assert_eq!((claim.kernel, claim.base_bytes), (42, 8192));
    let bells = host.accept(window, claim, NonZeroU16::new(9).unwrap(), now, &Key(1));
    let JoinEvent::Joined(accepted) = joiner.poll(window, now, &Key(1)) else { panic!("not joined") };
    (bells, accepted)
}

#[test]
fn two_sides_join_and_ring_each_other() {
    let window = SharedMemory::zeroed(WINDOW_BYTES);
    let mut first = joiner(&window, 11);
    assert_eq!(first.poll(&window, 0, &Key(1)), JoinEvent::Waiting(Waiting::ForRoot));
    let mut host = open(&window, 5);
    assert_eq!(first.poll(&window, 0, &Key(1)), JoinEvent::Waiting(Waiting::ForRoot), "no beat yet");
    let (mut of_host, accepted) = join(&window, &mut host, &mut first, 0);
    assert_eq!((accepted.node, accepted.generation.get(), accepted.bells), (NodeId(3), 9, 4));
    assert_eq!((accepted.name.as_str(), accepted.machine.as_str()), ("card0", "lab"));
    let mut of_joiner = first.bells(&window, &accepted);
    let polled = |bells: &mut Bells| {
        let mut polled = std::vec::Vec::new();
        bells.poll(&window, |bell| polled.push(bell));
        polled
    };
    assert!(polled(&mut of_host).is_empty());
    of_joiner.ring(&window, 0);
    of_joiner.ring(&window, 3);
    of_joiner.ring(&window, 3);
    of_joiner.ring(&window, 4);
    assert_eq!(polled(&mut of_host), [0, 3]);
    assert!(polled(&mut of_host).is_empty());
    of_host.ring(&window, 1);
    assert_eq!(polled(&mut of_joiner), [1]);
}

#[test]
fn every_difference_is_found_on_both_sides() {
    type Change = fn(&mut Terms);
    type IsExpected = fn(&RendezvousError) -> bool;
    let cases: [(Change, IsExpected); 5] = [
        (|terms| terms.release = 8, |error| matches!(error, RendezvousError::Release { .. })),
        (|terms| terms.isa = Isa::S390x, |error| matches!(error, RendezvousError::Isa { .. })),
        (|terms| terms.length_bytes /= 2, |error| matches!(error, RendezvousError::Length { .. })),
        (
            |terms| terms.caches = Some(Caches::Processor),
            |error| std::format!("{error}").contains("about coherence ("),
        ),
        (
            |terms| terms.caches = Some(Caches::Emulated(Evictions { seed: 3, one_in: None })),
            |error| std::format!("{error}").contains("cache_seed 3 and evict_one_in 0"),
        ),
    ];
    for (change, is_it) in cases.into_iter().step_by(if cfg!(miri) { 4 } else { 1 }) {
        let window = SharedMemory::zeroed(WINDOW_BYTES);
        let mut host = open(&window, 5);
        let mut other = terms();
        change(&mut other);
        let mut joiner = Joiner::new(&window, other, None, nonce(11), (1, 0), SILENCE_NS);
        let JoinEvent::Failed(error) = step(&window, &mut host, &mut joiner, 0, 1) else { panic!() };
        assert!(is_it(&error), "{error}");
        let HostEvent::Refused(error) = host.poll(&window, 0, &Key(1)) else { panic!() };
        assert!(is_it(&error), "{error}");
        assert_eq!(host.poll(&window, 0, &Key(1)), HostEvent::Nothing, "it is reported once");
        join(&window, &mut host, &mut self::joiner(&window, 12), 0);
    }
}

#[test]
fn a_wrong_key_is_refused_on_both_sides() {
    let window = SharedMemory::zeroed(WINDOW_BYTES);
    let mut host = open(&window, 5);
    let mut wrong_key = joiner(&window, 11);
    assert_eq!(step(&window, &mut host, &mut wrong_key, 0, 2), JoinEvent::Waiting(Waiting::ForAnswer));
    assert_eq!(host.poll(&window, 0, &Key(1)), HostEvent::Refused(RendezvousError::Key));
    assert_eq!(wrong_key.poll(&window, 0, &Key(2)), JoinEvent::Failed(RendezvousError::Key));
    join(&window, &mut host, &mut joiner(&window, 12), 0);
}

#[test]
fn byte_order_and_version_mismatches_are_reported() {
    for (word, value, is_it) in [
        (64, u64::from_be_bytes(*b"TMBLHOST"), "swaps bytes"),
        (65, 0x0807_0605_0403_0201, "swaps bytes"),
        (66, 99, "version 99"),
        (64, 77, "not a window"),
    ] {
        let window = SharedMemory::zeroed(WINDOW_BYTES);
        let mut host = open(&window, 5);
        window.store_le(word, value, Ordering::Relaxed);
        let JoinEvent::Failed(error) = step(&window, &mut host, &mut joiner(&window, 11), 0, 1) else {
            panic!()
        };
        assert!(std::format!("{error}").contains(is_it), "{error}");
    }
    let window = SharedMemory::zeroed(WINDOW_BYTES);
    let mut host = open(&window, 5);
    window.store_le(128, u64::from_be_bytes(*b"TMBLJOIN"), Ordering::Relaxed);
    window.store_le(140, 3, Ordering::Relaxed);
    let HostEvent::Refused(error) = host.poll(&window, 0, &Key(1)) else { panic!() };
    assert!(matches!(error, RendezvousError::ByteOrder { .. }), "{error}");
}

#[test]
fn joiner_does_not_claim_an_unwanted_node() {
    let window = SharedMemory::zeroed(WINDOW_BYTES);
    let mut host = open(&window, 5);
    let wanted = Some(Name::new("card1"));
    let mut joiner = Joiner::new(&window, terms(), wanted, nonce(11), (1, 0), SILENCE_NS);
    let JoinEvent::Failed(error) = step(&window, &mut host, &mut joiner, 0, 1) else { panic!() };
    assert_eq!(std::format!("{error}"), "the window belongs to node 'card0', not to 'card1'");
    assert_eq!(host.poll(&window, 0, &Key(1)), HostEvent::Nothing);
}

#[test]
fn second_joiner_fails_if_the_first_lives_else_waits() {
    let window = SharedMemory::zeroed(WINDOW_BYTES);
    let mut host = open(&window, 5);
    let mut first = joiner(&window, 11);
    join(&window, &mut host, &mut first, 0);
    let mut second = joiner(&window, 12);
    let waits = JoinEvent::Waiting(Waiting::ForPredecessor);
    assert_eq!(step(&window, &mut host, &mut second, 0, 1), waits);
    first.write_heartbeat(&window);
    assert_eq!(step(&window, &mut host, &mut second, 0, 1), JoinEvent::Failed(RendezvousError::Taken));
    // The first one dies; a third one waits until the root has detected that.
    let mut third = joiner(&window, 13);
    host.poll(&window, MS, &Key(1));
    assert_eq!(step(&window, &mut host, &mut third, 2 * MS, 1), waits);
    let late = SILENCE_NS + 3 * MS;
    let HostEvent::Lost(Loss::Silent { for_ns }) = host.poll(&window, late, &Key(1)) else { panic!() };
    assert!(for_ns > SILENCE_NS);
    let mut host = open(&window, 6);
    join(&window, &mut host, &mut third, late);
    // The first joiner resumes and detects that it was replaced.
    assert_eq!(first.poll(&window, late, &Key(1)), JoinEvent::Lost(Loss::Replaced));
}

#[test]
fn one_of_two_simultaneous_joiners_gets_the_node() {
    let window = SharedMemory::zeroed(WINDOW_BYTES);
    let mut host = open(&window, 5);
    let (mut a, mut b) = (joiner(&window, 11), joiner(&window, 12));
    for joiner in [&mut a, &mut b] {
        joiner.poll(&window, 0, &Key(1));
    }
    host.write_heartbeat(&window);
    let waits = JoinEvent::Waiting(Waiting::ForAnswer);
    assert_eq!(a.poll(&window, 0, &Key(1)), waits);
    assert_eq!(b.poll(&window, 0, &Key(1)), waits);
    assert_eq!(host.poll(&window, 0, &Key(1)), HostEvent::Nothing);
    assert_eq!((a.poll(&window, 0, &Key(1)), b.poll(&window, 0, &Key(1))), (waits.clone(), waits));
    let HostEvent::Claimed(claim) = host.poll(&window, 0, &Key(1)) else { panic!() };
    host.accept(&window, claim, NonZeroU16::MIN, 0, &Key(1));
    assert_eq!(a.poll(&window, 0, &Key(1)), JoinEvent::Failed(RendezvousError::Taken));
    assert!(matches!(b.poll(&window, 0, &Key(1)), JoinEvent::Joined(_)));
}

#[test]
fn joiner_that_dies_with_a_grant_delays_the_next_by_a_second() {
    let window = SharedMemory::zeroed(WINDOW_BYTES);
    let mut host = open(&window, 5);
    let mut dead = joiner(&window, 11);
    dead.poll(&window, 0, &Key(1));
    host.write_heartbeat(&window);
    dead.poll(&window, 0, &Key(1));
    host.poll(&window, 0, &Key(1));
    let mut next = joiner(&window, 12);
    next.poll(&window, MS, &Key(1));
    host.write_heartbeat(&window);
    for now in [2 * MS, 999 * MS] {
        next.poll(&window, now, &Key(1));
        assert_eq!(host.poll(&window, now, &Key(1)), HostEvent::Nothing);
        host.write_heartbeat(&window);
    }
    let now = 1_001 * MS;
    host.poll(&window, now, &Key(1));
    next.poll(&window, now, &Key(1));
    assert!(matches!(host.poll(&window, now, &Key(1)), HostEvent::Claimed(_)));
}

#[test]
fn a_request_of_an_earlier_session_is_not_granted() {
    let window = SharedMemory::zeroed(WINDOW_BYTES);
    let mut host = open(&window, 5);
    let mut first = joiner(&window, 11);
    join(&window, &mut host, &mut first, 0);
    let mut host = open(&window, 6);
    host.poll(&window, 0, &Key(1));
    assert_eq!(window.load_le(70, Ordering::Relaxed), 0);
    join(&window, &mut host, &mut joiner(&window, 12), 0);
}

/// A joiner is stopped during its claim until its grant expires, and resumes during or after the claim of the
/// next. For every interleaving of stores the next joiner gets the node, and none is refused.
#[test]
fn interleaved_stores_of_two_joiners_refuse_neither() {
    let stores = |joiner: &Joiner| joiner.claim_stores(nonce(5), 0, &Key(1)).collect::<std::vec::Vec<_>>();
    let window = SharedMemory::zeroed(4096);
    let all = stores(&joiner(&window, 11)).len();
    let every = if cfg!(miri) { 40 } else { 1 };
    for stopped in (0..=all).step_by(every) {
        for cut in (0..=all).step_by(every) {
            let window = SharedMemory::zeroed(4096);
            let mut host = open(&window, 5);
            let (mut late, mut next) = (joiner(&window, 11), joiner(&window, 12));
            let late_stores = stores(&late);
            let write = |stores: &[(usize, u64)]| {
                stores.iter().for_each(|(word, value)| window.store_le(*word, *value, Ordering::Release));
            };
            late.poll(&window, 0, &Key(1));
            next.poll(&window, 0, &Key(1));
            host.write_heartbeat(&window);
            late.poll(&window, 0, &Key(1));
            host.poll(&window, 0, &Key(1));
            assert_eq!(window.load_le(70, Ordering::Relaxed), 11);
            write(&late_stores[..stopped]);
            next.poll(&window, MS, &Key(1));
            // The grant of the late joiner expires.
            let now = 1_001 * MS;
            host.write_heartbeat(&window);
            host.poll(&window, now, &Key(1));
            assert_eq!(window.load_le(70, Ordering::Relaxed), 12);
            let next_stores = stores(&next);
            write(&next_stores[..cut]);
            write(&late_stores[stopped..]);
            assert!(!matches!(host.poll(&window, now, &Key(1)), HostEvent::Refused(_)), "{stopped} {cut}");
            write(&next_stores[cut..]);
            let mut event = host.poll(&window, now, &Key(1));
            if event == HostEvent::Nothing {
                // It detects that it is not answered, and rewrites its claim.
                next.poll(&window, now, &Key(1));
                event = host.poll(&window, now, &Key(1));
            }
            let HostEvent::Claimed(claim) = event else { panic!("{stopped} {cut}: {event:?}") };
            host.accept(&window, claim, NonZeroU16::MIN, now, &Key(1));
            assert!(matches!(next.poll(&window, now, &Key(1)), JoinEvent::Joined(_)), "{stopped} {cut}");
            assert_eq!(late.poll(&window, now, &Key(1)), JoinEvent::Failed(RendezvousError::Taken));
        }
    }
}

#[test]
fn permanently_torn_claim_is_refused() {
    let window = SharedMemory::zeroed(WINDOW_BYTES);
    let mut host = open(&window, 5);
    let mut a = joiner(&window, 11);
    step(&window, &mut host, &mut a, 0, 1);
    let mut signed = std::vec::Vec::new();
    let tick_ms = if cfg!(miri) { 1_000 } else { 100 };
    for now in (0..40).map(|tick| tick * tick_ms * MS) {
        window.store_le(134, 7, Ordering::Relaxed);
        host.write_heartbeat(&window);
        match host.poll(&window, now, &Key(1)) {
            HostEvent::Nothing => {}
            event => signed.push((now / MS, event)),
        }
        if !signed.is_empty() {
            break;
        }
        a.poll(&window, now, &Key(1));
    }
    assert_eq!(signed, [(3000, HostEvent::Refused(RendezvousError::Torn))]);
    assert_eq!(a.poll(&window, 3000 * MS, &Key(1)), JoinEvent::Failed(RendezvousError::Torn));
}

#[test]
fn overwritten_claim_is_rewritten() {
    let window = SharedMemory::zeroed(WINDOW_BYTES);
    let mut host = open(&window, 5);
    let mut a = joiner(&window, 11);
    step(&window, &mut host, &mut a, 0, 1);
    window.store_le(140, 0, Ordering::Relaxed);
    assert_eq!(host.poll(&window, 0, &Key(1)), HostEvent::Nothing);
    let now = 110 * MS;
    host.write_heartbeat(&window);
    a.poll(&window, now, &Key(1));
    assert!(matches!(host.poll(&window, now, &Key(1)), HostEvent::Claimed(_)));
}

/// Each side has a cache of its own, and sees only stores that the other side wrote back.
#[test]
fn two_sides_join_in_incoherent_memory() {
    let rates: &[u32] = if cfg!(miri) { &[4] } else { &[0, 1, 4] };
    for &one_in in rates {
        let caches = Evictions { seed: 9, one_in: core::num::NonZeroU32::new(one_in) };
        let memory = SharedMemory::zeroed(4096);
        let [of_host, of_joiner] = [(); 2].map(|()| Caches::Emulated(caches).view(memory.clone()).unwrap());
        let mut host = open(&of_host, 5);
        let mut joiner = joiner(&of_joiner, 11);
        joiner.poll(&of_joiner, 0, &Key(1));
        host.write_heartbeat(&of_host);
        for _ in 0..2 {
            let waits = JoinEvent::Waiting(Waiting::ForAnswer);
            assert_eq!(joiner.poll(&of_joiner, 0, &Key(1)), waits);
            if let HostEvent::Claimed(claim) = host.poll(&of_host, 0, &Key(1)) {
                host.accept(&of_host, claim, NonZeroU16::MIN, 0, &Key(1));
            }
        }
        let JoinEvent::Joined(accepted) = joiner.poll(&of_joiner, 0, &Key(1)) else { panic!("not joined") };
        let mut bells = (Bells::new(&of_host, Role::Host, 4), joiner.bells(&of_joiner, &accepted));
        bells.1.ring(&of_joiner, 3);
        let mut polled = 0;
        assert!(bells.0.poll(&of_host, |bell| polled = bell));
        assert_eq!(polled, 3);
        joiner.leave(&of_joiner);
        assert_eq!(host.poll(&of_host, 0, &Key(1)), HostEvent::Lost(Loss::Left));
    }
}

#[test]
fn both_sides_detect_loss_of_the_other() {
    let window = SharedMemory::zeroed(WINDOW_BYTES);
    let mut host = open(&window, 5);
    let mut first = joiner(&window, 11);
    join(&window, &mut host, &mut first, 0);
    assert_eq!(host.poll(&window, SILENCE_NS, &Key(1)), HostEvent::Nothing);
    assert_eq!(first.poll(&window, SILENCE_NS, &Key(1)), JoinEvent::Nothing);
    let silent = first.poll(&window, SILENCE_NS + 1, &Key(1));
    assert_eq!(silent, JoinEvent::Lost(Loss::Silent { for_ns: SILENCE_NS + 1 }));
    first.leave(&window);
    assert_eq!(host.poll(&window, SILENCE_NS, &Key(1)), HostEvent::Lost(Loss::Left));
    host.close(&window);
    assert_eq!(first.poll(&window, 0, &Key(1)), JoinEvent::Lost(Loss::Left));
    let mut next = joiner(&window, 12);
    host.write_heartbeat(&window);
    assert_eq!(next.poll(&window, 0, &Key(1)), JoinEvent::Waiting(Waiting::ForRoot));
}

#[test]
fn offer_of_a_dead_root_is_not_claimed() {
    let window = SharedMemory::zeroed(WINDOW_BYTES);
    let _host = open(&window, 5);
    let mut joiner = joiner(&window, 11);
    for now in [0, MS, SILENCE_NS, 10 * SILENCE_NS] {
        assert_eq!(joiner.poll(&window, now, &Key(1)), JoinEvent::Waiting(Waiting::ForRoot));
    }
}

#[test]
fn a_window_that_loses_stores_is_refused_on_both_sides_unless_forced() {
    for lost_words in [[330, 374], [460, 503]] {
        let window = SharedMemory::zeroed(WINDOW_BYTES);
        let mut host = open(&window, 5);
        let lose = || lost_words.map(|word| window.store_le(word, 0, Ordering::Relaxed));
        let unsound = RendezvousError::Unsound { lost: 2 };
        lose();
        let mut refused = joiner(&window, 11);
        let claimed = step(&window, &mut host, &mut refused, 0, 1);
        lose();
        assert_eq!(host.poll(&window, 0, &Key(1)), HostEvent::Refused(unsound));
        let of_root = lost_words[0] < 400;
        let signed = if of_root { claimed } else { refused.poll(&window, 0, &Key(1)) };
        assert_eq!(signed, JoinEvent::Failed(unsound));
        assert_eq!(host.poll(&window, 0, &Key(1)), HostEvent::Nothing, "it is answered once");

        let mut forced = joiner(&window, 12).forced(true);
        assert_eq!(step(&window, &mut host, &mut forced, 0, 1), JoinEvent::Waiting(Waiting::ForAnswer));
        lose();
        let HostEvent::Claimed(claim) = host.poll(&window, 0, &Key(1)) else { panic!("no claim") };
        host.accept(&window, claim, NonZeroU16::new(1).unwrap(), 0, &Key(1));
        assert!(matches!(forced.poll(&window, 0, &Key(1)), JoinEvent::Joined(_)));
    }
}

#[test]
fn the_first_page_is_golden() {
    let window = SharedMemory::zeroed(4096);
    let mut host = open(&window, 0x1122);
    step(&window, &mut host, &mut joiner(&window, 0x3344), 0, 1);
    let word = |index: usize| window.load_le(index, Ordering::Relaxed);
    let offer = [64, 65, 66, 67, 68, 69, 72].map(word);
    let magic = u64::from_le_bytes(*b"TMBLHOST");
    assert_eq!(
        offer,
        [magic, 0x0102_0304_0506_0708, 0x7_0000_0003, 1 << 20, 0x1122, 0x0002_0101_0004_0003, 0]
    );
    assert_eq!(word(80), u64::from_le_bytes(*b"card0\0\0\0"));
    assert_eq!(word(84), u64::from_le_bytes(*b"lab\0\0\0\0\0"));
    let claim = [128, 129, 130, 131, 132, 133, 134, 135, 140].map(word);
    let magic = u64::from_le_bytes(*b"TMBLJOIN");
    let order = 0x0102_0304_0506_0708;
    assert_eq!(
        claim,
        [magic, order, 0x7_0000_0003, 1 << 20, 0x1122, 0x0002_0101_0000_0000, 42, 8192, 0x3344]
    );
    assert_eq!([70, 71, 75, 141, 142, 144].map(word), [0x3344, 0, 0, 0, 0, 0x3344 ^ 0x1122]);
    // FNV-1a of the attempt, the words of the claim in their order, and the proof.
    let sealed: std::vec::Vec<u8> =
        [140, 128, 129, 130, 131, 132, 133, 134, 135, 141, 142, 136, 137, 138, 139]
            .into_iter()
            .flat_map(|index| word(index).to_le_bytes())
            .collect();
    assert_eq!(word(143), tombolo_base::hash::fnv1a(&sealed));
    assert_eq!([256, 257, 258, 259].map(word), [1, 0, 1, 0x1122]);
    let trial = |nonce: u64, index: u64| (nonce + index + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    assert_eq!([328, 375].map(word), [trial(0x1122, 0), trial(0x1122, 47)]);
    assert_eq!([456, 503].map(word), [trial(0x3344, 0), trial(0x3344, 47)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Two joiners and the root take turns in any order, and time jumps: one joiner gets the node, and the
    /// other is notified.
    #[test]
    fn one_of_two_joiners_gets_the_node(
        turns in proptest::collection::vec((0_u8..3, prop_oneof![8 => Just(5_u64), 1 => Just(150), 1 => Just(1_100)]), 0..60),
    ) {
        let window = SharedMemory::zeroed(WINDOW_BYTES);
        let mut host = open(&window, 5);
        let mut joiners = [joiner(&window, 11), joiner(&window, 12)];
        let mut ended = [const { None }; 2];
        let (mut now, mut is_accepted) = (0, false);
        let rest = (0..40).map(|turn| (turn % 3, 5));
        for (turn, ms) in turns.into_iter().chain(rest) {
            now += ms * MS;
            host.write_heartbeat(&window);
            match turn {
                2 => match host.poll(&window, now, &Key(1)) {
                    HostEvent::Claimed(claim) => {
                        host.accept(&window, claim, NonZeroU16::MIN, now, &Key(1));
                        is_accepted = true;
                    }
                    HostEvent::Nothing => {}
                    // Time jumps beyond its silence limit.
                    HostEvent::Lost(_) if is_accepted => break,
                    event => prop_assert!(false, "{event:?}"),
                },
                joiner_index => {
                    let joiner_index = usize::from(joiner_index);
                    if let Some(JoinEvent::Joined(_)) = ended[joiner_index] {
                        joiners[joiner_index].write_heartbeat(&window);
                    } else if ended[joiner_index].is_none() {
                        match joiners[joiner_index].poll(&window, now, &Key(1)) {
                            JoinEvent::Waiting(_) => {}
                            event => ended[joiner_index] = Some(event),
                        }
                    }
                }
            }
        }
        let joined = ended.iter().filter(|end| matches!(end, Some(JoinEvent::Joined(_)))).count();
        let taken = ended.iter().filter(|end| **end == Some(JoinEvent::Failed(RendezvousError::Taken))).count();
        prop_assert!(joined <= 1, "{ended:?}");
        if is_accepted && ended.iter().all(Option::is_some) {
            prop_assert_eq!((joined, taken), (1, 1), "{:?}", ended);
        }
    }

    /// For any content of the page, both sides only fail or wait, and only a proof admits a joiner.
    #[test]
    fn random_stores_do_not_complete_a_join(words in proptest::collection::vec((64_usize..512, any::<u64>()), 0..60)) {
        let window = SharedMemory::zeroed(WINDOW_BYTES);
        let mut host = open(&window, 5);
        let mut joiner = joiner(&window, 11);
        joiner.poll(&window, 0, &Key(2));
        for (now, (word, value)) in words.into_iter().enumerate() {
            window.store_le(word, value, Ordering::Relaxed);
            host.write_heartbeat(&window);
            let event = host.poll(&window, now as u64, &Key(1));
            prop_assert!(!matches!(event, HostEvent::Claimed(_)), "{event:?}");
            let event = joiner.poll(&window, now as u64, &Key(2));
            prop_assert!(!matches!(event, JoinEvent::Joined(_)), "{event:?}");
        }
    }
}

//! Tests over non-coherent memory: each rank works through its own emulated cache.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use tombolo_base::coherence::{EmulatedCache, Evictions, Flushed};
use tombolo_base::{Random, SharedMemory};

use super::*;

/// Eviction rates: a line is evicted in one of this many operations.
const RATES: [Option<u32>; 4] = [None, Some(64), Some(4), Some(2)];

/// Small buffers, so that messages take many pieces.
const LAYOUT: Layout = Layout { ranks: 5, buffer_bytes: 512, shared_bytes: 256 };

fn engines(rate: Option<u32>, seed: u64) -> Vec<Engine<Flushed, Vec<u8>>> {
    let memory = SharedMemory::zeroed(LAYOUT.total_bytes());
    let engine = |rank| {
        let evictions = Evictions { seed: seed + rank as u64, one_in: rate.and_then(NonZeroU32::new) };
        Engine::new(EmulatedCache::view(memory.clone(), evictions), LAYOUT, rank).unwrap()
    };
    (0..LAYOUT.ranks).map(engine).collect()
}

fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..length).map(|_| random.word() as u8).collect()
}

/// Time after which a waiting call counts as stuck.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Runs one thread for each rank.
fn on_threads(rate: Option<u32>, body: impl Fn(&mut Engine<Flushed, Vec<u8>>, Idle<'_>) + Sync) {
    let engines = engines(rate, 7);
    std::thread::scope(|scope| {
        for mut engine in engines {
            let body = &body;
            scope.spawn(move || {
                let start = Instant::now();
                let mut idle = || {
                    // On a busy host a yield loses the processor for longer than a sleep.
                    std::thread::sleep(Duration::from_micros(20));
                    if start.elapsed() < TIMEOUT { Ok(()) } else { Err("stuck") }
                };
                body(&mut engine, &mut idle);
            });
        }
    });
}

type Idle<'a> = &'a mut dyn FnMut() -> Result<(), &'static str>;

fn world(rank: usize) -> Group {
    Group { members: (0..LAYOUT.ranks).collect(), own: rank }
}

/// Lengths around the protocol's limits: in the flag, in one piece, in two, in many.
const LENGTHS: [usize; 8] = [0, 1, INLINE_BYTES, INLINE_BYTES + 1, 256, 257, 512, 2001];

#[test]
fn messages_of_all_lengths_arrive_in_random_steps() {
    for rate in RATES {
        for seed in 0..6 {
            let mut ranks = engines(rate, seed);
            let mut random = Random::new(seed);
            let mut sends = Vec::new();
            let mut receives = Vec::new();
            for from in 0..LAYOUT.ranks {
                for to in 0..LAYOUT.ranks {
                    for (index, length) in LENGTHS.into_iter().enumerate() {
                        let message = content(seed + (from * 100 + to * 10 + index) as u64, length);
                        sends.push((from, ranks[from].start_send(to, message.clone())));
                        let accepted = if index % 2 == 0 {
                            AcceptedLength::Exactly(length)
                        } else {
                            AcceptedLength::UpTo(4000)
                        };
                        let room = vec![0; if index % 2 == 0 { length } else { 4000 }];
                        let request = ranks[to].start_receive(Some(from), accepted, room);
                        receives.push((to, request, ReceivedMessage { source: from, length }));
                    }
                }
            }
            let mut steps = 0;
            while ranks.iter().any(|rank| rank.pending() != (0, 0)) {
                ranks[random.index(LAYOUT.ranks)].push();
                steps += 1;
                assert!(steps < 50_000, "stuck: one in {rate:?}, seed {seed}");
            }
            for (to, request, arrived) in receives {
                assert_eq!(ranks[to].progress(request), Progress::Complete(Some(Ok(arrived))));
            }
            for (from, request) in sends {
                assert_eq!(ranks[from].progress(request), Progress::Complete(None));
            }
        }
    }
}

#[test]
fn contents_arrive_at_every_rate_of_evictions() {
    for rate in RATES {
        on_threads(rate, |engine, idle| {
            let (own, ranks) = (engine.rank(), LAYOUT.ranks);
            for (index, length) in LENGTHS.into_iter().enumerate() {
                let seed = |rank: usize| (rank * 10 + index) as u64;
                let mut received = vec![0; length];
                let (next, before) = ((own + 1) % ranks, (own + ranks - 1) % ranks);
                // Even ranks send first, except the last one of an odd number of ranks.
                if own % 2 == 0 && own + 1 < ranks {
                    engine.send(next, &content(seed(own), length), idle).unwrap();
                }
                let accepted = AcceptedLength::Exactly(length);
                let arrived = engine.receive(Some(before), accepted, &mut received, idle).unwrap();
                assert_eq!(arrived, Ok(ReceivedMessage { source: before, length }));
                if own % 2 == 1 || own + 1 == ranks {
                    engine.send(next, &content(seed(own), length), idle).unwrap();
                }
                assert_eq!(received, content(seed(before), length));
            }
        });
    }
}

#[test]
fn collectives_agree_on_every_rank_at_every_rate_of_evictions() {
    for rate in RATES {
        on_threads(rate, |engine, idle| {
            let (own, group) = (engine.rank(), world(engine.rank()));
            for round in 0..6 {
                engine.barrier(&group, idle).unwrap();
                let root = round % LAYOUT.ranks;
                let original = content(round as u64, LENGTHS[round % 8] + round);
                let mut bytes = if own == root { original.clone() } else { vec![0; original.len()] };
                engine.broadcast(&group, root, &mut bytes, idle).unwrap();
                assert_eq!(bytes, original);
                let input: Vec<u8> = (0..100_i32).flat_map(|i| (i * own as i32).to_ne_bytes()).collect();
                let mut output = vec![0xee; input.len()];
                let sum = (Element::Int, Operation::Sum);
                let to = (round % 2 == 0).then_some(root);
                engine.reduce(&group, to, sum, &input, &mut output, idle).unwrap();
                let sums: Vec<u8> = (0..100_i32).flat_map(|i| (i * 10).to_ne_bytes()).collect();
                let has_result = to.is_none_or(|root| root == own);
                assert_eq!(output, if has_result { sums } else { vec![0xee; input.len()] });
            }
        });
    }
}

#[test]
fn groups_are_independent_without_own_flags() {
    on_threads(Some(4), |engine, idle| {
        let own = engine.rank();
        // Even ranks in reverse order, and odd ones.
        let mut members: Vec<usize> = (0..LAYOUT.ranks).filter(|rank| rank % 2 == own % 2).collect();
        if own % 2 == 0 {
            members.reverse();
        }
        let place = members.iter().position(|rank| *rank == own).unwrap();
        let part = Group { members, own: place };
        for round in 0..20_u8 {
            engine.barrier(&part, idle).unwrap();
            let mut bytes = if place == 0 { vec![round; 3] } else { vec![0; 3] };
            engine.broadcast(&part, 0, &mut bytes, idle).unwrap();
            assert_eq!(bytes, [round; 3]);
            engine.barrier(&world(own), idle).unwrap();
        }
    });
}

#[test]
fn broadcast_is_independent_of_pending_messages() {
    on_threads(None, |engine, idle| {
        let own = engine.rank();
        let late = (own == 0).then(|| engine.start_send(1, content(3, 2000)));
        let mut bytes = if own == 0 { content(4, 2000) } else { vec![0; 2000] };
        engine.broadcast(&world(own), 0, &mut bytes, idle).unwrap();
        assert_eq!(bytes, content(4, 2000));
        if own == 1 {
            engine.receive(Some(0), AcceptedLength::Exactly(2000), &mut bytes, idle).unwrap().unwrap();
            assert_eq!(bytes, content(3, 2000));
        }
        engine.barrier(&world(own), idle).unwrap();
        assert!(late.is_none_or(|request| engine.progress(request) == Progress::Complete(None)));
    });
}

#[test]
fn unequal_allocations_are_found_at_the_next_barrier() {
    let found = std::sync::Mutex::new(Vec::new());
    on_threads(None, |engine, _| {
        engine.heap.allocate(64).unwrap();
        if engine.rank() == 2 {
            engine.heap.allocate(64).unwrap();
        }
        // Ranks that find no error would wait for those that do.
        let start = Instant::now();
        let mut idle = || {
            std::thread::sleep(Duration::from_micros(20));
            let is_over = !found.lock().unwrap().is_empty() || start.elapsed() > TIMEOUT;
            if is_over { Err("over") } else { Ok(()) }
        };
        let result = engine.barrier(&world(engine.rank()), &mut idle);
        if let Err(CollectiveError::Unequal { own, other, others }) = result {
            found.lock().unwrap().push((engine.rank(), own, other, others));
        }
    });
    let found = found.into_inner().unwrap();
    assert!(!found.is_empty());
    for (rank, own, other, others) in found {
        assert!((rank, own) == (2, 2) && others == 1 || (other, others) == (2, 2) && own == 1, "{rank}");
    }
}

#[test]
fn wrong_length_is_an_error_and_the_next_message_arrives() {
    for (sent, accepted) in [(10, 11), (2000, 10), (10, 2000), (0, 1)] {
        let mut ranks = engines(None, 1);
        ranks[0].start_send(1, content(1, sent));
        ranks[0].start_send(1, content(2, 5));
        let first = ranks[1].start_receive(Some(0), AcceptedLength::Exactly(accepted), vec![0; accepted]);
        let second = ranks[1].start_receive(Some(0), AcceptedLength::Exactly(5), vec![0; 5]);
        for _ in 0..50 {
            ranks.iter_mut().for_each(Engine::push);
        }
        let error = WrongLength {
            source_rank: 0,
            sent_bytes: sent as u64,
            accepted: AcceptedLength::Exactly(accepted),
        };
        assert_eq!(ranks[1].progress(first), Progress::Complete(Some(Err(error))));
        let arrived = ReceivedMessage { source: 0, length: 5 };
        assert_eq!(ranks[1].progress(second), Progress::Complete(Some(Ok(arrived))));
    }
}

#[test]
fn wildcard_receive_is_not_overtaken_by_later_ones() {
    let mut ranks = engines(None, 1);
    let any = ranks[0].start_receive(None, AcceptedLength::UpTo(100), vec![0; 100]);
    let specific = ranks[0].start_receive(Some(3), AcceptedLength::Exactly(3), vec![0; 3]);
    assert_eq!(ranks[0].probe(None), None);
    ranks[3].start_send(0, vec![1; 3]);
    let first = Progress::Complete(Some(Ok(ReceivedMessage { source: 3, length: 3 })));
    assert_eq!(ranks[0].progress(any), first);
    assert_eq!(ranks[0].progress(specific), Progress::Pending);
    // A rank that keeps sending does not starve the others.
    let requests: Vec<u64> =
        (0..2).map(|_| ranks[0].start_receive(None, AcceptedLength::UpTo(9), vec![0; 9])).collect();
    ranks[3].push();
    ranks[3].start_send(0, vec![2; 3]);
    ranks[2].start_send(0, vec![3; 9]);
    assert_eq!(ranks[0].progress(specific), first);
    assert_eq!(
        ranks[0].progress(requests[0]),
        Progress::Complete(Some(Ok(ReceivedMessage { source: 2, length: 9 })))
    );
    assert_eq!(ranks[0].progress(requests[1]), Progress::Pending);
}

#[test]
fn requests_can_be_withdrawn_before_they_start() {
    let mut ranks = engines(None, 1);
    let first = ranks[0].start_send(1, content(1, 2000));
    let staged = ranks[0].start_send(2, content(2, 2000));
    let behind = ranks[0].start_send(1, content(3, 1));
    assert_eq!(ranks[0].progress(staged), Progress::Queued);
    assert!(!ranks[0].cancel(first));
    assert!(ranks[0].cancel(behind) && ranks[0].cancel(staged) && !ranks[0].cancel(staged));
    let receive = ranks[2].start_receive(Some(0), AcceptedLength::Exactly(1), vec![0; 1]);
    assert!(ranks[2].cancel(receive));
    assert_eq!(ranks[2].pending(), (0, 0));
    let progress = ranks[1].start_receive(Some(0), AcceptedLength::Exactly(2000), vec![0; 2000]);
    assert!(!ranks[1].cancel(progress));
}

#[test]
fn flags_are_lines_of_the_buffer() {
    let ranks = engines(None, 1);
    let [at_writer, at_owner] = [0, 4].map(|rank| ranks[rank as usize].flag(64, 4).unwrap());
    at_writer.write(1, &[]);
    assert_eq!((at_owner.read(), ranks[4].flag(64, 3).unwrap().read()), (1, 0));
    assert!(ranks[0].flag(512, 4).is_err() && ranks[0].flag(32, 4).is_err());
}

/// Arbitrary writes by a hostile or faulty rank: calls only return or wait.
#[test]
fn arbitrary_memory_contents_cause_no_panic() {
    for seed in 0..200 {
        let memory = SharedMemory::zeroed(LAYOUT.total_bytes());
        let mut random = Random::new(seed);
        let mut rank = Engine::<_, Vec<u8>>::new(memory.clone(), LAYOUT, 1).unwrap();
        let mut polls = 0;
        let mut idle = || {
            polls += 1;
            if polls % 50 == 0 { Err("given up") } else { Ok(()) }
        };
        for _ in 0..20 {
            for _ in 0..200 {
                let word = random.index(memory.words().len());
                // Often small, as counts and lengths are.
                let bits = random.index(64);
                memory.store_le(word, random.word() >> bits, tombolo_base::sync::Ordering::Relaxed);
            }
            let (peer, length) = (random.index(LAYOUT.ranks), random.index(1500));
            match random.index(6) {
                0 => drop(rank.start_send(peer, content(seed, length))),
                1 => drop(rank.start_receive(None, AcceptedLength::UpTo(2000), vec![0; 2000])),
                2 => drop(rank.start_receive(Some(peer), AcceptedLength::Exactly(length), vec![0; length])),
                3 => drop(rank.barrier(&world(1), &mut idle)),
                4 => drop(rank.broadcast(&world(1), peer, &mut vec![0; length], &mut idle)),
                _ => drop(rank.send(peer, &content(seed, length), &mut idle)),
            }
            rank.push();
            let _ = rank.probe(None);
        }
    }
}

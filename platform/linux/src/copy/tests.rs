//! Compares every loop with the simplest model of a copy: two arrays of bytes.

use super::*;

/// Length of the memory, including a margin that reveals stray accesses.
const ROOM: usize = 4096;
const MARK: u8 = 0xA5;

fn memory() -> SharedMemory {
    let memory = SharedMemory::zeroed(ROOM);
    fill(&memory, 0, ROOM, MARK).unwrap();
    memory
}

fn content(memory: &SharedMemory) -> Vec<u8> {
    let mut bytes = vec![0; memory.len_bytes()];
    memory.copy_out(0, &mut bytes).unwrap();
    bytes
}

/// Returns bytes that differ from their neighbours.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

/// Returns lengths around every boundary of a loop.
fn lengths() -> Vec<usize> {
    let mut lengths: Vec<usize> = (0..=160).collect();
    for boundary in [192, 256, 320, 512, 1024, 2048] {
        lengths.extend(boundary - 2..=boundary + 2);
    }
    lengths
}

/// Tests all three copies by one loop, between these offsets.
fn all_three(copy_loop: CopyLoop, from: usize, to: usize, length: usize) {
    let case = format!("{copy_loop}, {length} bytes from {from} to {to}");
    let bytes = pattern(from + length);
    let mut expected = vec![MARK; ROOM];
    expected[to..to + length].copy_from_slice(&bytes[from..]);

    let written = memory();
    write(copy_loop, &written, to, &bytes[from..]).unwrap();
    assert!(content(&written) == expected, "write: {case}");

    let source = memory();
    source.copy_in(0, &bytes).unwrap();
    let target = memory();
    between(copy_loop, (&source, from), (&target, to), length).unwrap();
    assert!(content(&target) == expected, "between: {case}");

    let mut private = vec![MARK; ROOM];
    read(copy_loop, &source, from, &mut private[to..to + length]).unwrap();
    assert!(private == expected, "read: {case}");
}

#[test]
fn every_length_is_copied_at_every_alignment() {
    for copy_loop in CopyLoop::available() {
        for length in lengths() {
            // All offsets within a vector for a few lengths, and a few offsets for all lengths.
            let all = matches!(length, 0..=9 | 63..=66 | 128..=130 | 1023);
            let offsets: &[usize] = if all { &[0, 1, 3, 7, 8, 9, 33] } else { &[0, 1, 8] };
            for from in offsets {
                for to in offsets {
                    all_three(*copy_loop, *from, *to, length);
                }
            }
        }
    }
}

#[test]
fn a_fill_writes_its_range_and_nothing_else() {
    for length in lengths() {
        for to in [0, 1, 3, 7, 8, 9, 16, 33, 63] {
            let filled = memory();
            fill(&filled, to, length, 0x3C).unwrap();
            let mut expected = vec![MARK; ROOM];
            expected[to..to + length].fill(0x3C);
            assert!(content(&filled) == expected, "{length} bytes at {to}");
        }
    }
}

#[test]
fn long_copies_are_complete() {
    const LENGTH: usize = (1 << 19) + 5;
    let bytes = pattern(LENGTH);
    for copy_loop in CopyLoop::available() {
        let (source, target) = (SharedMemory::zeroed(LENGTH + 16), SharedMemory::zeroed(LENGTH + 16));
        write(*copy_loop, &source, 3, &bytes).unwrap();
        between(*copy_loop, (&source, 3), (&target, 11), LENGTH).unwrap();
        let mut back = vec![0; LENGTH];
        read(*copy_loop, &target, 11, &mut back).unwrap();
        assert!(back == bytes, "{copy_loop}");
    }
}

#[test]
fn the_last_byte_is_inside_and_the_next_is_not() {
    let (source, target) = (memory(), memory());
    for copy_loop in CopyLoop::available() {
        for (offset, length) in [(ROOM - 1, 1), (ROOM, 0), (0, ROOM), (1, ROOM - 1)] {
            write(*copy_loop, &target, offset, &pattern(length)).unwrap();
            read(*copy_loop, &target, offset, &mut vec![0; length]).unwrap();
            between(*copy_loop, (&source, offset), (&target, offset), length).unwrap();
            fill(&target, offset, length, 0).unwrap();
        }
        let before = content(&target);
        for (offset, length) in [(ROOM, 1), (ROOM - 1, 2), (0, ROOM + 1), (usize::MAX, 1), (1, usize::MAX)] {
            let refused =
                CopyError::OutOfRange { offset_bytes: offset, length_bytes: length, available_bytes: ROOM };
            assert_eq!(fill(&target, offset, length, 1), Err(refused));
            if length <= ROOM {
                assert_eq!(between(*copy_loop, (&source, 0), (&target, offset), length), Err(refused));
            }
            assert_eq!(between(*copy_loop, (&source, offset), (&target, 0), length), Err(refused));
            if length <= ROOM + 1 {
                assert_eq!(write(*copy_loop, &target, offset, &vec![1; length]), Err(refused));
                let mut kept = vec![7; length];
                assert_eq!(read(*copy_loop, &source, offset, &mut kept), Err(refused));
                assert!(kept.iter().all(|byte| *byte == 7));
            }
        }
        assert!(content(&target) == before, "{copy_loop}: a refused copy wrote");
    }
}

#[test]
fn ranges_that_overlap_are_refused_and_neighbours_are_not() {
    let whole = memory();
    for (from, to, length, overlap) in [
        (0, 64, 64, false),
        (64, 0, 64, false),
        (0, 63, 64, true),
        (63, 0, 64, true),
        (0, 0, 1, true),
        (8, 8, 0, false),
    ] {
        let copied = between(CopyLoop::Best, (&whole, from), (&whole, to), length);
        assert_eq!(
            copied == Err(CopyError::Overlap { length_bytes: length }),
            overlap,
            "{from} {to} {length}"
        );
    }
}

#[test]
fn concurrent_writes_change_only_copied_bytes() {
    const LENGTH: usize = 64 * 1024;
    let (source, target) = (SharedMemory::zeroed(LENGTH), SharedMemory::zeroed(LENGTH + 64));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut byte = 1_u8;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                fill(&source, 0, LENGTH, byte).unwrap();
                byte = byte % 100 + 1;
            }
        });
        for _ in 0..20 {
            for copy_loop in CopyLoop::available() {
                between(*copy_loop, (&source, 0), (&target, 32), LENGTH).unwrap();
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let bytes = content(&target);
    assert!(bytes[..32].iter().chain(&bytes[32 + LENGTH..]).all(|byte| *byte == 0));
    assert!(bytes[32..32 + LENGTH].iter().all(|byte| *byte <= 100));
}

proptest::proptest! {
    #[test]
    fn random_copies_match_a_model(
        steps in proptest::collection::vec((0..5_usize, 0..700_usize, 0..700_usize, 0..600_usize), 1..24)
    ) {
        const LENGTH: usize = 1024;
        let memories = [SharedMemory::zeroed(LENGTH), SharedMemory::zeroed(LENGTH)];
        let mut models = [vec![0_u8; LENGTH], vec![0_u8; LENGTH]];
        for (number, (kind, from, to, length)) in steps.into_iter().enumerate() {
            let copy_loop = CopyLoop::available()[number % CopyLoop::available().len()];
            let (one, other) = (number % 2, 1 - number % 2);
            let inside = |offset: usize| offset + length <= LENGTH;
            match kind {
                0 => {
                    let done = fill(&memories[one], to, length, number as u8);
                    proptest::prop_assert_eq!(done.is_ok(), inside(to));
                    if inside(to) {
                        models[one][to..to + length].fill(number as u8);
                    }
                }
                1 => {
                    let bytes = pattern(length);
                    let done = write(copy_loop, &memories[one], to, &bytes);
                    proptest::prop_assert_eq!(done.is_ok(), inside(to));
                    if inside(to) {
                        models[one][to..to + length].copy_from_slice(&bytes);
                    }
                }
                2 => {
                    let mut bytes = vec![0; length];
                    if read(copy_loop, &memories[one], from, &mut bytes).is_ok() {
                        proptest::prop_assert_eq!(&bytes[..], &models[one][from..from + length]);
                    }
                }
                3 => {
                    let done = between(copy_loop, (&memories[one], from), (&memories[other], to), length);
                    proptest::prop_assert_eq!(done.is_ok(), inside(from) && inside(to));
                    if done.is_ok() {
                        let bytes = models[one][from..from + length].to_vec();
                        models[other][to..to + length].copy_from_slice(&bytes);
                    }
                }
                _ => {
                    let apart = length == 0 || from.abs_diff(to) >= length;
                    let done = between(copy_loop, (&memories[one], from), (&memories[one], to), length);
                    proptest::prop_assert_eq!(done.is_ok(), inside(from) && inside(to) && apart);
                    if done.is_ok() {
                        models[one].copy_within(from..from + length, to);
                    }
                }
            }
            for (memory, model) in memories.iter().zip(&models) {
                proptest::prop_assert_eq!(&content(memory), model);
            }
        }
    }
}

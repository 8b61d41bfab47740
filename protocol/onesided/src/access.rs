//! Put and get operations.

use core::ops::Range;

use tombolo_base::coherence::CACHE_LINE_BYTES;
use tombolo_base::memory::{copy_from_words, copy_to_words};
use tombolo_base::sync::Ordering;
use tombolo_base::{CacheMaintenance, OutOfRange, SharedMemory};

/// Number of words in a cache line.
const LINE_WORDS: usize = CACHE_LINE_BYTES / 8;

/// Copies `source` into `memory` at `offset_bytes`, a multiple of eight, and writes it back: a side that is
/// notified by a flag afterwards can get it.
///
/// If the length is not a multiple of eight, the rest of the last word becomes zero. Other bytes of the first
/// and last line are kept, provided that no other side writes them concurrently.
///
/// # Errors
/// [`OutOfRange`]; nothing was written.
pub fn put<C: CacheMaintenance>(
    memory: &SharedMemory<C>,
    offset_bytes: usize,
    source: &[u8],
) -> Result<(), OutOfRange> {
    let part = memory.slice(offset_bytes, source.len().next_multiple_of(8))?;
    let all = 0..part.len_bytes() / 8;
    // Lines are written back whole. This side may hold old copies from before another side wrote them, and a
    // store of an unchanged value would not make the line dirty.
    part.invalidate(all.clone());
    for words in pieces::<C>(all.clone()) {
        let bytes = &source[words.start * 8..source.len().min(words.end * 8)];
        let words = &part.words()[words];
        copy_to_words(words, bytes);
        part.caches().between_stores(words);
    }
    part.write_back(all);
    Ok(())
}

/// Copies bytes from `memory` at `offset_bytes`, a multiple of eight, into `target`, as other sides last
/// wrote them back.
///
/// # Errors
/// [`OutOfRange`]; `target` is unchanged.
pub fn get<C: CacheMaintenance>(
    memory: &SharedMemory<C>,
    offset_bytes: usize,
    target: &mut [u8],
) -> Result<(), OutOfRange> {
    let part = memory.slice(offset_bytes, target.len().next_multiple_of(8))?;
    part.invalidate(0..part.len_bytes() / 8);
    copy_from_words(part.words(), target);
    Ok(())
}

/// Copies `length_bytes`, a multiple of eight, within `memory`, line by line from the first to the last: a
/// get followed by a put, without a buffer of that length.
///
/// # Errors
/// [`OutOfRange`]; nothing was written.
pub fn copy<C: CacheMaintenance>(
    memory: &SharedMemory<C>,
    from_bytes: usize,
    to_bytes: usize,
    length_bytes: usize,
) -> Result<(), OutOfRange> {
    let from = memory.slice(from_bytes, length_bytes)?;
    let to = memory.slice(to_bytes, length_bytes)?;
    let all = 0..length_bytes / 8;
    from.invalidate(all.clone());
    to.invalidate(all.clone());
    for words in pieces::<C>(all.clone()) {
        for index in words.clone() {
            let word = from.words()[index].load(Ordering::Relaxed);
            to.words()[index].store(word, Ordering::Relaxed);
        }
        to.caches().between_stores(&to.words()[words]);
    }
    to.write_back(all);
    Ok(())
}

/// Returns the pieces in which `words` are stored: all at once in coherent memory, otherwise line by line,
/// because a cache may evict in between.
fn pieces<C: CacheMaintenance>(words: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let step = if C::COHERENT { words.len().max(1) } else { LINE_WORDS };
    let end = words.end;
    words.step_by(step).map(move |start| start..end.min(start + step))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use tombolo_base::coherence::{EmulatedCache, Evictions};

    const NEVER: Evictions = Evictions { seed: 1, one_in: None };

    #[test]
    fn bytes_of_any_length_arrive() {
        let memory = SharedMemory::zeroed(512);
        let [writer, reader] = [(); 2].map(|()| EmulatedCache::view(memory.clone(), NEVER));
        for length in [0, 1, 7, 8, 63, 64, 65, 200] {
            let source: Vec<u8> = (0..length).map(|byte| byte as u8 ^ 0x5a).collect();
            put(&writer, 24, &source).unwrap();
            let mut target = vec![0; source.len()];
            get(&reader, 24, &mut target).unwrap();
            assert_eq!(source, target);
        }
    }

    #[test]
    fn alternating_writers_of_a_line_keep_both_stores() {
        let memory = SharedMemory::zeroed(64);
        let [a, b] = [(); 2].map(|()| EmulatedCache::view(memory.clone(), NEVER));
        put(&a, 0, &[1; 32]).unwrap();
        put(&b, 32, &[2; 32]).unwrap();
        put(&a, 8, &[3; 8]).unwrap();
        let mut line = [0; 64];
        get(&b, 0, &mut line).unwrap();
        assert_eq!((line[0], line[8], line[16], line[63]), (1, 3, 1, 2));
    }

    #[test]
    fn put_of_unchanged_data_overwrites_another_writer() {
        let memory = SharedMemory::zeroed(64);
        let [a, b] = [(); 2].map(|()| EmulatedCache::view(memory.clone(), NEVER));
        put(&a, 0, &[1; 64]).unwrap();
        put(&b, 0, &[2; 64]).unwrap();
        put(&a, 0, &[1; 64]).unwrap();
        let mut line = [0; 64];
        get(&b, 0, &mut line).unwrap();
        assert_eq!(line, [1; 64]);
    }

    #[test]
    fn a_copy_moves_bytes_between_places() {
        let memory = SharedMemory::zeroed(1024);
        let [a, b] = [(); 2].map(|()| EmulatedCache::view(memory.clone(), NEVER));
        let source: Vec<u8> = (0..200).collect();
        put(&a, 0, &source).unwrap();
        copy(&b, 0, 512, 200).unwrap();
        let mut target = [0; 200];
        get(&a, 512, &mut target).unwrap();
        assert_eq!(source, target);
    }

    #[test]
    fn ranges_outside_are_refused_and_change_nothing() {
        let memory = SharedMemory::zeroed(64);
        assert!(put(&memory, 64, &[1]).is_err());
        assert!(put(&memory, 4, &[1; 4]).is_err());
        assert!(get(&memory, 8, &mut [0; 64]).is_err());
        assert!(copy(&memory, 0, 32, 40).is_err());
        let mut bytes = [9; 64];
        get(&memory, 0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 64]);
    }
}

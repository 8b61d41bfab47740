//! Latency and bandwidth of memory: pointer chasing, and long reads, writes and copies.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tombolo::Domain;
use tombolo::region::{RegionOptions, Rights};
use tombolo_base::{LINE_BYTES, SharedMemory};
use tombolo_platform::copy::{self, CopyLoop};
use tombolo_platform::memory;

use super::{median_ns, print_figure};
use crate::{Error, cpus};

/// Length of the chain that fits in the L1 cache, as in the thesis.
const SMALL_BYTES: usize = 8 << 10;

/// Number of accesses timed as one, as in the thesis.
const ACCESSES: usize = 1000;

/// Length of the private memory that long reads and writes copy to and from: it stays in a cache.
const PIECE_BYTES: usize = 64 << 10;

const LINE_WORDS: usize = LINE_BYTES / 8;

/// Order of the lines in a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pattern {
    /// The next line in memory.
    Sequential,
    /// A random cycle through all lines.
    Random,
}

/// Measures the node's own memory and the given windows, by chains of up to `bytes`.
pub(super) fn run(bytes: u64, slice: Duration, windows: &[&str]) -> Result<(), Error> {
    // Pins the thread: a migration distorts the figures more than a busy processor.
    if let Some(cpu) = cpus::allowed().ok().and_then(|cpus| cpus.last().copied()) {
        let _ = cpus::pin(cpu);
    }
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).max(SMALL_BYTES);
    let file = memory::create_sealed("bench-memory", bytes as u64)?;
    let own = memory::map(&file, 0, bytes)?;
    measure("own", &own, slice)?;
    drop(own);
    if windows.is_empty() {
        return Ok(());
    }
    let domain = Domain::attach()?;
    for window in windows {
        let region = largest(&domain, window, bytes)?;
        let mapping = region.map(Rights::READ_WRITE)?;
        let memory = mapping.memory().ok_or_else(|| Error::of_figures("map a window without its memory"))?;
        measure(&format!("window-{window}"), &memory, slice)?;
    }
    Ok(())
}

/// Creates the largest region of at most `bytes` for which the window has room.
fn largest(domain: &Domain, window: &str, bytes: usize) -> Result<tombolo::region::Region, Error> {
    let mut bytes = bytes;
    loop {
        match domain.create_region(&RegionOptions::new(bytes as u64).in_window_of(window)) {
            Err(tombolo::Error::Monitor(_)) if bytes > 4 * SMALL_BYTES => bytes = bytes / 8 * 7 / 4096 * 4096,
            region => return Ok(region?),
        }
    }
}

/// Measures all figures of a memory.
fn measure(name: &str, memory: &SharedMemory, slice: Duration) -> Result<(), Error> {
    let bytes = memory.len_bytes();
    print_figure(&format!("{name}.bytes"), bytes as f64);
    for (what, length, pattern) in [
        ("small", SMALL_BYTES, Pattern::Random),
        ("random", bytes, Pattern::Random),
        ("sequential", bytes, Pattern::Sequential),
    ] {
        let part = memory.slice(0, length.min(bytes)).map_err(Error::of_figures)?;
        link(part.words(), pattern);
        let mut at = 0;
        // Follows a small chain once to load it into the cache.
        at = follow(part.words(), at, SMALL_BYTES / LINE_BYTES);
        let time_ns = median_ns(slice, || {
            at = follow(part.words(), at, ACCESSES);
            Ok::<(), Error>(())
        })?;
        black_box(at);
        print_figure(&format!("{name}.{what}_ns"), time_ns / ACCESSES as f64);
    }
    let piece_bytes = PIECE_BYTES.min(bytes);
    let mut piece = vec![1; piece_bytes];
    let offsets = || (0..bytes / piece_bytes).map(|index| index * piece_bytes);
    let rate = |time_ns: f64| (bytes / piece_bytes * piece_bytes) as f64 / time_ns * 1e9;
    let read_ns = median_ns(slice, || {
        offsets().try_for_each(|offset| copy::read(CopyLoop::Best, memory, offset, &mut piece))
    });
    print_figure(&format!("{name}.read_bytes_per_s"), rate(read_ns.map_err(Error::of_figures)?));
    let write_ns = median_ns(slice, || {
        offsets().try_for_each(|offset| copy::write(CopyLoop::Best, memory, offset, &piece))
    });
    print_figure(&format!("{name}.write_bytes_per_s"), rate(write_ns.map_err(Error::of_figures)?));
    Ok(())
}

/// Stores in the first word of each line the index of the word to load next.
fn link(words: &[AtomicU64], pattern: Pattern) {
    let lines = words.len() / LINE_WORDS;
    let mut order: Vec<u32> = (0..u32::try_from(lines).unwrap_or(u32::MAX)).collect();
    if pattern == Pattern::Random {
        // Sattolo's algorithm: a single cycle through all lines.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for index in (1..order.len()).rev() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            order.swap(index, (state % index as u64) as usize);
        }
        for (line, next) in order.iter().enumerate() {
            words[line * LINE_WORDS].store(u64::from(*next) * LINE_WORDS as u64, Ordering::Relaxed);
        }
    } else {
        for line in 0..lines {
            let next = (line + 1) % lines * LINE_WORDS;
            words[line * LINE_WORDS].store(next as u64, Ordering::Relaxed);
        }
    }
}

/// Follows a chain of dependent loads. An index out of range, which another program may have written,
/// continues at line 0.
fn follow(words: &[AtomicU64], mut at: usize, steps: usize) -> usize {
    for _ in 0..steps {
        at = words.get(at).map_or(0, |word| word.load(Ordering::Relaxed)) as usize;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_visits_every_line_once() {
        for pattern in [Pattern::Sequential, Pattern::Random] {
            let memory = SharedMemory::zeroed(64 * LINE_BYTES);
            link(memory.words(), pattern);
            let mut seen = [false; 64];
            let mut at = 0;
            for _ in 0..64 {
                assert!(!std::mem::replace(&mut seen[at / LINE_WORDS], true), "{pattern:?}");
                at = follow(memory.words(), at, 1);
            }
            assert_eq!(at, 0, "{pattern:?}: one cycle");
        }
    }

    #[test]
    fn out_of_range_links_restart_the_chain() {
        let memory = SharedMemory::zeroed(2 * LINE_BYTES);
        memory.words()[0].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(follow(memory.words(), 0, 2), 0);
    }

    #[test]
    fn every_figure_is_printed() {
        let memory = SharedMemory::zeroed(64 << 10);
        assert!(measure("own", &memory, Duration::ZERO).is_ok());
    }
}

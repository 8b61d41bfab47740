//! A barrier of flags, each with one writer.

use tombolo_base::coherence::CACHE_LINE_BYTES;
use tombolo_base::{CacheMaintenance, Coherent, OutOfRange, SharedMemory, Steps};
use tombolo_onesided::{FlagReader, FlagWriter};

/// Error of creating a barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BarrierError {
    /// More workers than the barrier was compiled for, or none.
    #[error("a barrier of {workers} workers: it may have 1 to {most}")]
    Workers {
        /// The requested number of workers.
        workers: usize,
        /// The maximum number of workers.
        most: usize,
    },
    /// A worker's number is not below the number of workers.
    #[error("worker {worker} of {workers}: workers are counted from 0")]
    Worker {
        /// The number of the worker.
        worker: usize,
        /// The number of workers.
        workers: usize,
    },
    /// The memory is too short.
    #[error("the memory of a barrier: {0}")]
    Memory(#[from] OutOfRange),
}

/// One worker's part of a barrier of at most `MAX_WORKERS` workers.
///
/// Each worker raises its own flag and polls those of the others, so the barrier needs no atomic operations
/// between unlike processors and works on non-coherent memory. Each poll is bounded; the duration of the
/// barrier depends on the workers alone. The caller bounds it with a deadline, after which
/// [`missing`](Self::missing) names the late workers.
#[derive(Debug)]
pub struct Barrier<const MAX_WORKERS: usize, C: CacheMaintenance = Coherent> {
    own: FlagWriter<C>,
    others: [Option<FlagReader<C>>; MAX_WORKERS],
}

impl<const MAX_WORKERS: usize, C: CacheMaintenance> Barrier<MAX_WORKERS, C> {
    /// Accesses of [`arrive`](Self::arrive) to shared memory.
    pub const ARRIVE_BOUND: Steps = FlagWriter::<C>::RAISE_BOUND;
    /// Maximum number of accesses of [`is_complete`](Self::is_complete).
    pub const POLL_BOUND: Steps = FlagReader::<C>::READ_BOUND.times(MAX_WORKERS as u64 - 1);

    /// Returns the length of the memory for `workers`, in bytes.
    #[must_use]
    pub const fn length_bytes(workers: usize) -> usize {
        workers * CACHE_LINE_BYTES
    }

    /// Creates the part of `worker`. `memory` must be zeroed before any worker arrives, and have at least
    /// [`length_bytes`](Self::length_bytes) bytes.
    ///
    /// # Errors
    /// [`BarrierError`].
    pub fn new(memory: &SharedMemory<C>, worker: usize, workers: usize) -> Result<Self, BarrierError> {
        if workers == 0 || workers > MAX_WORKERS {
            return Err(BarrierError::Workers { workers, most: MAX_WORKERS });
        }
        if worker >= workers {
            return Err(BarrierError::Worker { worker, workers });
        }
        let mut others = [const { None }; MAX_WORKERS];
        for (other, place) in others.iter_mut().enumerate().take(workers) {
            if other != worker {
                *place = Some(FlagReader::new(memory, other * CACHE_LINE_BYTES)?);
            }
        }
        Ok(Barrier { own: FlagWriter::new(memory, worker * CACHE_LINE_BYTES)?, others })
    }

    /// Signals that this worker has finished its part of the step. Its earlier stores are visible to workers
    /// that leave the barrier. Call it once per step, after the barrier of the previous step is complete.
    pub fn arrive(&mut self) {
        self.own.raise();
    }

    /// Returns whether all workers have arrived as often as this one.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let step = self.own.raised();
        self.others.iter().flatten().all(|other| other.latest() >= step)
    }

    /// Returns the workers that have not arrived.
    pub fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        let step = self.own.raised();
        let others = self.others.iter().enumerate();
        others.filter_map(move |(worker, other)| {
            other.as_ref().is_some_and(|other| other.latest() < step).then_some(worker)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::num::NonZeroU32;

    use super::*;
    use tombolo_base::coherence::{EmulatedCache, Evictions, Flushed};
    use tombolo_base::sync::Ordering::Relaxed;

    type Three = Barrier<4>;

    fn three() -> [Three; 3] {
        let memory = SharedMemory::zeroed(Three::length_bytes(3));
        [0, 1, 2].map(|worker| Three::new(&memory, worker, 3).unwrap())
    }

    #[test]
    fn barrier_opens_when_last_worker_arrives() {
        let mut workers = three();
        for step in 0..5 {
            let order = [step % 3, (step + 1) % 3, (step + 2) % 3];
            for worker in order {
                workers[worker].arrive();
                let last = worker == order[2];
                assert_eq!(workers[worker].is_complete(), last);
            }
            assert!(workers.iter().all(Three::is_complete));
        }
    }

    #[test]
    fn missing_workers_are_named() {
        let mut workers = three();
        workers[1].arrive();
        assert_eq!(workers[1].missing().collect::<Vec<_>>(), [0, 2]);
        workers[2].arrive();
        assert_eq!(workers[1].missing().collect::<Vec<_>>(), [0]);
        workers[0].arrive();
        // A worker that is a step ahead has arrived.
        workers[0].arrive();
        assert_eq!(workers[1].missing().count(), 0);
        assert!(workers[1].is_complete() && !workers[0].is_complete());
    }

    #[test]
    fn invalid_barriers_are_refused() {
        let memory = SharedMemory::zeroed(Three::length_bytes(2));
        let refused = |worker, workers| Three::new(&memory, worker, workers).unwrap_err();
        assert_eq!(refused(0, 0), BarrierError::Workers { workers: 0, most: 4 });
        assert_eq!(refused(0, 5), BarrierError::Workers { workers: 5, most: 4 });
        assert_eq!(refused(2, 2), BarrierError::Worker { worker: 2, workers: 2 });
        assert!(matches!(refused(0, 3), BarrierError::Memory(_)));
    }

    /// Stores of a worker before it arrived are visible to all that leave, even through non-coherent caches.
    #[test]
    fn results_of_a_step_are_visible_after_it() {
        let memory = SharedMemory::zeroed(4096);
        for (seed, one_in) in [(1, 0), (2, 2), (3, 16)].map(|(seed, one_in)| (seed, NonZeroU32::new(one_in)))
        {
            memory.clear();
            let views: Vec<_> = (0..3)
                .map(|view| EmulatedCache::view(memory.clone(), Evictions { seed: seed + view, one_in }))
                .collect();
            let mut workers: Vec<Barrier<4, Flushed>> = views
                .iter()
                .enumerate()
                .map(|(worker, view)| Barrier::new(view, worker, 3).unwrap())
                .collect();
            for step in 1..50_u64 {
                for (worker, view) in views.iter().enumerate() {
                    let place = (8 + worker) * CACHE_LINE_BYTES;
                    tombolo_onesided::put(view, place, &(step * 10 + worker as u64).to_le_bytes()).unwrap();
                    workers[worker].arrive();
                }
                for (worker, view) in views.iter().enumerate() {
                    assert!(workers[worker].is_complete());
                    for other in 0..3 {
                        let mut value = [0; 8];
                        tombolo_onesided::get(view, (8 + other) * CACHE_LINE_BYTES, &mut value).unwrap();
                        assert_eq!(u64::from_le_bytes(value), step * 10 + other as u64);
                    }
                }
            }
        }
    }

    #[test]
    fn wrong_step_of_a_peer_affects_only_the_wait() {
        let memory = SharedMemory::zeroed(Three::length_bytes(2));
        let mut barrier = Three::new(&memory, 0, 2).unwrap();
        barrier.arrive();
        memory.store_le(15, u64::MAX, Relaxed);
        assert!(barrier.is_complete());
        memory.store_le(15, 0, Relaxed);
        assert!(!barrier.is_complete());
    }
}

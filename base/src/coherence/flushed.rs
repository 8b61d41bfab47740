//! Memory whose caches are kept consistent by instructions, real or emulated.

use alloc::sync::Arc;

use super::emulated::EmulatedCache;
use super::{CacheInstructions, Coherence};
use crate::memory::SharedMemory;
use crate::sync::AtomicU64;

/// Memory that is not coherent.
#[derive(Clone, Debug)]
pub struct Flushed {
    by: Means,
}

#[derive(Clone, Debug)]
enum Means {
    Instructions(CacheInstructions),
    Emulated(Arc<EmulatedCache>),
}

impl Flushed {
    /// `memory`, kept consistent by this processor's cache instructions.
    #[must_use]
    pub fn by_instructions(memory: SharedMemory, instructions: CacheInstructions) -> SharedMemory<Self> {
        memory.with_coherence(Flushed { by: Means::Instructions(instructions) })
    }

    /// The view of a memory through an emulated cache of its own.
    pub(super) fn emulated(lines: SharedMemory, cache: Arc<EmulatedCache>) -> SharedMemory<Self> {
        lines.with_coherence(Flushed { by: Means::Emulated(cache) })
    }

    /// The emulated cache, for its counters; `None` where the processor's own caches are at work.
    #[must_use]
    pub fn cache(&self) -> Option<&EmulatedCache> {
        match &self.by {
            Means::Instructions(_) => None,
            Means::Emulated(cache) => Some(cache),
        }
    }
}

impl Coherence for Flushed {
    const COHERENT: bool = false;

    fn write_back(&self, words: &[AtomicU64]) {
        match &self.by {
            Means::Instructions(instructions) => instructions.write_back(words),
            Means::Emulated(cache) => cache.write_back(words),
        }
    }

    fn invalidate(&self, words: &[AtomicU64]) {
        match &self.by {
            Means::Instructions(instructions) => instructions.invalidate(words),
            Means::Emulated(cache) => cache.invalidate(words),
        }
    }

    fn between_stores(&self, words: &[AtomicU64]) {
        if let Means::Emulated(cache) = &self.by {
            cache.touch(words);
        }
    }
}

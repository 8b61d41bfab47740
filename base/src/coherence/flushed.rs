//! Memory whose caches are kept consistent by cache instructions, real or emulated.

use alloc::sync::Arc;

use super::emulated::EmulatedCache;
use super::{CacheInstructions, CacheMaintenance, Caches};
use crate::memory::SharedMemory;
use crate::sync::AtomicU64;

/// Error for processors without user-mode instructions that write back and invalidate cache lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "this processor has no cache instructions for programs, which memory that is not coherent needs; \
     use x86-64 or aarch64, or a window with coherence = \"coherent\""
)]
pub struct NoCacheInstructions;

impl Caches {
    /// Returns one side's view of `memory`.
    ///
    /// # Errors
    /// [`NoCacheInstructions`] with [`Caches::Processor`] if programs cannot execute cache instructions.
    pub fn view(self, memory: SharedMemory) -> Result<SharedMemory<Flushed>, NoCacheInstructions> {
        match self {
            Caches::Emulated(evictions) => Ok(EmulatedCache::view(memory, evictions)),
            Caches::Processor => {
                let instructions = CacheInstructions::detect().ok_or(NoCacheInstructions)?;
                // Lines may be left over from an earlier use of the memory.
                instructions.invalidate(memory.words());
                Ok(memory.with_caches(Flushed { backend: Backend::Instructions(instructions) }))
            }
        }
    }
}

impl Caches {
    /// Writes back stores made to `memory` directly rather than through a [view](Self::view). A no-op with an
    /// emulated cache, where such stores are visible already.
    pub fn write_back(self, memory: &SharedMemory) {
        if let (Caches::Processor, Some(instructions)) = (self, CacheInstructions::detect()) {
            instructions.write_back(memory.words());
        }
    }

    /// Invalidates the lines of `memory`, so that direct loads see what another side has written back.
    pub fn invalidate(self, memory: &SharedMemory) {
        if let (Caches::Processor, Some(instructions)) = (self, CacheInstructions::detect()) {
            instructions.invalidate(memory.words());
        }
    }
}

/// Cache maintenance for memory that is not coherent.
#[derive(Clone, Debug)]
pub struct Flushed {
    backend: Backend,
}

#[derive(Clone, Debug)]
enum Backend {
    Instructions(CacheInstructions),
    Emulated(Arc<EmulatedCache>),
}

impl Flushed {
    /// Returns the view of a memory through its own emulated cache.
    pub(super) fn emulated(lines: SharedMemory, cache: Arc<EmulatedCache>) -> SharedMemory<Self> {
        lines.with_caches(Flushed { backend: Backend::Emulated(cache) })
    }

    /// Returns the emulated cache, for its counters; `None` if the processor's own caches are used.
    #[must_use]
    pub fn cache(&self) -> Option<&EmulatedCache> {
        match &self.backend {
            Backend::Instructions(_) => None,
            Backend::Emulated(cache) => Some(cache),
        }
    }
}

impl CacheMaintenance for Flushed {
    const COHERENT: bool = false;

    fn write_back(&self, words: &[AtomicU64]) {
        match &self.backend {
            Backend::Instructions(instructions) => instructions.write_back(words),
            Backend::Emulated(cache) => cache.write_back(words),
        }
    }

    fn invalidate(&self, words: &[AtomicU64]) {
        match &self.backend {
            Backend::Instructions(instructions) => instructions.invalidate(words),
            Backend::Emulated(cache) => cache.invalidate(words),
        }
    }

    fn between_stores(&self, words: &[AtomicU64]) {
        if let Backend::Emulated(cache) = &self.backend {
            cache.touch(words);
        }
    }
}

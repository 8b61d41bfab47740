//! Copies and fills memory that a peer may write at the same time.
//!
//! The compiler's own copies require memory without concurrent writers. These are assembly instructions that
//! the compiler does not analyse: a peer that writes during a copy changes the copied data, and nothing else.
//! Shared memory is a [`SharedMemory`]; private memory is a slice.
//!
//! There are [several loops](CopyLoop), because none is best for all lengths; [`CopyLoop::Best`] picks one by
//! length. `transport/engine` chooses engines by measured cost.
//!
//! A copy orders nothing by itself. The caller publishes it to a peer with a release store, as a ring does;
//! the loops that bypass the caches end with the fence that orders such a store after them.

#[cfg(target_arch = "aarch64")]
mod aarch64;
pub mod attach;
pub mod cuda;
pub mod file;
mod opaque;
#[cfg(test)]
mod tests;
mod words;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use core::fmt;

use tombolo_base::SharedMemory;

/// Copy loop, identified by the instructions that it uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CopyLoop {
    /// The best loop for the length, for callers without measurements of their own.
    Best,
    /// Aligned words of eight bytes, and bytes at the edges. Available on every processor.
    Words,
    /// The processor's string instruction (x86-64).
    String,
    /// The widest vectors available (x86-64, aarch64).
    Vectors,
    /// Vectors with stores that bypass the caches: for copies that exceed the caches and are not read soon.
    Streaming,
}

impl CopyLoop {
    /// Returns the name used in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CopyLoop::Best => "best",
            CopyLoop::Words => "words",
            CopyLoop::String => "string",
            CopyLoop::Vectors => "vectors",
            CopyLoop::Streaming => "streaming",
        }
    }

    /// Returns the loops of this processor. All loops work on every processor: unavailable ones fall back to
    /// words.
    #[must_use]
    pub fn available() -> &'static [CopyLoop] {
        #[cfg(target_arch = "x86_64")]
        return &[CopyLoop::Best, CopyLoop::Words, CopyLoop::String, CopyLoop::Vectors, CopyLoop::Streaming];
        #[cfg(target_arch = "aarch64")]
        return &[CopyLoop::Best, CopyLoop::Words, CopyLoop::Vectors, CopyLoop::Streaming];
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        return &[CopyLoop::Best, CopyLoop::Words];
    }
}

impl fmt::Display for CopyLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reason for refusing a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum CopyError {
    /// A range does not lie inside its memory.
    #[error("bytes {offset_bytes}..+{length_bytes} do not lie in a memory of {available_bytes} bytes")]
    OutOfRange { offset_bytes: usize, length_bytes: usize, available_bytes: usize },
    /// Source and target overlap, so the result would be undefined.
    #[error("source and target of a copy of {length_bytes} bytes overlap")]
    Overlap { length_bytes: usize },
}

/// Checks that a range lies inside a memory.
///
/// # Errors
/// [`CopyError::OutOfRange`] if it does not.
pub fn check(memory: &SharedMemory, offset_bytes: usize, length_bytes: usize) -> Result<(), CopyError> {
    let available_bytes = memory.len_bytes();
    match offset_bytes.checked_add(length_bytes) {
        Some(end) if end <= available_bytes => Ok(()),
        _ => Err(CopyError::OutOfRange { offset_bytes, length_bytes, available_bytes }),
    }
}

/// Returns the address of byte `offset_bytes` of a memory.
///
/// # Errors
/// As [`check`].
fn address(memory: &SharedMemory, offset_bytes: usize, length_bytes: usize) -> Result<*mut u8, CopyError> {
    check(memory, offset_bytes, length_bytes)?;
    let first = memory.words().as_ptr().cast_mut().cast::<u8>();
    // SAFETY: checked: the offset is at most the length of the memory, all of which is one mapping. Words
    // are atomics, so a pointer derived from a shared reference may write.
    Ok(unsafe { first.add(offset_bytes) })
}

/// Operands of a copy, by address.
#[derive(Clone, Copy)]
struct Range {
    source: *const u8,
    target: *mut u8,
    length: usize,
    source_shared: bool,
    target_shared: bool,
}

impl Range {
    /// Returns the address that must be aligned before words can be moved: that of the shared side. `None` if
    /// both sides are shared and can never be aligned at the same time.
    fn aligned_address(self) -> Option<usize> {
        let (source, target) = (self.source.addr(), self.target.addr());
        match (self.source_shared, self.target_shared) {
            (true, true) if source % 8 != target % 8 => None,
            (true, false) => Some(source),
            _ => Some(target),
        }
    }
}

/// Length from which string instructions beat vectors on the processors measured.
#[cfg(target_arch = "x86_64")]
const STRING_FROM_BYTES: usize = 8 * 1024;

/// Copies with a loop.
///
/// # Safety
/// The source must be valid for reads and the target for writes of this many bytes. A private target must
/// belong to this thread alone, and a private source must not be written by anyone. The two must not
/// overlap.
#[inline]
unsafe fn copy_by(copy_loop: CopyLoop, range: Range) {
    #[cfg(target_arch = "x86_64")]
    {
        let Range { source, target, length, .. } = range;
        // SAFETY: by this function's contract.
        unsafe {
            match copy_loop {
                CopyLoop::Words => words::copy(range),
                CopyLoop::String => x86_64::copy_string(source, target, length),
                CopyLoop::Streaming => x86_64::copy_streaming(source, target, length),
                CopyLoop::Best if length >= STRING_FROM_BYTES && x86_64::has_fast_strings() => {
                    x86_64::copy_string(source, target, length);
                }
                CopyLoop::Best | CopyLoop::Vectors => x86_64::copy_vectors(source, target, length),
            }
        }
    }
    // SAFETY: by this function's contract.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        match copy_loop {
            CopyLoop::Words | CopyLoop::String => words::copy(range),
            CopyLoop::Best | CopyLoop::Vectors => aarch64::copy(range, false),
            CopyLoop::Streaming => aarch64::copy(range, true),
        }
    }
    // SAFETY: by this function's contract.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    unsafe {
        let _ = copy_loop;
        words::copy(range);
    }
}

/// Copies `source` into `target` at `offset_bytes`.
///
/// # Errors
/// `source` does not fit; nothing was written.
#[inline]
pub fn write(
    copy_loop: CopyLoop,
    target: &SharedMemory,
    offset_bytes: usize,
    source: &[u8],
) -> Result<(), CopyError> {
    let to = address(target, offset_bytes, source.len())?;
    let range = Range {
        source: source.as_ptr(),
        target: to,
        length: source.len(),
        source_shared: false,
        target_shared: true,
    };
    // SAFETY: the target was checked; the source is a slice, which no one writes. No slice lies in shared
    // memory, so the two do not overlap.
    unsafe { copy_by(copy_loop, range) };
    Ok(())
}

/// Copies from `source` at `offset_bytes` into all of `target`.
///
/// # Errors
/// `source` is too short; `target` is unchanged.
#[inline]
pub fn read(
    copy_loop: CopyLoop,
    source: &SharedMemory,
    offset_bytes: usize,
    target: &mut [u8],
) -> Result<(), CopyError> {
    let from = address(source, offset_bytes, target.len())?;
    let range = Range {
        source: from,
        target: target.as_mut_ptr(),
        length: target.len(),
        source_shared: true,
        target_shared: false,
    };
    // SAFETY: the source was checked; the target is a slice that only this thread uses. No slice lies in
    // shared memory, so the two do not overlap.
    unsafe { copy_by(copy_loop, range) };
    Ok(())
}

/// Copies from shared memory that is known only by address.
///
/// # Safety
/// The source must stay valid for reads of as many bytes as the target has. The two must not overlap.
#[inline]
pub(crate) unsafe fn read_at(source: *const u8, target: &mut [u8]) {
    let (to, length) = (target.as_mut_ptr(), target.len());
    let range = Range { source, target: to, length, source_shared: true, target_shared: false };
    // SAFETY: by this function's contract; the target is a slice that only this thread uses.
    unsafe { copy_by(CopyLoop::Best, range) };
}

/// Copies `length_bytes` from shared memory that is known only by address to `target` at `offset_bytes`.
///
/// # Errors
/// As [`between`]; nothing was written.
///
/// # Safety
/// The source must stay valid for reads of this many bytes.
pub(crate) unsafe fn from_address(
    copy_loop: CopyLoop,
    source: *const u8,
    (target, offset_bytes): (&SharedMemory, usize),
    length_bytes: usize,
) -> Result<(), CopyError> {
    let to = address(target, offset_bytes, length_bytes)?;
    if source.addr() < to.addr() + length_bytes && to.addr() < source.addr() + length_bytes {
        return Err(CopyError::Overlap { length_bytes });
    }
    let range = Range { source, target: to, length: length_bytes, source_shared: true, target_shared: true };
    // SAFETY: the source by this function's contract; the target was checked, and the two do not overlap.
    unsafe { copy_by(copy_loop, range) };
    Ok(())
}

/// Copies to shared memory that is known only by address.
///
/// # Safety
/// The target must stay valid for writes of as many bytes as the source has. The two must not overlap.
#[inline]
pub(crate) unsafe fn write_at(target: *mut u8, source: &[u8]) {
    let (from, length) = (source.as_ptr(), source.len());
    let range = Range { source: from, target, length, source_shared: false, target_shared: true };
    // SAFETY: by this function's contract; the source is a slice, which no one writes.
    unsafe { copy_by(CopyLoop::Best, range) };
}

/// Copies `length_bytes` from `source` to `target`, each at its offset.
///
/// Two mappings may show the same memory; the contents of the target are unspecified where they overlap.
///
/// # Errors
/// A range lies outside its memory, or the ranges overlap by address; nothing was written.
#[inline]
pub fn between(
    copy_loop: CopyLoop,
    (source, source_offset_bytes): (&SharedMemory, usize),
    (target, target_offset_bytes): (&SharedMemory, usize),
    length_bytes: usize,
) -> Result<(), CopyError> {
    let from = address(source, source_offset_bytes, length_bytes)?;
    // SAFETY: checked: this many bytes can be read there, as long as `source` lives.
    unsafe { from_address(copy_loop, from, (target, target_offset_bytes), length_bytes) }
}

/// Fills `length_bytes` of `target` at `offset_bytes` with one byte.
///
/// # Errors
/// The range lies outside; nothing was written.
#[inline]
pub fn fill(
    target: &SharedMemory,
    offset_bytes: usize,
    length_bytes: usize,
    byte: u8,
) -> Result<(), CopyError> {
    let to = address(target, offset_bytes, length_bytes)?;
    // SAFETY: checked: this many bytes can be written there.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        x86_64::fill_string(to, length_bytes, byte);
        #[cfg(target_arch = "aarch64")]
        aarch64::fill(to, length_bytes, byte);
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        words::fill(to, length_bytes, byte);
    }
    Ok(())
}

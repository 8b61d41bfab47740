//! Copying and filling memory that a peer may write at the same time.
//!
//! The compiler's own copies are for memory that nobody else writes meanwhile. These are made of instructions that it does
//! not look into: a peer that writes during a copy changes what is copied, and nothing else. What is shared stays a
//! [`SharedMemory`]; what is private is a slice.
//!
//! There are [several loops](Loop), as none is best for all lengths; [`Loop::Best`] takes the one that is best for a length.
//! Which copies what is decided in `transport/engine`, from measured costs.
//!
//! A copy orders nothing by itself. Whoever tells a peer of it does so by a release store, as a ring does; the loops that go
//! around the caches end with the fence that makes such a store follow them.

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

/// A way to copy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Loop {
    /// The best of the others by the length: what a program takes that has not measured.
    Best,
    /// Aligned words of eight bytes, and bytes at the edges. Every processor has it.
    Words,
    /// The processor's own instruction for strings (x86-64).
    String,
    /// The widest vectors that there are (x86-64, aarch64).
    Vectors,
    /// Vectors that go around the caches of the target: for what is longer than they are, and not read soon.
    Streaming,
}

impl Loop {
    /// The name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Loop::Best => "best",
            Loop::Words => "words",
            Loop::String => "string",
            Loop::Vectors => "vectors",
            Loop::Streaming => "streaming",
        }
    }

    /// Those that this processor has. All of them copy right on every one: what it has not is done by words.
    #[must_use]
    pub fn here() -> &'static [Loop] {
        #[cfg(target_arch = "x86_64")]
        return &[Loop::Best, Loop::Words, Loop::String, Loop::Vectors, Loop::Streaming];
        #[cfg(target_arch = "aarch64")]
        return &[Loop::Best, Loop::Words, Loop::Vectors, Loop::Streaming];
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        return &[Loop::Best, Loop::Words];
    }
}

impl fmt::Display for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why nothing was copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CopyError {
    /// A range does not lie inside its memory.
    #[error("bytes {offset_bytes}..+{length_bytes} do not lie in a memory of {available_bytes} bytes")]
    OutOfRange {
        /// First byte asked for.
        offset_bytes: usize,
        /// How many bytes were asked for.
        length_bytes: usize,
        /// How many there are.
        available_bytes: usize,
    },
    /// The source and the target have bytes in common, so that there is no telling what the copy would hold.
    #[error("the source and the target of a copy of {length_bytes} bytes overlap")]
    Overlap {
        /// How many bytes were to be copied.
        length_bytes: usize,
    },
}

/// Checks that a range lies in a memory.
///
/// # Errors
/// [`CopyError::OutOfRange`].
pub fn check(memory: &SharedMemory, offset_bytes: usize, length_bytes: usize) -> Result<(), CopyError> {
    let available_bytes = memory.len_bytes();
    match offset_bytes.checked_add(length_bytes) {
        Some(end) if end <= available_bytes => Ok(()),
        _ => Err(CopyError::OutOfRange { offset_bytes, length_bytes, available_bytes }),
    }
}

/// Where byte `offset_bytes` of a memory is.
///
/// # Errors
/// As [`check`].
fn address(memory: &SharedMemory, offset_bytes: usize, length_bytes: usize) -> Result<*mut u8, CopyError> {
    check(memory, offset_bytes, length_bytes)?;
    let first = memory.words().as_ptr().cast_mut().cast::<u8>();
    // SAFETY: checked: the offset is at most the length of the memory, all of which is one mapping. Words are atomics, so
    // that a pointer from a shared reference to them may write.
    Ok(unsafe { first.add(offset_bytes) })
}

/// What to copy, by address.
#[derive(Clone, Copy)]
struct Range {
    source: *const u8,
    target: *mut u8,
    length: usize,
    source_shared: bool,
    target_shared: bool,
}

impl Range {
    /// The address that has to be aligned before words can be moved: that of a side that is shared. `None` when both are
    /// and never are aligned at once.
    fn pace_maker(self) -> Option<usize> {
        let (source, target) = (self.source.addr(), self.target.addr());
        match (self.source_shared, self.target_shared) {
            (true, true) if source % 8 != target % 8 => None,
            (true, false) => Some(source),
            _ => Some(target),
        }
    }
}

/// From this length on strings beat vectors on the processors that were measured.
#[cfg(target_arch = "x86_64")]
const STRING_FROM_BYTES: usize = 8 * 1024;

/// Copies by a loop.
///
/// # Safety
/// The source is valid for reads and the target for writes of so many bytes. A side that is not shared is this thread's
/// alone (the target) or not written by anybody (the source). The two do not overlap.
#[inline]
unsafe fn copy_by(how: Loop, range: Range) {
    #[cfg(target_arch = "x86_64")]
    {
        let Range { source, target, length, .. } = range;
        // SAFETY: the caller's.
        unsafe {
            match how {
                Loop::Words => words::copy(range),
                Loop::String => x86_64::copy_string(source, target, length),
                Loop::Streaming => x86_64::copy_streaming(source, target, length),
                Loop::Best if length >= STRING_FROM_BYTES && x86_64::fast_strings() => {
                    x86_64::copy_string(source, target, length);
                }
                Loop::Best | Loop::Vectors => x86_64::copy_vectors(source, target, length),
            }
        }
    }
    // SAFETY: the caller's.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        match how {
            Loop::Words | Loop::String => words::copy(range),
            Loop::Best | Loop::Vectors => aarch64::copy(range, false),
            Loop::Streaming => aarch64::copy(range, true),
        }
    }
    // SAFETY: the caller's.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    unsafe {
        let _ = how;
        words::copy(range);
    }
}

/// Copies `source` into `target` from `offset_bytes` on.
///
/// # Errors
/// It does not fit; nothing was written.
#[inline]
pub fn write(how: Loop, target: &SharedMemory, offset_bytes: usize, source: &[u8]) -> Result<(), CopyError> {
    let to = address(target, offset_bytes, source.len())?;
    let range = Range {
        source: source.as_ptr(),
        target: to,
        length: source.len(),
        source_shared: false,
        target_shared: true,
    };
    // SAFETY: the target was checked; the source is a slice, which nobody writes. No slice lies in shared memory, so that
    // they do not overlap.
    unsafe { copy_by(how, range) };
    Ok(())
}

/// Copies from `source`, beginning with `offset_bytes`, into all of `target`.
///
/// # Errors
/// There is not so much; `target` is unchanged.
#[inline]
pub fn read(
    how: Loop,
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
    // SAFETY: the source was checked; the target is a slice that is ours alone. No slice lies in shared memory, so that
    // they do not overlap.
    unsafe { copy_by(how, range) };
    Ok(())
}

/// Copies from memory of others, of which only the address is known.
///
/// # Safety
/// The source is valid for reads of as many bytes as the target has, for as long as this takes. The two do not overlap.
#[inline]
pub(crate) unsafe fn read_at(source: *const u8, target: &mut [u8]) {
    let (to, length) = (target.as_mut_ptr(), target.len());
    let range = Range { source, target: to, length, source_shared: true, target_shared: false };
    // SAFETY: the caller's; the target is a slice that is ours alone.
    unsafe { copy_by(Loop::Best, range) };
}

/// Copies to memory of others, of which only the address is known.
///
/// # Safety
/// The target is valid for writes of as many bytes as the source has, for as long as this takes. The two do not overlap.
#[inline]
pub(crate) unsafe fn write_at(target: *mut u8, source: &[u8]) {
    let (from, length) = (source.as_ptr(), source.len());
    let range = Range { source: from, target, length, source_shared: false, target_shared: true };
    // SAFETY: the caller's; the source is a slice, which nobody writes.
    unsafe { copy_by(Loop::Best, range) };
}

/// Copies `length_bytes` from `source` to `target`, each from its offset on.
///
/// Two mappings may show the same memory: then what the target holds is unspecified where they have bytes in common.
///
/// # Errors
/// One of them has not so much room, or they overlap by their addresses; nothing was written.
#[inline]
pub fn between(
    how: Loop,
    (source, source_offset_bytes): (&SharedMemory, usize),
    (target, target_offset_bytes): (&SharedMemory, usize),
    length_bytes: usize,
) -> Result<(), CopyError> {
    let from = address(source, source_offset_bytes, length_bytes)?;
    let to = address(target, target_offset_bytes, length_bytes)?;
    if from.addr() < to.addr() + length_bytes && to.addr() < from.addr() + length_bytes {
        return Err(CopyError::Overlap { length_bytes });
    }
    let range =
        Range { source: from, target: to, length: length_bytes, source_shared: true, target_shared: true };
    // SAFETY: both were checked, and do not overlap.
    unsafe { copy_by(how, range) };
    Ok(())
}

/// Fills `length_bytes` of `target` from `offset_bytes` on with one byte.
///
/// # Errors
/// There is not so much room; nothing was written.
#[inline]
pub fn fill(
    target: &SharedMemory,
    offset_bytes: usize,
    length_bytes: usize,
    byte: u8,
) -> Result<(), CopyError> {
    let to = address(target, offset_bytes, length_bytes)?;
    // SAFETY: checked: so many bytes can be written there.
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

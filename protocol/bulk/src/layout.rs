//! Division of a pool into buffers.

/// Alignment of buffers, in bytes: a cache line, so that no two buffers share one.
pub const ALIGNMENT_BYTES: u64 = 64;

/// Maximum number of buffers of a pool.
pub const MAX_BUFFERS: u32 = 1 << 20;

/// Maximum size of a pool, in bytes.
pub const MAX_POOL_BYTES: u64 = 1 << 46;

/// Reason why a layout is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum LayoutError {
    /// The buffer size is invalid.
    #[error(
        "invalid buffer size of {buffer_bytes} bytes; use a multiple of {ALIGNMENT_BYTES}, at least {ALIGNMENT_BYTES}"
    )]
    BufferSize { buffer_bytes: u64 },
    /// The number of buffers is invalid.
    #[error("invalid pool of {count} buffers; use 1 to {MAX_BUFFERS}")]
    Count { count: u32 },
    /// The pool is too large.
    #[error("{count} buffers of {buffer_bytes} bytes exceed the limit of a pool, {MAX_POOL_BYTES} bytes")]
    PoolSize { buffer_bytes: u64, count: u32 },
}

/// Shape of a pool: the number and size of its buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    buffer_bytes: u64,
    count: u32,
}

impl Layout {
    /// Creates a layout of `count` buffers of `buffer_bytes` each.
    ///
    /// # Errors
    /// [`LayoutError`] of the first invalid value.
    pub const fn new(buffer_bytes: u64, count: u32) -> Result<Self, LayoutError> {
        if buffer_bytes == 0 || !buffer_bytes.is_multiple_of(ALIGNMENT_BYTES) {
            return Err(LayoutError::BufferSize { buffer_bytes });
        }
        if count == 0 || count > MAX_BUFFERS {
            return Err(LayoutError::Count { count });
        }
        match buffer_bytes.checked_mul(count as u64) {
            Some(bytes) if bytes <= MAX_POOL_BYTES => Ok(Layout { buffer_bytes, count }),
            _ => Err(LayoutError::PoolSize { buffer_bytes, count }),
        }
    }

    /// Returns the size of each buffer, in bytes.
    #[must_use]
    pub const fn buffer_bytes(self) -> u64 {
        self.buffer_bytes
    }

    /// Returns the number of buffers.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.count
    }

    /// Returns the total size of all buffers, in bytes.
    #[must_use]
    pub const fn pool_bytes(self) -> u64 {
        self.buffer_bytes * self.count as u64
    }

    /// Returns the offset of a buffer in the pool, or `None` if it does not exist.
    #[must_use]
    pub const fn offset_bytes(self, buffer: u32) -> Option<u64> {
        if buffer < self.count { Some(self.buffer_bytes * buffer as u64) } else { None }
    }

    /// Whether the range lies within one buffer.
    #[must_use]
    pub const fn holds(self, offset_bytes: u64, length_bytes: u64) -> bool {
        match offset_bytes.checked_add(length_bytes) {
            Some(end) => end <= self.buffer_bytes,
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_at_their_edges() {
        for (bytes, fits) in [(0, false), (63, false), (64, true), (65, false), (128, true)] {
            assert_eq!(Layout::new(bytes, 1).is_ok(), fits, "{bytes}");
        }
        for (count, fits) in [(0, false), (1, true), (MAX_BUFFERS, true), (MAX_BUFFERS + 1, false)] {
            assert_eq!(Layout::new(64, count).is_ok(), fits, "{count}");
        }
        let half = MAX_POOL_BYTES / 2;
        assert!(Layout::new(half, 2).is_ok());
        assert!(matches!(Layout::new(half + 64, 2), Err(LayoutError::PoolSize { .. })));
        assert!(matches!(Layout::new(u64::MAX - 63, 2), Err(LayoutError::PoolSize { .. })));
    }

    #[test]
    fn ranges_stay_within_their_buffer() {
        let layout = Layout::new(128, 3).unwrap();
        assert_eq!((layout.offset_bytes(2), layout.offset_bytes(3)), (Some(256), None));
        assert!(layout.holds(0, 128) && layout.holds(128, 0));
        assert!(!layout.holds(1, 128) && !layout.holds(u64::MAX, 2));
    }
}

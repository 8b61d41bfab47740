//! Size classes of small objects, and per-thread caches of free ones.

use std::cell::Cell;
use std::ptr;

/// The largest object that shares a span with others, in bytes.
pub(super) const SMALL_BYTES_MAX: usize = 32 * 1024;
/// Number of size classes: every 16 bytes up to 1 KiB, then four per doubling.
pub const CLASSES: usize = 64 + 20;

/// Returns the class of a size of 1 to [`SMALL_BYTES_MAX`] bytes.
pub(super) fn class_of(size: usize) -> usize {
    if size <= 1024 {
        return size.div_ceil(16).max(1) - 1;
    }
    let exponent = (size - 1).ilog2() as usize;
    let quarter = ((size - 1) >> (exponent - 2)) & 3;
    64 + (exponent - 10) * 4 + quarter
}

/// Returns the size of the objects of a class, in bytes.
pub(super) fn size_of_class(class: usize) -> usize {
    if class < 64 {
        return (class + 1) * 16;
    }
    let (exponent, quarter) = (10 + (class - 64) / 4, (class - 64) % 4);
    (4 + quarter + 1) << (exponent - 2)
}

/// Free object, linked into a list.
pub struct FreeObject {
    pub(super) next: *mut FreeObject,
}

/// First object and length of a list.
pub type FreeList = Cell<(*mut FreeObject, usize)>;

/// Per-thread cache of free objects of each size, so that most allocations take no lock.
pub struct Cache {
    lists: [FreeList; CLASSES],
}

impl Cache {
    /// Returns the free list of a class.
    #[inline]
    pub(super) fn list(&self, class: usize) -> &FreeList {
        &self.lists[class]
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self { lists: [const { Cell::new((ptr::null_mut(), 0)) }; CLASSES] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_contains_its_sizes() {
        for size in 1..=SMALL_BYTES_MAX {
            let class = class_of(size);
            assert!(size_of_class(class) >= size, "{size}");
            assert!(class == 0 || size_of_class(class - 1) < size, "{size}");
        }
        assert_eq!(class_of(SMALL_BYTES_MAX), CLASSES - 1);
    }
}

//! Memory shared by a team: a range of addresses with an allocator of its own.
//!
//! In a single process the range is ordinary memory. If workers have address spaces of their own, it is
//! mapped at the same address in each, and the program's heap is in it too. Nothing is ever unmapped, so
//! references to placed values stay valid; freed memory is reused within the store.
//!
//! Memory is divided into spans of 64 KiB. A span holds objects of one size class, or begins a run of spans
//! that is one object; the table at the beginning of the range records which. Free objects of a class form a
//! list; each thread caches a short one.

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::cache::{CLASSES, FreeList, FreeObject, SMALL_BYTES_MAX, class_of, size_of_class};
use super::lock::Spinlock;
use super::{local, paged_wait, sys};

const SPAN_BITS: u32 = 16;
/// Size of a span in bytes.
pub const SPAN: usize = 1 << SPAN_BITS;
/// Number of lists of free runs, by the base-2 logarithm of their length in spans.
const BINS: usize = 32;
/// Granularity at which objects are carved from a span, in bytes.
const CARVE_BYTES: usize = 4096;
/// Maximum size of a thread's cache per size class, in bytes; beyond it the thread returns half.
const CACHE_BYTES_MAX: usize = 32 * 1024;

/// Table entry of a span. `length` is that of a run, in its first and last spans.
#[derive(Clone, Copy)]
struct Span {
    kind: u32,
    length: u32,
    next: u32,
    previous: u32,
}

const FREE: u32 = 0;
const LARGE: u32 = 1;
/// First kind of spans of small objects; the size class is added.
const OBJECTS: u32 = 16;
/// End of a list; span 0 is never free.
const NONE: u32 = 0;

struct Runs {
    bins: [u32; BINS],
    /// First span that was never used.
    top: u32,
}

/// Store that this process uses.
static CURRENT: AtomicPtr<Store> = AtomicPtr::new(ptr::null_mut());

/// Returns the store of this process, once [`Store::make_current`] was called.
#[inline]
pub fn current() -> Option<&'static Store> {
    // SAFETY: a store is never unmapped.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// Range of addresses and its allocator.
#[repr(C)]
pub struct Store {
    base: usize,
    spans: u32,
    /// Bytes allocated in whole spans, for reports.
    used: AtomicUsize,
    /// Maximum size that it could have had, in bytes; 0 if only the machine limits it.
    length_limit: AtomicUsize,
    lock: Spinlock,
    runs: UnsafeCell<Runs>,
    central: [Central; CLASSES],
}

#[repr(C, align(64))]
struct Central {
    lock: Spinlock,
    list: Cell<*mut FreeObject>,
    /// Unused rest of a span: its address, and the number of objects.
    fresh: Cell<*mut u8>,
    fresh_count: Cell<usize>,
}

// SAFETY: the cells are touched only while the lock beside them is held.
unsafe impl Sync for Store {}

impl Store {
    /// Creates a store in zeroed memory.
    ///
    /// # Safety
    /// The memory must be readable, writable, all zero, unused, aligned to [`SPAN`], and never unmapped.
    pub unsafe fn format(base: *mut u8, length: usize) -> &'static Self {
        let spans = u32::try_from(length >> SPAN_BITS).unwrap_or(u32::MAX);
        let header = size_of::<Self>().next_multiple_of(64) + spans as usize * size_of::<Span>();
        let store: *mut Self = base.cast();
        // SAFETY: either the caller's memory is large enough for the header, or `first` below is beyond its
        // end and nothing can be allocated.
        unsafe {
            (&raw mut (*store).base).write(base as usize);
            (&raw mut (*store).spans).write(spans);
            let first = u32::try_from(header.div_ceil(SPAN)).unwrap_or(u32::MAX);
            (&raw mut (*store).runs).write(UnsafeCell::new(Runs { bins: [NONE; BINS], top: first }));
            &*store
        }
    }

    /// Makes this the store that [`current`] returns. Called once per process.
    pub fn make_current(&'static self) {
        CURRENT.store(ptr::from_ref(self).cast_mut(), Ordering::Release);
    }

    /// Whether an address is in this store.
    #[inline]
    pub fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.base) >> SPAN_BITS < self.spans as usize
    }

    /// Returns the bytes allocated in whole spans.
    pub fn used_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the bytes not allocated.
    pub fn free_bytes(&self) -> usize {
        self.length().saturating_sub(self.used_bytes())
    }

    /// Sets the maximum size that it could have had, for [`Store::advice`].
    pub fn set_length_limit(&self, bytes: usize) {
        self.length_limit.store(bytes, Ordering::Relaxed);
    }

    /// Returns advice on how to enlarge the store, for messages.
    pub fn advice(&self) -> Advice {
        Advice { length: self.length(), length_limit: self.length_limit.load(Ordering::Relaxed) }
    }

    /// Returns the size of the store in bytes.
    pub fn length(&self) -> usize {
        (self.spans as usize) << SPAN_BITS
    }

    fn span(&self, index: u32) -> *mut Span {
        let table = self.base + size_of::<Self>().next_multiple_of(64);
        (table as *mut Span).wrapping_add(index as usize)
    }

    fn address(&self, index: u32) -> *mut u8 {
        (self.base + ((index as usize) << SPAN_BITS)) as *mut u8
    }

    /// Allocates `size` bytes, uninitialised, at a multiple of `align`, a power of two. Returns `None` if the
    /// store is exhausted.
    pub fn allocate(&self, size: usize, align: usize) -> Option<*mut u8> {
        let size = size_for_alignment(size, align);
        if size > SMALL_BYTES_MAX || align > SMALL_BYTES_MAX {
            return self.allocate_run(size, align);
        }
        let class = class_of(size);
        let Some(me) = local::me() else { return self.pop(class) };
        let list = me.cache.list(class);
        let (head, count) = list.get();
        if head.is_null() {
            return self.refill(list, class);
        }
        // SAFETY: objects on this thread's list are free and accessed by no other thread.
        list.set((unsafe { (*head).next }, count - 1));
        Some(head.cast())
    }

    /// Frees memory allocated by [`Self::allocate`].
    ///
    /// # Safety
    /// The address must come from this store and must no longer be used.
    pub unsafe fn release(&self, address: *mut u8) {
        let index = u32::try_from((address as usize - self.base) >> SPAN_BITS).unwrap_or(0);
        // SAFETY: the index is in the table, as the address is in this store.
        let kind = unsafe { (*self.span(index)).kind };
        if kind < OBJECTS {
            return self.release_run(index);
        }
        let class = (kind - OBJECTS) as usize;
        let free: *mut FreeObject = address.cast();
        let Some(me) = local::me() else {
            // SAFETY: the caller guarantees that the object is free.
            return unsafe { self.push_chain(class, free, free) };
        };
        let list = me.cache.list(class);
        let (head, count) = list.get();
        // SAFETY: the caller guarantees that the object is free.
        unsafe { (*free).next = head };
        list.set((free, count + 1));
        if (count + 1) * size_of_class(class) > CACHE_BYTES_MAX {
            self.release_half(list, class);
        }
    }

    /// Returns the usable size of the object at this address, in bytes.
    pub fn usable_size(&self, address: *mut u8) -> usize {
        let index = u32::try_from((address as usize - self.base) >> SPAN_BITS).unwrap_or(0);
        // SAFETY: the index is in the table, as the address is in this store.
        let span = unsafe { *self.span(index) };
        if span.kind < OBJECTS {
            (span.length as usize) << SPAN_BITS
        } else {
            size_of_class((span.kind - OBJECTS) as usize)
        }
    }

    /// Takes one object from the central list, or from a fresh span.
    fn pop(&self, class: usize) -> Option<*mut u8> {
        let central = &self.central[class];
        let _held = central.lock.lock();
        if central.list.get().is_null() {
            self.carve(central, class)?;
        }
        let head = central.list.get();
        // SAFETY: objects on the list are free, and the list is locked.
        central.list.set(unsafe { (*head).next });
        Some(head.cast())
    }

    /// Prepends a chain of free objects to the central list.
    ///
    /// # Safety
    /// The objects from `first` to `last` must be free, of this class, and linked.
    unsafe fn push_chain(&self, class: usize, first: *mut FreeObject, last: *mut FreeObject) {
        let central = &self.central[class];
        let _held = central.lock.lock();
        // SAFETY: the caller's chain is free, and the list is locked.
        unsafe { (*last).next = central.list.get() };
        central.list.set(first);
    }

    fn refill(&self, list: &FreeList, class: usize) -> Option<*mut u8> {
        let size = size_of_class(class);
        let wanted = match paged_wait::is_memory_paged() {
            // A whole page, to avoid false sharing of pages with other threads.
            true => (CARVE_BYTES / size).max(1),
            false => (CACHE_BYTES_MAX / 2 / size).clamp(1, 32),
        };
        let central = &self.central[class];
        let _held = central.lock.lock();
        if central.list.get().is_null() {
            self.carve(central, class)?;
        }
        let first = central.list.get();
        let (mut last, mut count) = (first, 1);
        // SAFETY: objects on the list are free, and the list is locked.
        unsafe {
            while count < wanted && !(*last).next.is_null() {
                last = (*last).next;
                count += 1;
            }
            central.list.set((*last).next);
            (*last).next = ptr::null_mut();
            list.set(((*first).next, count - 1));
        }
        Some(first.cast())
    }

    fn release_half(&self, list: &FreeList, class: usize) {
        let (first, count) = list.get();
        let mut last = first;
        // SAFETY: objects on this thread's list are free and accessed by no other thread.
        unsafe {
            for _ in 1..count / 2 {
                last = (*last).next;
            }
            list.set(((*last).next, count - (count / 2).max(1)));
            self.push_chain(class, first, last);
        }
    }

    /// Carves objects for the list of their class, whose lock the caller holds, allocating a fresh span if
    /// needed. Carves one page at a time, so that pages are touched only when needed.
    fn carve(&self, central: &Central, class: usize) -> Option<()> {
        let size = size_of_class(class);
        if central.fresh_count.get() == 0 {
            central.fresh.set(self.allocate_spans(1, OBJECTS + u32::try_from(class).ok()?)?);
            central.fresh_count.set(SPAN / size);
        }
        let count = (CARVE_BYTES / size).clamp(1, central.fresh_count.get());
        let base = central.fresh.get();
        let mut head = ptr::null_mut();
        for object in (0..count).rev() {
            let free: *mut FreeObject = base.wrapping_add(object * size).cast();
            // SAFETY: the object is in the span, and free.
            unsafe { (*free).next = head };
            head = free;
        }
        central.list.set(head);
        central.fresh.set(base.wrapping_add(count * size));
        central.fresh_count.set(central.fresh_count.get() - count);
        Some(())
    }

    fn allocate_run(&self, size: usize, align: usize) -> Option<*mut u8> {
        let spans = u32::try_from(size.checked_add(SPAN - 1)? >> SPAN_BITS).ok()?;
        if align <= SPAN {
            return self.allocate_spans(spans, LARGE);
        }
        // Allocates a longer run and frees what is before and after the aligned part.
        let extra = u32::try_from(align >> SPAN_BITS).ok()?;
        let whole = self.allocate_spans(spans.checked_add(extra)?, LARGE)?;
        let index = u32::try_from((whole as usize - self.base) >> SPAN_BITS).ok()?;
        let begin = (whole as usize).next_multiple_of(align);
        let before = u32::try_from((begin - whole as usize) >> SPAN_BITS).ok()?;
        let held = self.lock.lock();
        self.mark(index + before, spans, LARGE);
        if before > 0 {
            self.mark(index, before, LARGE);
        }
        if extra > before {
            self.mark(index + before + spans, extra - before, LARGE);
        }
        drop(held);
        if before > 0 {
            self.release_run(index);
        }
        if extra > before {
            self.release_run(index + before + spans);
        }
        Some(begin as *mut u8)
    }

    /// Writes the table entries of a run. The caller holds the lock or owns the run.
    fn mark(&self, index: u32, length: u32, kind: u32) {
        let entry = Span { kind, length, next: NONE, previous: NONE };
        // SAFETY: the run is in the range.
        unsafe {
            self.span(index + length - 1).write(entry);
            self.span(index).write(entry);
        }
    }

    fn allocate_spans(&self, count: u32, kind: u32) -> Option<*mut u8> {
        let _held = self.lock.lock();
        // SAFETY: the lock is held.
        let runs = unsafe { &mut *self.runs.get() };
        let index = match self.find(runs, count) {
            Some(index) => index,
            None => {
                let index = runs.top;
                let end = index.checked_add(count).filter(|&end| end <= self.spans)?;
                runs.top = end;
                index
            }
        };
        self.mark(index, count, kind);
        self.used.fetch_add((count as usize) << SPAN_BITS, Ordering::Relaxed);
        Some(self.address(index))
    }

    /// Takes a free run of at least `count` spans, and keeps those beyond `count` free.
    fn find(&self, runs: &mut Runs, count: u32) -> Option<u32> {
        for bin in count.ilog2() as usize..BINS {
            let mut index = runs.bins[bin];
            while index != NONE {
                // SAFETY: entries on a list are in the table; the lock is held.
                let span = unsafe { *self.span(index) };
                if span.length >= count {
                    self.unlink(runs, index);
                    if span.length > count {
                        self.link(runs, index + count, span.length - count);
                    }
                    return Some(index);
                }
                index = span.next;
            }
        }
        None
    }

    fn link(&self, runs: &mut Runs, index: u32, length: u32) {
        self.mark(index, length, FREE);
        let bin = &mut runs.bins[length.ilog2() as usize];
        // SAFETY: both spans are in the table; the lock is held.
        unsafe {
            (*self.span(index)).next = *bin;
            (*self.span(index)).previous = NONE;
            if *bin != NONE {
                (*self.span(*bin)).previous = index;
            }
        }
        *bin = index;
    }

    fn unlink(&self, runs: &mut Runs, index: u32) {
        // SAFETY: entries on a list are in the table; the lock is held.
        unsafe {
            let span = *self.span(index);
            if span.previous == NONE {
                runs.bins[span.length.ilog2() as usize] = span.next;
            } else {
                (*self.span(span.previous)).next = span.next;
            }
            if span.next != NONE {
                (*self.span(span.next)).previous = span.previous;
            }
        }
    }

    fn release_run(&self, mut index: u32) {
        let _held = self.lock.lock();
        // SAFETY: the lock is held.
        let runs = unsafe { &mut *self.runs.get() };
        // SAFETY: the run is in the table; neighbours are read only within spans that were ever used.
        unsafe {
            let mut length = (*self.span(index)).length;
            self.used.fetch_sub((length as usize) << SPAN_BITS, Ordering::Relaxed);
            let after = index + length;
            if after < runs.top && (*self.span(after)).kind == FREE {
                self.unlink(runs, after);
                length += (*self.span(after)).length;
            }
            let before = *self.span(index - 1);
            if before.kind == FREE && before.length > 0 {
                index -= before.length;
                self.unlink(runs, index);
                length += before.length;
            }
            if index + length == runs.top {
                // Unused again, but no longer zero.
                self.mark(index, length, FREE);
                (*self.span(index)).length = 0;
                (*self.span(index + length - 1)).length = 0;
                runs.top = index;
            } else {
                self.link(runs, index, length);
            }
        }
    }

    /// Allocates zeroed memory for a value. Touches none of it if it is the store's first allocation.
    pub fn place_zeroed<T>(&self) -> *mut T {
        let is_first = self.used_bytes() == 0 && size_of::<T>() > SMALL_BYTES_MAX;
        let Some(memory) = self.allocate(size_of::<T>(), align_of::<T>()) else { self.exhausted() };
        if !is_first {
            // SAFETY: the memory was allocated with this length.
            unsafe { memory.write_bytes(0, size_of::<T>()) };
        }
        memory.cast()
    }

    /// Places a value that lives until its owner frees it, if ever.
    pub fn place<T: 'static>(&self, value: T) -> &'static T {
        self.place_at(value, align_of::<T>())
    }

    /// Places a value that one thread writes frequently. If memory is transferred in pages, the value gets
    /// pages of its own.
    pub fn place_on_own_pages<T: 'static>(&self, value: T) -> &'static T {
        self.place_at(
            value,
            if paged_wait::is_memory_paged() { CARVE_BYTES.max(align_of::<T>()) } else { align_of::<T>() },
        )
    }

    fn place_at<T: 'static>(&self, value: T, align: usize) -> &'static T {
        let Some(memory) = self.allocate(size_of::<T>().max(16), align) else { self.exhausted() };
        let memory: *mut T = memory.cast();
        // SAFETY: fresh memory of the right size and alignment, never unmapped.
        unsafe {
            memory.write(value);
            &*memory
        }
    }

    /// Ends the program with a message that the store is exhausted.
    pub fn exhausted(&self) -> ! {
        sys::fatal(format_args!(
            "out of memory: all {} MiB of the runtime's memory are in use; {}",
            self.length() >> 20,
            self.advice()
        ))
    }
}

/// Advice on how to enlarge a store, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Advice {
    length: usize,
    length_limit: usize,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u32 = 20;
        match self.length_limit >> MIB {
            0 => write!(f, "OMP_TOMBOLO_ARENA={}M gives it more", (self.length >> MIB) * 2),
            length_limit if length_limit > self.length >> MIB => write!(
                f,
                "OMP_TOMBOLO_ARENA={length_limit}M gives it what is left of the window, a larger `window_mib` in the machine file more"
            ),
            _ => f.write_str("a larger `window_mib` in the machine file gives it more"),
        }
    }
}

/// Returns the size to allocate so that objects of its class are aligned.
fn size_for_alignment(size: usize, align: usize) -> usize {
    if align <= 16 {
        size.max(1)
    } else if size <= 1024 && align <= 64 {
        size.max(1).next_multiple_of(64)
    } else if size <= SMALL_BYTES_MAX {
        size.max(align).next_power_of_two()
    } else {
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(spans: usize) -> &'static Store {
        let memory = sys::reserve((spans + 1) * SPAN).expect("memory");
        let base = (memory as usize).next_multiple_of(SPAN) as *mut u8;
        // SAFETY: fresh zeroed memory that is leaked.
        unsafe { Store::format(base, spans * SPAN) }
    }

    #[test]
    fn objects_do_not_overlap_and_are_aligned() {
        let store = store(512);
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for round in 0..400_usize {
            let size = (round * 7919) % 100_000 + 1;
            let align = 1 << (round % 13);
            let address = store.allocate(size, align).expect("room") as usize;
            assert_eq!(address % align, 0, "{size} at {align}");
            assert!(store.usable_size(address as *mut u8) >= size);
            assert!(
                taken.iter().all(|&(other, length)| address + size <= other || other + length <= address)
            );
            taken.push((address, size));
            if round % 3 == 0 {
                let (address, _) = taken.swap_remove(round % taken.len());
                // SAFETY: it was allocated here and is no longer used.
                unsafe { store.release(address as *mut u8) };
            }
        }
    }

    #[test]
    fn runs_join_again() {
        let store = store(64);
        let before = store.used_bytes();
        let runs: Vec<_> = (0..20).map(|_| store.allocate(2 * SPAN, 16).expect("room")).collect();
        for run in runs.iter().step_by(2).chain(runs.iter().skip(1).step_by(2)) {
            // SAFETY: it was allocated here and is no longer used.
            unsafe { store.release(*run) };
        }
        assert_eq!(store.used_bytes(), before);
        assert!(store.allocate(40 * SPAN, 16).is_some(), "one run of all of them");
        assert!(store.allocate(64 * SPAN, 16).is_none(), "no more than there is");
    }

    #[test]
    fn large_alignment_wastes_nothing() {
        let store = store(256);
        let before = store.used_bytes();
        let address = store.allocate(100_000, 1 << 20).expect("room");
        assert_eq!(address as usize % (1 << 20), 0);
        // SAFETY: it was allocated here and is no longer used.
        unsafe { store.release(address) };
        assert_eq!(store.used_bytes(), before);
    }
}

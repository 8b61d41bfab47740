//! `omp_alloc` and the like: allocators with traits.
//!
//! All memory is ordinary memory. Allocators differ in alignment, in their quota, and in what happens beyond
//! it. A header before each block holds its real start, its size and its allocator.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::sys;

/// Highest number of OpenMP's predefined allocators; the program's own are addresses.
const PREDEFINED: usize = 8;
const DEFAULT: usize = 1;

const ALIGNMENT: u32 = 2;
const POOL_SIZE: u32 = 4;
const FALLBACK: u32 = 5;
const FALLBACK_DATA: u32 = 6;
const PINNED: u32 = 7;

const DEFAULT_VALUE: usize = usize::MAX;
const DEFAULT_MEMORY: usize = 11;
const NULL: usize = 12;
const ABORT: usize = 13;
const OTHER: usize = 14;

/// A trait as the program passes it.
#[repr(C)]
pub struct Trait {
    key: u32,
    value: usize,
}

/// Allocator created by the program.
struct Allocator {
    align: usize,
    quota: usize,
    used: AtomicUsize,
    fallback: usize,
    fallback_allocator: usize,
}

/// Header in front of each block.
#[repr(C)]
struct Header {
    begin: *mut u8,
    size: usize,
    allocator: usize,
}

fn user_allocator(handle: usize) -> Option<&'static Allocator> {
    // SAFETY: a handle that is not predefined came from `omp_init_allocator`.
    (handle > PREDEFINED).then(|| unsafe { &*(handle as *const Allocator) })
}

/// `omp_init_allocator`. Returns 0 if a trait is invalid or not supported.
///
/// # Safety
/// `traits` points to `count` traits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_init_allocator(space: usize, count: i32, traits: *const Trait) -> usize {
    let mut allocator_state = Allocator {
        align: 1,
        quota: usize::MAX,
        used: AtomicUsize::new(0),
        fallback: DEFAULT_MEMORY,
        fallback_allocator: 0,
    };
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: guaranteed by the caller.
        let Trait { key, value } = unsafe { traits.add(index).read() };
        match key {
            ALIGNMENT if value == DEFAULT_VALUE => allocator_state.align = 1,
            ALIGNMENT if value.is_power_of_two() => allocator_state.align = value,
            POOL_SIZE if value > 0 => allocator_state.quota = value,
            FALLBACK if value == DEFAULT_VALUE => allocator_state.fallback = DEFAULT_MEMORY,
            FALLBACK if (DEFAULT_MEMORY..=OTHER).contains(&value) => allocator_state.fallback = value,
            FALLBACK_DATA => allocator_state.fallback_allocator = value,
            // Pinned memory is not supported.
            PINNED if value == 1 => return 0,
            1 | 3 | 7 | 8 => {}
            _ => return 0,
        }
    }
    if space > 4 {
        return 0;
    }
    allocator_state.align = allocator_state.align.max(align_of::<usize>());
    ptr::from_ref(start::root().store.place(allocator_state)) as usize
}

/// `omp_destroy_allocator`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_destroy_allocator(handle: usize) {
    if let Some(allocator) = user_allocator(handle) {
        // SAFETY: it came from the store, and the program does not use it any more.
        unsafe { start::root().store.release(ptr::from_ref(allocator).cast_mut().cast()) };
    }
}

/// `omp_set_default_allocator`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_set_default_allocator(handle: usize) {
    let handle = if handle == 0 { DEFAULT } else { handle };
    start::current().task().set_icv(|icv| icv.allocator = handle);
}

/// `omp_get_default_allocator`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_default_allocator() -> usize {
    start::current().task().icv().allocator
}

/// Allocates memory, zeroed on request, following the allocator's fallbacks. Returns null on failure.
fn allocate(align: usize, size: usize, handle: usize, zeroed: bool) -> *mut u8 {
    let mut handle = if handle == 0 { omp_get_default_allocator() } else { handle };
    loop {
        let program = user_allocator(handle);
        let align = align.max(program.map_or(16, |allocator| allocator.align)).max(16);
        let within = program.is_none_or(|allocator| charge(allocator, size));
        let block = if within { block(align, size, handle, zeroed) } else { ptr::null_mut() };
        if !block.is_null() || size == 0 {
            return block;
        }
        let Some(allocator) = program else { return ptr::null_mut() };
        if within {
            allocator.used.fetch_sub(size, Ordering::Relaxed);
        }
        match allocator.fallback {
            DEFAULT_MEMORY => handle = DEFAULT,
            OTHER if allocator.fallback_allocator != 0 => handle = allocator.fallback_allocator,
            ABORT => sys::fatal(format_args!(
                "omp_alloc: out of memory allocating {size} bytes, and the allocator's fallback is abort"
            )),
            _ => return ptr::null_mut(),
        }
    }
}

/// Charges bytes to an allocator's quota; returns `false` if they exceed it.
fn charge(allocator: &Allocator, size: usize) -> bool {
    let more = |used: usize| used.checked_add(size).filter(|&used| used <= allocator.quota);
    allocator.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

fn block(align: usize, size: usize, allocator: usize, zeroed: bool) -> *mut u8 {
    let before = size_of::<Header>();
    let Some(bytes) = size.checked_add(before).and_then(|bytes| bytes.checked_add(align - 1)) else {
        return ptr::null_mut();
    };
    if size == 0 {
        return ptr::null_mut();
    }
    // SAFETY: any size is valid.
    let begin: *mut u8 = unsafe { if zeroed { libc::calloc(1, bytes) } else { libc::malloc(bytes) } }.cast();
    if begin.is_null() {
        return begin;
    }
    let block = begin.wrapping_add((begin as usize + before).next_multiple_of(align) - begin as usize);
    // SAFETY: the header is before the block and within the allocation; it is aligned, because the block is
    // aligned to at least 16 bytes.
    unsafe { header(block).write(Header { begin, size, allocator }) };
    block
}

fn header(block: *mut u8) -> *mut Header {
    block.wrapping_sub(size_of::<Header>()).cast()
}

/// `omp_free`.
///
/// # Safety
/// `block` is null or came from one of these functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_free(block: *mut c_void, _handle: usize) {
    if block.is_null() {
        return;
    }
    // SAFETY: guaranteed by the caller.
    let header = unsafe { header(block.cast()).read() };
    if let Some(allocator) = user_allocator(header.allocator) {
        allocator.used.fetch_sub(header.size, Ordering::Relaxed);
    }
    // SAFETY: the memory came from the C library.
    unsafe { libc::free(header.begin.cast()) };
}

/// `omp_alloc`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_alloc(size: usize, handle: usize) -> *mut c_void {
    allocate(1, size, handle, false).cast()
}

/// `omp_aligned_alloc`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_aligned_alloc(align: usize, size: usize, handle: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        return ptr::null_mut();
    }
    allocate(align, size, handle, false).cast()
}

/// `omp_calloc`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_calloc(count: usize, size: usize, handle: usize) -> *mut c_void {
    omp_aligned_calloc(1, count, size, handle)
}

/// `omp_aligned_calloc`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_aligned_calloc(align: usize, count: usize, size: usize, handle: usize) -> *mut c_void {
    match count.checked_mul(size) {
        Some(bytes) if align.is_power_of_two() => allocate(align, bytes, handle, true).cast(),
        _ => ptr::null_mut(),
    }
}

/// `omp_realloc`.
///
/// # Safety
/// `block` is null or came from one of these functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_realloc(
    block: *mut c_void,
    size: usize,
    handle: usize,
    old: usize,
) -> *mut c_void {
    if block.is_null() {
        return omp_alloc(size, handle);
    }
    if size == 0 {
        // SAFETY: guaranteed by the caller.
        unsafe { omp_free(block, old) };
        return ptr::null_mut();
    }
    // SAFETY: guaranteed by the caller.
    let header = unsafe { header(block.cast()).read() };
    let handle = if handle == 0 { header.allocator } else { handle };
    // In the same pool, the bytes of the old block count towards the new one.
    let pool = user_allocator(header.allocator).filter(|_| handle == header.allocator);
    if let Some(pool) = pool {
        pool.used.fetch_sub(header.size, Ordering::Relaxed);
    }
    let new = omp_alloc(size, handle);
    if let Some(pool) = pool {
        // `omp_free` subtracts them if the old block is freed.
        pool.used.fetch_add(header.size, Ordering::Relaxed);
    }
    if !new.is_null() {
        // SAFETY: both are at least that long, and the caller permits freeing the old block.
        unsafe {
            ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast::<u8>(), size.min(header.size));
            omp_free(block, old);
        }
    }
    new
}

/// Allocates memory for `allocate` clauses and directives. Aborts the program on failure.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_alloc(align: usize, size: usize, handle: usize) -> *mut c_void {
    let block = allocate(align.max(1), size.max(1), handle, false);
    if block.is_null() {
        sys::fatal(format_args!("allocate: out of memory allocating {size} bytes"));
    }
    block.cast()
}

/// Frees memory from [`GOMP_alloc`].
///
/// # Safety
/// `block` came from [`GOMP_alloc`], or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_free(block: *mut c_void, handle: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { omp_free(block, handle) };
}

/// Fortran binding of `omp_init_allocator`.
///
/// # Safety
/// All arguments point to variables of the program, and `traits` to as many traits as `count` specifies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_init_allocator_(
    space: *const usize,
    count: *const i32,
    traits: *const Trait,
) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { omp_init_allocator(*space, *count, traits) }
}

/// Fortran binding of `omp_init_allocator` with 64-bit integers.
///
/// # Safety
/// All arguments point to variables of the program, and `traits` to as many traits as `count` specifies.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_init_allocator_8_(
    space: *const usize,
    count: *const i64,
    traits: *const Trait,
) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { omp_init_allocator(*space, i32::try_from(*count).unwrap_or(0), traits) }
}

/// Fortran binding of `omp_destroy_allocator`.
///
/// # Safety
/// `handle` points to a variable of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_destroy_allocator_(handle: *const usize) {
    // SAFETY: guaranteed by the caller.
    omp_destroy_allocator(unsafe { *handle });
}

/// Fortran binding of `omp_set_default_allocator`.
///
/// # Safety
/// `handle` points to a variable of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_set_default_allocator_(handle: *const usize) {
    // SAFETY: guaranteed by the caller.
    omp_set_default_allocator(unsafe { *handle });
}

/// Fortran binding of `omp_get_default_allocator`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_get_default_allocator_() -> usize {
    omp_get_default_allocator()
}

const _: () = assert!(NULL == 12 && size_of::<Trait>() == 16);

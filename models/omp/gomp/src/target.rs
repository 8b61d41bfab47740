//! `target`: regions and data for devices. There is no device besides the host yet, so regions run here, as OpenMP says they
//! do, in an implicit region of their own; data is where it should be already.

use std::ffi::{c_int, c_void};
use std::ptr;

use tombolo_omp::team::Team;
use tombolo_omp::thread::{self, Function, Thread};
use tombolo_omp::{barrier, depend, share, sys};

use crate::tasks::dependences;

/// GCC's number of the host where `if` says that a region is to run here.
const FALLBACK: i32 = -2;
/// GCC's kind of data that the region gets a copy of.
const FIRSTPRIVATE: u16 = 0xc;
/// The bits of a kind; above is the logarithm of the alignment.
const KIND: u16 = 0xff;

const ARGUMENT_FOLLOWS: usize = 1 << 7;
const ARGUMENT_ID: usize = 0xff << 8;
const THREAD_LIMIT: usize = 2 << 8;

/// Runs a region of a device here: outside of the regions around, in a team of one.
fn run_here(device: i32, function: Function, addresses: *mut *mut c_void, limit: u32) {
    let me = thread::current();
    if device != FALLBACK && me.root().settings.offload_mandatory {
        sys::fatal("OMP_TARGET_OFFLOAD is mandatory, and there is no device besides the host");
    }
    let (outside, league, spare) = (me.seat(), me.league.replace((0, 0)), me.spare.take());
    let seat = Team::outermost(me.root(), me);
    if limit > 0 {
        seat.task.set_icv(|icv| icv.limit = limit);
    }
    // SAFETY: the program's function, with the addresses that the program gave for it.
    unsafe { function(addresses.cast()) };
    barrier::barrier(me, false);
    let seat = me.seat();
    share::pass(me, seat.team, seat.share);
    seat.task.end_implicit();
    me.root().give_team(seat.team);
    me.sit(outside);
    me.league.set(league);
    keep_workers(me, spare);
}

/// Goes on with the workers from before; those of the region are for others.
fn keep_workers(me: &'static Thread, before: Option<&'static Team>) {
    let Some(before) = before else { return };
    if let Some(team) = me.spare.replace(Some(before)) {
        team.dismiss_from(1, me.root());
        me.root().give_team(team);
    }
}

/// The thread limit among the arguments of a region.
///
/// # Safety
/// The words end in a zero.
unsafe fn thread_limit(mut words: *const usize) -> u32 {
    let mut limit = 0;
    if words.is_null() {
        return limit;
    }
    // SAFETY: the caller says so.
    unsafe {
        while *words != 0 {
            let word = *words;
            words = words.add(1);
            let value = if word & ARGUMENT_FOLLOWS != 0 {
                words = words.add(1);
                *words.sub(1)
            } else {
                word.cast_signed().wrapping_shr(16).cast_unsigned()
            };
            if word & ARGUMENT_ID == THREAD_LIMIT {
                limit = u32::try_from(value).unwrap_or(0);
            }
        }
    }
    limit
}

/// Copies of what a region gets copies of; they go when the region has ended.
struct Copies(Vec<Vec<u8>>);

impl Copies {
    /// # Safety
    /// There are `count` entries in each list, with such sizes at such addresses.
    unsafe fn make(
        count: usize,
        addresses: *mut *mut c_void,
        sizes: *const usize,
        kinds: *const u16,
    ) -> Self {
        let mut copies = Vec::new();
        for index in 0..count {
            // SAFETY: the caller says so.
            let (place, size, kind) = unsafe { (addresses.add(index), *sizes.add(index), *kinds.add(index)) };
            if kind & KIND != FIRSTPRIVATE {
                continue;
            }
            let align = 1_usize << (kind >> 8).min(12);
            let mut copy = vec![0_u8; size + align - 1];
            let skipped = (copy.as_ptr() as usize).next_multiple_of(align) - copy.as_ptr() as usize;
            let target = copy[skipped..].as_mut_ptr();
            // SAFETY: the copy is that long, and the caller says that the original is.
            unsafe {
                ptr::copy_nonoverlapping((*place).cast::<u8>(), target, size);
                *place = target.cast();
            }
            copies.push(copy);
        }
        Self(copies)
    }
}

/// Waits for what a construct depends on. It then runs at once, so nobody has to wait for it.
///
/// # Safety
/// The words are null or as GCC passes them.
unsafe fn wait_for(words: *const usize) {
    if words.is_null() {
        return;
    }
    let me = thread::current();
    // SAFETY: the caller says so.
    let depend = unsafe { dependences(words) };
    depend::wait_for(me, me.task(), &depend);
}

/// `target`.
///
/// # Safety
/// All pointers are null or as GCC passes them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_target_ext(
    device: i32,
    function: Function,
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *const usize,
    kinds: *const u16,
    _flags: u32,
    depend: *const usize,
    arguments: *const usize,
) {
    // SAFETY: the caller says so.
    unsafe {
        wait_for(depend);
        let copies = Copies::make(count, addresses, sizes, kinds);
        run_here(device, function, addresses, thread_limit(arguments));
        drop(copies.0);
    }
}

/// `target` as GCC before 5 has it.
///
/// # Safety
/// All pointers are null or as GCC passes them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_target(
    device: i32,
    function: Function,
    _unused: *const c_void,
    _count: usize,
    addresses: *mut *mut c_void,
    _sizes: *const usize,
    _kinds: *const u8,
) {
    run_here(device, function, addresses, 0);
}

/// `target data`: the data is here.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_target_data_ext(
    _device: i32,
    _count: usize,
    _addresses: *mut *mut c_void,
    _sizes: *const usize,
    _kinds: *const u16,
) {
}

/// `target data` as GCC before 5 has it.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_target_data(
    _device: i32,
    _unused: *const c_void,
    _count: usize,
    _addresses: *mut *mut c_void,
    _sizes: *const usize,
    _kinds: *const u8,
) {
}

/// The end of `target data`.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_target_end_data() {}

/// `target update`: the data is here.
///
/// # Safety
/// All pointers are null or as GCC passes them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_target_update_ext(
    _device: i32,
    _count: usize,
    _addresses: *mut *mut c_void,
    _sizes: *const usize,
    _kinds: *const u16,
    _flags: u32,
    depend: *const usize,
) {
    // SAFETY: the caller says so.
    unsafe { wait_for(depend) };
}

/// `target update` as GCC before 5 has it.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_target_update(
    _device: i32,
    _unused: *const c_void,
    _count: usize,
    _addresses: *mut *mut c_void,
    _sizes: *const usize,
    _kinds: *const u8,
) {
}

/// `target enter data` and `target exit data`: the data is here.
///
/// # Safety
/// All pointers are null or as GCC passes them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOMP_target_enter_exit_data(
    _device: i32,
    _count: usize,
    _addresses: *mut *mut c_void,
    _sizes: *const usize,
    _kinds: *const u16,
    _flags: u32,
    depend: *const usize,
) {
    // SAFETY: the caller says so.
    unsafe { wait_for(depend) };
}

/// Tables of code for accelerators: there are none that they could be for.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_offload_register_ver(
    _version: u32,
    _host: *const c_void,
    _type: c_int,
    _data: *const c_void,
) {
}

/// As above.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_offload_register(_host: *const c_void, _type: c_int, _data: *const c_void) {}

/// As above.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_offload_unregister_ver(
    _version: u32,
    _host: *const c_void,
    _type: c_int,
    _data: *const c_void,
) {
}

/// As above.
#[unsafe(no_mangle)]
pub extern "C" fn GOMP_offload_unregister(_host: *const c_void, _type: c_int, _data: *const c_void) {}

/// Whether a number is the host's.
fn is_host(device: i32) -> bool {
    device == 0 || device == FALLBACK
}

/// Memory of a device; null if there is no such device.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_alloc(size: usize, device: i32) -> *mut c_void {
    if !is_host(device) {
        return ptr::null_mut();
    }
    // SAFETY: any size may be asked for.
    unsafe { libc::malloc(size) }
}

/// Gives memory of a device back.
///
/// # Safety
/// It came from [`omp_target_alloc`], or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_free(memory: *mut c_void, device: i32) {
    if is_host(device) {
        // SAFETY: the caller says so.
        unsafe { libc::free(memory) };
    }
}

/// Whether memory of the host is there on a device too.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_is_present(_memory: *const c_void, device: i32) -> i32 {
    i32::from(is_host(device))
}

/// Copies between devices. 0, or `EINVAL` if there is no such device.
///
/// # Safety
/// Both are as long as offset and length say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memcpy(
    target: *mut c_void,
    source: *const c_void,
    length: usize,
    target_offset: usize,
    source_offset: usize,
    target_device: i32,
    source_device: i32,
) -> i32 {
    if !is_host(target_device) || !is_host(source_device) {
        return libc::EINVAL;
    }
    // SAFETY: the caller says so; the two may overlap.
    unsafe {
        let (target, source) =
            (target.cast::<u8>().add(target_offset), source.cast::<u8>().add(source_offset));
        ptr::copy(source, target, length);
    }
    0
}

/// Dimensions that a block may have at most.
const DIMENSIONS: usize = 64;

/// A block within an array: in each dimension its length, where it begins, and how long the array is.
struct Block {
    lengths: *const usize,
    target: (*const usize, *const usize),
    source: (*const usize, *const usize),
}

impl Block {
    /// Copies what is left from this dimension on.
    ///
    /// # Safety
    /// The arrays are as large as their dimensions say, and there are so many of these.
    unsafe fn copy(&self, at: usize, dimensions: usize, target: *mut u8, source: *const u8, element: usize) {
        // SAFETY: the caller says so.
        unsafe {
            let length = *self.lengths.add(at);
            let (to, from) = (*self.target.0.add(at), *self.source.0.add(at));
            let rest = |lengths: *const usize| {
                (at + 1..dimensions).map(|at| *lengths.add(at)).product::<usize>() * element
            };
            let (target_step, source_step) = (rest(self.target.1), rest(self.source.1));
            let (target, source) = (target.add(to * target_step), source.add(from * source_step));
            if at + 1 == dimensions {
                return ptr::copy(source, target, length * element);
            }
            for index in 0..length {
                let (target, source) = (target.add(index * target_step), source.add(index * source_step));
                self.copy(at + 1, dimensions, target, source, element);
            }
        }
    }
}

/// Copies a block of an array between devices. 0, or `EINVAL`; without arrays, how many dimensions there may be.
///
/// # Safety
/// The arrays are as large as their dimensions say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memcpy_rect(
    target: *mut c_void,
    source: *const c_void,
    element: usize,
    dimensions: i32,
    lengths: *const usize,
    target_offsets: *const usize,
    source_offsets: *const usize,
    target_lengths: *const usize,
    source_lengths: *const usize,
    target_device: i32,
    source_device: i32,
) -> i32 {
    if target.is_null() && source.is_null() {
        return i32::MAX;
    }
    let count = usize::try_from(dimensions).unwrap_or(0);
    if count == 0 || count > DIMENSIONS || !is_host(target_device) || !is_host(source_device) {
        return libc::EINVAL;
    }
    let block =
        Block { lengths, target: (target_offsets, target_lengths), source: (source_offsets, source_lengths) };
    // SAFETY: the caller says so.
    unsafe { block.copy(0, count, target.cast(), source.cast(), element) };
    0
}

/// Has a device use memory for what the host has. The host has it already: `EINVAL`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_associate_ptr(
    _host: *const c_void,
    _memory: *const c_void,
    _size: usize,
    _offset: usize,
    _device: i32,
) -> i32 {
    libc::EINVAL
}

/// The reverse: `EINVAL`.
#[unsafe(no_mangle)]
pub extern "C" fn omp_target_disassociate_ptr(_host: *const c_void, _device: i32) -> i32 {
    libc::EINVAL
}

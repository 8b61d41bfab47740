//! What Fortran calls and what is not like C's: arguments by reference, numbers of 64 bits, text with
//! lengths.

use std::ffi::c_char;
use std::ptr;
use std::slice;

use tombolo_omp_team::constructs::affinity;
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::lock::NestLock;
use tombolo_omp_team::primitives::sys;

use crate::api;

/// Questions about a level or a place.
macro_rules! about_number {
    ($($name:ident $fortran:ident $fortran8:ident;)*) => {$(
        /// The Fortran entry of the C function of this name.
        ///
        /// # Safety
        /// The value is the program's variable.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $fortran(value: *const i32) -> i32 {
            // SAFETY: the caller says so.
            api::$name(unsafe { *value })
        }

        /// As in C, with numbers of 64 bits.
        ///
        /// # Safety
        /// The value is the program's variable.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $fortran8(value: *const i64) -> i32 {
            // SAFETY: the caller says so.
            api::$name(i32::try_from(unsafe { *value }).unwrap_or(-1))
        }
    )*};
}

about_number! {
    omp_get_ancestor_thread_num omp_get_ancestor_thread_num_ omp_get_ancestor_thread_num_8_;
    omp_get_team_size omp_get_team_size_ omp_get_team_size_8_;
    omp_get_place_num_procs omp_get_place_num_procs_ omp_get_place_num_procs_8_;
}

/// The numbers of the processors of a place.
///
/// # Safety
/// There is room for as many as there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_place_proc_ids_(place: *const i32, ids: *mut i32) {
    // SAFETY: the caller says so.
    unsafe { api::omp_get_place_proc_ids(*place, ids) };
}

/// The same with numbers of 64 bits.
///
/// # Safety
/// There is room for as many as there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_place_proc_ids_8_(place: *const i64, ids: *mut i64) {
    // SAFETY: the caller says so.
    let place = i32::try_from(unsafe { *place }).unwrap_or(-1);
    let mut short = vec![0; usize::try_from(api::omp_get_place_num_procs(place)).unwrap_or(0)];
    // SAFETY: the list is as long as there are processors, and so is the caller's.
    unsafe {
        api::omp_get_place_proc_ids(place, short.as_mut_ptr());
        for (index, id) in short.into_iter().enumerate() {
            ids.add(index).write(i64::from(id));
        }
    }
}

/// The numbers of the places that there are for the thread's teams.
///
/// # Safety
/// There is room for as many as there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_partition_place_nums_(places: *mut i32) {
    // SAFETY: the caller says so.
    unsafe { api::omp_get_partition_place_nums(places) };
}

/// The same with numbers of 64 bits.
///
/// # Safety
/// There is room for as many as there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_partition_place_nums_8_(places: *mut i64) {
    let (first, count) = start::current().partition.get();
    for index in 0..count {
        // SAFETY: the caller says so.
        unsafe { places.add(index as usize).write(i64::from(first + index)) };
    }
}

/// Sets what `schedule(runtime)` is.
///
/// # Safety
/// Both are variables of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_set_schedule_(kind: *const i32, chunk: *const i32) {
    // SAFETY: the caller says so.
    unsafe { api::omp_set_schedule((*kind).cast_unsigned(), *chunk) };
}

/// The same with numbers of 64 bits.
///
/// # Safety
/// Both are variables of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_set_schedule_8_(kind: *const i32, chunk: *const i64) {
    // SAFETY: the caller says so.
    unsafe { api::omp_set_schedule((*kind).cast_unsigned(), i32::try_from(*chunk).unwrap_or(i32::MAX)) };
}

/// What `schedule(runtime)` is.
///
/// # Safety
/// Both are variables of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_schedule_(kind: *mut u32, chunk: *mut i32) {
    // SAFETY: the caller says so.
    unsafe { api::omp_get_schedule(kind, chunk) };
}

/// The same with numbers of 64 bits.
///
/// # Safety
/// Both are variables of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_schedule_8_(kind: *mut u32, chunk: *mut i64) {
    let mut short = 0;
    // SAFETY: the caller says so.
    unsafe {
        api::omp_get_schedule(kind, &raw mut short);
        chunk.write(i64::from(short));
    }
}

/// A lock that its owner may take again is longer than Fortran's variable for it, which holds where it is.
///
/// # Safety
/// The variable is the program's, and was initialised.
unsafe fn nested(variable: *mut *mut NestLock) -> *mut NestLock {
    // SAFETY: the caller says so.
    unsafe { *variable }
}

/// Makes such a lock.
///
/// # Safety
/// The variable is the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_init_nest_lock_(variable: *mut *mut NestLock) {
    let store = start::root().store;
    let Some(memory) = store.allocate(size_of::<NestLock>(), 16) else { store.exhausted() };
    // SAFETY: the memory is ours, and its bytes may be anything.
    unsafe {
        api::omp_init_nest_lock(memory.cast());
        variable.write(memory.cast());
    }
}

/// Ends such a lock.
///
/// # Safety
/// The variable is the program's, and was initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_destroy_nest_lock_(variable: *mut *mut NestLock) {
    // SAFETY: the caller says so.
    unsafe {
        start::root().store.release(nested(variable).cast());
        variable.write(ptr::null_mut());
    }
}

/// Takes such a lock, and waits for it.
///
/// # Safety
/// The variable is the program's, and was initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_set_nest_lock_(variable: *mut *mut NestLock) {
    // SAFETY: the caller says so.
    unsafe { api::omp_set_nest_lock(nested(variable)) };
}

/// Gives such a lock back once.
///
/// # Safety
/// The variable is the program's, and was initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_unset_nest_lock_(variable: *mut *mut NestLock) {
    // SAFETY: the caller says so.
    unsafe { api::omp_unset_nest_lock(nested(variable)) };
}

/// Takes such a lock unless another task holds it. Returns how often the task now holds it.
///
/// # Safety
/// The variable is the program's, and was initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_test_nest_lock_(variable: *mut *mut NestLock) -> i32 {
    // SAFETY: the caller says so.
    unsafe { api::omp_test_nest_lock(nested(variable)) }
}

/// Fortran's text, without the spaces at its end.
///
/// # Safety
/// The text is so long.
unsafe fn text(text: *const c_char, length: usize) -> String {
    if text.is_null() || length == 0 {
        return String::new();
    }
    // SAFETY: the caller says so.
    let bytes = unsafe { slice::from_raw_parts(text.cast::<u8>(), length) };
    String::from_utf8_lossy(bytes).trim_end_matches(' ').to_owned()
}

/// Fills Fortran's variable with text and spaces.
///
/// # Safety
/// The variable is so long.
unsafe fn fill(text: &str, buffer: *mut c_char, length: usize) {
    // SAFETY: the caller says so.
    let place = unsafe { slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
    let count = text.len().min(length);
    place[..count].copy_from_slice(&text.as_bytes()[..count]);
    place[count..].fill(b' ');
}

/// Sets how [`omp_display_affinity_`] shows where threads are.
///
/// # Safety
/// The text is so long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_set_affinity_format_(format: *const c_char, length: usize) {
    // SAFETY: the caller says so.
    affinity::set_format(start::root(), unsafe { text(format, length) }.as_bytes());
}

/// The format; how long it is.
///
/// # Safety
/// The variable is so long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_affinity_format_(buffer: *mut c_char, length: usize) -> i32 {
    let format = affinity::format(start::root());
    // SAFETY: the caller says so.
    unsafe { fill(&format, buffer, length) };
    i32::try_from(format.len()).unwrap_or(i32::MAX)
}

fn shown(format: String) -> String {
    let format = if format.is_empty() { affinity::format(start::root()) } else { format };
    affinity::show(start::current(), &format)
}

/// Shows where this thread is on standard error.
///
/// # Safety
/// The text is so long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_display_affinity_(format: *const c_char, length: usize) {
    // SAFETY: the caller says so.
    sys::complain(shown(unsafe { text(format, length) }) + "\n");
}

/// Where this thread is; how long that is.
///
/// # Safety
/// Both are so long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_capture_affinity_(
    buffer: *mut c_char,
    format: *const c_char,
    buffer_length: usize,
    format_length: usize,
) -> i32 {
    // SAFETY: the caller says so.
    let shown = shown(unsafe { text(format, format_length) });
    // SAFETY: the caller says so.
    unsafe { fill(&shown, buffer, buffer_length) };
    i32::try_from(shown.len()).unwrap_or(i32::MAX)
}

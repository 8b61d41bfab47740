//! Fortran bindings that differ from C's functions: arguments by reference, 64-bit integers, strings with
//! lengths.

use std::ffi::c_char;
use std::ptr;
use std::slice;

use tombolo_omp_team::constructs::affinity;
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::lock::NestLock;
use tombolo_omp_team::primitives::sys;

use crate::api;

/// Queries about a level or a place.
macro_rules! about_number {
    ($($name:ident $fortran:ident $fortran8:ident;)*) => {$(
        /// The Fortran entry of the C function of this name.
        ///
        /// # Safety
        /// `value` points to a variable of the program.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $fortran(value: *const i32) -> i32 {
            // SAFETY: guaranteed by the caller.
            api::$name(unsafe { *value })
        }

        /// The Fortran entry with a 64-bit integer.
        ///
        /// # Safety
        /// `value` points to a variable of the program.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $fortran8(value: *const i64) -> i32 {
            // SAFETY: guaranteed by the caller.
            api::$name(i32::try_from(unsafe { *value }).unwrap_or(-1))
        }
    )*};
}

about_number! {
    omp_get_ancestor_thread_num omp_get_ancestor_thread_num_ omp_get_ancestor_thread_num_8_;
    omp_get_team_size omp_get_team_size_ omp_get_team_size_8_;
    omp_get_place_num_procs omp_get_place_num_procs_ omp_get_place_num_procs_8_;
}

/// Stores the processor numbers of a place.
///
/// # Safety
/// The array has room for all numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_place_proc_ids_(place: *const i32, ids: *mut i32) {
    // SAFETY: guaranteed by the caller.
    unsafe { api::omp_get_place_proc_ids(*place, ids) };
}

/// The same with 64-bit integers.
///
/// # Safety
/// The array has room for all numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_place_proc_ids_8_(place: *const i64, ids: *mut i64) {
    // SAFETY: guaranteed by the caller.
    let place = i32::try_from(unsafe { *place }).unwrap_or(-1);
    let mut short = vec![0; usize::try_from(api::omp_get_place_num_procs(place)).unwrap_or(0)];
    // SAFETY: the local array has an element for each processor, and so has the caller's.
    unsafe {
        api::omp_get_place_proc_ids(place, short.as_mut_ptr());
        for (index, id) in short.into_iter().enumerate() {
            ids.add(index).write(i64::from(id));
        }
    }
}

/// Stores the numbers of the places in the thread's partition.
///
/// # Safety
/// The array has room for all numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_partition_place_nums_(places: *mut i32) {
    // SAFETY: guaranteed by the caller.
    unsafe { api::omp_get_partition_place_nums(places) };
}

/// The same with 64-bit integers.
///
/// # Safety
/// The array has room for all numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_partition_place_nums_8_(places: *mut i64) {
    let (first, count) = start::current().partition.get();
    for index in 0..count {
        // SAFETY: guaranteed by the caller.
        unsafe { places.add(index as usize).write(i64::from(first + index)) };
    }
}

/// Sets the schedule of `schedule(runtime)`.
///
/// # Safety
/// Both arguments point to variables of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_set_schedule_(kind: *const i32, chunk: *const i32) {
    // SAFETY: guaranteed by the caller.
    unsafe { api::omp_set_schedule((*kind).cast_unsigned(), *chunk) };
}

/// The same with 64-bit integers.
///
/// # Safety
/// Both arguments point to variables of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_set_schedule_8_(kind: *const i32, chunk: *const i64) {
    // SAFETY: guaranteed by the caller.
    unsafe { api::omp_set_schedule((*kind).cast_unsigned(), i32::try_from(*chunk).unwrap_or(i32::MAX)) };
}

/// Stores the schedule of `schedule(runtime)`.
///
/// # Safety
/// Both arguments point to variables of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_schedule_(kind: *mut u32, chunk: *mut i32) {
    // SAFETY: guaranteed by the caller.
    unsafe { api::omp_get_schedule(kind, chunk) };
}

/// The same with 64-bit integers.
///
/// # Safety
/// Both arguments point to variables of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_schedule_8_(kind: *mut u32, chunk: *mut i64) {
    let mut short = 0;
    // SAFETY: guaranteed by the caller.
    unsafe {
        api::omp_get_schedule(kind, &raw mut short);
        chunk.write(i64::from(short));
    }
}

/// Returns the nestable lock of a Fortran variable, which is too short for the lock itself and holds its
/// address.
///
/// # Safety
/// `variable` is the program's, and was initialised.
unsafe fn nested(variable: *mut *mut NestLock) -> *mut NestLock {
    // SAFETY: guaranteed by the caller.
    unsafe { *variable }
}

/// Allocates and initializes a nestable lock.
///
/// # Safety
/// `variable` is the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_init_nest_lock_(variable: *mut *mut NestLock) {
    let store = start::root().store;
    let Some(memory) = store.allocate(size_of::<NestLock>(), 16) else { store.exhausted() };
    // SAFETY: the memory is new, and any bytes are a valid lock.
    unsafe {
        api::omp_init_nest_lock(memory.cast());
        variable.write(memory.cast());
    }
}

/// Destroys and frees a nestable lock.
///
/// # Safety
/// `variable` is the program's, and was initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_destroy_nest_lock_(variable: *mut *mut NestLock) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        start::root().store.release(nested(variable).cast());
        variable.write(ptr::null_mut());
    }
}

/// Acquires a nestable lock, waiting until it is free.
///
/// # Safety
/// `variable` is the program's, and was initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_set_nest_lock_(variable: *mut *mut NestLock) {
    // SAFETY: guaranteed by the caller.
    unsafe { api::omp_set_nest_lock(nested(variable)) };
}

/// Releases a nestable lock once.
///
/// # Safety
/// `variable` is the program's, and was initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_unset_nest_lock_(variable: *mut *mut NestLock) {
    // SAFETY: guaranteed by the caller.
    unsafe { api::omp_unset_nest_lock(nested(variable)) };
}

/// Acquires a nestable lock unless another task holds it. Returns the task's nesting count.
///
/// # Safety
/// `variable` is the program's, and was initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_test_nest_lock_(variable: *mut *mut NestLock) -> i32 {
    // SAFETY: guaranteed by the caller.
    unsafe { api::omp_test_nest_lock(nested(variable)) }
}

/// Converts a Fortran string, without its trailing spaces.
///
/// # Safety
/// `text` has `length` bytes.
unsafe fn text(text: *const c_char, length: usize) -> String {
    if text.is_null() || length == 0 {
        return String::new();
    }
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { slice::from_raw_parts(text.cast::<u8>(), length) };
    String::from_utf8_lossy(bytes).trim_end_matches(' ').to_owned()
}

/// Fills a Fortran variable with text, padded with spaces.
///
/// # Safety
/// `buffer` has `length` bytes.
unsafe fn fill(text: &str, buffer: *mut c_char, length: usize) {
    // SAFETY: guaranteed by the caller.
    let place = unsafe { slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
    let count = text.len().min(length);
    place[..count].copy_from_slice(&text.as_bytes()[..count]);
    place[count..].fill(b' ');
}

/// Sets the default format of [`omp_display_affinity_`].
///
/// # Safety
/// `format` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_set_affinity_format_(format: *const c_char, length: usize) {
    // SAFETY: guaranteed by the caller.
    affinity::set_format(start::root(), unsafe { text(format, length) }.as_bytes());
}

/// Stores the affinity format and returns its length.
///
/// # Safety
/// `buffer` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_get_affinity_format_(buffer: *mut c_char, length: usize) -> i32 {
    let format = affinity::format(start::root());
    // SAFETY: guaranteed by the caller.
    unsafe { fill(&format, buffer, length) };
    i32::try_from(format.len()).unwrap_or(i32::MAX)
}

fn format_affinity(format: String) -> String {
    let format = if format.is_empty() { affinity::format(start::root()) } else { format };
    affinity::expand_format(start::current(), &format)
}

/// Prints this thread's affinity to standard error.
///
/// # Safety
/// `format` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_display_affinity_(format: *const c_char, length: usize) {
    // SAFETY: guaranteed by the caller.
    sys::print_error(format_affinity(unsafe { text(format, length) }) + "\n");
}

/// Stores this thread's affinity as text and returns its length.
///
/// # Safety
/// `buffer` and `format` have these lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_capture_affinity_(
    buffer: *mut c_char,
    format: *const c_char,
    buffer_length: usize,
    format_length: usize,
) -> i32 {
    // SAFETY: guaranteed by the caller.
    let formatted = format_affinity(unsafe { text(format, format_length) });
    // SAFETY: guaranteed by the caller.
    unsafe { fill(&formatted, buffer, buffer_length) };
    i32::try_from(formatted.len()).unwrap_or(i32::MAX)
}

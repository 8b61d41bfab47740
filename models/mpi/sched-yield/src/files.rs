//! `MPI_File_open` in front of MPI's, for jobs whose nodes have no file system in common.
//!
//! `tombolo mpirun` has ROMIO refuse to open files there, by `ROMIO_FSTYPE_FORCE`. For files MPI returns
//! errors unless a program asks for something else, and ROMIO leaves the handle as it was: a program that
//! checks nothing then crashes in its first write, without a word. So the reason goes to standard error, and
//! the handle becomes null, for which MPI refuses every later call.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::Write;
use std::ptr;
use std::sync::Once;

/// What has ROMIO refuse: `panfs: (the reason)`.
const REFUSAL: &str = "ROMIO_FSTYPE_FORCE";

const NAME: &CStr = c"MPI_File_open";

/// The null handle of files in MPICH's own interface, and in that of MPI 5 (`libmpi_abi.so`).
const NULL: usize = 0;
const NULL_OF_MPI_ABI: usize = 0x118;

/// An error class that is the same in every MPI.
const MPI_ERR_OTHER: c_int = 15;

/// Handles are integers in one interface and pointers in the other; they are passed on as the registers that
/// they come in.
type Open = unsafe extern "C" fn(usize, *const c_char, c_int, usize, *mut usize) -> c_int;

const RTLD_NEXT: *mut c_void = ptr::without_provenance_mut(usize::MAX);
const RTLD_LAZY: c_int = 1;
const RTLD_NOLOAD: c_int = 4;

/// The beginning of `struct dl_phdr_info`.
#[repr(C)]
struct Loaded {
    address: usize,
    name: *const c_char,
}

// SAFETY: as the C library declares them.
unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dl_iterate_phdr(
        callback: unsafe extern "C" fn(*const Loaded, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

/// Opens a file as MPI does, and says why not where the job has it refused.
///
/// # Safety
/// The caller keeps to what MPI says of `MPI_File_open`.
// SAFETY: the name is MPI's, of the same signature; the call goes on to MPI's own.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name is of MPI")]
pub(crate) unsafe extern "C" fn MPI_File_open(
    comm: usize,
    name: *const c_char,
    mode: c_int,
    info: usize,
    file: *mut usize,
) -> c_int {
    let Some((open, null)) = find_open() else { return MPI_ERR_OTHER };
    // SAFETY: the caller keeps to what MPI says of it.
    let error = unsafe { open(comm, name, mode, info, file) };
    if error != 0
        && let Ok(value) = std::env::var(REFUSAL)
        && let Some(reason) = reason(&value)
    {
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            // A standard error that is closed is no reason to fail.
            let _ = writeln!(std::io::stderr(), "tombolo: {reason}");
        });
        // SAFETY: MPI's caller lends it, for a handle of this size.
        unsafe { file.write(null) };
    }
    error
}

/// Why a job has files refused, if it has.
fn reason(value: &str) -> Option<&str> {
    value.strip_prefix("panfs: (")?.strip_suffix(')')
}

/// MPI's own function, and the null handle of its interface.
fn find_open() -> Option<(Open, usize)> {
    let libraries = loaded_mpis();
    // SAFETY: the name ends with a zero.
    let next = unsafe { dlsym(RTLD_NEXT, NAME.as_ptr()) };
    // Python loads MPI beside what the process began with, where `RTLD_NEXT` does not look.
    let found =
        if next.is_null() { libraries.iter().find_map(|library| function_of(library))? } else { next };
    // SAFETY: a function of this name is MPI's, with this signature.
    let open = unsafe { std::mem::transmute::<*mut c_void, Open>(found) };
    let is_abi = libraries.iter().any(|path| path.to_string_lossy().contains("libmpi_abi.so"));
    Some((open, if is_abi { NULL_OF_MPI_ABI } else { NULL }))
}

/// The function of a library that is loaded.
fn function_of(library: &CStr) -> Option<*mut c_void> {
    // SAFETY: the path ends with a zero, and nothing is loaded that is not there already.
    let handle = unsafe { dlopen(library.as_ptr(), RTLD_LAZY | RTLD_NOLOAD) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: the handle is of a library that is loaded, and is never given back; the name ends with a zero.
    let found = unsafe { dlsym(handle, NAME.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// The paths of libraries in this process whose names are those of an MPI.
fn loaded_mpis() -> Vec<CString> {
    /// # Safety
    /// The loader calls it, with the list that `dl_iterate_phdr` was given.
    unsafe extern "C" fn note(loaded: *const Loaded, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader passes what it was given, and an entry whose name ends with a zero.
        let (paths, path) = unsafe { (&mut *data.cast::<Vec<CString>>(), CStr::from_ptr((*loaded).name)) };
        if path.to_string_lossy().contains("/libmpi") {
            paths.push(path.to_owned());
        }
        0
    }
    let mut paths: Vec<CString> = Vec::new();
    // SAFETY: the function takes what the loader passes, and the list outlives the call.
    unsafe { dl_iterate_phdr(note, ptr::from_mut(&mut paths).cast()) };
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_of_mpirun_is_a_reason() {
        assert_eq!(reason("panfs: (MPI-IO is refused: why)"), Some("MPI-IO is refused: why"));
        assert_eq!(reason("ufs:"), None);
        assert_eq!(reason("panfs:"), None);
    }

    #[test]
    fn a_program_without_mpi_has_an_error_and_no_crash() {
        let mut file = 7;
        // SAFETY: without MPI nothing is looked at.
        let error = unsafe { MPI_File_open(0, c"name".as_ptr(), 0, 0, &raw mut file) };
        assert_eq!((error, file), (MPI_ERR_OTHER, 7));
    }
}

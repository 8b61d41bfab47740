//! Wrapper of `MPI_File_open` for jobs whose nodes have no common file system.
//!
//! In such jobs `tombolo mpirun` makes ROMIO refuse to open files, with `ROMIO_FSTYPE_FORCE`. For files MPI
//! returns errors by default, and ROMIO leaves the handle unchanged: a program without error checks then
//! crashes in its first write, without a message. So this wrapper prints the reason to standard error and
//! sets the handle to null, with which MPI rejects every later call.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::Write;
use std::ptr;
use std::sync::Once;

/// Variable that makes ROMIO refuse; its value is `panfs: (the reason)`.
const REFUSAL: &str = "ROMIO_FSTYPE_FORCE";

const NAME: &CStr = c"MPI_File_open";

/// The null handle of files in MPICH's own interface, and in that of MPI 5 (`libmpi_abi.so`).
const NULL: usize = 0;
const NULL_OF_MPI_ABI: usize = 0x118;

/// Error class with the same value in every MPI.
const MPI_ERR_OTHER: c_int = 15;

/// Signature of `MPI_File_open`. Handles are integers in one interface and pointers in the other; both are
/// passed on in full registers.
type Open = unsafe extern "C" fn(usize, *const c_char, c_int, usize, *mut usize) -> c_int;

const RTLD_NEXT: *mut c_void = ptr::without_provenance_mut(usize::MAX);
const RTLD_LAZY: c_int = 1;
const RTLD_NOLOAD: c_int = 4;

/// Prefix of `struct dl_phdr_info`.
#[repr(C)]
struct Loaded {
    address: usize,
    name: *const c_char,
}

// SAFETY: declared as in the C library.
unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dl_iterate_phdr(
        callback: unsafe extern "C" fn(*const Loaded, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

/// Opens a file with MPI's function, and prints the reason if the job refuses files.
///
/// # Safety
/// The caller upholds MPI's contract of `MPI_File_open`.
// SAFETY: overrides MPI's symbol with the same signature, and forwards to MPI's function.
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
    // SAFETY: the caller upholds MPI's contract.
    let error = unsafe { open(comm, name, mode, info, file) };
    if error != 0
        && let Ok(value) = std::env::var(REFUSAL)
        && let Some(reason) = reason(&value)
    {
        static REPORTED: Once = Once::new();
        REPORTED.call_once(|| {
            // Ignore a closed standard error.
            let _ = writeln!(std::io::stderr(), "tombolo: {reason}");
        });
        // SAFETY: the caller passes a pointer to a handle of this size.
        unsafe { file.write(null) };
    }
    error
}

/// Returns the reason in the variable's value, if it has the form that `tombolo mpirun` sets.
fn reason(value: &str) -> Option<&str> {
    value.strip_prefix("panfs: (")?.strip_suffix(')')
}

/// Finds MPI's own function, and the null handle of its interface.
fn find_open() -> Option<(Open, usize)> {
    let libraries = loaded_mpis();
    // SAFETY: the name ends with a zero.
    let next = unsafe { dlsym(RTLD_NEXT, NAME.as_ptr()) };
    // Python loads MPI with local scope after process start, where `RTLD_NEXT` does not find it.
    let found =
        if next.is_null() { libraries.iter().find_map(|library| function_of(library))? } else { next };
    // SAFETY: a function of this name is MPI's, with this signature.
    let open = unsafe { std::mem::transmute::<*mut c_void, Open>(found) };
    let is_abi = libraries.iter().any(|path| path.to_string_lossy().contains("libmpi_abi.so"));
    Some((open, if is_abi { NULL_OF_MPI_ABI } else { NULL }))
}

/// Finds the function in a loaded library.
fn function_of(library: &CStr) -> Option<*mut c_void> {
    // SAFETY: the path is zero-terminated, and `RTLD_NOLOAD` loads nothing new.
    let handle = unsafe { dlopen(library.as_ptr(), RTLD_LAZY | RTLD_NOLOAD) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: the handle is of a loaded library and is never closed; the name is zero-terminated.
    let found = unsafe { dlsym(handle, NAME.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Returns the paths of loaded libraries whose names are those of an MPI.
fn loaded_mpis() -> Vec<CString> {
    /// # Safety
    /// Called only by the loader, with the list that was passed to `dl_iterate_phdr`.
    unsafe extern "C" fn collect_mpi(loaded: *const Loaded, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader passes on the list, and an entry with a zero-terminated name.
        let (paths, path) = unsafe { (&mut *data.cast::<Vec<CString>>(), CStr::from_ptr((*loaded).name)) };
        if path.to_string_lossy().contains("/libmpi") {
            paths.push(path.to_owned());
        }
        0
    }
    let mut paths: Vec<CString> = Vec::new();
    // SAFETY: the callback has the signature that the loader expects, and the list outlives the call.
    unsafe { dl_iterate_phdr(collect_mpi, ptr::from_mut(&mut paths).cast()) };
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusal_by_mpirun_gives_a_reason() {
        assert_eq!(reason("panfs: (MPI-IO is refused: why)"), Some("MPI-IO is refused: why"));
        assert_eq!(reason("ufs:"), None);
        assert_eq!(reason("panfs:"), None);
    }

    #[test]
    fn program_without_mpi_gets_an_error() {
        let mut file = 7;
        // SAFETY: without MPI the arguments are not dereferenced.
        let error = unsafe { MPI_File_open(0, c"name".as_ptr(), 0, 0, &raw mut file) };
        assert_eq!((error, file), (MPI_ERR_OTHER, 7));
    }
}

//! File calls whose arguments differ between processors, and those that a worker cannot forward.

use std::ffi::{c_char, c_int, c_long, c_void};

use tombolo_omp_team::primitives::sys;

use crate::cancellation;

use super::forward::{OwnCall, WORDS, Word, forward_call, is_in_worker_process};

// SAFETY: the C library's functions; `--wrap` gives them these names.
unsafe extern "C" {
    fn __real_open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn __real_openat(folder: c_int, path: *const c_char, flags: c_int, ...) -> c_int;
    fn __real_fcntl(descriptor: c_int, command: c_int, ...) -> c_int;
    fn __real_pipe2(descriptors: *mut c_int, flags: c_int) -> c_int;
    fn __real_fstatat(folder: c_int, path: *const c_char, buffer: *mut libc::stat, flags: c_int) -> c_int;
    fn __real_mmap(
        address: *mut c_void,
        length: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        offset: c_long,
    ) -> *mut c_void;
    fn __real_epoll_create1(flags: c_int) -> c_int;
}

/// File flags whose values differ between processors: this processor's value and x86-64's.
const ISA_SPECIFIC_FLAGS: [(c_int, c_int); 4] = [
    (libc::O_DIRECT, 0o40_000),
    (libc::O_LARGEFILE, 0o100_000),
    (libc::O_DIRECTORY, 0o200_000),
    (libc::O_NOFOLLOW, 0o400_000),
];

/// Converts this processor's file flags to the values in forwarded calls, which are x86-64's.
fn to_wire_flags(flags: c_int) -> c_int {
    let kept = ISA_SPECIFIC_FLAGS.iter().fold(flags, |flags, (own, _)| flags & !own);
    ISA_SPECIFIC_FLAGS.iter().filter(|(own, _)| flags & own != 0).fold(kept, |kept, (_, wire)| kept | wire)
}

/// Converts file flags of a forwarded call to this processor's values.
fn from_wire_flags(flags: c_int) -> c_int {
    let kept = ISA_SPECIFIC_FLAGS.iter().fold(flags, |flags, (_, wire)| flags & !wire);
    ISA_SPECIFIC_FLAGS.iter().filter(|(_, wire)| flags & wire != 0).fold(kept, |kept, (own, _)| kept | own)
}

/// `open`, in the program's process. Without `O_CREAT` the mode is arbitrary.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(export_name = "__wrap_open")]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    let words = [path.to_word(), to_wire_flags(flags).to_word(), mode.to_word()];
    // SAFETY: guaranteed by the caller.
    let here = || unsafe { __real_open(path, flags, mode) };
    cancellation::cancellation_point(|| c_int::from_word(forward_call(OwnCall::Open as usize, &words)), here)
}

/// Serves `open` for another process.
///
/// # Safety
/// The words are the arguments of such a call.
pub(super) unsafe fn serve_open(&[path, flags, mode, ..]: &[u64; WORDS]) -> u64 {
    let (path, flags, mode) =
        (Word::from_word(path), from_wire_flags(c_int::from_word(flags)), libc::mode_t::from_word(mode));
    // SAFETY: the caller guarantees that the words are arguments of this function.
    unsafe { __real_open(path, flags, mode) }.to_word()
}

/// `openat`, in the program's process.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(export_name = "__wrap_openat")]
pub unsafe extern "C" fn openat(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mode: libc::mode_t,
) -> c_int {
    let words = [folder.to_word(), path.to_word(), to_wire_flags(flags).to_word(), mode.to_word()];
    // SAFETY: guaranteed by the caller.
    let here = || unsafe { __real_openat(folder, path, flags, mode) };
    cancellation::cancellation_point(
        || c_int::from_word(forward_call(OwnCall::Openat as usize, &words)),
        here,
    )
}

/// Serves `openat` for another process.
///
/// # Safety
/// The words are the arguments of such a call.
pub(super) unsafe fn serve_openat(&[folder, path, flags, mode, ..]: &[u64; WORDS]) -> u64 {
    let (path, flags) = (Word::from_word(path), from_wire_flags(c_int::from_word(flags)));
    // SAFETY: the caller guarantees that the words are arguments of this function.
    unsafe { __real_openat(c_int::from_word(folder), path, flags, libc::mode_t::from_word(mode)) }.to_word()
}

/// `fcntl`, in the program's process. The argument after the command, if any, is one word.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(export_name = "__wrap_fcntl")]
pub unsafe extern "C" fn fcntl(descriptor: c_int, command: c_int, word: u64) -> c_int {
    if !is_in_worker_process() {
        // SAFETY: guaranteed by the caller.
        return unsafe { __real_fcntl(descriptor, command, word) };
    }
    let word = if command == libc::F_SETFL { to_wire_flags(c_int::from_word(word)).to_word() } else { word };
    let result = c_int::from_word(forward_call(
        OwnCall::Fcntl as usize,
        &[descriptor.to_word(), command.to_word(), word],
    ));
    if command == libc::F_GETFL && result >= 0 { from_wire_flags(result) } else { result }
}

/// Serves `fcntl` for another process.
///
/// # Safety
/// The words are the arguments of such a call.
pub(super) unsafe fn serve_fcntl(&[descriptor, command, word, ..]: &[u64; WORDS]) -> u64 {
    let (descriptor, command) = (c_int::from_word(descriptor), c_int::from_word(command));
    let word =
        if command == libc::F_SETFL { from_wire_flags(c_int::from_word(word)).to_word() } else { word };
    // SAFETY: the caller guarantees that the words are arguments of this function.
    let result = unsafe { __real_fcntl(descriptor, command, word) };
    (if command == libc::F_GETFL && result >= 0 { to_wire_flags(result) } else { result }).to_word()
}

/// `pipe2`, in the program's process.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(export_name = "__wrap_pipe2")]
pub unsafe extern "C" fn pipe2(descriptors: *mut c_int, flags: c_int) -> c_int {
    if is_in_worker_process() {
        let words = [descriptors.to_word(), to_wire_flags(flags).to_word()];
        return c_int::from_word(forward_call(OwnCall::Pipe2 as usize, &words));
    }
    // SAFETY: guaranteed by the caller.
    unsafe { __real_pipe2(descriptors, flags) }
}

/// Serves `pipe2` for another process.
///
/// # Safety
/// The words are the arguments of such a call.
pub(super) unsafe fn serve_pipe2(&[descriptors, flags, ..]: &[u64; WORDS]) -> u64 {
    // SAFETY: the caller guarantees that the words are arguments of this function.
    unsafe { __real_pipe2(Word::from_word(descriptors), from_wire_flags(c_int::from_word(flags))) }.to_word()
}

/// Result of `fstatat` with the same layout on all processors.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct WireStat {
    dev: u64,
    ino: u64,
    nlink: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    padding: u32,
    rdev: u64,
    bytes: i64,
    block_bytes: i64,
    blocks: i64,
    times: [i64; 6],
}

/// `fstatat`, which the C library's `stat`, `lstat` and `fstat` call, in the program's process.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(export_name = "__wrap_fstatat")]
pub unsafe extern "C" fn fstatat(
    folder: c_int,
    path: *const c_char,
    buffer: *mut libc::stat,
    flags: c_int,
) -> c_int {
    if !is_in_worker_process() {
        // SAFETY: guaranteed by the caller.
        return unsafe { __real_fstatat(folder, path, buffer, flags) };
    }
    let mut received = WireStat::default();
    let words = [folder.to_word(), path.to_word(), (&raw mut received).to_word(), flags.to_word()];
    let result = c_int::from_word(forward_call(OwnCall::Fstatat as usize, &words));
    if result == 0 {
        // SAFETY: the other process has written the record; the caller guarantees that `buffer` can be
        // written.
        let (from, to) = unsafe { ((&raw const received).read_volatile(), &mut *buffer) };
        to.st_dev = from.dev;
        to.st_ino = from.ino;
        to.st_nlink = from.nlink as _;
        to.st_mode = from.mode;
        to.st_uid = from.uid;
        to.st_gid = from.gid;
        to.st_rdev = from.rdev;
        to.st_size = from.bytes;
        to.st_blksize = from.block_bytes as _;
        to.st_blocks = from.blocks;
        [to.st_atime, to.st_atime_nsec, to.st_mtime, to.st_mtime_nsec, to.st_ctime, to.st_ctime_nsec] =
            from.times;
    }
    result
}

/// Serves `fstatat` for another process.
///
/// # Safety
/// The words are the arguments of such a call.
pub(super) unsafe fn serve_fstatat(&[folder, path, buffer, flags, ..]: &[u64; WORDS]) -> u64 {
    // SAFETY: numbers, for which zero is valid.
    let mut own: libc::stat = unsafe { std::mem::zeroed() };
    let (folder, flags) = (c_int::from_word(folder), c_int::from_word(flags));
    // SAFETY: the caller guarantees that the words are arguments of this function.
    let result = unsafe { __real_fstatat(folder, Word::from_word(path), &raw mut own, flags) };
    if result == 0 {
        let sent = WireStat {
            dev: own.st_dev,
            ino: own.st_ino,
            nlink: own.st_nlink as _,
            mode: own.st_mode,
            uid: own.st_uid,
            gid: own.st_gid,
            padding: 0,
            rdev: own.st_rdev,
            bytes: own.st_size,
            block_bytes: own.st_blksize as _,
            blocks: own.st_blocks,
            times: [
                own.st_atime,
                own.st_atime_nsec,
                own.st_mtime,
                own.st_mtime_nsec,
                own.st_ctime,
                own.st_ctime_nsec,
            ],
        };
        // SAFETY: the requesting thread waits, and its record can be written.
        unsafe { <*mut WireStat>::from_word(buffer).write(sent) };
    }
    result.to_word()
}

/// `mmap`. A worker cannot map a file: the mapping would exist in its process only, and the descriptor is the
/// program's.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(export_name = "__wrap_mmap")]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: usize,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: c_long,
) -> *mut c_void {
    if flags & libc::MAP_ANONYMOUS == 0 && is_in_worker_process() {
        sys::set_errno(libc::ENODEV as usize);
        return libc::MAP_FAILED;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { __real_mmap(address, length, prot, flags, fd, offset) }
}

/// `epoll_create1`. Not available to workers: the size of `struct epoll_event` differs between processors.
#[unsafe(export_name = "__wrap_epoll_create1")]
pub extern "C" fn epoll_create1(flags: c_int) -> c_int {
    if is_in_worker_process() {
        sys::set_errno(libc::ENOSYS as usize);
        return -1;
    }
    // SAFETY: the call takes no pointers.
    unsafe { __real_epoll_create1(flags) }
}

/// `epoll_create`: as [`epoll_create1`].
#[unsafe(export_name = "__wrap_epoll_create")]
pub extern "C" fn epoll_create(size: c_int) -> c_int {
    if size > 0 {
        return epoll_create1(0);
    }
    sys::set_errno(libc::EINVAL as usize);
    -1
}

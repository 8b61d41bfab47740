//! File calls whose arguments differ between processors, and those that a worker cannot forward.

use std::ffi::{c_char, c_int, c_long, c_void};

use tombolo_omp_team::primitives::sys;

use crate::cancellation;

use super::forward::{Own, WORDS, Word, ask, is_elsewhere};

// SAFETY: the C library's functions; `--wrap` gives them these names.
unsafe extern "C" {
    fn __real_open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn __real_openat(folder: c_int, path: *const c_char, flags: c_int, ...) -> c_int;
    fn __real_fcntl(descriptor: c_int, command: c_int, ...) -> c_int;
    fn __real_pipe2(descriptors: *mut c_int, flags: c_int) -> c_int;
    fn __real_fstatat(folder: c_int, path: *const c_char, about: *mut libc::stat, flags: c_int) -> c_int;
    fn __real_mmap(
        address: *mut c_void,
        length: usize,
        rights: c_int,
        flags: c_int,
        file: c_int,
        offset: c_long,
    ) -> *mut c_void;
    fn __real_epoll_create1(flags: c_int) -> c_int;
}

/// File flags whose values differ between processors: this processor's value and x86-64's.
const DIFFERENT: [(c_int, c_int); 4] = [
    (libc::O_DIRECT, 0o40_000),
    (libc::O_LARGEFILE, 0o100_000),
    (libc::O_DIRECTORY, 0o200_000),
    (libc::O_NOFOLLOW, 0o400_000),
];

/// Converts this processor's file flags to the values in forwarded calls, which are x86-64's.
fn sent(flags: c_int) -> c_int {
    let kept = DIFFERENT.iter().fold(flags, |flags, (own, _)| flags & !own);
    DIFFERENT.iter().filter(|(own, _)| flags & own != 0).fold(kept, |kept, (_, sent)| kept | sent)
}

/// Converts file flags of a forwarded call to this processor's values.
fn received(flags: c_int) -> c_int {
    let kept = DIFFERENT.iter().fold(flags, |flags, (_, sent)| flags & !sent);
    DIFFERENT.iter().filter(|(_, sent)| flags & sent != 0).fold(kept, |kept, (own, _)| kept | own)
}

/// `open`, in the program's process. Without `O_CREAT` the mode is arbitrary.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(export_name = "__wrap_open")]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    let words = [path.to_word(), sent(flags).to_word(), mode.to_word()];
    // SAFETY: guaranteed by the caller.
    let here = || unsafe { __real_open(path, flags, mode) };
    cancellation::point(|| c_int::from_word(ask(Own::Open as usize, &words)), here)
}

/// Serves `open` for another process.
///
/// # Safety
/// The words are the arguments of such a call.
pub(super) unsafe fn serve_open(&[path, flags, mode, ..]: &[u64; WORDS]) -> u64 {
    let (path, flags, mode) =
        (Word::from_word(path), received(c_int::from_word(flags)), libc::mode_t::from_word(mode));
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
    let words = [folder.to_word(), path.to_word(), sent(flags).to_word(), mode.to_word()];
    // SAFETY: guaranteed by the caller.
    let here = || unsafe { __real_openat(folder, path, flags, mode) };
    cancellation::point(|| c_int::from_word(ask(Own::Openat as usize, &words)), here)
}

/// Serves `openat` for another process.
///
/// # Safety
/// The words are the arguments of such a call.
pub(super) unsafe fn serve_openat(&[folder, path, flags, mode, ..]: &[u64; WORDS]) -> u64 {
    let (path, flags) = (Word::from_word(path), received(c_int::from_word(flags)));
    // SAFETY: the caller guarantees that the words are arguments of this function.
    unsafe { __real_openat(c_int::from_word(folder), path, flags, libc::mode_t::from_word(mode)) }.to_word()
}

/// `fcntl`, in the program's process. The argument after the command, if any, is one word.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(export_name = "__wrap_fcntl")]
pub unsafe extern "C" fn fcntl(descriptor: c_int, command: c_int, word: u64) -> c_int {
    if !is_elsewhere() {
        // SAFETY: guaranteed by the caller.
        return unsafe { __real_fcntl(descriptor, command, word) };
    }
    let word = if command == libc::F_SETFL { sent(c_int::from_word(word)).to_word() } else { word };
    let result = c_int::from_word(ask(Own::Fcntl as usize, &[descriptor.to_word(), command.to_word(), word]));
    if command == libc::F_GETFL && result >= 0 { received(result) } else { result }
}

/// Serves `fcntl` for another process.
///
/// # Safety
/// The words are the arguments of such a call.
pub(super) unsafe fn serve_fcntl(&[descriptor, command, word, ..]: &[u64; WORDS]) -> u64 {
    let (descriptor, command) = (c_int::from_word(descriptor), c_int::from_word(command));
    let word = if command == libc::F_SETFL { received(c_int::from_word(word)).to_word() } else { word };
    // SAFETY: the caller guarantees that the words are arguments of this function.
    let result = unsafe { __real_fcntl(descriptor, command, word) };
    (if command == libc::F_GETFL && result >= 0 { sent(result) } else { result }).to_word()
}

/// `pipe2`, in the program's process.
///
/// # Safety
/// As the C library's function of this name.
#[unsafe(export_name = "__wrap_pipe2")]
pub unsafe extern "C" fn pipe2(descriptors: *mut c_int, flags: c_int) -> c_int {
    if is_elsewhere() {
        let words = [descriptors.to_word(), sent(flags).to_word()];
        return c_int::from_word(ask(Own::Pipe2 as usize, &words));
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
    unsafe { __real_pipe2(Word::from_word(descriptors), received(c_int::from_word(flags))) }.to_word()
}

/// Result of `fstatat` with the same layout on all processors.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct About {
    device: u64,
    file: u64,
    links: u64,
    mode: u32,
    user: u32,
    group: u32,
    padding: u32,
    special: u64,
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
    about: *mut libc::stat,
    flags: c_int,
) -> c_int {
    if !is_elsewhere() {
        // SAFETY: guaranteed by the caller.
        return unsafe { __real_fstatat(folder, path, about, flags) };
    }
    let mut received = About::default();
    let words = [folder.to_word(), path.to_word(), (&raw mut received).to_word(), flags.to_word()];
    let result = c_int::from_word(ask(Own::Fstatat as usize, &words));
    if result == 0 {
        // SAFETY: the other process has written the record; the caller guarantees that `about` can be
        // written.
        let (from, to) = unsafe { ((&raw const received).read_volatile(), &mut *about) };
        to.st_dev = from.device;
        to.st_ino = from.file;
        to.st_nlink = from.links as _;
        to.st_mode = from.mode;
        to.st_uid = from.user;
        to.st_gid = from.group;
        to.st_rdev = from.special;
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
pub(super) unsafe fn serve_fstatat(&[folder, path, about, flags, ..]: &[u64; WORDS]) -> u64 {
    // SAFETY: numbers, for which zero is valid.
    let mut own: libc::stat = unsafe { std::mem::zeroed() };
    let (folder, flags) = (c_int::from_word(folder), c_int::from_word(flags));
    // SAFETY: the caller guarantees that the words are arguments of this function.
    let result = unsafe { __real_fstatat(folder, Word::from_word(path), &raw mut own, flags) };
    if result == 0 {
        let sent = About {
            device: own.st_dev,
            file: own.st_ino,
            links: own.st_nlink as _,
            mode: own.st_mode,
            user: own.st_uid,
            group: own.st_gid,
            padding: 0,
            special: own.st_rdev,
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
        unsafe { <*mut About>::from_word(about).write(sent) };
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
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: c_long,
) -> *mut c_void {
    if flags & libc::MAP_ANONYMOUS == 0 && is_elsewhere() {
        sys::set_errno(libc::ENODEV as usize);
        return libc::MAP_FAILED;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { __real_mmap(address, length, rights, flags, file, offset) }
}

/// `epoll_create1`. Not available to workers: the size of `struct epoll_event` differs between processors.
#[unsafe(export_name = "__wrap_epoll_create1")]
pub extern "C" fn epoll_create1(flags: c_int) -> c_int {
    if is_elsewhere() {
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

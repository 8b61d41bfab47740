//! C library calls that a worker's process forwards to the program's process.
//!
//! Descriptors, the current directory, children, signal handlers and exit handlers are those of the program's
//! process. Streams are opened and closed there, because the C library keeps a list of them; the functions
//! that a stream reads and writes with are in [`super::stdio`].

use std::ffi::{c_int, c_long, c_uint, c_void};

use crate::cancellation;

use super::forward::{self, Call, OWN_CALLS, WORDS, Word, forward_call};

/// Memory that the call reads or writes, or an address with the same meaning in all processes.
type Pointer = *mut c_void;

/// Defines wrappers of C library functions that, in a worker's process, forward the call to the program's
/// process. `point` marks cancellation points.
macro_rules! forwarded {
    (@make) => { forward::call };
    (@make point) => { cancellation::cancellation_point };
    ($($(#[$point:ident])? fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*
    ) => {
        #[allow(non_camel_case_types, reason = "the names are those of the functions")]
        #[derive(Clone, Copy)]
        enum Number { $($name,)* }

        /// Functions that serve the calls, indexed by number.
        pub(crate) static CALLS: &[Call] = &[$(served::$name,)*];

        /// Names of the functions.
        const NAMES: &[&str] = &[$(stringify!($name),)*];

        /// The C library's functions.
        pub(super) mod real {
            #![allow(clippy::wildcard_imports, reason = "the types of all arguments")]
            use super::*;

            // SAFETY: the C library's functions; `--wrap` gives them these names.
            unsafe extern "C" {
                $(#[link_name = concat!("__real_", stringify!($name))]
                pub(super) fn $name($($argument: $type),*) -> $result;)*
            }
        }

        /// Functions that serve forwarded calls.
        mod served {
            #![allow(clippy::wildcard_imports, reason = "the types of all arguments")]
            use super::*;

            $(/// Unpacks the arguments and makes the call.
            ///
            /// # Safety
            /// `words` are the arguments of such a call.
            pub(super) unsafe fn $name(words: &[u64; WORDS]) -> u64 {
                let [$($argument,)* ..] = *words;
                // SAFETY: the caller guarantees that the words are arguments of this function.
                unsafe { real::$name($(<$type>::from_word($argument)),*) }.to_word()
            })*
        }

        $(
            /// The C library's function of this name, called in the program's process.
            ///
            /// # Safety
            /// As the C library's function of this name.
            #[unsafe(export_name = concat!("__wrap_", stringify!($name)))]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                let remote = || {
                    <$result>::from_word(forward_call(OWN_CALLS + Number::$name as usize, &[$($argument.to_word()),*]))
                };
                // SAFETY: guaranteed by the caller.
                let local = || unsafe { real::$name($($argument),*) };
                forwarded!(@make $($point)?)(remote, local)
            }
        )*
    };
}
forwarded! {
    // Files and directories.
    #[point]
    fn read(descriptor: c_int, buffer: Pointer, length: usize) -> isize;
    #[point]
    fn write(descriptor: c_int, buffer: Pointer, length: usize) -> isize;
    #[point]
    fn readv(descriptor: c_int, parts: Pointer, count: c_int) -> isize;
    #[point]
    fn writev(descriptor: c_int, parts: Pointer, count: c_int) -> isize;
    #[point]
    fn pread(descriptor: c_int, buffer: Pointer, length: usize, offset: c_long) -> isize;
    #[point]
    fn pwrite(descriptor: c_int, buffer: Pointer, length: usize, offset: c_long) -> isize;
    #[point]
    fn preadv(descriptor: c_int, parts: Pointer, count: c_int, offset: c_long) -> isize;
    #[point]
    fn pwritev(descriptor: c_int, parts: Pointer, count: c_int, offset: c_long) -> isize;
    fn sendfile(to: c_int, from: c_int, offset: Pointer, length: usize) -> isize;
    fn copy_file_range(from: c_int, at: Pointer, to: c_int, place: Pointer, length: usize, flags: c_uint) -> isize;
    fn lseek(descriptor: c_int, offset: c_long, whence: c_int) -> c_long;
    #[point]
    fn close(descriptor: c_int) -> c_int;
    fn dup(descriptor: c_int) -> c_int;
    fn dup2(descriptor: c_int, other: c_int) -> c_int;
    fn dup3(descriptor: c_int, other: c_int, flags: c_int) -> c_int;
    fn pipe(descriptors: Pointer) -> c_int;
    fn ftruncate(descriptor: c_int, length: c_long) -> c_int;
    fn truncate(path: Pointer, length: c_long) -> c_int;
    fn fallocate(descriptor: c_int, mode: c_int, offset: c_long, length: c_long) -> c_int;
    fn posix_fallocate(descriptor: c_int, offset: c_long, length: c_long) -> c_int;
    fn posix_fadvise(descriptor: c_int, offset: c_long, length: c_long, advice: c_int) -> c_int;
    #[point]
    fn fsync(descriptor: c_int) -> c_int;
    #[point]
    fn fdatasync(descriptor: c_int) -> c_int;
    fn flock(descriptor: c_int, operation: c_int) -> c_int;
    fn isatty(descriptor: c_int) -> c_int;
    fn ioctl(descriptor: c_int, request: c_int, argument: Pointer) -> c_int;
    fn fchmod(descriptor: c_int, mode: c_uint) -> c_int;
    fn fchown(descriptor: c_int, user: c_uint, group: c_uint) -> c_int;
    fn futimens(descriptor: c_int, times: Pointer) -> c_int;
    fn utimensat(folder: c_int, path: Pointer, times: Pointer, flags: c_int) -> c_int;
    fn access(path: Pointer, mode: c_int) -> c_int;
    fn faccessat(folder: c_int, path: Pointer, mode: c_int, flags: c_int) -> c_int;
    fn unlink(path: Pointer) -> c_int;
    fn unlinkat(folder: c_int, path: Pointer, flags: c_int) -> c_int;
    fn remove(path: Pointer) -> c_int;
    fn rename(from: Pointer, to: Pointer) -> c_int;
    fn renameat(folder: c_int, from: Pointer, other: c_int, to: Pointer) -> c_int;
    fn link(from: Pointer, to: Pointer) -> c_int;
    fn symlink(from: Pointer, to: Pointer) -> c_int;
    fn readlink(path: Pointer, buffer: Pointer, length: usize) -> isize;
    fn linkat(folder: c_int, from: Pointer, other: c_int, to: Pointer, flags: c_int) -> c_int;
    fn symlinkat(target: Pointer, folder: c_int, path: Pointer) -> c_int;
    fn readlinkat(folder: c_int, path: Pointer, buffer: Pointer, length: usize) -> isize;
    fn mkdir(path: Pointer, mode: c_uint) -> c_int;
    fn mkdirat(folder: c_int, path: Pointer, mode: c_uint) -> c_int;
    fn rmdir(path: Pointer) -> c_int;
    fn mkfifo(path: Pointer, mode: c_uint) -> c_int;
    fn chmod(path: Pointer, mode: c_uint) -> c_int;
    fn chown(path: Pointer, user: c_uint, group: c_uint) -> c_int;
    fn fchmodat(folder: c_int, path: Pointer, mode: c_uint, flags: c_int) -> c_int;
    fn fchownat(folder: c_int, path: Pointer, user: c_uint, group: c_uint, flags: c_int) -> c_int;
    fn statvfs(path: Pointer, about: Pointer) -> c_int;
    fn fstatvfs(descriptor: c_int, about: Pointer) -> c_int;
    fn chdir(path: Pointer) -> c_int;
    fn fchdir(descriptor: c_int) -> c_int;
    fn getcwd(buffer: Pointer, length: usize) -> Pointer;
    fn umask(mode: c_uint) -> c_uint;
    fn readdir(folder: Pointer) -> Pointer;
    fn closedir(folder: Pointer) -> c_int;
    fn rewinddir(folder: Pointer) -> c_int;
    fn seekdir(folder: Pointer, place: c_long) -> c_int;
    #[point]
    fn poll(descriptors: Pointer, count: usize, milliseconds: c_int) -> c_int;
    #[point]
    fn select(count: c_int, read: Pointer, write: Pointer, except: Pointer, time: Pointer) -> c_int;
    #[point]
    fn ppoll(descriptors: Pointer, count: usize, time: Pointer, mask: Pointer) -> c_int;
    #[point]
    fn pselect(count: c_int, read: Pointer, write: Pointer, except: Pointer, time: Pointer, mask: Pointer) -> c_int;
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int;
    fn timerfd_settime(descriptor: c_int, flags: c_int, time: Pointer, before: Pointer) -> c_int;
    fn timerfd_gettime(descriptor: c_int, time: Pointer) -> c_int;
    fn inotify_init() -> c_int;
    fn inotify_init1(flags: c_int) -> c_int;
    fn inotify_add_watch(descriptor: c_int, path: Pointer, mask: c_uint) -> c_int;
    fn inotify_rm_watch(descriptor: c_int, watch: c_int) -> c_int;
    fn memfd_create(name: Pointer, flags: c_uint) -> c_int;
    fn signalfd(descriptor: c_int, set: Pointer, flags: c_int) -> c_int;
    fn eventfd(value: c_uint, flags: c_int) -> c_int;
    // Sockets.
    fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn socketpair(family: c_int, kind: c_int, protocol: c_int, descriptors: Pointer) -> c_int;
    fn bind(descriptor: c_int, address: Pointer, length: c_uint) -> c_int;
    fn listen(descriptor: c_int, backlog: c_int) -> c_int;
    #[point]
    fn accept(descriptor: c_int, address: Pointer, length: Pointer) -> c_int;
    #[point]
    fn accept4(descriptor: c_int, address: Pointer, length: Pointer, flags: c_int) -> c_int;
    #[point]
    fn connect(descriptor: c_int, address: Pointer, length: c_uint) -> c_int;
    fn shutdown(descriptor: c_int, how: c_int) -> c_int;
    #[point]
    fn send(descriptor: c_int, buffer: Pointer, length: usize, flags: c_int) -> isize;
    #[point]
    fn recv(descriptor: c_int, buffer: Pointer, length: usize, flags: c_int) -> isize;
    #[point]
    fn sendto(descriptor: c_int, buffer: Pointer, length: usize, flags: c_int, address: Pointer, bytes: c_uint) -> isize;
    #[point]
    fn recvfrom(descriptor: c_int, buffer: Pointer, length: usize, flags: c_int, address: Pointer, bytes: Pointer) -> isize;
    #[point]
    fn sendmsg(descriptor: c_int, message: Pointer, flags: c_int) -> isize;
    #[point]
    fn recvmsg(descriptor: c_int, message: Pointer, flags: c_int) -> isize;
    fn getsockname(descriptor: c_int, address: Pointer, length: Pointer) -> c_int;
    fn getpeername(descriptor: c_int, address: Pointer, length: Pointer) -> c_int;
    fn getsockopt(descriptor: c_int, level: c_int, name: c_int, value: Pointer, length: Pointer) -> c_int;
    fn setsockopt(descriptor: c_int, level: c_int, name: c_int, value: Pointer, length: c_uint) -> c_int;
    // Streams.
    fn fopen(path: Pointer, mode: Pointer) -> Pointer;
    fn freopen(path: Pointer, mode: Pointer, stream: Pointer) -> Pointer;
    fn fdopen(descriptor: c_int, mode: Pointer) -> Pointer;
    fn fmemopen(buffer: Pointer, length: usize, mode: Pointer) -> Pointer;
    fn open_memstream(buffer: Pointer, length: Pointer) -> Pointer;
    fn tmpfile() -> Pointer;
    fn fclose(stream: Pointer) -> c_int;
    fn popen(command: Pointer, mode: Pointer) -> Pointer;
    fn pclose(stream: Pointer) -> c_int;
    fn __stdio_read(stream: Pointer, buffer: Pointer, length: usize) -> usize;
    fn __stdio_write(stream: Pointer, buffer: Pointer, length: usize) -> usize;
    fn __stdio_seek(stream: Pointer, offset: c_long, whence: c_int) -> c_long;
    fn __stdio_close(stream: Pointer) -> c_int;
    fn __stdout_write(stream: Pointer, buffer: Pointer, length: usize) -> usize;
    // The process, its children and its end.
    fn getppid() -> c_int;
    fn getpgrp() -> c_int;
    fn getpgid(process: c_int) -> c_int;
    fn getsid(process: c_int) -> c_int;
    fn getuid() -> c_uint;
    fn geteuid() -> c_uint;
    fn getgid() -> c_uint;
    fn getegid() -> c_uint;
    fn kill(process: c_int, signal: c_int) -> c_int;
    fn killpg(group: c_int, signal: c_int) -> c_int;
    #[point]
    fn sigwait(set: Pointer, signal: Pointer) -> c_int;
    #[point]
    fn sigwaitinfo(set: Pointer, about: Pointer) -> c_int;
    #[point]
    fn sigtimedwait(set: Pointer, about: Pointer, time: Pointer) -> c_int;
    fn alarm(seconds: c_uint) -> c_uint;
    fn setitimer(which: c_int, value: Pointer, before: Pointer) -> c_int;
    fn getitimer(which: c_int, value: Pointer) -> c_int;
    #[point]
    fn system(command: Pointer) -> c_int;
    fn posix_spawn(process: Pointer, path: Pointer, actions: Pointer, attributes: Pointer, words: Pointer, environment: Pointer) -> c_int;
    fn posix_spawnp(process: Pointer, path: Pointer, actions: Pointer, attributes: Pointer, words: Pointer, environment: Pointer) -> c_int;
    fn execve(path: Pointer, words: Pointer, environment: Pointer) -> c_int;
    #[point]
    fn wait(status: Pointer) -> c_int;
    #[point]
    fn waitpid(process: c_int, status: Pointer, options: c_int) -> c_int;
    fn atexit(function: Pointer) -> c_int;
    fn __cxa_atexit(function: Pointer, argument: Pointer, library: Pointer) -> c_int;
}

/// Functions that this crate wraps with implementations of its own.
const OWN_NAMES: &[&str] = &[
    "getpid",
    "open",
    "openat",
    "fcntl",
    "pipe2",
    "fstatat",
    "fflush",
    "exit",
    "_Exit",
    "raise",
    "sigaction",
    "signal",
    "bsd_signal",
    "pthread_kill",
    "pthread_cancel",
    "pthread_testcancel",
    "pthread_setcancelstate",
    "pthread_setcanceltype",
    "nanosleep",
    "clock_nanosleep",
    "pthread_key_create",
    "pthread_key_delete",
    "pthread_getspecific",
    "pthread_setspecific",
    "mmap",
    "epoll_create",
    "epoll_create1",
];

/// Functions that the linker wraps, one name per line; `tombolo ompcc` and `cargo xtask kit` read the file.
const LISTED: &[u8] = include_bytes!("../../forwarded.txt");

/// Returns whether a name is a line of the list.
const fn is_listed(name: &str) -> bool {
    let name = name.as_bytes();
    let mut begin = 0;
    while begin < LISTED.len() {
        let mut end = begin;
        while LISTED[end] != b'\n' {
            end += 1;
        }
        let mut at = 0;
        while at < name.len() && begin + at < end && LISTED[begin + at] == name[at] {
            at += 1;
        }
        if at == name.len() && begin + at == end {
            return true;
        }
        begin = end + 1;
    }
    false
}

const fn are_listed(names: &[&str]) -> bool {
    let mut at = 0;
    while at < names.len() {
        if !is_listed(names[at]) {
            return false;
        }
        at += 1;
    }
    true
}

const fn lines() -> usize {
    let (mut at, mut count) = (0, 0);
    while at < LISTED.len() {
        if LISTED[at] == b'\n' {
            count += 1;
        }
        at += 1;
    }
    count
}

const _: () = assert!(are_listed(NAMES) && are_listed(OWN_NAMES), "forwarded.txt lacks a function");
const _: () = assert!(lines() == NAMES.len() + OWN_NAMES.len(), "forwarded.txt has a function too many");

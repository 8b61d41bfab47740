//! System calls for the run-time's own use.
//!
//! ISO C does not reserve names such as `read`, so a program may define a function with that name. A shared
//! library's calls of that name would then reach the program's function. `cargo xtask kit` makes the
//! run-time, including Rust's library, call these functions instead.

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};
use std::ptr;

macro_rules! calls {
    ($($(#[$about:meta])* $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $call:expr;)*) => {
        $($(#[$about])*
        /// Makes the system call directly.
        ///
        /// # Safety
        /// As for the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            // SAFETY: guaranteed by the caller.
            let result = unsafe { $call };
            result as $result
        })*
    };
}

calls! {
    /// `read`.
    tombolo_omp_own_read(file: c_int, memory: *mut c_void, bytes: usize) -> isize =
        libc::syscall(libc::SYS_read, file, memory, bytes);
    /// `write`.
    tombolo_omp_own_write(file: c_int, memory: *const c_void, bytes: usize) -> isize =
        libc::syscall(libc::SYS_write, file, memory, bytes);
    /// `writev`.
    tombolo_omp_own_writev(file: c_int, parts: *const libc::iovec, count: c_int) -> isize =
        libc::syscall(libc::SYS_writev, file, parts, count);
    /// `open64`.
    tombolo_omp_own_open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int =
        libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode);
    /// `close`.
    tombolo_omp_own_close(file: c_int) -> c_int = libc::syscall(libc::SYS_close, file);
    /// `lseek64`.
    tombolo_omp_own_lseek64(file: c_int, offset: i64, from: c_int) -> i64 =
        libc::syscall(libc::SYS_lseek, file, offset, from);
    /// `poll`.
    tombolo_omp_own_poll(files: *mut libc::pollfd, count: libc::nfds_t, timeout_ms: c_int) -> c_int = {
        let (seconds, rest) = (timeout_ms / 1000, timeout_ms % 1000);
        let timeout = libc::timespec { tv_sec: seconds.into(), tv_nsec: c_long::from(rest) * 1_000_000 };
        let timeout = if timeout_ms < 0 { ptr::null() } else { &raw const timeout };
        libc::syscall(libc::SYS_ppoll, files, count, timeout, ptr::null::<c_void>(), 0)
    };
    /// `kill`.
    tombolo_omp_own_kill(process: c_int, signal: c_int) -> c_int =
        libc::syscall(libc::SYS_kill, process, signal);
    /// `getpid`.
    tombolo_omp_own_getpid() -> c_int = libc::syscall(libc::SYS_getpid);
    /// `getppid`.
    tombolo_omp_own_getppid() -> c_int = libc::syscall(libc::SYS_getppid);
    /// `waitpid`.
    tombolo_omp_own_waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int =
        libc::syscall(libc::SYS_wait4, process, status, options, ptr::null::<c_void>());
    /// `nanosleep`.
    tombolo_omp_own_nanosleep(time: *const libc::timespec, left: *mut libc::timespec) -> c_int =
        libc::syscall(libc::SYS_nanosleep, time, left);
    /// `isatty`.
    tombolo_omp_own_isatty(file: c_int) -> c_int = {
        let mut settings: libc::termios = std::mem::zeroed();
        i32::from(libc::syscall(libc::SYS_ioctl, file, libc::TCGETS, &raw mut settings) == 0)
    };
    /// `eventfd`.
    tombolo_omp_own_eventfd(first: c_uint, flags: c_int) -> c_int =
        libc::syscall(libc::SYS_eventfd2, first, flags);
}

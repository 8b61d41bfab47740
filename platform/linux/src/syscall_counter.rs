//! Counts the system calls of a thread, for tests that code makes none.
//!
//! The kernel counts with a system call filter (seccomp) that reports each call to a second thread, which
//! counts it and lets it continue. This needs neither a debugger nor privileges, and catches every call.
//! Requests answered by the vDSO, such as reading the clock, are not system calls.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, opcode};

use crate::error::OsError;
use crate::event::{Interest, poll};

/// Counter of the system calls of one thread and of the threads that it starts.
#[derive(Debug)]
pub struct SyscallCounter {
    count: Arc<AtomicU64>,
}

/// Placeholder until the listener exists, or if it never will.
const PENDING: i32 = -1;
const FAILED: i32 = -2;

impl SyscallCounter {
    /// Counts every system call of this thread from now until it ends; this cannot be undone. Each call
    /// takes about ten microseconds longer.
    ///
    /// # Errors
    /// `EBUSY` when another filter of this thread has a listener. `ENOSYS` or `EINVAL` when the
    /// kernel lacks such filters (before Linux 5.5). User-mode emulators refuse too.
    pub fn start() -> Result<SyscallCounter, OsError> {
        let count = Arc::new(AtomicU64::new(0));
        let listener = Arc::new(AtomicI32::new(PENDING));
        let (counted, listener_slot) = (Arc::clone(&count), Arc::clone(&listener));
        // Started before the filter is installed, so that the filter does not apply to it.
        let started = std::thread::Builder::new().name("calls".into()).spawn(move || {
            if let Some(listener) = wait_for_listener(&listener_slot) {
                count_calls(&listener, &counted);
            }
        });
        started.map_err(|error| OsError::from_io("start a thread", &error))?;
        match install() {
            Ok(number) => {
                // From here on this thread must not enter the kernel before the other has the listener. A
                // store does not.
                listener.store(number, Ordering::Release);
                Ok(SyscallCounter { count })
            }
            Err(errno) => {
                listener.store(FAILED, Ordering::Release);
                Err(OsError::new("count the system calls of a thread (seccomp)", errno))
            }
        }
    }

    /// Returns the number of calls so far, without making a system call.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }
}

/// Waits for the listener without a system call of the watched thread, which would block on this one.
fn wait_for_listener(number: &AtomicI32) -> Option<OwnedFd> {
    loop {
        match number.load(Ordering::Acquire) {
            PENDING => std::thread::sleep(Duration::from_micros(100)),
            FAILED => return None,
            // SAFETY: the kernel created this descriptor for the thread that stored its number; that thread
            // stored it once and keeps no other copy, so it is open and this is its only owner.
            number => return Some(unsafe { OwnedFd::from_raw_fd(number) }),
        }
    }
}

/// Counts every call and lets it continue, until no thread with the filter is left.
fn count_calls(listener: &OwnedFd, count: &AtomicU64) {
    loop {
        let ready = poll(&[(listener.as_fd(), Interest::Read)], None);
        if !matches!(ready.as_deref(), Ok([ready]) if ready.readable) {
            return;
        }
        let mut call = Notification::default();
        match receive(listener.as_fd(), &mut call) {
            Ok(()) => {}
            // The thread ended or was interrupted before its call was read.
            Err(Errno::NOENT | Errno::INTR) => continue,
            Err(_) => return,
        }
        // Counted before the call continues, so that its thread finds it counted.
        count.fetch_add(1, Ordering::Release);
        let mut response = Response { id: call.id, value: 0, error: 0, flags: CONTINUE };
        match send(listener.as_fd(), &mut response) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(_) => return,
        }
    }
}

/// The kernel's `struct seccomp_notif`.
#[repr(C)]
#[derive(Default, Debug)]
struct Notification {
    id: u64,
    thread: u32,
    flags: u32,
    number: i32,
    architecture: u32,
    instruction: u64,
    arguments: [u64; 6],
}

/// The kernel's `struct seccomp_notif_resp`.
#[repr(C)]
#[derive(Debug)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`: execute the call as without the filter.
const CONTINUE: u32 = 1;

const RECEIVE: Opcode = opcode::read_write::<Notification>(b'!', 0);
const SEND: Opcode = opcode::read_write::<Response>(b'!', 1);

const _: () = assert!(size_of::<Notification>() == 80 && size_of::<Response>() == 24);

fn receive(listener: BorrowedFd<'_>, call: &mut Notification) -> Result<(), Errno> {
    // SAFETY: this operation writes one `struct seccomp_notif`, whose layout and size `Notification` has,
    // and requires it to be zero before, as `count_calls` made it. Its fields may hold any bits.
    unsafe { rustix::ioctl::ioctl(listener, Updater::<RECEIVE, Notification>::new(call)) }
}

fn send(listener: BorrowedFd<'_>, response: &mut Response) -> Result<(), Errno> {
    // SAFETY: this operation reads one `struct seccomp_notif_resp`, whose layout and size `Response` has.
    unsafe { rustix::ioctl::ioctl(listener, Updater::<SEND, Response>::new(response)) }
}

/// Reports all calls of this thread to a listener, whose number it returns.
fn install() -> Result<i32, Errno> {
    /// `BPF_RET | BPF_K`: return a constant.
    const RETURN: u16 = 0x06;
    /// `SECCOMP_RET_USER_NOTIF`: report to the listener.
    const NOTIFY: u32 = 0x7fc0_0000;
    /// `SECCOMP_SET_MODE_FILTER` and `SECCOMP_FILTER_FLAG_NEW_LISTENER`.
    const FILTER: libc::c_long = 1;
    const NEW_LISTENER: libc::c_long = 1 << 3;

    // A thread without new privileges may install a filter without being privileged.
    rustix::thread::set_no_new_privs(true)?;
    let mut filter = [libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: NOTIFY }];
    let program = libc::sock_fprog { len: 1, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel reads one `struct sock_fprog` and the single instruction that it points to during
    // the call, and copies both. The filter denies nothing, so every call of this thread still works.
    let response = unsafe { libc::syscall(libc::SYS_seccomp, FILTER, NEW_LISTENER, &raw const program) };
    match i32::try_from(response) {
        Ok(number) if number >= 0 => Ok(number),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syscalls_of_a_thread_are_counted_and_executed() {
        let watched = std::thread::spawn(|| {
            let calls = match SyscallCounter::start() {
                Ok(calls) => calls,
                Err(error) => {
                    println!("skipped: {error}");
                    return;
                }
            };
            let before = calls.count();
            let mut sum = 0_u64;
            for number in 0..1000 {
                sum = std::hint::black_box(sum + number);
            }
            assert_eq!((calls.count(), sum), (before, 499_500));
            for _ in 0..5 {
                let own = rustix::process::getpid();
                assert_eq!(own.as_raw_nonzero().get(), std::process::id() as i32);
            }
            let asked = calls.count() - before;
            assert!(asked >= 5, "{asked}");
            // A second filter is refused, and the first continues.
            assert!(SyscallCounter::start().is_err());
            assert!(calls.count() > before + asked);
        });
        watched.join().expect("nothing panicked");
    }
}

//! POSIX semaphores and message queues of the C library.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;

use super::{FIFO_BYTES, TIMEOUT};

/// Capacity of a queue in values: Linux's default limit for a user.
pub(super) const QUEUE_VALUES: usize = 10;

/// Name of a POSIX object, unlinked when dropped.
pub(super) struct Name {
    text: CString,
    remove: unsafe extern "C" fn(*const libc::c_char) -> libc::c_int,
}

impl Drop for Name {
    fn drop(&mut self) {
        // SAFETY: the name is a NUL-terminated string.
        unsafe { (self.remove)(self.text.as_ptr()) };
    }
}

fn c_string(name: &str) -> io::Result<CString> {
    Ok(CString::new(format!("/{name}"))?)
}

/// Returns the deadline of a wait that begins now.
fn deadline() -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local variable.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    now.tv_sec += TIMEOUT.as_secs() as libc::time_t;
    now
}

/// Repeats a call while a signal interrupts it (`EINTR`).
fn uninterrupted<T: Into<i64> + Copy>(mut call: impl FnMut() -> T) -> io::Result<()> {
    loop {
        if call().into() >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Named POSIX semaphore.
pub(super) struct Semaphore(*mut libc::sem_t);

impl Semaphore {
    pub(super) fn create(name: &str) -> io::Result<(Semaphore, Name)> {
        let text = c_string(name)?;
        let semaphore = Self::opened(&text, libc::O_CREAT | libc::O_EXCL)?;
        Ok((semaphore, Name { text, remove: libc::sem_unlink }))
    }

    pub(super) fn open(name: &str) -> io::Result<Semaphore> {
        Self::opened(&c_string(name)?, 0)
    }

    fn opened(name: &CStr, flags: libc::c_int) -> io::Result<Semaphore> {
        // SAFETY: the name is a NUL-terminated string; the mode and the initial count are passed as `O_CREAT`
        // requires.
        let semaphore =
            unsafe { libc::sem_open(name.as_ptr(), flags, 0o600 as libc::mode_t, 0 as libc::c_uint) };
        if semaphore == libc::SEM_FAILED { Err(io::Error::last_os_error()) } else { Ok(Semaphore(semaphore)) }
    }

    pub(super) fn post(&self) -> io::Result<()> {
        // SAFETY: the semaphore is open.
        uninterrupted(|| unsafe { libc::sem_post(self.0) })
    }

    pub(super) fn wait(&self) -> io::Result<()> {
        // SAFETY: the semaphore is open.
        if unsafe { libc::sem_trywait(self.0) } == 0 {
            return Ok(());
        }
        let deadline = deadline();
        // SAFETY: the semaphore is open, and the deadline is a local variable.
        uninterrupted(|| unsafe { libc::sem_timedwait(self.0, &raw const deadline) })
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        // SAFETY: the semaphore is open, and not used afterwards.
        unsafe { libc::sem_close(self.0) };
    }
}

/// A message queue of [`QUEUE_VALUES`] values.
pub(super) struct Queue(libc::mqd_t);

impl Queue {
    pub(super) fn create(name: &str) -> io::Result<(Queue, Name)> {
        let text = c_string(name)?;
        // SAFETY: the structure has only integers, for which zero is valid.
        let mut limits: libc::mq_attr = unsafe { std::mem::zeroed() };
        limits.mq_maxmsg = QUEUE_VALUES as _;
        limits.mq_msgsize = FIFO_BYTES as _;
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDONLY;
        // SAFETY: the name is a NUL-terminated string, and the limits are a local variable.
        let queue = unsafe { libc::mq_open(text.as_ptr(), flags, 0o600 as libc::mode_t, &raw const limits) };
        if queue < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((Queue(queue), Name { text, remove: libc::mq_unlink }))
    }

    pub(super) fn open(name: &str) -> io::Result<Queue> {
        let text = c_string(name)?;
        // SAFETY: the name is a NUL-terminated string.
        let queue = unsafe { libc::mq_open(text.as_ptr(), libc::O_WRONLY) };
        if queue < 0 { Err(io::Error::last_os_error()) } else { Ok(Queue(queue)) }
    }

    pub(super) fn send(&self, value: &[u8; FIFO_BYTES]) -> io::Result<()> {
        let deadline = deadline();
        // SAFETY: the queue is open; value and deadline are valid references.
        uninterrupted(|| unsafe {
            libc::mq_timedsend(self.0, value.as_ptr().cast(), FIFO_BYTES, 0, &raw const deadline)
        })
    }

    pub(super) fn receive(&self, value: &mut [u8; FIFO_BYTES]) -> io::Result<()> {
        let deadline = deadline();
        let mut priority = 0;
        // SAFETY: the queue is open; value, priority and deadline are valid references.
        uninterrupted(|| unsafe {
            let target = value.as_mut_ptr().cast();
            libc::mq_timedreceive(self.0, target, FIFO_BYTES, &raw mut priority, &raw const deadline) as i64
        })
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the queue is open, and not used afterwards.
        unsafe { libc::mq_close(self.0) };
    }
}

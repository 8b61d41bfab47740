//! Semaphores and message queues of POSIX, by the C library.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;

use super::{FIFO_BYTES, PATIENCE};

/// Values of a queue: what Linux allows a user unless it is told otherwise.
pub(super) const QUEUE_VALUES: usize = 10;

/// A name of POSIX, which is gone with this.
pub(super) struct Name {
    text: CString,
    remove: unsafe extern "C" fn(*const libc::c_char) -> libc::c_int,
}

impl Drop for Name {
    fn drop(&mut self) {
        // SAFETY: the name is a string of C.
        unsafe { (self.remove)(self.text.as_ptr()) };
    }
}

fn c_string(name: &str) -> io::Result<CString> {
    Ok(CString::new(format!("/{name}"))?)
}

/// When a wait that begins now has taken too long.
fn deadline() -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is ours to write.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    now.tv_sec += PATIENCE.as_secs() as libc::time_t;
    now
}

/// Calls again while a signal interrupts.
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

/// A named semaphore.
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
        // SAFETY: the name is a string of C; the mode and the initial count are there where it is created.
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
        // SAFETY: the semaphore is open, and the time is ours.
        uninterrupted(|| unsafe { libc::sem_timedwait(self.0, &raw const deadline) })
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        // SAFETY: the semaphore is open, and not used any more.
        unsafe { libc::sem_close(self.0) };
    }
}

/// A message queue of [`QUEUE_VALUES`] values.
pub(super) struct Queue(libc::mqd_t);

impl Queue {
    pub(super) fn create(name: &str) -> io::Result<(Queue, Name)> {
        let text = c_string(name)?;
        // SAFETY: numbers alone, for which zeros are fine.
        let mut limits: libc::mq_attr = unsafe { std::mem::zeroed() };
        limits.mq_maxmsg = QUEUE_VALUES as _;
        limits.mq_msgsize = FIFO_BYTES as _;
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDONLY;
        // SAFETY: the name is a string of C, and the limits are ours.
        let queue = unsafe { libc::mq_open(text.as_ptr(), flags, 0o600 as libc::mode_t, &raw const limits) };
        if queue < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((Queue(queue), Name { text, remove: libc::mq_unlink }))
    }

    pub(super) fn open(name: &str) -> io::Result<Queue> {
        let text = c_string(name)?;
        // SAFETY: the name is a string of C.
        let queue = unsafe { libc::mq_open(text.as_ptr(), libc::O_WRONLY) };
        if queue < 0 { Err(io::Error::last_os_error()) } else { Ok(Queue(queue)) }
    }

    pub(super) fn send(&self, value: &[u8; FIFO_BYTES]) -> io::Result<()> {
        let deadline = deadline();
        // SAFETY: the queue is open; value and time are ours.
        uninterrupted(|| unsafe {
            libc::mq_timedsend(self.0, value.as_ptr().cast(), FIFO_BYTES, 0, &raw const deadline)
        })
    }

    pub(super) fn receive(&self, value: &mut [u8; FIFO_BYTES]) -> io::Result<()> {
        let deadline = deadline();
        let mut priority = 0;
        // SAFETY: the queue is open; value, priority and time are ours.
        uninterrupted(|| unsafe {
            let target = value.as_mut_ptr().cast();
            libc::mq_timedreceive(self.0, target, FIFO_BYTES, &raw mut priority, &raw const deadline) as i64
        })
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the queue is open, and not used any more.
        unsafe { libc::mq_close(self.0) };
    }
}

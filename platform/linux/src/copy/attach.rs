//! Copying from and to the memory of another process of this kernel that has shared none of it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{PTracer, Pid};
use tombolo_base::SharedMemory;

use super::{CopyError, address};
use crate::error::{Context, OsError};
use crate::event::{Interest, poll};
use crate::time::Deadline;

/// Another process of this kernel, named by a descriptor: it cannot turn into a later one with the same number.
#[derive(Debug)]
pub struct ForeignProcess {
    pid: i32,
    pidfd: OwnedFd,
}

/// Why nothing, or not all, was copied from or to another process.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AttachError {
    /// The range of our own memory.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The process has ended.
    #[error("process {pid} has ended")]
    Ended {
        /// Its number.
        pid: i32,
    },
    /// The process has no memory there, or none that can be accessed so.
    #[error("process {pid} has no such memory at {address:#x}")]
    NoMemory {
        /// Its number.
        pid: i32,
        /// The first address that could not be accessed.
        address: u64,
    },
    /// The kernel does not let this process do it.
    #[error(
        "this process may not access the memory of process {pid}: they have different users, or the kernel allows it to ancestors \
         only (kernel.yama.ptrace_scope) and that process did not allow it to this one"
    )]
    NotAllowed {
        /// Its number.
        pid: i32,
    },
    /// The kernel, or an emulator in its place, cannot.
    #[error("there is no copying between processes here: {errno}")]
    Unsupported {
        /// What it answered.
        errno: Errno,
    },
}

/// Lets process `pid` copy from and to the memory of this one, where the kernel would allow it to ancestors only.
///
/// # Errors
/// `EINVAL` when there is no such process, or the kernel has no such restriction.
pub fn allow(pid: i32) -> Result<(), OsError> {
    let pid = Pid::from_raw(pid).ok_or(OsError::new("allow a process to copy", Errno::SRCH))?;
    rustix::process::set_ptracer(PTracer::ProcessID(pid)).context("allow a process to copy")
}

/// Which way bytes go.
#[derive(Clone, Copy)]
enum Way {
    Here,
    There,
}

impl ForeignProcess {
    /// Names the process with a number, which somebody vouches for: the credentials of a socket, or its parent.
    ///
    /// # Errors
    /// `ESRCH` when there is none.
    pub fn watch(pid: i32) -> Result<ForeignProcess, OsError> {
        Ok(ForeignProcess { pid, pidfd: crate::process::watch(pid)? })
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Readable once it has ended.
    #[must_use]
    pub fn ended_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Whether it has ended.
    #[must_use]
    pub fn ended(&self) -> bool {
        let now = Some(Deadline::after(Duration::ZERO));
        poll(&[(self.pidfd.as_fd(), Interest::Read)], now).map_or(true, |ready| ready[0].any())
    }

    /// Copies `length_bytes` from its memory at `from` into `target` from `offset_bytes` on.
    ///
    /// # Errors
    /// [`AttachError`]; the target may hold a part.
    pub fn read(
        &self,
        from: u64,
        target: &SharedMemory,
        offset_bytes: usize,
        length_bytes: usize,
    ) -> Result<(), AttachError> {
        let here = address(target, offset_bytes, length_bytes)?;
        self.copy(Way::Here, here, from, length_bytes)
    }

    /// Copies `length_bytes` of `source` from `offset_bytes` on into its memory at `to`.
    ///
    /// # Errors
    /// [`AttachError`]; its memory may hold a part.
    pub fn write(
        &self,
        source: &SharedMemory,
        offset_bytes: usize,
        to: u64,
        length_bytes: usize,
    ) -> Result<(), AttachError> {
        let here = address(source, offset_bytes, length_bytes)?;
        self.copy(Way::There, here, to, length_bytes)
    }

    /// The kernel copies as much as it likes at a time. `here` is valid for so many bytes.
    fn copy(&self, way: Way, here: *mut u8, there: u64, length: usize) -> Result<(), AttachError> {
        let mut done = 0;
        while done < length {
            // Before each call: a number that is free may be given to another.
            self.check_alive()?;
            let address = there.checked_add(done as u64).filter(|address| usize::try_from(*address).is_ok());
            let Some(address) = address else {
                return Err(AttachError::NoMemory { pid: self.pid, address: there });
            };
            match self.call(way, here.wrapping_add(done), address, length - done) {
                Ok(0) => return Err(AttachError::NoMemory { pid: self.pid, address }),
                Ok(copied) => done += copied,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(self.refusal(errno, address)),
            }
        }
        // After the last: if it ended meanwhile, it is not certain whose memory that was.
        self.check_alive()
    }

    fn check_alive(&self) -> Result<(), AttachError> {
        if self.ended() { Err(AttachError::Ended { pid: self.pid }) } else { Ok(()) }
    }

    fn refusal(&self, errno: Errno, address: u64) -> AttachError {
        let pid = self.pid;
        match errno {
            Errno::SRCH => AttachError::Ended { pid },
            Errno::FAULT => AttachError::NoMemory { pid, address },
            Errno::PERM | Errno::ACCESS => AttachError::NotAllowed { pid },
            errno => AttachError::Unsupported { errno },
        }
    }

    fn call(&self, way: Way, here: *mut u8, there: u64, length: usize) -> Result<usize, Errno> {
        let local = libc::iovec { iov_base: here.cast(), iov_len: length };
        let remote =
            libc::iovec { iov_base: core::ptr::without_provenance_mut(there as usize), iov_len: length };
        // SAFETY: `local` lies in memory of ours that was checked to have so many bytes and stays mapped while the caller
        // borrows it; it is shared, so that the kernel may write it at any time. `remote` is an address in the other
        // process: the kernel checks it, and nothing here follows it.
        let copied = unsafe {
            match way {
                Way::Here => libc::process_vm_readv(self.pid, &raw const local, 1, &raw const remote, 1, 0),
                Way::There => libc::process_vm_writev(self.pid, &raw const local, 1, &raw const remote, 1, 0),
            }
        };
        usize::try_from(copied)
            .map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

/// The address of a byte of this process's memory, to be told to one that [copies](ForeignProcess) from it.
///
/// # Errors
/// It lies outside.
pub fn address_of(memory: &SharedMemory, offset_bytes: usize) -> Result<u64, CopyError> {
    address(memory, offset_bytes, 0).map(|byte| byte.addr() as u64)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::process::Process;

    fn here() -> ForeignProcess {
        ForeignProcess::watch(std::process::id() as i32).unwrap()
    }

    /// What came of it, unless this kernel does not do such things at all: then nothing can be tested, aloud.
    fn possible<T>(result: Result<T, AttachError>) -> Option<T> {
        match result {
            Err(AttachError::Unsupported { errno }) => {
                crate::unsupported(&format!("copying between processes ({errno})"));
                None
            }
            result => Some(result.unwrap()),
        }
    }

    #[test]
    fn bytes_go_both_ways() {
        let (ours, theirs) = (SharedMemory::zeroed(64), SharedMemory::zeroed(64));
        theirs.copy_in(8, b"from over there").unwrap();
        let from = address_of(&theirs, 8).unwrap();
        if possible(here().read(from, &ours, 3, 15)).is_none() {
            return;
        }
        let mut bytes = [0; 15];
        super::super::read(super::super::Loop::Best, &ours, 3, &mut bytes).unwrap();
        assert_eq!(&bytes, b"from over there");
        here().write(&ours, 3, address_of(&theirs, 40).unwrap(), 15).unwrap();
        super::super::read(super::super::Loop::Best, &theirs, 40, &mut bytes).unwrap();
        assert_eq!(&bytes, b"from over there");
    }

    #[test]
    fn memory_that_is_not_there_is_said_so() {
        let ours = SharedMemory::zeroed(64);
        if possible(here().read(address_of(&ours, 0).unwrap(), &SharedMemory::zeroed(8), 0, 8)).is_none() {
            return;
        }
        for nowhere in [8, u64::MAX - 3, 1 << 60] {
            let refused = here().read(nowhere, &ours, 0, 8).unwrap_err();
            assert!(matches!(refused, AttachError::NoMemory { .. }), "{refused}");
        }
        let outside = here().read(8, &ours, 60, 8).unwrap_err();
        assert!(matches!(outside, AttachError::Copy(CopyError::OutOfRange { .. })), "{outside}");
    }

    #[test]
    fn a_process_that_has_ended_is_not_taken_for_another() {
        let mut process = Process::start(Command::new("sleep").arg("60"), &[]).unwrap();
        let foreign = ForeignProcess::watch(process.pid()).unwrap();
        assert!(!foreign.ended());
        process.destroy();
        assert!(foreign.ended());
        let refused = foreign.read(8, &SharedMemory::zeroed(8), 0, 8).unwrap_err();
        assert_eq!(refused, AttachError::Ended { pid: process.pid() });
    }
}

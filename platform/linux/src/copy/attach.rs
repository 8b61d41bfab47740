//! Copies from and to the memory of another process of this kernel that shares no memory with this one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{PTracer, Pid};
use tombolo_base::SharedMemory;

use super::{CopyError, address};
use crate::error::{Context, OsError};
use crate::event::{Interest, poll};
use crate::time::Deadline;

/// Another process of this kernel, identified by a descriptor, so that it cannot be confused with a later
/// process of the same number.
#[derive(Debug)]
pub struct ForeignProcess {
    pid: i32,
    pidfd: OwnedFd,
}

/// Error of a copy from or to another process.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum AttachError {
    /// The local range lies outside its memory.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The other process has ended.
    #[error("process {pid} has ended")]
    Ended { pid: i32 },
    /// The process has no accessible memory at the address.
    #[error("process {pid} has no accessible memory at {address:#x}")]
    NoMemory { pid: i32, address: u64 },
    /// The kernel does not permit this process to copy.
    #[error(
        "not permitted to access the memory of process {pid}: it has another user, or kernel.yama.ptrace_scope limits \
         access to ancestors and the process did not permit this one"
    )]
    NotAllowed { pid: i32 },
    /// The kernel, or an emulator in its place, does not support it.
    #[error("copying between processes is not supported here: {errno}")]
    Unsupported { errno: Errno },
}

/// Allows process `pid` to copy from and to the memory of this one, on kernels that otherwise permit only
/// ancestors.
///
/// # Errors
/// `EINVAL` if there is no such process, or the kernel has no such restriction.
pub fn allow_access_by(pid: i32) -> Result<(), OsError> {
    let pid = Pid::from_raw(pid).ok_or(OsError::new("allow a process to copy", Errno::SRCH))?;
    rustix::process::set_ptracer(PTracer::ProcessID(pid)).context("allow a process to copy")
}

/// The direction of a copy.
#[derive(Clone, Copy)]
enum CopyDirection {
    FromRemote,
    ToRemote,
}

impl ForeignProcess {
    /// Opens the process with the number `pid`, which must come from a trusted source: the credentials of a
    /// socket, or the process's parent.
    ///
    /// # Errors
    /// `ESRCH` if there is none.
    pub fn open(pid: i32) -> Result<ForeignProcess, OsError> {
        Ok(ForeignProcess { pid, pidfd: crate::process::open_pidfd(pid)? })
    }

    /// Returns the process id; the kernel may reuse it once the process has been reaped.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns a descriptor that is readable once the process has ended.
    #[must_use]
    pub fn ended_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Returns whether it has ended.
    #[must_use]
    pub fn ended(&self) -> bool {
        let now = Some(Deadline::after(Duration::ZERO));
        poll(&[(self.pidfd.as_fd(), Interest::Read)], now).map_or(true, |ready| ready[0].any())
    }

    /// Copies `length_bytes` from the process's memory at `from` into `target` from `offset_bytes` on.
    ///
    /// # Errors
    /// [`AttachError`]; part of the target may have been written.
    pub fn read(
        &self,
        from: u64,
        target: &SharedMemory,
        offset_bytes: usize,
        length_bytes: usize,
    ) -> Result<(), AttachError> {
        let here = address(target, offset_bytes, length_bytes)?;
        self.copy(CopyDirection::FromRemote, here, from, length_bytes)
    }

    /// Copies `length_bytes` of `source` from `offset_bytes` on into the process's memory at `to`.
    ///
    /// # Errors
    /// [`AttachError`]; part of the process's memory may have been written.
    pub fn write(
        &self,
        source: &SharedMemory,
        offset_bytes: usize,
        to: u64,
        length_bytes: usize,
    ) -> Result<(), AttachError> {
        let here = address(source, offset_bytes, length_bytes)?;
        self.copy(CopyDirection::ToRemote, here, to, length_bytes)
    }

    /// Repeats the call, which may copy less than requested. `local` must be valid for `length` bytes.
    fn copy(
        &self,
        direction: CopyDirection,
        local: *mut u8,
        remote: u64,
        length: usize,
    ) -> Result<(), AttachError> {
        let mut done = 0;
        while done < length {
            // Checked before each call: a free process number may be reused.
            self.check_alive()?;
            let address = remote.checked_add(done as u64).filter(|address| usize::try_from(*address).is_ok());
            let Some(address) = address else {
                return Err(AttachError::NoMemory { pid: self.pid, address: remote });
            };
            match self.call(direction, local.wrapping_add(done), address, length - done) {
                Ok(0) => return Err(AttachError::NoMemory { pid: self.pid, address }),
                Ok(copied) => done += copied,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(self.refusal(errno, address)),
            }
        }
        // Checked after the last call: if the process ended meanwhile, the memory may have been another's.
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

    fn call(
        &self,
        direction: CopyDirection,
        local: *mut u8,
        remote: u64,
        length: usize,
    ) -> Result<usize, Errno> {
        let local = libc::iovec { iov_base: local.cast(), iov_len: length };
        let remote =
            libc::iovec { iov_base: core::ptr::without_provenance_mut(remote as usize), iov_len: length };
        // SAFETY: `local` lies in memory of this process that was checked to have `length` bytes and stays
        // mapped while the caller borrows it; it is shared, so the kernel may write it at any time.
        // `remote` is an address in the other process: the kernel checks it, and nothing here dereferences
        // it.
        let copied = unsafe {
            match direction {
                CopyDirection::FromRemote => {
                    libc::process_vm_readv(self.pid, &raw const local, 1, &raw const remote, 1, 0)
                }
                CopyDirection::ToRemote => {
                    libc::process_vm_writev(self.pid, &raw const local, 1, &raw const remote, 1, 0)
                }
            }
        };
        usize::try_from(copied)
            .map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

/// Returns the address of a byte of this process's memory, for a process that [copies](ForeignProcess) from
/// it.
///
/// # Errors
/// The offset lies outside.
pub fn address_of(memory: &SharedMemory, offset_bytes: usize) -> Result<u64, CopyError> {
    address(memory, offset_bytes, 0).map(|byte| byte.addr() as u64)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::process::Process;

    fn here() -> ForeignProcess {
        ForeignProcess::open(std::process::id() as i32).unwrap()
    }

    /// Unwraps the result; `None`, with a message, if this kernel does not support such copies and the test
    /// must be skipped.
    fn possible<T>(result: Result<T, AttachError>) -> Option<T> {
        match result {
            Err(AttachError::Unsupported { errno }) => {
                crate::report_unsupported(&format!("copying between processes ({errno})"));
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
        super::super::read(super::super::CopyLoop::Best, &ours, 3, &mut bytes).unwrap();
        assert_eq!(&bytes, b"from over there");
        here().write(&ours, 3, address_of(&theirs, 40).unwrap(), 15).unwrap();
        super::super::read(super::super::CopyLoop::Best, &theirs, 40, &mut bytes).unwrap();
        assert_eq!(&bytes, b"from over there");
    }

    #[test]
    fn missing_memory_is_an_error() {
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
        let foreign = ForeignProcess::open(process.pid()).unwrap();
        assert!(!foreign.ended());
        process.destroy();
        assert!(foreign.ended());
        let refused = foreign.read(8, &SharedMemory::zeroed(8), 0, 8).unwrap_err();
        assert_eq!(refused, AttachError::Ended { pid: process.pid() });
    }
}

//! Programs sent by the root, stored in anonymous memory files.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use tombolo_base::ChannelId;
use tombolo_control::OWN_PROGRAM;
use tombolo_platform::copy::{self, CopyLoop};
use tombolo_platform::error::Context;
use tombolo_platform::{Deadline, Errno, OsError, memory};

use super::Agent;
use crate::streams::read_whole;
use tombolo_monitor_core::agent::ProgramSource;

/// Number of bytes copied out of the window at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// Timeout of receiving a program over the link with the host: megabytes, beside other traffic.
const STREAM_TIMEOUT: Duration = Duration::from_secs(60);

impl Agent {
    /// Stores a program that arrived as a descriptor or lies in the window. On failure stores the error,
    /// which is reported when the program is started.
    pub(super) fn keep_program(&mut self, hash: [u8; 32], source: ProgramSource<OwnedFd>) {
        let kept = match source {
            // If the root could not store the program, it has answered the waiting client; otherwise this
            // process could not receive the descriptor.
            ProgramSource::Passed(file) => {
                file.ok_or_else(|| OsError::new("take the descriptor of a program", Errno::MFILE))
            }
            ProgramSource::Window { offset_bytes, length_bytes } => {
                let copied = self.copy_from_window(offset_bytes, length_bytes);
                self.core.program_copied(hash);
                copied
            }
            ProgramSource::Stream { stream, length_bytes } => self.receive_from_stream(stream, length_bytes),
        };
        self.programs.insert(hash, kept);
    }

    /// Stores the program that this process runs, which the root never sends.
    pub(super) fn keep_own_program(&mut self) {
        self.programs.entry(OWN_PROGRAM).or_insert_with(|| {
            // Opens the running program even if its file has been replaced on disk.
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            rustix::fs::open("/proc/self/exe", flags, Mode::empty()).context("open the monitor's own program")
        });
    }

    /// Returns the file of a stored program.
    pub(super) fn program(&self, hash: &[u8; 32]) -> Result<&OwnedFd, OsError> {
        let missing = || OsError::new("start a program that was not sent", Errno::NOENT);
        self.programs.get(hash).ok_or_else(missing)?.as_ref().map_err(Clone::clone)
    }

    fn copy_from_window(&self, offset_bytes: u64, length_bytes: u64) -> Result<OwnedFd, OsError> {
        let missing = || OsError::new("take a program from a window that is not there", Errno::NODEV);
        let window = self.own_window.and_then(|own| self.windows.get(&own)).ok_or_else(missing)?;
        let length = usize::try_from(length_bytes).map_err(|_| missing())?;
        let source = memory::map(&window.memory, offset_bytes, length.next_multiple_of(4096))?;
        if let Some(caches) = window.caches {
            caches.invalidate(&source);
        }
        let file = program_file()?;
        let mut piece = vec![0; PIECE_BYTES];
        let mut offset = 0;
        while offset < length {
            let count = PIECE_BYTES.min(length - offset);
            copy::read(CopyLoop::Best, &source, offset, &mut piece[..count]).map_err(|_| missing())?;
            write_all(&file, &piece[..count])?;
            offset += count;
        }
        seal(&file)?;
        Ok(file)
    }
}

impl Agent {
    /// Receives a program in a stream of the link with the host.
    fn receive_from_stream(&self, stream: ChannelId, length_bytes: u64) -> Result<OwnedFd, OsError> {
        let socket = self.streams()?.open(stream)?;
        let file = program_file()?;
        read_whole(&socket, length_bytes, Deadline::after(STREAM_TIMEOUT), |piece| write_all(&file, piece))?;
        seal(&file)?;
        Ok(file)
    }
}

/// Creates a memory file with a program.
///
/// # Errors
/// Out of memory.
pub fn program_from_bytes(bytes: &[u8]) -> Result<OwnedFd, OsError> {
    let file = program_file()?;
    write_all(&file, bytes)?;
    seal(&file)?;
    Ok(file)
}

fn program_file() -> Result<OwnedFd, OsError> {
    rustix::fs::memfd_create("tombolo-program", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .context("keep a program in memory")
}

/// Seals a program against all changes. It has no mappings yet, so it is enough to refuse future ones:
/// `SealFlags::WRITE` would first wait until no other holder has a reference to its pages, and fail with
/// `EBUSY` after a while. The kernel itself holds references during reclaim and migration.
fn seal(file: &OwnedFd) -> Result<(), OsError> {
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(file, seals).context("seal a program")
}

fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), OsError> {
    while !bytes.is_empty() {
        let written = rustix::io::write(file, bytes).context("keep a program in memory")?;
        bytes = &bytes[written..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::pipe::{SpliceFlags, pipe, splice};

    use super::*;

    #[test]
    fn program_is_sealed_despite_pinned_pages() {
        let file = program_file().unwrap();
        write_all(&file, &[7; 8192]).unwrap();
        let (_reader, writer) = pipe().unwrap();
        let mut offset = 0;
        let held = splice(&file, Some(&mut offset), &writer, None, 8192, SpliceFlags::empty()).unwrap();
        assert!(held > 0);
        seal(&file).unwrap();
        assert_eq!(rustix::io::pwrite(&file, b"x", 0), Err(Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(&file, 0), Err(Errno::PERM));
    }
}

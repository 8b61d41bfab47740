//! A disk served by this program: the kernel's network block device, over a socket pair.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::ioctl::{Opcode, opcode};

use super::tap::IntegerIoctl;
use crate::error::{Context, OsError};
use crate::socket::{self, SocketKind};

const SET_SOCKET: Opcode = opcode::none(0xab, 0);
const SET_BLOCK_BYTES: Opcode = opcode::none(0xab, 1);
const RUN: Opcode = opcode::none(0xab, 3);
const CLEAR_SOCKET: Opcode = opcode::none(0xab, 4);
const SET_BLOCKS: Opcode = opcode::none(0xab, 7);
const DISCONNECT: Opcode = opcode::none(0xab, 8);
const SET_TIMEOUT: Opcode = opcode::none(0xab, 9);
const SET_FLAGS: Opcode = opcode::none(0xab, 10);

/// Maximum number of devices searched for a free one; the module has 16 by default.
const MAX_DEVICES: u32 = 256;

/// Size and properties of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Block size in bytes, a power of two from 512 to 4096.
    pub block_bytes: u32,
    /// Number of blocks of the disk.
    pub blocks: u64,
    /// The protocol's transmission flags.
    pub flags: u16,
    /// Time that the kernel waits for a reply, in seconds, before it disconnects the device.
    pub timeout_s: u32,
}

/// A disk. The kernel sends reads and writes as requests of the NBD protocol over the socket returned by
/// [`prepare`](Self::prepare).
#[derive(Debug)]
pub struct NbdDevice {
    device: File,
    path: PathBuf,
}

impl NbdDevice {
    /// Prepares a free device, or the one at `path`, and returns it with the server's end of its socket. The
    /// disk exists while [`run`](Self::run) runs.
    ///
    /// # Errors
    /// `ENOENT`, `ENODEV`: the kernel has no such device; `EACCES`, `EPERM`; `EBUSY`: all devices, or that
    /// one, are in use.
    pub fn prepare(path: Option<&Path>, geometry: &Geometry) -> Result<(NbdDevice, OwnedFd), OsError> {
        super::load_modules_for("/dev/nbd0")?;
        let (near, far) = socket::pair(SocketKind::Stream)?;
        let device = match path {
            Some(path) => Self::claim(path, &far)?,
            None => Self::claim_free(&far)?,
        };
        let set = |result: Result<(), Errno>| result.context(&format!("set up {}", device.path.display()));
        set(device.ioctl::<SET_BLOCK_BYTES>(geometry.block_bytes.into()))?;
        set(device.ioctl::<SET_BLOCKS>(geometry.blocks))?;
        set(device.ioctl::<SET_FLAGS>(geometry.flags.into()))?;
        set(device.ioctl::<SET_TIMEOUT>(geometry.timeout_s.into()))?;
        // The kernel keeps `far` open.
        Ok((device, near))
    }

    fn claim_free(socket: &OwnedFd) -> Result<NbdDevice, OsError> {
        for number in 0..MAX_DEVICES {
            let path = PathBuf::from(format!("/dev/nbd{number}"));
            match Self::claim(&path, socket) {
                Err(error) if error.errno == Errno::BUSY => {}
                Err(error) if error.errno == Errno::NOENT && number > 0 => break,
                result => return result,
            }
        }
        Err(OsError::new("find a network block device that is not in use", Errno::BUSY))
    }

    fn claim(path: &Path, socket: &OwnedFd) -> Result<NbdDevice, OsError> {
        let operation = format!("use {}", path.display());
        let device = File::options().read(true).write(true).open(path).context(&operation)?;
        let device = NbdDevice { device, path: path.to_owned() };
        device.ioctl::<SET_SOCKET>(socket.as_fd().as_raw_fd() as u64).context(&operation)?;
        Ok(device)
    }

    /// Returns the path of the device.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of the device in `/sys/block`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Serves the kernel's requests and blocks the calling thread until the socket's other end is closed or
    /// [`disconnect`](Self::disconnect) is called. Then the device has no medium, and pending requests fail.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn run(&self) -> Result<(), OsError> {
        let ran = self.ioctl::<RUN>(0);
        let _ = self.ioctl::<CLEAR_SOCKET>(0);
        ran.context(&format!("run {}", self.path.display()))
    }

    /// Ends [`run`](Self::run): the kernel sends a disconnect request on the socket.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn disconnect(&self) -> Result<(), OsError> {
        self.ioctl::<DISCONNECT>(0).context(&format!("disconnect {}", self.path.display()))
    }

    fn ioctl<const OPERATION: Opcode>(&self, argument: u64) -> Result<(), Errno> {
        // Only 32-bit processors can get sizes beyond their address space.
        let argument = libc::c_ulong::try_from(argument).map_err(|_| Errno::OVERFLOW)?;
        // SAFETY: these operations take a number, and access no memory of this program. The socket's is that
        // of an open one, of which the kernel takes a reference of its own.
        unsafe { rustix::ioctl::ioctl(&self.device, IntegerIoctl::<OPERATION>(argument)) }
    }
}

impl Drop for NbdDevice {
    fn drop(&mut self) {
        // Releases a device that never ran, or that has stopped.
        let _ = self.ioctl::<CLEAR_SOCKET>(0);
    }
}

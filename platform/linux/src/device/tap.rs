//! A network card whose frames are sent and received by this program (TUN/TAP).

use std::fs::File;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, Updater, opcode};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::error::{Context, OsError};

/// Maximum length of a network device's name, in bytes.
pub const MAX_NAME_BYTES: usize = libc::IFNAMSIZ - 1;

/// Length of the header before each frame, which describes pending offloads: `struct virtio_net_hdr`,
/// little-endian.
pub const HEADER_BYTES: usize = 10;

/// Maximum length of a frame with its header: an unsegmented TCP frame of 64 KiB.
pub const MAX_FRAME_BYTES: usize = HEADER_BYTES + 14 + 4 + 65_535;

/// Permitted lengths of an IP packet on such a card, in bytes.
pub const MTU: std::ops::RangeInclusive<u32> = 68..=65_521;

const DEVICE: &str = "/dev/net/tun";

const SET_INTERFACE: Opcode = opcode::write::<libc::c_int>(b'T', 202);
const SET_OFFLOAD: Opcode = opcode::write::<libc::c_uint>(b'T', 208);
const SET_HEADER_BYTES: Opcode = opcode::write::<libc::c_int>(b'T', 216);
const SET_LITTLE_ENDIAN: Opcode = opcode::write::<libc::c_int>(b'T', 220);
const SET_CARRIER: Opcode = opcode::write::<libc::c_int>(b'T', 226);

/// `TUN_F_CSUM`, `TUN_F_TSO4`, `TUN_F_TSO6`: frames may arrive without a checksum, and TCP frames
/// unsegmented.
const OFFLOADS: libc::c_ulong = 1 | 2 | 4;

/// A network card, which disappears when dropped.
#[derive(Debug)]
pub struct Tap {
    file: File,
    interface: Interface,
}

/// The settings of a network device of any kind.
#[derive(Debug)]
pub struct Interface {
    /// Socket for requests about the device.
    socket: OwnedFd,
    name: String,
}

impl Tap {
    /// Creates a card with this name, without carrier and down. Each frame has a header of [`HEADER_BYTES`].
    ///
    /// # Errors
    /// `ENOENT`, `ENODEV`: the kernel has no TUN; `EPERM`: not permitted (needs `CAP_NET_ADMIN`); `EBUSY`:
    /// another program has a card of this name; `EINVAL`: not a valid name.
    pub fn create(name: &str) -> Result<Tap, OsError> {
        super::load_modules_for(DEVICE)?;
        let operation = format!("create the network device {name}");
        let file = File::options().read(true).write(true).open(DEVICE).context(&operation)?;
        rustix::io::ioctl_fionbio(&file, true).context(&operation)?;
        let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | IFF_TUN_EXCL;
        let mut ifreq = new_ifreq(name)?;
        ifreq.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: this operation reads and writes one `struct ifreq`, which `ifreq` is, whole.
        unsafe { rustix::ioctl::ioctl(&file, Updater::<SET_INTERFACE, libc::ifreq>::new(&mut ifreq)) }
            .context(&operation)?;
        set::<SET_HEADER_BYTES>(&file, HEADER_BYTES as libc::c_int, &operation)?;
        set::<SET_LITTLE_ENDIAN>(&file, 1, &operation)?;
        set::<SET_CARRIER>(&file, 0, &operation)?;
        // SAFETY: this operation takes a number, and nothing that it points to.
        unsafe { rustix::ioctl::ioctl(&file, IntegerIoctl::<SET_OFFLOAD>(OFFLOADS)) }.context(&operation)?;
        Ok(Tap { file, interface: Interface::named(name)? })
    }

    /// Returns the settings of the card.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Sets the carrier: programs see the link come up or go down.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn set_carrier(&self, on: bool) -> Result<(), OsError> {
        set::<SET_CARRIER>(&self.file, libc::c_int::from(on), "change the carrier of a network device")
    }

    /// Receives the next frame sent by programs, with its header; `None` if the queue is empty.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn receive(&self, frame: &mut [u8]) -> Result<Option<usize>, OsError> {
        match (&self.file).read(frame) {
            Ok(length) => Ok(Some(length)),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::AGAIN | Errno::INTR) => Ok(None),
                _ => Err(OsError::from_io("read from a network device", &error)),
            },
        }
    }

    /// Injects a frame, with its header, for programs to receive. Returns false if the kernel did not accept
    /// it: the device is down, its queue is full, or the frame is malformed.
    ///
    /// # Errors
    /// The device is gone.
    pub fn send(&self, frame: &[u8]) -> Result<bool, OsError> {
        // The kernel accepts a frame whole or not at all.
        match (&self.file).write(frame) {
            Ok(length) => Ok(length == frame.len()),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::BADFD | Errno::NODEV) => {
                    Err(OsError::from_io("write to a network device", &error))
                }
                _ => Ok(false),
            },
        }
    }
}

impl Interface {
    /// Returns a handle for the device of this name, which need not exist yet.
    ///
    /// # Errors
    /// `EMFILE`: too many open files.
    pub fn named(name: &str) -> Result<Interface, OsError> {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)
            .context("create a socket")?;
        Ok(Interface { socket, name: name.to_owned() })
    }

    /// Sets the hardware address. Only while the device is down.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn set_hardware_address(&self, address: [u8; 6]) -> Result<(), OsError> {
        let mut ifreq = new_ifreq(&self.name)?;
        let mut hardware = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: [0; 14] };
        for (to, from) in hardware.sa_data.iter_mut().zip(address) {
            *to = from as libc::c_char;
        }
        ifreq.ifr_ifru.ifru_hwaddr = hardware;
        self.ioctl::<{ libc::SIOCSIFHWADDR as Opcode }>(&mut ifreq, "set the hardware address")
    }

    /// Sets the maximum length of an IP packet, within [`MTU`].
    ///
    /// # Errors
    /// `EINVAL` outside of that range.
    pub fn set_mtu(&self, bytes: u32) -> Result<(), OsError> {
        let mut ifreq = new_ifreq(&self.name)?;
        ifreq.ifr_ifru.ifru_mtu = i32::try_from(bytes).unwrap_or(i32::MAX);
        self.ioctl::<{ libc::SIOCSIFMTU as Opcode }>(&mut ifreq, "set the MTU")
    }

    /// Assigns an address in a network with a prefix of `prefix` bits.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn set_address(&self, address: Ipv4Addr, prefix: u8) -> Result<(), OsError> {
        let mut ifreq = new_ifreq(&self.name)?;
        ifreq.ifr_ifru.ifru_addr = socket_address(address);
        self.ioctl::<{ libc::SIOCSIFADDR as Opcode }>(&mut ifreq, "set the address")?;
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
        let mut ifreq = new_ifreq(&self.name)?;
        ifreq.ifr_ifru.ifru_netmask = socket_address(Ipv4Addr::from_bits(mask));
        self.ioctl::<{ libc::SIOCSIFNETMASK as Opcode }>(&mut ifreq, "set the netmask")
    }

    /// Switches the device on.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn bring_up(&self) -> Result<(), OsError> {
        let mut ifreq = new_ifreq(&self.name)?;
        ifreq.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        self.ioctl::<{ libc::SIOCSIFFLAGS as Opcode }>(&mut ifreq, "switch on the device")
    }

    fn ioctl<const OPERATION: Opcode>(&self, ifreq: &mut libc::ifreq, what: &str) -> Result<(), OsError> {
        // SAFETY: these operations read one `struct ifreq`, which this is, whole; all its bytes are
        // initialised.
        unsafe { rustix::ioctl::ioctl(&self.socket, Updater::<OPERATION, libc::ifreq>::new(ifreq)) }
            .context(&format!("{what} of {}", self.name))
    }
}

impl AsFd for Tap {
    /// Returns a descriptor that is readable when a frame is queued.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// `IFF_TUN_EXCL`: fail where a card of this name exists.
const IFF_TUN_EXCL: libc::c_int = 0x8000;

/// Passes a number to the kernel with an ioctl.
fn set<const OPERATION: Opcode>(file: &File, value: libc::c_int, operation: &str) -> Result<(), OsError> {
    // SAFETY: the operations that this is called with read one `int`, which `Setter` points to.
    unsafe { rustix::ioctl::ioctl(file, Setter::<OPERATION, libc::c_int>::new(value)) }.context(operation)
}

/// An ioctl whose argument is passed by value.
pub(super) struct IntegerIoctl<const OPERATION: Opcode>(pub(super) libc::c_ulong);

// SAFETY: the argument is a number, and the kernel accesses no memory of this program.
unsafe impl<const OPERATION: Opcode> rustix::ioctl::Ioctl for IntegerIoctl<OPERATION> {
    type Output = ();

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        OPERATION
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        std::ptr::without_provenance_mut(self.0 as usize)
    }

    unsafe fn output_from_ptr(
        _: rustix::ioctl::IoctlOutput,
        _: *mut rustix::ffi::c_void,
    ) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// Returns a zeroed request about the device of this name.
fn new_ifreq(name: &str) -> Result<libc::ifreq, OsError> {
    // The kernel would expand a name with a percent sign as a pattern.
    let is_invalid = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, 0 | b'/' | b':' | b'%');
    let length = 1..=MAX_NAME_BYTES;
    if !length.contains(&name.len()) || name == "." || name == ".." || name.bytes().any(is_invalid) {
        return Err(OsError::new(format!("name a network device {name:?}"), Errno::INVAL));
    }
    // SAFETY: a structure of numbers, of which any bits, zero too, are values.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in ifreq.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(ifreq)
}

/// Returns an address as a `struct sockaddr_in` in network byte order.
fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut socket = libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: [0; 14] };
    for (to, from) in socket.sa_data[2..].iter_mut().zip(address.octets()) {
        *to = from as libc::c_char;
    }
    socket
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn interface_exists_until_dropped() {
        let name = format!("tap{}", std::process::id());
        let tap = match Tap::create(&name) {
            Ok(tap) => tap,
            Err(error) => return crate::report_unsupported(&format!("network devices of programs: {error}")),
        };
        assert_eq!(Tap::create(&name).unwrap_err().errno, Errno::BUSY);
        tap.interface().set_hardware_address([2, 0, 0, 0, 0, 7]).unwrap();
        tap.interface().set_mtu(9000).unwrap();
        tap.interface().set_address(Ipv4Addr::new(192, 0, 2, 1), 24).unwrap();
        tap.interface().bring_up().unwrap();
        assert_eq!(tap.interface().set_mtu(*MTU.end() + 1).unwrap_err().errno, Errno::INVAL);
        // `/sys` may belong to another network namespace.
        let query = |fill: fn(&Tap, &mut libc::ifreq)| {
            let mut ifreq = new_ifreq(&name).unwrap();
            fill(&tap, &mut ifreq);
            ifreq
        };
        let mtu =
            query(|tap, ifreq| tap.interface.ioctl::<{ libc::SIOCGIFMTU as Opcode }>(ifreq, "").unwrap());
        // SAFETY: any bits are a number.
        assert_eq!(unsafe { mtu.ifr_ifru.ifru_mtu }, 9000);
        let is_running = || {
            let flags = query(|tap, ifreq| {
                tap.interface.ioctl::<{ libc::SIOCGIFFLAGS as Opcode }>(ifreq, "").unwrap();
            });
            // SAFETY: as above.
            let flags = unsafe { flags.ifr_ifru.ifru_flags };
            libc::c_int::from(flags) & libc::IFF_RUNNING != 0
        };
        // The kernel propagates the carrier from a work queue, up to a second later.
        let settles_at = |running: bool| {
            let deadline = Instant::now() + Duration::from_secs(30);
            while is_running() != running {
                assert!(Instant::now() < deadline, "running is not {running}");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        settles_at(false);
        tap.set_carrier(true).unwrap();
        settles_at(true);
        // The kernel sends neighbour discovery frames on the link; skip other frames until `None`.
        let mut frame = vec![0; MAX_FRAME_BYTES];
        while tap.receive(&mut frame).unwrap().is_some() {}
        assert!(!tap.send(&[0; 5]).unwrap(), "not even a header");
        let mut frame = vec![0_u8; HEADER_BYTES + 60];
        frame[HEADER_BYTES..][..6].fill(0xff);
        assert!(tap.send(&frame).unwrap());
        drop(tap);
        drop(Tap::create(&name).unwrap());
    }

    #[test]
    fn invalid_names_are_refused() {
        for name in ["", ".", "..", "a/b", "a b", "tap%d", "a\0", "sixteen-bytes-xx"] {
            assert_eq!(new_ifreq(name).unwrap_err().errno, Errno::INVAL, "{name:?}");
        }
        assert!(new_ifreq("fifteen-bytes-x").is_ok());
    }
}

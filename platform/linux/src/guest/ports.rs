//! Ports of a virtual machine's serial device: byte streams that the emulator connects to sockets.
//!
//! The driver is in the kernel (`virtio_console`). Without udev a port has no name under `/dev`; sysfs has
//! the names.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;

use super::{GuestError, read_attribute};
use crate::error::Context;
use crate::event::{Interest, poll};
use crate::time::Deadline;

/// Name of the port of the control link with the host.
pub const CONTROL: &str = "tombolo.control";

/// Name of the port of the streams of channels.
pub const STREAMS: &str = "tombolo.streams";

/// Kernel command-line parameter for the type of link that joins the node to the host, and its value for
/// these ports.
pub const LINK: (&str, &str) = ("tombolo.link", "ports");

/// Polling period for a port that does not exist yet.
const POLL_PERIOD: Duration = Duration::from_millis(2);

/// Waits for the port with this name to exist and to be open in the emulator, and opens it non-blocking.
///
/// # Errors
/// [`GuestError::NoPort`] if it does not appear before the deadline, or an error of the kernel.
pub fn open(name: &str, deadline: Deadline) -> Result<OwnedFd, GuestError> {
    let expired = || GuestError::NoPort { name: name.to_owned() };
    let wait = || {
        std::thread::sleep(POLL_PERIOD);
        if deadline.passed() { Err(expired()) } else { Ok(()) }
    };
    let path = loop {
        match find(Path::new("/sys/class/virtio-ports"), name) {
            Some(path) => break path,
            None => wait()?,
        }
    };
    let mut options = File::options();
    options.read(true).write(true).custom_flags((OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32);
    let port: OwnedFd = options.open(&path).context(&format!("open {}", path.display()))?.into();
    // Until the other end is open, reads return end of file.
    while poll(&[(port.as_fd(), Interest::Read)], Some(Deadline::after(Duration::ZERO)))?[0].hung_up {
        wait()?;
    }
    Ok(port)
}

fn find(class: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(class).ok()?.filter_map(Result::ok);
    let mut named =
        entries.filter(|entry| read_attribute(&entry.path().join("name")).is_ok_and(|found| found == name));
    Some(Path::new("/dev").join(named.next()?.file_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_found_by_its_name() {
        let class = std::env::temp_dir().join(format!("tombolo-ports-{}", std::process::id()));
        for (entry, name) in [("vport1p1", "tombolo.control\n"), ("vport1p2", "tombolo.streams\n")] {
            std::fs::create_dir_all(class.join(entry)).unwrap();
            std::fs::write(class.join(entry).join("name"), name).unwrap();
        }
        assert_eq!(find(&class, STREAMS), Some(PathBuf::from("/dev/vport1p2")));
        assert_eq!(find(&class, "tombolo"), None);
        std::fs::remove_dir_all(&class).unwrap();
        assert_eq!(find(&class, STREAMS), None);
    }
}

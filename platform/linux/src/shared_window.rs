//! Location and opening of memory that another system shares with this one.
//!
//! A window that Tombolo did not create is given by a text in a machine file or on a command line, such as
//! `file:/dev/shm/card0` or `pci:0000:03:00.0/2`.

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::io::Errno;

use crate::error::{Context, OsError};
use crate::guest::pci::{self, WindowDevice};
use crate::guest::{read_attribute, write_attribute};

/// Location of a window's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WindowSource {
    /// A file that both sides map: in `/dev/shm`, or the backing file of an emulator's device.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the window in the file, a multiple of 4096; it extends to the end of the file. A device
        /// may keep the first part for itself.
        offset_bytes: u64,
    },
    /// A memory BAR of a PCI device: its address and the number of the BAR.
    Pci {
        /// PCI address, such as `0000:03:00.0`.
        address: String,
        /// Number of the BAR, 0 to 5.
        bar: u8,
    },
    /// The first `ivshmem` device, as QEMU, ACRN and Jailhouse present it: BAR 2 of 1af4:1110.
    Ivshmem,
    /// A device of the kernel's DAX driver: persistent or CXL memory.
    Dax(PathBuf),
    /// A memory map of a UIO device.
    Uio {
        /// Path of the device, such as `/dev/uio0`.
        path: PathBuf,
        /// Index of the map, 0 to 4.
        map: u8,
    },
    /// Memory at a physical address that is reserved in the kernel.
    Physical(u64),
}

/// Notations of a source, for messages.
pub const SOURCE_FORMS: &str =
    "file:PATH[+0xOFFSET], pci:ADDRESS/BAR, ivshmem, dax:PATH, uio:PATH/MAP or memory:0xADDRESS";

/// Error for a text that does not denote a window.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid window '{text}'; {why}; write {SOURCE_FORMS}")]
pub struct InvalidSource {
    text: String,
    why: &'static str,
}

/// An open window. Programs map `file` from `base_bytes` on.
#[derive(Debug)]
pub struct OpenWindow {
    /// File or device to map.
    pub file: OwnedFd,
    /// Offset of the window in the file, a multiple of the page size.
    pub base_bytes: u64,
    /// Length of the window, in bytes.
    pub length_bytes: u64,
}

impl FromStr for WindowSource {
    type Err = InvalidSource;

    fn from_str(text: &str) -> Result<Self, InvalidSource> {
        let wrong = |why| InvalidSource { text: text.escape_debug().to_string(), why };
        if text == "ivshmem" {
            return Ok(WindowSource::Ivshmem);
        }
        let (kind, rest) = text.split_once(':').ok_or(wrong("it has no kind"))?;
        if rest.is_empty() || rest.contains(char::is_control) {
            return Err(wrong("nothing usable comes after the kind"));
        }
        match kind {
            "file" => {
                let (path, offset) = rest.rsplit_once("+0x").unwrap_or((rest, "0"));
                let offset_bytes = page_address(offset).map_err(wrong)?;
                Ok(WindowSource::File { path: path.into(), offset_bytes })
            }
            "dax" => Ok(WindowSource::Dax(rest.into())),
            "pci" => {
                let (address, bar) = rest.split_once('/').ok_or(wrong("the number of the BAR is missing"))?;
                let bar = bar.parse().ok().filter(|bar| *bar < 6).ok_or(wrong("a BAR is 0 to 5"))?;
                if !is_pci_address(address) {
                    return Err(wrong("a PCI address is like 0000:03:00.0"));
                }
                Ok(WindowSource::Pci { address: address.to_owned(), bar })
            }
            "uio" => {
                let (path, map) = match rest.strip_prefix("/dev/").and_then(|name| name.split_once('/')) {
                    Some((name, map)) => (format!("/dev/{name}"), map),
                    None => (rest.to_owned(), "0"),
                };
                let map = map.parse().ok().filter(|map| *map < 5).ok_or(wrong("a map is 0 to 4"))?;
                Ok(WindowSource::Uio { path: path.into(), map })
            }
            "memory" => {
                let digits = rest.strip_prefix("0x").ok_or(wrong("an address begins with 0x"))?;
                page_address(digits).map(WindowSource::Physical).map_err(wrong)
            }
            _ => Err(wrong("its kind is unknown")),
        }
    }
}

impl fmt::Display for WindowSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WindowSource::File { path, offset_bytes: 0 } => write!(f, "file:{}", path.display()),
            WindowSource::File { path, offset_bytes } => {
                write!(f, "file:{}+{offset_bytes:#x}", path.display())
            }
            WindowSource::Pci { address, bar } => write!(f, "pci:{address}/{bar}"),
            WindowSource::Ivshmem => f.write_str("ivshmem"),
            WindowSource::Dax(path) => write!(f, "dax:{}", path.display()),
            WindowSource::Uio { path, map } => write!(f, "uio:{}/{map}", path.display()),
            WindowSource::Physical(address) => write!(f, "memory:{address:#x}"),
        }
    }
}

const PAGE_BYTES: u64 = 4096;

/// Parses the hexadecimal address or offset of a page.
fn page_address(digits: &str) -> Result<u64, &'static str> {
    match u64::from_str_radix(&digits.replace('_', ""), 16) {
        Ok(address) if address.is_multiple_of(PAGE_BYTES) => Ok(address),
        Ok(_) => Err("an address or offset is a multiple of 0x1000"),
        Err(_) => Err("an address or offset is a hexadecimal number of 64 bits"),
    }
}

/// Checks for domain, bus, device and function in hexadecimal digits.
fn is_pci_address(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_separator = |index: usize| match index {
        4 | 7 => Some(b':'),
        10 => Some(b'.'),
        _ => None,
    };
    bytes.len() == 12
        && bytes.iter().enumerate().all(|(index, byte)| match is_separator(index) {
            Some(separator) => *byte == separator,
            None => byte.is_ascii_hexdigit(),
        })
}

impl WindowSource {
    /// Resolves a relative path against `folder`.
    #[must_use]
    pub fn relative_to(self, folder: &Path) -> Self {
        match self {
            WindowSource::File { path, offset_bytes } => {
                WindowSource::File { path: folder.join(path), offset_bytes }
            }
            other => other,
        }
    }

    /// Opens the window. `length_bytes` is the other side's length, for comparison; memory at a physical
    /// address has no length of its own and requires it.
    ///
    /// # Errors
    /// An error of the kernel; `EINVAL` for a window of another or of unknown length.
    pub fn open(&self, length_bytes: Option<u64>) -> Result<OpenWindow, OsError> {
        let window = match self {
            WindowSource::File { path, offset_bytes } => open_file(path, *offset_bytes)?,
            WindowSource::Ivshmem => {
                let device = WindowDevice::find().map_err(|error| match error {
                    crate::guest::GuestError::Os(error) => error,
                    other => OsError::new(format!("find the window: {other}"), Errno::NODEV),
                })?;
                open_bar(device.sysfs(), 2)?
            }
            WindowSource::Pci { address, bar } => {
                open_bar(&Path::new("/sys/bus/pci/devices").join(address), *bar)?
            }
            WindowSource::Dax(path) => open_dax(path, Path::new("/sys/bus/dax/devices"))?,
            WindowSource::Uio { path, map } => {
                let name = path.file_name().unwrap_or_default();
                let about = Path::new("/sys/class/uio").join(name).join(format!("maps/map{map}"));
                // UIO selects the map of a device by the page offset.
                let base_bytes = u64::from(*map) * PAGE_BYTES;
                let length_bytes = number(&about.join("size"))?;
                OpenWindow { file: pci::open(path)?.into(), base_bytes, length_bytes }
            }
            WindowSource::Physical(address) => {
                let unknown = || OsError::new(format!("use {self} without a length"), Errno::INVAL);
                let length_bytes = length_bytes.ok_or_else(unknown)?;
                OpenWindow {
                    file: pci::open(Path::new("/dev/mem"))?.into(),
                    base_bytes: *address,
                    length_bytes,
                }
            }
        };
        match length_bytes {
            Some(expected) if expected != window.length_bytes => Err(OsError::new(
                format!(
                    "use the window {self}, which has {} bytes, as one of {expected}",
                    window.length_bytes
                ),
                Errno::INVAL,
            )),
            _ => Ok(window),
        }
    }
}

/// Reads a decimal or hexadecimal number from sysfs.
fn number(path: &Path) -> Result<u64, OsError> {
    let text = read_attribute(path)?;
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    parsed.ok_or_else(|| OsError::new(format!("read a number from {}", path.display()), Errno::INVAL))
}

/// Opens a file. Refuses a block device of persistent memory: the kernel maps copies of its blocks.
fn open_file(path: &Path, offset_bytes: u64) -> Result<OpenWindow, OsError> {
    let file = pci::open(path)?;
    let status = file.metadata().context(&format!("size {}", path.display()))?;
    if !status.is_file() {
        let what = format!(
            "use {}, which is no regular file, as a window (of persistent memory, make a DAX device: \
             `ndctl create-namespace --mode=devdax --align=4k`)",
            path.display()
        );
        return Err(OsError::new(what, Errno::INVAL));
    }
    let length_bytes = status.len().saturating_sub(offset_bytes);
    Ok(OpenWindow { file: file.into(), base_bytes: offset_bytes, length_bytes })
}

/// Opens a device of the DAX driver, whose attributes are in `devices`. Programs map single pages of the
/// window, which the driver must allow.
fn open_dax(path: &Path, devices: &Path) -> Result<OpenWindow, OsError> {
    let name = path.file_name().unwrap_or_default();
    let attributes = devices.join(name);
    let (length_bytes, align_bytes) = (number(&attributes.join("size"))?, number(&attributes.join("align"))?);
    if align_bytes > PAGE_BYTES {
        let what = format!(
            "use {}, which maps {align_bytes} bytes or nothing, as a window; set its alignment to {PAGE_BYTES} \
             (`daxctl reconfigure-device --align=4k`, or `ndctl create-namespace --mode=devdax --align=4k`)",
            path.display()
        );
        return Err(OsError::new(what, Errno::INVAL));
    }
    Ok(OpenWindow { file: pci::open(path)?.into(), base_bytes: 0, length_bytes })
}

/// Opens a BAR through sysfs, which needs no driver.
fn open_bar(sysfs: &Path, bar: u8) -> Result<OpenWindow, OsError> {
    let table = read_attribute(&sysfs.join("resource"))?;
    let range = pci::parse_bar(&table, bar.into()).ok_or_else(|| {
        OsError::new(format!("find BAR {bar} of the device {}", sysfs.display()), Errno::NODEV)
    })?;
    // Refused while a driver is bound, which has enabled the device then.
    match write_attribute(&sysfs.join("enable"), "1") {
        Err(error) if error.errno != Errno::BUSY => return Err(error),
        _ => {}
    }
    let combining = sysfs.join(format!("resource{bar}_wc"));
    // x86 processors do not preserve the order of stores to write-combining memory, on which rings rely; on
    // others a release store orders them, and uncached memory would not allow unaligned accesses.
    let path = match cfg!(not(target_arch = "x86_64")) && combining.exists() {
        true => combining,
        false => sysfs.join(format!("resource{bar}")),
    };
    Ok(OpenWindow { file: pci::open(&path)?.into(), base_bytes: 0, length_bytes: range.end - range.start })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_written_as_they_are_read() {
        for text in [
            "file:/dev/shm/card0",
            "file:/dev/shm/card0+0x200000",
            "pci:0000:03:00.0/2",
            "ivshmem",
            "dax:/dev/dax0.0",
            "uio:/dev/uio1/3",
            "memory:0x80000000",
        ] {
            let source: WindowSource = text.parse().unwrap();
            assert_eq!(source.to_string(), text);
        }
        let source: WindowSource = "uio:/dev/uio1".parse().unwrap();
        assert_eq!(source.to_string(), "uio:/dev/uio1/0");
        let source: WindowSource = "memory:0x8_0000_0000".parse().unwrap();
        assert_eq!(source, WindowSource::Physical(0x8_0000_0000));
    }

    #[test]
    fn invalid_window_sources_are_refused() {
        for (text, why) in [
            ("", "no kind"),
            ("/dev/shm/x", "no kind"),
            ("file:", "nothing usable"),
            ("file:/x+0x1", "multiple"),
            ("file:/x+0xy", "64 bits"),
            ("nfs:/x", "unknown"),
            ("pci:0000:03:00.0", "BAR is missing"),
            ("pci:0000:03:00.0/6", "0 to 5"),
            ("pci:03:00.0/2", "like 0000:03:00.0"),
            ("uio:/dev/uio0/9", "0 to 4"),
            ("memory:80000000", "0x"),
            ("memory:0x80000001", "multiple"),
            ("memory:0x1_0000_0000_0000_0000", "64 bits"),
        ] {
            let error = text.parse::<WindowSource>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_has_the_length_that_it_has() {
        let path = std::env::temp_dir().join(format!("tombolo-shared-window-{}", std::process::id()));
        std::fs::write(&path, [0; 8192]).unwrap();
        let source = WindowSource::File { path: path.clone(), offset_bytes: 0 };
        assert_eq!(source.open(None).unwrap().length_bytes, 8192);
        assert_eq!(source.open(Some(8192)).unwrap().base_bytes, 0);
        let error = source.open(Some(4096)).unwrap_err();
        assert!(error.to_string().contains("8192 bytes") && error.to_string().contains("4096"), "{error}");
        let second = WindowSource::File { path: path.clone(), offset_bytes: 4096 };
        let opened = second.open(Some(4096)).unwrap();
        assert_eq!((opened.base_bytes, opened.length_bytes), (4096, 4096));
        let beyond = WindowSource::File { path: path.clone(), offset_bytes: 12288 };
        assert_eq!(beyond.open(None).unwrap().length_bytes, 0);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(source.open(None).unwrap_err().errno, Errno::NOENT);
    }

    #[test]
    fn a_file_that_is_a_device_is_refused() {
        let null = WindowSource::File { path: "/dev/null".into(), offset_bytes: 0 };
        let error = null.open(None).unwrap_err().to_string();
        assert!(error.contains("/dev/null, which is no regular file") && error.contains("devdax"), "{error}");
    }

    #[test]
    fn a_dax_device_must_map_single_pages() {
        let folder = std::env::temp_dir().join(format!("tombolo-dax-{}", std::process::id()));
        let attributes = folder.join("null");
        std::fs::create_dir_all(&attributes).unwrap();
        std::fs::write(attributes.join("size"), "67108864\n").unwrap();
        std::fs::write(attributes.join("align"), "2097152\n").unwrap();
        let open = || open_dax(Path::new("/dev/null"), &folder);
        let error = open().unwrap_err().to_string();
        assert!(error.contains("2097152") && error.contains("--align=4k"), "{error}");
        std::fs::write(attributes.join("align"), "4096\n").unwrap();
        let length_bytes = open().unwrap().length_bytes;
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(length_bytes, 64 << 20);
    }

    #[test]
    fn memory_at_an_address_needs_a_length() {
        assert_eq!(WindowSource::Physical(0x1000).open(None).unwrap_err().errno, Errno::INVAL);
    }
}

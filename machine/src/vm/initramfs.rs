//! The boot image of a virtual machine: a `newc` cpio archive, cached by its content.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tombolo_platform::guest::init;

use super::kit::VmKit;

/// Archives that no machine has been started from for this long are removed from the cache.
const KEEP: Duration = Duration::from_secs(30 * 24 * 60 * 60);

const PREFIX: &str = "boot-";
const SUFFIX: &str = ".cpio";

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;

/// Why a boot image could not be made.
#[derive(Debug, thiserror::Error)]
pub enum InitramfsError {
    /// A part of the kit could not be read.
    #[error("cannot read {path}, a part of the boot image: {error}", path = path.display())]
    Read {
        /// The part.
        path: PathBuf,
        /// What the system answered.
        error: std::io::Error,
    },
    /// The list of modules names something that is not a plain file name.
    #[error("{path} lists the module {name:?}, which is not a file name", path = path.display())]
    ModuleName {
        /// The list.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// The archive could not be put in the cache.
    #[error(
        "cannot keep the boot image in {path}: {error}; make it writable or set XDG_CACHE_HOME",
        path = path.display()
    )]
    Cache {
        /// The cache's directory.
        path: PathBuf,
        /// What the system answered.
        error: std::io::Error,
    },
    /// There is no directory for the cache.
    #[error("no place to keep the boot image: set XDG_CACHE_HOME or HOME")]
    NoCache,
}

/// A `newc` cpio archive that is being written. The same entries give the same bytes.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// An archive without entries.
    #[must_use]
    pub fn new() -> Self {
        Archive::default()
    }

    /// Adds a directory; its parents must have been added before. `path` has no leading slash.
    pub fn directory(&mut self, path: &str) {
        self.entry(path, DIRECTORY | 0o755, 2, &[]);
    }

    /// Adds a file with the permissions `mode`.
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entry(path, REGULAR | (mode & 0o7777), 1, content);
    }

    /// Adds a symbolic link.
    pub fn symlink(&mut self, path: &str, target: &str) {
        self.entry(path, SYMLINK | 0o777, 1, target.as_bytes());
    }

    /// The finished archive.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.entries = 0;
        self.header("TRAILER!!!", 0, 0, 1, 0);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, links: u32, content: &[u8]) {
        self.entries += 1;
        // The format has 32 bits for the length; what goes into a boot image is far from it.
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let content = &content[..length as usize];
        self.header(path, self.entries, mode, links, length);
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn header(&mut self, path: &str, inode: u32, mode: u32, links: u32, length: u32) {
        let name_length = path.len() as u32 + 1;
        self.bytes.extend_from_slice(b"070701");
        // ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
        for field in [inode, mode, 0, 0, links, 0, length, 0, 0, 0, 0, name_length, 0] {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// Packs the boot image of a node: its monitor as process 1, the modules and the console's tools.
///
/// # Errors
/// [`InitramfsError::Read`] and [`InitramfsError::ModuleName`].
pub fn pack(kit: &VmKit) -> Result<Vec<u8>, InitramfsError> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| InitramfsError::Read { path: path.to_owned(), error })
    };
    let relative = |path: &'static str| path.trim_start_matches('/');
    let mut archive = Archive::new();
    for directory in ["bin", "dev", "lib", relative(init::MODULES), "proc", "run", "sys", "tmp"] {
        archive.directory(directory);
    }
    archive.file(relative(init::BUSYBOX), 0o755, &read(&kit.busybox)?);
    archive.symlink("bin/sh", init::BUSYBOX);
    let order = read(&kit.module_order())?;
    for name in String::from_utf8_lossy(&order).lines().filter(|name| !name.is_empty()) {
        if name.contains('/') || name.starts_with('.') {
            return Err(InitramfsError::ModuleName { path: kit.module_order(), name: name.to_owned() });
        }
        let content = read(&kit.modules_dir.join(name))?;
        archive.file(&format!("{}/{name}", relative(init::MODULES)), 0o644, &content);
    }
    archive.file(&format!("{}/{}", relative(init::MODULES), init::MODULE_ORDER), 0o644, &order);
    archive.file("init", 0o755, &read(&kit.tombolod)?);
    Ok(archive.finish())
}

/// The directory that boot images are cached in: `$XDG_CACHE_HOME/tombolo`, or `~/.cache/tombolo`.
///
/// # Errors
/// [`InitramfsError::NoCache`] when the environment names neither.
pub fn cache_directory() -> Result<PathBuf, InitramfsError> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    cache.map(|path| path.join("tombolo")).ok_or(InitramfsError::NoCache)
}

/// Puts `archive` into the cache under a name made from its content, unless it is there, and returns its path.
///
/// A file under such a name is whole: it is written under another name first. Archives long unused go.
///
/// # Errors
/// [`InitramfsError::Cache`].
pub fn keep(archive: &[u8], directory: &Path) -> Result<PathBuf, InitramfsError> {
    let digest: String = Sha256::digest(archive).iter().map(|byte| format!("{byte:02x}")).collect();
    let path = directory.join(format!("{PREFIX}{digest}{SUFFIX}"));
    let failed = |error| InitramfsError::Cache { path: directory.to_owned(), error };
    if !use_again(&path) {
        std::fs::create_dir_all(directory).map_err(failed)?;
        write_whole(archive, &path).map_err(failed)?;
    }
    forget_unused(directory, SystemTime::now());
    Ok(path)
}

/// Whether an archive that was [kept](keep) still is, and marks it as used.
#[must_use]
pub fn use_again(path: &Path) -> bool {
    File::options().append(true).open(path).is_ok_and(|file| file.set_modified(SystemTime::now()).is_ok())
}

fn write_whole(content: &[u8], path: &Path) -> std::io::Result<()> {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let draft = path.with_extension(format!("draft-{}-{number}", std::process::id()));
    let written = File::create(&draft)
        .and_then(|mut file| {
            file.write_all(content)?;
            // The name must not outlive the content if the host loses power.
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&draft, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}

/// Removes archives, and drafts of processes that were killed, not used for [`KEEP`]. What cannot be removed
/// stays: a full cache is no reason not to start a machine.
fn forget_unused(directory: &Path, now: SystemTime) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let unused = modified.is_ok_and(|time| now.duration_since(time).is_ok_and(|age| age > KEEP));
        if ours && unused {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("tombolo-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn the_archive_has_these_bytes() {
        let mut archive = Archive::new();
        archive.directory("bin");
        archive.file("bin/x", 0o755, b"hello");
        archive.symlink("bin/sh", "x");
        #[rustfmt::skip]
        let expected = concat!(
            "070701",
            "00000001",
            "000041ed",
            "00000000",
            "00000000",
            "00000002",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000004",
            "00000000",
            "bin\0\0\0",
            "070701",
            "00000002",
            "000081ed",
            "00000000",
            "00000000",
            "00000001",
            "00000000",
            "00000005",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000006",
            "00000000",
            "bin/x\0",
            "hello\0\0\0",
            "070701",
            "00000003",
            "0000a1ff",
            "00000000",
            "00000000",
            "00000001",
            "00000000",
            "00000001",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000007",
            "00000000",
            "bin/sh\0\0\0\0",
            "x\0\0\0",
            "070701",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000001",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "00000000",
            "0000000b",
            "00000000",
            "TRAILER!!!\0\0\0\0",
        );
        assert_eq!(String::from_utf8(archive.finish()).unwrap(), expected);
    }

    fn kit(folder: &Path, order: &str) -> VmKit {
        for (name, content) in [("vmlinuz", "k"), ("busybox", "b"), ("tombolod", "t")] {
            std::fs::write(folder.join(name), content).unwrap();
        }
        let modules_dir = folder.join("modules");
        std::fs::create_dir_all(&modules_dir).unwrap();
        std::fs::write(modules_dir.join("order"), order).unwrap();
        std::fs::write(modules_dir.join("vfio.ko"), "m").unwrap();
        VmKit {
            kernel: folder.join("vmlinuz"),
            modules_dir,
            busybox: folder.join("busybox"),
            tombolod: folder.join("tombolod"),
        }
    }

    #[test]
    fn a_boot_image_holds_the_kit() {
        let folder = temporary("pack");
        let packed = String::from_utf8(pack(&kit(&folder, "vfio.ko\n")).unwrap()).unwrap();
        for name in
            ["init\0", "bin/busybox\0", "lib/modules\0", "lib/modules/vfio.ko\0", "lib/modules/order\0"]
        {
            assert!(packed.contains(name), "{name:?}");
        }
        let missing = pack(&kit(&folder, "vfio.ko\nother.ko\n")).unwrap_err();
        assert!(missing.to_string().contains("other.ko"), "{missing}");
        let outside = pack(&kit(&folder, "../vfio.ko\n")).unwrap_err();
        assert!(matches!(outside, InitramfsError::ModuleName { .. }), "{outside}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn equal_archives_are_kept_once_and_old_ones_go() {
        let folder = temporary("cache");
        let cache = folder.join("made/on/demand");
        let first = keep(b"one", &cache).unwrap();
        assert_eq!(keep(b"one", &cache).unwrap(), first);
        assert_eq!(std::fs::read(&first).unwrap(), b"one");
        let second = keep(b"two", &cache).unwrap();
        let old = SystemTime::now() - KEEP - Duration::from_secs(60);
        for path in [&first, &second] {
            File::options().append(true).open(path).unwrap().set_modified(old).unwrap();
        }
        std::fs::write(cache.join("other"), "").unwrap();
        keep(b"two", &cache).unwrap();
        let mut left: Vec<_> =
            std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path()).collect();
        left.sort();
        assert_eq!(left, [second.clone(), cache.join("other")]);
        assert!(use_again(&second) && !use_again(&first));
        assert!(!first.exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_cache_that_cannot_be_written_is_named() {
        let folder = temporary("no-cache");
        let file = folder.join("file");
        std::fs::write(&file, "").unwrap();
        let error = keep(b"one", &file).unwrap_err();
        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

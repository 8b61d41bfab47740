//! The boot image of a virtual machine: a `newc` cpio archive, cached by its content.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tombolo_platform::guest::init;

use super::files::{Files, FilesError};
use super::kit::VmKit;
use crate::paths::NoCacheDir;
use crate::replace::replace_file;

/// Retention time of unused archives in the cache.
const MAX_CACHE_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Maximum total size of the archives in the cache, not counting the most recently used one.
const MAX_CACHE_BYTES: u64 = 2 << 30;

const PREFIX: &str = "boot-";
const SUFFIX: &str = ".cpio";

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;

/// Reason why a boot image could not be built.
#[derive(Debug, thiserror::Error)]
pub enum InitramfsError {
    /// A part of the kit could not be read.
    #[error("cannot read {path}, a part of the boot image: {error}", path = path.display())]
    Read {
        /// Path of the part.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The module list contains an entry that is not a plain file name.
    #[error("{path} lists the module {name:?}, which is not a file name", path = path.display())]
    ModuleName {
        /// The list.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// The node's own files could not be read.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The archive could not be stored in the cache.
    #[error(
        "cannot keep the boot image in {path}: {error}; make it writable or set XDG_CACHE_HOME",
        path = path.display()
    )]
    Cache {
        /// The cache's directory.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// The cache directory cannot be determined.
    #[error(transparent)]
    NoCache(#[from] NoCacheDir),
}

/// Writer of a `newc` cpio archive. Equal entries give equal bytes.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Creates an archive without entries.
    #[must_use]
    pub fn new() -> Self {
        Archive::default()
    }

    /// Adds a directory; its parents must have been added before. `path` has no leading slash.
    pub fn directory(&mut self, path: &str) {
        self.add_directory(path.as_bytes(), 0o755, 0);
    }

    /// Adds a file with the permissions `mode`.
    pub fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.add_file(path.as_bytes(), mode, 0, content);
    }

    /// Adds a symbolic link.
    pub fn symlink(&mut self, path: &str, target: &str) {
        self.add_symlink(path.as_bytes(), target.as_bytes(), 0);
    }

    /// Adds a directory with an arbitrary name, with the permissions in `mode`, last modified `modified_s`
    /// seconds after 1970.
    pub(super) fn add_directory(&mut self, path: &[u8], mode: u32, modified_s: u32) {
        self.entry(path, DIRECTORY | (mode & 0o7777), 2, modified_s, &[]);
    }

    /// Adds a file in the same way.
    pub(super) fn add_file(&mut self, path: &[u8], mode: u32, modified_s: u32, content: &[u8]) {
        self.entry(path, REGULAR | (mode & 0o7777), 1, modified_s, content);
    }

    /// Adds a symbolic link in the same way; links have no permissions.
    pub(super) fn add_symlink(&mut self, path: &[u8], target: &[u8], modified_s: u32) {
        self.entry(path, SYMLINK | 0o777, 1, modified_s, target);
    }

    /// Ends the archive with its trailer and returns its bytes.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.entries = 0;
        self.header(b"TRAILER!!!", 0, 0, 1, 0, 0);
        self.bytes
    }

    fn entry(&mut self, path: &[u8], mode: u32, links: u32, modified_s: u32, content: &[u8]) {
        self.entries += 1;
        // The format has 32 bits for the length, far more than a boot image needs.
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let content = &content[..length as usize];
        self.header(path, self.entries, mode, links, modified_s, length);
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn header(&mut self, path: &[u8], inode: u32, mode: u32, links: u32, modified_s: u32, length: u32) {
        let name_length = path.len() as u32 + 1;
        self.bytes.extend_from_slice(b"070701");
        // ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize,
        // check
        for field in [inode, mode, 0, 0, links, modified_s, length, 0, 0, 0, 0, name_length, 0] {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path);
        self.bytes.push(0);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// Packs the boot image of a node: its monitor as process 1, the modules and the console's tools, and its own
/// files.
///
/// # Errors
/// All but [`InitramfsError::Cache`].
pub fn pack(kit: &VmKit, files: &Files) -> Result<Vec<u8>, InitramfsError> {
    pack_with(kit, &kit.modules, &read(&kit.tombolod)?, files)
}

/// Packs the boot image of a machine that is not a node: `program` as process 1, network modules, and its own
/// files.
///
/// # Errors
/// As [`pack`]; a missing part of the kit is reported as an unreadable file.
pub fn pack_program(kit: &VmKit, program: &[u8], files: &Files) -> Result<Vec<u8>, InitramfsError> {
    let modules = kit.network_modules_dir().map_err(|missing| {
        let error = std::io::Error::new(std::io::ErrorKind::NotFound, missing.to_string());
        InitramfsError::Read { path: missing.path, error }
    })?;
    pack_with(kit, &[(modules, init::MODULES)], program, files)
}

fn read(path: &Path) -> Result<Vec<u8>, InitramfsError> {
    std::fs::read(path).map_err(|error| InitramfsError::Read { path: path.to_owned(), error })
}

fn pack_with(
    kit: &VmKit,
    modules: &[(PathBuf, &'static str)],
    program: &[u8],
    files: &Files,
) -> Result<Vec<u8>, InitramfsError> {
    let mut archive = Archive::new();
    for directory in [relative(init::TOMBOLO_DIR), "dev", "proc", "run", "sys", "tmp"] {
        archive.directory(directory);
    }
    archive.file(relative(init::BUSYBOX), 0o755, &read(&kit.busybox)?);
    for (source, target) in modules {
        pack_modules(&mut archive, source, relative(target))?;
    }
    // A user's root file system replaces `init`.
    archive.file(relative(init::PROGRAM), 0o755, program);
    archive.symlink("init", init::PROGRAM);
    if !files.contains("bin") {
        archive.directory("bin");
    }
    files.pack(&mut archive)?;
    if let Some(shell) = files.shell_path() {
        archive.symlink(&shell, init::BUSYBOX);
    }
    Ok(archive.finish())
}

/// Returns a path relative to the root, as in an archive.
fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}

/// Adds the modules listed in the folder `source`, and the list.
fn pack_modules(archive: &mut Archive, source: &Path, target: &str) -> Result<(), InitramfsError> {
    archive.directory(target);
    let order_path = source.join(init::MODULE_ORDER);
    let order = read(&order_path)?;
    for name in String::from_utf8_lossy(&order).lines().filter(|name| !name.is_empty()) {
        if name.contains('/') || name.starts_with('.') {
            return Err(InitramfsError::ModuleName { path: order_path, name: name.to_owned() });
        }
        archive.file(&format!("{target}/{name}"), 0o644, &read(&source.join(name))?);
    }
    archive.file(&format!("{target}/{}", init::MODULE_ORDER), 0o644, &order);
    Ok(())
}

/// Stores `archive` in the cache under a name derived from its content, unless it is there, and returns its
/// path.
///
/// A file under such a name is complete: it is written under a temporary name and renamed. Evicts archives
/// that were not used for long.
///
/// # Errors
/// [`InitramfsError::Cache`] if it cannot be written.
pub fn store(archive: &[u8], directory: &Path) -> Result<PathBuf, InitramfsError> {
    let digest: String = Sha256::digest(archive).iter().map(|byte| format!("{byte:02x}")).collect();
    let path = directory.join(format!("{PREFIX}{digest}{SUFFIX}"));
    let failed = |error| InitramfsError::Cache { path: directory.to_owned(), error };
    if !reuse_cached(&path) {
        std::fs::create_dir_all(directory).map_err(failed)?;
        replace_file(&path, archive, 0o666).map_err(failed)?;
    }
    evict_unused(directory, SystemTime::now());
    Ok(path)
}

/// Returns whether an archive that was [stored](store) still exists, and marks it as used.
#[must_use]
pub fn reuse_cached(path: &Path) -> bool {
    File::options().append(true).open(path).is_ok_and(|file| file.set_modified(SystemTime::now()).is_ok())
}

/// Removes archives and leftover drafts not used for [`MAX_CACHE_AGE`], and the least recently used archives
/// beyond [`MAX_CACHE_BYTES`]. Ignores failures: a full cache must not prevent a machine from starting.
fn evict_unused(directory: &Path, now: SystemTime) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let ours = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)));
    let mut found: Vec<(SystemTime, u64, PathBuf)> = ours
        .filter_map(|entry| {
            let metadata = entry.metadata().ok()?;
            Some((metadata.modified().ok()?, metadata.len(), entry.path()))
        })
        .collect();
    found.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
    for path in unused(&found, now) {
        let _ = std::fs::remove_file(path);
    }
}

/// Returns the archives to evict, given their times of last use and lengths in order of decreasing time.
fn unused(found: &[(SystemTime, u64, PathBuf)], now: SystemTime) -> Vec<&Path> {
    let mut together = 0_u64;
    let is_evicted = |(index, (time, length, _)): &(usize, &(SystemTime, u64, PathBuf))| {
        // Another machine may be booting from the most recently used one.
        together = if *index == 0 { 0 } else { together.saturating_add(*length) };
        together > MAX_CACHE_BYTES || now.duration_since(*time).is_ok_and(|age| age > MAX_CACHE_AGE)
    };
    found.iter().enumerate().filter(is_evicted).map(|(_, (_, _, path))| path.as_path()).collect()
}

#[cfg(test)]
mod tests;

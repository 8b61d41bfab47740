//! Atomic replacement of files that others may be reading.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Atomically replaces or creates the file `path` with these bytes and this mode, subject to the process's
/// umask. Readers see the old file or the new one, complete, even after a power failure of the host.
///
/// # Errors
/// The error of the system. The file is unchanged then, and no temporary file is left.
pub fn replace_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}-{}.new", std::process::id(), DRAFTS.fetch_add(1, Ordering::Relaxed)));
    let draft = PathBuf::from(draft);
    let create = || File::options().write(true).create(true).truncate(true).mode(mode).open(&draft);
    let written = create().and_then(|mut file| {
        file.write_all(bytes)?;
        // The name must not outlive the content if the host loses power.
        file.sync_all()?;
        fs::rename(&draft, path)
    });
    if written.is_err() {
        // Report the error above, not that of the removal.
        let _ = fs::remove_file(&draft);
    }
    written
}

/// Writes an output file that a user named. Replaces a regular file atomically, also behind symbolic links,
/// and writes into anything else, such as a device or a pipe. Returns whether it is a regular file.
///
/// # Errors
/// The error of the system. A regular file is unchanged then.
pub(crate) fn write_output(path: &Path, bytes: &[u8], mode: u32) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(there) if !there.is_file() && !there.is_dir() => fs::write(path, bytes).map(|()| false),
        Ok(_) => replace_file(&fs::canonicalize(path)?, bytes, mode).map(|()| true),
        Err(_) => replace_file(path, bytes, mode).map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_and_devices_are_written_into() {
        let folder = std::env::temp_dir().join(format!("tombolo-output-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (file, link, device) = (folder.join("file"), folder.join("link"), folder.join("full"));
        fs::write(&file, "before").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        std::os::unix::fs::symlink("/dev/full", &device).unwrap();
        assert!(write_output(&link, b"after", 0o600).unwrap());
        let full = write_output(&device, b"after", 0o600).unwrap_err();
        let links = [&link, &device].map(|path| fs::symlink_metadata(path).unwrap().is_symlink());
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((full.kind(), links, text.as_str()), (io::ErrorKind::StorageFull, [true; 2], "after"));
    }

    #[test]
    fn a_failed_write_leaves_nothing() {
        let folder = std::env::temp_dir().join(format!("tombolo-write-{}", std::process::id()));
        let occupied = folder.join("x.tbi");
        fs::create_dir_all(&occupied).unwrap();
        assert!(replace_file(&occupied, b"image", 0o600).is_err());
        let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(left, ["x.tbi"]);
    }
}

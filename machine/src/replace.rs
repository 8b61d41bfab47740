//! Files that others may read while they are written.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Replaces the file `path`, or creates it, with these bytes and this mode, less the bits of the process's
/// file mode mask. Readers see the old file or the new one, whole, also after the host has lost power.
///
/// # Errors
/// The error of the system. The file is then as it was, and nothing is left beside it.
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
        // The error to report is the one above, not that of the removal.
        let _ = fs::remove_file(&draft);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

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

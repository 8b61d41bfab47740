//! Files that are written while others may read them.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::failure::Failure;

/// Replaces `target` by the file that `write` makes, and creates the folders above it. Readers see either the
/// old file or the new one. If it fails, `target` is unchanged and the partial file is removed.
pub(crate) fn replace_file(
    target: &Path,
    write: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), Failure> {
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder).map_err(Failure::file("creating", folder))?;
    }
    let mut partial = target.to_owned().into_os_string();
    partial.push(format!(".{}.new", std::process::id()));
    let partial = PathBuf::from(partial);
    let done = write(&partial).and_then(|()| fs::rename(&partial, target));
    if done.is_err() {
        // The error to report is the one above, not that of the removal.
        let _ = fs::remove_file(&partial);
    }
    done.map_err(Failure::file("writing", target))
}

//! Atomic replacement of files that other processes may be reading.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::failure::Failure;

/// Replaces `target` with the file that `write` creates. Creates missing parent folders. Readers see either
/// the old file or the new one. On an error, `target` is unchanged and the partial file is removed.
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
        // Report the error of `write`, not one of this clean-up.
        let _ = fs::remove_file(&partial);
    }
    done.map_err(Failure::file("writing", target))
}

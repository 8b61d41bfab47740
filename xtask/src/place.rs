//! Files that are put where others may be reading them.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::failure::Failure;

/// Puts what `write` makes in place of `target` at once, with the folders above it: nobody sees half of it, and when it
/// fails nothing is left of it.
pub(crate) fn place(target: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), Failure> {
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder).map_err(Failure::file("creating", folder))?;
    }
    let mut beside = target.to_owned().into_os_string();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    let done = write(&beside).and_then(|()| fs::rename(&beside, target));
    if done.is_err() {
        // What is said is why it failed, not that half of it could not be removed.
        let _ = fs::remove_file(&beside);
    }
    done.map_err(Failure::file("writing", target))
}

//! Folders for what is made on the way to a program.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::BuildError;

/// How their names begin.
const PREFIX: &str = "tombolo-build-";

/// A folder of this process alone, gone with the value.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Locked as long as the process lives, whatever ends it.
    _lock: File,
}

impl Scratch {
    /// Makes one among the temporary files, and removes those whose programs were killed.
    ///
    /// # Errors
    /// [`BuildError::Write`].
    pub fn new() -> Result<Scratch, BuildError> {
        Scratch::new_in(&std::env::temp_dir())
    }

    fn new_in(folder: &Path) -> Result<Scratch, BuildError> {
        remove_left(folder);
        let mut number = 0_u32;
        loop {
            let path = folder.join(format!("{PREFIX}{}-{number}", std::process::id()));
            // Creating it fails if it exists, so its contents are ours.
            let made = DirBuilder::new().mode(0o700).create(&path);
            let locked = made.and_then(|()| File::open(&path)).and_then(|lock| {
                lock.lock()?;
                // Before it was locked, another may have taken it for one that was left.
                fs::metadata(&path)?;
                Ok(lock)
            });
            match locked {
                Ok(lock) => return Ok(Scratch { path, _lock: lock }),
                Err(error)
                    if [ErrorKind::AlreadyExists, ErrorKind::NotFound].contains(&error.kind())
                        && number < 1000 =>
                {
                    number += 1;
                }
                Err(source) => return Err(BuildError::Write { path, source }),
            }
        }
    }

    /// The path of the folder, which is deleted when this value is dropped.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left is in a folder for temporary files; there is nothing better to do about it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of programs that were killed: no process has them locked. Those of other users cannot
/// be opened.
fn remove_left(folder: &Path) {
    let named = |name: &str| name.starts_with(PREFIX);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(named)
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Ok(lock) = File::open(entry.path())
            && lock.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_program_has_left_is_removed_and_what_is_in_use_stays() {
        let folder = std::env::temp_dir().join(format!("tombolo-scratches-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let used = Scratch::new_in(&folder).unwrap();
        fs::write(used.path().join("object.o"), "").unwrap();
        let left = folder.join(format!("{PREFIX}1-0"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("object.o"), "").unwrap();
        fs::create_dir(folder.join("other")).unwrap();
        let next = Scratch::new_in(&folder).unwrap();
        assert!(!left.exists() && used.path().join("object.o").exists() && folder.join("other").exists());
        assert_ne!(used.path(), next.path());
        drop((used, next));
        let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(names, ["other"]);
    }
}

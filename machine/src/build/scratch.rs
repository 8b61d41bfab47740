//! Temporary folders of builds.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::BuildError;

/// Prefix of their names, followed by the process id and a counter.
const PREFIX: &str = "tombolo-scratch-";

fn is_scratch_name(name: &str) -> bool {
    let numbers = name.strip_prefix(PREFIX).and_then(|numbers| numbers.split_once('-'));
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// A temporary folder of this process, removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Lock held until the process ends, for any reason.
    _lock: File,
}

impl Scratch {
    /// Creates a temporary folder, and removes those of killed processes.
    ///
    /// # Errors
    /// [`BuildError::Write`] if it cannot be created.
    pub fn new() -> Result<Scratch, BuildError> {
        Scratch::new_in(&std::env::temp_dir())
    }

    fn new_in(folder: &Path) -> Result<Scratch, BuildError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        remove_abandoned(folder);
        let mut tries = 1000;
        loop {
            tries -= 1;
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{PREFIX}{}-{number}", std::process::id()));
            // Creating it fails if it exists, so its contents are ours.
            let made = DirBuilder::new().mode(0o700).create(&path);
            let locked = made.and_then(|()| File::open(&path)).and_then(|lock| {
                lock.lock()?;
                // Before it was locked, another process may have removed it as abandoned.
                if is_same_file(&lock, &path)? { Ok(lock) } else { Err(ErrorKind::NotFound.into()) }
            });
            match locked {
                Ok(lock) => return Ok(Scratch { path, _lock: lock }),
                Err(error)
                    if [ErrorKind::AlreadyExists, ErrorKind::NotFound].contains(&error.kind())
                        && tries > 0 => {}
                Err(source) => return Err(BuildError::Write { path, source }),
            }
        }
    }

    /// Returns the path of the folder, which is deleted when this value is dropped.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Remaining files are in the system's temporary folder; no better recovery exists.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Returns whether the path still refers to the open folder, and not to a new one of the same name.
fn is_same_file(folder: &File, path: &Path) -> io::Result<bool> {
    let (open, there) = (folder.metadata()?, fs::symlink_metadata(path)?);
    Ok((open.dev(), open.ino()) == (there.dev(), there.ino()))
}

/// Removes folders without a lock, whose processes were killed. Folders of other users cannot be opened.
fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_scratch_name)
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Ok(lock) = File::open(entry.path())
            && lock.try_lock().is_ok()
            && is_same_file(&lock, &entry.path()).is_ok_and(|same| same)
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abandoned_scratch_is_removed_and_used_scratch_stays() {
        let folder = std::env::temp_dir().join(format!("tombolo-scratches-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let used = Scratch::new_in(&folder).unwrap();
        fs::write(used.path().join("object.o"), "").unwrap();
        let left = folder.join(format!("{PREFIX}1-0"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("object.o"), "").unwrap();
        let other = format!("{PREFIX}other-1");
        fs::create_dir(folder.join(&other)).unwrap();
        let next = Scratch::new_in(&folder).unwrap();
        assert!(!left.exists() && used.path().join("object.o").exists() && folder.join(&other).exists());
        assert_ne!(used.path(), next.path());
        drop((used, next));
        let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(names, [other.as_str()]);
    }

    #[test]
    fn concurrent_scratch_folders_do_not_interfere() {
        let folder = std::env::temp_dir().join(format!("tombolo-many-scratches-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let create_and_drop = || {
            for _ in 0..200 {
                let own = Scratch::new_in(&folder).unwrap();
                fs::write(own.path().join("object.o"), "").unwrap();
                assert_eq!(fs::read_dir(own.path()).unwrap().count(), 1);
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(create_and_drop)).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        let left = fs::read_dir(&folder).unwrap().count();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(left, 0);
    }
}

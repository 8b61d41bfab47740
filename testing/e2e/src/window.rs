//! Files in memory that serve as windows between a machine and a node that joins it.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// A file in memory, removed at the end of the test. It has a name, like the windows of machines: an unnamed
/// one would have to be sealed.
#[derive(Debug)]
pub struct WindowFile(PathBuf);

/// Folder of the files. A file name is this prefix, followed by the process id of the test.
const FOLDER: &str = "/dev/shm";
const PREFIX: &str = "window-of-e2e-";

impl WindowFile {
    /// Creates a zero-filled file of `mib` MiB.
    ///
    /// # Panics
    /// When there is no memory for files.
    #[must_use]
    pub fn new(mib: u64) -> WindowFile {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        static SWEPT: Once = Once::new();
        SWEPT.call_once(remove_abandoned);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(FOLDER).join(format!("{PREFIX}{}-{mib}-{number}", std::process::id()));
        let file = std::fs::File::create(&path).expect("a file in memory");
        file.set_len(mib << 20).expect("a size");
        WindowFile(path)
    }

    /// Returns the name that machine files and `tombolo join` use for the window.
    #[must_use]
    pub fn source(&self) -> String {
        format!("file:{}", self.0.display())
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for WindowFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Removes the windows of killed tests.
fn remove_abandoned() {
    let entries = std::fs::read_dir(FOLDER).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            // Another test may have removed it.
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_windows_of_killed_tests_are_removed() {
        let window = WindowFile::new(1);
        // No process has this id.
        let abandoned = Path::new(FOLDER).join(format!("{PREFIX}{}-1-1", u32::MAX));
        std::fs::write(&abandoned, [0]).expect("a file in memory");
        remove_abandoned();
        assert!(window.path().exists() && !abandoned.exists());
        let path = window.path().to_owned();
        drop(window);
        assert!(!path.exists());
    }
}

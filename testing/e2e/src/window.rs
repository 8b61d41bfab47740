//! Memory that a machine and a node that joins it share.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A file in memory that goes with the test.
#[derive(Debug)]
pub struct WindowFile(PathBuf);

impl WindowFile {
    /// One of this size, full of zeros.
    ///
    /// # Panics
    /// When there is no memory for files.
    #[must_use]
    pub fn new(mib: u64) -> WindowFile {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/dev/shm/window-of-e2e-{}-{mib}-{number}", std::process::id()));
        let file = std::fs::File::create(&path).expect("a file in memory");
        file.set_len(mib << 20).expect("a size");
        WindowFile(path)
    }

    /// As machine files and `tombolo join` name it.
    #[must_use]
    pub fn source(&self) -> String {
        format!("file:{}", self.0.display())
    }

    /// Where the file is in memory.
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

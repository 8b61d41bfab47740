//! Free space for a whole run of the tests.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

const GIB: u64 = 1 << 30;

/// Space that a run takes in an empty target folder, measured: 12 to 13 GiB.
const NEW_TARGET_BYTES: u64 = 13 * GIB;

/// Space that a run adds to the target folder of an earlier one: programs that changed, images, logs.
const BUILT_TARGET_BYTES: u64 = 3 * GIB;

/// Space for the files of tests that run at the same time.
const TEMPORARY_BYTES: u64 = GIB;

/// Fails if the tests would fill a file system: they would fail one by one, half an hour into the run.
pub(crate) fn check_space(target: &Path) -> Result<(), Failure> {
    let is_built = target.join("debug/deps").is_dir();
    let target_bytes = if is_built { BUILT_TARGET_BYTES } else { NEW_TARGET_BYTES };
    let needs = [
        Need { folder: target.to_owned(), bytes: target_bytes, setting: "CARGO_TARGET_DIR" },
        Need { folder: std::env::temp_dir(), bytes: TEMPORARY_BYTES, setting: "TMPDIR" },
    ];
    for need in needs {
        let failed = |error: rustix::io::Errno| Failure::file("examining", &need.folder)(error.into());
        let found = rustix::fs::statvfs(&need.folder).map_err(failed)?;
        need.check(found.f_frsize.saturating_mul(found.f_bavail))?;
    }
    Ok(())
}

/// Space that a folder must have, and the variable that names another folder.
struct Need {
    folder: PathBuf,
    bytes: u64,
    setting: &'static str,
}

impl Need {
    fn check(&self, free_bytes: u64) -> Result<(), Failure> {
        if free_bytes >= self.bytes {
            return Ok(());
        }
        Err(Failure::Found(format!(
            "{} has {:.1} GiB free and a whole run of the tests needs {} GiB there: free some space, set {} to \
             a folder on a larger disk, or run single steps by their names",
            self.folder.display(),
            free_bytes as f64 / GIB as f64,
            self.bytes / GIB,
            self.setting,
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_is_refused_with_its_remedy() {
        let need = Need { folder: "/there".into(), bytes: 3 * GIB, setting: "TMPDIR" };
        assert!(need.check(3 * GIB).is_ok());
        let refusal = need.check(3 * GIB - GIB / 2).unwrap_err().to_string();
        assert!(refusal.contains("/there has 2.5 GiB free"), "{refusal}");
        assert!(refusal.contains("needs 3 GiB") && refusal.contains("TMPDIR"), "{refusal}");
    }
}

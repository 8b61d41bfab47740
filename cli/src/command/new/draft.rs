//! Project folder that is created completely or not at all.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Temporary folder beside the target. Removed if dropped before [`finish`](Self::finish).
pub(super) struct Draft {
    target: PathBuf,
    draft: PathBuf,
    is_finished: bool,
}

impl Draft {
    /// Creates a draft for a folder that does not exist yet, or is empty.
    pub(super) fn new(target: &Path) -> Result<Draft, Failure> {
        let usage = |message: String, hint| Failure::Usage { message, hint: Some(hint) };
        match fs::read_dir(target) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    let message = format!("the folder {} exists and is not empty", target.display());
                    return Err(usage(message, "give another name, or move it away"));
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                let message = format!("{} exists and is not a folder", target.display());
                return Err(usage(message, "give another name, or move it away"));
            }
            Err(error) => return Err(Failure::system(format!("look into {}", target.display()))(error)),
        }
        let draft = PathBuf::from(format!(".{}.{}.new", target.display(), std::process::id()));
        fs::create_dir(&draft).map_err(Failure::system(format!("create the folder {}", target.display())))?;
        Ok(Draft { target: target.to_owned(), draft, is_finished: false })
    }

    /// Writes a file, whose path is relative to the folder.
    pub(super) fn write(&self, path: &str, text: &str) -> Result<(), Failure> {
        let file = self.draft.join(path);
        let written = match file.parent() {
            Some(folder) => fs::create_dir_all(folder).and_then(|()| fs::write(&file, text)),
            None => fs::write(&file, text),
        };
        written.map_err(Failure::system(format!("write {}", self.target.join(path).display())))
    }

    /// Moves the folder to its target, replacing an empty one.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        fs::rename(&self.draft, &self.target)
            .map_err(Failure::system(format!("create the folder {}", self.target.display())))?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_finished {
            // A folder that cannot be removed is identified by its name.
            let _ = fs::remove_dir_all(&self.draft);
        }
    }
}

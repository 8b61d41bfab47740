//! Grants: the files that are served, and whether they may be written.

use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use tombolo_platform::OsError;
use tombolo_platform::confined::{Access, ConfinedRoot};

use crate::messages::{FileFault, OpenMode};

/// File to serve, or folder with everything below it.
///
/// The text form is a path, optionally followed by `:ro` (the default) for reading or `:rw` for reading and
/// writing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileGrant {
    path: PathBuf,
    writable: bool,
}

/// Error of a grant.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// The path is empty.
    #[error("there is no path: write PATH, PATH:ro or PATH:rw")]
    NoPath,
    /// The file is granted already.
    #[error("{} is granted twice", .0.display())]
    Twice(PathBuf),
    /// The file does not exist, or cannot be opened.
    #[error(transparent)]
    Os(#[from] OsError),
}

impl FileGrant {
    /// Grants the right to read a file or folder.
    #[must_use]
    pub fn read_only(path: impl Into<PathBuf>) -> Self {
        FileGrant { path: path.into(), writable: false }
    }

    /// Grants the right to read and write. A file that does not exist may be created, if its folder exists.
    #[must_use]
    pub fn read_write(path: impl Into<PathBuf>) -> Self {
        FileGrant { path: path.into(), writable: true }
    }
}

impl FromStr for FileGrant {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, GrantError> {
        let (path, writable) = match text.rsplit_once(':') {
            Some((path, "ro")) => (path, false),
            Some((path, "rw")) => (path, true),
            _ => (text, false),
        };
        if path.is_empty() { Err(GrantError::NoPath) } else { Ok(FileGrant { path: path.into(), writable }) }
    }
}

/// Grant that is being served.
#[derive(Debug)]
struct ServedGrant {
    grant: FileGrant,
    /// Absolute form of the path as written.
    written: PathBuf,
    confined: ConfinedRoot,
}

/// All grants of one server.
#[derive(Debug)]
pub(crate) struct Grants {
    /// Folder that relative paths start from.
    start: PathBuf,
    served: Vec<ServedGrant>,
}

impl Grants {
    /// Opens the granted files and folders in their current state.
    pub(crate) fn new(grants: &[FileGrant]) -> Result<Grants, GrantError> {
        let start =
            std::env::current_dir().map_err(|error| OsError::from_io("find the working folder", &error))?;
        let mut served: Vec<ServedGrant> = Vec::new();
        for grant in grants {
            let confined = ConfinedRoot::new(&grant.path, grant.writable)?;
            if served.iter().any(|other| other.confined.path() == confined.path()) {
                return Err(GrantError::Twice(grant.path.clone()));
            }
            let written = start.join(&grant.path);
            served.push(ServedGrant { grant: grant.clone(), written, confined });
        }
        Ok(Grants { start, served })
    }

    /// Returns the paths as written, sorted, each with whether it is a folder.
    pub(crate) fn names(&self) -> Vec<(PathBuf, bool)> {
        let mut names: Vec<_> = self
            .served
            .iter()
            .map(|served| (served.grant.path.clone(), served.confined.is_folder()))
            .collect();
        names.sort();
        names
    }

    /// Finds the grant that contains `path`, and the path within it. Of several grants, the longest match.
    fn find(&self, path: &Path) -> Result<(&ServedGrant, PathBuf), FileFault> {
        let path = self.start.join(path);
        let mut found: Option<(usize, &ServedGrant, PathBuf)> = None;
        for served in &self.served {
            for root in [&*served.written, served.confined.path()] {
                let length = root.components().count();
                let is_longer = found.as_ref().is_none_or(|(most, ..)| length > *most);
                if is_longer && let Some(below) = strip_root(&path, root) {
                    found = Some((length, served, below));
                }
            }
        }
        let (_, served, below) = found.ok_or(FileFault::NotGranted)?;
        Ok((served, below))
    }

    pub(crate) fn open(&self, path: &Path, mode: OpenMode) -> Result<std::fs::File, FileFault> {
        let (served, below) = self.find(path)?;
        let access = access(mode)?;
        if access.write && !served.grant.writable {
            return Err(FileFault::ReadOnly);
        }
        served.confined.open(&below, access).map_err(FileFault::from)
    }

    pub(crate) fn stat(&self, path: &Path) -> Result<(std::fs::Metadata, bool), FileFault> {
        let (served, below) = self.find(path)?;
        Ok((served.confined.stat(&below)?, served.grant.writable))
    }

    pub(crate) fn list(&self, path: &Path) -> Result<Vec<(PathBuf, bool)>, FileFault> {
        let (served, below) = self.find(path)?;
        let listed = served.confined.list(&below)?;
        Ok(listed.into_iter().map(|found| (found.name.into(), found.is_folder)).collect())
    }
}

fn access(mode: OpenMode) -> Result<Access, FileFault> {
    let access = Access {
        write: mode.contains(OpenMode::WRITE),
        create: mode.contains(OpenMode::CREATE),
        create_new: mode.contains(OpenMode::CREATE_NEW),
        truncate: mode.contains(OpenMode::TRUNCATE),
    };
    let needs = access.create || access.create_new || access.truncate;
    if needs && !access.write { Err(FileFault::BadMode) } else { Ok(access) }
}

/// Returns the rest of a path below a root, by comparing names only: the kernel resolves `..` in the rest.
fn strip_root(path: &Path, root: &Path) -> Option<PathBuf> {
    let mut components = path.components();
    root.components().all(|root| components.next() == Some(root)).then(|| {
        // The rest of an absolute path has no root component.
        components.filter(|component| *component != Component::CurDir).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_suffix_selects_access() {
        let parse = |text: &str| text.parse::<FileGrant>();
        assert_eq!(parse("a/b"), Ok(FileGrant::read_only("a/b")));
        assert_eq!(parse("a/b:ro"), Ok(FileGrant::read_only("a/b")));
        assert_eq!(parse("a:b:rw"), Ok(FileGrant::read_write("a:b")));
        assert_eq!(parse("a:wo"), Ok(FileGrant::read_only("a:wo")));
        for nothing in ["", ":ro", ":rw"] {
            assert_eq!(parse(nothing), Err(GrantError::NoPath));
        }
    }

    #[test]
    fn paths_below_a_root_are_found_by_name() {
        let rest = |path: &str, root: &str| strip_root(Path::new(path), Path::new(root));
        assert_eq!(rest("/a/b/c", "/a"), Some("b/c".into()));
        assert_eq!(rest("/a/./b", "/a/"), Some("b".into()));
        assert_eq!(rest("/a", "/a"), Some(PathBuf::new()));
        assert_eq!(rest("/a/../b", "/a"), Some("../b".into()));
        assert_eq!(rest("/ab", "/a"), None);
        assert_eq!(rest("/", "/a"), None);
        assert_eq!(rest("/x/../a/f", "/a"), None);
    }

    #[test]
    fn invalid_modes_are_refused() {
        for mode in [OpenMode::CREATE, OpenMode::CREATE_NEW, OpenMode::TRUNCATE] {
            assert_eq!(access(mode), Err(FileFault::BadMode));
            assert!(access(mode | OpenMode::WRITE).is_ok());
        }
        assert_eq!(access(OpenMode::default()), Ok(Access::default()));
    }
}

//! Access to files below a folder and to no others, for paths from untrusted clients.
//!
//! The kernel resolves each path below a descriptor (`openat2`), so that `..`, symbolic links and concurrent
//! renames cannot lead elsewhere.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, statat};
use rustix::io::Errno;

use crate::error::{Context, OsError};

/// A folder with everything below it, or a single file.
#[derive(Debug)]
pub struct ConfinedRoot {
    folder: OwnedFd,
    /// Name of the single file in the folder, if only one is accessible.
    only_file: Option<OsString>,
    path: PathBuf,
}

/// Open flags of a file in addition to reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// Opened for writing too.
    pub write: bool,
    /// Created if it does not exist.
    pub create: bool,
    /// Created; it must not exist.
    pub create_new: bool,
    /// Truncated to length 0.
    pub truncate: bool,
}

/// An entry of a folder.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DirectoryEntry {
    /// The name of the entry.
    pub name: OsString,
    /// Whether it names a folder.
    pub is_folder: bool,
}

/// Maximum number of attempts to resolve a path while folders on it are renamed concurrently.
const RESOLVE_ATTEMPTS: u32 = 64;

/// Permissions of a new file, before the process's umask applies.
const NEW_FILE_MODE: Mode = Mode::from_raw_mode(0o666);

impl ConfinedRoot {
    /// Opens the file or folder that `path` names now, following links. Later renames do not affect it. With
    /// `may_create`, a file that does not exist may be created later if its folder exists.
    ///
    /// # Errors
    /// The path does not exist, is neither file nor folder, or the kernel lacks `openat2` (before Linux 5.6).
    pub fn new(path: &Path, may_create: bool) -> Result<ConfinedRoot, OsError> {
        let failed = |error: std::io::Error| OsError::from_io(format!("find {}", path.display()), &error);
        let found = match path.canonicalize() {
            Ok(found) => found,
            Err(error) if may_create && error.kind() == std::io::ErrorKind::NotFound => {
                // A dangling link cannot be created.
                let (Some(name), true) = (path.file_name(), path.symlink_metadata().is_err()) else {
                    return Err(failed(error));
                };
                let folder = match path.parent() {
                    Some(folder) if !folder.as_os_str().is_empty() => folder,
                    _ => Path::new("."),
                };
                folder.canonicalize().map_err(failed)?.join(name)
            }
            Err(error) => return Err(failed(error)),
        };
        let opening = format!("open {}", path.display());
        let (folder, only_file) = match (found.is_dir(), found.parent(), found.file_name()) {
            (false, Some(folder), Some(name)) => (folder, Some(name.to_owned())),
            _ => (&*found, None),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty()).context(&opening)?;
        let confined = ConfinedRoot { folder, only_file, path: found };
        match confined.kind(Path::new("")) {
            Ok(_) => Ok(confined),
            Err(Errno::NOENT) if may_create => Ok(confined),
            Err(errno) => Err(OsError::new(opening, errno)),
        }
    }

    /// Returns the path at the time of opening, with links resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether it is a folder.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        self.only_file.is_none()
    }

    fn resolve(&self, relative: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let confined = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let (path, resolve) = match &self.only_file {
            None if relative.as_os_str().is_empty() => (OsStr::new("."), confined),
            None => (relative.as_os_str(), confined),
            // Refuse a link that takes the file's place.
            Some(name) if relative.as_os_str().is_empty() => (&**name, confined | ResolveFlags::NO_SYMLINKS),
            Some(_) => return Err(Errno::NOTDIR),
        };
        let flags = flags | OFlags::CLOEXEC;
        for _ in 0..RESOLVE_ATTEMPTS {
            match openat2(&self.folder, path, flags, mode, resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                opened => return opened,
            }
        }
        Err(Errno::AGAIN)
    }

    fn kind(&self, relative: &Path) -> Result<FileType, Errno> {
        let found = self.resolve(relative, OFlags::PATH, Mode::empty())?;
        require_file_or_folder(FileType::from_raw_mode(fstat(&found)?.st_mode))
    }

    /// Opens a file below the folder; an empty path is the single file itself.
    ///
    /// # Errors
    /// `EXDEV` or `ELOOP` when the path leads outside; `EISDIR` for a folder, `ENXIO` for what is
    /// neither file nor folder; or another error of the kernel.
    pub fn open(&self, relative: &Path, access: Access) -> Result<File, Errno> {
        // Without NONBLOCK, opening a FIFO would wait.
        let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        flags |= if access.write { OFlags::RDWR } else { OFlags::RDONLY };
        let create = access.create || access.create_new;
        for (wanted, flag) in
            [(create, OFlags::CREATE), (access.create_new, OFlags::EXCL), (access.truncate, OFlags::TRUNC)]
        {
            flags.set(flag, wanted);
        }
        let file = self.resolve(relative, flags, if create { NEW_FILE_MODE } else { Mode::empty() })?;
        match require_file_or_folder(FileType::from_raw_mode(fstat(&file)?.st_mode))? {
            FileType::RegularFile => Ok(File::from(file)),
            _ => Err(Errno::ISDIR),
        }
    }

    /// Returns the metadata of a file or folder below the folder.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn stat(&self, relative: &Path) -> Result<std::fs::Metadata, Errno> {
        let found = self.resolve(relative, OFlags::PATH, Mode::empty())?;
        require_file_or_folder(FileType::from_raw_mode(fstat(&found)?.st_mode))?;
        File::from(found).metadata().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    /// Returns the entries of a folder, in the order of the bytes of their names.
    ///
    /// # Errors
    /// As [`open`](Self::open); `ENOTDIR` for a file.
    pub fn list(&self, relative: &Path) -> Result<Vec<DirectoryEntry>, Errno> {
        let folder = self.resolve(relative, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let is_folder = match entry.file_type() {
                FileType::Unknown => is_folder(&folder, entry.file_name())?,
                kind => kind == FileType::Directory,
            };
            names.push(DirectoryEntry { name: OsString::from_vec(name.to_vec()), is_folder });
        }
        names.sort_by(|one, other| one.name.as_bytes().cmp(other.name.as_bytes()));
        Ok(names)
    }
}

/// Returns whether an entry is a folder, for file systems that do not report the type with the name. False
/// for an entry that has vanished.
fn is_folder(folder: impl AsFd, name: &std::ffi::CStr) -> Result<bool, Errno> {
    match statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(FileType::from_raw_mode(found.st_mode) == FileType::Directory),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn require_file_or_folder(kind: FileType) -> Result<FileType, Errno> {
    match kind {
        FileType::RegularFile | FileType::Directory => Ok(kind),
        // Links themselves are visible only if following is not allowed.
        FileType::Symlink => Err(Errno::LOOP),
        _ => Err(Errno::NXIO),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder for a test, and a secret beside it.
    struct TestFolder(PathBuf);

    impl TestFolder {
        fn new(name: &str) -> TestFolder {
            let path = std::env::temp_dir().join(format!("tombolo-confined-{}-{name}", std::process::id()));
            std::fs::create_dir_all(path.join("granted/below")).unwrap();
            std::fs::write(path.join("secret"), "secret").unwrap();
            std::fs::write(path.join("granted/file"), "content").unwrap();
            TestFolder(path)
        }

        fn granted(&self) -> ConfinedRoot {
            ConfinedRoot::new(&self.0.join("granted"), false).unwrap()
        }
    }

    impl Drop for TestFolder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const READ: Access = Access { write: false, create: false, create_new: false, truncate: false };
    const CREATE: Access = Access { write: true, create: true, create_new: false, truncate: false };

    fn text(confined: &ConfinedRoot, relative: &str) -> Result<String, Errno> {
        let mut text = String::new();
        confined.open(Path::new(relative), READ)?.read_to_string(&mut text).unwrap();
        Ok(text)
    }

    #[test]
    fn only_paths_below_the_root_resolve() {
        let place = TestFolder::new("below");
        let granted = place.granted();
        let root = place.0.join("granted");
        symlink("../secret", root.join("out")).unwrap();
        symlink(place.0.join("secret"), root.join("absolute")).unwrap();
        symlink("file", root.join("in")).unwrap();
        symlink("..", root.join("below/up")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        for relative in ["file", "./file", "below/../file", "in", "below/up/file"] {
            assert_eq!(text(&granted, relative).as_deref(), Ok("content"), "{relative}");
        }
        for relative in [
            "../secret",
            "below/../../secret",
            "out",
            "absolute",
            "/etc/passwd",
            "below/up/../secret",
            "magic",
        ] {
            let refused = text(&granted, relative).unwrap_err();
            assert!(matches!(refused, Errno::XDEV | Errno::LOOP), "{relative}: {refused}");
            assert!(granted.open(Path::new(relative), CREATE).is_err(), "{relative}");
            assert!(granted.stat(Path::new(relative)).is_err(), "{relative}");
        }
        assert_eq!(text(&granted, "none"), Err(Errno::NOENT));
        assert_eq!(text(&granted, "below"), Err(Errno::ISDIR));
        assert_eq!(text(&granted, "file/x"), Err(Errno::NOTDIR));
        assert!(granted.is_folder() && granted.stat(Path::new("")).unwrap().is_dir());
    }

    #[test]
    fn a_granted_file_is_the_only_one_reachable() {
        let place = TestFolder::new("one");
        let path = place.0.join("granted/file");
        let one = ConfinedRoot::new(&path, false).unwrap();
        assert_eq!(text(&one, "").as_deref(), Ok("content"));
        assert_eq!(text(&one, "below"), Err(Errno::NOTDIR));
        assert_eq!(text(&one, "../file"), Err(Errno::NOTDIR));
        assert_eq!(one.list(Path::new("")).unwrap_err(), Errno::NOTDIR);
        // A link that takes its place is not followed, not even to its neighbour.
        std::fs::rename(&path, place.0.join("granted/other")).unwrap();
        symlink("other", &path).unwrap();
        assert_eq!(text(&one, ""), Err(Errno::LOOP));
        // A path through a link refers to the link's target at that time.
        let through = ConfinedRoot::new(&path, false).unwrap();
        assert!(through.path().ends_with("granted/other"));
        assert_eq!(text(&through, "").as_deref(), Ok("content"));
    }

    #[test]
    fn a_file_that_is_to_be_made_needs_its_folder() {
        let place = TestFolder::new("made");
        assert!(ConfinedRoot::new(&place.0.join("granted/new"), false).is_err());
        assert!(ConfinedRoot::new(&place.0.join("none/new"), true).is_err());
        symlink("nowhere", place.0.join("granted/dangling")).unwrap();
        assert!(ConfinedRoot::new(&place.0.join("granted/dangling"), true).is_err());
        let new = ConfinedRoot::new(&place.0.join("granted/new"), true).unwrap();
        assert_eq!(text(&new, ""), Err(Errno::NOENT));
        new.open(Path::new(""), CREATE).unwrap().write_all(b"made").unwrap();
        assert_eq!(text(&new, "").as_deref(), Ok("made"));
        let again = Access { create_new: true, ..CREATE };
        assert_eq!(new.open(Path::new(""), again).unwrap_err(), Errno::EXIST);
        let cut = Access { truncate: true, create: false, ..CREATE };
        assert_eq!(new.open(Path::new(""), cut).unwrap().metadata().unwrap().len(), 0);
    }

    #[test]
    fn fifos_are_refused_without_blocking() {
        let place = TestFolder::new("pipe");
        let pipe = place.0.join("granted/pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        assert_eq!(text(&place.granted(), "pipe"), Err(Errno::NXIO));
        assert_eq!(place.granted().stat(Path::new("pipe")).unwrap_err(), Errno::NXIO);
        assert!(ConfinedRoot::new(&pipe, false).is_err());
    }

    #[test]
    fn names_are_sorted() {
        let place = TestFolder::new("names");
        std::fs::write(place.0.join("granted/a"), "").unwrap();
        let listed = place.granted().list(Path::new(".")).unwrap();
        let names: Vec<_> =
            listed.iter().map(|found| (found.name.to_str().unwrap(), found.is_folder)).collect();
        assert_eq!(names, [("a", false), ("below", true), ("file", false)]);
        assert_eq!(place.granted().list(Path::new("..")).unwrap_err(), Errno::XDEV);
        assert_eq!(place.granted().list(Path::new("file")).unwrap_err(), Errno::NOTDIR);
    }
}

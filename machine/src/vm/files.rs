//! Initial files of a virtual machine, collected from folders of the host.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use tombolo_platform::guest::init;

use super::initramfs::Archive;
use super::qemu::MIN_MEMORY_MIB;

/// Maximum number of files, folders and links of a node.
pub const MAX_ENTRIES: usize = 200_000;

/// Maximum total size of a node's files, which it can unpack well within its startup timeout of one minute.
pub const MAX_BYTES: u64 = 512 << 20;

/// Maximum length of a path from the node's root, in bytes, that its kernel unpacks.
const MAX_PATH_BYTES: usize = 4095;

/// Mount points of the node's own file systems, which would hide files from the host's folders.
const MOUNTED: [&str; 5] = ["dev", "proc", "run", "sys", "tmp"];

/// Reason why a node cannot have these files.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A path cannot be read.
    #[error("cannot read {path}, which the node's files are to come from: {error}", path = path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The path is not a folder.
    #[error("{path} is not a folder: `files` names folders, whose contents the node gets", path = path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// Neither file, folder nor link.
    #[error("{path} is a {what}: a node's files are files, folders and symbolic links; leave it out", path = path.display())]
    Special {
        /// The path.
        path: PathBuf,
        /// Type of the file.
        what: &'static str,
    },
    /// The path is reserved for the node's own files.
    #[error("{path} would be in the place of the node's own /{name}; call it something else", path = path.display())]
    Reserved {
        /// The path.
        path: PathBuf,
        /// The place.
        name: &'static str,
    },
    /// The node mounts a file system there.
    #[error("{path} is not a folder, but the node mounts a file system at /{name}", path = path.display())]
    NoMountPoint {
        /// The path.
        path: PathBuf,
        /// The place.
        name: &'static str,
    },
    /// Later folders override earlier ones, but a file cannot replace a folder.
    #[error("{path} is a folder, and something else in another folder of `files`", path = path.display())]
    Clash {
        /// The path that is a folder.
        path: PathBuf,
    },
    /// The path is too long.
    #[error("{path} is too deep: a path of the node has {MAX_PATH_BYTES} bytes at most", path = path.display())]
    TooDeep {
        /// The path.
        path: PathBuf,
    },
    /// There are too many files, or they are too long.
    #[error("{path} has too much: a node has {MAX_ENTRIES} files and {mib} MiB of them at most", path = path.display(), mib = MAX_BYTES >> 20)]
    TooMuch {
        /// Folder where the limit was exceeded.
        path: PathBuf,
    },
    /// The node has too little memory to unpack them.
    #[error("its files take a node with `memory_mib = {needed_mib}` or more, and it has {memory_mib}")]
    TooLittleMemory {
        /// Memory needed, in MiB.
        needed_mib: u64,
        /// Memory of the node, in MiB.
        memory_mib: u32,
    },
}

/// Type of the file at a path of the node.
#[derive(Clone, PartialEq, Eq, Debug)]
enum FileKind {
    Folder,
    File { source: PathBuf },
    Link { target: Vec<u8> },
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct NodeFile {
    kind: FileKind,
    permissions: u32,
    modified_s: u32,
    length: u64,
}

/// Files of a node by their paths from its root, each after its folder.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Files {
    entries: BTreeMap<Vec<u8>, NodeFile>,
    length: u64,
}

impl Files {
    /// Collects the contents of these folders, at the same paths on the node. If two have a file or link at
    /// one path, the later folder's is used. Links are copied verbatim and resolve on the node.
    ///
    /// # Errors
    /// [`FilesError`], except [`FilesError::TooLittleMemory`].
    pub fn gather(folders: &[PathBuf]) -> Result<Files, FilesError> {
        let mut files = Files::default();
        for folder in folders {
            check_folder(folder)?;
            files.add_folder(folder, &[])?;
        }
        Ok(files)
    }

    /// Returns the total length of the files, in bytes.
    #[must_use]
    pub fn length_bytes(&self) -> u64 {
        self.length
    }

    /// Adds the contents of `folder`, which is at the path `above` of the node.
    fn add_folder(&mut self, folder: &Path, above: &[u8]) -> Result<(), FilesError> {
        for found in fs::read_dir(folder).map_err(failed(folder))? {
            let found = found.map_err(failed(folder))?;
            let (path, name) = (found.path(), found.file_name().into_vec());
            let target_path = if above.is_empty() { name } else { [above, b"/", &name].concat() };
            if target_path.len() > MAX_PATH_BYTES {
                return Err(FilesError::TooDeep { path });
            }
            let metadata = fs::symlink_metadata(&path).map_err(failed(&path))?;
            let mounted = MOUNTED.into_iter().find(|name| name.as_bytes() == target_path);
            if let Some(name) = mounted {
                // Every node has an empty one.
                if metadata.is_dir() {
                    continue;
                }
                return Err(FilesError::NoMountPoint { path, name });
            }
            for name in ["init", init::TOMBOLO_DIR.trim_start_matches('/')] {
                if name.as_bytes() == target_path {
                    return Err(FilesError::Reserved { path, name });
                }
            }
            let is_folder = metadata.is_dir();
            self.add(&path, &target_path, &metadata)?;
            if self.entries.len() > MAX_ENTRIES || self.length > MAX_BYTES {
                return Err(FilesError::TooMuch { path: folder.to_owned() });
            }
            if is_folder {
                self.add_folder(&path, &target_path)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, target_path: &[u8], metadata: &Metadata) -> Result<(), FilesError> {
        let kind = metadata.file_type();
        let special = |what| Err(FilesError::Special { path: path.to_owned(), what });
        let (kind, length) = if kind.is_dir() {
            (FileKind::Folder, 0)
        } else if kind.is_file() {
            (FileKind::File { source: path.to_owned() }, metadata.len())
        } else if kind.is_symlink() {
            let target = fs::read_link(path).map_err(failed(path))?.into_os_string().into_vec();
            let length = target.len() as u64;
            (FileKind::Link { target }, length)
        } else if kind.is_fifo() {
            return special("pipe");
        } else if kind.is_socket() {
            return special("socket");
        } else {
            return special("device");
        };
        let entry = NodeFile {
            kind,
            permissions: metadata.mode() & 0o7777,
            // The archive has 32 bits for the time.
            modified_s: u32::try_from(metadata.mtime()).unwrap_or(0),
            length,
        };
        match self.entries.entry(target_path.to_owned()) {
            Slot::Vacant(slot) => {
                slot.insert(entry);
            }
            Slot::Occupied(mut slot) => {
                if (slot.get().kind == FileKind::Folder) != (entry.kind == FileKind::Folder) {
                    return Err(FilesError::Clash { path: path.to_owned() });
                }
                self.length -= slot.insert(entry).length;
            }
        }
        self.length = self.length.saturating_add(length);
        Ok(())
    }

    /// Returns the memory of a node, in MiB, that has room for them. During unpacking they exist twice, and
    /// the target file system takes at most half of the remaining memory.
    #[must_use]
    pub fn needed_memory_mib(&self) -> u64 {
        u64::from(MIN_MEMORY_MIB) + 3 * self.archived_bytes().div_ceil(1 << 20)
    }

    /// Returns the memory that they occupy, in whole pages, with their names.
    fn archived_bytes(&self) -> u64 {
        let names: usize = self.entries.keys().map(Vec::len).sum();
        let pages: u64 = self.entries.values().map(|entry| entry.length.next_multiple_of(4096)).sum();
        pages + names as u64 + 1024 * self.entries.len() as u64
    }

    /// Returns the path to install the shell of the node's console as `sh`, unless the files contain one. A
    /// root file system in which `/bin` links to `/usr/bin` is preserved.
    pub(super) fn shell_path(&self) -> Option<String> {
        let bin = match self.entries.get(&b"bin"[..]).map(|entry| &entry.kind) {
            Some(FileKind::Link { target }) => {
                let target = target.strip_prefix(b"/").unwrap_or(target);
                let is_folder = self.entries.get(target).is_some_and(|entry| entry.kind == FileKind::Folder);
                String::from_utf8(target.to_owned()).ok().filter(|_| is_folder)?
            }
            _ => "bin".to_owned(),
        };
        let shell = format!("{bin}/sh");
        (!self.entries.contains_key(shell.as_bytes())).then_some(shell)
    }

    /// Returns whether there is a file at this path.
    pub(super) fn contains(&self, path: &str) -> bool {
        self.entries.contains_key(path.as_bytes())
    }

    /// Adds all of them to an archive.
    ///
    /// # Errors
    /// [`FilesError::Read`], and [`FilesError::TooMuch`] if they have grown since they were collected.
    pub(super) fn pack(&self, archive: &mut Archive) -> Result<(), FilesError> {
        let mut left = MAX_BYTES;
        for (path, entry) in &self.entries {
            match &entry.kind {
                FileKind::Folder => archive.add_directory(path, entry.permissions, entry.modified_s),
                FileKind::Link { target } => archive.add_symlink(path, target, entry.modified_s),
                FileKind::File { source } => {
                    let content = fs::read(source).map_err(failed(source))?;
                    let too_much = || FilesError::TooMuch { path: source.clone() };
                    left = left.checked_sub(content.len() as u64).ok_or_else(too_much)?;
                    archive.add_file(path, entry.permissions, entry.modified_s, &content);
                }
            }
        }
        Ok(())
    }
}

/// Checks that a node can get its files from a folder.
///
/// # Errors
/// [`FilesError::Read`] and [`FilesError::NotAFolder`].
pub fn check_folder(folder: &Path) -> Result<(), FilesError> {
    let is_folder = fs::metadata(folder).map_err(failed(folder))?.is_dir();
    if is_folder { Ok(()) } else { Err(FilesError::NotAFolder { path: folder.to_owned() }) }
}

/// Checks that a node has enough memory for its files.
///
/// # Errors
/// [`FilesError::TooLittleMemory`] if it does not.
pub fn check_memory(needed_mib: u64, memory_mib: u32) -> Result<(), FilesError> {
    if u64::from(memory_mib) >= needed_mib {
        return Ok(());
    }
    Err(FilesError::TooLittleMemory { needed_mib, memory_mib })
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> FilesError {
    move |error| FilesError::Read { path: path.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("tombolo-files-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn write(&self, name: &str, content: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            path
        }

        fn gather(&self, names: &[&str]) -> Result<Files, FilesError> {
            Files::gather(&names.iter().map(|name| self.0.join(name)).collect::<Vec<_>>())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn packed(files: &Files) -> String {
        let mut archive = Archive::new();
        files.pack(&mut archive).unwrap();
        String::from_utf8(archive.finish()).unwrap()
    }

    #[test]
    fn folder_contents_are_collected_unchanged() {
        let folder = Folder::new("gather");
        let tool = folder.write("a/usr/bin/tool", "tool");
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        symlink("/etc/outside", folder.0.join("a/usr/link")).unwrap();
        symlink("../../..", folder.0.join("a/up")).unwrap();
        let files = folder.gather(&["a"]).unwrap();
        assert_eq!(files.length_bytes(), 4 + 12 + 8);
        let archive = packed(&files);
        for (name, content, mode) in [
            ("usr/bin/tool\0", "tool", 0o100_755),
            ("usr/link\0", "/etc/outside", 0o120_777),
            ("up\0", "../../..", 0o120_777),
        ] {
            let at = archive.find(name).unwrap_or_else(|| panic!("{name:?} is there"));
            assert!(archive[at..].contains(content), "{name:?}");
            // Header: 6 bytes of magic, then fields of 8: inode, mode.
            assert_eq!(archive[at - 110 + 14..][..8], format!("{mode:08x}"), "{name:?}");
        }
        let folder_at = archive.find("usr/bin\0").unwrap();
        assert!(folder_at < archive.find("usr/bin/tool\0").unwrap(), "a folder comes before what is in it");
        assert_eq!(Files::gather(&[]).unwrap(), Files::default());
    }

    #[test]
    fn last_of_several_folders_wins() {
        let folder = Folder::new("several");
        folder.write("a/etc/name", "first");
        folder.write("a/etc/other", "stays");
        folder.write("b/etc/name", "second!");
        let files = folder.gather(&["a", "b"]).unwrap();
        let archive = packed(&files);
        assert!(archive.contains("second!") && archive.contains("stays") && !archive.contains("first"));
        assert_eq!(files.length_bytes(), 5 + 7);
        folder.write("c/etc", "a file");
        let clash = folder.gather(&["a", "c"]).unwrap_err();
        assert!(matches!(&clash, FilesError::Clash { path } if path.ends_with("c/etc")), "{clash}");
        symlink("usr/etc", folder.0.join("b/etc-link")).unwrap();
        fs::create_dir_all(folder.0.join("c2/etc-link")).unwrap();
        assert!(matches!(folder.gather(&["b", "c2"]), Err(FilesError::Clash { .. })));
    }

    #[test]
    fn unsupported_files_are_reported() {
        let folder = Folder::new("bad");
        let missing = folder.gather(&["none"]).unwrap_err();
        assert!(missing.to_string().contains("none, which the node's files"), "{missing}");
        folder.write("file", "");
        let file = folder.gather(&["file"]).unwrap_err();
        assert!(file.to_string().contains("file is not a folder: `files` names folders"), "{file}");
        for own in ["init", "tombolo/x"] {
            let name = own.split('/').next().unwrap();
            folder.write(&format!("own-{name}/{own}"), "");
            let error = folder.gather(&[&format!("own-{name}")]).unwrap_err();
            assert!(error.to_string().contains(&format!("the node's own /{name}")), "{error}");
        }
        // Only at the root.
        folder.write("deep/sbin/init", "");
        folder.gather(&["deep"]).unwrap();
        fs::create_dir_all(folder.0.join("special")).unwrap();
        let _socket = UnixListener::bind(folder.0.join("special/socket")).unwrap();
        let error = folder.gather(&["special"]).unwrap_err();
        assert!(error.to_string().contains("special/socket is a socket"), "{error}");
        folder.write("mount/proc", "");
        let error = folder.gather(&["mount"]).unwrap_err();
        assert!(error.to_string().contains("mounts a file system at /proc"), "{error}");
    }

    #[test]
    fn files_below_mount_points_are_omitted() {
        let folder = Folder::new("hidden");
        folder.write("root/dev/console", "");
        folder.write("root/tmp/x", "");
        folder.write("root/var/tmp/kept", "");
        let files = folder.gather(&["root"]).unwrap();
        let paths: Vec<String> =
            files.entries.keys().map(|path| String::from_utf8(path.clone()).unwrap()).collect();
        assert_eq!(paths, ["var", "var/tmp", "var/tmp/kept"]);
    }

    #[test]
    fn size_limits_are_exact() {
        let mut files = Files::default();
        let entry = |length| NodeFile {
            kind: FileKind::File { source: PathBuf::new() },
            permissions: 0,
            modified_s: 0,
            length,
        };
        let base = u64::from(MIN_MEMORY_MIB);
        assert_eq!(files.needed_memory_mib(), base, "no files need no memory");
        // With its name and its inode a little more than two MiB.
        files.entries.insert(b"x".to_vec(), entry(2 << 20));
        assert_eq!(files.needed_memory_mib(), base + 3 * 3);
        for (memory_mib, fits) in [(72, false), (73, true), (74, true)] {
            assert_eq!(check_memory(files.needed_memory_mib(), memory_mib).is_ok(), fits, "{memory_mib}");
        }
        let folder = Folder::new("limits");
        let sparse = |length| {
            let path = folder.write("big/file", "");
            File::options().write(true).open(path).unwrap().set_len(length).unwrap();
            folder.gather(&["big"])
        };
        assert!(sparse(MAX_BYTES - 1).is_ok() && sparse(MAX_BYTES).is_ok());
        assert!(matches!(sparse(MAX_BYTES + 1), Err(FilesError::TooMuch { .. })));
    }

    #[test]
    fn shell_is_installed_unless_present() {
        let folder = Folder::new("shell");
        assert_eq!(Files::default().shell_path().as_deref(), Some("bin/sh"));
        folder.write("plain/bin/tool", "");
        assert_eq!(folder.gather(&["plain"]).unwrap().shell_path().as_deref(), Some("bin/sh"));
        folder.write("own/bin/sh", "");
        assert_eq!(folder.gather(&["own"]).unwrap().shell_path(), None);
        folder.write("merged/usr/bin/tool", "");
        symlink("usr/bin", folder.0.join("merged/bin")).unwrap();
        assert_eq!(folder.gather(&["merged"]).unwrap().shell_path().as_deref(), Some("usr/bin/sh"));
        folder.write("merged/usr/bin/sh", "");
        assert_eq!(folder.gather(&["merged"]).unwrap().shell_path(), None);
        fs::create_dir_all(folder.0.join("odd")).unwrap();
        symlink("elsewhere", folder.0.join("odd/bin")).unwrap();
        assert_eq!(folder.gather(&["odd"]).unwrap().shell_path(), None);
    }
}

//! Locates the parts of nodes: monitors, kernels and emulators.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tombolo_base::Isa;

use crate::model::{Folder, Node, NodeSettings};
use crate::vm::{Architecture, board};

/// Version of this crate, and of the matching kit.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// File of a kit with its version. A kit assembled by hand has none; its monitors report their version when
/// they start.
const VERSION_FILE: &str = "version";

/// Error for a part of a node that is not installed, or not at the given place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KitError {
    /// The variable's value is not a folder.
    #[error("TOMBOLO_KIT is {}, which is not a folder: set it to the folder with the parts of nodes, or unset it", path.display())]
    NotAFolder {
        /// Value of the variable.
        path: PathBuf,
    },
    /// The variable names a folder that is not a kit.
    #[error(
        "TOMBOLO_KIT is {}, which is not a kit: it has no folder of parts for any instruction set, such as {}; set it to the \
         folder with the parts of nodes, or unset it",
        path.display(),
        Isa::current()
    )]
    NotAKit {
        /// Value of the variable.
        path: PathBuf,
    },
    /// No kit was found.
    #[error(
        "the parts that nodes are made of are not in {}: set TOMBOLO_KIT, or write them by `make kit` in a source tree",
        display_paths(searched)
    )]
    NoKit {
        /// Places that were searched.
        searched: Vec<PathBuf>,
    },
    /// The kit belongs to another release, whose monitors are incompatible with this one.
    #[error(
        "the parts that nodes are made of, in {}, are those of Tombolo {kit_version}, and this is Tombolo {}: install both of one \
         release, or set TOMBOLO_KIT to the folder with the parts of this one (in a source tree, `make kit` writes them)",
        path.display(),
        VERSION
    )]
    OtherVersion {
        /// The kit.
        path: PathBuf,
        /// Version of the kit.
        kit_version: String,
    },
    /// The kit lacks the monitor for an instruction set.
    #[error(
        "there is no monitor for {isa} nodes in {}: `make kit` in a source tree builds it",
        display_paths(searched)
    )]
    NoMonitor {
        /// Instruction set of the monitor.
        isa: Isa,
        /// Places that were searched.
        searched: Vec<PathBuf>,
    },
    /// The kit lacks the monitor for boards of an instruction set.
    #[error("there is no monitor for boards of {isa} in {}: run `make kit`", display_paths(searched))]
    NoBoard {
        /// Instruction set of the board.
        isa: Isa,
        /// Places that were searched.
        searched: Vec<PathBuf>,
    },
    /// A folder that a machine file names is not in the kit.
    #[error(
        "the kit has no {} in {}: `make mpi` puts MPI into the kit, `make vm-python` Python",
        path.display(),
        kit.display()
    )]
    NoFolder {
        /// Path of the folder in the kit.
        path: PathBuf,
        /// The kit.
        kit: PathBuf,
    },
    /// The emulator of a node is not installed.
    #[error(
        "node `{node}` needs {program}, which is not on PATH: \
         install Debian's package {package} (apt-get install {package})"
    )]
    NoEmulator {
        /// Node that needs the emulator.
        node: String,
        /// The program.
        program: String,
        /// Package that contains it.
        package: &'static str,
    },
    /// The emulator that the machine file names cannot be run.
    #[error("the machine file says that {} runs node `{node}`, but there is no such program", path.display())]
    BadEmulator {
        /// Node that needs the emulator.
        node: String,
        /// Path in the machine file.
        path: PathBuf,
    },
}

fn display_paths(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The kit: a folder with one subfolder of parts per instruction set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kit {
    root: PathBuf,
    /// Whether it is given by `TOMBOLO_KIT`.
    named: bool,
}

impl Kit {
    /// Finds the kit: `$TOMBOLO_KIT`, or relative to the running program `../kit` (beside the folder it was
    /// built in), `../../kit` (the same for examples and tests) or `../lib/tombolo/kit` (installed).
    ///
    /// # Errors
    /// [`KitError::NotAFolder`], [`KitError::NotAKit`] or [`KitError::NoKit`], with the places;
    /// [`KitError::OtherVersion`].
    pub fn locate() -> Result<Kit, KitError> {
        Kit::locate_from(std::env::var_os("TOMBOLO_KIT").as_deref(), exe_folder().as_deref())
    }

    fn locate_from(variable: Option<&OsStr>, exe_folder: Option<&Path>) -> Result<Kit, KitError> {
        if let Some(root) = variable.filter(|value| !value.is_empty()) {
            // A monitor changes its working directory, and looks up parts later.
            let path = std::path::absolute(root).unwrap_or_else(|_| PathBuf::from(root));
            return match path.is_dir() {
                false => Err(KitError::NotAFolder { path }),
                true if !is_kit(&path) => Err(KitError::NotAKit { path }),
                true => Kit { root: path, named: true }.check_version(),
            };
        }
        let places = ["../kit", "../../kit", "../lib/tombolo/kit"];
        let searched: Vec<PathBuf> = exe_folder
            .into_iter()
            .flat_map(|folder| places.map(|place| resolve_parents(folder, place)))
            .collect();
        match searched.iter().find(|path| path.is_dir()) {
            Some(root) => Kit { root: root.clone(), named: false }.check_version(),
            None => Err(KitError::NoKit { searched }),
        }
    }

    /// Returns the kit, unless it is of another version.
    fn check_version(self) -> Result<Kit, KitError> {
        let Ok(text) = std::fs::read_to_string(self.root.join(VERSION_FILE)) else { return Ok(self) };
        let kit_version = text.trim();
        if kit_version == VERSION {
            return Ok(self);
        }
        Err(KitError::OtherVersion { kit_version: kit_version.to_owned(), path: self.root })
    }

    /// Returns the kit in this folder, without checking its content.
    #[must_use]
    pub fn at(root: &Path) -> Kit {
        Kit { root: root.to_owned(), named: false }
    }

    /// Returns whether it is given by `TOMBOLO_KIT`.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.named
    }

    /// Returns the folder that holds the kit's files.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of its image of that name, which may be missing: `images/NAME.tbi`.
    #[must_use]
    pub fn image(&self, name: &str) -> PathBuf {
        self.root.join("images").join(format!("{name}.tbi"))
    }

    /// Returns the monitor for nodes of `isa`, a static program.
    ///
    /// # Errors
    /// [`KitError::NoMonitor`].
    pub fn tombolod(&self, isa: Isa) -> Result<PathBuf, KitError> {
        let path = self.root.join(isa.name()).join("tombolod");
        if is_program(&path) { Ok(path) } else { Err(KitError::NoMonitor { isa, searched: vec![path] }) }
    }

    /// Returns the monitor of a board of `isa`, which the board boots.
    ///
    /// # Errors
    /// [`KitError::NoBoard`].
    pub fn board(&self, isa: Isa) -> Result<PathBuf, KitError> {
        let path = self.root.join(isa.name()).join("board");
        if path.is_file() { Ok(path) } else { Err(KitError::NoBoard { isa, searched: vec![path] }) }
    }
}

/// Returns whether a folder contains parts of nodes, or images of the kit.
fn is_kit(folder: &Path) -> bool {
    Isa::ALL.iter().map(|isa| isa.name()).chain(["images"]).any(|part| folder.join(part).is_dir())
}

impl Folder {
    /// Returns the path of the folder.
    ///
    /// # Errors
    /// [`KitError::NoFolder`] if the kit lacks it.
    pub fn locate(&self, kit: &Kit) -> Result<PathBuf, KitError> {
        match self {
            Folder::At(path) => Ok(path.clone()),
            Folder::InKit(path) => {
                let found = kit.root.join(path);
                let missing = || KitError::NoFolder { path: path.clone(), kit: kit.root.clone() };
                if found.is_dir() { Ok(found) } else { Err(missing()) }
            }
        }
    }
}

/// Returns the monitor of the host itself: in the kit, otherwise beside the running program or one folder up
/// (examples and tests), otherwise on `PATH`. A host alone needs no kit.
///
/// # Errors
/// [`KitError::NoMonitor`], with the places.
pub fn host_tombolod() -> Result<PathBuf, KitError> {
    // A kit of another version is ignored here; code that depends on the version refuses it.
    let in_kit = Kit::locate().ok().map(|kit| kit.root.join(Isa::current().name()).join("tombolod"));
    let beside = exe_folder()
        .into_iter()
        .flat_map(|folder| [folder.join("tombolod"), resolve_parents(&folder, "../tombolod")]);
    let searched: Vec<PathBuf> = in_kit.into_iter().chain(beside).collect();
    match searched.iter().find(|path| is_program(path)) {
        Some(path) => Ok(path.clone()),
        None => find_program("tombolod").ok_or(KitError::NoMonitor { isa: Isa::current(), searched }),
    }
}

/// Returns the emulator that runs `node`; `None` for the host, which needs none.
///
/// # Errors
/// [`KitError::NoEmulator`] names the package to install; [`KitError::BadEmulator`] blames the machine file.
pub fn emulator(node: &Node) -> Result<Option<PathBuf>, KitError> {
    let (configured, default_program, package) = match &node.settings {
        NodeSettings::Host | NodeSettings::Attached(_) => return Ok(None),
        NodeSettings::User(user) => {
            let name = if node.isa == Isa::Armv7 { "arm" } else { node.isa.name() };
            (&user.emulator, format!("qemu-{name}"), "qemu-user")
        }
        NodeSettings::Vm(vm) => {
            let Some(architecture) = Architecture::of(node.isa) else { return Ok(None) };
            (&vm.emulator, architecture.program.to_owned(), architecture.package)
        }
        NodeSettings::Bare(bare) => {
            let (program, package) = board::program(node.isa);
            (&bare.emulator, program.to_owned(), package)
        }
    };
    match configured {
        Some(configured) => match find_program(configured) {
            Some(path) => Ok(Some(path)),
            None => Err(KitError::BadEmulator { node: node.name.clone(), path: configured.clone() }),
        },
        // Debian's qemu-user-static is as good as qemu-user.
        None => find_program(&default_program)
            .or_else(|| find_program(format!("{default_program}-static")))
            .map(Some)
            .ok_or(KitError::NoEmulator { node: node.name.clone(), program: default_program, package }),
    }
}

/// Returns the program that a shell would run for `name`: a path as it is, a bare name looked up on `PATH`.
#[must_use]
pub fn find_program(name: impl AsRef<Path>) -> Option<PathBuf> {
    find_program_in(name.as_ref(), &std::env::var_os("PATH").unwrap_or_default())
}

fn find_program_in(name: &Path, path_variable: &OsStr) -> Option<PathBuf> {
    if name.components().count() > 1 || name.is_absolute() {
        return is_program(name).then(|| name.to_owned());
    }
    std::env::split_paths(path_variable).map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn exe_folder() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.to_owned())
}

/// Joins `folder` and `relative`, resolving leading `..` textually, so that the path is readable in errors.
fn resolve_parents(folder: &Path, relative: &str) -> PathBuf {
    let mut path = folder.to_owned();
    for part in relative.split('/') {
        if part == ".." {
            path.pop();
        } else {
            path.push(part);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tombolo_base::NodeId;

    use super::*;
    use crate::model::{UserNode, VmNode};

    /// A temporary folder, removed after the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("tombolo-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        fn program(&self, name: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn kit_is_located_by_build_installation_or_variable() {
        let scratch = Scratch::new("kit-places");
        let locate = |exe: &str| Kit::locate_from(None, Some(&scratch.0.join(exe))).map(|kit| kit.root);
        let missing = locate("target/release").unwrap_err();
        assert_eq!(
            missing.to_string(),
            format!(
                "the parts that nodes are made of are not in {0}/target/kit, {0}/kit, {0}/target/lib/tombolo/kit: \
                 set TOMBOLO_KIT, or write them by `make kit` in a source tree",
                scratch.0.display()
            )
        );
        fs::create_dir_all(scratch.0.join("target/kit")).unwrap();
        fs::create_dir_all(scratch.0.join("usr/lib/tombolo/kit")).unwrap();
        assert_eq!(locate("target/release"), Ok(scratch.0.join("target/kit")));
        assert_eq!(locate("target/release/examples"), Ok(scratch.0.join("target/kit")));
        assert_eq!(locate("usr/bin"), Ok(scratch.0.join("usr/lib/tombolo/kit")));
        let named = |path: &Path| Kit::locate_from(Some(path.as_os_str()), None);
        assert_eq!(named(&scratch.0.join("x")), Err(KitError::NotAFolder { path: scratch.0.join("x") }));
        let other = named(&scratch.0).unwrap_err();
        assert_eq!(other, KitError::NotAKit { path: scratch.0.clone() });
        let said = other.to_string();
        assert!(
            said.starts_with(&format!("TOMBOLO_KIT is {}, which is not a kit", scratch.0.display())),
            "{said}"
        );
        assert!(said.ends_with("or unset it"), "{said}");
        fs::create_dir_all(scratch.0.join("s390x")).unwrap();
        let kit = named(&scratch.0).unwrap();
        assert!(kit.root() == scratch.0 && kit.is_named());
    }

    #[test]
    fn a_kit_of_another_release_is_refused() {
        let scratch = Scratch::new("kit-version");
        fs::create_dir_all(scratch.0.join("s390x")).unwrap();
        let locate =
            || Kit::locate_from(Some(scratch.0.as_os_str()), None).map(drop).map_err(|it| it.to_string());
        assert_eq!(locate(), Ok(()), "one that was put together by hand");
        fs::write(scratch.0.join("version"), format!("{VERSION}\n")).unwrap();
        assert_eq!(locate(), Ok(()));
        fs::write(scratch.0.join("version"), "0.0.9\n").unwrap();
        let refusal = format!(
            "the parts that nodes are made of, in {}, are those of Tombolo 0.0.9, and this is Tombolo {VERSION}: install \
             both of one release, or set TOMBOLO_KIT to the folder with the parts of this one (in a source tree, `make kit` \
             writes them)",
            scratch.0.display()
        );
        assert_eq!(locate(), Err(refusal));
    }

    #[test]
    fn a_monitor_must_be_a_program() {
        let scratch = Scratch::new("kit-monitor");
        let kit = Kit::at(&scratch.0);
        assert!(
            kit.tombolod(Isa::S390x)
                .unwrap_err()
                .to_string()
                .starts_with("there is no monitor for s390x nodes in")
        );
        let path = scratch.program("s390x/tombolod");
        assert_eq!(kit.tombolod(Isa::S390x), Ok(path.clone()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(kit.tombolod(Isa::S390x).is_err());
    }

    #[test]
    fn kit_folder_is_located() {
        let scratch = Scratch::new("kit-folder");
        let kit = Kit::at(&scratch.0);
        let folder = Folder::InKit("mpi/aarch64".into());
        let missing = folder.locate(&kit).unwrap_err().to_string();
        assert_eq!(
            missing,
            format!(
                "the kit has no mpi/aarch64 in {}: `make mpi` puts MPI into the kit, `make vm-python` Python",
                scratch.0.display()
            )
        );
        fs::create_dir_all(scratch.0.join("mpi/aarch64")).unwrap();
        assert_eq!(folder.locate(&kit), Ok(scratch.0.join("mpi/aarch64")));
        assert_eq!(Folder::At("/none".into()).locate(&kit), Ok("/none".into()), "told when it is read");
    }

    #[test]
    fn programs_are_found_like_a_shell_finds_them() {
        let scratch = Scratch::new("kit-path");
        let path = scratch.program("bin/tool");
        let variable = std::env::join_paths([scratch.0.join("none"), scratch.0.join("bin")]).unwrap();
        assert_eq!(find_program_in(Path::new("tool"), &variable), Some(path.clone()));
        assert_eq!(find_program_in(&path, OsStr::new("")), Some(path));
        assert_eq!(find_program_in(Path::new("bin/other"), &variable), None);
        assert_eq!(find_program_in(Path::new("bin"), OsStr::new(&scratch.0)), None, "a folder is no program");
    }

    #[test]
    fn configured_emulator_is_not_replaced() {
        let configured = PathBuf::from("/nonexistent/qemu");
        let node = |settings| Node { id: NodeId(1), name: "n".to_owned(), isa: Isa::Aarch64, settings };
        let user = NodeSettings::User(UserNode { emulator: Some(configured.clone()), ..UserNode::default() });
        let vm = NodeSettings::Vm(VmNode { emulator: Some(configured.clone()), ..VmNode::default() });
        for settings in [user, vm] {
            let error = emulator(&node(settings)).unwrap_err();
            assert_eq!(error, KitError::BadEmulator { node: "n".to_owned(), path: configured.clone() });
        }
        assert_eq!(emulator(&node(NodeSettings::Host)), Ok(None));
    }
}

//! Programs to run (an image, an executable or a host command), and the MPI library that they are linked
//! with.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use tombolo::SpawnOptions;
use tombolo::nodes::{NodeInfo, NodeKind, Target};
use tombolo_machine::image::{Image, ImageError, elf};
use tombolo_machine::kit;

use crate::mark::{DifferentBuilds, check_builds};

/// Application binary interface of an MPI library, derived from the library that a program needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mpi {
    /// The ABI of MPICH, Intel MPI and others: `libmpi.so.12`.
    Mpich,
    /// The ABI of the MPI 5 standard: `libmpi_abi.so`.
    Standard,
    /// The ABI of Open MPI, which supports PMIx only.
    OpenMpi,
}

impl Mpi {
    /// Classifies a library that a program needs, by its name.
    fn of_library(name: &str) -> Option<Mpi> {
        let version = |stem: &str| name.strip_prefix(stem).and_then(|rest| rest.strip_prefix(".so."));
        if version("libmpi_abi").is_some() {
            return Some(Mpi::Standard);
        }
        if version("libmpich").is_some() {
            return Some(Mpi::Mpich);
        }
        match version("libmpi")?.split('.').next()? {
            "12" => Some(Mpi::Mpich),
            "20" | "40" | "80" => Some(Mpi::OpenMpi),
            _ => None,
        }
    }
}

impl fmt::Display for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mpi::Mpich => "MPICH's",
            Mpi::Standard => "the MPI standard's",
            Mpi::OpenMpi => "Open MPI's",
        })
    }
}

/// MPI-related properties of one build of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Build {
    /// Target of the build.
    pub target: Target,
    /// ABI and name of the shared MPI library that it needs; `None` if it needs none of a known name.
    pub mpi: Option<(Mpi, String)>,
    /// Folders that its loader searches first (RPATH or RUNPATH).
    pub run_path: Vec<String>,
}

/// A program and its builds.
#[derive(Clone, Debug)]
pub struct Program {
    /// Name as the user gave it.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
    /// Its builds; empty for a host command that is no ELF executable, such as a script.
    pub builds: Vec<Build>,
    /// Whether it is an image, which is sent to every node, the host included.
    is_image: bool,
    /// Image beside the executable that contains it as one of its builds, for other nodes.
    beside: Option<PathBuf>,
}

/// Why a program cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The program does not exist.
    #[error("program '{name}' not found: neither a file, nor on PATH, nor in {}", directory.display())]
    Missing {
        /// Name as the user gave it.
        name: String,
        /// Folder that was searched besides `PATH`.
        directory: PathBuf,
    },
    /// The file cannot be executed.
    #[error("{} cannot be executed: it is not an image, and its mode lacks execute permission (chmod +x)", .0.display())]
    NotExecutable(PathBuf),
    /// The image or executable is malformed.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The builds of an image come from different programs.
    #[error(transparent)]
    Different(#[from] DifferentBuilds),
    /// A build in the image cannot be parsed.
    #[error("{}: the build for {target} is not usable: {source}", path.display())]
    Build {
        /// The file.
        path: PathBuf,
        /// Target of that build.
        target: Target,
        /// Description of the defect.
        source: elf::ElfError,
    },
    /// The builds of an image are linked with different MPI libraries.
    #[error(
        "{}: its builds are linked with different MPIs: {} with {}, {} with {} (build all of them with one)",
        path.display(), first.0, first.1, second.0, second.1
    )]
    Unlike {
        /// The image.
        path: PathBuf,
        /// Target and MPI library of one build.
        first: (Target, String),
        /// Target and MPI library of another build.
        second: (Target, String),
    },
    /// The program is linked with Open MPI.
    #[error(
        "{} is linked with Open MPI ({library}), which speaks PMIx: start it with Open MPI's own mpirun, or build it \
         with MPICH (`tombolo mpicc`)", path.display()
    )]
    OpenMpi {
        /// The program.
        path: PathBuf,
        /// The library.
        library: String,
    },
    /// The program has no build for the node.
    #[error("{}", missing_build_text(path, node, available, *is_script))]
    NoBuild {
        /// The program.
        path: PathBuf,
        /// Name and target of the node.
        node: (String, Target),
        /// Targets that the program has builds for.
        available: Vec<Target>,
        /// Whether the program is a script or another host command.
        is_script: bool,
    },
}

fn missing_build_text(
    path: &Path,
    (node, target): &(String, Target),
    available: &[Target],
    is_script: bool,
) -> String {
    let path = path.display();
    if is_script {
        return format!(
            "{path} is a script, which runs on the host alone; node {node} takes a program for {target} (`tombolo mpicc` \
             makes an image of programs for all nodes)"
        );
    }
    let has: Vec<&str> = available.iter().map(|target| target.name()).collect();
    let has = has.join(" and ");
    format!(
        "{path} has no build for {target}, which node {node} runs; it has {has} (`tombolo mpicc` makes one for every node)"
    )
}

/// Shell command that replaces the shell by the program.
const EXEC_SCRIPT: &str = "exec \"$0\" \"$@\"";

impl Program {
    /// Finds a program. A name with a `/` is a path; any other name is searched for on `path` (the value of
    /// `PATH`), then in `directory`.
    ///
    /// # Errors
    /// [`ProgramError`].
    pub fn find(name: &str, directory: &Path, path: Option<&OsStr>) -> Result<Program, ProgramError> {
        let here = directory.join(name);
        let missing = || ProgramError::Missing { name: name.to_owned(), directory: directory.to_owned() };
        let file = if name.contains('/') {
            here.is_file().then_some(here)
        } else {
            let folders =
                path.map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
            let found =
                folders.into_iter().find_map(|folder| kit::find_program(directory.join(folder).join(name)));
            found.or_else(|| here.is_file().then_some(here))
        };
        Program::open(name, &file.filter(|_| !name.is_empty()).ok_or_else(missing)?)
    }

    fn open(name: &str, path: &Path) -> Result<Program, ProgramError> {
        let is_program = kit::find_program(path).is_some();
        let head = read_magic(path);
        let is_elf = head.as_deref().is_some_and(elf::is_elf);
        let (name, path) = (name.to_owned(), path.to_owned());
        if is_elf && !is_program {
            return Err(ProgramError::NotExecutable(path));
        }
        let image = match Image::open(&path) {
            Ok(image) => image,
            // An executable that no node is known to run, such as a 32-bit one: starting it reports the
            // error, if any.
            Err(_) if is_program => {
                return Ok(Program { name, path, builds: Vec::new(), is_image: false, beside: None });
            }
            Err(_) if head.as_deref().is_some_and(|head| head.starts_with(b"#!")) => {
                return Err(ProgramError::NotExecutable(path));
            }
            Err(error) => return Err(error.into()),
        };
        let beside = if is_elf { find_image(&path, &image) } else { None };
        let (beside, image) = match beside {
            Some((beside, whole)) => (Some(beside), whole),
            None => (None, image),
        };
        check_builds(&image)?;
        let builds = image.programs().map(|program| {
            let linked = elf::read_dynamic_links(program.bytes);
            let target = program.target;
            let linked =
                linked.map_err(|source| ProgramError::Build { path: path.clone(), target, source })?;
            let mpi_of = |library: &String| Mpi::of_library(library).map(|mpi| (mpi, library.clone()));
            Ok(Build { target, mpi: linked.needed.iter().find_map(mpi_of), run_path: linked.run_path })
        });
        let builds = builds.collect::<Result<Vec<Build>, ProgramError>>()?;
        let program = Program { name, path, builds, is_image: !is_elf, beside };
        program.check_mpi()?;
        Ok(program)
    }

    fn check_mpi(&self) -> Result<(), ProgramError> {
        let linked = || self.builds.iter().filter_map(|build| Some((build.target, build.mpi.as_ref()?)));
        let mut all = linked();
        let Some((target, (mpi, library))) = all.next() else { return Ok(()) };
        let path = || self.path.clone();
        if let Some((other, (_, unlike))) = all.find(|(_, (other, _))| other != mpi) {
            let (first, second) = ((target, library.clone()), (other, unlike.clone()));
            return Err(ProgramError::Unlike { path: path(), first, second });
        }
        if *mpi == Mpi::OpenMpi {
            return Err(ProgramError::OpenMpi { path: path(), library: library.clone() });
        }
        Ok(())
    }

    /// Selects the build for a node; `None` for a host command without builds.
    ///
    /// # Errors
    /// [`ProgramError::NoBuild`].
    pub fn build_for(&self, node: &NodeInfo) -> Result<Option<&Build>, ProgramError> {
        let target = node.target();
        match self.builds.iter().find(|build| build.target == target) {
            Some(build) => Ok(Some(build)),
            None if self.builds.is_empty() && node.kind == NodeKind::Host => Ok(None),
            None => Err(ProgramError::NoBuild {
                path: self.path.clone(),
                node: (node.name.clone(), target),
                available: self.builds.iter().map(|build| build.target).collect(),
                is_script: self.builds.is_empty(),
            }),
        }
    }

    /// MPI library that it is linked with, if known.
    #[must_use]
    pub fn mpi(&self) -> Option<(Mpi, &str)> {
        let linked = self.builds.iter().find_map(|build| build.mpi.as_ref());
        linked.map(|(mpi, library)| (*mpi, library.as_str()))
    }

    /// How to start it on a node. A host executable is started from its own path, through a shell that
    /// replaces itself, so that it finds the files beside it and its `/proc/self/exe`.
    #[must_use]
    pub fn spawn_options(&self, node: &NodeInfo) -> SpawnOptions {
        let called = self.path.file_stem().and_then(OsStr::to_str).unwrap_or("program");
        if self.is_image || node.kind != NodeKind::Host {
            return SpawnOptions::image(self.beside.as_ref().unwrap_or(&self.path)).on(&node.name);
        }
        let path = self.path.to_string_lossy();
        SpawnOptions::image("/bin/sh").called(called).on(&node.name).args(["-c", EXEC_SCRIPT, &path])
    }

    /// Whether a library exists in the run path of a build.
    #[must_use]
    pub fn has_in_run_path(&self, build: &Build, library: &str) -> bool {
        // An image is unpacked on the node and has no $ORIGIN.
        let origin = self.path.parent().filter(|_| !self.is_image);
        build.run_path.iter().any(|folder| {
            let folder = match origin {
                Some(origin) => folder
                    .replace("$ORIGIN", &origin.to_string_lossy())
                    .replace("${ORIGIN}", &origin.to_string_lossy()),
                None => folder.clone(),
            };
            Path::new(&folder).join(library).exists()
        })
    }
}

/// Finds the image that `tombolo mpicc` made with an executable: it lies beside the executable and contains
/// the same bytes as one of its builds. Otherwise the image is stale.
fn find_image(path: &Path, executable: &Image) -> Option<(PathBuf, Image)> {
    let mut beside = path.to_owned();
    beside.as_mut_os_string().push(".tbi");
    let image = Image::open(&beside).ok()?;
    let own = executable.programs().next()?.sha256;
    let holds = image.programs().any(|program| program.sha256 == own);
    holds.then_some((beside, image))
}

/// Reads the first bytes of a file.
fn read_magic(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut head = Vec::new();
    std::fs::File::open(path).ok()?.take(4).read_to_end(&mut head).ok()?;
    Some(head)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tombolo_machine::image::ImageBuilder;

    use super::*;

    /// A temporary folder, removed after the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("tombolo-mpi-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        fn file(&self, name: &str, content: &[u8], mode: u32) -> PathBuf {
            let path = self.0.join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn mpi_is_detected_by_library_name() {
        for (library, mpi) in [
            ("libmpi.so.12", Some(Mpi::Mpich)),
            ("libmpi.so.12.3.0", Some(Mpi::Mpich)),
            ("libmpich.so.12", Some(Mpi::Mpich)),
            ("libmpi_abi.so.0", Some(Mpi::Standard)),
            ("libmpi_abi.so.1", Some(Mpi::Standard)),
            ("libmpi.so.40", Some(Mpi::OpenMpi)),
            ("libmpi.so", None),
            ("libmpicxx.so.12", None),
            ("libc.so.6", None),
        ] {
            assert_eq!(Mpi::of_library(library), mpi, "{library}");
        }
    }

    #[test]
    fn program_is_found_in_path_or_working_directory() {
        let scratch = Scratch::new("find");
        let script = scratch.file("script", b"#!/bin/sh\n", 0o755);
        scratch.file("plain", b"#!/bin/sh\n", 0o644);
        scratch.file("garbage", b"garbage", 0o644);
        let this = std::env::current_exe().unwrap();
        let path = std::env::join_paths([this.parent().unwrap()]).unwrap();
        let find = |name: &str| Program::find(name, &scratch.0, Some(&path));
        assert_eq!(find("script").unwrap().path, script);
        assert_eq!(find("./script").unwrap().builds, []);
        let own = find(this.file_name().unwrap().to_str().unwrap()).unwrap();
        assert_eq!((own.path.as_path(), own.builds.len(), own.mpi()), (this.as_path(), 1, None));
        for name in ["nowhere", "./nowhere", "", "."] {
            assert!(matches!(find(name), Err(ProgramError::Missing { .. })), "{name}");
        }
        assert!(matches!(find("plain"), Err(ProgramError::NotExecutable(_))));
        // The image beside an executable matches it or is stale.
        // A small one: packing this test's own takes ten seconds without optimizations.
        let bytes = std::fs::read("/bin/true").unwrap();
        scratch.file("job", &bytes, 0o755);
        let mut other = bytes.clone();
        other.push(0);
        for (inside, found) in [(bytes, true), (other, false)] {
            let image = ImageBuilder::new("job").with_program(inside).unwrap().finish().unwrap();
            scratch.file("job.tbi", image.as_bytes(), 0o644);
            assert_eq!(find("./job").unwrap().beside.is_some(), found);
        }
        assert!(matches!(find("garbage"), Err(ProgramError::Image(_))));
    }
}

//! Environment variables of the ranks on a node, and the location of their MPI library.

use std::path::{Path, PathBuf};

use tombolo::nodes::{NodeInfo, NodeKind};
use tombolo_machine::kit::Kit;

use crate::installation::{Installation, InstallationError, YIELD_LIBRARY};
use crate::program::Build;

/// Prefixes of variables that other launchers set for their own ranks; not passed on.
const LAUNCHER_PREFIXES: [&str; 3] = ["PMIX_", "OMPI_", "PRTE_"];
const LAUNCHER_VARIABLES: [&str; 14] = [
    "PMI_FD",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_PORT",
    "PMI_ID",
    "PMI_SPAWNED",
    "TOMBOLO_MONITOR",
    "TOMBOLO_MACHINE",
    "TOMBOLO_DOMAIN",
    "TOMBOLO_KIT",
    "TOMBOLO_TOMBOLOD",
    "TOMBOLO_RANK",
    "TOMBOLO_SIZE",
    "TOMBOLO_JOB",
];

/// Prefixes of variables passed to every node: they control MPI, libfabric, OpenMP and Tombolo. The rest of
/// the environment applies to the host only.
const FORWARDED_PREFIXES: [&str; 10] =
    ["PMI_", "FI_", "MPIR_", "MPICH_", "ROMIO_", "UCX_", "I_MPI_", "OMP_", "MPI4PY_", "TOMBOLO_"];

/// Limit of an environment, in bytes: it is sent in one message.
const MAX_ENVIRONMENT_BYTES: usize = 40 << 10;

/// The value `kernel` selects the C library's `sched_yield`.
const YIELD_VARIABLE: &str = "TOMBOLO_YIELD";

/// Whether MPI sees the ranks of one node as sharing memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SharedMemory {
    /// It does not, so every message goes through Tombolo.
    #[default]
    Tombolo,
    /// It does, and uses its own shared memory, also for messages within a node.
    Mpi,
}

/// Sources of the environments of a job.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Variables of the launcher.
    inherited: Vec<(String, String)>,
    /// Variables requested by the user, for all nodes.
    requested: Vec<(String, String)>,
    shared_memory: SharedMemory,
    /// The kit, or the reason why it was not found.
    kit: Result<Kit, String>,
}

/// Part of MPI that a node lacks.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MissingMpi {
    /// MPI itself or Tombolo's provider.
    #[error("on node {node} {source}")]
    Installation {
        /// The node.
        node: String,
        /// Missing part of the installation.
        source: InstallationError,
    },
    /// A library that the program is linked with.
    #[error("node {node} has no {library}, which the program needs: it is not in {} (`tombolo mpicc` links with what is)", path.display())]
    Library {
        /// The node.
        node: String,
        /// File name of the library.
        library: String,
        /// Path that was searched.
        path: PathBuf,
    },
    /// The kit is missing.
    #[error("on node {node} there is no MPI: {why}")]
    Kit {
        /// The node.
        node: String,
        /// Reason that the kit was not found.
        why: String,
    },
}

impl Environment {
    /// Combines the launcher's environment `inherited` with the variables requested by the user.
    #[must_use]
    pub fn new(
        inherited: impl IntoIterator<Item = (String, String)>,
        requested: Vec<(String, String)>,
        shared_memory: SharedMemory,
    ) -> Environment {
        let is_launcher_variable = |name: &str| {
            LAUNCHER_VARIABLES.contains(&name)
                || LAUNCHER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        };
        let inherited = inherited.into_iter().filter(|(name, _)| !is_launcher_variable(name)).collect();
        let kit = Kit::locate().map_err(|error| error.to_string());
        Environment { inherited, requested, shared_memory, kit }
    }

    /// Whether MPI sees the ranks of one node as sharing memory.
    #[must_use]
    pub fn shared_memory(&self) -> SharedMemory {
        self.shared_memory
    }

    /// Adds requested variables, which override all others.
    #[must_use]
    pub fn with(&self, requested: &[(String, String)]) -> Environment {
        let mut more = self.clone();
        more.requested.extend_from_slice(requested);
        more
    }

    /// Value of a variable, requested or inherited.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        let find = |from: &[(String, String)]| from.iter().rposition(|(of, _)| of == name);
        find(&self.requested)
            .map(|at| &self.requested[at])
            .or_else(|| find(&self.inherited).map(|at| &self.inherited[at]))
            .map(|(_, value)| value.as_str())
    }

    /// MPI installation for a node.
    fn installation(&self, node: &NodeInfo) -> Result<Installation, MissingMpi> {
        let name = || node.name.clone();
        let kit = self.kit.as_ref().map_err(|why| MissingMpi::Kit { node: name(), why: why.clone() })?;
        Installation::find(kit, node.isa).map_err(|source| MissingMpi::Installation { node: name(), source })
    }

    /// Checks that MPI on the node can use Tombolo's provider.
    ///
    /// # Errors
    /// [`MissingMpi::Installation`], [`MissingMpi::Kit`].
    pub fn provider(&self, node: &NodeInfo) -> Result<(), MissingMpi> {
        let checked = self.installation(node)?.check_provider();
        checked.map_err(|source| MissingMpi::Installation { node: node.name.clone(), source })
    }

    /// Checks that the node has the libraries of a build; `finds_own_mpi` if the program finds its MPI by its
    /// run path.
    ///
    /// # Errors
    /// [`MissingMpi`].
    pub fn check(&self, node: &NodeInfo, build: &Build, finds_own_mpi: bool) -> Result<(), MissingMpi> {
        let Some((_, library)) = &build.mpi else { return Ok(()) };
        let found = finds_own_mpi || (node.kind == NodeKind::Host && self.host_has(library));
        if !found {
            let path = self.installation(node)?.folder().join("lib");
            if !path.join(library).exists() {
                return Err(MissingMpi::Library { node: node.name.clone(), library: library.clone(), path });
            }
        }
        if self.value("FI_PROVIDER").is_some() { Ok(()) } else { self.provider(node) }
    }

    /// Whether the host's dynamic loader finds a library on its own.
    fn host_has(&self, library: &str) -> bool {
        const DEFAULT_FOLDERS: [&str; 6] = [
            "/lib/x86_64-linux-gnu",
            "/usr/lib/x86_64-linux-gnu",
            "/lib64",
            "/usr/lib64",
            "/usr/lib",
            "/usr/local/lib",
        ];
        let search_path = self.value("LD_LIBRARY_PATH").unwrap_or_default();
        search_path
            .split(':')
            .chain(DEFAULT_FOLDERS)
            .any(|folder| !folder.is_empty() && Path::new(folder).join(library).exists())
    }

    /// Builds the environment of all ranks of a node; `finds_own_mpi` as in [`check`](Self::check). Also
    /// returns the host's variables that exceeded the size limit.
    #[must_use]
    pub fn for_node(&self, node: &NodeInfo, finds_own_mpi: bool) -> (Vec<(String, String)>, Vec<String>) {
        let is_host = node.kind == NodeKind::Host;
        let is_forwarded = |name: &str| FORWARDED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let mut all = Variables::default();
        self.mpi_defaults(node, &mut all);
        let mut inherited: Vec<&(String, String)> =
            self.inherited.iter().filter(|(name, _)| is_host || is_forwarded(name)).collect();
        // The longest are dropped first: `LS_COLORS`, exported shell functions.
        inherited.sort_by_key(|(name, value)| name.len() + value.len());
        let mut dropped = Vec::new();
        for (name, value) in inherited {
            if all.bytes + name.len() + value.len() > MAX_ENVIRONMENT_BYTES {
                dropped.push(name.clone());
            } else {
                all.set(name, value.clone());
            }
        }
        for (name, value) in &self.requested {
            all.set(name, value.clone());
        }
        self.library_path(node, finds_own_mpi, &mut all);
        self.preload(node, &mut all);
        (all.list, dropped)
    }

    /// Sets the defaults that make MPI use Tombolo, unless the launcher's environment overrides them.
    fn mpi_defaults(&self, node: &NodeInfo, all: &mut Variables) {
        // The monitor's own environment may hold another launcher's variables.
        all.set("MPIR_CVAR_PMI_VERSION", "1".to_owned());
        all.set("MPIR_CVAR_CH4_NETMOD", "ofi".to_owned());
        // MPICH 5.0.2 divides by zero when it sends a vector of elements such as MPI_FLOAT_INT in pieces
        // instead of packing it.
        all.set("MPIR_CVAR_CH4_OFI_ENABLE_PT2PT_NOPACK", "0".to_owned());
        if self.shared_memory == SharedMemory::Tombolo {
            // The process mapping says so too, but MPICH compares node numbers across worlds, takes ranks of
            // different worlds for neighbours, and loses messages that it sends by shared memory.
            all.set("MPIR_CVAR_NOLOCAL", "1".to_owned());
        } else if node.kind != NodeKind::Host {
            // Emulators do not implement process_vm_readv.
            all.set("MPIR_CVAR_CH4_CMA_ENABLE", "0".to_owned());
        }
        if self.value("FI_PROVIDER").is_none() && self.provider(node).is_ok() {
            all.set("FI_PROVIDER", "tombolo".to_owned());
            if let Some(folder) = self.folder_on(node) {
                all.set("FI_PROVIDER_PATH", folder.join("fi").to_string_lossy().into_owned());
            }
            // MPICH is linked with UCX, which patches C library functions at load time and waits for other
            // threads to leave each: 20 ms of processor time per rank, even if UCX is not used.
            if self.value("MPIR_CVAR_CH4_NETMOD").is_none_or(|module| module == "ofi") {
                all.set("UCX_MEM_EVENTS", "n".to_owned());
            }
        }
        if node.kind == NodeKind::User
            && let Ok(installation) = self.installation(node)
        {
            // A prefix given in the machine file takes precedence.
            all.set("QEMU_LD_PREFIX", installation.tree().to_string_lossy().into_owned());
        }
    }

    /// Preloads `libtombolo-yield.so`: MPICH calls `sched_yield` after every poll, and the library enters the
    /// kernel only if another thread can run.
    fn preload(&self, node: &NodeInfo, all: &mut Variables) {
        const NAME: &str = "LD_PRELOAD";
        let is_wanted = all.get(YIELD_VARIABLE).is_none_or(|how| how != "kernel");
        let Ok(installation) = self.installation(node) else { return };
        if !is_wanted || !installation.has_yield() {
            return;
        }
        let library = installation.folder_on(node.kind == NodeKind::Host).join(YIELD_LIBRARY);
        // The loader splits LD_PRELOAD at spaces and colons, and warns in every program.
        let Some(library) = library.to_str().filter(|path| !path.contains([' ', ':'])) else { return };
        let libraries = match all.get(NAME).filter(|before| !before.is_empty()) {
            Some(before) => format!("{before}:{library}"),
            None => library.to_owned(),
        };
        if node.kind == NodeKind::User {
            // LD_PRELOAD itself would apply to the emulator, a host program, and fail to load a foreign
            // library.
            const FOR_EMULATED: &str = "QEMU_SET_ENV";
            let inherited = format!("{NAME}={libraries}");
            all.set(
                FOR_EMULATED,
                all.get(FOR_EMULATED).map_or(inherited.clone(), |before| format!("{before},{inherited}")),
            );
            all.remove(NAME);
        } else {
            all.set(NAME, libraries);
        }
    }

    /// Folder of MPI as seen from the node.
    fn folder_on(&self, node: &NodeInfo) -> Option<PathBuf> {
        Some(self.installation(node).ok()?.folder_on(node.kind == NodeKind::Host))
    }

    /// Appends our library folders after the launcher's; programs that bring their own MPI keep theirs first.
    fn library_path(&self, node: &NodeInfo, finds_own_mpi: bool, all: &mut Variables) {
        const NAME: &str = "LD_LIBRARY_PATH";
        let Some(lib) = self.folder_on(node).map(|folder| folder.join("lib")).filter(|_| !finds_own_mpi)
        else {
            return;
        };
        let lib = lib.to_string_lossy();
        let path = match all.get(NAME).filter(|before| !before.is_empty()) {
            Some(before) => format!("{before}:{lib}"),
            None => lib.into_owned(),
        };
        all.set(NAME, path);
    }
}

/// Environment variables without duplicates.
#[derive(Default)]
struct Variables {
    list: Vec<(String, String)>,
    bytes: usize,
}

impl Variables {
    fn get(&self, name: &str) -> Option<&str> {
        self.list.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    fn remove(&mut self, name: &str) {
        if let Some(at) = self.list.iter().position(|(of, _)| of == name) {
            let (name, value) = self.list.remove(at);
            self.bytes -= name.len() + value.len();
        }
    }

    fn set(&mut self, name: &str, value: String) {
        match self.list.iter_mut().find(|(of, _)| of == name) {
            Some((_, before)) => {
                self.bytes = self.bytes + value.len() - before.len();
                *before = value;
            }
            None => {
                self.bytes += name.len() + value.len();
                self.list.push((name.to_owned(), value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tombolo::nodes::Target;
    use tombolo::{Isa, NodeId};

    use super::*;
    use crate::program::Mpi;

    fn node(kind: NodeKind, isa: Isa) -> NodeInfo {
        NodeInfo::new(NodeId(0), kind.name(), kind, isa)
    }

    fn pairs(variables: &[(&str, &str)]) -> Vec<(String, String)> {
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// An environment with a complete kit in a temporary folder.
    struct TestKit(Environment, PathBuf);

    impl TestKit {
        fn new(name: &str, inherited: &[(&str, &str)], requested: &[(&str, &str)]) -> TestKit {
            let root = std::env::temp_dir().join(format!("tombolo-mpi-kit-{name}-{}", std::process::id()));
            for isa in ["x86_64", "aarch64"] {
                let kit_files = ["fi/libtombolo-fi.so", "lib/libtombolo-yield.so"];
                for file in kit_files.into_iter().chain(["lib/libmpi.so.12", "lib/libmpi.so", "version"]) {
                    let path = root.join("mpi").join(isa).join("opt/tombolo/mpi").join(file);
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(path, "").unwrap();
                }
            }
            let mut environment = Environment::new(pairs(inherited), pairs(requested), SharedMemory::Tombolo);
            environment.kit = Ok(Kit::at(&root));
            TestKit(environment, root)
        }
    }

    impl Drop for TestKit {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.1);
        }
    }

    fn value<'a>(all: &'a [(String, String)], name: &str) -> Option<&'a str> {
        let mut matches = all.iter().filter(|(key, _)| key == name);
        let found = matches.next().map(|(_, value)| value.as_str());
        assert!(matches.next().is_none(), "{name} comes twice");
        found
    }

    #[test]
    fn environment_fits_the_kind_of_node() {
        let inherited =
            [("HOME", "/home/a"), ("FI_LOG_LEVEL", "warn"), ("PMI_FD", "7"), ("PMIX_NAMESPACE", "x")];
        let test_kit = TestKit::new("each", &inherited, &[("GIVEN", "1"), ("HOME", "/given")]);
        let (host, dropped) = test_kit.0.for_node(&node(NodeKind::Host, Isa::X86_64), false);
        assert!(dropped.is_empty());
        let kit = test_kit.1.join("mpi/x86_64/opt/tombolo/mpi");
        for (name, expected) in [
            ("HOME", Some("/given")),
            ("GIVEN", Some("1")),
            ("FI_LOG_LEVEL", Some("warn")),
            ("PMI_FD", None),
            ("PMIX_NAMESPACE", None),
            ("FI_PROVIDER", Some("tombolo")),
            ("MPIR_CVAR_CH4_NETMOD", Some("ofi")),
            ("MPIR_CVAR_NOLOCAL", Some("1")),
            ("FI_PROVIDER_PATH", kit.join("fi").to_str()),
            ("LD_LIBRARY_PATH", kit.join("lib").to_str()),
            ("LD_PRELOAD", kit.join("lib/libtombolo-yield.so").to_str()),
            ("QEMU_LD_PREFIX", None),
            ("UCX_MEM_EVENTS", Some("n")),
        ] {
            assert_eq!(value(&host, name), expected, "{name}");
        }
        let test_kit = TestKit::new("far", &inherited, &[("GIVEN", "1")]);
        let (user, _) = test_kit.0.for_node(&node(NodeKind::User, Isa::Aarch64), false);
        for (name, expected) in [
            ("HOME", None),
            ("GIVEN", Some("1")),
            ("FI_LOG_LEVEL", Some("warn")),
            ("FI_PROVIDER_PATH", Some("/opt/tombolo/mpi/fi")),
            ("LD_LIBRARY_PATH", Some("/opt/tombolo/mpi/lib")),
            ("LD_PRELOAD", None),
            ("QEMU_SET_ENV", Some("LD_PRELOAD=/opt/tombolo/mpi/lib/libtombolo-yield.so")),
            ("QEMU_LD_PREFIX", test_kit.1.join("mpi/aarch64").to_str()),
            ("UCX_MEM_EVENTS", Some("n")),
        ] {
            assert_eq!(value(&user, name), expected, "{name}");
        }
    }

    #[test]
    fn explicit_variables_override_defaults() {
        let inherited =
            [("FI_PROVIDER", "tcp"), ("MPIR_CVAR_CH4_NETMOD", "ucx"), ("LD_LIBRARY_PATH", "/mine")];
        let test_kit = TestKit::new("wins", &inherited, &[]);
        let (host, _) = test_kit.0.for_node(&node(NodeKind::Host, Isa::X86_64), false);
        assert_eq!(value(&host, "FI_PROVIDER"), Some("tcp"));
        assert_eq!(value(&host, "FI_PROVIDER_PATH"), None);
        assert_eq!(value(&host, "MPIR_CVAR_CH4_NETMOD"), Some("ucx"));
        let path = value(&host, "LD_LIBRARY_PATH").unwrap();
        assert!(path.starts_with("/mine:") && path.ends_with("/lib"), "{path}");
        let (finds_own_mpi, _) = test_kit.0.for_node(&node(NodeKind::Host, Isa::X86_64), true);
        assert_eq!(value(&finds_own_mpi, "LD_LIBRARY_PATH"), Some("/mine"));
    }

    #[test]
    fn ucx_watches_no_memory_where_it_carries_nothing() {
        let memory_events = |name: &str, inherited: &[(&str, &str)]| {
            let (user, _) =
                TestKit::new(name, inherited, &[]).0.for_node(&node(NodeKind::User, Isa::Aarch64), false);
            value(&user, "UCX_MEM_EVENTS").map(str::to_owned)
        };
        assert_eq!(memory_events("ofi", &[("MPIR_CVAR_CH4_NETMOD", "ofi")]).as_deref(), Some("n"));
        assert_eq!(memory_events("ucx", &[("MPIR_CVAR_CH4_NETMOD", "ucx")]), None);
        assert_eq!(memory_events("provider", &[("FI_PROVIDER", "verbs")]), None);
        assert_eq!(memory_events("events", &[("UCX_MEM_EVENTS", "y")]).as_deref(), Some("y"));
    }

    #[test]
    fn yield_library_is_preloaded_unless_disabled() {
        let test_kit = TestKit::new("yield", &[("LD_PRELOAD", "/mine.so")], &[]);
        let (host, _) = test_kit.0.for_node(&node(NodeKind::Host, Isa::X86_64), false);
        let preloaded = value(&host, "LD_PRELOAD").unwrap();
        assert!(
            preloaded.starts_with("/mine.so:") && preloaded.ends_with("libtombolo-yield.so"),
            "{preloaded}"
        );
        let requested = test_kit.0.with(&pairs(&[("LD_PRELOAD", "/theirs.so"), ("QEMU_SET_ENV", "A=b")]));
        let (user, _) = requested.for_node(&node(NodeKind::User, Isa::Aarch64), false);
        let expected = "A=b,LD_PRELOAD=/theirs.so:/opt/tombolo/mpi/lib/libtombolo-yield.so";
        assert_eq!((value(&user, "QEMU_SET_ENV"), value(&user, "LD_PRELOAD")), (Some(expected), None));
        let kernel = test_kit.0.with(&pairs(&[("TOMBOLO_YIELD", "kernel")]));
        let (host, _) = kernel.for_node(&node(NodeKind::Host, Isa::X86_64), false);
        assert_eq!(value(&host, "LD_PRELOAD"), Some("/mine.so"));
        std::fs::remove_file(test_kit.1.join("mpi/aarch64/opt/tombolo/mpi/lib/libtombolo-yield.so")).unwrap();
        let (arm, _) = test_kit.0.for_node(&node(NodeKind::Vm, Isa::Aarch64), false);
        assert_eq!(value(&arm, "LD_PRELOAD"), None, "there is none");
    }

    #[test]
    fn missing_libraries_are_named() {
        let test_kit = TestKit::new("missing", &[], &[]);
        let build = |library: &str| Build {
            target: Target { bare: false, isa: Isa::Aarch64 },
            mpi: Some((Mpi::Mpich, library.to_owned())),
            run_path: Vec::new(),
        };
        let (arm, riscv) = (node(NodeKind::Vm, Isa::Aarch64), node(NodeKind::User, Isa::Riscv64));
        assert_eq!(test_kit.0.check(&arm, &build("libmpi.so.12"), false), Ok(()));
        let error = test_kit.0.check(&arm, &build("libmpi_abi.so.0"), false).unwrap_err().to_string();
        assert!(error.contains("node vm has no libmpi_abi.so.0") && error.contains("mpicc"), "{error}");
        let error = test_kit.0.check(&riscv, &build("libmpi.so.12"), true).unwrap_err().to_string();
        assert!(error.contains("on node user there is no MPI for riscv64"), "{error}");
        std::fs::remove_file(test_kit.1.join("mpi/aarch64/opt/tombolo/mpi/fi/libtombolo-fi.so")).unwrap();
        let error = test_kit.0.check(&arm, &build("libmpi.so.12"), true).unwrap_err().to_string();
        assert!(error.contains("fi/libtombolo-fi.so: run `make mpi`"), "{error}");
        let tcp = test_kit.0.with(&pairs(&[("FI_PROVIDER", "tcp")]));
        assert_eq!(tcp.check(&riscv, &build("libmpi.so.12"), true), Ok(()), "it is not asked for");
    }

    #[test]
    fn variables_over_the_size_limit_are_reported() {
        let long = "x".repeat(MAX_ENVIRONMENT_BYTES);
        let environment =
            Environment::new(pairs(&[("LONG", &long), ("SHORT", "1")]), Vec::new(), SharedMemory::Mpi);
        let (all, dropped) = environment.for_node(&node(NodeKind::Host, Isa::X86_64), true);
        assert_eq!(value(&all, "MPIR_CVAR_NOLOCAL"), None, "MPI's shared memory is asked for");
        assert_eq!(dropped, ["LONG"]);
        assert_eq!(value(&all, "SHORT"), Some("1"));
    }
}

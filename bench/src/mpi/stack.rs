//! Stacks: transports of MPI between two places, and how a program is started on each.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use tombolo_base::Isa;

use crate::suite::Absent;

/// Nodes of rank 0 and rank 1.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodePair {
    /// Node of rank 0.
    pub from: String,
    /// Node of rank 1.
    pub to: String,
}

impl NodePair {
    /// Returns the pair with both ranks on this host.
    #[must_use]
    pub fn host() -> NodePair {
        NodePair { from: "host".into(), to: "host".into() }
    }
}

impl fmt::Display for NodePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.from, self.to)
    }
}

/// Transport of MPI, with the command that runs the program on it.
#[derive(Clone, PartialEq, Debug)]
pub struct Stack {
    /// Name in tables and plots.
    pub name: String,
    /// Description of the stack.
    pub about: String,
    /// Nodes of the two ranks.
    pub place: NodePair,
    /// Path of the launcher.
    pub(super) program: PathBuf,
    /// Arguments of the launcher; the program's own are appended to each part.
    pub(super) arguments: Vec<Vec<OsString>>,
    /// Environment variables of its MPI.
    pub(super) environment: Vec<(OsString, OsString)>,
}

/// Names of stacks that targets are about.
pub(super) const TOMBOLO: &str = "Tombolo";
pub(super) const TOMBOLO_OPEN_MPI: &str = "Tombolo, Open MPI";
pub(super) const OPEN_MPI: &str = "Open MPI sm";
pub(super) const UCX: &str = "MPICH UCX posix";
pub(super) const TCP: &str = "MPICH tcp";
pub(super) const VIRTIO: &str = "MPICH tcp, virtio-net";

/// Paths from which stacks are built.
#[derive(Clone, PartialEq, Debug)]
pub struct Tools {
    /// Path of the command `tombolo`.
    pub tombolo: PathBuf,
    /// Path of the kit folder.
    pub kit: PathBuf,
    /// Name of the machine, if given.
    pub machine: Option<String>,
}

impl Tools {
    fn programs(&self) -> PathBuf {
        super::programs(&self.kit)
    }

    fn image(&self) -> PathBuf {
        self.programs().join("measure.tbi")
    }

    /// Returns the folder of the libfabric provider for programs of this host.
    fn provider(&self) -> PathBuf {
        self.kit.join("mpi").join(Isa::current().name()).join("opt/tombolo/mpi/fi")
    }

    fn mpirun(&self, name: &str, about: &str, place: NodePair) -> Result<Stack, Absent> {
        let mut arguments: Vec<OsString> = Vec::new();
        if let Some(machine) = &self.machine {
            arguments.extend(["--machine".into(), machine.into()]);
        }
        let on = match place.from == place.to {
            true => format!("{}:2", place.from),
            false => format!("{}:1,{}:1", place.from, place.to),
        };
        arguments.extend(["mpirun", "--on", &on].map(Into::into));
        arguments.push(self.image().into());
        let stack = Stack {
            name: name.into(),
            about: about.into(),
            place,
            program: self.tombolo.clone(),
            arguments: vec![arguments],
            environment: Vec::new(),
        };
        stack.if_there(&[&self.image()])
    }

    /// Creates a stack of MPICH's own launcher with these settings.
    fn mpiexec(
        &self,
        name: &str,
        about: &str,
        place: NodePair,
        settings: &[(&str, &str)],
    ) -> Result<Stack, Absent> {
        let (program, measure) =
            (self.programs().join("mpich/bin/mpiexec"), self.programs().join("measure.mpich"));
        let stack = Stack {
            name: name.into(),
            about: about.into(),
            place,
            program: program.clone(),
            arguments: vec![vec!["-n".into(), "2".into(), measure.clone().into()]],
            environment: settings.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        };
        stack.if_there(&[&program, &measure])
    }

    /// Creates a stack of MPICH's launcher with the second rank under an emulator, in one job.
    fn mpiexec_emulated(
        &self,
        name: &str,
        about: &str,
        node: &Foreign<'_>,
        settings: &[(&str, &str)],
    ) -> Result<Stack, Absent> {
        let mut stack = self.mpiexec(name, about, node.place(), settings)?;
        let foreign = self.programs().join(format!("measure.{}", node.isa.name()));
        let root = self.kit.join("mpi").join(node.isa.name());
        let libraries = "LD_LIBRARY_PATH=/opt/tombolo/mpi/lib";
        let host = self.programs().join("measure.mpich");
        let mut emulated: Vec<OsString> =
            [":", "-n", "1", node.emulator, "-E", libraries, "-L"].map(Into::into).into();
        emulated.extend([root.into(), foreign.clone().into()]);
        stack.arguments = vec![vec!["-n".into(), "1".into(), host.into()], emulated];
        stack.if_there(&[&foreign])
    }

    fn open_mpi(&self, name: &str, about: &str, settings: &[&str], provider: bool) -> Result<Stack, Absent> {
        let home = self.programs().join("openmpi");
        let (program, measure) = (home.join("bin/mpirun"), self.programs().join("measure.openmpi"));
        let mut environment = vec![("OPAL_PREFIX".into(), home.into_os_string())];
        let mut needed = vec![program.clone(), measure.clone()];
        if provider {
            environment.push(("FI_PROVIDER_PATH".into(), self.provider().into_os_string()));
            needed.push(self.provider().join("libtombolo-fi.so"));
        }
        let mut arguments: Vec<OsString> = Vec::new();
        if rustix::process::geteuid().is_root() {
            arguments.push("--allow-run-as-root".into());
        }
        arguments.extend(settings.iter().map(OsString::from));
        arguments.extend(["-n", "2"].map(Into::into));
        arguments.push(measure.into());
        let stack = Stack {
            name: name.into(),
            about: about.into(),
            place: NodePair::host(),
            program,
            arguments: vec![arguments],
            environment,
        };
        stack.if_there(&needed.iter().map(PathBuf::as_path).collect::<Vec<_>>())
    }
}

impl Stack {
    /// Returns its name with the nodes of the ranks.
    pub(super) fn title(&self) -> String {
        format!("{}: {}", self.place, self.name)
    }

    /// Creates the entry of this stack if it is not measured.
    #[must_use]
    pub fn absent(&self, why: String) -> Absent {
        Absent { peer: self.title(), why }
    }

    fn if_there(self, files: &[&Path]) -> Result<Stack, Absent> {
        match files.iter().find(|file| !file.exists()) {
            None => Ok(self),
            Some(missing) => {
                Err(self.absent(format!("{} is missing: `make bench-mpi` makes it", missing.display())))
            }
        }
    }
}

/// MPICH over libfabric alone, as between hosts.
const OVER_TCP: [(&str, &str); 3] =
    [("MPIR_CVAR_CH4_NETMOD", "ofi"), ("MPIR_CVAR_NOLOCAL", "1"), ("FI_PROVIDER", "tcp")];

/// MPICH over UCX's own shared memory, without copies by the kernel.
const OVER_UCX: [(&str, &str); 3] =
    [("MPIR_CVAR_CH4_NETMOD", "ucx"), ("MPIR_CVAR_NOLOCAL", "1"), ("UCX_TLS", "posix,self")];

fn sort(made: impl IntoIterator<Item = Result<Stack, Absent>>) -> (Vec<Stack>, Vec<Absent>) {
    let (mut stacks, mut absent) = (Vec::new(), Vec::new());
    for stack in made {
        match stack {
            Ok(stack) => stacks.push(stack),
            Err(missing) => absent.push(missing),
        }
    }
    (stacks, absent)
}

/// Returns the stacks between two ranks of this host: those that can run here, and those that cannot.
#[must_use]
pub fn host_stacks(tools: &Tools) -> (Vec<Stack>, Vec<Absent>) {
    let by_tombolo =
        ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "opal_common_ofi_provider_include", "tombolo"];
    let by_sm = ["--mca", "pml", "ob1", "--mca", "btl", "self,sm"];
    sort([
        tools.mpirun(TOMBOLO, "MPICH 5.0.2 over the provider, by tombolo mpirun", NodePair::host()),
        tools.open_mpi(
            TOMBOLO_OPEN_MPI,
            "Open MPI 5.0.11 over the provider, by its mpirun",
            &by_tombolo,
            true,
        ),
        tools.open_mpi(OPEN_MPI, "Open MPI 5.0.11, its shared memory", &by_sm, false),
        tools.mpiexec("MPICH shm", "MPICH 5.0.2, its own shared memory", NodePair::host(), &[]),
        tools.mpiexec(UCX, "MPICH 5.0.2 over UCX, posix shared memory", NodePair::host(), &OVER_UCX),
        tools.mpiexec(TCP, "MPICH 5.0.2 over libfabric's tcp, loopback", NodePair::host(), &OVER_TCP),
    ])
}

/// Node of another instruction set.
struct Foreign<'a> {
    name: &'a str,
    isa: Isa,
    emulator: &'a str,
}

impl Foreign<'_> {
    fn place(&self) -> NodePair {
        NodePair { from: "host".into(), to: self.name.into() }
    }
}

/// Returns the stacks between this host and a node of the machine. Programs under user-mode emulation run on
/// this kernel, so MPICH can be compared unmodified there; a virtual machine shares only its window with the
/// host, and the caller adds other connections.
#[must_use]
pub fn node_stacks(tools: &Tools, node: &str, isa: Isa, is_user: bool) -> (Vec<Stack>, Vec<Absent>) {
    let place = NodePair { from: "host".into(), to: node.into() };
    let own = tools.mpirun(TOMBOLO, "MPICH 5.0.2 over the provider, by tombolo mpirun", place);
    if !is_user {
        return sort([own]);
    }
    let emulator = format!("qemu-{}", isa.name());
    let foreign = Foreign { name: node, isa, emulator: &emulator };
    sort([
        own,
        tools.mpiexec_emulated(UCX, "MPICH 5.0.2 over UCX, posix shared memory", &foreign, &OVER_UCX),
        tools.mpiexec_emulated(TCP, "MPICH 5.0.2 over libfabric's tcp, loopback", &foreign, &OVER_TCP),
    ])
}

/// Returns the stack of MPICH over TCP to a virtual machine like that node, with a network in place of the
/// window: `tombolo bench mpi-network` in a separate network namespace.
#[must_use]
pub fn network_stack(tools: &Tools, node: &str, cpu: &str, memory_mib: u32) -> Stack {
    let mut arguments: Vec<OsString> = Vec::new();
    if !rustix::process::geteuid().is_root() {
        // Only root may create a device in the namespace.
        arguments.push("--map-root-user".into());
    }
    arguments.push("--net".into());
    arguments.push(tools.tombolo.clone().into());
    arguments.extend(["bench", "mpi-network", "--kit"].map(OsString::from));
    arguments.push(tools.kit.clone().into());
    arguments.extend(["--cpu", cpu, "--memory-mib", &memory_mib.to_string(), "--"].map(OsString::from));
    Stack {
        name: VIRTIO.into(),
        about: "MPICH 5.0.2 over libfabric's tcp, a tap device and virtio-net, to a machine like the node"
            .into(),
        place: NodePair { from: "host".into(), to: node.into() },
        program: "unshare".into(),
        arguments: vec![arguments],
        environment: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(kit: &Path) -> Tools {
        Tools { tombolo: "/bin/true".into(), kit: kit.to_owned(), machine: Some("m".into()) }
    }

    #[test]
    fn absent_stacks_name_their_make_target() {
        let (stacks, absent) = host_stacks(&tools(Path::new("/nonexistent/kit")));
        assert!(stacks.is_empty());
        assert_eq!(absent.len(), 6);
        assert!(absent.iter().all(|absent| absent.why.contains("make bench-mpi")), "{absent:?}");
        let (_, absent) = node_stacks(&tools(Path::new("/nonexistent/kit")), "arm0", Isa::Aarch64, false);
        assert_eq!(absent.len(), 1);
    }

    #[test]
    fn ranks_run_on_their_declared_nodes() {
        let kit = std::env::temp_dir().join(format!("tombolo-mpi-stacks-{}", std::process::id()));
        let programs = super::super::programs(&kit);
        for file in ["measure.tbi", "measure.mpich", "measure.aarch64", "mpich/bin/mpiexec"] {
            let file = programs.join(file);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            std::fs::write(file, "").expect("written");
        }
        let (stacks, _) = node_stacks(&tools(&kit), "arm-user", Isa::Aarch64, true);
        std::fs::remove_dir_all(&kit).expect("removed");
        let line = |stack: &Stack| {
            let words: Vec<_> = stack.arguments.iter().flatten().map(|word| word.to_string_lossy()).collect();
            words.join(" ").replace(&*kit.to_string_lossy(), "KIT")
        };
        assert_eq!(line(&stacks[0]), "--machine m mpirun --on host:1,arm-user:1 KIT/mpi/bench/measure.tbi");
        assert_eq!(
            line(&stacks[2]),
            "-n 1 KIT/mpi/bench/measure.mpich : -n 1 qemu-aarch64 -E LD_LIBRARY_PATH=/opt/tombolo/mpi/lib \
             -L KIT/mpi/aarch64 KIT/mpi/bench/measure.aarch64"
        );
        assert_eq!(stacks[2].place.to_string(), "host-arm-user");
    }
}

//! OpenMP runtimes, and how a program is compiled for and started on each.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tombolo_base::Isa;

use super::Section;
use crate::suite::Absent;

/// Program of the measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Program {
    /// `bench/omp/overheads.c`
    Overheads,
    /// `bench/omp/figures.c`
    Figures,
}

impl Program {
    const ALL: [Program; 2] = [Program::Overheads, Program::Figures];

    const fn name(self) -> &'static str {
        match self {
            Program::Overheads => "overheads",
            Program::Figures => "figures",
        }
    }

    const fn source(self) -> &'static str {
        match self {
            Program::Overheads => include_str!("../../omp/overheads.c"),
            Program::Figures => include_str!("../../omp/figures.c"),
        }
    }
}

/// Header that both programs include.
const HEADER: (&str, &str) = ("measure.h", include_str!("../../omp/measure.h"));

/// Options of every compiler.
const WORDS: [&str; 3] = ["-std=gnu11", "-O2", "-fopenmp"];

/// Names of stacks that targets are about.
pub(super) const LIBGOMP: &str = "libgomp";
pub(super) const SHARED: &str = "shared";
pub(super) const EXCLUSIVE: &str = "exclusive";
const HYBRID: &str = "hybrid";
const LIBOMP: &str = "libomp";

/// Runtime, and location of its threads or processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StackKind {
    /// Another runtime on this host.
    Peer,
    /// Tombolo's runtime on this host.
    Own,
    /// Tombolo's runtime on nodes with different processors.
    Nodes,
}

/// Runtime, with the commands that run programs on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stack {
    /// Name in tables and plots.
    pub name: String,
    /// Description of the stack.
    pub about: String,
    kind: StackKind,
    /// Folder of its programs.
    programs: PathBuf,
    /// Launcher with its arguments; empty if the programs are started directly.
    starter: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
}

impl Stack {
    pub(super) fn is_own(&self) -> bool {
        self.kind != StackKind::Peer
    }

    pub(super) fn is_of_nodes(&self) -> bool {
        self.kind == StackKind::Nodes
    }

    /// Returns whether it is measured in that section.
    pub(super) fn has(&self, section: Section) -> bool {
        (section == Section::Nodes) == self.is_of_nodes()
    }

    /// Returns the command of a program on it, without the program's arguments.
    pub(super) fn command(&self, program: Program, threads: Option<usize>) -> Command {
        let path = self.programs.join(program.name());
        let mut environment = self.environment.clone();
        environment.extend(threads.map(|threads| ("OMP_NUM_THREADS", threads.to_string().into())));
        let Some((starter, words)) = self.starter.split_first() else {
            let mut command = Command::new(path);
            // Removes the user's own OpenMP settings.
            for (name, _) in std::env::vars_os() {
                let ours = ["OMP_", "GOMP_", "KMP_"];
                if ours.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
                    command.env_remove(name);
                }
            }
            command.envs(environment);
            return command;
        };
        // A domain gets only the environment that is passed explicitly.
        let mut command = Command::new(starter);
        command.args(words);
        for (name, value) in environment {
            let mut variable = OsString::from(name);
            variable.push("=");
            variable.push(value);
            command.arg("--env").arg(variable);
        }
        command.arg(path.with_extension("tbi"));
        command
    }
}

/// Paths from which stacks are built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tools {
    /// Path of the command `tombolo`.
    pub tombolo: PathBuf,
    /// Path of the kit folder.
    pub kit: PathBuf,
    /// Name of the machine, if one is up.
    pub machine: Option<String>,
    /// Folder for sources and programs; the caller removes it.
    pub scratch: PathBuf,
}

impl Tools {
    /// Compiles the programs in a separate folder, by a compiler with its first arguments.
    fn compile(
        &self,
        folder: &str,
        compiler: &[&str],
        programs: &[(Program, &str)],
    ) -> Result<PathBuf, String> {
        let folder = self.scratch.join(folder);
        let cannot = |error: std::io::Error| format!("{} cannot be written: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(cannot)?;
        fs::write(folder.join(HEADER.0), HEADER.1).map_err(cannot)?;
        for (program, extension) in programs {
            let source = format!("{}.c", program.name());
            fs::write(folder.join(&source), program.source()).map_err(cannot)?;
            let mut command = Command::new(compiler[0]);
            command.args(&compiler[1..]).args(WORDS).arg(&source).arg("-o");
            command.arg(format!("{}{extension}", program.name())).current_dir(&folder).stdin(Stdio::null());
            let output =
                command.output().map_err(|error| format!("{} cannot be started: {error}", compiler[0]))?;
            if !output.status.success() {
                let message = crate::launch::last_lines(&String::from_utf8_lossy(&output.stderr));
                return Err(format!("{} cannot compile {source}: {message}", compiler[0]));
            }
        }
        Ok(folder)
    }

    fn compile_for_host(&self, compiler: &str) -> Result<PathBuf, String> {
        self.compile(compiler, &[compiler], &Program::ALL.map(|program| (program, "")))
    }

    /// Creates a stack of Tombolo's runtime, with its workers placed according to `mode`.
    fn own(&self, name: &str, mode: &str, programs: &Path) -> Result<Stack, Absent> {
        let library = self.kit.join("gomp").join(Isa::current().name());
        if !library.join("libgomp.so.1").is_file() {
            let why = format!("libgomp.so.1 is missing in {}: `make kit` puts it there", library.display());
            return Err(Absent { peer: name.to_owned(), why });
        }
        Ok(Stack {
            name: name.to_owned(),
            about: format!("Tombolo's libgomp.so.1, OMP_TOMBOLO={mode}"),
            kind: StackKind::Own,
            programs: programs.to_owned(),
            starter: Vec::new(),
            environment: vec![("LD_LIBRARY_PATH", library.into()), ("OMP_TOMBOLO", mode.into())],
        })
    }
}

/// Returns the first line of a compiler's version output.
fn version(compiler: &str) -> String {
    let output = Command::new(compiler).arg("--version").stdin(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or(compiler).to_owned()
}

/// Returns the runtimes of this host in display order: those that can run here, and those that cannot.
#[must_use]
pub fn host_stacks(tools: &Tools) -> (Vec<Stack>, Vec<Absent>) {
    let (mut stacks, mut absent) = (Vec::new(), Vec::new());
    let own = [(SHARED, "shared"), (EXCLUSIVE, "exclusive"), (HYBRID, "hybrid")];
    match tools.compile_for_host("gcc") {
        Ok(programs) => {
            stacks.push(Stack {
                name: LIBGOMP.to_owned(),
                about: version("gcc"),
                kind: StackKind::Peer,
                programs: programs.clone(),
                starter: Vec::new(),
                environment: Vec::new(),
            });
            for (name, mode) in own {
                match tools.own(name, mode, &programs) {
                    Ok(stack) => stacks.push(stack),
                    Err(missing) => absent.push(missing),
                }
            }
        }
        Err(why) => {
            let all = [LIBGOMP].into_iter().chain(own.map(|(name, _)| name));
            absent.extend(all.map(|name| Absent { peer: name.to_owned(), why: why.clone() }));
        }
    }
    match tools.compile_for_host("clang") {
        Ok(programs) => stacks.push(Stack {
            name: LIBOMP.to_owned(),
            about: format!(
                "LLVM's, of {}; its workers fall asleep after 10 ms, as others' do",
                version("clang")
            ),
            kind: StackKind::Peer,
            programs,
            starter: Vec::new(),
            environment: vec![("KMP_BLOCKTIME", "10".into())],
        }),
        Err(why) => absent
            .push(Absent { peer: LIBOMP.to_owned(), why: format!("{why}; `make bench-omp` installs it") }),
    }
    (stacks, absent)
}

/// Returns stacks of Tombolo's runtime with workers on this host and on each group of nodes of another
/// instruction set: one worker per node, and the number that the runtime derives from their speeds. `groups`
/// is empty if no such nodes are up.
#[must_use]
pub fn node_stacks(tools: &Tools, groups: &[Vec<String>]) -> (Vec<Stack>, Vec<Absent>) {
    let name = match groups {
        [first, ..] => with_host(first),
        [] => "host and an Arm node".to_owned(),
    };
    let absent = |why| (Vec::new(), vec![Absent { peer: name.clone(), why }]);
    if groups.is_empty() {
        return absent("no Arm node is up: --up machines/users.toml brings one up".to_owned());
    }
    let tombolo = tools.tombolo.to_string_lossy();
    let programs = match tools.compile("nodes", &[&tombolo, "ompcc"], &[(Program::Figures, ".tbi")]) {
        Ok(programs) => programs,
        Err(why) => return absent(format!("{why}; `make omp` puts in place what it takes")),
    };
    let mut starter: Vec<OsString> = vec![tools.tombolo.clone().into()];
    if let Some(machine) = &tools.machine {
        starter.extend(["--machine".into(), machine.into()]);
    }
    starter.extend(["--quiet", "run", "--no-input"].map(Into::into));
    let with = |name: String, nodes: String, threads: Option<usize>| {
        let mut environment =
            vec![("OMP_TOMBOLO", "exclusive".into()), ("OMP_TOMBOLO_NODES", OsString::from(&nodes))];
        environment.extend(threads.map(|threads| ("OMP_NUM_THREADS", threads.to_string().into())));
        let workers =
            if threads.is_some() { "a worker on each" } else { "as many workers as the run-time wants" };
        let about =
            format!("Tombolo's run-time with musl, by tombolo ompcc; OMP_TOMBOLO_NODES={nodes}, {workers}");
        let (programs, starter) = (programs.clone(), starter.clone());
        Stack { name, about, kind: StackKind::Nodes, programs, starter, environment }
    };
    let of_group = |nodes: &Vec<String>| {
        let each: String = nodes.iter().map(|node| format!(",{node}:1")).collect();
        let one_on_each = with(with_host(nodes), format!("host:1{each}"), Some(1 + nodes.len()));
        [one_on_each, with(format!("{}, virtual threads", with_host(nodes)), nodes.join(","), None)]
    };
    (groups.iter().flat_map(of_group).collect(), Vec::new())
}

/// Formats a list of nodes: `host and arm0`, `host, arm0 and arm1`.
fn with_host(nodes: &[String]) -> String {
    match nodes {
        [others @ .., last] => {
            let others: String = others.iter().map(|node| format!(", {node}")).collect();
            format!("host{others} and {last}")
        }
        [] => "host".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(scratch: &Path) -> Tools {
        Tools {
            tombolo: "/nonexistent/tombolo".into(),
            kit: "/nonexistent/kit".into(),
            machine: Some("m".into()),
            scratch: scratch.to_owned(),
        }
    }

    #[test]
    fn absent_stacks_name_their_make_target() {
        let scratch = std::env::temp_dir().join(format!("tombolo-omp-stacks-{}", std::process::id()));
        let tools = tools(&scratch);
        let (stacks, absent) = host_stacks(&tools);
        let why =
            |name: &str| absent.iter().find(|absent| absent.peer == name).map(|absent| absent.why.as_str());
        for own in [SHARED, EXCLUSIVE, HYBRID] {
            assert!(why(own).expect("absent").contains("make kit"), "{absent:?}");
        }
        assert!(stacks.iter().all(|stack| !stack.is_own()));
        let why = |groups: &[Vec<String>]| node_stacks(&tools, groups).1.remove(0).why;
        assert!(why(&[]).contains("--up"));
        assert_eq!(with_host(&["arm0".into(), "arm1".into()]), "host, arm0 and arm1");
        let missing = why(&[vec!["arm-user".to_owned()]]);
        assert!(missing.contains("/nonexistent/tombolo cannot be started"), "{missing}");
        std::fs::remove_dir_all(&scratch).expect("removed");
    }

    #[test]
    fn each_stack_has_its_own_sections_and_settings() {
        let stack = Stack {
            name: "host and arm-user".into(),
            about: String::new(),
            kind: StackKind::Nodes,
            programs: "/p".into(),
            starter: ["tombolo", "run"].map(Into::into).into(),
            environment: vec![("OMP_TOMBOLO", "exclusive".into())],
        };
        assert!(stack.has(Section::Nodes) && !stack.has(Section::Matmul));
        let words = |command: &Command| {
            command.get_args().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        let command = stack.command(Program::Figures, Some(3));
        assert_eq!(command.get_program(), "tombolo");
        assert_eq!(words(&command), "run --env OMP_TOMBOLO=exclusive --env OMP_NUM_THREADS=3 /p/figures.tbi");
        let here = Stack { kind: StackKind::Own, starter: Vec::new(), ..stack };
        assert!(here.has(Section::Constructs) && !here.has(Section::Nodes));
        let command = here.command(Program::Overheads, None);
        assert_eq!(command.get_program(), "/p/overheads");
        let set: Vec<_> =
            command.get_envs().filter(|(_, value)| value.is_some()).map(|(name, _)| name).collect();
        assert_eq!(set, ["OMP_TOMBOLO"]);
    }
}

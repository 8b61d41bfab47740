//! Build targets of the nodes of a machine.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::failure::Failure;
use crate::toolchain::{FOREIGN, NARROW, Toolchain};

/// Instruction sets of boards, with their Rust targets.
const BOARDS: [RustTarget; 2] = [
    RustTarget { isa: "aarch64", triple: "aarch64-unknown-none" },
    RustTarget { isa: "riscv64", triple: "riscv64gc-unknown-none-elf" },
];

/// Instruction sets of virtual machines, as spelled by `tombolo_base::Isa`.
pub(crate) const VIRTUAL_MACHINES: [&str; 3] = ["aarch64", "riscv64", "x86_64"];

/// Virtual machines that are part of every kit; the files of the others are fetched on request.
const DEFAULT_VIRTUAL_MACHINES: [&str; 1] = ["aarch64"];

/// Build target of a node's programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RustTarget {
    /// Name as spelled by `tombolo_base::Isa`.
    pub(crate) isa: &'static str,
    /// Rust target triple.
    pub(crate) triple: &'static str,
}

impl RustTarget {
    /// Returns the name as spelled by `tombolo_base::Target`.
    pub(crate) fn name(self) -> String {
        if BOARDS.contains(&self) { format!("{}-none", self.isa) } else { self.isa.to_owned() }
    }
}

/// Build targets other than the host's own.
#[derive(Debug)]
pub(crate) struct Needs {
    /// Targets of foreign nodes with Linux.
    pub(crate) linux: Vec<RustTarget>,
    /// Targets of boards.
    pub(crate) boards: Vec<RustTarget>,
    /// Instruction sets of virtual machines.
    pub(crate) vm: Vec<&'static str>,
    /// Whether everything is built, rather than the needs of one machine.
    pub(crate) everything: bool,
}

/// Fields of a machine file that determine the targets; `tombolo up` validates the file.
#[derive(Deserialize)]
struct MachineFile {
    #[serde(default)]
    node: Vec<NodeEntry>,
}

#[derive(Deserialize)]
struct NodeEntry {
    kind: String,
    /// `None` means the host's.
    isa: Option<String>,
}

impl Needs {
    /// Returns everything that can be built here, and reports what cannot.
    pub(crate) fn everything() -> Result<Self, Failure> {
        let toolchain = Toolchain::find()?;
        let linux = toolchain.foreign_targets().into_iter().map(|(isa, triple)| RustTarget { isa, triple });
        let (boards, missing): (Vec<_>, Vec<_>) =
            BOARDS.into_iter().partition(|target| toolchain.has(target.triple));
        for RustTarget { isa, triple } in missing {
            println!("left out: boards of {isa}; this Rust has no library for {triple}");
        }
        let vm = DEFAULT_VIRTUAL_MACHINES.to_vec();
        Ok(Self { linux: linux.collect(), boards, vm, everything: true })
    }

    /// Returns the needs of the nodes of a machine file.
    pub(crate) fn of_machine(file: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(file).map_err(Failure::file("reading", file))?;
        let machine: MachineFile =
            toml::from_str(&text).map_err(|error| Failure::malformed(file.display().to_string(), error))?;
        let toolchain = Toolchain::find()?;
        let mut needs = Self { linux: vec![], boards: vec![], vm: vec![], everything: false };
        for node in &machine.node {
            let isa = node.isa.as_deref().unwrap_or(std::env::consts::ARCH);
            if node.kind == "vm" {
                needs.add_vm(isa)?;
            }
            let (list, target) = match node.kind.as_str() {
                "host" => continue,
                // The node runs the host's own build.
                _ if isa == std::env::consts::ARCH && node.kind != "bare" => continue,
                "bare" => (&mut needs.boards, board(&toolchain, isa)?),
                _ => (&mut needs.linux, linux(&toolchain, isa)?),
            };
            if !list.contains(&target) {
                list.push(target);
            }
        }
        Ok(needs)
    }
}

impl Needs {
    /// Adds an instruction set of nodes with Linux.
    pub(crate) fn add_linux(&mut self, isa: &str) -> Result<(), Failure> {
        let target = linux(&Toolchain::find()?, isa)?;
        if !self.linux.contains(&target) {
            self.linux.push(target);
        }
        Ok(())
    }

    fn add_vm(&mut self, isa: &str) -> Result<(), Failure> {
        let known = VIRTUAL_MACHINES.into_iter().find(|known| *known == isa);
        let known = known.ok_or_else(|| Failure::Found(format!("there are no virtual machines of {isa}")))?;
        if !self.vm.contains(&known) {
            self.vm.push(known);
        }
        Ok(())
    }
}

fn linux(toolchain: &Toolchain, isa: &str) -> Result<RustTarget, Failure> {
    let found = FOREIGN.iter().chain(NARROW).find(|foreign| foreign.name == isa);
    let found = found.and_then(|foreign| Some((foreign.name, toolchain.target_for(foreign)?)));
    found.map(|(isa, triple)| RustTarget { isa, triple }).ok_or_else(|| missing_library(isa))
}

fn board(toolchain: &Toolchain, isa: &str) -> Result<RustTarget, Failure> {
    let found = BOARDS.into_iter().find(|target| target.isa == isa && toolchain.has(target.triple));
    found.ok_or_else(|| missing_library(&format!("boards of {isa}")))
}

fn missing_library(what: &str) -> Failure {
    Failure::Found(format!("this Rust has no library for {what}; with rustup, `make setup` adds it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nodes: &str) -> Result<Needs, Failure> {
        let file =
            std::env::temp_dir().join(format!("tombolo-needs-{}-{}.toml", std::process::id(), nodes.len()));
        fs::write(&file, format!("name = \"m\"\n[[node]]\nname = \"host\"\nkind = \"host\"\n{nodes}"))
            .expect("a file");
        let needs = Needs::of_machine(&file);
        fs::remove_file(&file).expect("it is ours");
        needs
    }

    #[test]
    fn a_host_alone_needs_nothing_more() {
        let needs = of("").expect("a machine");
        assert!(
            needs.linux.is_empty() && needs.boards.is_empty() && needs.vm.is_empty() && !needs.everything
        );
    }

    #[test]
    fn each_instruction_set_is_built_for_once() {
        let node = "[[node]]\nname = \"a\"\nkind = \"vm\"\nisa = \"aarch64\"\n";
        let needs = of(&node.repeat(2)).expect("a machine");
        assert_eq!(needs.linux.iter().map(|target| target.isa).collect::<Vec<_>>(), ["aarch64"]);
        assert_eq!(needs.vm, ["aarch64"]);
        let unknown = of("[[node]]\nname = \"a\"\nkind = \"user\"\nisa = \"vax\"\n");
        assert!(unknown.unwrap_err().to_string().contains("vax"));
    }

    #[test]
    fn a_virtual_machine_like_this_host_needs_a_kernel_alone() {
        let isa = std::env::consts::ARCH;
        let needs =
            of(&format!("[[node]]\nname = \"a\"\nkind = \"vm\"\nisa = \"{isa}\"\n")).expect("a machine");
        assert_eq!((needs.linux.len(), needs.vm), (0, vec![isa]));
        assert!(of("[[node]]\nname = \"a\"\nkind = \"vm\"\nisa = \"s390x\"\n").is_err());
    }

    #[test]
    fn targets_are_called_as_images_call_them() {
        assert_eq!(BOARDS[0].name(), "aarch64-none");
        assert_eq!(RustTarget { isa: "aarch64", triple: "aarch64-unknown-linux-musl" }.name(), "aarch64");
    }
}

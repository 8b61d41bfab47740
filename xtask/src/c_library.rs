//! The library for C programs in the kit: `c/<isa>` with the headers, for the instruction sets of all nodes.

use std::path::Path;
use std::process::Command;

use crate::failure::Failure;
use crate::kit::select_c;
use crate::placing::{RELEASE_FILE, install, stamp};
use crate::toolchain::{Toolchain, has_rustup};
use crate::workspace::{Workspace, execute};

/// An instruction set that C programs are built for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CTarget {
    /// As `tombolo_base::Isa` spells it.
    pub(crate) isa: &'static str,
    /// Rust's target for it with glibc, the C library of Debian's compilers.
    triple: &'static str,
    /// What the names of Debian's cross compiler and its tools begin with.
    tools: &'static str,
}

impl CTarget {
    const fn new(isa: &'static str, triple: &'static str, tools: &'static str) -> CTarget {
        CTarget { isa, triple, tools }
    }

    /// Debian's cross compiler, with whose C library programs are linked.
    fn compiler(self) -> String {
        format!("{}-gcc", self.tools)
    }

    fn has_compiler(self) -> bool {
        Command::new(self.compiler()).arg("--version").output().is_ok_and(|output| output.status.success())
    }
}

/// Those with addresses of 64 bits, which the library is made for unless others are asked for.
const WIDE: [CTarget; 4] = [
    CTarget::new("x86_64", "x86_64-unknown-linux-gnu", "x86_64-linux-gnu"),
    CTarget::new("aarch64", "aarch64-unknown-linux-gnu", "aarch64-linux-gnu"),
    CTarget::new("riscv64", "riscv64gc-unknown-linux-gnu", "riscv64-linux-gnu"),
    CTarget::new("s390x", "s390x-unknown-linux-gnu", "s390x-linux-gnu"),
];

/// Those of 32 bits.
const NARROW: [CTarget; 2] = [
    CTarget::new("i386", "i686-unknown-linux-gnu", "i686-linux-gnu"),
    CTarget::new("armv7", "armv7-unknown-linux-gnueabihf", "arm-linux-gnueabihf"),
];

/// What programs include, each with its folder.
const HEADERS: [(&str, &str); 13] = [
    ("runtime/c/include", "tombolo.h"),
    ("runtime/c/include", "tombolo/wire.h"),
    ("runtime/c/include", "tombolo/interface.h"),
    ("runtime/c/include", "tombolo/files.h"),
    ("runtime/c/include", "tombolo/group.h"),
    ("runtime/c/include", "tombolo/hubs.h"),
    ("runtime/c/include", "tombolo/hub_names.h"),
    ("runtime/c/include", "tombolo/capabilities.h"),
    ("runtime/c/include", "tombolo/opening.h"),
    ("runtime/c/include", "tombolo/tasks.h"),
    ("runtime/c/include", "tombolo/values.h"),
    ("models/rcce/include", "RCCE.h"),
    ("models/rcce/include", "iRCCE.h"),
];

/// The crate that the library is made of: it has RCCE, and with it what `tombolo.h` declares. Two libraries
/// in Rust do not link together.
const CRATE: &str = "tombolo-rcce";

/// The target of an instruction set, by its name.
pub(crate) fn target(isa: &str) -> Result<CTarget, String> {
    WIDE.into_iter().chain(NARROW).find(|target| target.isa == isa).ok_or_else(|| {
        let names: Vec<&str> = WIDE.iter().chain(&NARROW).map(|target| target.isa).collect();
        format!("the library for C is made for {}", names.join(", "))
    })
}

/// Puts `<kit>/c/<isa>` in place for each of these, or for all of 64 bits that can be built for here.
pub(crate) fn build(workspace: &Workspace, kit: &Path, wanted: &[CTarget]) -> Result<(), Failure> {
    let toolchain = Toolchain::find()?;
    for target in if wanted.is_empty() { &WIDE[..] } else { wanted } {
        let is_host = toolchain.host()? == target.triple;
        let missing = match (toolchain.has(target.triple), is_host || target.has_compiler()) {
            (true, true) => {
                build_for(workspace, kit, *target, is_host)?;
                continue;
            }
            (false, _) if has_rustup() => {
                format!("Rust's library for {0}: `rustup target add {0}`", target.triple)
            }
            (false, _) => format!("a Rust that has a library for {}, such as rustup's", target.triple),
            (true, false) => format!("{}: `make c` installs it", target.compiler()),
        };
        if !wanted.is_empty() {
            return Err(Failure::Found(format!("the library for C on {} needs {missing}", target.isa)));
        }
        println!("SKIPPED the library for C on {}: it needs {missing}", target.isa);
    }
    Ok(())
}

/// What Rust's standard library calls and Tombolo's does not, and glibc has only where it is linked
/// dynamically: a linker warns of them in every static program. Weak, they are linked with programs that call
/// them themselves.
const NOT_CALLED: [&str; 4] = ["freeaddrinfo", "gai_strerror", "getaddrinfo", "getpwuid_r"];

/// What loads a graphics driver (`platform/linux/src/copy/cuda.rs`), and a name that nothing has. On foreign
/// nodes programs are static and load nothing: there the library calls the latter, whose address is null.
const LOADER: &str = "dlopen";
const NO_LOADER: &str = "tombolo_no_dlopen";

/// Builds the library, and leaves its debug information out. It unwinds on every node, unlike programs of the
/// kit: a defect of the library is a status of the call, and ends no program.
fn build_for(workspace: &Workspace, kit: &Path, target: CTarget, is_host: bool) -> Result<(), Failure> {
    let mut cargo = workspace.cargo();
    let mut built = workspace.target.clone();
    if is_host {
        cargo.args(["build", "--release"]);
        select_c(workspace, &mut cargo);
        cargo.args(["--package", CRATE]);
    } else {
        cargo.args(["rustc", "--package", CRATE, "--lib", "--crate-type", "staticlib", "--release"]);
        cargo.args(["--target", target.triple]);
        built.push(target.triple);
    }
    execute(&mut cargo)?;
    let stripped = built.join("release/libtombolo.a");
    let tool = if is_host { "objcopy".to_owned() } else { format!("{}-objcopy", target.tools) };
    let mut strip = Command::new(tool);
    strip.arg("--strip-debug").args(NOT_CALLED.map(|symbol| format!("--weaken-symbol={symbol}")));
    if !is_host {
        strip.arg(format!("--redefine-sym={LOADER}={NO_LOADER}"));
        strip.arg(format!("--weaken-symbol={NO_LOADER}"));
    }
    execute(strip.arg(built.join("release/libtombolo_rcce.a")).arg(&stripped))?;
    let folder = kit.join("c").join(target.isa);
    for (from, header) in HEADERS {
        let source = workspace.root.join(from).join(header);
        install(&source, &folder.join("include").join(header))?;
    }
    let version = built.join("release/libtombolo.version");
    std::fs::write(&version, format!("tombolo {}\n", env!("CARGO_PKG_VERSION")))
        .map_err(Failure::file("writing", &version))?;
    // The version comes last: with it the library is in place.
    install(&stripped, &folder.join("lib/libtombolo.a"))?;
    stamp(&folder.join(RELEASE_FILE))?;
    install(&version, &folder.join("version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_made_for_what_nodes_are() {
        assert_eq!(target("aarch64").map(|target| target.triple), Ok("aarch64-unknown-linux-gnu"));
        assert!(target("arm64").unwrap_err().ends_with("x86_64, aarch64, riscv64, s390x, i386, armv7"));
    }
}

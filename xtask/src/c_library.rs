//! The library for C programs: `c/<isa>` in the kit, with its headers, for the instruction set of every node.

use std::path::Path;
use std::process::Command;

use crate::failure::Failure;
use crate::kit::select_c;
use crate::placing::{RELEASE_FILE, install, write_release};
use crate::toolchain::{Toolchain, has_rustup};
use crate::workspace::{Workspace, execute};

/// Instruction set that C programs can be built for, with its toolchains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CTarget {
    /// Name as spelled by `tombolo_base::Isa`.
    pub(crate) isa: &'static str,
    /// Rust target triple with glibc, the C library of Debian's compilers.
    triple: &'static str,
    /// Prefix of the names of Debian's cross compiler and binutils.
    tools: &'static str,
}

impl CTarget {
    const fn new(isa: &'static str, triple: &'static str, tools: &'static str) -> CTarget {
        CTarget { isa, triple, tools }
    }

    /// Returns the name of Debian's cross compiler, whose C library programs are linked with.
    fn compiler(self) -> String {
        format!("{}-gcc", self.tools)
    }

    fn has_compiler(self) -> bool {
        Command::new(self.compiler()).arg("--version").output().is_ok_and(|output| output.status.success())
    }
}

/// 64-bit instruction sets, which are built by default.
const WIDE: [CTarget; 4] = [
    CTarget::new("x86_64", "x86_64-unknown-linux-gnu", "x86_64-linux-gnu"),
    CTarget::new("aarch64", "aarch64-unknown-linux-gnu", "aarch64-linux-gnu"),
    CTarget::new("riscv64", "riscv64gc-unknown-linux-gnu", "riscv64-linux-gnu"),
    CTarget::new("s390x", "s390x-unknown-linux-gnu", "s390x-linux-gnu"),
];

/// 32-bit instruction sets, built only on request.
const NARROW: [CTarget; 2] = [
    CTarget::new("i386", "i686-unknown-linux-gnu", "i686-linux-gnu"),
    CTarget::new("armv7", "armv7-unknown-linux-gnueabihf", "arm-linux-gnueabihf"),
];

/// Headers to install: source folder and path below it.
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

/// Crate that the library is built from. It contains RCCE and everything that `tombolo.h` declares: two Rust
/// static libraries cannot be linked into one program.
const CRATE: &str = "tombolo-rcce";

/// Parses the name of an instruction set.
pub(crate) fn target(isa: &str) -> Result<CTarget, String> {
    WIDE.into_iter().chain(NARROW).find(|target| target.isa == isa).ok_or_else(|| {
        let names: Vec<&str> = WIDE.iter().chain(&NARROW).map(|target| target.isa).collect();
        format!("the library for C is made for {}", names.join(", "))
    })
}

/// Builds and installs `<kit>/c/<isa>` for the given targets; if `wanted` is empty, for every 64-bit target
/// that this machine has the toolchains for.
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

/// Functions that Rust's standard library references, Tombolo never calls, and glibc supports only in
/// dynamically linked programs, so that the linker warns of them in every static program. As weak symbols
/// they are linked only if the program itself uses them.
const NOT_CALLED: [&str; 4] = ["freeaddrinfo", "gai_strerror", "getaddrinfo", "getpwuid_r"];

/// `dlopen` loads a graphics driver (`platform/linux/src/copy/cuda.rs`). Programs on foreign nodes are static
/// and load nothing: there the reference is renamed to a symbol that is never defined, whose address is null.
const LOADER: &str = "dlopen";
const NO_LOADER: &str = "tombolo_no_dlopen";

/// Builds the library and strips its debug information. Unlike the programs of the kit it unwinds on every
/// node: a panic in the library becomes an error status of the call and does not abort the program.
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
    // The version file is written last: it marks the installation as complete.
    install(&stripped, &folder.join("lib/libtombolo.a"))?;
    write_release(&folder.join(RELEASE_FILE))?;
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

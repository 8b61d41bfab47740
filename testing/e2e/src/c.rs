//! C programs, built the way users of the library build them, for this host and for foreign nodes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cross::{has_target, root};
use crate::kit::{locked, target};

/// Toolchain for an instruction set: Debian's compiler and the kit's library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Toolchain {
    compiler: &'static str,
    /// `None` for this host, whose library cargo built along with the tests.
    foreign: Option<Foreign>,
}

/// An instruction set by its name in the kit, and the Rust target whose library is compatible with the C
/// library of Debian's compiler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Foreign {
    isa: &'static str,
    target: &'static str,
}

/// The compiler of this host.
pub const HOST: Toolchain = Toolchain { compiler: "gcc", foreign: None };

/// The compiler for 64-bit Arm, as in virtual machines.
pub const AARCH64: Toolchain = Toolchain {
    compiler: "aarch64-linux-gnu-gcc",
    foreign: Some(Foreign { isa: "aarch64", target: "aarch64-unknown-linux-gnu" }),
};

/// The compiler of a big-endian target.
pub const S390X: Toolchain = Toolchain {
    compiler: "s390x-linux-gnu-gcc",
    foreign: Some(Foreign { isa: "s390x", target: "s390x-unknown-linux-gnu" }),
};

/// The compiler for 32-bit x86.
pub const I386: Toolchain = Toolchain {
    compiler: "i686-linux-gnu-gcc",
    foreign: Some(Foreign { isa: "i386", target: "i686-unknown-linux-gnu" }),
};

/// The compiler for 32-bit Arm.
pub const ARMV7: Toolchain = Toolchain {
    compiler: "arm-linux-gnueabihf-gcc",
    foreign: Some(Foreign { isa: "armv7", target: "armv7-unknown-linux-gnueabihf" }),
};

impl Toolchain {
    /// Returns the path of the static library. Returns `None` and reports a skipped test if this Rust cannot
    /// build it.
    ///
    /// # Panics
    /// When building it fails.
    #[must_use]
    pub fn library(self) -> Option<PathBuf> {
        match self.foreign {
            None => {
                let exe = std::env::current_exe().expect("a program knows its own path");
                Some(exe.with_file_name("libtombolo_c.a"))
            }
            Some(foreign) if has_target(foreign.target, &format!("C with {}", self.compiler)) => {
                put_into_kit(foreign.isa);
                Some(target().join("kit/c").join(foreign.isa).join("lib/libtombolo.a"))
            }
            Some(_) => None,
        }
    }

    /// Builds a program from one source file, linked dynamically with the C library of its node and without
    /// any library of the tree.
    ///
    /// # Panics
    /// When that fails.
    pub fn build_dynamic(self, source: &Path, program: &Path) {
        let mut command = Command::new(self.compiler);
        command.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror"]);
        let output = command.arg(source).arg("-o").arg(program).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", self.compiler));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Returns the path of a file on the compiler's library search path.
    ///
    /// # Panics
    /// When the compiler has none.
    #[must_use]
    pub fn file(self, name: &str) -> PathBuf {
        let output = Command::new(self.compiler).arg(format!("-print-file-name={name}")).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", self.compiler));
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        assert!(path.is_absolute(), "{} has no {name}", self.compiler);
        path
    }

    /// Builds a static program from source files of the tree; compiler warnings are errors.
    ///
    /// # Panics
    /// When that fails.
    pub fn build(self, sources: &[&str], library: &Path, program: &Path) {
        let output = Command::new(self.compiler)
            .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror", "-static", "-I"])
            .arg(root().join("runtime/c/include"))
            .arg("-I")
            .arg(root().join("interface/c"))
            .args(sources.iter().map(|source| root().join(source)))
            .arg("-o")
            .args([program, library])
            .args(["-lpthread", "-ldl", "-lm"])
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", self.compiler));
        // No check for empty output: the linker warns about static glibc programs that load libraries at run
        // time.
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Updates the kit's library for an instruction set, as `make c` does.
///
/// # Panics
/// When it cannot be built.
pub fn put_into_kit(isa: &str) {
    put_library_into_kit("--c", isa);
}

/// Returns the instruction sets for whose boards this host can build C programs, and updates the kit's
/// libraries for them. Prints the missing package if there are none.
///
/// # Panics
/// When the library cannot be built.
#[must_use]
pub fn boards() -> Vec<&'static str> {
    let all = [("aarch64", "aarch64-linux-gnu"), ("riscv64", "riscv64-unknown-elf")];
    let has = |tools: &str| Path::new("/usr/lib/picolibc").join(tools).join("picolibc.specs").is_file();
    let isas: Vec<&str> = all.into_iter().filter(|(_, tools)| has(tools)).map(|(isa, _)| isa).collect();
    if isas.is_empty() {
        println!("SKIPPED: `make board-c` installs the C library of boards");
    }
    isas.iter().for_each(|isa| put_library_into_kit("--board-c", isa));
    isas
}

/// Returns the `--isa` list for programs that run on the host and on boards of these instruction sets.
#[must_use]
pub fn host_and(boards: &[&str]) -> String {
    boards.iter().fold("x86_64".to_owned(), |isas, isa| format!("{isas},{isa}-none"))
}

fn put_library_into_kit(option: &str, isa: &str) {
    let _lock = locked();
    let mut command = Command::new("cargo");
    command.args(["xtask", "kit", option, isa]).current_dir(root()).env("CARGO_TARGET_DIR", target());
    let output = command.output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

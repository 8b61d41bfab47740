//! Link-time inputs of `tombolo ompcc` in the kit: musl and the run-time, for every supported instruction
//! set.

use std::path::Path;
use std::process::Command;

use crate::failure::Failure;
use crate::placing::{RELEASE_FILE, install, write_release};
use crate::toolchain::{Toolchain, has_rustup, target_variable};
use crate::workspace::{Workspace, capture, execute, fetch};

/// Supported instruction sets, with their musl targets.
const TARGETS: [(&str, &str); 2] =
    [("x86_64", "x86_64-unknown-linux-musl"), ("aarch64", "aarch64-unknown-linux-musl")];

/// Headers of the run-time's extensions to OpenMP.
const OWN_HEADERS: [&str; 2] = ["tombolo_omp.h", "tombolo_migrate.h"];
const OWN_HEADERS_IN: &str = "models/omp/gomp";

/// Replacements for musl headers that also include what glibc's do, because programs rely on it.
const HEADERS: &str = "models/omp/image/headers";
const HEADERS_CHANGED: [&str; 5] = ["bits/setjmp.h", "features.h", "malloc.h", "stdlib.h", "sys/cdefs.h"];

/// Script that fetches the C library.
const SCRIPT: &str = "scripts/fetch-musl.sh";

/// Fetches, builds and installs `<kit>/omp/<isa>`.
pub(crate) fn build(workspace: &Workspace, kit: &Path) -> Result<(), Failure> {
    if !fetch(workspace, SCRIPT)? {
        return Err(Failure::Found("musl was not put in place: an archive is out of reach".to_owned()));
    }
    install_headers(workspace, kit)?;
    let toolchain = Toolchain::find()?;
    for (isa, target) in TARGETS {
        if toolchain.has(target) {
            build_run_time(workspace, kit, (isa, target))?;
        } else if has_rustup() {
            return Err(Failure::Found(format!(
                "the run-time of OpenMP for {isa} needs Rust's library for {target}: `rustup target add {target}`"
            )));
        } else {
            // Programs that bring their own run-time, as tests do, can still be compiled.
            println!(
                "SKIPPED the run-time of OpenMP for {isa}: this Rust has no library for {target}; with rustup, `make omp` adds it"
            );
        }
    }
    Ok(())
}

/// As [`build`], but prints a notice and continues if the archives cannot be fetched or Rust has no library
/// for a target.
pub(crate) fn build_if_reachable(workspace: &Workspace, kit: &Path) -> Result<(), Failure> {
    if !fetch(workspace, SCRIPT)? {
        println!("SKIPPED: musl is not in the kit, an archive is out of reach; `make omp` tries again");
        return Ok(());
    }
    install_headers(workspace, kit)?;
    let toolchain = Toolchain::find()?;
    for (isa, target) in TARGETS {
        if toolchain.has(target) {
            build_run_time(workspace, kit, (isa, target))?;
        } else {
            println!(
                "SKIPPED the run-time of OpenMP for {isa}: this Rust has no library for {target}; `make omp` says more"
            );
        }
    }
    Ok(())
}

/// Installs the changed headers next to those of the C library, where `tombolo ompcc` looks first.
fn install_headers(workspace: &Workspace, kit: &Path) -> Result<(), Failure> {
    let source = workspace.root.join(HEADERS);
    for (isa, _) in TARGETS {
        let target = kit.join("omp").join(isa).join("include-changed");
        for header in HEADERS_CHANGED {
            install(&source.join(header), &target.join(header))?;
        }
    }
    Ok(())
}

/// List of C library functions that the run-time intercepts in the program, but not in its own code.
const FORWARDED: &str = "models/omp/gomp/forwarded.txt";
/// Intercepted function that the run-time also calls in its intercepted form: a program exits once.
const AS_THE_PROGRAM: &str = "exit";
/// Symbols that the run-time renames for its own use: it reads the environment of its process, not that of
/// the program, and destructors of its own threads are not the program's.
const OWN_NAMES: [(&str, &str); 3] = [
    ("environ", "__tombolo_omp_environ"),
    ("getenv", "__tombolo_omp_getenv"),
    ("__cxa_thread_atexit_impl", "__tombolo_omp_cxa_thread_atexit_impl"),
];
/// Archive of the run-time after its calls have been renamed to the linker's names for the C library's
/// functions.
const OWN_CALLS: &str = "libgomp.a";

/// Makes the run-time call the C library's own functions where a program's calls go to the run-time, because
/// it has its own descriptors and process on each node.
fn keep_own_calls(workspace: &Workspace, isa: &str, built: &Path) -> Result<(), Failure> {
    let list = workspace.root.join(FORWARDED);
    let names = std::fs::read_to_string(&list).map_err(Failure::file("reading", &list))?;
    let tool =
        if isa == std::env::consts::ARCH { "objcopy".to_owned() } else { format!("{isa}-linux-gnu-objcopy") };
    let mut rename = Command::new(tool);
    for name in names.lines().filter(|name| *name != AS_THE_PROGRAM) {
        rename.arg(format!("--redefine-sym={name}=__real_{name}"));
    }
    for (name, own) in OWN_NAMES {
        rename.arg(format!("--redefine-sym={name}={own}"));
    }
    execute(rename.arg(built.join("libtombolo_gomp.a")).arg(built.join(OWN_CALLS)))
}

/// Builds the run-time as an archive that includes an unwinder: gcc's own is built for another C library, so
/// the one that comes with Rust is used.
fn build_run_time(workspace: &Workspace, kit: &Path, (isa, target): (&str, &str)) -> Result<(), Failure> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--package", "tombolo-gomp", "--profile", "node", "--target", target]);
    // Position-dependent code, with one section per function and variable.
    cargo.env(target_variable(target, "RUSTFLAGS"), "-C relocation-model=static");
    execute(&mut cargo)?;
    let library = kit.join("omp").join(isa).join("lib");
    let built = workspace.target.join(target).join("node");
    keep_own_calls(workspace, isa, &built)?;
    install(&built.join(OWN_CALLS), &library.join("libgomp.a"))?;
    for header in OWN_HEADERS {
        let source = workspace.root.join(OWN_HEADERS_IN).join(header);
        install(&source, &kit.join("omp").join(isa).join("include").join(header))?;
    }
    let sysroot = capture(Command::new("rustc").args(["--print", "sysroot"]))?;
    let own =
        Path::new(sysroot.trim()).join("lib/rustlib").join(target).join("lib/self-contained/libunwind.a");
    install(&own, &library.join("libunwind.a"))?;
    write_release(&kit.join("omp").join(isa).join(RELEASE_FILE))
}

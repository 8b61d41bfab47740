//! What `tombolo ompcc` links programs with, in the kit: musl and the run-time, for every instruction set
//! that there are such programs for.

use std::path::Path;
use std::process::Command;

use crate::failure::Failure;
use crate::placing::{RELEASE_FILE, install, stamp};
use crate::toolchain::{Toolchain, has_rustup, target_variable};
use crate::workspace::{Workspace, capture, execute, fetch};

/// The instruction sets, and the targets for the same C library.
const TARGETS: [(&str, &str); 2] =
    [("x86_64", "x86_64-unknown-linux-musl"), ("aarch64", "aarch64-unknown-linux-musl")];

/// What programs can say to our run-time besides what OpenMP has.
const OWN_HEADERS: [&str; 2] = ["tombolo_omp.h", "tombolo_migrate.h"];
const OWN_HEADERS_IN: &str = "models/omp/gomp";

/// Headers of musl with what those of glibc include besides, which programs rely on.
const HEADERS: &str = "models/omp/image/headers";
const HEADERS_CHANGED: [&str; 5] = ["bits/setjmp.h", "features.h", "malloc.h", "stdlib.h", "sys/cdefs.h"];

/// What fetches the C library.
const SCRIPT: &str = "scripts/fetch-musl.sh";

/// Puts `<kit>/omp/<isa>` in place.
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
            // Without it programs can be compiled that bring their own, as tests do.
            println!(
                "SKIPPED the run-time of OpenMP for {isa}: this Rust has no library for {target}; with rustup, `make omp` adds it"
            );
        }
    }
    Ok(())
}

/// As [`build`], but continues without, with a report, if the archives cannot be fetched or Rust has no
/// library for a target.
pub(crate) fn build_if_reached(workspace: &Workspace, kit: &Path) -> Result<(), Failure> {
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

/// Puts the changed headers beside those of the C library, where `tombolo ompcc` looks first.
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

/// Functions of the C library that the run-time takes in hand for the program, and not for itself.
const FORWARDED: &str = "models/omp/gomp/forwarded.txt";
/// Of those, what it calls as the program does: a program has one end.
const AS_THE_PROGRAM: &str = "exit";
/// What the run-time has names of its own for: it sees the environment of its process, not that of the
/// program, and what is destroyed at the end of its own threads is no object of the program's.
const OWN_NAMES: [(&str, &str); 3] = [
    ("environ", "__tombolo_omp_environ"),
    ("getenv", "__tombolo_omp_getenv"),
    ("__cxa_thread_atexit_impl", "__tombolo_omp_cxa_thread_atexit_impl"),
];
/// The run-time's archive, once it calls the others by the names that the linker gives the C library's.
const OWN_CALLS: &str = "libgomp.a";

/// Has the run-time call the C library's own functions where a program's calls go to the run-time: it has
/// descriptors and a process of its own on each node.
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

/// The run-time as an archive, with what unwinds: gcc's own is made for another C library, so it is the one
/// that comes with Rust.
fn build_run_time(workspace: &Workspace, kit: &Path, (isa, target): (&str, &str)) -> Result<(), Failure> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--package", "tombolo-gomp", "--profile", "node", "--target", target]);
    // Code at fixed addresses, each function and variable in a section of its own.
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
    stamp(&kit.join("omp").join(isa).join(RELEASE_FILE))
}

//! `cargo xtask fuzz` and `cargo xtask asan`: what reads what others wrote, under libFuzzer and the address sanitizer.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::failure::Failure;
use crate::toolchain;
use crate::workspace::{Workspace, capture, execute};

/// Sanitizers work for this target only where its standard library has their runtime, which rustup's nightly has.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What makes a program tell libFuzzer which branches it took, as `cargo fuzz` asks for it.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Zsanitizer=address";

const NO_NIGHTLY: &str =
    "SKIPPED: sanitizers come only with rustup's nightly, which is not here; `make setup` tries to add it";

/// Feeds every decoder and file format under libFuzzer and the address sanitizer. Without a target: all, in turn.
///
/// For example `cargo xtask fuzz --seconds 600 machine_file`
#[derive(Args)]
pub(crate) struct FuzzOptions {
    /// Which target; `--list` shows them
    target: Option<String>,

    /// All targets, in turn; the same as naming none
    #[arg(long, conflicts_with = "target")]
    all: bool,

    /// How long each target runs
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,

    /// Run an input that was found, in place of a search
    #[arg(long, value_name = "FILE", requires = "target")]
    input: Option<PathBuf>,

    /// List the targets
    #[arg(long)]
    list: bool,
}

/// Runs one target or all.
pub(crate) fn run(workspace: &Workspace, options: &FuzzOptions) -> Result<(), Failure> {
    let home = workspace.target.join("fuzz");
    fs::create_dir_all(&home).map_err(Failure::file("creating", &home))?;
    let names = seeds(workspace, &home.join("seeds"))?;
    if options.list {
        names.iter().for_each(|name| println!("{name}"));
        return Ok(());
    }
    let is_wanted =
        |name: &&String| options.all || options.target.as_ref().is_none_or(|target| *name == target);
    let wanted: Vec<&String> = names.iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        return Err(Failure::Found(format!("there is no such target; there are {}", names.join(", "))));
    }
    if !toolchain::has_nightly() {
        println!("{NO_NIGHTLY}");
        return Ok(());
    }
    let mut build = nightly(workspace, COVERAGE);
    let manifest = workspace.root.join("testing/libfuzzer/Cargo.toml");
    build.args(["build", "--release", "--target", TARGET, "--manifest-path"]).arg(manifest);
    execute(build.env("CARGO_TARGET_DIR", home.join("build")))?;
    let program = home.join("build").join(TARGET).join("release/any");
    for name in wanted {
        let mut fuzz = Command::new(&program);
        fuzz.current_dir(&home).env("TOMBOLO_FUZZ_TARGET", name);
        let found = home.join("found");
        fs::create_dir_all(&found).map_err(Failure::file("creating", &found))?;
        fuzz.arg(format!("-artifact_prefix={}/{name}-", found.display()));
        match &options.input {
            Some(input) => {
                let input = fs::canonicalize(input).map_err(Failure::file("finding", input))?;
                fuzz.arg(input);
            }
            None => {
                let corpus = home.join("corpus").join(name);
                fs::create_dir_all(&corpus).map_err(Failure::file("creating", &corpus))?;
                println!("{name}: {} s; what it finds comes to {}", options.seconds, found.display());
                fuzz.args([format!("-max_total_time={}", options.seconds), "-timeout=10".into()]);
                fuzz.args(["-rss_limit_mb=2048", "-max_len=8192", "-print_final_stats=0", "-verbosity=0"]);
                fuzz.arg(corpus).arg(home.join("seeds").join(name));
            }
        }
        execute(&mut fuzz)?;
    }
    Ok(())
}

/// Writes what the targets start from, and returns their names.
fn seeds(workspace: &Workspace, folder: &std::path::Path) -> Result<Vec<String>, Failure> {
    let mut seeds = workspace.cargo();
    seeds.args(["run", "--quiet", "--package", "tombolo-fuzz", "--bin", "fuzz-corpus", "--"]).arg(folder);
    Ok(capture(&mut seeds)?.lines().map(str::to_owned).collect())
}

/// Runs the tests of what touches memory that others write, and a smoke run of every fuzz target, with the address
/// sanitizer watching every access.
pub(crate) fn address_sanitizer(workspace: &Workspace) -> Result<(), Failure> {
    if !toolchain::has_nightly() {
        println!("{NO_NIGHTLY}");
        return Ok(());
    }
    let mut test = nightly(workspace, "-Zsanitizer=address");
    test.current_dir(&workspace.root)
        .env("CARGO_TARGET_DIR", workspace.target.join("asan"))
        // Shared memory and descriptors outlive what a test forgets on purpose.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .env("TOMBOLO_FUZZ_RUNS", "500")
        .args(["test", "--lib", "--tests", "--target", TARGET]);
    for package in ["tombolo-base", "tombolo-platform", "tombolo-ring", "tombolo-transport", "tombolo-fuzz"] {
        test.args(["--package", package]);
    }
    execute(&mut test)
}

/// Nightly's cargo with flags for all that is built.
fn nightly(workspace: &Workspace, flags: &str) -> Command {
    let mut cargo = Command::new("rustup");
    cargo
        .current_dir(&workspace.root)
        .args(["run", "nightly", "cargo"])
        .env("RUSTFLAGS", flags)
        .env_remove("RUSTC")
        .env_remove("CARGO");
    cargo
}

//! Programs behind the command: `tombolo`, and those with heavy dependencies, which are installed beside it
//! and run by it.
//!
//! Each of them takes the whole command line, so `tombolo bench ring` and `tombolo-bench bench ring` are the
//! same. In a build folder of the source tree a program is built on first use; an installation has all of
//! them.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::context::Context;
use crate::failure::Failure;

/// Name of the command that users type.
pub const MAIN_PROGRAM: &str = "tombolo";

/// A program beside `tombolo`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Program {
    /// File name of the program.
    pub name: &'static str,
    /// Package that it is built from, in the folder `cli` of the source tree.
    pub package: &'static str,
}

/// `tombolo bench`.
pub const BENCH: Program = Program { name: "tombolo-bench", package: "tombolo-cli-bench" };
/// `tombolo top` and `tombolo web`.
pub const WATCH: Program = Program { name: "tombolo-watch", package: "tombolo-cli-watch" };
/// `tombolo mpirun` and `tombolo mpicc`.
pub const MPI: Program = Program { name: "tombolo-mpi", package: "tombolo-cli-mpi" };
/// `tombolo ompcc`.
pub const OMP: Program = Program { name: "tombolo-omp", package: "tombolo-cli-omp" };

/// Summaries of other programs' commands in `tombolo --help`.
pub mod about {
    /// `tombolo bench`
    pub const BENCH: &str = "Measures what things cost";
    /// `tombolo mpicc`
    pub const MPICC: &str = "Compiles an MPI program in C or C++ for every instruction set";
    /// `tombolo mpirun`
    pub const MPIRUN: &str = "Runs MPI programs on the nodes of a machine, unmodified";
    /// `tombolo ompcc`
    pub const OMPCC: &str = "Compiles an OpenMP program in C or C++ for every instruction set, with everything at equal addresses";
    /// `tombolo top`
    pub const TOP: &str = "Shows a machine in the terminal, live";
    /// `tombolo web`
    pub const WEB: &str = "Shows a machine in a browser, live";
}

/// Global options whose value may be the next argument.
const GLOBAL_OPTIONS_WITH_VALUE: [&str; 2] = ["--machine", "--color"];

/// Commands whose arguments are a compiler's, including those that look like global options.
const COMPILERS: [&str; 2] = ["mpicc", "ompcc"];

/// Returns this process's command line: `help COMMAND` as `COMMAND --help`, and with `--` inserted after the
/// name of a compiler.
#[must_use]
pub fn command_line() -> Vec<OsString> {
    with_compiler_arguments_separated(with_help_as_option(std::env::args_os().collect()))
}

/// Translates `help COMMAND` into `COMMAND --help`. Clap's own command `help` does not know the options of
/// other programs' commands; an option is passed on to them.
fn with_help_as_option(mut words: Vec<OsString>) -> Vec<OsString> {
    if let Some(help) = find_command(&words, "help") {
        words.remove(help);
        if !words[help..].iter().any(|word| word == "--help" || word == "-h") {
            words.push("--help".into());
        }
    }
    words
}

fn with_compiler_arguments_separated(mut words: Vec<OsString>) -> Vec<OsString> {
    if let Some(command) = COMPILERS.iter().find_map(|name| find_command(&words, name))
        && words.get(command + 1).is_some_and(|word| word != "--")
    {
        words.insert(command + 1, "--".into());
    }
    words
}

/// Returns the index of the command after the global options, if it is called `name`.
#[must_use]
pub fn find_command(words: &[OsString], name: &str) -> Option<usize> {
    let mut at = 1;
    while words.get(at)?.as_encoded_bytes().starts_with(b"-") {
        at += if GLOBAL_OPTIONS_WITH_VALUE.iter().any(|option| words[at] == *option) { 2 } else { 1 };
    }
    (words[at] == name).then_some(at)
}

/// Replaces this process by `program`, with this process's arguments.
///
/// # Errors
/// [`Failure::NoProgram`] if the program is not beside this one and cannot be built.
pub fn exec_program(context: &Context, program: Program) -> Result<u8, Failure> {
    let path = find_or_build(context, program)?;
    let error = Command::new(&path).args(std::env::args_os().skip(1)).exec();
    Err(Failure::System { operation: format!("run {}", path.display()), source: error })
}

/// Returns the path of `tombolo`, for a program beside it.
///
/// # Errors
/// [`Failure::System`] if this program's own path cannot be read.
pub fn main_program_path() -> Result<PathBuf, Failure> {
    Ok(folder()?.join(MAIN_PROGRAM))
}

fn folder() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(Failure::system("find this program"))?;
    Ok(own.parent().map(Path::to_owned).unwrap_or_default())
}

fn find_or_build(context: &Context, program: Program) -> Result<PathBuf, Failure> {
    let folder = folder()?;
    let path = folder.join(program.name);
    if path.is_file() {
        return Ok(path);
    }
    let missing = || Failure::NoProgram { program: program.name, folder: folder.clone() };
    let tree = source_tree(&folder).ok_or_else(missing)?;
    context.info(format!("building {}, which is not there yet", program.name));
    build(&folder, &tree, program).map_err(Failure::system(format!("build {}", program.name)))?;
    if path.is_file() { Ok(path) } else { Err(missing()) }
}

/// Builds a part of the kit with `cargo xtask kit` and these options, if this program was built in a source
/// tree; otherwise does nothing.
///
/// # Errors
/// [`Failure::System`]: it could not be built. The reason is on standard error.
pub fn build_part(context: &Context, what: &str, options: &[&str]) -> Result<(), Failure> {
    let folder = folder()?;
    let (Some(tree), Some(target)) = (source_tree(&folder), folder.parent()) else { return Ok(()) };
    context.info(format!("building {what}, which is not there yet"));
    let mut cargo = Command::new("cargo");
    cargo.args(["xtask", "kit"]).args(options).current_dir(tree).env("CARGO_TARGET_DIR", target);
    finish(cargo).map_err(Failure::system(format!("build {what}")))
}

/// Returns the source tree that this program was built in, if it lies in a build folder of one.
///
/// # Errors
/// [`Failure::System`] if this program's own path cannot be read.
pub fn own_source_tree() -> Result<Option<PathBuf>, Failure> {
    Ok(source_tree(&folder()?))
}

/// Returns a folder below the prefix of this program's installation.
///
/// # Errors
/// [`Failure::System`] if this program's own path cannot be read.
pub fn installed_folder(relative: &str) -> Result<PathBuf, Failure> {
    let folder = folder()?;
    Ok(folder.parent().unwrap_or(&folder).join(relative))
}

/// Returns the source tree that a program in this folder was built in: a folder above it that has this crate.
fn source_tree(folder: &Path) -> Option<PathBuf> {
    let is_tree =
        |path: &&Path| path.join("cli/common/src/programs.rs").is_file() && path.join("Cargo.toml").is_file();
    folder.ancestors().find(is_tree).map(Path::to_owned)
}

/// Builds into the folder `<target>/<profile>` of the running program.
fn build(folder: &Path, tree: &Path, program: Program) -> io::Result<()> {
    let (Some(profile), Some(target)) = (folder.file_name(), folder.parent()) else {
        return Err(io::Error::other("this program is in no build folder"));
    };
    // Cargo's folder of the profile `dev` has this name.
    let profile = if profile == "debug" { "dev".into() } else { profile.to_owned() };
    let mut cargo = Command::new("cargo");
    cargo.arg("build").arg("--profile").arg(profile).args(["--package", program.package]);
    cargo.arg("--target-dir").arg(target).current_dir(tree);
    finish(cargo)
}

/// Runs cargo to completion. It reports on standard error; standard output belongs to the command.
fn finish(mut cargo: Command) -> io::Result<()> {
    cargo.stdout(io::stderr());
    let status = cargo.status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("cargo ended with {status}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Global;

    #[test]
    fn a_compiler_gets_all_words_behind_its_name() {
        for (line, meant) in [
            ("tombolo mpicc --cxx a.cc -v", "tombolo mpicc -- --cxx a.cc -v"),
            ("tombolo mpicc", "tombolo mpicc"),
            ("tombolo-mpi mpicc -v", "tombolo-mpi mpicc -- -v"),
            ("tombolo -q --machine mpicc ompcc -q", "tombolo -q --machine mpicc ompcc -- -q"),
            ("tombolo mpicc -- -v", "tombolo mpicc -- -v"),
            ("tombolo run mpicc -v", "tombolo run mpicc -v"),
            ("tombolo --machine", "tombolo --machine"),
            ("tombolo", "tombolo"),
        ] {
            let words = with_compiler_arguments_separated(line.split(' ').map(OsString::from).collect());
            let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
            assert_eq!(words.join(" "), meant, "{line}");
        }
    }

    #[test]
    fn help_of_a_command_is_its_option() {
        for (line, meant) in [
            ("tombolo help", "tombolo --help"),
            ("tombolo help run", "tombolo run --help"),
            ("tombolo help trace show", "tombolo trace show --help"),
            ("tombolo --color never help bench", "tombolo --color never bench --help"),
            ("tombolo-mpi help mpirun", "tombolo-mpi mpirun --help"),
            ("tombolo help --help", "tombolo --help"),
            ("tombolo --machine help ps", "tombolo --machine help ps"),
            ("tombolo run help", "tombolo run help"),
        ] {
            let words = with_help_as_option(line.split(' ').map(OsString::from).collect());
            let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
            assert_eq!(words.join(" "), meant, "{line}");
        }
    }

    #[test]
    fn global_options_with_a_value_are_those_of_the_grammar() {
        let grammar = <Global as clap::Args>::augment_args(clap::Command::new("tombolo"));
        let with_value = grammar.get_arguments().filter(|option| option.get_action().takes_values());
        let names: Vec<String> =
            with_value.filter_map(|option| Some(format!("--{}", option.get_long()?))).collect();
        assert_eq!(names, GLOBAL_OPTIONS_WITH_VALUE);
    }

    #[test]
    fn the_source_tree_is_found_from_a_build_folder_in_it_only() {
        let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        assert_eq!(source_tree(&tree.join("target/release")), Some(tree));
        assert_eq!(source_tree(Path::new("/usr/bin")), None);
    }
}

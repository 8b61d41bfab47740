//! `tombolo mpicc`

use clap::Args;
use tombolo::Isa;
use tombolo_machine::Kit;
use tombolo_machine::build::{BuildError, Language, installed_compiler};
use tombolo_mpi_launch::Installation;
use tombolo_mpi_launch::compile::{Abi, Compilation, CompileError, Request, compile_options, link_options};

use crate::compilers::{self, CompilerArguments, Wrapper};
use crate::context::{Context, print};
use crate::failure::Failure;

/// Suppresses the warning about `long double`. The name differs from those of gcc's own warnings.
const NO_LONG_DOUBLE: &str = "-Wno-tombolo-long-double";

/// Queries of CMake's `FindMPI`, which are options of Open MPI.
const SHOW_COMPILE: &str = "-showme:compile";
const SHOW_LINK: &str = "-showme:link";

/// Compiles an MPI program in C or C++ for every instruction set
///
/// Accepts gcc's options. A program is built twice: for this host, at the path given with -o, as any compiler
/// would; and as an image with a build for every instruction set, at the same path with the suffix `.tbi`,
/// for `tombolo mpirun`. Objects (-c) carry their builds for other instruction sets within them, also into
/// archives, where the linking step finds them.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  tombolo mpicc -O2 ring.c -o ring                  ring for this host, and ring.tbi
  tombolo mpicc -c util.c; tombolo mpicc main.c util.o -o job -lm
  tombolo mpicc --isa aarch64 ring.c -o ring.arm    for one instruction set only
  tombolo mpicc -O2 -Xarch_aarch64 -mcpu=neoverse-n1 ring.c -o ring
  tombolo mpicc --abi ring.c -o ring.tbi            against the MPI standard's binary interface; the image alone
  make CC=tombolo-mpicc CXX=tombolo-mpicxx

Its own options, which may stand anywhere among gcc's:
  --isa LIST                  instruction sets: x86_64, aarch64 [default: all that the kit has MPI for]
  --cxx                       compile as C++; the default for .cpp and similar files
  --abi                       use the binary interface of the MPI standard instead of MPICH's
  --show                      print the commands without running them; without a file, what plain gcc needs
  -showme:compile             print what plain gcc needs to compile, as build systems ask for it
  -showme:link                print what plain gcc needs to link
  -Xarch_ISA WORD             pass WORD to the compiler of one instruction set only
  -Wno-tombolo-long-double    do not warn about `long double`, which MPI cannot convert between processors"
)]
pub(crate) struct Options {
    /// gcc's options and files, and the options below
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD", required = true)]
    words: Vec<String>,
}

const WRAPPER: Wrapper = Wrapper {
    name: "mpicc",
    unsupported: "MPI programs cannot be compiled for",
    flags: &["--cxx", "--abi", NO_LONG_DOUBLE, SHOW_COMPILE, SHOW_LINK],
    values: &[],
};

/// Returns MPI for the instruction sets of `--isa`, or for all that the kit supports.
fn installations(isas: &[Isa], kit: &Kit) -> Result<Vec<Installation>, Failure> {
    if !isas.is_empty() {
        return Ok(isas.iter().map(|isa| Installation::find(kit, *isa)).collect::<Result<_, _>>()?);
    }
    let mut found = Installation::all(kit);
    if found.is_empty() {
        Installation::find(kit, Isa::current())?;
    }
    // This host's compiler runs first, so that its messages come first.
    found.sort_by_key(|mpi| mpi.isa() != Isa::current());
    Ok(found)
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let words = WRAPPER.read(&options.words)?;
    if words.help {
        return print(compilers::help::<crate::Arguments>("mpicc"));
    }
    let mut installations = installations(&words.isas, &Kit::locate()?)?;
    let abi = if words.has("--abi") { Abi::Standard } else { Abi::Mpich };
    let requested = [words.has(SHOW_COMPILE), words.has(SHOW_LINK)];
    if requested != [false; 2] || (words.show && words.gcc.is_empty()) {
        let language = if words.has("--cxx") { Language::Cxx } else { Language::C };
        let compiler = installed_compiler(language, installations[0].isa())?;
        return show_needed((&installations[0], abi), compiler, requested);
    }
    let compilation = loop {
        let request = Request {
            words: words.gcc.clone(),
            cxx: words.has("--cxx"),
            abi,
            installations: installations.clone(),
            colour: context.colour_errors,
        };
        match Compilation::plan(request) {
            // A compiler that was not requested may be missing.
            Err(CompileError::Build(error @ BuildError::MissingTool { target, .. }))
                if words.isas.is_empty() && installations.len() > 1 =>
            {
                context.info(format!("left out: {error}"));
                installations.retain(|mpi| mpi.isa() != target.isa);
            }
            planned => break planned?,
        }
    };
    if words.show {
        return compilers::show(compilation.commands().into_iter().map(|(_, line)| line));
    }
    compile(context, &compilation, (&words, installations.len()))
}

/// Prints the options that a plain compiler needs for compiling or linking, or the command that does both.
fn show_needed(
    (mpi, abi): (&Installation, Abi),
    compiler: String,
    [compile, link]: [bool; 2],
) -> Result<(), Failure> {
    let mut needed = if compile || link { Vec::new() } else { vec![compiler] };
    if compile || !link {
        needed.extend(compile_options(mpi, abi));
    }
    if link || !compile {
        needed.extend(link_options(mpi, abi));
    }
    compilers::show([needed.join(" ")])
}

fn compile(
    context: &Context,
    compilation: &Compilation,
    (words, isas): (&CompilerArguments, usize),
) -> Result<(), Failure> {
    if !words.has(NO_LONG_DOUBLE) {
        for found in compilation.long_doubles()? {
            context.info(format!(
                "{}:{}: warning: long double has 80 bits on x86_64 and 128 on aarch64, and no MPI converts it: \
                 neither send it nor expect equal results [{NO_LONG_DOUBLE} says that you know]",
                found.path.display(),
                found.line
            ));
        }
    }
    let compiled = compilation.run()?;
    compilers::forward_result(compiled.outcome, isas, &words.gcc)?;
    compilers::report_built(context, compiled.image.as_ref());
    Ok(())
}

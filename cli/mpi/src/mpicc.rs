//! `tombolo mpicc`

use clap::Args;
use tombolo::Isa;
use tombolo_machine::Kit;
use tombolo_machine::build::BuildError;
use tombolo_machine::build::gcc::{ISAS, names};
use tombolo_mpi::Installation;
use tombolo_mpi::compile::{Abi, Compilation, CompileError, Request};

use crate::compilers;
use crate::context::{Context, print};
use crate::failure::Failure;

/// What suppresses the warning of `long double`: gcc's own warnings are called otherwise.
const NO_LONG_DOUBLE: &str = "-Wno-tombolo-long-double";

/// Compiles an MPI program in C or C++ for every instruction set
///
/// Takes what gcc takes. A program comes out twice: built for this host at the place that -o names, as any compiler would put
/// it, and as an image with a build for every instruction set, `.tbi` behind it, for `tombolo mpirun`. Objects (-c) for other
/// instruction sets lie beside this host's, in `.tombolo`, where linking finds them.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  tombolo mpicc -O2 ring.c -o ring                  ring for this host, and ring.tbi
  tombolo mpicc -c util.c; tombolo mpicc main.c util.o -o job -lm
  tombolo mpicc --isa aarch64 ring.c -o ring.arm    for one instruction set
  tombolo mpicc -O2 -Xarch_aarch64 -mcpu=neoverse-n1 ring.c -o ring
  tombolo mpicc --abi ring.c -o ring.tbi            against the MPI standard's binary interface; the image alone
  make CC='tombolo mpicc'

Options of its own, anywhere among gcc's:
  --isa LIST                  instruction sets, of x86_64 and aarch64; all that the kit has MPI for unless said
  --cxx                       C++, as files called .cpp and the like are by themselves
  --abi                       the binary interface of the MPI standard, which many MPIs have, not MPICH's
  --show                      prints the commands, and runs none
  -Xarch_ISA WORD             a word for the compiler of one instruction set
  -Wno-tombolo-long-double    no warning of `long double`, whose values no MPI converts between processors"
)]
pub(crate) struct Options {
    /// What gcc takes, and the options below
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD", required = true)]
    words: Vec<String>,
}

/// The command line, ours apart from gcc's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Wanted {
    isas: Vec<Isa>,
    cxx: bool,
    abi: bool,
    show: bool,
    help: bool,
    warn: bool,
    words: Vec<String>,
}

impl Wanted {
    fn read(words: &[String]) -> Result<Wanted, Failure> {
        let mut wanted = Wanted { warn: true, ..Wanted::default() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--isa" => {
                    let list = words.next().ok_or_else(|| usage("nothing comes after --isa"))?;
                    wanted.add_isas(list)?;
                }
                "--cxx" => wanted.cxx = true,
                "--abi" => wanted.abi = true,
                "--show" | "-show" => wanted.show = true,
                "--help" | "-h" => wanted.help = true,
                NO_LONG_DOUBLE => wanted.warn = false,
                word => match word.strip_prefix("--isa=") {
                    Some(list) => wanted.add_isas(list)?,
                    None => wanted.words.push(word.to_owned()),
                },
            }
        }
        Ok(wanted)
    }

    fn add_isas(&mut self, list: &str) -> Result<(), Failure> {
        compilers::add_isas(&mut self.isas, list, ISAS)
            .map_err(|name| usage(&format!("there is no MPI for '{name}', only for {}", names(ISAS))))
    }

    /// MPI for what was asked for, or for all that it is there for.
    fn installations(&self, kit: &Kit) -> Result<Vec<Installation>, Failure> {
        if !self.isas.is_empty() {
            let found = self.isas.iter().map(|isa| Installation::find(kit, *isa));
            return Ok(found.collect::<Result<_, _>>()?);
        }
        let mut found = Installation::all(kit);
        if found.is_empty() {
            Installation::find(kit, Isa::current())?;
        }
        // Other compilers' messages come after those of this host's.
        found.sort_by_key(|mpi| mpi.isa() != Isa::current());
        Ok(found)
    }
}

fn usage(message: &str) -> Failure {
    Failure::Usage { message: message.to_owned(), hint: Some("`tombolo mpicc --help` shows what there is") }
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let wanted = Wanted::read(&options.words)?;
    if wanted.help {
        return print(compilers::help::<crate::Arguments>("mpicc"));
    }
    let mut installations = wanted.installations(&Kit::locate()?)?;
    let compilation = loop {
        let request = Request {
            words: wanted.words.clone(),
            cxx: wanted.cxx,
            abi: if wanted.abi { Abi::Standard } else { Abi::Mpich },
            installations: installations.clone(),
            colour: context.colour_errors,
        };
        match Compilation::plan(request) {
            // What nobody asked for may be missing.
            Err(CompileError::Build(error @ BuildError::MissingTool { target, .. }))
                if wanted.isas.is_empty() && installations.len() > 1 =>
            {
                context.say(format!("left out: {error}"));
                installations.retain(|mpi| mpi.isa() != target.isa);
            }
            planned => break planned?,
        }
    };
    if wanted.show {
        return print(compilation.commands().iter().map(|(_, line)| format!("{line}\n")).collect::<String>());
    }
    compile(context, &compilation, (wanted.warn, installations.len()))
}

fn compile(context: &Context, compilation: &Compilation, (warn, isas): (bool, usize)) -> Result<(), Failure> {
    if warn {
        for found in compilation.long_doubles()? {
            context.say(format!(
                "{}:{}: warning: long double has 80 bits on x86_64 and 128 on aarch64, and no MPI converts it: \
                 neither send it nor expect equal results [{NO_LONG_DOUBLE} says that you know]",
                found.path.display(),
                found.line
            ));
        }
    }
    let compiled = compilation.run()?;
    compilers::pass_on(compiled.outcome, isas)?;
    compilers::say_made(context, compiled.image.as_ref());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Wanted, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Wanted::read(&words).map_err(|failure| failure.to_string())
    }

    #[test]
    fn own_options_are_taken_out_wherever_they_stand() {
        let wanted = read("-O2 --isa aarch64 a.c --abi -o a -show -Wno-tombolo-long-double").unwrap();
        assert_eq!(wanted.words.join(" "), "-O2 a.c -o a");
        assert_eq!(wanted.isas, [Isa::Aarch64]);
        assert!(wanted.abi && wanted.show && !wanted.warn && !wanted.cxx);
        assert_eq!(read("--isa=x86_64,aarch64,x86_64 a.c").unwrap().isas, [Isa::X86_64, Isa::Aarch64]);
        assert!(read("a.c --isa").unwrap_err().contains("nothing comes after --isa"));
        assert!(
            read("--isa riscv64").unwrap_err().contains("no MPI for 'riscv64', only for x86_64 and aarch64")
        );
    }
}

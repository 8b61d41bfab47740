//! `tombolo build`

use std::path::PathBuf;

use clap::Args;
use tombolo::find::{LOCAL_MACHINE, machines_up};
use tombolo::{Domain, Isa};
use tombolo_machine::Machine;
use tombolo_machine::build::{BuildError, Built, Progress, Request, RustProgram, Source, build};

use crate::context::{Context, print};
use crate::failure::Failure;
use crate::text;

/// Builds an image: one program, compiled for several instruction sets
///
/// PATH is a Rust package (a folder with Cargo.toml; the current one unless said) or C files. It is built for
/// the nodes of the machine file, else of the machines that are up, else for every instruction set that can be
/// built for here. Programs for foreign nodes are linked statically.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo build                                    the package in this folder, into <name>.tbi
  tombolo build examples/pingpong -o pp.tbi        another package, another file
  tombolo build --isa x86_64,aarch64 --bin worker  one of several programs, for two instruction sets
  tombolo build main.c util.c -- -lm               C files, with an argument for the compiler")]
pub(crate) struct Options {
    /// A package folder, its Cargo.toml, or C files
    #[arg(value_name = "PATH", default_value = ".")]
    paths: Vec<PathBuf>,

    /// The image file [default: the program's name, .tbi]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Instruction sets to build for: x86_64, aarch64, riscv64, s390x, or `all` that can be built for here
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = isas, conflicts_with = "machine_file")]
    isa: Vec<Wanted>,

    /// Build for the nodes of this machine file
    #[arg(long, value_name = "FILE")]
    machine_file: Option<PathBuf>,

    /// The binary, where the package has several
    #[arg(long, value_name = "NAME", conflicts_with = "example")]
    bin: Option<String>,

    /// An example of the package
    #[arg(long, value_name = "NAME")]
    example: Option<String>,

    /// The cargo profile
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,

    /// More arguments for cargo or the C compiler
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// One word of `--isa`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    One(Isa),
    All,
}

fn isas(text: &str) -> Result<Wanted, String> {
    if text == "all" {
        return Ok(Wanted::All);
    }
    Isa::from_name(text).map(Wanted::One).ok_or_else(|| {
        let names = Isa::ALL.map(Isa::name).join(", ");
        format!("no node has the instruction set '{text}'; there are {names}, and `all`")
    })
}

/// What to build for, and whether what cannot be built for is an error.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Targets {
    isas: Vec<Isa>,
    all_needed: bool,
}

impl Targets {
    fn needed(isas: Vec<Isa>) -> Targets {
        Targets { isas, all_needed: true }
    }

    fn possible() -> Targets {
        Targets { isas: Isa::ALL.to_vec(), all_needed: false }
    }

    fn choose(context: &Context, options: &Options) -> Result<Targets, Failure> {
        if let Some(file) = &options.machine_file {
            return Ok(Targets::needed(Machine::open(file)?.isas()));
        }
        if !options.isa.is_empty() {
            let named = |wanted: &Wanted| match wanted {
                Wanted::One(isa) => Some(*isa),
                Wanted::All => None,
            };
            let isas: Option<Vec<Isa>> = options.isa.iter().map(named).collect();
            return Ok(isas.map_or_else(Targets::possible, Targets::needed));
        }
        let isas = isas_up(context)?;
        Ok(if isas.is_empty() { Targets::possible() } else { Targets::needed(isas) })
    }

    /// Takes out an instruction set that a build cannot do without what is not installed.
    fn without(&mut self, error: &BuildError) -> bool {
        let (BuildError::MissingTool { isa, .. } | BuildError::MissingRustTarget { isa, .. }) = error else {
            return false;
        };
        let before = self.isas.len();
        self.isas.retain(|wanted| wanted != isa);
        !self.all_needed && before > 1 && self.isas.len() < before
    }
}

/// What the nodes run of the machine that is meant, or of all that are up. The one of a plain host is there for
/// programs that need no machine; it says nothing about what an image is for.
fn isas_up(context: &Context) -> Result<Vec<Isa>, Failure> {
    let mut names = machines_up()?;
    match &context.machine {
        Some(wanted) if !names.contains(wanted) => return Err(Failure::NotUp(wanted.clone())),
        Some(wanted) => names.retain(|name| name == wanted),
        None => names.retain(|name| name != LOCAL_MACHINE),
    }
    let mut isas = Vec::new();
    for name in names {
        isas.extend(Domain::attach_to_machine(&name)?.nodes()?.iter().map(|node| node.isa));
    }
    isas.sort_unstable();
    isas.dedup();
    Ok(isas)
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let program = match (&options.bin, &options.example) {
        (Some(name), _) => RustProgram::Bin(name.clone()),
        (None, Some(name)) => RustProgram::Example(name.clone()),
        (None, None) => RustProgram::Default,
    };
    let source = Source::detect(&options.paths, program)?;
    let mut targets = Targets::choose(context, options)?;
    let built = loop {
        let request = Request {
            source: source.clone(),
            isas: targets.isas.clone(),
            profile: options.profile.clone(),
            arguments: options.arguments.clone(),
            output: options.output.clone(),
        };
        // What is missing is found before anything is compiled, so trying again with less costs nothing.
        match build(&request, &mut |progress| tell(context, progress)) {
            Err(error) if targets.without(&error) => context.say(format!("left out: {error}")),
            result => break result?,
        }
    };
    if context.quiet { Ok(()) } else { print(summary(&built)) }
}

fn tell(context: &Context, progress: Progress<'_>) {
    match progress {
        Progress::Building { isa, with, index, total } => {
            context.say(format!("building for {isa} with {with} ({} of {total})", index + 1));
        }
        Progress::Built { isa, bytes, elapsed } if context.verbose => {
            context.say(format!("built for {isa}: {} in {}", text::bytes(bytes), text::duration(elapsed)));
        }
        Progress::Built { .. } => {}
    }
}

fn summary(built: &Built) -> String {
    let isas: Vec<&str> = built.image.isas().into_iter().map(Isa::name).collect();
    let size = text::bytes(built.image.as_bytes().len() as u64);
    format!("{}: {size}, for {}\n", built.path.display(), isas.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruction_sets_are_checked_by_name() {
        assert_eq!(isas("aarch64"), Ok(Wanted::One(Isa::Aarch64)));
        assert_eq!(isas("all"), Ok(Wanted::All));
        assert!(isas("arm64").unwrap_err().contains("x86_64, aarch64, riscv64, s390x, and `all`"));
    }

    #[test]
    fn only_what_was_not_asked_for_is_left_out() {
        let missing = |isa| BuildError::MissingTool { isa, tool: "gcc".into(), install: String::new() };
        let mut possible = Targets::possible();
        assert!(possible.without(&missing(Isa::S390x)));
        assert_eq!(possible.isas, [Isa::X86_64, Isa::Aarch64, Isa::Riscv64]);
        assert!(!possible.without(&missing(Isa::S390x)), "twice the same would go on for ever");
        assert!(!possible.without(&BuildError::NoIsa));
        let mut last = Targets { isas: vec![Isa::X86_64], all_needed: false };
        assert!(!last.without(&missing(Isa::X86_64)), "an image needs one build at least");
        assert!(!Targets::needed(vec![Isa::X86_64, Isa::S390x]).without(&missing(Isa::S390x)));
    }
}

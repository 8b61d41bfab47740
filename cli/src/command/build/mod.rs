//! `tombolo build`

mod c;

use std::path::PathBuf;

use clap::Args;
use tombolo::Domain;
use tombolo::find::{LOCAL_MACHINE, machines_up};
use tombolo::nodes::Target;
use tombolo_machine::Machine;
use tombolo_machine::build::{BuildError, Progress, Request, RustProgram, Source, build};

use crate::context::{Context, print};
use crate::failure::Failure;
use crate::text;

/// Builds an image: one program, compiled for several instruction sets
///
/// PATH is a Rust package (a folder with Cargo.toml), a package of Go, a folder with C files, or C files; the
/// default is the current folder. Interface files (.tbl) among C files become headers. C programs find
/// `tombolo.h` and its library without options.
///
/// The image has builds for the nodes of --machine-file, or else of the machines that are up, or else for
/// every instruction set whose compiler is installed. Builds for other instruction sets than this host's are
/// linked statically.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo build                                    the package in this folder, into NAME.tbi
  tombolo build examples/pingpong -o pp.tbi        another package, another file
  tombolo build --isa x86_64,aarch64 --bin worker  one of several programs, for two instruction sets
  tombolo build --bare                             for boards without an operating system too
  tombolo build main.c                             a program in C, into main.tbi
  tombolo build main.c util.c -- -Iinclude -lm     several C files, with arguments for the compiler
  tombolo build --bare sum.c                       one of RCCE, for boards too
  tombolo build main.c kv.tbl                      one that includes kv.h, of an interface
  tombolo build examples/go/pingpong               a program in Go, into pingpong.tbi")]
pub(crate) struct Options {
    /// A package folder, its Cargo.toml, a folder with files in Go or C, or C files
    #[arg(value_name = "PATH", default_value = ".")]
    paths: Vec<PathBuf>,

    /// The image file [default: the program's name with .tbi]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The targets: x86_64, aarch64, riscv64, s390x, `all` of these whose compilers are installed, or for
    /// boards aarch64-none, riscv64-none
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = isas, conflicts_with = "machine_file")]
    isa: Vec<RequestedTarget>,

    /// Also build for boards: those of the machine, or of every instruction set. A program in Rust has to use
    /// the crate `tombolo-bare`; one in C uses RCCE and picolibc
    #[arg(long)]
    bare: bool,

    /// Build for the nodes of this machine file
    #[arg(long, value_name = "FILE")]
    machine_file: Option<PathBuf>,

    /// Declare that the program may be ended at any time and started again on another node. `tombolo web` can
    /// then move it
    #[arg(long)]
    restartable: bool,

    /// The binary to build, if the package has several
    #[arg(long, value_name = "NAME", conflicts_with = "example")]
    bin: Option<String>,

    /// Build an example of the package
    #[arg(long, value_name = "NAME")]
    example: Option<String>,

    /// The cargo profile
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,

    /// Arguments for cargo, the C compiler or go
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

/// One element of `--isa`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RequestedTarget {
    One(Target),
    All,
}

fn isas(text: &str) -> Result<RequestedTarget, String> {
    if text == "all" {
        return Ok(RequestedTarget::All);
    }
    Target::from_name(text).map(RequestedTarget::One).ok_or_else(|| {
        let names = Target::ALL.map(Target::name).join(", ");
        format!("no node runs programs for '{text}'; there are {names}, and `all`")
    })
}

/// Build targets, and whether one that cannot be built is an error.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Targets {
    targets: Vec<Target>,
    all_needed: bool,
}

impl Targets {
    fn needed(targets: Vec<Target>) -> Targets {
        Targets { targets, all_needed: true }
    }

    fn all_buildable(bare: bool) -> Targets {
        // 32-bit processors are supported only to test independence of the word size.
        let usual = |target: &Target| (bare || !target.bare) && target.isa.address_bits() == 64;
        Targets { targets: Target::ALL.into_iter().filter(usual).collect(), all_needed: false }
    }

    /// Filters the nodes' targets for the program: without `bare` it is not for boards.
    fn of_nodes(mut targets: Vec<Target>, bare: bool) -> Targets {
        if !bare {
            targets.retain(|target| !target.bare);
        } else if !targets.iter().any(|target| target.bare) {
            targets.extend(Target::ALL.into_iter().filter(|target| target.bare));
        }
        Targets::needed(targets)
    }

    fn choose(context: &Context, options: &Options) -> Result<Targets, Failure> {
        if let Some(file) = &options.machine_file {
            return Ok(Targets::of_nodes(Machine::open(file)?.targets(), options.bare));
        }
        if !options.isa.is_empty() {
            let named = |wanted: &RequestedTarget| match wanted {
                RequestedTarget::One(target) => Some(*target),
                RequestedTarget::All => None,
            };
            let targets: Option<Vec<Target>> = options.isa.iter().map(named).collect();
            return Ok(match targets {
                None => Targets::all_buildable(options.bare),
                Some(targets) if options.bare => Targets::of_nodes(targets, true),
                Some(targets) => Targets::needed(targets),
            });
        }
        let targets = targets_up(context)?;
        Ok(if targets.is_empty() {
            Targets::all_buildable(options.bare)
        } else {
            Targets::of_nodes(targets, options.bare)
        })
    }

    /// Removes the target of an error about a missing tool. Returns whether the build can continue.
    fn remove_unavailable(&mut self, error: &BuildError) -> bool {
        let (BuildError::MissingTool { target, .. } | BuildError::MissingRustTarget { target, .. }) = error
        else {
            return false;
        };
        self.remove(*target)
    }

    /// Removes a target, unless it is required or the last.
    fn remove(&mut self, target: Target) -> bool {
        if self.all_needed || self.targets.len() < 2 || !self.targets.contains(&target) {
            return false;
        }
        self.targets.retain(|wanted| *wanted != target);
        true
    }
}

/// Returns the targets of the selected machine, or of all that are up. The machine of a plain host is
/// skipped: it exists for programs that need no machine, and implies nothing about an image's targets.
fn targets_up(context: &Context) -> Result<Vec<Target>, Failure> {
    let mut names = machines_up()?;
    match &context.machine {
        Some(wanted) if !names.contains(wanted) => return Err(Failure::NotUp(wanted.clone())),
        Some(wanted) => names.retain(|name| name == wanted),
        None => names.retain(|name| name != LOCAL_MACHINE),
    }
    let mut targets = Vec::new();
    for name in names {
        targets
            .extend(Domain::attach_to_machine(&name)?.nodes()?.iter().map(tombolo::nodes::NodeInfo::target));
    }
    targets.sort_unstable();
    targets.dedup();
    Ok(targets)
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let program = match (&options.bin, &options.example) {
        (Some(name), _) => RustProgram::Bin(name.clone()),
        (None, Some(name)) => RustProgram::Example(name.clone()),
        (None, None) => RustProgram::Default,
    };
    let source = Source::detect(&options.paths, program)?;
    let mut targets = Targets::choose(context, options)?;
    let mut request = Request {
        profile: options.profile.clone(),
        arguments: options.arguments.clone(),
        output: options.output.clone(),
        restartable: options.restartable,
        ..Request::new(source.clone(), &targets.targets)
    };
    let mut headers = None;
    if let Source::C(program) = &source {
        headers = c::write_headers(context, program)?;
        request.include.extend(headers.iter().map(|scratch| scratch.path().to_owned()));
        c::add_libraries(context, program, &mut targets, &mut request)?;
    }
    let built = loop {
        request.targets.clone_from(&targets.targets);
        // Missing tools are detected before anything is compiled, so a retry with fewer targets costs
        // nothing.
        match build(&request, &mut |progress| show_progress(context, progress)) {
            Err(error) if targets.remove_unavailable(&error) => context.info(format!("left out: {error}")),
            result => break result?,
        }
    };
    drop(headers);
    if context.quiet { Ok(()) } else { print(text::packed(&built.path, &built.image)) }
}

fn show_progress(context: &Context, progress: Progress<'_>) {
    match progress {
        Progress::Building { target, with, index, total } => {
            context.info(format!("building for {target} with {with} ({} of {total})", index + 1));
        }
        Progress::Built { target, bytes, elapsed } if context.verbose => {
            context.info(format!(
                "built for {target}: {} in {}",
                text::bytes(bytes),
                text::duration(elapsed)
            ));
        }
        Progress::Built { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombolo::Isa;

    #[test]
    fn instruction_sets_are_checked_by_name() {
        assert_eq!(isas("aarch64"), Ok(RequestedTarget::One(Isa::Aarch64.into())));
        assert_eq!(isas("all"), Ok(RequestedTarget::All));
        assert!(
            isas("arm64").unwrap_err().contains(
                "x86_64, aarch64, riscv64, s390x, i386, armv7, aarch64-none, riscv64-none, and `all`"
            )
        );
    }

    #[test]
    fn only_unrequested_targets_are_omitted() {
        let missing = |isa: Isa| BuildError::MissingTool {
            target: isa.into(),
            tool: "gcc".into(),
            install: String::new(),
        };
        let mut all_buildable = Targets::all_buildable(false);
        assert!(all_buildable.remove_unavailable(&missing(Isa::S390x)));
        assert_eq!(all_buildable.targets, [Isa::X86_64, Isa::Aarch64, Isa::Riscv64].map(Target::from));
        assert!(
            !all_buildable.remove_unavailable(&missing(Isa::S390x)),
            "twice the same would go on for ever"
        );
        assert!(!all_buildable.remove_unavailable(&BuildError::NoIsa));
        let mut last = Targets { targets: vec![Isa::X86_64.into()], all_needed: false };
        assert!(!last.remove_unavailable(&missing(Isa::X86_64)), "an image needs one build at least");
        assert!(
            !Targets::needed(vec![Isa::X86_64.into(), Isa::S390x.into()])
                .remove_unavailable(&missing(Isa::S390x))
        );
    }

    #[test]
    fn boards_are_built_for_when_asked_for() {
        let (x86, board) = (Target::linux(Isa::X86_64), Target::bare(Isa::Aarch64));
        assert_eq!(Targets::of_nodes(vec![x86, board], false).targets, [x86]);
        assert_eq!(Targets::of_nodes(vec![x86, board], true).targets, [x86, board]);
        assert_eq!(Targets::of_nodes(vec![x86], true).targets, [x86, board, Target::bare(Isa::Riscv64)]);
        let all_buildable = Targets::all_buildable(true).targets;
        assert_eq!(all_buildable.len(), Target::ALL.len() - 2, "none of 32 bits");
        assert!(all_buildable.contains(&board));
    }
}

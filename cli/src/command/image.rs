//! `tombolo image`

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use tombolo_machine::Image;
use tombolo_machine::build::pack;
use tombolo_machine::image::Program;

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::{self, Table};

/// Packs programs into images, and inspects images
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo image inspect pingpong.tbi
  tombolo image pack -o job.tbi build/job build-aarch64/job")]
pub(crate) struct Options {
    #[command(subcommand)]
    command: ImageCommand,
}

#[derive(Subcommand, Debug)]
enum ImageCommand {
    Inspect(InspectOptions),
    Pack(PackOptions),
}

/// Packs programs that were built elsewhere into an image
///
/// Give one program for each instruction set; the files themselves tell which that is. Programs for other
/// instruction sets than this host's must be static. `tombolo build` compiles and packs in one step; use
/// `pack` with another build system.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo image pack -o job.tbi build/job build-aarch64/job
  tombolo image pack --name worker --restartable -o worker.tbi x86_64/worker aarch64/worker")]
struct PackOptions {
    /// The programs, one for each instruction set
    #[arg(value_name = "PROGRAM", required = true)]
    programs: Vec<PathBuf>,

    /// The image file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// The name of the program [default: the file name of the first]
    #[arg(long)]
    name: Option<String>,

    /// Declare that the program may be ended at any time and started again on another node
    #[arg(long)]
    restartable: bool,
}

/// Checks an image and lists its builds
///
/// Checks every byte against the hashes in the file. A plain executable is inspected as an image with one
/// build.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo image inspect pingpong.tbi
  tombolo image inspect /bin/true --json")]
struct InspectOptions {
    /// The image file
    file: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// An image, with stable keys.
#[derive(Serialize)]
struct ImageReport {
    name: String,
    id: String,
    bytes: u64,
    /// Whether the program declares that it can be ended and restarted elsewhere.
    restartable: bool,
    programs: Vec<ProgramReport>,
}

#[derive(Serialize)]
struct ProgramReport {
    isa: &'static str,
    bytes: u64,
    sha256: String,
    /// Dynamic linker that the node must have; null for a static program.
    interpreter: Option<String>,
}

impl From<Program<'_>> for ProgramReport {
    fn from(program: Program<'_>) -> Self {
        ProgramReport {
            isa: program.target.name(),
            bytes: program.bytes.len() as u64,
            sha256: program.sha256.iter().map(|byte| format!("{byte:02x}")).collect(),
            interpreter: program.interpreter.map(str::to_owned),
        }
    }
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    match &options.command {
        ImageCommand::Inspect(options) => {
            let report = inspect(&options.file)?;
            if options.json { print_json(&report) } else { print(render(&report, context.colour)) }
        }
        ImageCommand::Pack(options) => {
            let first = options.programs.first().and_then(|path| path.file_name()).unwrap_or_default();
            let name = options.name.clone().unwrap_or_else(|| first.to_string_lossy().into_owned());
            let built = pack(&options.programs, &name, options.restartable, &options.output)?;
            if context.quiet { Ok(()) } else { print(text::packed(&built.path, &built.image)) }
        }
    }
}

fn inspect(file: &Path) -> Result<ImageReport, Failure> {
    Ok(report(&Image::open(file)?))
}

fn report(image: &Image) -> ImageReport {
    ImageReport {
        name: image.name().to_owned(),
        id: image.id().to_string(),
        bytes: image.as_bytes().len() as u64,
        restartable: image.is_restartable(),
        programs: image.programs().map(ProgramReport::from).collect(),
    }
}

fn render(report: &ImageReport, colour: bool) -> String {
    let mut table = Table::new(&["ISA", "SIZE>", "LINKED", "SHA-256"]);
    for program in &report.programs {
        let linked = program.interpreter.as_ref().map_or_else(
            || "static".to_owned(),
            |interpreter| format!("dynamic ({})", text::one_line(interpreter)),
        );
        table.row([program.isa.to_owned(), text::bytes(program.bytes), linked, program.sha256.clone()]);
    }
    let size = text::bytes(report.bytes);
    let restartable = if report.restartable { ", can be restarted elsewhere" } else { "" };
    format!("image {}, {size}{restartable}\nid    {}\n\n{}", report.name, report.id, table.render(colour))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executable_is_an_image_with_one_build() {
        let report = inspect(Path::new("/bin/sh")).unwrap();
        let text = render(&report, false);
        assert_eq!(report.programs.len(), 1);
        assert!(text.starts_with("image sh, "), "{text}");
        assert!(text.contains("\nISA ") && text.contains(tombolo::Isa::current().name()), "{text}");
    }

    #[test]
    fn a_folder_gets_a_hint() {
        let failure = inspect(Path::new("src")).err().unwrap();
        assert_eq!(failure.status(), 2);
    }

    #[test]
    fn an_image_says_whether_it_can_be_restarted() {
        let program = tombolo_machine::image::elf::smallest(tombolo::Isa::Aarch64);
        for restartable in [false, true] {
            let builder = tombolo_machine::image::ImageBuilder::new("x").restartable(restartable);
            let image = builder.with_program(program.clone()).unwrap().finish().unwrap();
            let text = render(&report(&image), false);
            assert_eq!(
                text.lines().next().unwrap().ends_with(", can be restarted elsewhere"),
                restartable,
                "{text}"
            );
        }
    }
}

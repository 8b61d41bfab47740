//! `tombolo ompcc`

use clap::Args;
use tombolo::Isa;
use tombolo_machine::Kit;
use tombolo_machine::build::gcc::ISAS;
use tombolo_omp_image::compile::{Compilation, Request};
use tombolo_omp_image::{Installation, Report};

use crate::compilers::{self, Wrapper};
use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::{self, Table};

/// Compiles an OpenMP program in C or C++ for every instruction set, with everything at equal addresses
///
/// Accepts gcc's options. All functions and variables of the program, including those of the C library, have
/// the same address in every build, so that workers of one team can run on different processors and exchange
/// plain pointers. Symbols whose addresses cannot be made equal are reported by name. The program is built
/// twice: for this host, at the path given with -o; and as an image with a build for every instruction set,
/// at the same path with the suffix `.tbi`. Programs are linked statically with musl. C++ is limited to what
/// g++ compiles without its streams and locales, which need another C library.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  tombolo ompcc -O2 -fopenmp heat.c -o heat -lm     heat for this host, and heat.tbi
  tombolo ompcc -O2 -fopenmp heat.c -o heat.tbi --report
  tombolo ompcc -fopenmp -c util.c; tombolo ompcc -fopenmp main.c util.o -o job
  make CC=tombolo-ompcc CXX=tombolo-ompcxx

Its own options, which may stand anywhere among gcc's:
  --report             print the memory layout, and what differs between builds
  --json               print the report as JSON
  --cxx                compile as C++; the default for .cpp and similar files
  --allow NAME         accept that a variable or outlined function differs, as workers never use it; repeatable
  --isa LIST           instruction sets: x86_64, aarch64 [default: all that the kit has a C library for]
  --show               print the compilers' commands without running them
  -Xarch_ISA WORD      pass WORD to the compiler of one instruction set only"
)]
pub(crate) struct Options {
    /// gcc's options and files, and the options below
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD", required = true)]
    words: Vec<String>,
}

const WRAPPER: Wrapper = Wrapper {
    name: "ompcc",
    unsupported: "OpenMP programs cannot be compiled for",
    flags: &["--cxx", "--report", "--json"],
    values: &["--allow"],
};

/// Returns the libraries for the instruction sets of `--isa`, or for all.
fn installations(isas: &[Isa], kit: &Kit) -> Result<Vec<Installation>, Failure> {
    let isas = if isas.is_empty() { ISAS } else { isas };
    let found = isas.iter().map(|isa| Installation::find(kit, *isa));
    let mut found: Vec<Installation> = found.collect::<Result<_, _>>()?;
    // This host's compiler runs first, so that its messages come first.
    found.sort_by_key(|installation| installation.isa() != Isa::current());
    Ok(found)
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let words = WRAPPER.read(&options.words)?;
    if words.help {
        return print(compilers::help::<crate::Arguments>("ompcc"));
    }
    let installations = installations(&words.isas, &Kit::locate()?)?;
    let isas = installations.len();
    let compilation = Compilation::plan(Request {
        allow: words.values("--allow"),
        words: words.gcc.clone(),
        cxx: words.has("--cxx"),
        installations,
        colour: context.colour_errors,
    })?;
    if words.show {
        return compilers::show(compilation.commands().into_iter().map(|(_, line)| line));
    }
    let compiled = compilation.run()?;
    compilers::forward_result(compiled.outcome, isas, &words.gcc)?;
    compilers::report_built(context, compiled.image.as_ref());
    let Some(report) = &compiled.report else { return Ok(()) };
    for allowed in &report.allowed {
        context.info(format!("allowed: {allowed}"));
    }
    match (words.has("--json"), words.has("--report")) {
        (true, _) => print_json(report),
        (_, true) => print(render(report, context.colour)),
        _ => Ok(()),
    }
}

/// Maximum number of symbols listed of each kind.
const MAX_LISTED: usize = 12;

fn render(report: &Report, colour: bool) -> String {
    let mut table = Table::new(&["AREA", "FROM", "TO", "SIZE>", "SLOTS>", "IN ALL>"]);
    for area in &report.areas {
        table.row([
            area.name.to_owned(),
            format!("{:#x}", area.start),
            format!("{:#x}", area.end),
            text::bytes(area.end - area.start),
            area.slots.to_string(),
            area.in_all.to_string(),
        ]);
    }
    let symbols = &report.symbols;
    let mut shown = format!(
        "layout {}, for {}, with {}\n\n{}\n{} of {} common symbols at equal addresses, {}\n{} and {} compared\n",
        report.layout_id,
        report.isas.join(" and "),
        report.library,
        table.render(colour),
        symbols.equal,
        symbols.common,
        text::count(symbols.outlined, "outlined function"),
        text::count(report.variables_compared, "variable"),
        text::count(report.frames_compared, "frame"),
    );
    for different in &symbols.different {
        let addresses: Vec<String> =
            different.addresses.iter().map(|address| format!("{address:#x}")).collect();
        let file = different.file.as_ref().map(|file| format!(" of {file}")).unwrap_or_default();
        shown +=
            &format!("differs: {}{file}, {}\n", text::one_line(&different.name), addresses.join(" and "));
    }
    for only in &symbols.only {
        let names: Vec<String> =
            only.names.iter().take(MAX_LISTED).map(|name| text::one_line(name)).collect();
        let more = only.names.len().saturating_sub(MAX_LISTED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        shown += &format!("only for {}: {}{more}\n", only.isa, names.join(", "));
    }
    shown
}

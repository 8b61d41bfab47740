//! `cargo xtask dist`: packages for publication, in `<target>/dist`.

mod architecture;
mod bill;
mod crates;
mod deb;
mod stage;
mod tarball;
#[cfg(test)]
mod tests;
mod wheel;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use clap::{Args, ValueEnum};

use crate::c_library;
use crate::failure::Failure;
use crate::installation::Source;
use crate::kit;
use crate::workspace::{Workspace, capture};

use architecture::{ARCHITECTURES, Architecture};

/// Makes packages: a tarball, a package for Debian and a wheel for each of x86-64 and Arm
///
/// Everything is built from this tree, and what is built already is taken as it is. The same tree gives the
/// same bytes where compilers do: times in archives are those of the last commit, or `SOURCE_DATE_EPOCH`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask dist
  cargo xtask dist --isa x86_64 --only deb
  cargo xtask dist --isa native --only wheel --kit-as-it-is --output /tmp/wheels
  cargo xtask dist --check-crates")]
pub(crate) struct Options {
    /// Make packages for this instruction set only: x86_64, aarch64, or native for this machine's
    #[arg(long, value_name = "ISA", value_parser = isa)]
    isa: Option<String>,

    /// Make packages of this format only; may be repeated
    #[arg(long, value_name = "KIND")]
    only: Vec<Format>,

    /// Use the kit as it is, even if it is empty, instead of bringing it up to date first
    #[arg(long)]
    kit_as_it_is: bool,

    /// Where packages go [default: target/dist]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,

    /// Make no packages, but check that the crates that users depend on can be published
    #[arg(long, conflicts_with_all = ["isa", "only", "kit_as_it_is", "output"])]
    check_crates: bool,
}

/// A format of packages.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// A tarball that can be unpacked anywhere.
    Tarball,
    /// A package for Debian and its derivatives.
    Deb,
    /// A wheel for Python.
    Wheel,
}

fn isa(name: &str) -> Result<String, String> {
    let known = ["native"].into_iter().chain(ARCHITECTURES.iter().map(|architecture| architecture.isa));
    if known.clone().any(|known| known == name) {
        return Ok(name.to_owned());
    }
    Err(format!("packages are made for {}", known.collect::<Vec<_>>().join(", ")))
}

/// Makes the packages that the options select.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<(), Failure> {
    if options.check_crates {
        return crates::check(workspace);
    }
    if !options.kit_as_it_is {
        kit::run(workspace, &kit::Options::default())?;
        // The library for C of every instruction set, which `tombolo build main.c` takes out of the package.
        c_library::build(workspace, &workspace.target.join("kit"), &[])?;
    }
    let native = Architecture::native()?;
    let is_wanted = |architecture: &&Architecture| match options.isa.as_deref() {
        None => true,
        Some("native") => architecture.isa == native.isa,
        Some(isa) => architecture.isa == isa,
    };
    let output = options.output.clone().unwrap_or_else(|| workspace.target.join("dist"));
    let output = std::path::absolute(&output).map_err(Failure::file("finding", &output))?;
    fs::create_dir_all(&output).map_err(Failure::file("creating", &output))?;
    let time = source_date(workspace)?;
    // The programs that write the manual are this machine's.
    build_native(workspace)?;
    for architecture in ARCHITECTURES.iter().filter(is_wanted) {
        let source = architecture.build(workspace)?;
        let package = Package { workspace, architecture, source, output: output.clone(), time };
        for kind in Format::value_variants()
            .iter()
            .filter(|kind| options.only.is_empty() || options.only.contains(kind))
        {
            let path = match kind {
                Format::Tarball => tarball::make(&package)?,
                Format::Deb => deb::make(&package)?,
                Format::Wheel => wheel::make(&package)?,
            };
            let bytes = fs::metadata(&path).map_err(Failure::file("reading", &path))?.len();
            println!("{}  {:.1} MB", path.display(), bytes as f64 / 1e6);
        }
    }
    Ok(())
}

/// The inputs of packages for one architecture.
struct Package<'a> {
    workspace: &'a Workspace,
    architecture: &'a Architecture,
    source: Source<'a>,
    /// Where the package goes.
    output: PathBuf,
    /// The time of everything in it, in seconds since 1970.
    time: u64,
}

/// What an installation on this machine is made of, whether it is built or not.
pub(crate) fn native(workspace: &Workspace) -> Result<Source<'_>, Failure> {
    Ok(Architecture::native()?.source(workspace))
}

/// The same, built.
pub(crate) fn build_native(workspace: &Workspace) -> Result<Source<'_>, Failure> {
    Architecture::native()?.build(workspace)
}

/// `SOURCE_DATE_EPOCH`, else the time of the last commit.
fn source_date(workspace: &Workspace) -> Result<u64, Failure> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => {
            capture(Command::new("git").current_dir(&workspace.root).args(["log", "-1", "--format=%ct"]))?
        }
    };
    text.trim()
        .parse()
        .map_err(|error| Failure::malformed(format!("SOURCE_DATE_EPOCH or git: '{text}'"), error))
}

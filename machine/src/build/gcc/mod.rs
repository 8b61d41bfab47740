//! Gcc command lines for several instruction sets at once: the common part of `tombolo mpicc` and `tombolo
//! ompcc`.
//!
//! The build for this host goes to the usual output path; an object carries its builds for others.

mod arguments;
mod embedded_builds;
mod error;
mod installed;
mod run;

use tombolo_base::Isa;

pub use arguments::{CommandLine, CommandLineError, Goal, Word};
pub use embedded_builds::{embed_build, extract_build, foreign_object_path};
pub use error::{CompileError, file_error};
pub use installed::{ISAS, InstallationError, Installed, Library};
pub use run::{Outcome, Run, for_each, pack, run_all, run_writer, start, write_program};

/// Options that precede the caller's own, which may override them. They remove differences between
/// processors: `char` is signed on x86-64 but not on Arm, and fused multiply-add rounds once instead of
/// twice. Programs that perform the same computation must get the same result.
const COMMON_OPTIONS: [&str; 2] = ["-fsigned-char", "-ffp-contract=off"];

/// File extension of images.
const IMAGE: &str = "tbi";

/// Returns the arguments that precede the caller's, for every compiler.
#[must_use]
pub fn common_options(colour: bool) -> Vec<String> {
    let colour = colour.then_some("-fdiagnostics-color=always");
    COMMON_OPTIONS.into_iter().chain(colour).map(str::to_owned).collect()
}

/// Returns the instruction set whose build goes to the output path: the host's if it is built for, otherwise
/// the first.
#[must_use]
pub fn primary_isa(isas: &[Isa]) -> Isa {
    isas.iter().find(|isa| **isa == Isa::current()).or(isas.first()).copied().unwrap_or(Isa::current())
}

/// Returns the name of the binutils tool for `isa`.
#[must_use]
pub fn binutil(name: &str, isa: Isa) -> String {
    if isa == Isa::current() { name.to_owned() } else { format!("{}-linux-gnu-{name}", isa.name()) }
}

/// Formats instruction sets as a list: `x86_64 and aarch64`.
#[must_use]
pub fn isa_list(isas: &[Isa]) -> String {
    isas.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(" and ")
}

/// Identical output of one or more compilers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostics {
    /// Instruction sets of those compilers.
    pub isas: Vec<Isa>,
    /// Text of the output.
    pub text: Vec<u8>,
}

/// Adds the output of a compiler, merging it with an identical one.
fn add_diagnostics(all: &mut Vec<Diagnostics>, isa: Isa, text: Vec<u8>) {
    if text.is_empty() {
        return;
    }
    match all.iter_mut().find(|diagnostics| diagnostics.text == text) {
        Some(diagnostics) if !diagnostics.isas.contains(&isa) => diagnostics.isas.push(isa),
        Some(_) => {}
        None => all.push(Diagnostics { isas: vec![isa], text }),
    }
}

/// Quotes arguments for a shell.
fn quote_arguments(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+.,/:%@".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

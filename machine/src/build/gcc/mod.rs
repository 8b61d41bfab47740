//! Gcc's words for several instruction sets at once: what `tombolo mpicc` and `tombolo ompcc` have in common.
//!
//! What is built for this host is where a compiler would put it; an object carries its builds for others.

mod carried;
mod error;
mod installed;
mod run;
mod words;

use tombolo_base::Isa;

pub use carried::{aside, carried, carry};
pub use error::{CompileError, file_error};
pub use installed::{ISAS, InstallationError, Installed, Library};
pub use run::{Outcome, Run, for_each, pack, put, run_all, start, write_by};
pub use words::{CommandLine, Goal, Word, WordsError};

/// Said to every compiler before the caller's own words, which may say otherwise. `char` is signed on x86-64,
/// and not on Arm; products and sums are rounded once or twice as the processor can. Programs that compute
/// the same must find the same.
const ALIKE: [&str; 2] = ["-fsigned-char", "-ffp-contract=off"];

/// The extension of images.
const IMAGE: &str = "tbi";

/// Returns the words that come before the caller's, to every compiler.
#[must_use]
pub fn first_words(colour: bool) -> Vec<String> {
    let colour = colour.then_some("-fdiagnostics-color=always");
    ALIKE.into_iter().chain(colour).map(str::to_owned).collect()
}

/// Whose builds are at the paths that the caller named: this host's, unless there is none.
#[must_use]
pub fn first(isas: &[Isa]) -> Isa {
    isas.iter().find(|isa| **isa == Isa::current()).or(isas.first()).copied().unwrap_or(Isa::current())
}

/// Returns the tool of binutils of that name for `isa`.
#[must_use]
pub fn binutil(name: &str, isa: Isa) -> String {
    if isa == Isa::current() { name.to_owned() } else { format!("{}-linux-gnu-{name}", isa.name()) }
}

/// `x86_64 and aarch64`.
#[must_use]
pub fn names(isas: &[Isa]) -> String {
    isas.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(" and ")
}

/// What one or more compilers said, word for word the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// For which instruction sets they compiled.
    pub isas: Vec<Isa>,
    /// What they said.
    pub text: Vec<u8>,
}

/// Keeps what a compiler said, once if another one has said the same.
fn say(all: &mut Vec<Said>, isa: Isa, text: Vec<u8>) {
    if text.is_empty() {
        return;
    }
    match all.iter_mut().find(|said| said.text == text) {
        Some(said) if !said.isas.contains(&isa) => said.isas.push(isa),
        Some(_) => {}
        None => all.push(Said { isas: vec![isa], text }),
    }
}

/// Words as a shell would take them.
fn shell_words(words: &[String]) -> String {
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

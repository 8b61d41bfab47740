//! Common parts of `tombolo mpicc` and `tombolo ompcc`: their own options among gcc's, and the output of
//! compilers.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use tombolo::Isa;
use tombolo_machine::Image;
use tombolo_machine::build::gcc::{CompileError, Diagnostics, ISAS, Outcome, isa_list};

use crate::context::{Context, print};
use crate::failure::Failure;
use crate::text;

/// A command that accepts gcc's arguments, and additional options: `--isa LIST`, `--show`, `--help`, and
/// these.
#[derive(Clone, Copy, Debug)]
pub struct Wrapper {
    /// Name of the command, after `tombolo`.
    pub name: &'static str,
    /// Error message for an unsupported instruction set, before its name.
    pub unsupported: &'static str,
    /// Options without a value.
    pub flags: &'static [&'static str],
    /// Options with a value, each of which may be repeated.
    pub values: &'static [&'static str],
}

/// Parsed command line: the wrapper's own options, and gcc's arguments.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CompilerArguments {
    /// Instruction sets of `--isa`; empty if it was not given.
    pub isas: Vec<Isa>,
    /// Whether to show the commands instead of running them.
    pub show: bool,
    /// Whether the help is requested.
    pub help: bool,
    /// Arguments for gcc, in order.
    pub gcc: Vec<String>,
    flags: Vec<&'static str>,
    values: Vec<(&'static str, String)>,
}

impl CompilerArguments {
    /// Returns whether an option without a value was given.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    /// Returns the values of an option, in their order.
    #[must_use]
    pub fn values(&self, option: &str) -> Vec<String> {
        self.values.iter().filter(|(name, _)| *name == option).map(|(_, value)| value.clone()).collect()
    }
}

impl Wrapper {
    /// Separates the wrapper's own options from gcc's arguments.
    ///
    /// # Errors
    /// An option without its value, or an unsupported instruction set.
    pub fn read(&self, words: &[String]) -> Result<CompilerArguments, Failure> {
        let mut read = CompilerArguments::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (name, given) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word.as_str(), None),
            };
            if let Some(&option) = ["--isa"].iter().chain(self.values).find(|option| **option == name) {
                let value = given.or_else(|| words.next().map(String::as_str));
                let value = value.ok_or_else(|| self.usage(&format!("{option} needs a value after it")))?;
                if option == "--isa" {
                    self.add_isas(&mut read.isas, value)?;
                } else {
                    read.values.push((option, value.to_owned()));
                }
                continue;
            }
            match word.as_str() {
                "--show" | "-show" => read.show = true,
                "--help" | "-h" => read.help = true,
                word => match self.flags.iter().find(|flag| **flag == word) {
                    Some(flag) => read.flags.push(flag),
                    None => read.gcc.push(word.to_owned()),
                },
            }
        }
        Ok(read)
    }

    /// Adds the instruction sets of a list like `x86_64,aarch64`.
    fn add_isas(&self, isas: &mut Vec<Isa>, list: &str) -> Result<(), Failure> {
        for name in list.split(',') {
            let known = Isa::from_name(name).filter(|isa| ISAS.contains(isa));
            let isa = known.ok_or_else(|| {
                self.usage(&format!("{} '{name}', only for {}", self.unsupported, isa_list(ISAS)))
            })?;
            if !isas.contains(&isa) {
                isas.push(isa);
            }
        }
        Ok(())
    }

    fn usage(&self, message: &str) -> Failure {
        let hint = match self.name {
            "mpicc" => "`tombolo mpicc --help` lists the options",
            _ => "`tombolo ompcc --help` lists the options",
        };
        Failure::Usage { message: message.to_owned(), hint: Some(hint) }
    }
}

/// Prints command lines, for `--show`.
///
/// # Errors
/// Standard output cannot be written.
pub fn show(commands: impl IntoIterator<Item = String>) -> Result<(), Failure> {
    print(commands.into_iter().map(|line| line + "\n").collect::<String>())
}

/// Prints the messages of compilers for `isas` instruction sets, and their output. `words` are gcc's.
///
/// # Errors
/// A compiler failed, or standard output cannot be written.
pub fn forward_result(outcome: Outcome, isas: usize, words: &[String]) -> Result<(), Failure> {
    print_diagnostics(&outcome.diagnostics, isas);
    if !outcome.failed.is_empty() {
        let advice = hint_for_m_option(words).filter(|_| outcome.failed.len() < isas);
        let failure = Failure::from(CompileError::Failed { isas: outcome.failed });
        return Err(match advice {
            Some(advice) => failure.advised(advice),
            None => failure,
        });
    }
    io::stdout().lock().write_all(&outcome.text).map_err(Failure::Output)
}

/// Returns a hint about options that only some processors support: gcc's begin with `-m`.
fn hint_for_m_option(words: &[String]) -> Option<String> {
    let option = words.iter().find(|word| word.starts_with("-m"))?;
    Some(format!(
        "an option that one instruction set alone has goes to its compiler by `-Xarch_{0} {option}`",
        Isa::current()
    ))
}

/// Prints the messages of compilers, with their instruction sets if there are several.
fn print_diagnostics(diagnostics: &[Diagnostics], isas: usize) {
    let mut error = io::stderr().lock();
    for diagnostics in diagnostics {
        // A closed standard error is not a failure.
        if isas > 1 {
            let _ = writeln!(error, "for {}:", isa_list(&diagnostics.isas));
        }
        let _ = error.write_all(&diagnostics.text);
    }
}

/// Reports the files that were built, with `--verbose`.
pub fn report_built(context: &Context, made: Option<&(impl AsRef<Path>, Image)>) {
    if let Some((path, image)) = made
        && context.verbose
    {
        context.info(text::packed(path.as_ref(), image).trim_end());
    }
}

/// Returns the help of the command `name` of a program. clap's own option would not be recognized behind
/// gcc's arguments.
#[must_use]
pub fn help<P: CommandFactory>(name: &str) -> String {
    let mut program = P::command();
    program.build();
    match program.find_subcommand_mut(name) {
        Some(command) => command.render_long_help().to_string(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRAPPER: Wrapper = Wrapper {
        name: "mpicc",
        unsupported: "MPI cannot be compiled for",
        flags: &["--abi", "-Wno-some-warning"],
        values: &["--allow"],
    };

    fn read(line: &str) -> Result<CompilerArguments, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        WRAPPER.read(&words).map_err(|failure| failure.to_string())
    }

    #[test]
    fn own_options_are_extracted_anywhere() {
        let words = read("-O2 --isa aarch64 a.c --abi -o a --allow env -show --allow=b -DX=y").unwrap();
        assert_eq!(words.gcc.join(" "), "-O2 a.c -o a -DX=y");
        assert_eq!(
            (words.isas.as_slice(), words.values("--allow").join(" ")),
            (&[Isa::Aarch64][..], "env b".to_owned())
        );
        assert!(words.show && words.has("--abi") && !words.has("-Wno-some-warning") && !words.help);
        assert_eq!(read("--isa=x86_64,aarch64,x86_64 a.c").unwrap().isas, [Isa::X86_64, Isa::Aarch64]);
    }

    #[test]
    fn failing_m_option_gets_a_hint() {
        let words = ["-O2", "-mavx2", "a.c"].map(str::to_owned);
        let failed = |failed: &[Isa]| {
            let outcome = Outcome { failed: failed.to_vec(), ..Outcome::default() };
            forward_result(outcome, 2, &words).unwrap_err().hint().unwrap_or_default()
        };
        assert!(failed(&[Isa::Aarch64]).contains("-mavx2`"));
        assert_eq!(failed(&[Isa::X86_64, Isa::Aarch64]), "");
    }

    #[test]
    fn mistakes_in_options_are_reported() {
        assert!(read("a.c --isa").unwrap_err().contains("--isa needs a value"));
        assert!(read("a.c --allow").unwrap_err().contains("--allow needs a value"));
        let expected = "MPI cannot be compiled for 'riscv64', only for x86_64 and aarch64";
        assert!(read("--isa riscv64").unwrap_err().contains(expected));
    }
}

//! Errors of compiling a program.

use tombolo_base::Isa;
use tombolo_machine::build::{BuildError, gcc};

use crate::input::ObjectError;
use crate::plan::PlanError;
use crate::symbols::SymbolsError;
use crate::types::{Refusal, TypesError};

/// Error that prevented all or part of a compilation.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// Error common to all programs that are compiled several times.
    #[error(transparent)]
    Gcc(#[from] gcc::CompileError),
    /// An option is incompatible with equal addresses.
    #[error("{option} cannot be followed: {why}")]
    Option {
        /// Option on the command line.
        option: String,
        /// Reason for the refusal.
        why: &'static str,
    },
    /// A library is in none of the `-L` folders.
    #[error(
        "there is no lib{name}.a in any folder of -L: libraries are static, of objects by `tombolo ompcc -c`"
    )]
    NoLibrary {
        /// Name of the library.
        name: String,
    },
    /// An object or archive cannot be read.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The program does not fit into the layout.
    #[error("the program does not fit: {0}")]
    Plan(#[from] PlanError),
    /// The compiler's debug information cannot be read.
    #[error(transparent)]
    Types(#[from] TypesError),
    /// A linked build cannot be read.
    #[error(transparent)]
    Symbols(#[from] SymbolsError),
    /// Variables or functions differ between builds.
    #[error("{} cannot be the same in all builds:{}{}", count(refused.len()), list(refused), hint(refused))]
    Refused {
        /// Refused items with their reasons.
        refused: Vec<Refusal>,
    },
    /// A marked function cannot migrate.
    #[error("TOMBOLO_MIGRATE cannot be followed:{}", list(refused))]
    CannotMigrate {
        /// Refused functions with their reasons.
        refused: Vec<Refusal>,
    },
    /// A source marks a function that is not defined globally there.
    #[error(
        "TOMBOLO_MIGRATE cannot be followed: `{name}` is not defined for all sources where it is marked: mark it in the source \
         that defines it, in every build, and not as static; a function of C++ has to be extern \"C\""
    )]
    NotDefined {
        /// Name of the function.
        name: String,
    },
    /// An object accesses thread-local variables in another compiler's way.
    #[error(
        "{file} finds the thread-local variable `{name}` by the thread pointer, which is another where a thread has migrated: \
         compile it from C or C++ by `tombolo ompcc`, or reach the variable by a function that is"
    )]
    ThreadLocal {
        /// Source or object file.
        file: String,
        /// Name of the variable, or of its section.
        name: String,
    },
    /// The linker deviated from the layout.
    #[error(
        "the linker for {isa} does not keep to the layout: {what}. This is a mistake in tombolo, or a linker that it does not \
         know"
    )]
    LinkerDeviated {
        /// Instruction set of the build.
        isa: Isa,
        /// Description of the deviation.
        what: String,
    },
}

impl From<BuildError> for CompileError {
    fn from(error: BuildError) -> CompileError {
        CompileError::Gcc(error.into())
    }
}

fn count(count: usize) -> String {
    if count == 1 { "one thing".to_owned() } else { format!("{count} things") }
}

fn list(refused: &[Refusal]) -> String {
    refused.iter().map(|refusal| format!("\n  {refusal}")).collect()
}

fn hint(refused: &[Refusal]) -> String {
    match refused.first() {
        Some(refusal) => format!(
            "\nLet each thread have its own, or none; or, if workers never use it, say so: --allow {}",
            refusal.name
        ),
        None => String::new(),
    }
}

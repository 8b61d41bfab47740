//! Why a program cannot be made.

use tombolo_base::Isa;
use tombolo_machine::build::{BuildError, gcc};

use crate::input::ObjectError;
use crate::plan::PlanError;
use crate::symbols::SymbolsError;
use crate::types::{Refusal, TypesError};

/// Why nothing was compiled, or not all.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// What may be with every program that is compiled several times.
    #[error(transparent)]
    Gcc(#[from] gcc::CompileError),
    /// An option that cannot be followed.
    #[error("{option} cannot be followed: {why}")]
    Option {
        /// The option.
        option: String,
        /// The reason.
        why: &'static str,
    },
    /// A library is in none of the folders.
    #[error(
        "there is no lib{name}.a in any folder of -L: libraries are static, of objects by `tombolo ompcc -c`"
    )]
    NoLibrary {
        /// The library.
        name: String,
    },
    /// What a program is linked of cannot be read.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// There is no room for the program.
    #[error("the program does not fit: {0}")]
    Plan(#[from] PlanError),
    /// What the compiler says of types cannot be read.
    #[error(transparent)]
    Types(#[from] TypesError),
    /// What the linker made cannot be read.
    #[error(transparent)]
    Symbols(#[from] SymbolsError),
    /// Something cannot be equal in all builds.
    #[error("{} cannot be the same in all builds:{}{}", count(refused.len()), list(refused), hint(refused))]
    Refused {
        /// What, and why.
        refused: Vec<Refusal>,
    },
    /// A function is marked and cannot migrate.
    #[error("TOMBOLO_MIGRATE cannot be followed:{}", list(refused))]
    Stays {
        /// Which, and why.
        refused: Vec<Refusal>,
    },
    /// A source marks a function that it does not define.
    #[error(
        "TOMBOLO_MIGRATE cannot be followed: `{name}` is not defined for all sources where it is marked: mark it in the source \
         that defines it, in every build, and not as static; a function of C++ has to be extern \"C\""
    )]
    NotDefined {
        /// The function.
        name: String,
    },
    /// An object uses thread-local variables as another compiler has it.
    #[error(
        "{file} finds the thread-local variable `{name}` by the thread pointer, which is another where a thread has migrated: \
         compile it from C or C++ by `tombolo ompcc`, or reach the variable by a function that is"
    )]
    ThreadLocal {
        /// The object.
        file: String,
        /// The variable, or its section.
        name: String,
    },
    /// The linker did otherwise than it was told.
    #[error(
        "the linker for {isa} does not keep to the layout: {what}. This is a mistake in tombolo, or a linker that it does not \
         know"
    )]
    Moved {
        /// The instruction set of the build.
        isa: Isa,
        /// What it did.
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

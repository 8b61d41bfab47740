//! Compiler of Tombolo's interface language.
//!
//! A `*.tbl` file declares interfaces: messages and calls with typed parameters. [`compile`] turns its text
//! into a [`Model`], in which every name is resolved and every field has its offset in the message. If the
//! text is invalid, it returns [`Mistakes`] instead, each with a source location and a hint. Back ends read
//! only the model.
//!
//! ```
//! let model = tombolo_idl::compile(
//!     "package example;
//!      interface Echo version 1 {
//!          @1 idempotent call echo(text: string<64>) -> (text: string<64>);
//!      }",
//! )?;
//! assert_eq!(model.interfaces[0].name, "Echo");
//! # Ok::<(), tombolo_idl::Mistakes>(())
//! ```
#![forbid(unsafe_code)]

mod ast;
pub mod build;
pub mod c;
mod check;
pub mod compatibility;
mod diagnostic;
pub mod document;
pub mod editor;
mod files;
mod fingerprint;
mod format;
pub mod go;
mod lexer;
pub mod model;
mod parser;
pub mod python;
pub mod rust;
mod suggest;
mod text;

pub use diagnostic::{Diagnostic, Mistakes, Source, Span};
pub use files::{Compiled, FileError, FileMistakes, compile_file};
pub use format::format;
pub use model::Model;

/// Compiles the text of one interface file. The text must not include other files; use [`compile_file`] for
/// those.
///
/// # Errors
/// The mistakes found in the text; a `use` of another file is one.
pub fn compile(text: &str) -> Result<Model, Mistakes> {
    let file = parser::parse(text).map_err(Mistakes::sorted)?;
    if let Some(used) = file.uses.first() {
        let mistake = Diagnostic::new(&used.span, "a text by itself includes no files", "nowhere to look");
        return Err(Mistakes(vec![mistake.hint("compile the file that it is, not its text")]));
    }
    check::check(&file).map_err(Mistakes::sorted)
}

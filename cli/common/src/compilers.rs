//! What `tombolo mpicc` and `tombolo ompcc` have in common: gcc's words with our own among them, and what compilers say.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use tombolo::Isa;
use tombolo_machine::Image;
use tombolo_machine::build::gcc::{CompileError, Outcome, Said, names};

use crate::context::Context;
use crate::failure::Failure;
use crate::text;

/// Adds the instruction sets of a list like `x86_64,aarch64`, of those that are `known`; fails with the name that is not.
pub fn add_isas<'a>(isas: &mut Vec<Isa>, list: &'a str, known: &[Isa]) -> Result<(), &'a str> {
    for name in list.split(',') {
        let isa = Isa::from_name(name).filter(|isa| known.contains(isa)).ok_or(name)?;
        if !isas.contains(&isa) {
            isas.push(isa);
        }
    }
    Ok(())
}

/// Passes on what compilers said and what was asked of them, for so many instruction sets; an error if one failed.
pub fn pass_on(outcome: Outcome, isas: usize) -> Result<(), Failure> {
    show_said(&outcome.said, isas);
    if !outcome.failed.is_empty() {
        return Err(CompileError::Failed { isas: outcome.failed }.into());
    }
    io::stdout().lock().write_all(&outcome.text).map_err(Failure::Output)
}

/// Shows what compilers said, with their instruction sets where there are several.
fn show_said(said: &[Said], isas: usize) {
    let mut error = io::stderr().lock();
    for said in said {
        // Nobody reads what cannot be written.
        if isas > 1 {
            let _ = writeln!(error, "for {}:", names(&said.isas));
        }
        let _ = error.write_all(&said.text);
    }
}

/// Says what has been made, to whoever wants to know.
pub fn say_made(context: &Context, made: Option<&(impl AsRef<Path>, Image)>) {
    if let Some((path, image)) = made
        && context.verbose
    {
        context.say(text::packed(path.as_ref(), image).trim_end());
    }
}

/// The help of command `name` of a program, for a command whose usual option would come too late: gcc's words may stand before it.
#[must_use]
pub fn help<P: CommandFactory>(name: &str) -> String {
    let mut program = P::command();
    program.build();
    match program.find_subcommand_mut(name) {
        Some(command) => command.render_long_help().to_string(),
        None => String::new(),
    }
}

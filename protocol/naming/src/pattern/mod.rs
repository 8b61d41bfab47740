//! Regular expressions and globs in bounded time.
//!
//! A pattern becomes a program for a machine with no backtracking: every character of the text is looked at once by
//! every instruction that is alive, so matching takes at most (length of the program) × (length of the text) steps.
//! The steps are counted, and whoever asks says how many there may be.
//!
//! Understood are characters, `.`, `[a-z]`, `[^a-z]`, `\d \w \s` and their opposites, `\` before anything else,
//! `^`, `$`, `|`, `(…)`, `(?:…)`, `*`, `+`, `?` and `{m}`, `{m,}`, `{m,n}`. Repetition is never lazy or possessive,
//! because a pattern only says whether it matches. Not understood are references to groups and looking around: they
//! cannot be had in bounded time.

mod parse;
mod run;

use alloc::string::String;
use alloc::vec::Vec;

pub use run::Exhausted;

/// The longest pattern, in bytes.
pub const MAX_PATTERN_BYTES: usize = 1024;

/// The longest program, in instructions.
pub const MAX_PROGRAM: usize = 4096;

/// What is wrong with a pattern, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("at byte {offset}: {why}")]
pub struct PatternError {
    /// In bytes from its start.
    pub offset: usize,
    /// What is wrong.
    pub why: String,
}

/// Characters that an instruction takes.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Class {
    /// From, to, both included; in order and apart from each other.
    ranges: Vec<(char, char)>,
    negated: bool,
}

impl Class {
    fn new(mut ranges: Vec<(char, char)>, negated: bool) -> Self {
        ranges.sort_unstable();
        ranges.dedup_by(|next, last| {
            let overlap = next.0 <= last.1;
            if overlap {
                last.1 = last.1.max(next.1);
            }
            overlap
        });
        Class { ranges, negated }
    }

    fn has(&self, character: char) -> bool {
        let below = self.ranges.partition_point(|(from, _)| *from <= character);
        let listed = below.checked_sub(1).is_some_and(|index| character <= self.ranges[index].1);
        listed != self.negated
    }
}

/// One instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Instruction {
    /// Take this character.
    Char(char),
    /// Take any but a newline.
    Any,
    /// Take one of these.
    Class(Class),
    /// Go on only at the start of the text.
    Start,
    /// Go on only at its end.
    End,
    /// Go on at both.
    Split(usize, usize),
    /// Go on there.
    Jump(usize),
    /// It matches.
    Match,
}

/// A pattern, ready to be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    program: Vec<Instruction>,
}

impl Pattern {
    /// Understands a regular expression. It matches anywhere in a text; `^` and `$` tie it.
    ///
    /// # Errors
    /// Where it is wrong, and how; also when it is longer than [`MAX_PATTERN_BYTES`] or [`MAX_PROGRAM`].
    pub fn regex(text: &str) -> Result<Pattern, PatternError> {
        bounded(text)?;
        Ok(Pattern { program: parse::compile(text)? })
    }

    /// Understands a glob: `*` is any text, `?` any character, and all else itself. It matches whole texts.
    ///
    /// # Errors
    /// When it is longer than [`MAX_PATTERN_BYTES`].
    pub fn glob(text: &str) -> Result<Pattern, PatternError> {
        bounded(text)?;
        let mut program = Vec::from([Instruction::Start]);
        for character in text.chars() {
            let here = program.len();
            match character {
                '*' => program.extend([
                    Instruction::Split(here + 1, here + 3),
                    Instruction::Any,
                    Instruction::Jump(here),
                ]),
                '?' => program.push(Instruction::Any),
                _ => program.push(Instruction::Char(character)),
            }
        }
        program.extend([Instruction::End, Instruction::Match]);
        Ok(Pattern { program })
    }

    /// Whether it matches `text`. Each step is taken off `steps`.
    ///
    /// # Errors
    /// [`Exhausted`] when there are no steps left.
    pub fn matches(&self, text: &str, steps: &mut u64) -> Result<bool, Exhausted> {
        run::run(&self.program, text, steps)
    }
}

fn bounded(text: &str) -> Result<(), PatternError> {
    if text.len() <= MAX_PATTERN_BYTES {
        return Ok(());
    }
    let why = alloc::format!("it is longer than {MAX_PATTERN_BYTES} bytes");
    Err(PatternError { offset: MAX_PATTERN_BYTES, why })
}

#[cfg(test)]
mod tests;

//! Regular expressions and globs in bounded time.
//!
//! A pattern is compiled to a program for a machine without backtracking: every live instruction examines
//! each character of the text once, so matching takes at most (length of the program) × (length of the text)
//! steps. The steps are counted, and the caller limits them.
//!
//! The syntax consists of characters, `.`, `[a-z]`, `[^a-z]`, `\d \w \s` and their complements, `\` before
//! any other character, `^`, `$`, `|`, `(…)`, `(?:…)`, `*`, `+`, `?` and `{m}`, `{m,}`, `{m,n}`. Lazy and
//! possessive repetition make no difference, because a pattern only determines whether a text matches.
//! Backreferences and lookaround are not supported: they cannot be matched in bounded time.

mod parse;
mod run;

use alloc::string::String;
use alloc::vec::Vec;

pub use run::Exhausted;

/// Maximum length of a pattern, in bytes.
pub const MAX_PATTERN_BYTES: usize = 1024;

/// Maximum length of a program, in instructions.
pub const MAX_PROGRAM: usize = 4096;

/// Error in a pattern, with its position.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("at byte {offset}: {why}")]
pub struct PatternError {
    /// Offset in bytes.
    pub offset: usize,
    /// Description of the error.
    pub why: String,
}

/// Set of characters that an instruction accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Class {
    /// Inclusive ranges, in order and disjoint.
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

    fn contains(&self, character: char) -> bool {
        let below = self.ranges.partition_point(|(from, _)| *from <= character);
        let listed = below.checked_sub(1).is_some_and(|index| character <= self.ranges[index].1);
        listed != self.negated
    }
}

/// Instruction of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Instruction {
    /// Accepts this character.
    Char(char),
    /// Accepts any character but a newline.
    Any,
    /// Accepts a character of this class.
    Class(Class),
    /// Continues only at the start of the text.
    Start,
    /// Continues only at the end of the text.
    End,
    /// Continues at both instructions.
    Split(usize, usize),
    /// Continues at this instruction.
    Jump(usize),
    /// Reports a match.
    Match,
}

/// Compiled regular expression or glob.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    program: Vec<Instruction>,
}

impl Pattern {
    /// Compiles a regular expression, which matches anywhere in a text unless anchored by `^` and `$`.
    ///
    /// # Errors
    /// Position and kind of the error, including a pattern longer than [`MAX_PATTERN_BYTES`] or a program
    /// longer than [`MAX_PROGRAM`].
    pub fn regex(text: &str) -> Result<Pattern, PatternError> {
        bounded(text)?;
        Ok(Pattern { program: parse::compile(text)? })
    }

    /// Compiles a glob, which matches whole texts: `*` stands for any text, `?` for any character, and other
    /// characters for themselves.
    ///
    /// # Errors
    /// The glob is longer than [`MAX_PATTERN_BYTES`].
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

    /// Whether the pattern matches `text`. Decrements `steps` for each step.
    ///
    /// # Errors
    /// [`Exhausted`] when no steps are left.
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

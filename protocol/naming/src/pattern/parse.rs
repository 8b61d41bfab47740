//! Compiles regular expressions.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::{Class, Instruction, MAX_PROGRAM, PatternError};

/// Maximum nesting depth of groups.
const MAX_DEPTH: usize = 64;

/// Syntax tree of a regular expression.
#[derive(Clone)]
enum Node {
    Empty,
    One(Instruction),
    Sequence(Vec<Node>),
    Alternation(Vec<Node>),
    Repeat { node: Box<Node>, min: u32, max: Option<u32> },
}

pub(super) fn compile(text: &str) -> Result<Vec<Instruction>, PatternError> {
    let mut parser = Parser { text, offset: 0, depth: 0 };
    let node = parser.parse_alternation()?;
    if parser.peek().is_some() {
        return Err(parser.error("')' without '('"));
    }
    let mut program = Vec::new();
    let too_long = || PatternError {
        offset: text.len(),
        why: alloc::format!("its repetitions expand to more than {MAX_PROGRAM} instructions"),
    };
    emit(&node, &mut program).map_err(|TooLong| too_long())?;
    push(&mut program, Instruction::Match).map_err(|TooLong| too_long())?;
    Ok(program)
}

struct TooLong;

fn push(program: &mut Vec<Instruction>, instruction: Instruction) -> Result<(), TooLong> {
    if program.len() >= MAX_PROGRAM {
        return Err(TooLong);
    }
    program.push(instruction);
    Ok(())
}

fn emit(node: &Node, program: &mut Vec<Instruction>) -> Result<(), TooLong> {
    match node {
        Node::Empty => Ok(()),
        Node::One(instruction) => push(program, instruction.clone()),
        Node::Sequence(nodes) => nodes.iter().try_for_each(|node| emit(node, program)),
        Node::Alternation(nodes) => emit_alternation(nodes, program),
        Node::Repeat { node, min, max } => emit_repeat(node, *min, *max, program),
    }
}

fn emit_alternation(nodes: &[Node], program: &mut Vec<Instruction>) -> Result<(), TooLong> {
    let mut jumps = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        if index + 1 == nodes.len() {
            emit(node, program)?;
            break;
        }
        let split = program.len();
        push(program, Instruction::Match)?;
        emit(node, program)?;
        jumps.push(program.len());
        push(program, Instruction::Match)?;
        program[split] = Instruction::Split(split + 1, program.len());
    }
    for jump in jumps {
        program[jump] = Instruction::Jump(program.len());
    }
    Ok(())
}

fn emit_repeat(
    node: &Node,
    min: u32,
    max: Option<u32>,
    program: &mut Vec<Instruction>,
) -> Result<(), TooLong> {
    // Repeating an empty node is a no-op, and need not be emitted a million times.
    if matches!(node, Node::Empty) {
        return Ok(());
    }
    for _ in 0..min {
        let before = program.len();
        emit(node, program)?;
        if program.len() == before {
            return Ok(());
        }
    }
    match max {
        None => {
            let split = program.len();
            push(program, Instruction::Match)?;
            emit(node, program)?;
            push(program, Instruction::Jump(split))?;
            program[split] = Instruction::Split(split + 1, program.len());
        }
        Some(max) => {
            let mut splits = Vec::new();
            for _ in min..max {
                splits.push(program.len());
                push(program, Instruction::Match)?;
                emit(node, program)?;
            }
            for split in splits {
                program[split] = Instruction::Split(split + 1, program.len());
            }
        }
    }
    Ok(())
}

struct Parser<'a> {
    text: &'a str,
    offset: usize,
    depth: usize,
}

impl Parser<'_> {
    fn error(&self, why: &str) -> PatternError {
        PatternError { offset: self.offset, why: why.to_string() }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.offset..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.offset += character.len_utf8();
        Some(character)
    }

    fn take(&mut self, wanted: char) -> bool {
        let matches = self.peek() == Some(wanted);
        if matches {
            self.offset += wanted.len_utf8();
        }
        matches
    }

    fn parse_alternation(&mut self) -> Result<Node, PatternError> {
        let mut choices = vec![self.parse_sequence()?];
        while self.take('|') {
            choices.push(self.parse_sequence()?);
        }
        Ok(if choices.len() == 1 { choices.swap_remove(0) } else { Node::Alternation(choices) })
    }

    fn parse_sequence(&mut self) -> Result<Node, PatternError> {
        let mut nodes = Vec::new();
        while !matches!(self.peek(), None | Some('|' | ')')) {
            let atom = self.parse_atom()?;
            nodes.push(self.parse_repetition(atom)?);
        }
        Ok(if nodes.is_empty() { Node::Empty } else { Node::Sequence(nodes) })
    }

    fn parse_repetition(&mut self, mut node: Node) -> Result<Node, PatternError> {
        let mut layers = 0;
        loop {
            let (min, max) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => self.parse_repeat_counts()?,
                _ => return Ok(node),
            };
            self.offset += 1;
            // Laziness does not change whether a text matches.
            self.take('?');
            layers += 1;
            if layers > MAX_DEPTH {
                return Err(self.error("repetitions are nested too deeply"));
            }
            node = Node::Repeat { node: Box::new(node), min, max };
        }
    }

    /// Parses `{m}`, `{m,}` or `{m,n}`, up to the closing brace.
    fn parse_repeat_counts(&mut self) -> Result<(u32, Option<u32>), PatternError> {
        let start = self.offset;
        self.offset += 1;
        let min = self.parse_number()?;
        let max = match self.peek() {
            Some(',') => {
                self.offset += 1;
                if self.peek() == Some('}') { None } else { Some(self.parse_number()?) }
            }
            _ => Some(min),
        };
        if self.peek() != Some('}') {
            return Err(self.error("malformed repetition; use {m}, {m,} or {m,n}"));
        }
        if max.is_some_and(|max| max < min) {
            return Err(PatternError {
                offset: start,
                why: "the maximum of a repetition is less than its minimum".into(),
            });
        }
        Ok((min, max))
    }

    fn parse_number(&mut self) -> Result<u32, PatternError> {
        let digits: String = self.text[self.offset..].chars().take_while(char::is_ascii_digit).collect();
        let number = digits.parse().ok().filter(|number| *number <= MAX_PROGRAM as u32);
        let number = number.ok_or_else(|| self.error("invalid repetition count; use 0 to 4096"))?;
        self.offset += digits.len();
        Ok(number)
    }

    fn parse_atom(&mut self) -> Result<Node, PatternError> {
        let start = self.offset;
        let Some(character) = self.next() else { return Ok(Node::Empty) };
        let instruction = match character {
            '(' => return self.parse_group(start),
            '[' => Instruction::Class(self.parse_class(start)?),
            '.' => Instruction::Any,
            '^' => Instruction::Start,
            '$' => Instruction::End,
            '\\' => self.parse_escape()?,
            '*' | '+' | '?' | '{' => {
                return Err(PatternError { offset: start, why: "nothing to repeat".into() });
            }
            _ => Instruction::Char(character),
        };
        Ok(Node::One(instruction))
    }

    fn parse_group(&mut self, start: usize) -> Result<Node, PatternError> {
        if self.take('?') && !self.take(':') {
            return Err(self.error("unsupported group; only (?:…) is supported after '(?'"));
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("groups are nested too deeply"));
        }
        let node = self.parse_alternation()?;
        self.depth -= 1;
        if !self.take(')') {
            return Err(PatternError { offset: start, why: "'(' without ')'".into() });
        }
        Ok(node)
    }

    fn parse_escape(&mut self) -> Result<Instruction, PatternError> {
        let Some(character) = self.next() else { return Err(self.error("'\\' at the end")) };
        if let Some(class) = named_class(character) {
            return Ok(Instruction::Class(class));
        }
        Ok(Instruction::Char(self.literal_escape(character)?))
    }

    /// Returns the meaning of a character after a backslash.
    fn literal_escape(&self, character: char) -> Result<char, PatternError> {
        match character {
            'n' => Ok('\n'),
            't' => Ok('\t'),
            'r' => Ok('\r'),
            // Reserved for later use, and often meaningful in other dialects.
            _ if character.is_ascii_alphanumeric() => {
                Err(self.error(&alloc::format!("unsupported escape '\\{character}'")))
            }
            _ => Ok(character),
        }
    }

    fn parse_class(&mut self, start: usize) -> Result<Class, PatternError> {
        let negated = self.take('^');
        let mut ranges = Vec::new();
        let mut first = true;
        loop {
            let unclosed = PatternError { offset: start, why: "'[' without ']'".into() };
            let character = self.next().ok_or(unclosed)?;
            let from = match character {
                ']' if !first => return Ok(Class::new(ranges, negated)),
                '\\' => {
                    let escaped = self.next().ok_or_else(|| self.error("'\\' at the end"))?;
                    match named_class(escaped) {
                        Some(class) if class.negated => {
                            return Err(self.error("a complement class cannot be inside brackets"));
                        }
                        Some(class) => {
                            ranges.extend(class.ranges);
                            first = false;
                            continue;
                        }
                        None => self.literal_escape(escaped)?,
                    }
                }
                _ => character,
            };
            first = false;
            ranges.push((from, self.parse_range_end(from)?));
        }
    }

    /// Returns the end of a range that starts with `from`, or `from` if it is not a range.
    fn parse_range_end(&mut self, from: char) -> Result<char, PatternError> {
        let mut ahead = self.text[self.offset..].chars();
        if ahead.next() != Some('-') || matches!(ahead.next(), None | Some(']')) {
            return Ok(from);
        }
        self.offset += 1;
        let to = match self.next() {
            Some('\\') => {
                let escaped = self.next().ok_or_else(|| self.error("'\\' at the end"))?;
                if named_class(escaped).is_some() {
                    return Err(self.error("a range cannot end with a class"));
                }
                self.literal_escape(escaped)?
            }
            other => other.unwrap_or(from),
        };
        if to < from {
            return Err(self.error("the end of a range is before its start"));
        }
        Ok(to)
    }
}

fn named_class(character: char) -> Option<Class> {
    let ranges: &[(char, char)] = match character.to_ascii_lowercase() {
        'd' => &[('0', '9')],
        'w' => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        's' => &[('\t', '\r'), (' ', ' ')],
        _ => return None,
    };
    Some(Class::new(ranges.into(), character.is_ascii_uppercase()))
}

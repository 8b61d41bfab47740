//! Runs a program over a text: all threads at once, one character at a time.

use alloc::vec;
use alloc::vec::Vec;

use super::Instruction;

/// Error of a match that exceeded its limit of steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("matching takes too many steps")]
pub struct Exhausted;

/// Set of live threads; each instruction occurs at most once.
struct Threads {
    order: Vec<usize>,
    /// Round in which each instruction was last added.
    added: Vec<u32>,
    round: u32,
}

impl Threads {
    fn new(length: usize) -> Self {
        Threads { order: Vec::with_capacity(length), added: vec![0; length], round: 0 }
    }

    fn clear(&mut self) {
        self.order.clear();
        self.round += 1;
    }
}

/// Position in a text.
#[derive(Clone, Copy)]
struct TextPosition {
    at_start: bool,
    at_end: bool,
}

pub(super) fn run(program: &[Instruction], text: &str, steps: &mut u64) -> Result<bool, Exhausted> {
    // Clearing the thread list counts as work too.
    *steps = steps.checked_sub(program.len() as u64 / 16).ok_or(Exhausted)?;
    let (mut now, mut next) = (Threads::new(program.len()), Threads::new(program.len()));
    let mut stack = Vec::new();
    let mut rest = text.chars();
    let mut place = TextPosition { at_start: true, at_end: text.is_empty() };
    let anchored = program.first() == Some(&Instruction::Start);
    now.clear();
    loop {
        // A match may begin at any character, unless the program is anchored at the start.
        if (place.at_start || !anchored) && add_thread(program, 0, place, &mut now, &mut stack, steps)? {
            return Ok(true);
        }
        let Some(character) = rest.next() else { return Ok(false) };
        if now.order.is_empty() && anchored {
            return Ok(false);
        }
        place = TextPosition { at_start: false, at_end: rest.as_str().is_empty() };
        next.clear();
        for &thread in &now.order {
            consume_step(steps)?;
            let taken = match &program[thread] {
                Instruction::Char(wanted) => *wanted == character,
                Instruction::Any => character != '\n',
                Instruction::Class(class) => class.contains(character),
                _ => false,
            };
            if taken && add_thread(program, thread + 1, place, &mut next, &mut stack, steps)? {
                return Ok(true);
            }
        }
        core::mem::swap(&mut now, &mut next);
    }
}

/// Adds a thread and all threads reachable without accepting a character. Returns whether one is a match.
fn add_thread(
    program: &[Instruction],
    start: usize,
    place: TextPosition,
    threads: &mut Threads,
    stack: &mut Vec<usize>,
    steps: &mut u64,
) -> Result<bool, Exhausted> {
    stack.clear();
    stack.push(start);
    while let Some(index) = stack.pop() {
        if threads.added[index] == threads.round {
            continue;
        }
        consume_step(steps)?;
        threads.added[index] = threads.round;
        match &program[index] {
            Instruction::Match => return Ok(true),
            Instruction::Jump(to) => stack.push(*to),
            Instruction::Split(first, second) => stack.extend([*second, *first]),
            Instruction::Start if place.at_start => stack.push(index + 1),
            Instruction::End if place.at_end => stack.push(index + 1),
            Instruction::Start | Instruction::End => {}
            Instruction::Char(_) | Instruction::Any | Instruction::Class(_) => threads.order.push(index),
        }
    }
    Ok(false)
}

fn consume_step(steps: &mut u64) -> Result<(), Exhausted> {
    *steps = steps.checked_sub(1).ok_or(Exhausted)?;
    Ok(())
}

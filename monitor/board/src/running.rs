//! The program that the board runs.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use tombolo_base::{ChannelId, DomainId, WindowId};
use tombolo_control::StartOrder;
use tombolo_platform_bare::board::{Board, ELF_MACHINE, Window};
use tombolo_platform_bare::call::{MAX_WINDOWS, STACK_BYTES, Start, StartWindow, VERSION};
use tombolo_platform_bare::elf::{Executable, LoadError};

use crate::output::Output;

/// A program on the board and its communication state.
pub(crate) struct RunningProgram {
    pub(crate) domain: DomainId,
    pub(crate) name: String,
    /// Number of the program's connection.
    pub(crate) connection: u32,
    /// Encoded orders that the program has not received yet.
    pub(crate) orders: VecDeque<Vec<u8>>,
    /// Doorbells that rang since the program last slept, one bit for each vector.
    pub(crate) rung: u64,
    /// End of the program's sleep, while it sleeps.
    pub(crate) asleep_until_ns: Option<u64>,
    /// Channels of which the program holds an end.
    pub(crate) channels: BTreeSet<ChannelId>,
    /// Output streams 1 and 2.
    pub(crate) outputs: [Output; 2],
}

impl RunningProgram {
    pub(crate) fn new(order: &StartOrder, connection: u32) -> RunningProgram {
        RunningProgram {
            domain: order.domain,
            name: order.program.name.clone(),
            connection,
            orders: VecDeque::new(),
            rung: 0,
            asleep_until_ns: None,
            channels: BTreeSet::new(),
            outputs: [Output::new(), Output::new()],
        }
    }

    /// Returns and clears the doorbells that rang; bit 0 is set if orders are queued.
    pub(crate) fn take_rung(&mut self) -> u64 {
        core::mem::take(&mut self.rung) & !1 | u64::from(!self.orders.is_empty())
    }

    /// Returns whether the program's sleep has to end.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        self.rung & !1 != 0 || !self.orders.is_empty() || self.asleep_until_ns.is_some_and(|at| at <= now_ns)
    }
}

/// Describes the board's windows for the program. `numbers` are their ids in the machine.
fn describe_windows(windows: &[Window], numbers: &[WindowId]) -> [StartWindow; MAX_WINDOWS] {
    let mut described = [StartWindow::default(); MAX_WINDOWS];
    for (entry, (window, number)) in described.iter_mut().zip(windows.iter().zip(numbers)) {
        *entry = StartWindow {
            number: number.0.into(),
            address: window.address,
            length_bytes: window.memory.len_bytes() as u64,
            registers_address: window.registers_address,
        };
    }
    described
}

/// Loads a program and its encoded start order into memory, and prepares the board to run it. `numbers` are
/// the ids of the board's windows in the machine.
pub(crate) fn load(
    (board, numbers): (&mut impl Board, &[WindowId]),
    file: &[u8],
    order: &[u8],
    connection: u32,
) -> Result<(), LoadError> {
    let windows = describe_windows(board.windows(), numbers);
    let (from, memory) = board.program_memory();
    // Layout from the program's end upwards: its heap, its `Start` structure, the order.
    let order_at = (memory.len().saturating_sub(order.len())) & !15;
    let start_at = order_at.saturating_sub(Start::BYTES) & !15;
    let image = from + STACK_BYTES;
    let program = Executable::read(file, ELF_MACHINE, image, from + start_at as u64)?;
    for segment in program.segments() {
        let at = (segment.address - from) as usize;
        let target = memory.get_mut(at..at + segment.memory_bytes as usize).ok_or(LoadError::Malformed)?;
        let contents = file.get(segment.offset..segment.offset + segment.file_bytes);
        let (head, tail) = target.split_at_mut(segment.file_bytes);
        head.copy_from_slice(contents.ok_or(LoadError::Malformed)?);
        tail.fill(0);
    }
    let heap_address = program.end.next_multiple_of(16);
    let start = Start {
        version: u64::from(VERSION),
        windows,
        heap_address,
        heap_bytes: (from + start_at as u64).saturating_sub(heap_address),
        order_address: from + order_at as u64,
        order_bytes: order.len() as u64,
        connection: connection.into(),
    };
    memory[order_at..order_at + order.len()].copy_from_slice(order);
    memory[start_at..start_at + Start::BYTES].copy_from_slice(&start.to_bytes());
    board.prepare(program.entry, from + STACK_BYTES, from + start_at as u64);
    Ok(())
}

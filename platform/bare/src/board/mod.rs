//! Monitor side: privileged access to the board.

use tombolo_base::SharedMemory;

use crate::pci::PciError;

#[cfg(all(target_os = "none", target_arch = "aarch64"))]
#[path = "aarch64/mod.rs"]
mod machine;
#[cfg(all(target_os = "none", target_arch = "riscv64"))]
#[path = "riscv64/mod.rs"]
mod machine;

#[cfg(target_os = "none")]
mod device;
#[cfg(target_os = "none")]
mod start;

#[cfg(target_os = "none")]
pub use machine::Virt;
#[cfg(target_os = "none")]
pub use start::start;

/// ELF machine number of this board.
pub const ELF_MACHINE: u16 = tombolo_base::Isa::current().elf_machine();

/// Reason why a program stopped running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trap {
    /// The program made a call, see [`call`](crate::call).
    Call {
        /// Number of the call.
        number: u64,
        /// Arguments of the call.
        arguments: [u64; 4],
    },
    /// An interrupt arrived while the program ran.
    Interrupt,
    /// The program caused a fault.
    Fault(Fault),
}

/// A fault of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Description of the fault, phrased to follow "the program".
    pub what: &'static str,
    /// Number of the signal that Linux would send.
    pub signal: u8,
    /// Address of the faulting instruction.
    pub instruction: u64,
    /// Address accessed, if any.
    pub address: u64,
    /// Value of the processor's syndrome register.
    pub syndrome: u64,
}

/// A board without an operating system, with one processor, as its monitor sees it.
///
/// The monitor is not interrupted: it polls the doorbells that [rang](Self::take_doorbells), and
/// [`sleep`](Self::sleep) returns immediately if one rang in between. So no wake-up is lost in any order.
pub trait Board {
    /// Returns nanoseconds since the board started, on the clock that programs read too.
    fn now_ns(&self) -> u64;

    /// Sleeps until an interrupt is pending or the clock reaches `until_ns`. May return early: the boards
    /// here return shortly before the end of a long sleep; the next sleep, to the same time, is exact.
    fn sleep(&mut self, until_ns: Option<u64>);

    /// Returns the doorbells that rang since the last call, one bit for each vector. Acknowledges their
    /// interrupts.
    fn take_doorbells(&mut self) -> u64;

    /// Rings a doorbell of a peer on one of the windows.
    fn ring(&self, window: &Window, peer: u16, vector: u16);

    /// Returns the board's own number among the peers of a window.
    fn own_peer(&self, window: &Window) -> u16;

    /// Returns the windows, at least one: first the one with the host, then those shared with other nodes.
    fn windows(&self) -> &[Window];

    /// Writes a byte to the console, waiting until it is accepted.
    fn write_console(&mut self, byte: u8);

    /// Returns the memory of programs: its start address and its bytes.
    fn program_memory(&mut self) -> (u64, &mut [u8]);

    /// Prepares to run a program from `entry`, with `argument` and a stack that grows down from `stack`.
    fn prepare(&mut self, entry: u64, stack: u64, argument: u64);

    /// Runs the program until it traps.
    fn run(&mut self) -> Trap;

    /// Sets the return value of the call of the last trap.
    fn set_return_value(&mut self, value: u64);

    /// Powers the board off.
    fn power_off(&mut self) -> !;
}

/// Final part of a sleep, in nanoseconds, in which the processor polls for interrupts instead of halting.
///
/// A halted processor wakes late: the host must wake the emulator's thread. Polling avoids this, and on a
/// clock that counts instructions it ends the sleep at the same instruction in every run.
#[cfg(any(target_os = "none", test))]
const SPIN_NS: u64 = 20_000;

/// Method of sleeping until a time.
#[cfg(any(target_os = "none", test))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sleep {
    /// Halt until an interrupt, or until this time if there is one.
    Halt(Option<u64>),
    /// Poll for interrupts until this time.
    Spin(u64),
}

#[cfg(any(target_os = "none", test))]
impl Sleep {
    fn of(now_ns: u64, until_ns: Option<u64>) -> Sleep {
        match until_ns {
            Some(until_ns) if until_ns.saturating_sub(now_ns) <= SPIN_NS => Sleep::Spin(until_ns),
            until_ns => Sleep::Halt(until_ns.map(|until_ns| until_ns - SPIN_NS)),
        }
    }

    /// Executes the sleep. `set_alarm` sets the time of the timer interrupt, or disables it.
    fn run(self, set_alarm: impl Fn(Option<u64>), halt: impl Fn(), is_pending: impl Fn() -> bool) {
        match self {
            Sleep::Halt(until_ns) => {
                set_alarm(until_ns);
                halt();
            }
            Sleep::Spin(until_ns) => {
                set_alarm(Some(until_ns));
                while !is_pending() {
                    core::hint::spin_loop();
                }
            }
        }
        set_alarm(None);
    }
}

/// A window, accessible to the monitor and programs.
#[derive(Clone, Debug)]
pub struct Window {
    /// Memory of the whole window.
    pub memory: SharedMemory,
    /// Address of the window's memory.
    pub address: u64,
    /// Address of the registers of the window's device.
    pub registers_address: u64,
    /// The board's own doorbells on the window, as bits of the result of [`Board::take_doorbells`].
    pub bells: u64,
}

/// Reason why a board cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BoardError {
    /// The window is missing.
    #[error(transparent)]
    Pci(#[from] PciError),
    /// There is no device tree, or it describes no memory.
    #[error("the device tree does not describe the board's memory")]
    NoMemory,
    /// There is less memory than the monitor needs.
    #[error("the board has only {0} bytes of memory, less than its monitor needs")]
    TooLittleMemory(u64),
}

/// Division of a board's memory: the monitor, programs, the monitor's heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryLayout {
    /// Start address of the memory for programs.
    pub programs: u64,
    /// End of the programs' memory, where the monitor's heap begins.
    pub heap: u64,
    /// End address of the memory.
    pub end: u64,
}

impl MemoryLayout {
    /// Number of bytes at the start of memory for the monitor itself.
    pub const MONITOR_BYTES: u64 = 4 << 20;

    /// Granularity of the division, in bytes.
    const UNIT_BYTES: u64 = 2 << 20;

    /// Divides memory, given as address and length. A quarter is the monitor's heap, for loaded programs and
    /// messages in transit.
    ///
    /// # Errors
    /// [`BoardError::TooLittleMemory`] if it is too small.
    pub fn of(memory: (u64, u64)) -> Result<MemoryLayout, BoardError> {
        let (start, length) = memory;
        let end = start.saturating_add(length) / Self::UNIT_BYTES * Self::UNIT_BYTES;
        let heap_bytes = (length / 4).max(2 * Self::UNIT_BYTES) / Self::UNIT_BYTES * Self::UNIT_BYTES;
        let programs = start + Self::MONITOR_BYTES;
        let heap = end.saturating_sub(heap_bytes);
        if heap < programs + 2 * Self::UNIT_BYTES {
            return Err(BoardError::TooLittleMemory(length));
        }
        Ok(MemoryLayout { programs, heap, end })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn end_of_a_sleep_is_spent_polling() {
        assert_eq!(Sleep::of(5, None), Sleep::Halt(None));
        assert_eq!(Sleep::of(5, Some(6 + SPIN_NS)), Sleep::Halt(Some(6)));
        assert_eq!(Sleep::of(6, Some(6 + SPIN_NS)), Sleep::Spin(6 + SPIN_NS));
        // The time has already passed.
        assert_eq!(Sleep::of(5, Some(2)), Sleep::Spin(2));
    }

    #[test]
    fn no_alarm_is_left_after_a_sleep() {
        for (sleep, alarm, halts, looks) in [
            (Sleep::Halt(None), None, 1, 0),
            (Sleep::Halt(Some(7)), Some(7), 1, 0),
            (Sleep::Spin(9), Some(9), 0, 3),
        ] {
            let (alarms, halted, looked) = (RefCell::new(Vec::new()), Cell::new(0), Cell::new(0));
            let is_pending = || {
                looked.set(looked.get() + 1);
                looked.get() == 3
            };
            sleep.run(|alarm| alarms.borrow_mut().push(alarm), || halted.set(halted.get() + 1), is_pending);
            assert_eq!((alarms.into_inner(), halted.get(), looked.get()), (vec![alarm, None], halts, looks));
        }
    }

    #[test]
    fn memory_is_divided_into_program_memory_and_heap() {
        let at = 0x4000_0000;
        let layout = MemoryLayout::of((at, 32 << 20)).unwrap();
        assert_eq!((layout.programs, layout.heap), (at + (4 << 20), at + (24 << 20)));
        assert_eq!(layout.end, at + (32 << 20));
        let smallest = MemoryLayout::of((at, 12 << 20)).unwrap();
        assert_eq!(smallest.heap - smallest.programs, 4 << 20);
        assert_eq!(MemoryLayout::of((at, (12 << 20) - 1)), Err(BoardError::TooLittleMemory((12 << 20) - 1)));
        assert!(MemoryLayout::of((at, 0)).is_err());
    }
}

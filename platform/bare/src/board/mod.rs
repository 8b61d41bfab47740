//! The monitor's half: the board as it is reached with all privileges.

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

/// The number of an ELF machine that this code is for.
pub const ELF_MACHINE: u16 = tombolo_base::Isa::current().elf_machine();

/// Why a program stopped running for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trap {
    /// It asks for something, see [`call`](crate::call).
    Call {
        /// What.
        number: u64,
        /// With these.
        arguments: [u64; 4],
    },
    /// An interrupt came.
    Interrupt,
    /// It did what it cannot.
    Fault(Fault),
}

/// What a program did that it cannot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What, in words.
    pub what: &'static str,
    /// The Linux signal that it would be.
    pub signal: u8,
    /// The instruction.
    pub instruction: u64,
    /// The address it was about, where there is one.
    pub address: u64,
    /// The processor's own description.
    pub syndrome: u64,
}

/// A board without an operating system, one processor of it, as its monitor sees it.
///
/// The monitor is not interrupted: it asks what [rang](Self::rung), and [`sleep`](Self::sleep) ends at once if
/// something did in between. So no wake-up is lost, whatever the order.
pub trait Board {
    /// Nanoseconds since the board was switched on; programs have the same clock.
    fn now_ns(&self) -> u64;

    /// Sleeps until an interrupt is pending, or until a time of [`now_ns`](Self::now_ns). May end early.
    fn sleep(&mut self, until_ns: Option<u64>);

    /// The doorbells that rang since this was last asked, a bit for each vector. Takes their interrupts.
    fn rung(&mut self) -> u64;

    /// Rings a doorbell of a peer in the window.
    fn ring(&self, peer: u16, vector: u16);

    /// The window, all of it.
    fn window(&self) -> &SharedMemory;

    /// Writes a byte to the console. Waits for the console, which is a line of the emulator's.
    fn write_console(&mut self, byte: u8);

    /// Memory of programs: its first address, and its bytes.
    fn program_memory(&mut self) -> (u64, &mut [u8]);

    /// For the start of a program: where it finds the window and the device's registers.
    fn reach_of_programs(&self) -> Reach;

    /// Makes ready to run a program from `entry`, with `argument` and a stack that grows down from `stack`.
    fn prepare(&mut self, entry: u64, stack: u64, argument: u64);

    /// Runs the program until it traps.
    fn run(&mut self) -> Trap;

    /// Answers the call that the last trap was.
    fn answer(&mut self, value: u64);

    /// Switches the board off.
    fn power_off(&mut self) -> !;
}

/// What a program reaches outside of its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reach {
    /// Where the window begins.
    pub window_address: u64,
    /// Where the registers of its device are.
    pub registers_address: u64,
}

/// Why a board cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BoardError {
    /// The window is not there.
    #[error(transparent)]
    Pci(#[from] PciError),
    /// There is no device tree, or no memory in it.
    #[error("the device tree says nothing of the board's memory")]
    NoMemory,
    /// Less memory than the monitor itself takes.
    #[error("the board has {0} bytes of memory, too little")]
    LittleMemory(u64),
}

/// How a board's memory is divided: monitor, programs, the monitor's heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Division {
    /// First address of programs.
    pub programs: u64,
    /// First address above them, where the monitor's heap begins.
    pub heap: u64,
    /// First address above everything.
    pub end: u64,
}

impl Division {
    /// Bytes at the start of the memory that are the monitor itself.
    pub const MONITOR_BYTES: u64 = 4 << 20;

    /// The unit that memory is divided in.
    const UNIT_BYTES: u64 = 2 << 20;

    /// Divides memory: a quarter is the monitor's heap, for the programs it keeps and messages on their way.
    ///
    /// # Errors
    /// [`BoardError::LittleMemory`].
    pub fn of(memory: (u64, u64)) -> Result<Division, BoardError> {
        let (start, length) = memory;
        let end = start.saturating_add(length) / Self::UNIT_BYTES * Self::UNIT_BYTES;
        let heap_bytes = (length / 4).max(2 * Self::UNIT_BYTES) / Self::UNIT_BYTES * Self::UNIT_BYTES;
        let programs = start + Self::MONITOR_BYTES;
        let heap = end.saturating_sub(heap_bytes);
        if heap < programs + 2 * Self::UNIT_BYTES {
            return Err(BoardError::LittleMemory(length));
        }
        Ok(Division { programs, heap, end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_divided_in_units() {
        let at = 0x4000_0000;
        let division = Division::of((at, 32 << 20)).unwrap();
        assert_eq!((division.programs, division.heap), (at + (4 << 20), at + (24 << 20)));
        assert_eq!(division.end, at + (32 << 20));
        let smallest = Division::of((at, 12 << 20)).unwrap();
        assert_eq!(smallest.heap - smallest.programs, 4 << 20);
        assert_eq!(Division::of((at, (12 << 20) - 1)), Err(BoardError::LittleMemory((12 << 20) - 1)));
        assert!(Division::of((at, 0)).is_err());
    }
}

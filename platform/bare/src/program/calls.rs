//! Functions that perform the calls.

extern crate alloc;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::fmt::{self, Write};
use core::panic::PanicInfo;
use core::ptr::NonNull;

use tombolo_base::sync::{Ordering, fence};
use tombolo_base::{SharedMemory, WindowId};

use super::machine;
use crate::call::{self, Start, StartWindow};
use crate::elf::{NOTE_OWNER, NOTE_TYPE};
use crate::{heap, panic};

/// The note that identifies a program for boards and its version of the calls.
#[repr(C)]
struct Note {
    owner_bytes: u32,
    value_bytes: u32,
    kind: u32,
    owner: [u8; 8],
    version: u32,
}

#[used]
#[unsafe(link_section = ".note.tombolo")]
#[unsafe(export_name = "tombolo_program_note")]
static NOTE: Note = Note {
    owner_bytes: NOTE_OWNER.len() as u32,
    value_bytes: 4,
    kind: NOTE_TYPE,
    owner: *NOTE_OWNER,
    version: call::VERSION,
};

/// Start data of the program. Written once, before its first line of code.
struct StartInfo(UnsafeCell<Option<Start>>);

// SAFETY: a program has one thread, and this is written before any of its code runs.
unsafe impl Sync for StartInfo {}

static START_INFO: StartInfo = StartInfo(UnsafeCell::new(None));

fn start_info() -> &'static Start {
    // SAFETY: see `Sync`; it is not written any more.
    let start_info = unsafe { &*START_INFO.0.get() };
    start_info.as_ref().expect("a program begins at its entry")
}

/// Returns a window by its number in the machine.
fn window_of(number: WindowId) -> Option<&'static StartWindow> {
    let has_number = |window: &&StartWindow| window.number == number.0.into() && window.length_bytes > 0;
    start_info().windows.iter().find(has_number)
}

/// Exit status of a program that panicked, as for all Rust programs.
const PANICKED: u8 = 101;

/// Prepares a program and runs it.
///
/// # Safety
/// `start` must be what the monitor wrote for this program, and this must be the program's first
/// call.
#[doc(hidden)]
pub unsafe fn enter(start: *const Start, main: fn() -> u8) -> ! {
    panic::set_handler(handle_panic);
    // SAFETY: valid by this function's contract.
    let start = unsafe { *start };
    // SAFETY: the first and only write, see `StartInfo`.
    unsafe { *START_INFO.0.get() = Some(start) };
    // SAFETY: the monitor reserved this memory for the program's heap, and nothing else is in it; done
    // once.
    unsafe { heap::set_up(start.heap_address, start.heap_bytes as usize) };
    exit(main())
}

/// Defines `main`, a `fn() -> u8` that returns the exit status, as the entry point of a program for a board.
#[macro_export]
macro_rules! board_program {
    ($main:path) => {
        #[unsafe(no_mangle)]
        extern "C" fn tombolo_program_entered(start: *const $crate::call::Start) -> ! {
            // SAFETY: called by the first instruction of the program, with what the monitor passed.
            unsafe { $crate::program::enter(start, $main) }
        }
    };
}

struct Stderr;

impl Write for Stderr {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        print(2, text.as_bytes());
        Ok(())
    }
}

fn handle_panic(info: &PanicInfo<'_>) -> ! {
    let _ = writeln!(Stderr, "{info}");
    exit(PANICKED)
}

/// Ends the program with an exit status.
pub fn exit(status: u8) -> ! {
    machine::call(call::EXIT, [status.into(), 0, 0, 0]);
    // Unreachable: an ended program is not resumed.
    loop {
        core::hint::spin_loop();
    }
}

/// Writes to a stream: 0 the console, 1 output, 2 errors. Returns the number of bytes accepted; the rest is
/// counted as lost.
pub fn print(stream: u8, bytes: &[u8]) -> usize {
    machine::call(call::PRINT, [stream.into(), bytes.as_ptr() as u64, bytes.len() as u64, 0]) as usize
}

/// Sends a report to the root. Returns false if the monitor refused it.
#[must_use]
pub fn report(bytes: &[u8]) -> bool {
    machine::call(call::REPORT, [bytes.as_ptr() as u64, bytes.len() as u64, 0, 0]) == 0
}

/// Receives the next order for this program into `buffer`; returns its length, or 0 if there is none. An
/// order that exceeds the buffer stays queued.
pub fn receive_order(buffer: &mut [u8]) -> usize {
    let length = machine::call(call::ORDER, [buffer.as_mut_ptr() as u64, buffer.len() as u64, 0, 0]);
    if length == call::REFUSED { 0 } else { length as usize }
}

/// Sleeps until a doorbell has rung or an order has arrived since the last sleep, or until a time of
/// [`clock_ns`]. Returns the doorbells that rang, one bit for each vector; bit 0 is set if orders are queued.
pub fn sleep(until_ns: Option<u64>) -> u64 {
    machine::call(call::SLEEP, [until_ns.unwrap_or(call::FOREVER), 0, 0, 0])
}

/// Returns nanoseconds since the board started.
#[must_use]
pub fn clock_ns() -> u64 {
    machine::clock_ns()
}

/// Returns the order that started the program.
#[must_use]
pub fn start_order() -> Vec<u8> {
    let start = start_info();
    // SAFETY: the monitor wrote it there, apart from the program's own memory.
    unsafe { core::slice::from_raw_parts(start.order_address as *const u8, start.order_bytes as usize) }
        .to_vec()
}

/// Returns the number of the program's connection to the monitors.
#[must_use]
pub fn connection() -> u32 {
    start_info().connection as u32
}

/// Returns a part of a window of the board; `None` if it does not lie inside. The memory and its clones hold
/// `owner`, so that another holder of `owner` can detect when the last of them is dropped.
#[must_use]
pub fn window(
    number: WindowId,
    offset_bytes: u64,
    length_bytes: u64,
    owner: Arc<()>,
) -> Option<SharedMemory> {
    let window = window_of(number)?;
    let end = offset_bytes.checked_add(length_bytes)?;
    if end > window.length_bytes || !offset_bytes.is_multiple_of(8) || !length_bytes.is_multiple_of(8) {
        return None;
    }
    let address = NonNull::new((window.address + offset_bytes) as *mut u8)?;
    // SAFETY: the window is mapped there, aligned, for as long as the program runs, and a program accesses
    // it only through the result of this function. The monitors' part of it traps, which is sound, if
    // final.
    Some(unsafe { SharedMemory::from_raw(address, length_bytes as usize, owner) })
}

/// Doorbell of a peer on a window.
#[derive(Clone, Copy, Debug)]
pub struct Doorbell {
    register: u64,
    target: u32,
}

impl Doorbell {
    /// Creates the doorbell on a window of the board: `target` has the peer in the upper half and the vector
    /// in the lower. `None` if the board does not have the window.
    #[must_use]
    pub fn new(number: WindowId, target: u32) -> Option<Doorbell> {
        let register = window_of(number)?.registers_address + call::DOORBELL_OFFSET_BYTES;
        Some(Doorbell { register, target })
    }

    /// Rings the doorbell, after all earlier stores.
    pub fn ring(&self) {
        // Stores to the window must be visible to the peer that is woken.
        fence(Ordering::SeqCst);
        // SAFETY: the aligned doorbell register of the window's device, which the monitor made accessible.
        unsafe { (self.register as *mut u32).write_volatile(self.target) }
    }
}

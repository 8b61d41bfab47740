//! Calls, as functions.

extern crate alloc;

use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::fmt::{self, Write};
use core::panic::PanicInfo;
use core::ptr::NonNull;

use tombolo_base::SharedMemory;
use tombolo_base::sync::{Ordering, fence};

use super::machine;
use crate::call::{self, Start};
use crate::elf::{NOTE_OWNER, NOTE_TYPE};
use crate::{heap, panic};

/// Says of a program that it is one for boards, and for which version of the calls.
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
static NOTE: Note = Note {
    owner_bytes: NOTE_OWNER.len() as u32,
    value_bytes: 4,
    kind: NOTE_TYPE,
    owner: *NOTE_OWNER,
    version: call::VERSION,
};

/// Where a program finds what it was given. Written once, before the program's first line.
struct Given(UnsafeCell<Option<Start>>);

// SAFETY: a program has one thread, and this is written before any code of it runs.
unsafe impl Sync for Given {}

static GIVEN: Given = Given(UnsafeCell::new(None));

fn given() -> Start {
    // SAFETY: see `Sync`; a copy is taken.
    let given = unsafe { *GIVEN.0.get() };
    given.expect("a program begins at its entry")
}

/// The status of a program that panicked, as Rust programs have it everywhere.
const PANICKED: u8 = 101;

/// Prepares a program and runs it.
///
/// # Safety
/// `start` is what the monitor put there for this program, and this is the first call of it.
#[doc(hidden)]
pub unsafe fn enter(start: *const Start, main: fn() -> u8) -> ! {
    panic::set(last_words);
    // SAFETY: the caller's promise.
    let start = unsafe { *start };
    // SAFETY: the first and only write, see `Given`.
    unsafe { *GIVEN.0.get() = Some(start) };
    // SAFETY: this memory is the program's and nothing of it is there, says the monitor; done once.
    unsafe { heap::set_up(start.heap_address, start.heap_bytes as usize) };
    exit(main())
}

/// Makes `main`, a `fn() -> u8` that returns the exit status, a program for a board.
#[macro_export]
macro_rules! board_program {
    ($main:path) => {
        #[unsafe(no_mangle)]
        extern "C" fn tombolo_program_entered(start: *const $crate::call::Start) -> ! {
            // SAFETY: called by the first instruction of the program, with what the monitor gave it.
            unsafe { $crate::program::enter(start, $main) }
        }
    };
}

struct Errors;

impl Write for Errors {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        print(2, text.as_bytes());
        Ok(())
    }
}

fn last_words(info: &PanicInfo<'_>) -> ! {
    let _ = writeln!(Errors, "{info}");
    exit(PANICKED)
}

/// Ends the program with this status.
pub fn exit(status: u8) -> ! {
    machine::call(call::EXIT, [status.into(), 0, 0, 0]);
    // Not reached: what has ended is not run.
    loop {
        core::hint::spin_loop();
    }
}

/// Writes to a stream: 0 the console, 1 output, 2 errors. Returns how much was taken; the rest is counted as lost.
pub fn print(stream: u8, bytes: &[u8]) -> usize {
    machine::call(call::PRINT, [stream.into(), bytes.as_ptr() as u64, bytes.len() as u64, 0]) as usize
}

/// Reports to the root; false when the monitor refused it.
#[must_use]
pub fn report(bytes: &[u8]) -> bool {
    machine::call(call::REPORT, [bytes.as_ptr() as u64, bytes.len() as u64, 0, 0]) == 0
}

/// Puts the next order for this program, if there is one, into `buffer`; returns its length, 0 for none. An order that
/// is longer than the buffer stays where it is.
pub fn order(buffer: &mut [u8]) -> usize {
    let length = machine::call(call::ORDER, [buffer.as_mut_ptr() as u64, buffer.len() as u64, 0, 0]);
    if length == call::REFUSED { 0 } else { length as usize }
}

/// Sleeps until a doorbell rang or an order came since the last sleep, or until a time of [`clock_ns`]. Returns the
/// doorbells that rang, a bit for each vector; bit 0 says that there are orders.
pub fn sleep(until_ns: Option<u64>) -> u64 {
    machine::call(call::SLEEP, [until_ns.unwrap_or(call::FOREVER), 0, 0, 0])
}

/// Nanoseconds since the board was switched on.
#[must_use]
pub fn clock_ns() -> u64 {
    machine::clock_ns()
}

/// The order by which the program was started.
#[must_use]
pub fn start_order() -> Vec<u8> {
    let start = given();
    // SAFETY: the monitor put it there, and nothing of the program's own is there.
    unsafe { core::slice::from_raw_parts(start.order_address as *const u8, start.order_bytes as usize) }
        .to_vec()
}

/// Number of the program's connection to the monitors.
#[must_use]
pub fn connection() -> u32 {
    given().connection as u32
}

/// A part of the window; `None` when it does not lie in it.
#[must_use]
pub fn window(offset_bytes: u64, length_bytes: u64) -> Option<SharedMemory> {
    let Start { window_address, window_bytes, .. } = given();
    let end = offset_bytes.checked_add(length_bytes)?;
    if end > window_bytes || !offset_bytes.is_multiple_of(8) || !length_bytes.is_multiple_of(8) {
        return None;
    }
    let address = NonNull::new((window_address + offset_bytes) as *mut u8)?;
    // SAFETY: the window is mapped there, aligned, as long as the program runs, and a program touches it only
    // through what this function returns. The monitors' part of it traps, which is sound, if final.
    Some(unsafe { SharedMemory::from_raw(address, length_bytes as usize, alloc::sync::Arc::new(())) })
}

/// Rings a doorbell of a peer in the window: peer in the upper half, vector in the lower.
pub fn ring(target: u32) {
    let register = given().registers_address + call::DOORBELL_OFFSET_BYTES;
    // What was written to the window must be seen by whoever is woken.
    fence(Ordering::SeqCst);
    // SAFETY: the doorbell register of the window's device, which the monitor put in reach, aligned.
    unsafe { (register as *mut u32).write_volatile(target) }
}

//! Startup code from the first instruction to the monitor.

use core::fmt::{self, Write};
use core::panic::PanicInfo;

use super::machine::{self, Virt};
use crate::{heap, panic};

/// Emergency console: unbuffered, usable from anywhere.
pub(super) struct EmergencyConsole;

impl Write for EmergencyConsole {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(machine::write_console);
        Ok(())
    }
}

/// Prints the reason and powers the board off.
pub(super) fn fatal(why: fmt::Arguments<'_>) -> ! {
    let _ = writeln!(EmergencyConsole, "\nboard: died: {why}");
    machine::power_off()
}

fn handle_panic(info: &PanicInfo<'_>) -> ! {
    fatal(format_args!("{info}"))
}

/// Initialises the board and runs its monitor, which never returns. The first `own_window_bytes` of the
/// window belong to the monitors and are inaccessible to programs.
///
/// Called by [`board_monitor`](crate::board_monitor) from the first instructions.
#[doc(hidden)]
pub fn start(tree_address: u64, own_window_bytes: u64, monitor: fn(Virt) -> !) -> ! {
    panic::set_handler(handle_panic);
    let board = Virt::bring_up(tree_address, own_window_bytes, |address, length_bytes| {
        // SAFETY: memory was divided and this part is the heap's; `start` is called once, by the first code
        // that runs.
        unsafe { heap::set_up(address, length_bytes) }
    });
    match board {
        Ok(board) => monitor(board),
        Err(error) => fatal(format_args!("{error}")),
    }
}

/// Makes `monitor`, a `fn(Virt) -> !`, the board's monitor; the first `own_window_bytes` of the window are
/// inaccessible to programs.
#[macro_export]
macro_rules! board_monitor {
    ($monitor:path, $own_window_bytes:expr) => {
        #[unsafe(no_mangle)]
        extern "C" fn tombolo_board_main(tree_address: u64) -> ! {
            $crate::board::start(tree_address, $own_window_bytes, $monitor)
        }
    };
}

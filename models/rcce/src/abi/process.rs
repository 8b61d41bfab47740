//! Startup, shutdown, time and error texts.

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

use core::ffi::{c_char, c_double, c_int};

use super::{Comm, SUCCESS, store};
use crate::failure::{Code, Failure, MAX_ERROR_STRING};
use crate::job::join;
use crate::layout::{DEFAULT_BUFFER_BYTES, MAX_RANKS};
use crate::world::{call, finish, guard, seconds, start, with_engine};

/// `RCCE_COMM_WORLD`: all ranks, once `RCCE_init` has returned.
#[unsafe(no_mangle)]
pub static mut RCCE_COMM_WORLD: Comm = Comm::NONE;

/// `RCCE_P_COMM`: the ranks that share this one's power, which is this one alone.
#[unsafe(no_mangle)]
pub static mut RCCE_P_COMM: Comm = Comm::NONE;

/// `RCCE_init`, with the length of message buffers for which the program was built, and the maximum number of
/// ranks.
///
/// Does not change the program's arguments, which contain none for the library.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_rcce_init(built_for_bytes: usize, max_ranks: c_int) -> c_int {
    guard(
        "RCCE_init",
        |code| code,
        || {
            if max_ranks != MAX_RANKS as c_int {
                let text = "this program was built with another RCCE.h than this library's; build it again";
                return Err(Failure::fatal(text));
            }
            seconds();
            let (rank, ranks) = start(|| join(built_for_bytes))?;
            let all: Vec<usize> = (0..ranks).collect();
            // SAFETY: the program calls this once, before it uses either; `start` has refused a second call.
            unsafe {
                RCCE_COMM_WORLD = Comm::new(&all, rank);
                RCCE_P_COMM = Comm::new(&[rank], rank);
            }
            Ok(SUCCESS)
        },
    )
}

/// `RCCE_init`, of programs that were compiled without the header's macro.
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_init(_: *mut c_int, _: *mut *mut *mut c_char) -> c_int {
    tombolo_rcce_init(DEFAULT_BUFFER_BYTES, MAX_RANKS as c_int)
}

/// `RCCE_finalize`
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_finalize() -> c_int {
    guard(
        "RCCE_finalize",
        |code| code,
        || {
            finish(|world| {
                let (sends, receives) = with_engine!(&mut world.engine, engine => {
                    engine.push();
                    engine.pending()
                });
                if sends + receives > 0 {
                    let text = format!(
                        "requests are not complete: {sends} sends, {receives} receives; wait for them before"
                    );
                    return Err(Failure::fatal(text));
                }
                world.locks.clear();
                let own = world.rank;
                let group = crate::engine::Group { members: (0..world.layout.ranks).collect(), own };
                let mut backoff = world.liveness.start_wait();
                with_engine!(&mut world.engine, engine => engine.barrier(&group, &mut || backoff.idle()))?;
                Ok(())
            })?;
            Ok(SUCCESS)
        },
    )
}

/// `RCCE_ue`
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_ue() -> c_int {
    call("RCCE_ue", |_| -1, |world| Ok(world.rank as c_int))
}

/// `RCCE_num_ues`
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_num_ues() -> c_int {
    call("RCCE_num_ues", |_| -1, |world| Ok(world.layout.ranks as c_int))
}

/// `RCCE_wtime`: seconds, from some moment of this rank on.
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_wtime() -> c_double {
    seconds()
}

/// `RCCE_error_string`
///
/// # Safety
/// `string` has room for `RCCE_MAX_ERROR_STRING` bytes, `length` for a number, or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_error_string(error: c_int, string: *mut c_char, length: *mut c_int) -> c_int {
    guard(
        "RCCE_error_string",
        |code| code,
        || {
            let text = Code::text(error);
            let shown = text.unwrap_or("there is no such error");
            // SAFETY: the caller passes a valid output pointer or null, by the contract.
            let room = unsafe { super::bytes_mut(string.cast::<u8>(), MAX_ERROR_STRING) }?;
            room[..shown.len()].copy_from_slice(shown.as_bytes());
            room[shown.len()] = 0;
            // SAFETY: as above.
            unsafe { store(length, shown.len() as c_int) }?;
            Ok(text.map_or(Code::InvalidErrorCode as c_int, |_| SUCCESS))
        },
    )
}

/// Options of `RCCE_debug_set`: all, synchronization, communication, power, debugging itself.
const DEBUG_OPTIONS: [c_int; 5] = [111_111, 111_444, 111_555, 111_666, 111_888];

fn debug(name: &str, option: c_int) -> c_int {
    guard(
        name,
        |code| code,
        || {
            if DEBUG_OPTIONS.contains(&option) { Ok(SUCCESS) } else { Err(Code::DebugFlag.into()) }
        },
    )
}

/// `RCCE_debug_set`: has no effect, as errors are always printed.
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_debug_set(option: c_int) -> c_int {
    debug("RCCE_debug_set", option)
}

/// `RCCE_debug_unset`: as [`RCCE_debug_set`].
#[unsafe(no_mangle)]
pub extern "C" fn RCCE_debug_unset(option: c_int) -> c_int {
    debug("RCCE_debug_unset", option)
}

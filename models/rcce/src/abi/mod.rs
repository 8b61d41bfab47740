//! The functions of `RCCE.h` and `iRCCE.h`, which are documented in the headers.
//!
//! The caller is responsible for what cannot be checked: pointers are null, or valid for the stated length
//! and not accessed otherwise during the call or, for requests, until they are complete.

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

pub mod collective;
pub mod flag;
pub mod message;
pub mod nonblocking;
pub mod onesided;
pub mod power;
pub mod process;
pub mod shared;
pub mod waitlist;

use core::ffi::c_int;

use crate::engine::{AcceptedLength, Group};
use crate::failure::{Code, Failure};
use crate::layout::MAX_RANKS;
use crate::world::World;

/// `RCCE_SUCCESS`
pub(crate) const SUCCESS: c_int = 0;
/// `iRCCE_PENDING`
pub(crate) const PENDING: c_int = -2;
/// `iRCCE_RESERVED`
pub(crate) const RESERVED: c_int = -3;
/// `iRCCE_NOT_ENQUEUED`
pub(crate) const NOT_ENQUEUED: c_int = -4;

/// `RCCE_COMM`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Comm {
    size: c_int,
    my_rank: c_int,
    initialized: c_int,
    member: [c_int; MAX_RANKS],
}

/// Magic value of [`Comm::initialized`], which uninitialized memory is unlikely to contain.
const INITIALIZED: c_int = 0x5243_4345;

impl Comm {
    pub(crate) const NONE: Comm = Comm { size: 0, my_rank: 0, initialized: 0, member: [0; MAX_RANKS] };

    /// Creates the communicator of these ranks.
    pub(crate) fn new(members: &[usize], own: usize) -> Comm {
        let mut comm = Comm { size: members.len() as c_int, ..Comm::NONE };
        for (slot, member) in comm.member.iter_mut().zip(members) {
            *slot = *member as c_int;
        }
        comm.my_rank = members.iter().position(|member| *member == own).unwrap_or(0) as c_int;
        comm.initialized = INITIALIZED;
        comm
    }

    /// Validates the communicator and returns its ranks.
    pub(crate) fn group(&self, world: &World) -> Result<Group, Failure> {
        let size = usize::try_from(self.size).unwrap_or(0);
        let own = usize::try_from(self.my_rank).unwrap_or(usize::MAX);
        if self.initialized != INITIALIZED || !(1..=world.layout.ranks).contains(&size) || own >= size {
            return Err(Code::CommUndefined.into());
        }
        let members = self.member[..size].iter().map(|member| world.rank_of(*member));
        let members = members.collect::<Result<Vec<usize>, Failure>>()?;
        if members[own] != world.rank {
            return Err(Code::CommUndefined.into());
        }
        Ok(Group { members, own })
    }
}

/// Returns bytes passed from C for reading.
///
/// # Safety
/// The pointer is null, or valid for reads of `length` bytes that are not modified meanwhile.
pub(crate) unsafe fn bytes<'a>(pointer: *const u8, length: usize) -> Result<&'a [u8], Failure> {
    match (pointer.is_null(), length) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::new(Code::Source, "the source is null")),
        // SAFETY: not null; the rest is the contract of this function.
        _ => Ok(unsafe { core::slice::from_raw_parts(pointer, length) }),
    }
}

/// Returns bytes passed from C for writing.
///
/// # Safety
/// As [`bytes`], for writes.
pub(crate) unsafe fn bytes_mut<'a>(pointer: *mut u8, length: usize) -> Result<&'a mut [u8], Failure> {
    match (pointer.is_null(), length) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(Failure::new(Code::Target, "the target is null")),
        // SAFETY: not null; the rest is the contract of this function.
        _ => Ok(unsafe { core::slice::from_raw_parts_mut(pointer, length) }),
    }
}

/// Stores a result through an output pointer from C.
///
/// # Safety
/// The pointer is valid for a write of a `T`, or null.
pub(crate) unsafe fn store<T>(pointer: *mut T, value: T) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Code::ValUndefined.into());
    }
    // SAFETY: not null; the rest is the contract of this function.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Validates a length in bytes from C.
pub(crate) fn length(number: isize) -> Result<usize, Failure> {
    usize::try_from(number)
        .map_err(|_| Failure::new(Code::MessageLength, format!("a length of {number} bytes is invalid")))
}

/// `iRCCE_ANY_SOURCE` and `iRCCE_ANY_LENGTH`
pub(crate) const ANY: c_int = -1;

/// `iRCCE_ANY_SOURCE`: a receive from any rank.
#[unsafe(no_mangle)]
pub static iRCCE_ANY_SOURCE: c_int = ANY;

/// `iRCCE_ANY_LENGTH`: a receive of a message of any length.
#[unsafe(no_mangle)]
pub static iRCCE_ANY_LENGTH: c_int = ANY;

/// Returns the source rank of a receive; `None` for any.
pub(crate) fn source_rank(world: &World, source: c_int) -> Result<Option<usize>, Failure> {
    if source == ANY { Ok(None) } else { world.rank_of(source).map(Some) }
}

/// Returns the lengths that a receive accepts, and that of its buffer if the program states it. With
/// `iRCCE_ANY_LENGTH` the program is responsible for providing enough room.
pub(crate) fn accepted_length(size: isize) -> Result<(AcceptedLength, Option<usize>), Failure> {
    if size == ANY as isize {
        return Ok((AcceptedLength::UpTo(MAX_ANY_BYTES), None));
    }
    length(size).map(|length| (AcceptedLength::Exactly(length), Some(length)))
}

/// Maximum length of a message for a receive of any length, in bytes.
const MAX_ANY_BYTES: usize = 1 << 30;

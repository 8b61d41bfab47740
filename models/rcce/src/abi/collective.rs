//! Communicators and collectives.

#[cfg(target_os = "none")]
use tombolo_bare::prelude::*;

use core::ffi::{c_int, c_void};

use super::{Comm, SUCCESS, bytes, bytes_mut, store};
use crate::engine::{Element, Operation};
use crate::failure::{Code, Failure};
use crate::world::{Place, World, call, with_engine};

/// Program's function that returns the color of a rank.
type Colour = Option<unsafe extern "C" fn(c_int, *mut c_void) -> c_int>;

/// `RCCE_comm_split`: the communicator of all ranks with this one's colour. Every rank computes the colours
/// of all.
///
/// # Safety
/// `colour` may be called with any rank and `argument`; `comm` has room for a communicator, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_comm_split(colour: Colour, argument: *mut c_void, comm: *mut Comm) -> c_int {
    let name = "RCCE_comm_split";
    let numbers = call(
        name,
        |_| None,
        |world| {
            if colour.is_none() || comm.is_null() {
                return Err(Code::CommUndefined.into());
            }
            Ok(Some((world.rank, world.layout.ranks)))
        },
    );
    let (Some((own, ranks)), Some(colour)) = (numbers, colour) else { return Code::CommUndefined as c_int };
    // The program's function may call this library, so the lock must not be held.
    // SAFETY: by the contract of this function.
    let colours: Vec<c_int> = (0..ranks).map(|rank| unsafe { colour(rank as c_int, argument) }).collect();
    let members: Vec<usize> = (0..ranks).filter(|rank| colours[*rank] == colours[own]).collect();
    // SAFETY: the caller passes a valid output pointer or null, by the contract.
    call(name, |code| code, |_| unsafe { store(comm, Comm::new(&members, own)) }.map(|()| SUCCESS))
}

/// `RCCE_comm_free`
///
/// # Safety
/// `comm` is a communicator, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_comm_free(comm: *mut Comm) -> c_int {
    call(
        "RCCE_comm_free",
        |code| code,
        |world| {
            // SAFETY: the caller passes a valid communicator or null, by the contract.
            let comm = unsafe { comm.as_mut() }.ok_or(Code::CommUndefined)?;
            comm.group(world)?;
            *comm = Comm::NONE;
            Ok(SUCCESS)
        },
    )
}

/// `RCCE_comm_size`
///
/// # Safety
/// `size` has room for a number, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_comm_size(comm: Comm, size: *mut c_int) -> c_int {
    call(
        "RCCE_comm_size",
        |code| code,
        |world| {
            let group = comm.group(world)?;
            // SAFETY: the caller passes a valid output pointer or null, by the contract.
            unsafe { store(size, group.members.len() as c_int) }?;
            Ok(SUCCESS)
        },
    )
}

/// `RCCE_comm_rank`
///
/// # Safety
/// `rank` has room for a number, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_comm_rank(comm: Comm, rank: *mut c_int) -> c_int {
    call(
        "RCCE_comm_rank",
        |code| code,
        |world| {
            let group = comm.group(world)?;
            // SAFETY: the caller passes a valid output pointer or null, by the contract.
            unsafe { store(rank, group.own as c_int) }?;
            Ok(SUCCESS)
        },
    )
}

fn barrier(name: &str, comm: *const Comm) -> c_int {
    call(
        name,
        |code| code,
        |world| {
            // SAFETY: the caller's communicator, by the contract of those that call this.
            let group = unsafe { comm.as_ref() }.ok_or(Code::CommUndefined)?.group(world)?;
            let mut backoff = world.liveness.start_wait();
            with_engine!(&mut world.engine, engine => engine.barrier(&group, &mut || backoff.idle()))?;
            Ok(SUCCESS)
        },
    )
}

/// `RCCE_barrier`
///
/// # Safety
/// `comm` is a communicator, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_barrier(comm: *const Comm) -> c_int {
    barrier("RCCE_barrier", comm)
}

/// `iRCCE_barrier`: without a communicator, of all ranks.
///
/// # Safety
/// As [`RCCE_barrier`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_barrier(comm: *const Comm) -> c_int {
    let all = if comm.is_null() { &raw const super::process::RCCE_COMM_WORLD } else { comm };
    barrier("iRCCE_barrier", all)
}

/// Refuses memory that other ranks write: the operation requires private memory.
fn refuse_shared(world: &World, address: *const u8, length: usize) -> Result<(), Failure> {
    match world.locate(address.addr(), length)? {
        Place::Private => Ok(()),
        Place::Shared(_) => {
            let text =
                "a collective uses private memory; put and get move what is in memory that ranks share";
            Err(Failure::new(Code::Source, text))
        }
    }
}

/// Validates the number of a group member.
fn root_of(number: c_int, size: usize) -> Result<usize, Failure> {
    let root = usize::try_from(number).ok().filter(|root| *root < size);
    root.ok_or_else(|| {
        Failure::new(
            Code::Id,
            format!("there is no root {number}; the communicator has ranks 0 to {}", size - 1),
        )
    })
}

fn broadcast(name: &str, message: *mut u8, size: usize, root: c_int, comm: &Comm) -> c_int {
    call(
        name,
        |code| code,
        |world| {
            let group = comm.group(world)?;
            let root = root_of(root, group.members.len())?;
            let length = super::length(size.cast_signed())?;
            refuse_shared(world, message, length)?;
            // SAFETY: by the contract of the callers, and not in memory that other ranks write.
            let message = unsafe { bytes_mut(message, length) }?;
            let mut backoff = world.liveness.start_wait();
            with_engine!(&mut world.engine, engine => {
                engine.broadcast(&group, root, message, &mut || backoff.idle())
            })?;
            Ok(SUCCESS)
        },
    )
}

/// `RCCE_bcast`
///
/// # Safety
/// `message` is valid for reads and writes of `size` bytes, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_bcast(message: *mut u8, size: usize, root: c_int, comm: Comm) -> c_int {
    broadcast("RCCE_bcast", message, size, root, &comm)
}

/// `iRCCE_bcast`
///
/// # Safety
/// As [`RCCE_bcast`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iRCCE_bcast(message: *mut u8, size: usize, root: c_int, comm: Comm) -> c_int {
    broadcast("iRCCE_bcast", message, size, root, &comm)
}

/// Value of `RCCE_INT`; the other types follow.
const FIRST_TYPE: c_int = 63_636_363;
/// Value of `RCCE_SUM`; the other operations follow.
const FIRST_OPERATION: c_int = 23_232_323;

fn element(number: c_int) -> Result<Element, Failure> {
    let all = [Element::Int, Element::Long, Element::Float, Element::Double];
    let index = usize::try_from(number.wrapping_sub(FIRST_TYPE)).ok();
    index.and_then(|index| all.get(index)).copied().ok_or_else(|| Code::IllegalType.into())
}

fn operation(number: c_int) -> Result<Operation, Failure> {
    let all = [Operation::Sum, Operation::Min, Operation::Max, Operation::Product];
    let index = usize::try_from(number.wrapping_sub(FIRST_OPERATION)).ok();
    index.and_then(|index| all.get(index)).copied().ok_or_else(|| Code::IllegalOp.into())
}

/// Implements both kinds of reductions; `root` is `None` if all members get the result.
fn reduce(
    name: &str,
    (input, output): (*const u8, *mut u8),
    (count, kind, operator): (c_int, c_int, c_int),
    root: Option<c_int>,
    comm: &Comm,
) -> c_int {
    call(
        name,
        |code| code,
        |world| {
            let group = comm.group(world)?;
            let root = root.map(|root| root_of(root, group.members.len())).transpose()?;
            let how = (element(kind)?, operation(operator)?);
            let length = super::length(count as isize)?.checked_mul(how.0.size_bytes());
            let length = length.filter(|length| *length <= isize::MAX as usize).ok_or(Code::MessageLength)?;
            let has_output = root.is_none_or(|root| root == group.own);
            refuse_shared(world, input, length)?;
            refuse_shared(world, output, if has_output { length } else { 0 })?;
            // SAFETY: by the contract of the callers, and not in memory that other ranks write. Copied
            // because it may overlap the output.
            let input = unsafe { bytes(input, length) }?.to_vec();
            // SAFETY: as above. A rank that gets no result needs no output buffer.
            let output = unsafe { bytes_mut(output, if has_output { length } else { 0 }) }?;
            let mut backoff = world.liveness.start_wait();
            with_engine!(&mut world.engine, engine => {
                engine.reduce(&group, root, how, &input, output, &mut || backoff.idle())
            })?;
            Ok(SUCCESS)
        },
    )
}

/// `RCCE_reduce`
///
/// # Safety
/// `input` is valid for reads of `count` elements, `output`, of the root, for writes; or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_reduce(
    input: *const u8,
    output: *mut u8,
    count: c_int,
    kind: c_int,
    operator: c_int,
    root: c_int,
    comm: Comm,
) -> c_int {
    reduce("RCCE_reduce", (input, output), (count, kind, operator), Some(root), &comm)
}

/// `RCCE_allreduce`
///
/// # Safety
/// `input` is valid for reads of `count` elements, `output` for writes; or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RCCE_allreduce(
    input: *const u8,
    output: *mut u8,
    count: c_int,
    kind: c_int,
    operator: c_int,
    comm: Comm,
) -> c_int {
    reduce("RCCE_allreduce", (input, output), (count, kind, operator), None, &comm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_operations_are_those_of_the_header() {
        assert_eq!(element(63_636_366).unwrap(), Element::Double);
        assert_eq!(operation(23_232_326).unwrap(), Operation::Product);
        assert!(element(63_636_367).is_err() && element(i32::MIN).is_err());
        assert!(operation(23_232_322).is_err() && operation(23_232_327).is_err());
    }
}

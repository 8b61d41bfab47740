//! Starting domains on any node.

use std::ffi::c_char;
use std::time::Duration;

use tombolo::{Child, Exit, SpawnOptions};

use crate::boundary::{
    check_not_null, deref, from_handle, guard, guard_value, into_handle, text, write_result,
};
use crate::domain::DomainHandle;
use crate::region::{CapabilityHandle, Part, rights_of};
use crate::status::{Failure, Status};

/// `tombolo_child`.
#[derive(Debug)]
pub struct ChildHandle {
    child: Child,
}

/// `tombolo_spawn_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Spawn {
    image: *const c_char,
    node: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    directory: *const c_char,
}

/// `tombolo_exit`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Ended {
    how: u32,
    number: u32,
}

/// Converts a null-terminated array of C strings.
///
/// # Safety
/// The pointer is null, or points to an array of pointers to C strings that ends with a null pointer.
unsafe fn c_texts<'a>(list: *const *const c_char, what: &'static str) -> Result<Vec<&'a str>, Failure> {
    let mut texts = Vec::new();
    if list.is_null() {
        return Ok(texts);
    }
    loop {
        // SAFETY: not beyond the null pointer that ends the array, by this function's safety condition.
        let one = unsafe { *list.add(texts.len()) };
        if one.is_null() {
            return Ok(texts);
        }
        // SAFETY: a C string, by this function's safety condition.
        texts.push(unsafe { text(one, what) }?);
    }
}

/// # Safety
/// As documented in `tombolo.h` for `tombolo_spawn_options`.
pub(crate) unsafe fn program(options: &Spawn) -> Result<SpawnOptions, Failure> {
    // SAFETY: texts and lists of C strings, by the contract.
    let (arguments, environment) =
        unsafe { (c_texts(options.arguments, "an argument")?, c_texts(options.environment, "a variable")?) };
    let mut spawn = if options.image.is_null() {
        SpawnOptions::this_image()
    } else {
        // SAFETY: a C string, by the contract.
        SpawnOptions::image(unsafe { text(options.image, "the image") }?)
    };
    if !options.node.is_null() {
        // SAFETY: a C string, by the contract.
        spawn = spawn.on(unsafe { text(options.node, "the node") }?);
    }
    if !options.directory.is_null() {
        // SAFETY: a C string, by the contract.
        spawn = spawn.directory(unsafe { text(options.directory, "the directory") }?);
    }
    for variable in environment {
        let (name, value) = variable
            .split_once('=')
            .ok_or_else(|| Failure::invalid(format!("'{variable}' is no variable: write NAME=VALUE")))?;
        spawn = spawn.env(name, value);
    }
    Ok(spawn.args(arguments))
}

/// `tombolo_spawn`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_spawn(
    domain: *const DomainHandle,
    options: *const Spawn,
    result: *mut *mut ChildHandle,
) -> Status {
    // SAFETY: as for this function; no list is read without elements.
    unsafe { tombolo_spawn_with(domain, options, std::ptr::null(), 0, result) }
}

/// `tombolo_given`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GivenCapability {
    name: *const c_char,
    capability: *const CapabilityHandle,
    extent: Part,
    rights: u32,
    reserved: u32,
}

/// Adds the capabilities that a program is given.
///
/// # Safety
/// `given` points to `count` elements as described in `tombolo/capabilities.h`, or `count` is 0.
unsafe fn add_given_capabilities(
    options: SpawnOptions,
    given: *const GivenCapability,
    count: usize,
) -> Result<SpawnOptions, Failure> {
    if count > 0 {
        check_not_null(given.cast_mut(), "what the program is given")?;
    }
    (0..count).try_fold(options, |options, index| {
        // SAFETY: not null and below `count`, by this function's safety condition; each element has a C
        // string and a live handle.
        let (given, name, capability) = unsafe {
            let given = *given.add(index);
            (given, text(given.name, "the name of a capability")?, deref(given.capability, "a capability")?)
        };
        let (extent, rights) = (given.extent.extent(), rights_of(given.rights)?);
        Ok(match extent.length_bytes {
            0 => options.give(name, &capability.capability, rights),
            _ => options.give_part(name, &capability.capability, extent, rights),
        })
    })
}

/// `tombolo_spawn_with`: see `tombolo/capabilities.h`.
///
/// # Safety
/// As documented in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_spawn_with(
    domain: *const DomainHandle,
    options: *const Spawn,
    given: *const GivenCapability,
    count: usize,
    result: *mut *mut ChildHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the child")?;
        // SAFETY: a live handle and options, by the contract.
        let (domain, options) =
            unsafe { (deref(domain, "the domain")?, program(deref(options, "what to start")?)?) };
        // SAFETY: `count` elements, by the contract.
        let options = unsafe { add_given_capabilities(options, given, count) }?;
        let child = into_handle(ChildHandle { child: domain.domain.spawn(&options)? });
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_result(result, child, "where to put the child") }
    })
}

/// `tombolo_child_id`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_child_id(child: *const ChildHandle) -> u64 {
    // SAFETY: a live handle, by the contract.
    guard_value(0, || Ok(unsafe { deref(child, "the child") }?.child.id().to_bits()))
}

/// `tombolo_child_wait`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_child_wait(
    child: *const ChildHandle,
    timeout_ns: u64,
    result: *mut Ended,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put how it ended")?;
        // SAFETY: a live handle, by the contract; the object is `Sync`.
        let child = unsafe { deref(child, "the child") }?;
        let ended = match child.child.wait(Duration::from_nanos(timeout_ns))? {
            Exit::Exited { status } => Ended { how: 1, number: status.into() },
            Exit::Signalled { signal } => Ended { how: 2, number: signal.into() },
            Exit::NodeLost { .. } => Ended { how: 3, number: 0 },
            Exit::Left => Ended { how: 4, number: 0 },
        };
        // SAFETY: valid for writes, by the contract.
        unsafe { write_result(result, ended, "where to put how it ended") }
    })
}

/// `tombolo_child_kill`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_child_kill(child: *const ChildHandle) -> Status {
    // SAFETY: a live handle, by the contract; the object is `Sync`.
    guard(|| Ok(unsafe { deref(child, "the child") }?.child.kill()?))
}

/// `tombolo_child_forget`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_child_forget(child: *mut ChildHandle) {
    guard(|| {
        // SAFETY: a handle that is released once, by the contract.
        drop(unsafe { from_handle(child) });
        Ok(())
    });
}

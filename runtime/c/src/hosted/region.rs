//! Regions: memory with an owner, and capabilities to it.

use std::ffi::{c_char, c_void};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use tombolo::DomainId;
use tombolo::region::{Capability, CapabilityId, CapabilityInfo, Extent, RegionInfo, RegionOptions, Rights};
use tombolo_admin::Machine;

use crate::boundary::{
    check_not_null, deref, from_handle, guard, guard_value, into_handle, text, write_result,
};
use crate::domain::DomainHandle;
use crate::status::{Failure, Status};

/// `tombolo_capability`.
#[derive(Debug)]
pub struct CapabilityHandle {
    pub(crate) capability: Capability,
}

/// `tombolo_extent`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Part {
    offset: u64,
    length: u64,
}

impl Part {
    pub(crate) fn of(extent: Extent) -> Part {
        Part { offset: extent.offset_bytes, length: extent.length_bytes }
    }

    pub(crate) fn extent(self) -> Extent {
        Extent::new(self.offset, self.length)
    }
}

/// `tombolo_region_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Options {
    length: u64,
    node: *const c_char,
    huge_page_bytes: u64,
    flags: u32,
    numa_node: u32,
    alignment_bytes: u64,
}

/// `TOMBOLO_IN_WINDOW`, `TOMBOLO_ON_NUMA_NODE` and `TOMBOLO_COHERENT`.
const IN_WINDOW: u32 = 1;
const ON_NUMA_NODE: u32 = 2;
const COHERENT: u32 = 4;

/// `tombolo_capability_info`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CapabilityRecord {
    id: u64,
    region: u64,
    holder: u64,
    parent: u64,
    extent: Part,
    rights: u32,
    revoked: u32,
}

impl CapabilityRecord {
    fn of(info: &CapabilityInfo) -> CapabilityRecord {
        CapabilityRecord {
            id: info.id.0,
            region: info.region.to_bits(),
            holder: info.holder.to_bits(),
            parent: info.parent.map_or(0, |parent| parent.0),
            extent: Part::of(info.extent),
            rights: info.rights.bits().into(),
            revoked: info.revoked.into(),
        }
    }
}

/// `tombolo_region_info`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RegionRecord {
    id: u64,
    length: u64,
    maker: u64,
    backing: u32,
    seal: u32,
    capabilities: u32,
    mappings: u32,
}

impl RegionRecord {
    fn of(info: &RegionInfo) -> RegionRecord {
        RegionRecord {
            id: info.id.to_bits(),
            length: info.length_bytes,
            maker: info.maker.to_bits(),
            backing: info.backing as u32,
            seal: info.seal as u32,
            capabilities: info.capabilities,
            mappings: info.mappings,
        }
    }
}

/// `tombolo_shown`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ShownCapability {
    capability: CapabilityRecord,
    region: RegionRecord,
    foreign_address: u64,
    foreign_pid: i32,
    reserved: u32,
}

/// `tombolo_revoked`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RevokedCounts {
    removed: u32,
    killed: u32,
    first_killed: u64,
}

pub(crate) fn rights_of(bits: u32) -> Result<Rights, Failure> {
    let rights = u8::try_from(bits).ok().and_then(Rights::from_bits);
    rights.ok_or_else(|| {
        Failure::invalid(format!("there are no rights {bits:#x}: use TOMBOLO_READ and the like"))
    })
}

fn domain_of(id: u64) -> Result<DomainId, Failure> {
    DomainId::from_bits(id)
        .ok_or_else(|| Failure::new(Status::NoSuchDomain, format!("{id:#x} is no domain's id")))
}

/// # Safety
/// As documented in `tombolo.h` for `tombolo_region_options`.
unsafe fn read(options: &Options) -> Result<RegionOptions, Failure> {
    if options.flags & !(IN_WINDOW | ON_NUMA_NODE | COHERENT) != 0 {
        return Err(Failure::invalid("a region was to have flags that this library does not know"));
    }
    let mut region = RegionOptions::new(options.length).alignment_bytes(options.alignment_bytes);
    if options.flags & COHERENT != 0 {
        region = region.coherent();
    }
    match (options.node.is_null(), options.flags & IN_WINDOW != 0) {
        (true, false) => {}
        (true, true) => return Err(Failure::invalid("a window is that of a node: name it")),
        // SAFETY: a C string, by the contract.
        (false, false) => region = region.on(unsafe { text(options.node, "the node") }?),
        // SAFETY: a C string, by the contract.
        (false, true) => region = region.in_window_of(unsafe { text(options.node, "the node") }?),
    }
    if options.huge_page_bytes != 0 {
        region = region.huge_pages(options.huge_page_bytes);
    }
    if options.flags & ON_NUMA_NODE != 0 {
        let numa_node = u16::try_from(options.numa_node);
        region = region.numa_node(numa_node.map_err(|_| Failure::invalid("there is no such NUMA node"))?);
    }
    Ok(region)
}

/// Returns a capability to C.
///
/// # Safety
/// Like [`write_result`].
pub(crate) unsafe fn write_capability(
    result: *mut *mut CapabilityHandle,
    capability: Capability,
) -> Result<(), Failure> {
    // SAFETY: this function's safety condition.
    unsafe {
        write_result(result, into_handle(CapabilityHandle { capability }), "where to put the capability")
    }
}

/// `tombolo_create_region`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_create_region(
    domain: *const DomainHandle,
    options: *const Options,
    result: *mut *mut CapabilityHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the capability")?;
        // SAFETY: a live handle and options, by the contract.
        let (domain, options) =
            unsafe { (deref(domain, "the domain")?, read(deref(options, "what to make")?)?) };
        let region = domain.domain.create_region(&options)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_capability(result, region.into_capability()) }
    })
}

/// `tombolo_region_of_file`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_region_of_file(
    domain: *const DomainHandle,
    descriptor: i32,
    length: u64,
    result: *mut *mut CapabilityHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the capability")?;
        if descriptor < 0 {
            return Err(Failure::invalid(format!("{descriptor} is no descriptor")));
        }
        // SAFETY: a live handle, by the contract.
        let domain = unsafe { deref(domain, "the domain") }?;
        // SAFETY: not negative; by the contract it is open and stays open until this function returns.
        let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let region = domain.domain.region_of_file(file, length)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_capability(result, region.into_capability()) }
    })
}

/// `tombolo_register_memory`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_register_memory(
    domain: *const DomainHandle,
    address: *const c_void,
    length: u64,
    result: *mut *mut CapabilityHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the capability")?;
        check_not_null(address.cast_mut(), "the memory")?;
        // SAFETY: a live handle, by the contract.
        let domain = unsafe { deref(domain, "the domain") }?;
        let region = domain.domain.register_memory(address.cast(), length)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_capability(result, region.into_capability()) }
    })
}

/// `tombolo_take_capability`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_take_capability(
    domain: *const DomainHandle,
    id: u64,
    result: *mut *mut CapabilityHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the capability")?;
        // SAFETY: a live handle, by the contract.
        let capability = unsafe { deref(domain, "the domain") }?.domain.capability(CapabilityId(id))?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_capability(result, capability) }
    })
}

/// Writes an array to the caller's buffer.
///
/// # Safety
/// `list` is valid for writes of `capacity` elements, or null if that is 0; `count` as for [`write_result`].
unsafe fn write_array<T>(all: &[T], list: *mut T, capacity: usize, count: *mut usize) -> Result<(), Failure>
where
    T: Copy,
{
    // SAFETY: valid for a write of a number, by this function's safety condition.
    unsafe { write_result(count, all.len(), "where to put the number") }?;
    if all.len() > capacity {
        let text = format!("there are {}, and room for {capacity}", all.len());
        return Err(Failure::new(Status::BufferTooShort, text));
    }
    if !all.is_empty() {
        check_not_null(list, "where to put the list")?;
        // SAFETY: not null, with room for `capacity` elements, of which at most that many are written; both
        // arrays have the same element type.
        unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), list, all.len()) };
    }
    Ok(())
}

/// `tombolo_capabilities`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_capabilities(
    domain: *const DomainHandle,
    list: *mut CapabilityRecord,
    capacity: usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: a live handle, by the contract.
        let all = unsafe { deref(domain, "the domain") }?.domain.capabilities()?;
        let all: Vec<CapabilityRecord> = all.iter().map(CapabilityRecord::of).collect();
        // SAFETY: valid for writes, by the contract.
        unsafe { write_array(&all, list, capacity, count) }
    })
}

/// `tombolo_regions`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_regions(
    domain: *const DomainHandle,
    list: *mut RegionRecord,
    capacity: usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: a live handle, by the contract.
        let all = Machine::of(&unsafe { deref(domain, "the domain") }?.domain).regions()?;
        let all: Vec<RegionRecord> = all.iter().map(RegionRecord::of).collect();
        // SAFETY: valid for writes, by the contract.
        unsafe { write_array(&all, list, capacity, count) }
    })
}

/// Returns the capability of a handle.
///
/// # Safety
/// The pointer is null, or a live handle.
pub(crate) unsafe fn capability_of<'a>(pointer: *const CapabilityHandle) -> Result<&'a Capability, Failure> {
    // SAFETY: this function's safety condition; the object is `Sync`.
    Ok(&unsafe { deref(pointer, "the capability") }?.capability)
}

/// `tombolo_capability_id`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_capability_id(capability: *const CapabilityHandle) -> u64 {
    // SAFETY: a live handle, by the contract.
    guard_value(0, || Ok(unsafe { capability_of(capability) }?.id().0))
}

/// `tombolo_capability_region`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_capability_region(capability: *const CapabilityHandle) -> u64 {
    // SAFETY: a live handle, by the contract.
    guard_value(0, || Ok(unsafe { capability_of(capability) }?.region().to_bits()))
}

/// `tombolo_capability_extent`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_capability_extent(capability: *const CapabilityHandle) -> Part {
    // SAFETY: a live handle, by the contract.
    guard_value(Part::default(), || Ok(Part::of(unsafe { capability_of(capability) }?.extent())))
}

/// `tombolo_capability_rights`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_capability_rights(capability: *const CapabilityHandle) -> u32 {
    // SAFETY: a live handle, by the contract.
    guard_value(0, || Ok(unsafe { capability_of(capability) }?.rights().bits().into()))
}

/// `tombolo_derive`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_derive(
    capability: *const CapabilityHandle,
    extent: *const Part,
    rights: u32,
    result: *mut *mut CapabilityHandle,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put the capability")?;
        // SAFETY: a live handle and an extent or null, by the contract.
        let (capability, extent) = unsafe { (capability_of(capability)?, extent.as_ref()) };
        let derived = capability.derive(extent.map(|extent| extent.extent()), rights_of(rights)?)?;
        // SAFETY: valid for a write of a pointer, by the contract.
        unsafe { write_capability(result, derived) }
    })
}

/// `tombolo_grant`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_grant(
    capability: *const CapabilityHandle,
    domain: u64,
    extent: *const Part,
    rights: u32,
    id: *mut u64,
) -> Status {
    guard(|| {
        check_not_null(id, "where to put the id")?;
        let (domain, rights) = (domain_of(domain)?, rights_of(rights)?);
        // SAFETY: a live handle and an extent or null, by the contract.
        let granted = match unsafe { (capability_of(capability)?, extent.as_ref()) } {
            (capability, None) => capability.grant(domain, rights)?,
            (capability, Some(extent)) => capability.grant_part(domain, extent.extent(), rights)?,
        };
        // SAFETY: valid for a write of a number, by the contract.
        unsafe { write_result(id, granted.id.0, "where to put the id") }
    })
}

/// `tombolo_give`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_give(capability: *const CapabilityHandle, domain: u64) -> Status {
    guard(|| {
        // SAFETY: a live handle, by the contract.
        unsafe { capability_of(capability) }?.give(domain_of(domain)?)?;
        Ok(())
    })
}

/// `tombolo_keep`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_keep(capability: *const CapabilityHandle) -> u64 {
    // SAFETY: a live handle, by the contract.
    guard_value(0, || Ok(unsafe { capability_of(capability) }?.keep().0))
}

/// `tombolo_show`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_show(
    capability: *const CapabilityHandle,
    result: *mut ShownCapability,
) -> Status {
    guard(|| {
        check_not_null(result, "where to put what is shown")?;
        // SAFETY: a live handle, by the contract.
        let shown = unsafe { capability_of(capability) }?.show()?;
        let (foreign_address, foreign_pid) = shown.foreign.map_or((0, 0), |place| (place.address, place.pid));
        let (capability, region) = (CapabilityRecord::of(&shown.capability), RegionRecord::of(&shown.region));
        let seen = ShownCapability { capability, region, foreign_address, foreign_pid, reserved: 0 };
        // SAFETY: valid for writes, by the contract.
        unsafe { write_result(result, seen, "where to put what is shown") }
    })
}

/// `tombolo_revoke`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_revoke(
    capability: *const CapabilityHandle,
    itself: bool,
    timeout_ns: u64,
    result: *mut RevokedCounts,
) -> Status {
    guard(|| {
        // SAFETY: a live handle, by the contract.
        let capability = unsafe { capability_of(capability) }?;
        let timeout = Duration::from_nanos(timeout_ns);
        let revoked = if itself { capability.revoke_all(timeout)? } else { capability.revoke(timeout)? };
        if !result.is_null() {
            let killed = u32::try_from(revoked.killed.len()).unwrap_or(u32::MAX);
            let first_killed = revoked.killed.first().map_or(0, |domain| domain.to_bits());
            let gone = RevokedCounts { removed: revoked.removed, killed, first_killed };
            // SAFETY: valid for writes, by the contract.
            unsafe { write_result(result, gone, "where to put what was revoked") }?;
        }
        Ok(())
    })
}

/// `tombolo_freeze`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_freeze(capability: *const CapabilityHandle) -> Status {
    // SAFETY: a live handle, by the contract.
    guard(|| Ok(unsafe { capability_of(capability) }?.freeze()?))
}

/// `tombolo_seal_to_sole_writer`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_seal_to_sole_writer(capability: *const CapabilityHandle) -> Status {
    // SAFETY: a live handle, by the contract.
    guard(|| Ok(unsafe { capability_of(capability) }?.seal_to_sole_writer()?))
}

/// `tombolo_capability_drop`: see `tombolo.h`.
///
/// # Safety
/// As documented in `tombolo.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_capability_drop(capability: *mut CapabilityHandle) {
    guard(|| {
        // SAFETY: a handle that is released once, by the contract.
        drop(unsafe { from_handle(capability) });
        Ok(())
    });
}

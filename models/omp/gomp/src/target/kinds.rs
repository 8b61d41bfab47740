//! Decodes GCC's description of the data of a device construct: lists of addresses, sizes and kinds.

use std::ffi::c_void;
use std::ptr;

use tombolo_omp_team::device::calls;
use tombolo_omp_team::device::command::Construct;
use tombolo_omp_team::device::mapping::{
    ALWAYS, COPIED, DELETE, FROM, IMPLICIT, Item, ItemAction, PRESENT, STAGED, TO,
};
use tombolo_omp_team::primitives::sys;
use tombolo_omp_team::team::root::Root;

/// Bits of the kind; the logarithm of the alignment is above.
pub(super) const KIND: u16 = 0xff;
/// Kind of `firstprivate` data.
pub(super) const FIRSTPRIVATE: u16 = 0xc;

/// Bits that mark data the program uses without naming it.
const UNNAMED: u16 = 0x60;

/// Decodes a kind: the action, its flags, and whether the word at the address is a pointer to read. `None`
/// for kinds that OpenMP does not use.
fn decode_kind(kind: u16) -> Option<(ItemAction, u32, bool)> {
    if kind & UNNAMED == UNNAMED {
        let (action, flags, is_pointer) = decode_kind(kind & !UNNAMED)?;
        return Some((action, flags | IMPLICIT, is_pointer));
    }
    let data = |flags| Some((ItemAction::Map, flags, false));
    match kind {
        0 | 0x17 => data(0),
        1 => data(TO),
        2 => data(FROM),
        3 => data(TO | FROM),
        // Pointer of the preceding array section.
        4 | 0x1e => Some((ItemAction::Pointer, 0, true)),
        6 => data(PRESENT),
        7 => data(DELETE),
        // A zero-length array section needs only its address.
        0xf => Some((ItemAction::Find, 0, false)),
        0x1f => Some((ItemAction::Find, DELETE, false)),
        // `use_device_ptr` and `use_device_addr`.
        0xe | 0x10 => Some((ItemAction::Use, 0, false)),
        0x11 => data(ALWAYS | TO),
        0x12 => data(ALWAYS | FROM),
        0x13 => data(ALWAYS | TO | FROM),
        0x1c => Some((ItemAction::Struct, 0, false)),
        0x1d => Some((ItemAction::Point, 0, true)),
        0x50 | 0x52 => Some((ItemAction::Attach, 0, true)),
        0x51 => Some((ItemAction::Detach, 0, true)),
        0xd1 => Some((ItemAction::Detach, DELETE, true)),
        _ => None,
    }
}

/// Creates the items of a construct's data.
///
/// # Safety
/// Each list has `count` entries, with data of these sizes at these addresses.
pub(super) unsafe fn decode_items(
    root: &'static Root,
    construct: Construct,
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *const usize,
    kinds: *const u16,
) -> Vec<Item> {
    let one = |index: usize| {
        // SAFETY: guaranteed by the caller.
        let (host, size, kind) =
            unsafe { ((*addresses.add(index)) as usize, *sizes.add(index), *kinds.add(index)) };
        // SAFETY: guaranteed by the caller.
        unsafe { decode_item(root, construct, host, size, kind) }
    };
    (0..count).map(one).collect()
}

/// # Safety
/// The data exists.
unsafe fn decode_item(
    root: &'static Root,
    construct: Construct,
    host: usize,
    size: usize,
    kind: u16,
) -> Item {
    const INTEGER: u16 = 0xd;
    let literal = Item::new(ItemAction::Literal, host, 0, 0);
    if kind & KIND == FIRSTPRIVATE {
        let align = 1_usize << (kind >> 8).min(12);
        let Some(copy) = root.store.allocate(size.max(1), align.max(16)) else { root.store.exhausted() };
        // SAFETY: the copy has that length, and so has the original, as the caller guarantees.
        unsafe { ptr::copy_nonoverlapping(host as *const u8, copy, size) };
        return Item { result: copy as usize, flags: COPIED, ..literal };
    }
    if kind & KIND == INTEGER || host == 0 {
        return literal;
    }
    let Some((action, flags, is_pointer)) = decode_kind(kind & KIND) else {
        sys::fatal(format_args!(
            "{}: data of kind {:#x} is not supported: it is OpenACC's or Fortran's, or of another GCC than 12",
            construct.name(),
            kind & KIND
        ));
    };
    let mut item = Item::new(action, host, size, flags);
    if is_pointer {
        // SAFETY: the caller guarantees that a pointer is at this address.
        item.value = unsafe { (host as *const usize).read_unaligned() };
    }
    if !calls::is_shared(root, host) {
        // Only this process can access it.
        item.device_view = 0;
        if action == ItemAction::Map && size > 0 {
            let Some(stage) = root.store.allocate(size, 64) else { root.store.exhausted() };
            item.device_view = stage as usize;
            item.flags |= STAGED;
            // SAFETY: guaranteed by the caller; the copy has the same length.
            unsafe { stage_in(&item) };
        }
    }
    item
}

/// Copies data that only this process has to where the device can access it.
///
/// # Safety
/// The item's data exists.
pub(super) unsafe fn stage_in(item: &Item) {
    if item.flags & STAGED != 0 {
        // SAFETY: guaranteed by the caller; the copy has the same length.
        unsafe { ptr::copy_nonoverlapping(item.host as *const u8, item.device_view as *mut u8, item.bytes) };
    }
}

/// Copies data that came back from a device to where only this process has it.
///
/// # Safety
/// The item's data exists.
pub(super) unsafe fn stage_out(item: &Item) {
    if item.flags & STAGED != 0 && item.copied_back != 0 {
        // SAFETY: guaranteed by the caller; the copy has the same length.
        unsafe { ptr::copy_nonoverlapping(item.device_view as *const u8, item.host as *mut u8, item.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmp_kinds_are_decoded_and_openacc_kinds_are_not() {
        assert_eq!(decode_kind(3), Some((ItemAction::Map, TO | FROM, false)));
        assert_eq!(decode_kind(0x13), Some((ItemAction::Map, ALWAYS | TO | FROM, false)));
        assert_eq!(decode_kind(0x63), Some((ItemAction::Map, IMPLICIT | TO | FROM, false)));
        assert_eq!(decode_kind(7), Some((ItemAction::Map, DELETE, false)));
        assert_eq!(decode_kind(0xd1), Some((ItemAction::Detach, DELETE, true)));
        // force_to, force_deviceptr, device_resident, link, TO_PSET.
        for kind in [0x81, 0x83, 8, 9, 10, 5] {
            assert_eq!(decode_kind(kind), None, "{kind:#x}");
        }
    }
}

//! What GCC says of data that a construct for a device names: three lists, of addresses, of sizes and of
//! kinds.

use std::ffi::c_void;
use std::ptr;

use tombolo_omp_team::device::calls;
use tombolo_omp_team::device::mapping::{
    ALWAYS, COPIED, FROM, IMPLICIT, Item, PRESENT, STAGED, TO, WHOLLY, What,
};
use tombolo_omp_team::device::order::Construct;
use tombolo_omp_team::primitives::sys;
use tombolo_omp_team::team::root::Root;

/// The bits of a kind; above is the logarithm of the alignment.
pub(super) const KIND: u16 = 0xff;
/// Data that the region gets a copy of.
pub(super) const FIRSTPRIVATE: u16 = 0xc;

/// The bits of a kind of what the program uses without naming it.
const UNNAMED: u16 = 0x60;

/// What is to be done for a kind, how, and whether the word at the address is wanted; `None` for those that
/// OpenMP has no use for.
fn meaning(kind: u16) -> Option<(What, u32, bool)> {
    if kind & UNNAMED == UNNAMED {
        let (what, flags, is_pointer) = meaning(kind & !UNNAMED)?;
        return Some((what, flags | IMPLICIT, is_pointer));
    }
    let data = |flags| Some((What::Map, flags, false));
    match kind {
        0 | 0x17 => data(0),
        1 => data(TO),
        2 => data(FROM),
        3 => data(TO | FROM),
        // A pointer that belongs to the section before it.
        4 | 0x1e => Some((What::Pointer, 0, true)),
        6 => data(PRESENT),
        7 => data(WHOLLY),
        // Of a part of an array without elements only the place is wanted.
        0xf => Some((What::Find, 0, false)),
        0x1f => Some((What::Find, WHOLLY, false)),
        // `use_device_ptr` and `use_device_addr`.
        0xe | 0x10 => Some((What::Use, 0, false)),
        0x11 => data(ALWAYS | TO),
        0x12 => data(ALWAYS | FROM),
        0x13 => data(ALWAYS | TO | FROM),
        0x1c => Some((What::Struct, 0, false)),
        0x1d => Some((What::Point, 0, true)),
        0x50 | 0x52 => Some((What::Attach, 0, true)),
        0x51 => Some((What::Detach, 0, true)),
        0xd1 => Some((What::Detach, WHOLLY, true)),
        _ => None,
    }
}

/// What a construct names, for a device.
///
/// # Safety
/// There are `count` entries in each list, with such sizes at such addresses.
pub(super) unsafe fn read(
    root: &'static Root,
    construct: Construct,
    count: usize,
    addresses: *mut *mut c_void,
    sizes: *const usize,
    kinds: *const u16,
) -> Vec<Item> {
    let one = |index: usize| {
        // SAFETY: the caller says so.
        let (host, size, kind) =
            unsafe { ((*addresses.add(index)) as usize, *sizes.add(index), *kinds.add(index)) };
        // SAFETY: the caller says so.
        unsafe { read_one(root, construct, host, size, kind) }
    };
    (0..count).map(one).collect()
}

/// # Safety
/// There is such data.
unsafe fn read_one(root: &'static Root, construct: Construct, host: usize, size: usize, kind: u16) -> Item {
    const INTEGER: u16 = 0xd;
    let literal = Item::new(What::Literal, host, 0, 0);
    if kind & KIND == FIRSTPRIVATE {
        let align = 1_usize << (kind >> 8).min(12);
        let Some(copy) = root.store.allocate(size.max(1), align.max(16)) else { root.store.exhausted() };
        // SAFETY: the copy is that long, and the caller says that the original is.
        unsafe { ptr::copy_nonoverlapping(host as *const u8, copy, size) };
        return Item { result: copy as usize, flags: COPIED, ..literal };
    }
    if kind & KIND == INTEGER || host == 0 {
        return literal;
    }
    let Some((what, flags, is_pointer)) = meaning(kind & KIND) else {
        sys::fatal(format_args!(
            "{}: data of kind {:#x} is not supported: it is OpenACC's or Fortran's, or of another GCC than 12",
            construct.name(),
            kind & KIND
        ));
    };
    let mut item = Item::new(what, host, size, flags);
    if is_pointer {
        // SAFETY: there is a pointer.
        item.value = unsafe { (host as *const usize).read_unaligned() };
    }
    if !calls::is_shared(root, host) {
        // Only this process has it.
        item.seen = 0;
        if what == What::Map && size > 0 {
            let Some(stage) = root.store.allocate(size, 64) else { root.store.exhausted() };
            item.seen = stage as usize;
            item.flags |= STAGED;
            // SAFETY: the caller says so; there is room for as much.
            unsafe { stage_in(&item) };
        }
    }
    item
}

/// Has a thread of a device see what only this process has.
///
/// # Safety
/// The item is there.
pub(super) unsafe fn stage_in(item: &Item) {
    if item.flags & STAGED != 0 {
        // SAFETY: the caller says so; there is room for as much.
        unsafe { ptr::copy_nonoverlapping(item.host as *const u8, item.seen as *mut u8, item.bytes) };
    }
}

/// Brings what came back to where only this process has it.
///
/// # Safety
/// The item is there.
pub(super) unsafe fn stage_out(item: &Item) {
    if item.flags & STAGED != 0 && item.came_back != 0 {
        // SAFETY: the caller says so; there is as much.
        unsafe { ptr::copy_nonoverlapping(item.seen as *const u8, item.host as *mut u8, item.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_gcc_have_a_meaning_and_those_of_openacc_have_none() {
        assert_eq!(meaning(3), Some((What::Map, TO | FROM, false)));
        assert_eq!(meaning(0x13), Some((What::Map, ALWAYS | TO | FROM, false)));
        assert_eq!(meaning(0x63), Some((What::Map, IMPLICIT | TO | FROM, false)));
        assert_eq!(meaning(7), Some((What::Map, WHOLLY, false)));
        assert_eq!(meaning(0xd1), Some((What::Detach, WHOLLY, true)));
        // force_to, force_deviceptr, device_resident, link, TO_PSET.
        for kind in [0x81, 0x83, 8, 9, 10, 5] {
            assert_eq!(meaning(kind), None, "{kind:#x}");
        }
    }
}

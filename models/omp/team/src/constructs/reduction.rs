//! Task reductions: the private copies of variables that tasks accumulate into.
//!
//! GCC passes arrays of words: `[0]` is the number of variables, `[1]` the size of a thread's copies in
//! bytes, `[2]` first their alignment and then their address, `[4]` the next array, `[6]` the end of the
//! copies. From `[7]` on there are three words per variable: its address, the offset of its copy, and one for
//! the run-time. `[5]` is for the run-time too: it marks the first array of a construct.

use std::ptr;
use std::slice;

use super::barrier::barrier;
use super::group;
use crate::primitives::sys;
use crate::team::group::Group;
use crate::team::thread::Thread;

const COUNT: usize = 0;
const SIZE: usize = 1;
const MEMORY: usize = 2;
const NEXT: usize = 4;
const FIRST: usize = 5;
const END: usize = 6;
const VARIABLES: usize = 7;
const WORDS: usize = 3;

/// List of the arrays of a construct and of enclosing ones.
#[derive(Clone, Copy)]
struct Array(*mut usize);

impl Array {
    fn get(self, index: usize) -> usize {
        // SAFETY: the first word of the array determines its length; indices are below that.
        unsafe { *self.0.add(index) }
    }

    fn set(self, index: usize, value: usize) {
        // SAFETY: as above.
        unsafe { *self.0.add(index) = value };
    }

    fn next(self) -> Option<Self> {
        let next = self.get(NEXT) as *mut usize;
        (!next.is_null()).then_some(Self(next))
    }

    fn variable(self, index: usize) -> (usize, usize) {
        (self.get(VARIABLES + WORDS * index), self.get(VARIABLES + WORDS * index + 1))
    }

    /// Finds the address and offset of a variable from its address or that of a copy.
    fn find(self, address: usize) -> Option<(usize, usize)> {
        let known = (0..self.get(COUNT)).map(|index| self.variable(index));
        if let Some(found) = known.clone().find(|&(original, _)| original == address) {
            return Some(found);
        }
        if !(self.get(MEMORY)..self.get(END)).contains(&address) {
            return None;
        }
        let offset = (address - self.get(MEMORY)) % self.get(SIZE).max(1);
        let original = known.clone().find(|&(_, at)| at == offset).map_or(0, |(original, _)| original);
        Some((original, offset))
    }
}

/// Allocates the copies of a construct's variables, or takes over `others`, those that the first thread
/// allocated.
fn register(me: &'static Thread, data: *mut usize, outer: *mut usize, others: *mut usize, threads: u32) {
    let mut array = Array(data);
    let mut existing = others;
    array.set(FIRST, 1);
    loop {
        if existing.is_null() {
            let bytes = array.get(SIZE) * threads as usize;
            let Some(memory) = me.store().allocate(bytes.max(1), array.get(MEMORY).max(16)) else {
                me.store().exhausted()
            };
            // SAFETY: the memory was allocated with this length.
            unsafe { ptr::write_bytes(memory, 0, bytes) };
            array.set(MEMORY, memory as usize);
            array.set(END, memory as usize + bytes);
        } else {
            let other = Array(existing);
            array.set(MEMORY, other.get(MEMORY));
            array.set(END, other.get(END));
            existing = other.get(NEXT) as *mut usize;
        }
        match array.next() {
            Some(next) => {
                array = next;
                array.set(FIRST, 0);
            }
            None => {
                array.set(NEXT, outer as usize);
                return;
            }
        }
    }
}

/// Registers variables with the thread's innermost group.
pub fn register_in_group(me: &'static Thread, data: *mut usize, others: *mut usize) {
    let Some(group) = me.task().group() else { return };
    register(me, data, group.reductions.get(), others, me.team().size());
    group.reductions.set(data);
}

/// Creates the group of a region with task reductions, for `threads` threads.
pub fn create_region_group(me: &'static Thread, data: *mut usize, threads: u32) -> &'static Group {
    let group = Group::create(me.store(), &me.parker, None);
    register(me, data, ptr::null_mut(), ptr::null_mut(), threads);
    group.reductions.set(data);
    group
}

/// Begins the group of a worksharing construct with task reductions.
pub fn begin_construct(me: &'static Thread) {
    group::start(me).workshare.set(true);
}

/// Frees the copies of a construct.
pub fn unregister(me: &'static Thread, data: *mut usize) {
    let mut array = Some(Array(data));
    while let Some(this) = array {
        // SAFETY: `register` allocated it from the store.
        unsafe { me.store().release(this.get(MEMORY) as *mut u8) };
        array = this.next().filter(|next| next.get(FIRST) == 0);
    }
}

/// Ends the group of a worksharing construct; thread 0 frees the copies.
pub fn end_construct(me: &'static Thread, cancelled: bool) {
    let data = me.task().group().map_or(ptr::null_mut(), |group| group.reductions.get());
    group::end(me);
    if me.id() == 0 && !data.is_null() {
        unregister(me, data);
    }
    if !cancelled {
        barrier(me, false);
    }
}

/// Replaces addresses of variables or of copies by those of this thread's copies. For the first `originals`
/// of them, appends the variables' own addresses.
///
/// # Safety
/// There must be `count + originals` words at `addresses`.
pub unsafe fn remap(me: &'static Thread, count: usize, originals: usize, addresses: *mut usize) {
    let id = me.id() as usize;
    let first = me.task().group().map_or(ptr::null_mut(), |group| group.reductions.get());
    // SAFETY: guaranteed by the caller.
    let addresses = unsafe { slice::from_raw_parts_mut(addresses, count + originals) };
    for index in 0..count {
        let mut array = (!first.is_null()).then_some(Array(first));
        let found = loop {
            let Some(this) = array else {
                sys::fatal("in_reduction: no task_reduction around it names the variable")
            };
            if let Some((original, offset)) = this.find(addresses[index]) {
                break (this, original, offset);
            }
            array = this.next();
        };
        let (array, original, offset) = found;
        addresses[index] = array.get(MEMORY) + id * array.get(SIZE) + offset;
        if index < originals {
            addresses[count + index] = original;
        }
    }
}

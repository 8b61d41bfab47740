//! Copies between devices, synchronously or by a task.

use std::ffi::c_void;
use std::slice;

use tombolo_omp_team::constructs::tasks::{self, NewTask};
use tombolo_omp_team::device::calls;
use tombolo_omp_team::job::start;
use tombolo_omp_team::primitives::separate_processes;
use tombolo_omp_team::team::depend::Dependence;
use tombolo_omp_team::team::root::Root;
use tombolo_omp_team::team::thread::Thread;

use super::defer;
use super::memory::node_of;
use crate::tasks::decode_depend_objects;

/// Maximum number of dimensions of a block.
const DIMENSIONS: usize = 64;

/// Address on a device, given by its node; `None` is the host.
type DeviceAddress = (Option<u32>, usize);

/// Block within an array: for each dimension, its length, its offset and the length of the array.
#[derive(Clone, Copy)]
struct Block {
    target: DeviceAddress,
    source: DeviceAddress,
    element: usize,
    dimensions: usize,
    lengths: *const usize,
    target_offsets: *const usize,
    source_offsets: *const usize,
    target_lengths: *const usize,
    source_lengths: *const usize,
}

/// Number of words of a serialized block before its lists.
const HEADER: usize = 6;
/// Number of lists of a block, each with a word for each dimension.
const LISTS: usize = 5;

impl Block {
    fn lists(&self) -> [*const usize; LISTS] {
        [self.lengths, self.target_offsets, self.source_offsets, self.target_lengths, self.source_lengths]
    }

    /// Serializes the block for a task, because the program's lists may be gone when the task runs.
    ///
    /// # Safety
    /// The lists have `dimensions` elements.
    unsafe fn to_words(self) -> Vec<usize> {
        let word = |node: Option<u32>| node.unwrap_or(0) as usize;
        let ((to, target), (from, source)) = (self.target, self.source);
        let mut words = vec![word(to), target, word(from), source, self.element, self.dimensions];
        for list in self.lists() {
            // SAFETY: guaranteed by the caller.
            words.extend_from_slice(unsafe { slice::from_raw_parts(list, self.dimensions) });
        }
        words
    }

    /// Deserializes a block; its lists point into the words.
    ///
    /// # Safety
    /// `words` came from [`Self::to_words`].
    unsafe fn from_words(words: *const usize) -> Self {
        // SAFETY: guaranteed by the caller.
        let word = |index: usize| unsafe { *words.add(index) };
        let node = |index: usize| u32::try_from(word(index)).ok().filter(|&node| node > 0);
        let dimensions = word(HEADER - 1);
        let list = |index: usize| words.wrapping_add(HEADER + index * dimensions);
        Self {
            target: (node(0), word(1)),
            source: (node(2), word(3)),
            element: word(4),
            dimensions,
            lengths: list(0),
            target_offsets: list(1),
            source_offsets: list(2),
            target_lengths: list(3),
            source_lengths: list(4),
        }
    }

    /// Returns whether all workers share the host memory of both arrays.
    ///
    /// # Safety
    /// The lists have `dimensions` elements.
    unsafe fn is_shared(&self, root: &Root) -> bool {
        let shared = |(node, begin): DeviceAddress, lengths: *const usize| {
            // SAFETY: guaranteed by the caller.
            let lengths = unsafe { slice::from_raw_parts(lengths, self.dimensions) };
            let bytes = lengths.iter().fold(self.element, |bytes, &length| bytes.saturating_mul(length));
            let last = begin.saturating_add(bytes.saturating_sub(1));
            node.is_some() || [begin, last].iter().all(|&at| calls::is_shared(root, at))
        };
        !separate_processes::is_enabled()
            || shared(self.target, self.target_lengths) && shared(self.source, self.source_lengths)
    }

    /// Copies the block.
    ///
    /// # Safety
    /// The lists have `dimensions` elements, and the arrays the sizes that they specify.
    unsafe fn copy(&self, me: &'static Thread) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.copy_from(me, 0, self.target.1, self.source.1) };
    }

    /// Copies the dimensions from `at` on, recursively down to rows.
    ///
    /// # Safety
    /// As [`Self::copy`]; the addresses are those of such sub-arrays.
    unsafe fn copy_from(&self, me: &'static Thread, at: usize, target: usize, source: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let length = *self.lengths.add(at);
            let step = |lengths: *const usize| {
                (at + 1..self.dimensions).map(|at| *lengths.add(at)).product::<usize>() * self.element
            };
            let (target_step, source_step) = (step(self.target_lengths), step(self.source_lengths));
            let target = target + *self.target_offsets.add(at) * target_step;
            let source = source + *self.source_offsets.add(at) * source_step;
            if at + 1 == self.dimensions {
                let bytes = length * self.element;
                return calls::copy(me, (self.target.0, target), (self.source.0, source), bytes);
            }
            for index in 0..length {
                self.copy_from(me, at + 1, target + index * target_step, source + index * source_step);
            }
        }
    }

    /// Copies the block in a task, after its dependences.
    ///
    /// # Safety
    /// The lists have `dimensions` elements; the arrays have the sizes that they specify until the task is
    /// finished.
    unsafe fn copy_async(self, me: &'static Thread, depend: Option<&[Dependence]>) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            if !self.is_shared(me.root()) {
                // Any worker may run the task, and other processes lack this memory.
                if let Some(dependences) = depend {
                    tasks::wait_for_dependences(me, me.task(), dependences);
                }
                return self.copy(me);
            }
            let mut words = self.to_words();
            let new_task = NewTask {
                function: tombolo_omp_copy_task,
                data: words.as_mut_ptr().cast(),
                copy: None,
                size: size_of_val(words.as_slice()),
                align: align_of::<usize>(),
                deferred: true,
                is_final: false,
                priority: 0,
                depend,
                event: None,
                bounds: None,
            };
            tasks::create(me, new_task);
        }
    }
}

/// Body of a task that copies a block. The name is exported like that of `tombolo_omp_target_task`.
///
/// # Safety
/// `words` are those of a block, whose arrays have the sizes that they specify.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tombolo_omp_copy_task(words: *mut c_void) {
    // SAFETY: guaranteed by the caller.
    unsafe { Block::from_words(words.cast()).copy(start::current()) };
}

/// Returns the nodes of two devices; `None` if one does not exist.
fn nodes_of(me: &'static Thread, target: i32, source: i32) -> Option<(Option<u32>, Option<u32>)> {
    Some((node_of(me, target).ok()?, node_of(me, source).ok()?))
}

/// Copies between devices. Returns 0, or `EINVAL` if a device does not exist.
///
/// # Safety
/// Both arrays are at least as long as their offset plus `length`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memcpy(
    target: *mut c_void,
    source: *const c_void,
    length: usize,
    target_offset: usize,
    source_offset: usize,
    target_device: i32,
    source_device: i32,
) -> i32 {
    let me = start::current();
    let Some((to, from)) = nodes_of(me, target_device, source_device) else { return libc::EINVAL };
    let (target, source) = (target as usize + target_offset, source as usize + source_offset);
    // SAFETY: guaranteed by the caller.
    unsafe { calls::copy(me, (to, target), (from, source), length) };
    0
}

/// The same in a task with the dependences of the program's objects. Returns 0, or `EINVAL`.
///
/// # Safety
/// As for [`omp_target_memcpy`], until the task is finished. `list` points to `objects` objects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memcpy_async(
    target: *mut c_void,
    source: *const c_void,
    length: usize,
    target_offset: usize,
    source_offset: usize,
    target_device: i32,
    source_device: i32,
    objects: i32,
    list: *const [usize; 2],
) -> i32 {
    let me = start::current();
    let Some((to, from)) = nodes_of(me, target_device, source_device) else { return libc::EINVAL };
    let (target, source) = ((to, target as usize + target_offset), (from, source as usize + source_offset));
    // SAFETY: guaranteed by the caller.
    let depend = unsafe { decode_depend_objects(objects, list) };
    if let Some(command) = calls::create_copy_command(me.root(), target, source, length) {
        // No worker has to wait while a device copies by itself.
        defer(me, command, depend.as_deref());
        return 0;
    }
    let (length, none) = ([length], [0]);
    let (lengths, offsets) = (length.as_ptr(), none.as_ptr());
    let block = Block {
        target,
        source,
        element: 1,
        dimensions: 1,
        lengths,
        target_offsets: offsets,
        source_offsets: offsets,
        target_lengths: lengths,
        source_lengths: lengths,
    };
    // SAFETY: guaranteed by the caller.
    unsafe { block.copy_async(me, depend.as_deref()) };
    0
}

/// Builds the block of `omp_target_memcpy_rect`; `EINVAL` if its arguments are invalid.
fn block(
    me: &'static Thread,
    (target, source, element, dimensions): (*mut c_void, *const c_void, usize, i32),
    [lengths, target_offsets, source_offsets, target_lengths, source_lengths]: [*const usize; LISTS],
    (target_device, source_device): (i32, i32),
) -> Result<Block, i32> {
    let dimensions = usize::try_from(dimensions).unwrap_or(0);
    let (to, from) = nodes_of(me, target_device, source_device).ok_or(libc::EINVAL)?;
    if dimensions == 0 || dimensions > DIMENSIONS {
        return Err(libc::EINVAL);
    }
    Ok(Block {
        target: (to, target as usize),
        source: (from, source as usize),
        element,
        dimensions,
        lengths,
        target_offsets,
        source_offsets,
        target_lengths,
        source_lengths,
    })
}

/// Copies a block of an array between devices. Returns 0, or `EINVAL`; without arrays, the maximum number of
/// dimensions.
///
/// # Safety
/// The arrays have the sizes that their dimensions specify.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memcpy_rect(
    target: *mut c_void,
    source: *const c_void,
    element: usize,
    dimensions: i32,
    lengths: *const usize,
    target_offsets: *const usize,
    source_offsets: *const usize,
    target_lengths: *const usize,
    source_lengths: *const usize,
    target_device: i32,
    source_device: i32,
) -> i32 {
    if target.is_null() && source.is_null() {
        return i32::MAX;
    }
    let me = start::current();
    let lists = [lengths, target_offsets, source_offsets, target_lengths, source_lengths];
    match block(me, (target, source, element, dimensions), lists, (target_device, source_device)) {
        Ok(block) => {
            // SAFETY: guaranteed by the caller.
            unsafe { block.copy(me) };
            0
        }
        Err(error) => error,
    }
}

/// The same in a task with the dependences of the program's objects.
///
/// # Safety
/// As for [`omp_target_memcpy_rect`], until the task is finished. `list` points to `objects` objects.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn omp_target_memcpy_rect_async(
    target: *mut c_void,
    source: *const c_void,
    element: usize,
    dimensions: i32,
    lengths: *const usize,
    target_offsets: *const usize,
    source_offsets: *const usize,
    target_lengths: *const usize,
    source_lengths: *const usize,
    target_device: i32,
    source_device: i32,
    objects: i32,
    list: *const [usize; 2],
) -> i32 {
    if target.is_null() && source.is_null() {
        return i32::MAX;
    }
    let me = start::current();
    let lists = [lengths, target_offsets, source_offsets, target_lengths, source_lengths];
    match block(me, (target, source, element, dimensions), lists, (target_device, source_device)) {
        Ok(block) => {
            // SAFETY: guaranteed by the caller.
            unsafe {
                let depend = decode_depend_objects(objects, list);
                block.copy_async(me, depend.as_deref());
            }
            0
        }
        Err(error) => error,
    }
}

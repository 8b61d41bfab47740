//! Dependences between sibling tasks.
//!
//! The parent has a table of addresses, with the last task that writes each address and the tasks that have
//! read it since. Only the thread that runs the parent touches the table. The tasks that wait for a task are
//! a list in its record, protected by a lock because new waiters can race with its end.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering;

use super::task::Task;
use crate::primitives::lock::Spinlock;
use crate::primitives::parker::Parker;
use crate::primitives::store::{self, Store};

/// Dependence of a task on an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependence {
    /// Address that it depends on.
    pub address: usize,
    /// Whether the task only reads.
    pub reads: bool,
}

/// Node of a singly linked list of tasks.
struct TaskLink {
    task: &'static Task,
    next: *mut TaskLink,
}

/// Tasks that wait for a task.
#[derive(Default)]
pub struct Dependents {
    lock: Spinlock,
    finished: Cell<bool>,
    first: Cell<*mut TaskLink>,
}

impl Dependents {
    /// Makes `next` wait for the owner of this list, unless the owner is finished.
    fn add(&self, store: &Store, next: &'static Task) {
        let _held = self.lock.lock();
        if self.finished.get() {
            return;
        }
        next.blockers.fetch_add(1, Ordering::Relaxed);
        next.add_reference();
        self.first.set(link(store, next, self.first.get()));
    }

    /// Marks the task as finished and calls `enqueue` for each task that became runnable.
    pub fn finish(&self, enqueue: impl Fn(&'static Task)) {
        let held = self.lock.lock();
        self.finished.set(true);
        let mut first = self.first.replace(ptr::null_mut());
        drop(held);
        while !first.is_null() {
            // SAFETY: the list was detached, so no other thread accesses it.
            let (task, next) = unsafe { ((*first).task, (*first).next) };
            let before = task.blockers.fetch_sub(1, Ordering::AcqRel);
            if task.is_stub() {
                task.wake();
            } else if before == 1 {
                enqueue(task);
                // A thread that waits for the parent's tasks may run it even if no other thread can.
                task.parent().into_iter().for_each(Task::wake);
            }
            task.drop_reference();
            release_link(first);
            first = next;
        }
    }
}

fn link(store: &Store, task: &'static Task, next: *mut TaskLink) -> *mut TaskLink {
    ptr::from_ref(store.place(TaskLink { task, next })).cast_mut()
}

fn release_link(link: *mut TaskLink) {
    if let Some(store) = store::current() {
        // SAFETY: links come from the store, and the caller has unlinked it.
        unsafe { store.release(link.cast()) };
    }
}

/// Last writer of an address and its readers since.
#[derive(Clone, Copy)]
struct Entry {
    address: usize,
    writer: Option<&'static Task>,
    readers: *mut TaskLink,
    count: u32,
    limit: u32,
}

const EMPTY_ENTRY: Entry = Entry { address: 0, writer: None, readers: ptr::null_mut(), count: 0, limit: 16 };

/// Hash table of the dependences that a task's children declared, with open addressing.
pub struct Table {
    store: &'static Store,
    entries: Cell<*mut Entry>,
    capacity: Cell<usize>,
    used: Cell<usize>,
}

impl Table {
    fn create(store: &'static Store) -> &'static Self {
        let entries = Cell::new(allocate(store, 16));
        let (capacity, used) = (Cell::new(16), Cell::new(0));
        store.place(Self { store, entries, capacity, used })
    }

    fn slot(entries: *mut Entry, capacity: usize, address: usize) -> *mut Entry {
        let mut at = (address >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        loop {
            let entry = entries.wrapping_add(at & (capacity - 1));
            // SAFETY: the index is below the capacity; entries are initialised.
            let found = unsafe { (*entry).address };
            if found == address || found == 0 {
                return entry;
            }
            at += 1;
        }
    }

    /// Returns the entry of an address, inserting it if needed.
    fn entry(&self, address: usize) -> *mut Entry {
        // 0 marks a free entry, so null is stored as the highest address, where no object can be.
        let address = if address == 0 { usize::MAX } else { address };
        if self.used.get() * 2 >= self.capacity.get() {
            self.grow();
        }
        let entry = Self::slot(self.entries.get(), self.capacity.get(), address);
        // SAFETY: the entry is in the table, which only this thread accesses.
        unsafe {
            if (*entry).address == 0 {
                (*entry).address = address;
                self.used.set(self.used.get() + 1);
            }
        }
        entry
    }

    /// Looks up the entry of an address.
    fn find(&self, address: usize) -> Option<Entry> {
        let address = if address == 0 { usize::MAX } else { address };
        let entry = Self::slot(self.entries.get(), self.capacity.get(), address);
        // SAFETY: the entry is in the table, which only this thread accesses.
        let entry = unsafe { *entry };
        (entry.address != 0).then_some(entry)
    }

    fn grow(&self) {
        let (old, capacity) = (self.entries.get(), self.capacity.get());
        let new = allocate(self.store, capacity * 2);
        for index in 0..capacity {
            // SAFETY: both tables have at least this capacity, and only this thread accesses them.
            unsafe {
                let entry = *old.add(index);
                if entry.address != 0 {
                    *Self::slot(new, capacity * 2, entry.address) = entry;
                }
            }
        }
        self.entries.set(new);
        self.capacity.set(capacity * 2);
        // SAFETY: it came from the store, and all entries were moved.
        unsafe { self.store.release(old.cast()) };
    }

    /// Frees the table once the parent is finished.
    pub fn release(&'static self) {
        for index in 0..self.capacity.get() {
            // SAFETY: the table has this capacity, and only this thread accesses it.
            let entry = unsafe { &mut *self.entries.get().add(index) };
            if entry.address != 0 {
                entry.writer.take().into_iter().for_each(Task::drop_reference);
                drop_readers(entry);
            }
        }
        // SAFETY: both came from the store, and nothing uses them any more.
        unsafe {
            self.store.release(self.entries.get().cast());
            self.store.release(ptr::from_ref(self).cast_mut().cast());
        }
    }
}

fn allocate(store: &Store, capacity: usize) -> *mut Entry {
    let Some(memory) = store.allocate(capacity * size_of::<Entry>(), 16) else { store.exhausted() };
    let entries: *mut Entry = memory.cast();
    for index in 0..capacity {
        // SAFETY: the memory was just allocated for `capacity` entries.
        unsafe { entries.add(index).write(EMPTY_ENTRY) };
    }
    entries
}

fn drop_readers(entry: &mut Entry) {
    retain_readers(entry, |task| {
        task.drop_reference();
        false
    });
}

/// Calls `keep` for each reader and removes those for which it returns false.
fn retain_readers(entry: &mut Entry, mut keep: impl FnMut(&'static Task) -> bool) {
    let mut place: *mut *mut TaskLink = &raw mut entry.readers;
    // SAFETY: the list is of a table that only this thread touches.
    unsafe {
        while !(*place).is_null() {
            let link = *place;
            if keep((*link).task) {
                place = &raw mut (*link).next;
            } else {
                *place = (*link).next;
                entry.count -= 1;
                release_link(link);
            }
        }
    }
}

/// Makes a new task wait for the tasks that it depends on, and records its own accesses for later siblings.
pub fn register(
    store: &'static Store,
    parent: &'static Task,
    task: &'static Task,
    dependences: &[Dependence],
) {
    let table = parent.table.get().unwrap_or_else(|| {
        let table = Table::create(store);
        parent.table.set(Some(table));
        table
    });
    for dependence in dependences {
        // SAFETY: the entry is in the table, which only this thread accesses.
        let entry = unsafe { &mut *table.entry(dependence.address) };
        // If a task names an address twice, the first mention counts; writers come first.
        let known = |other: Option<&'static Task>| other.is_some_and(|other| ptr::eq(other, task));
        // SAFETY: as above.
        let newest = unsafe { entry.readers.as_ref() }.map(|link| link.task);
        if known(entry.writer) || known(newest) {
            continue;
        }
        if dependence.reads {
            if let Some(writer) = entry.writer {
                writer.dependents.add(store, task);
            }
            if entry.count >= entry.limit {
                retain_readers(entry, is_unfinished);
                entry.limit = entry.count.max(8) * 2;
            }
            task.add_reference();
            entry.readers = link(store, task, entry.readers);
            entry.count += 1;
            continue;
        }
        if entry.readers.is_null()
            && let Some(writer) = entry.writer
        {
            writer.dependents.add(store, task);
        }
        retain_readers(entry, |reader| {
            reader.dependents.add(store, task);
            reader.drop_reference();
            false
        });
        task.add_reference();
        if let Some(writer) = entry.writer.replace(task) {
            writer.drop_reference();
        }
    }
}

/// Whether a reader must be kept. Drops its reference if not.
fn is_unfinished(task: &'static Task) -> bool {
    let runs = !task.is_finished();
    if !runs {
        task.drop_reference();
    }
    runs
}

/// Creates a stub with these dependences for a thread that waits for them. Returns `None` if there is nothing
/// to wait for. The wait is over when only one of the stub's blockers is left.
pub fn create_stub(
    store: &'static Store,
    parker: &'static Parker,
    parent: &'static Task,
    dependences: &[Dependence],
) -> Option<&'static Task> {
    let table = parent.table.get()?;
    let stub = Task::stub(store, parker);
    for dependence in dependences {
        let Some(mut entry) = table.find(dependence.address) else { continue };
        if let Some(writer) = entry.writer {
            writer.dependents.add(store, stub);
        }
        if !dependence.reads {
            retain_readers(&mut entry, |reader| {
                reader.dependents.add(store, stub);
                true
            });
        }
    }
    Some(stub)
}

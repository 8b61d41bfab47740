//! Windows: memory that two nodes each have a copy of, and a link that carries stores from one copy to the
//! other.
//!
//! A store is a posted write: it completes at its writer before it arrives. The link guarantees only what the
//! protocols may rely on: a release store, and the first store after a fence, arrive after all earlier
//! stores; stores to one word arrive in order; all others in any order. Words are never torn. Stores in
//! flight when a node dies may be lost, which leaves a slot half written.
//!
//! In a coherent window both sides map the same memory: stores need no link and are visible at once.

use std::collections::{BTreeMap, VecDeque};

use tombolo_base::tap::RecordedAccess;
use tombolo_base::{Random, SharedMemory};

use crate::descriptor::Actor;

/// Number of stores in flight among which the link may reorder.
const REORDERED: usize = 12;

/// One of the two nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WindowSide {
    /// The host.
    Near,
    /// The virtual machine.
    Far,
}

impl WindowSide {
    /// The opposite side of the window.
    #[must_use]
    pub fn other(self) -> WindowSide {
        match self {
            WindowSide::Near => WindowSide::Far,
            WindowSide::Far => WindowSide::Near,
        }
    }
}

/// A window as seen by one of its two nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WindowPlace {
    /// Number of the window, unique across generations of a node.
    pub window: u64,
    /// Side of the window.
    pub side: WindowSide,
}

/// A store in flight.
#[derive(Clone, Copy, Debug)]
struct Write {
    index: usize,
    word: u64,
    /// Whether it must arrive after all earlier stores.
    ordered: bool,
    /// Whether it publishes data, so that the link rings on arrival.
    rings: bool,
}

/// One direction of a link.
#[derive(Debug, Default)]
struct Direction {
    writes: VecDeque<Write>,
    /// Whether the direction is cut, so that nothing arrives.
    cut: bool,
    /// Whether an arrival event is scheduled.
    scheduled: bool,
}

/// A party that is woken when a store arrives in its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Listener {
    first_byte: usize,
    length_bytes: usize,
    actor: Actor,
}

#[derive(Debug)]
struct Window {
    copies: [SharedMemory; 2],
    coherent: bool,
    /// To the near and to the far copy.
    directions: [Direction; 2],
    listeners: [Vec<Listener>; 2],
}

/// All windows of a machine, including those of lost nodes, which domains may still have mapped.
#[derive(Debug, Default)]
pub struct Windows {
    windows: BTreeMap<u64, Window>,
    /// Copies in this process, by address of their first byte: length and place.
    addresses: BTreeMap<usize, (usize, WindowPlace)>,
    next: u64,
}

impl Windows {
    /// Creates a zeroed window of `length_bytes` bytes and returns its number.
    pub fn make(&mut self, length_bytes: usize, coherent: bool) -> u64 {
        self.next += 1;
        let near = SharedMemory::zeroed(length_bytes);
        let far = if coherent { near.clone() } else { SharedMemory::zeroed(length_bytes) };
        if !coherent {
            for (side, copy) in [(WindowSide::Near, &near), (WindowSide::Far, &far)] {
                let address = copy.words().as_ptr().addr();
                self.addresses.insert(address, (length_bytes, WindowPlace { window: self.next, side }));
            }
        }
        let window = Window {
            copies: [near, far],
            coherent,
            directions: [Direction::default(), Direction::default()],
            listeners: [Vec::new(), Vec::new()],
        };
        self.windows.insert(self.next, window);
        self.next
    }

    /// Returns the copy of a window that a place sees.
    #[must_use]
    pub fn memory(&self, place: WindowPlace) -> Option<SharedMemory> {
        self.windows.get(&place.window).map(|window| window.copies[place.side as usize].clone())
    }

    /// Whether both nodes map the same memory.
    #[must_use]
    pub fn is_coherent(&self, window: u64) -> bool {
        self.windows.get(&window).is_some_and(|window| window.coherent)
    }

    /// Registers `actor` to be woken when a store arrives in a range at a place.
    pub fn listen(&mut self, place: WindowPlace, first_byte: usize, length_bytes: usize, actor: Actor) {
        if let Some(window) = self.windows.get_mut(&place.window) {
            window.listeners[place.side as usize].push(Listener { first_byte, length_bytes, actor });
        }
    }

    /// Undoes a call of [`listen`](Self::listen).
    pub fn remove_listener(&mut self, place: WindowPlace, first_byte: usize, actor: Actor) {
        if let Some(window) = self.windows.get_mut(&place.window) {
            window.listeners[place.side as usize]
                .retain(|listener| (listener.first_byte, listener.actor) != (first_byte, actor));
        }
    }

    /// Returns the parties that listen for a byte at a place.
    #[must_use]
    pub fn listeners(&self, place: WindowPlace, byte: usize) -> Vec<Actor> {
        let Some(window) = self.windows.get(&place.window) else { return Vec::new() };
        window.listeners[place.side as usize]
            .iter()
            .filter(|listener| {
                (listener.first_byte..listener.first_byte + listener.length_bytes).contains(&byte)
            })
            .map(|listener| listener.actor)
            .collect()
    }

    /// Moves the stores made since the last call onto their links. Returns the places that now have stores in
    /// flight but no arrival event scheduled.
    pub fn collect(&mut self) -> Vec<WindowPlace> {
        let mut fresh = Vec::new();
        let mut fenced = false;
        for noted in tap::take_records() {
            let (address, word, release) = match noted {
                RecordedAccess::Store { address, word, release } => (address, word, release),
                RecordedAccess::Fence => {
                    fenced = true;
                    continue;
                }
            };
            let Some((&first, &(length_bytes, from))) = self.addresses.range(..=address).next_back() else {
                continue;
            };
            if address >= first + length_bytes {
                continue;
            }
            let Some(window) = self.windows.get_mut(&from.window) else { continue };
            let direction = &mut window.directions[from.side.other() as usize];
            let ordered = release || std::mem::take(&mut fenced);
            direction.writes.push_back(Write { index: (address - first) / 8, word, ordered, rings: release });
            if !direction.scheduled {
                direction.scheduled = true;
                fresh.push(WindowPlace { window: from.window, side: from.side.other() });
            }
        }
        fresh
    }

    /// Delivers up to `count` stores to a place. Returns the parties that this wakes and whether more are in
    /// flight.
    pub fn arrive(&mut self, place: WindowPlace, count: usize, random: &mut Random) -> (Vec<Actor>, bool) {
        let Some(window) = self.windows.get_mut(&place.window) else { return (Vec::new(), false) };
        let direction = &mut window.directions[place.side as usize];
        let mut wakes = Vec::new();
        for _ in 0..count {
            if direction.cut {
                break;
            }
            let Some(write) = next_write(&mut direction.writes, random) else { break };
            tap::apply_peer_store(&window.copies[place.side as usize], write.index, write.word);
            for listener in window.listeners[place.side as usize].iter().filter(|_| write.rings) {
                let byte = write.index * 8;
                let concerns =
                    (listener.first_byte..listener.first_byte + listener.length_bytes).contains(&byte);
                if concerns && !wakes.contains(&listener.actor) {
                    wakes.push(listener.actor);
                }
            }
        }
        direction.scheduled = !direction.writes.is_empty() && !direction.cut;
        (wakes, direction.scheduled)
    }

    /// Cuts or heals a direction. Returns whether an arrival event has to be scheduled for waiting stores.
    pub fn set_cut(&mut self, place: WindowPlace, cut: bool) -> bool {
        let Some(window) = self.windows.get_mut(&place.window) else { return false };
        let direction = &mut window.directions[place.side as usize];
        direction.cut = cut;
        let needed = !cut && !direction.scheduled && !direction.writes.is_empty();
        direction.scheduled |= needed;
        needed
    }

    /// Handles the death of the far node: some of its stores in flight still arrive, the rest are lost, and
    /// no further store reaches it.
    pub fn on_far_death(&mut self, window: u64, random: &mut Random) -> Vec<Actor> {
        let near = WindowPlace { window, side: WindowSide::Near };
        let Some(record) = self.windows.get_mut(&window) else { return Vec::new() };
        let on_their_way = record.directions[WindowSide::Near as usize].writes.len();
        record.directions[WindowSide::Near as usize].cut = false;
        record.directions[WindowSide::Far as usize].writes.clear();
        record.listeners[WindowSide::Far as usize].clear();
        let survivors = random.below(on_their_way as u64 + 1) as usize;
        let (wakes, _) = self.arrive(near, survivors, random);
        if let Some(record) = self.windows.get_mut(&window) {
            let direction = &mut record.directions[WindowSide::Near as usize];
            direction.writes.clear();
            direction.scheduled = false;
            // Drops later stores to the dead node.
            self.addresses.retain(|_, (_, place)| place.window != window);
        }
        wakes
    }

    /// Returns whether no store is in flight on a link that is not cut.
    #[must_use]
    pub fn are_quiet(&self) -> bool {
        self.windows
            .values()
            .all(|window| window.directions.iter().all(|direction| direction.writes.is_empty()))
    }
}

/// Removes and returns a random store among those that may arrive next.
fn next_write(writes: &mut VecDeque<Write>, random: &mut Random) -> Option<Write> {
    let first = writes.front()?;
    if first.ordered {
        return writes.pop_front();
    }
    let free = writes.iter().take(REORDERED).take_while(|write| !write.ordered).count();
    let mut index = random.below(free as u64) as usize;
    // An earlier store to the same word goes first.
    let word = writes.get(index)?.index;
    if let Some(earlier) = writes.iter().take(index).position(|write| write.index == word) {
        index = earlier;
    }
    writes.remove(index)
}

/// The tap on stores. Without it (in a build without `--cfg sim`) no window has two copies, so no store is
/// ever in flight.
#[cfg(sim)]
mod tap {
    use tombolo_base::SharedMemory;
    pub(super) use tombolo_base::tap::take_records;

    pub(super) fn apply_peer_store(memory: &SharedMemory, index: usize, word: u64) {
        memory.words()[index].apply_peer_store(word);
    }
}

#[cfg(not(sim))]
mod tap {
    use tombolo_base::SharedMemory;
    use tombolo_base::sync::Ordering;
    use tombolo_base::tap::RecordedAccess;

    pub(super) fn take_records() -> Vec<RecordedAccess> {
        Vec::new()
    }

    pub(super) fn apply_peer_store(memory: &SharedMemory, index: usize, word: u64) {
        memory.words()[index].store(word, Ordering::Release);
    }
}

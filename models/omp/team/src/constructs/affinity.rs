//! Assignment of a team's threads to places, and its display.

use super::loops::block_range;
use crate::primitives::places::{self, FALSE, PRIMARY, Places, SPREAD};
use crate::primitives::sys;
use crate::team::members::Team;
use crate::team::root::Root;
use crate::team::thread::Thread;

/// Assignment of places to the threads of a region.
pub struct PlaceAssignment {
    policy: u8,
    size: u32,
    /// The master's place within the partition, and the partition available to the team.
    at: u32,
    partition: (u32, u32),
}

/// Plans the places for a region. Costs nothing if threads are not bound.
#[inline]
pub fn assign_places(me: &'static Thread, team: &'static Team, asked: u32) -> PlaceAssignment {
    let places = me.root().places();
    let partition = me.partition.get();
    let mut assignment = PlaceAssignment { policy: FALSE, size: team.size(), at: 0, partition };
    if places.is_empty() || partition.1 == 0 {
        return assignment;
    }
    let bind = me.task().icv().bind;
    assignment.policy = match u8::try_from(asked & 7).unwrap_or(0) {
        _ if bind == FALSE => FALSE,
        0 => bind,
        asked => asked,
    };
    if me.place.get() == 0 {
        bind_to_place(me, places, partition.0, partition);
    }
    assignment.at = (me.place.get() - 1).saturating_sub(partition.0) % partition.1;
    assignment
}

impl PlaceAssignment {
    /// Returns the place of a thread within the partition, and the partition for its own teams.
    fn place(&self, id: u32) -> (u32, (u32, u32)) {
        let (first, count) = self.partition;
        let whole = (first, count);
        let (size, at) = (self.size, self.at);
        // With more threads than places: index of the place of a thread, counted from the master's.
        let shared = |id: u32| {
            let (each, more) = (size / count, size % count);
            let longer = more * (each + 1);
            if id < longer { id / (each + 1) } else { more + (id - longer) / each.max(1) }
        };
        match self.policy {
            PRIMARY => (at, whole),
            SPREAD if size <= count => {
                // There are as many subpartitions as threads; the master's is the one that contains its
                // place.
                let part = |number: u32| {
                    let (low, high) = block_range(u64::from(count), u64::from(size), u64::from(number));
                    (u32::try_from(low).unwrap_or(0), u32::try_from(high - low).unwrap_or(1))
                };
                let masters = (0..size).find(|&number| part(number).0 + part(number).1 > at).unwrap_or(0);
                let (low, length) = part((masters + id) % size);
                (if id == 0 { at } else { low }, (first + low, length))
            }
            SPREAD => {
                let place = (at + shared(id)) % count;
                (place, (first + place, 1))
            }
            _ if size <= count => ((at + id) % count, whole),
            _ => ((at + shared(id)) % count, whole),
        }
    }

    /// Sets the place of a worker, before it is given the region.
    #[inline]
    pub fn assign(&self, thread: &Thread, id: u32) {
        if self.policy != FALSE {
            let (place, partition) = self.place(id);
            thread.assigned_place.set((self.partition.0 + place + 1, partition));
        }
    }

    /// Narrows the partition for the master's own teams until the region ends. The master itself does not
    /// move.
    #[inline]
    pub fn assign_master(&self, me: &Thread, team: &Team) {
        if self.policy == SPREAD {
            team.saved_partition.set(Some(me.partition.replace(self.place(0).1)));
        }
    }
}

/// Restores the master's partition at the end of a region.
#[inline]
pub fn restore_partition(me: &Thread, team: &Team) {
    if let Some(places) = team.saved_partition.take() {
        me.partition.set(places);
    }
}

/// Moves the thread to the place that the master assigned.
#[inline]
pub fn apply_assigned_place(me: &Thread) {
    let (place, partition) = me.assigned_place.get();
    if place > 0 && (place != me.place.get() || partition != me.partition.get()) {
        bind_to_place(me, me.root().places(), place - 1, partition);
    }
}

fn bind_to_place(me: &Thread, places: &Places, place: u32, partition: (u32, u32)) {
    me.partition.set(partition);
    if let Some(processors) = places.at(place)
        && me.place.get() != place + 1
    {
        // A place whose processors were since taken away remains the thread's place.
        sys::bind(processors);
        me.place.set(place + 1);
    }
}

/// Implements `omp_set_affinity_format`.
pub fn set_format(root: &Root, format: &[u8]) {
    let _held = root.mutable_settings.format_lock.lock();
    // SAFETY: the lock is held.
    let place = unsafe { &mut *root.mutable_settings.format.get() };
    let length = format.len().min(place.len() - 1);
    place[..length].copy_from_slice(&format[..length]);
    place[length..].fill(0);
}

/// Implements `omp_get_affinity_format`.
pub fn format(root: &Root) -> String {
    let _held = root.mutable_settings.format_lock.lock();
    // SAFETY: the lock is held.
    let place = unsafe { &*root.mutable_settings.format.get() };
    let length = place.iter().position(|&byte| byte == 0).unwrap_or(place.len());
    String::from_utf8_lossy(&place[..length]).into_owned()
}

/// Expands an affinity format for the calling thread.
pub fn expand_format(me: &'static Thread, format: &str) -> String {
    let mut text = String::new();
    let mut rest = format.chars().peekable();
    while let Some(at) = rest.next() {
        if at != '%' {
            text.push(at);
            continue;
        }
        let zeros = rest.next_if_eq(&'0').is_some();
        let right = rest.next_if_eq(&'.').is_some();
        let mut width = 0_usize;
        while let Some(digit) = rest.peek().and_then(|at| at.to_digit(10)) {
            width = (width * 10 + digit as usize).min(4096);
            rest.next();
        }
        let value = match rest.next() {
            Some('%') => "%".to_owned(),
            Some('{') => field(me, &rest.by_ref().take_while(|&at| at != '}').collect::<String>()),
            Some(letter) => field(me, &letter.to_string()),
            None => break,
        };
        let missing = width.saturating_sub(value.chars().count());
        match (right, zeros) {
            (true, true) => {
                let prefix = ["-", "0x"].into_iter().find(|prefix| value.starts_with(prefix)).unwrap_or("");
                text.push_str(prefix);
                text.extend(std::iter::repeat_n('0', missing).chain(value[prefix.len()..].chars()));
            }
            (true, false) => text.extend(std::iter::repeat_n(' ', missing).chain(value.chars())),
            (false, _) => text.extend(value.chars().chain(std::iter::repeat_n(' ', missing))),
        }
    }
    text
}

/// Displays the affinity of a thread that begins its part of a region, if `OMP_DISPLAY_AFFINITY` asks for it
/// and the affinity has changed.
#[inline]
pub fn display(me: &'static Thread) {
    if me.root().settings.display_affinity {
        display_change(me);
    }
}

#[cold]
fn display_change(me: &'static Thread) {
    let now = [me.team().level(), me.team().size(), me.id(), me.place.get()];
    if me.displayed_affinity.replace(now) != now {
        sys::print_error(expand_format(me, &format(me.root())) + "\n");
    }
}

fn field(me: &'static Thread, name: &str) -> String {
    let team_state = me.team_state();
    match name {
        "t" | "team_num" => me.league.get().1.to_string(),
        "T" | "num_teams" => (me.league.get().0 + 1).to_string(),
        "L" | "nesting_level" => team_state.team.level().to_string(),
        "n" | "thread_num" => team_state.id.to_string(),
        "N" | "num_threads" => team_state.team.size().to_string(),
        "a" | "ancestor_tnum" => {
            team_state.team.enclosing().map_or(-1, |enclosing| i64::from(enclosing.id)).to_string()
        }
        "H" | "host" => {
            std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
        }
        "P" | "process_id" => std::process::id().to_string(),
        "i" | "native_thread_id" => format!("{:#x}", me.status.tid()),
        "A" | "thread_affinity" => places::format_processors(&sys::affinity()),
        _ => "undefined".to_owned(),
    }
}

/// Moves the thread to the first place of its partition unless it has one, as the first thread does before
/// its first region.
pub fn assign_default_place(me: &Thread) {
    let partition = me.partition.get();
    if me.place.get() == 0 {
        bind_to_place(me, me.root().places(), partition.0, partition);
    }
}

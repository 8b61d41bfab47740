//! Calls in flight on a channel: their numbers, deadlines and early answers. Performs no I/O.

use alloc::vec::Vec;

use crate::source::Source;

/// Maximum number of calls in flight on a channel.
pub const MAX_IN_FLIGHT: usize = 256;

/// Number of a call on the wire: its slot in the lower 8 of 24 bits, and a nonzero generation above.
pub type Number = u32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Waiting {
        ordinal: u16,
        deadline_ns: u64,
    },
    /// The answer is in the slot.
    Arrived {
        deadline_ns: u64,
    },
}

#[derive(Debug)]
struct Slot {
    generation: u16,
    state: State,
    /// Answer that arrived before it was waited for. The buffer is kept when the slot is free, to be reused.
    answer: Vec<u8>,
}

/// State of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// The call is not in flight: it was answered, cancelled, or never made.
    Nothing,
    /// The call is waiting for its answer.
    Waiting {
        /// Deadline, in nanoseconds.
        deadline_ns: u64,
    },
    /// The answer has arrived.
    Arrived,
}

/// Calls in flight on a channel. The building block of clients, including those without generated stubs.
#[derive(Debug, Default)]
pub struct Flight {
    /// Slots, created on demand.
    slots: Vec<Slot>,
    /// Most recently freed slot, usually the next to be taken.
    recent: usize,
}

impl Flight {
    /// Creates a table without calls.
    #[must_use]
    pub fn new() -> Self {
        Flight { slots: Vec::new(), recent: 0 }
    }

    /// Finds a slot for a call and returns the call's number. A call whose deadline passed while it was not
    /// waited for loses its slot; its ordinal and number are returned as well if the server must be notified.
    /// [`begin`](Self::begin) takes the slot.
    #[inline]
    pub fn place(&mut self, now_ns: impl FnOnce() -> u64) -> Option<(Number, Option<(u16, Number)>)> {
        let recent = self.recent;
        if self.slots.get(recent).is_some_and(|slot| slot.state == State::Free) {
            return Some((self.next_number(recent), None));
        }
        self.find_slot(now_ns)
    }

    #[cold]
    fn find_slot(&mut self, now_ns: impl FnOnce() -> u64) -> Option<(Number, Option<(u16, Number)>)> {
        if let Some(index) = self.slots.iter().position(|slot| slot.state == State::Free) {
            return Some((self.next_number(index), None));
        }
        if self.slots.len() < MAX_IN_FLIGHT {
            self.slots.push(Slot { generation: 0, state: State::Free, answer: Vec::new() });
            return Some((self.next_number(self.slots.len() - 1), None));
        }
        let now_ns = now_ns();
        let passed = |state| match state {
            State::Free => true,
            State::Waiting { deadline_ns, .. } | State::Arrived { deadline_ns } => deadline_ns < now_ns,
        };
        let index = self.slots.iter().position(|slot| passed(slot.state))?;
        let abandoned = self.give_up(number(index, self.slots[index].generation));
        Some((self.next_number(index), abandoned))
    }

    fn next_number(&mut self, index: usize) -> Number {
        let Some(slot) = self.slots.get_mut(index) else { return 0 };
        // Never 0, which is the number of messages that belong to no call.
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        number(index, slot.generation)
    }

    /// Takes the slot of a call that was sent.
    #[inline]
    pub fn begin(&mut self, call: Number, ordinal: u16, deadline_ns: u64) {
        if let Some(slot) = self.slots.get_mut(index_of(call)) {
            slot.state = State::Waiting { ordinal, deadline_ns };
        }
    }

    /// Returns the state of the call with this number.
    #[inline]
    #[must_use]
    pub fn known(&self, call: Number) -> Known {
        let slot = self.slots.get(index_of(call)).filter(|slot| u32::from(slot.generation) == call >> 8);
        match slot.map(|slot| slot.state) {
            None | Some(State::Free) => Known::Nothing,
            Some(State::Waiting { deadline_ns, .. }) => Known::Waiting { deadline_ns },
            Some(State::Arrived { .. }) => Known::Arrived,
        }
    }

    /// Keeps an answer for a later wait. Returns false if its call is not in flight, or already has an
    /// answer.
    pub fn keep(&mut self, call: Number, source: Source<'_>) -> bool {
        let Known::Waiting { deadline_ns } = self.known(call) else { return false };
        let Some(slot) = self.slots.get_mut(index_of(call)) else { return false };
        source.copy_whole(&mut slot.answer);
        slot.state = State::Arrived { deadline_ns };
        true
    }

    /// Returns the kept answer in `answer`, keeping the old buffer for reuse, and ends its call.
    pub fn take(&mut self, call: Number, answer: &mut Vec<u8>) {
        self.end(call);
        answer.clear();
        if let Some(slot) = self.slots.get_mut(index_of(call)) {
            core::mem::swap(&mut slot.answer, answer);
        }
    }

    /// Ends a call and frees its slot.
    #[inline]
    pub fn end(&mut self, call: Number) {
        if self.known(call) != Known::Nothing {
            self.recent = index_of(call);
            self.slots[self.recent].state = State::Free;
        }
    }

    /// Ends a call without its answer. Returns its ordinal and number if the server must be notified.
    pub fn give_up(&mut self, call: Number) -> Option<(u16, Number)> {
        let waiting = self.known(call) != Known::Nothing;
        let state = self.slots.get(index_of(call)).map(|slot| slot.state).filter(|_| waiting);
        self.end(call);
        match state {
            Some(State::Waiting { ordinal, .. }) => Some((ordinal, call)),
            _ => None,
        }
    }
}

fn number(index: usize, generation: u16) -> Number {
    index as u32 | u32::from(generation) << 8
}

#[inline]
fn index_of(call: Number) -> usize {
    (call & 0xff) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(flight: &mut Flight, ordinal: u16, deadline_ns: u64) -> Number {
        let (call, abandoned) = flight.place(|| panic!("there is room")).unwrap();
        assert_eq!(abandoned, None);
        flight.begin(call, ordinal, deadline_ns);
        call
    }

    #[test]
    fn freed_slot_is_reused_first_with_a_new_number() {
        let mut flight = Flight::new();
        let calls: Vec<Number> = (0..3).map(|index| begin(&mut flight, index, 9)).collect();
        assert_eq!(calls, [0x100, 0x101, 0x102]);
        assert_eq!(flight.known(calls[1]), Known::Waiting { deadline_ns: 9 });
        flight.end(calls[1]);
        flight.end(calls[0]);
        flight.end(calls[0]);
        assert_eq!(flight.known(calls[1]), Known::Nothing);
        assert_eq!(begin(&mut flight, 7, 9), 0x200, "freed last");
        assert_eq!(begin(&mut flight, 7, 9), 0x201);
        assert_eq!(begin(&mut flight, 7, 9), 0x103, "none is free");
        flight.end(calls[0]);
        assert_eq!(flight.known(0x200), Known::Waiting { deadline_ns: 9 }, "that was the call before");
        assert_eq!(flight.known(0x104), Known::Nothing);
    }

    #[test]
    fn expired_call_frees_its_slot() {
        let mut flight = Flight::new();
        let calls: Vec<Number> =
            (0..MAX_IN_FLIGHT as u64).map(|index| begin(&mut flight, index as u16, 1000 + index)).collect();
        assert_eq!(flight.place(|| 1000), None, "at its deadline a call may still be answered");
        assert_eq!(flight.place(|| 1001), Some((0x200, Some((0, calls[0])))));
        flight.begin(0x200, 5, 5000);
        assert!(flight.keep(calls[1], Source::Bytes(b"answered")));
        assert_eq!(flight.place(|| 1002), Some((0x201, None)));
    }

    #[test]
    fn answer_is_stored_once_and_taken_once() {
        let mut flight = Flight::new();
        let call = begin(&mut flight, 3, 50);
        assert!(flight.keep(call, Source::Bytes(&[7; 16])) && !flight.keep(call, Source::Bytes(&[8; 16])));
        assert_eq!(flight.known(call), Known::Arrived);
        assert!(!flight.keep(call + 1, Source::Bytes(&[9; 16])), "there is no such call");
        let mut answer = alloc::vec![1, 2, 3];
        flight.take(call, &mut answer);
        assert_eq!((&answer[..], flight.known(call)), (&[7; 16][..], Known::Nothing));
        assert_eq!(flight.give_up(call), None);
        let next = begin(&mut flight, 4, 60);
        assert_eq!(flight.give_up(next), Some((4, next)));
        assert_eq!(flight.known(next), Known::Nothing);
    }

    #[test]
    fn slot_generations_wrap_and_are_never_zero() {
        let mut flight = Flight::new();
        for generation in (1..=u32::from(u16::MAX)).chain([1, 2]) {
            let call = begin(&mut flight, 0, 0);
            assert_eq!(call, generation << 8);
            flight.end(call);
        }
    }
}

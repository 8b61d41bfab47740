//! The longest time of an operation.

use core::fmt;
use core::hint::black_box;
use core::time::Duration;
#[cfg(not(target_os = "none"))]
use std::time::Instant;

#[cfg(target_os = "none")]
use tombolo_bare::time::Instant;

use tombolo_base::Steps;
use tombolo_realtime::bound::Costs;

/// Repetitions of which the longest counts.
const REPETITIONS: usize = 100;
/// Times that all repetitions are done. The shortest of their results counts: an interrupt, which is no part
/// of the operation, disturbs one of them.
const PASSES: usize = 4;

/// Upper bounds of one step in instructions, as compiled for boards: without unaligned accesses, a word of a
/// message is split or assembled byte by byte.
const INSTRUCTIONS: Costs = Costs { load: 70, store: 64, read_modify_write: 80, fence: 8, call: 250 };

/// The same for the tables of hubs, of up to two levels of nodes: entries move within nodes, which are
/// allocated and freed.
const OF_TABLES: Costs = Costs { load: 200, store: 350, read_modify_write: 0, fence: 0, call: 3000 };

/// The clock of this processor.
pub(crate) struct Clock {
    instruction_ns: Option<u64>,
    /// Cost of two reads of the clock.
    overhead_ns: u64,
}

impl Clock {
    /// A clock that counts instructions if one of them takes `instruction_ns`, else time.
    pub(crate) fn new(instruction_ns: Option<u64>) -> Clock {
        let mut clock = Clock { instruction_ns, overhead_ns: 0 };
        clock.overhead_ns = longest_ns(&mut (), |()| (), |()| ());
        clock
    }

    /// How often something is measured of which the shortest time counts: more than once where what disturbs
    /// it, such as an interrupt by the host, is all that differs.
    pub(crate) fn passes(&self) -> usize {
        self.instruction_ns.map_or(1, |_| PASSES)
    }

    /// The longest time of an operation: in instructions if the clock counts them, else in nanoseconds.
    pub(crate) fn longest<R>(&self, mut operation: impl FnMut() -> R) -> u64 {
        self.longest_after(&mut (), |()| operation(), |()| ())
    }

    /// As [`longest`](Self::longest), of an operation that needs another one before each repetition. Both use
    /// `state`.
    fn longest_after<S, R, B>(
        &self,
        state: &mut S,
        operation: impl FnMut(&mut S) -> R,
        before: impl FnMut(&mut S) -> B,
    ) -> u64 {
        let longest_ns = longest_ns(state, operation, before);
        self.units(Duration::from_nanos(longest_ns))
    }

    /// A time without that of reading the clock, in instructions if the clock counts them, else in
    /// nanoseconds.
    pub(crate) fn units(&self, measured: Duration) -> u64 {
        let ns = (measured.as_nanos() as u64).saturating_sub(self.overhead_ns);
        ns.div_ceil(self.instruction_ns.unwrap_or(1))
    }

    /// Measures an operation that has a bound.
    pub(crate) fn row<R>(&self, what: &'static str, steps: Steps, mut operation: impl FnMut() -> R) -> Row {
        self.row_after(what, steps, &mut (), (|()| operation(), |()| ()))
    }

    /// Measures the first of two operations, which take turns; the second goes first.
    pub(crate) fn row_after<S, R, B>(
        &self,
        what: &'static str,
        steps: Steps,
        state: &mut S,
        (operation, before): (impl FnMut(&mut S) -> R, impl FnMut(&mut S) -> B),
    ) -> Row {
        let longest = self.longest_after(state, operation, before);
        Row { what, steps, costs: INSTRUCTIONS, longest, in_instructions: self.instruction_ns.is_some() }
    }

    /// The same of requests to hubs, whose steps are in tables.
    pub(crate) fn row_of_tables<S, R, B>(
        &self,
        what: &'static str,
        steps: Steps,
        state: &mut S,
        both: (impl FnMut(&mut S) -> R, impl FnMut(&mut S) -> B),
    ) -> Row {
        Row { costs: OF_TABLES, ..self.row_after(what, steps, state, both) }
    }
}

fn longest_ns<S, R, B>(
    state: &mut S,
    mut operation: impl FnMut(&mut S) -> R,
    mut before: impl FnMut(&mut S) -> B,
) -> u64 {
    let mut pass = || {
        let times = (0..REPETITIONS).map(|_| {
            black_box(before(state));
            let start = Instant::now();
            black_box(operation(state));
            start.elapsed().as_nanos() as u64
        });
        times.max().unwrap_or(0)
    };
    (0..PASSES).map(|_| pass()).min().unwrap_or(0)
}

/// An operation, its longest time and its bound.
pub(crate) struct Row {
    what: &'static str,
    steps: Steps,
    costs: Costs,
    pub(crate) longest: u64,
    in_instructions: bool,
}

impl Row {
    fn bound(&self) -> u64 {
        self.costs.time(self.steps)
    }

    /// Whether it took more instructions than its bound.
    pub(crate) fn exceeds(&self) -> bool {
        self.in_instructions && self.longest > self.bound()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<28} {:>6} {:>9}", self.what, self.steps.total(), self.longest)?;
        if self.in_instructions { write!(f, " {:>9}", self.bound()) } else { write!(f, " {:>9}", "-") }
    }
}

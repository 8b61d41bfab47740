//! Pages with release consistency under a model checker.
//!
//! The ranks are the real ones of `protocol/directory`, with links that deliver in order. The checker takes
//! every order of writes, reads, locks, releases, refreshes, deliveries and deaths, with every loss of what a
//! rank sent before it died.

use stateright::{Model, Property};
use tombolo_directory::released::{Released, Waits};
use tombolo_directory::{Consistency, Geometry, Rank};

/// What may happen in a run.
#[derive(Clone, Debug)]
pub struct Release {
    /// Number of ranks.
    pub ranks: u8,
    /// Number of pages; their homes are the ranks in turn.
    pub pages: u32,
    /// What programs do, all together: accesses, releases, locks and refreshes.
    pub operations: u8,
    /// Deaths.
    pub deaths: u8,
    /// Pages after one that a program accesses are asked for as well.
    pub ahead: u8,
    /// Pages in a row with one home.
    pub block_pages: u32,
    /// Whether there is a lock, under which programs write to one cell.
    pub lock: bool,
}

/// All ranks, and what may still happen.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ReleaseState {
    world: Released,
    operations: u8,
    deaths: u8,
}

/// A step of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The program of a rank reads a page.
    Read(usize, u32),
    /// It writes to its own cell of a page, or to that under the lock.
    Write(usize, u32, bool),
    /// It releases, and gives up the lock if it has it.
    Release(usize),
    /// It takes the lock, and sees what was released.
    Lock(usize),
    /// It sees what was released.
    Refresh(usize),
    /// A message, or the news of a death, arrives.
    Deliver(usize, usize),
    /// A rank dies.
    Kill(usize),
    /// The last message of a dead rank to another is lost.
    Lose(usize, usize),
}

impl Model for Release {
    type State = ReleaseState;
    type Action = Step;

    fn init_states(&self) -> Vec<ReleaseState> {
        let world = Released::new(Geometry {
            ranks: self.ranks,
            me: Rank(0),
            pages: self.pages,
            block_pages: self.block_pages,
            hold_ns: 0,
            ahead: self.ahead,
            consistency: Consistency::Release,
        });
        vec![ReleaseState { world, operations: self.operations, deaths: self.deaths }]
    }

    fn actions(&self, state: &ReleaseState, steps: &mut Vec<Step>) {
        let world = &state.world;
        steps.extend(world.loaded().map(|(from, to)| Step::Deliver(from, to)));
        steps.extend(world.losable().map(|(from, to)| Step::Lose(from, to)));
        for rank in 0..usize::from(self.ranks) {
            if state.deaths > 0 && world.members[rank].is_some() {
                steps.push(Step::Kill(rank));
            }
            if state.operations > 0 && world.members[rank].is_some() {
                // Also by another thread, while the program waits.
                steps.push(Step::Refresh(rank));
            }
            if state.operations == 0 || !world.is_idle(rank) {
                continue;
            }
            for page in 0..self.pages {
                steps.extend([Step::Read(rank, page), Step::Write(rank, page, false)]);
                if world.has_lock(rank) {
                    steps.push(Step::Write(rank, page, true));
                }
            }
            steps.push(Step::Release(rank));
            if self.lock && world.is_free() {
                steps.push(Step::Lock(rank));
            }
        }
    }

    fn next_state(&self, before: &ReleaseState, step: Step) -> Option<ReleaseState> {
        let mut state = before.clone();
        let world = &mut state.world;
        match step {
            Step::Deliver(from, to) => world.deliver(from, to),
            Step::Lose(from, to) => world.lose(from, to),
            Step::Kill(rank) => {
                state.deaths -= 1;
                world.kill(rank);
            }
            Step::Read(rank, page) => world.begin(rank, Waits::Read(page)),
            Step::Write(rank, page, under_lock) => world.begin(rank, Waits::Write(page, under_lock)),
            Step::Release(rank) => world.release(rank),
            Step::Lock(rank) => world.lock(rank),
            Step::Refresh(rank) => world.refresh(rank),
        }
        if !matches!(step, Step::Deliver(..) | Step::Lose(..) | Step::Kill(_)) {
            state.operations -= 1;
        }
        // What changes nothing leads nowhere.
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("what was released is seen", |_, state: &ReleaseState| {
                state.world.broken.is_none()
            }),
            Property::always("every access and release ends", |_, state: &ReleaseState| {
                !state.world.is_quiet() || !state.world.is_waiting()
            }),
            Property::sometimes("a program waits", |_, state: &ReleaseState| state.world.is_waiting()),
            Property::sometimes("a page is lost", |model: &Release, state: &ReleaseState| {
                model.deaths == 0 || state.world.refused > 0
            }),
        ]
    }
}

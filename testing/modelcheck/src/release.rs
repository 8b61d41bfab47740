//! Pages with release consistency under a model checker.
//!
//! The ranks are the real ones of `protocol/directory`, over links that deliver in order. The checker
//! explores every order of writes, reads, locks, releases, refreshes, deliveries and deaths, and every loss
//! of messages that a rank sent before it died.

use stateright::{Model, Property};
use tombolo_directory::release_world::{PendingOperation, ReleaseWorld};
use tombolo_directory::{Consistency, Geometry, Rank};

/// Configuration and bounds of a model.
#[derive(Clone, Debug)]
pub struct Release {
    /// Number of ranks.
    pub ranks: u8,
    /// Number of pages, with the ranks as homes in turn.
    pub pages: u32,
    /// Number of operations by all programs together: accesses, releases, locks and refreshes.
    pub operations: u8,
    /// Number of ranks that may die.
    pub deaths: u8,
    /// Number of following pages requested along with a page that is accessed.
    pub ahead: u8,
    /// Number of consecutive pages with the same home.
    pub block_pages: u32,
    /// Whether there is a lock under which programs write to a common cell.
    pub lock: bool,
}

/// All ranks, and the remaining bounds.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ReleaseState {
    world: ReleaseWorld,
    operations: u8,
    deaths: u8,
}

/// One step of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The program of a rank reads a page.
    Read(usize, u32),
    /// It writes to its own cell of a page, or to the cell under the lock.
    Write(usize, u32, bool),
    /// It releases its writes, and the lock if it holds it.
    Release(usize),
    /// It takes the lock and refreshes.
    Lock(usize),
    /// It refreshes, to see the released writes.
    Refresh(usize),
    /// A message or a death notice arrives.
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
        let world = ReleaseWorld::new(Geometry {
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
        steps.extend(world.loaded_links().map(|(from, to)| Step::Deliver(from, to)));
        steps.extend(world.losable_links().map(|(from, to)| Step::Lose(from, to)));
        for rank in 0..usize::from(self.ranks) {
            if state.deaths > 0 && world.members[rank].is_some() {
                steps.push(Step::Kill(rank));
            }
            if state.operations > 0 && world.members[rank].is_some() {
                // Also possible while the program waits: another thread may refresh.
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
            if self.lock && world.is_lock_free() {
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
            Step::Read(rank, page) => world.begin(rank, PendingOperation::Read(page)),
            Step::Write(rank, page, under_lock) => {
                world.begin(rank, PendingOperation::Write(page, under_lock));
            }
            Step::Release(rank) => world.release(rank),
            Step::Lock(rank) => world.lock(rank),
            Step::Refresh(rank) => world.refresh(rank),
        }
        if !matches!(step, Step::Deliver(..) | Step::Lose(..) | Step::Kill(_)) {
            state.operations -= 1;
        }
        // Prunes steps that change nothing.
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

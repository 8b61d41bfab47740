//! Coherent pages under a model checker.
//!
//! The ranks are the real ones of `protocol/directory`, over links that deliver in order. The checker
//! explores every order of accesses, deliveries, expired hold times and deaths, and every loss of messages
//! that a rank sent before it died.

use stateright::{Model, Property};
use tombolo_directory::world::World;
use tombolo_directory::{Access, Consistency, Geometry, Rank};

/// Configuration and bounds of a model.
#[derive(Clone, Debug)]
pub struct Pages {
    /// Number of ranks.
    pub ranks: u8,
    /// Number of pages, with the ranks as homes in turn.
    pub pages: u32,
    /// Number of accesses by all programs together.
    pub accesses: u8,
    /// Number of ranks that may die.
    pub deaths: u8,
    /// Whether pages have a hold time after they were granted, which may expire at any step.
    pub holds: bool,
    /// Number of following pages requested along with a page that is read.
    pub ahead: u8,
    /// Number of consecutive pages with the same home.
    pub block_pages: u32,
}

/// All ranks, and the remaining bounds.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PagesState {
    world: World,
    accesses: u8,
    deaths: u8,
}

/// One step of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The program of a rank accesses a page.
    Access(usize, u32, Access),
    /// A message or a death notice arrives.
    Deliver(usize, usize),
    /// The hold time of a page expires at a rank.
    Tick(usize),
    /// A rank dies.
    Kill(usize),
    /// The last message of a dead rank to another is lost.
    Lose(usize, usize),
}

impl Model for Pages {
    type State = PagesState;
    type Action = Step;

    fn init_states(&self) -> Vec<PagesState> {
        let world = World::new(Geometry {
            ranks: self.ranks,
            me: Rank(0),
            pages: self.pages,
            block_pages: self.block_pages,
            hold_ns: u64::from(self.holds),
            ahead: self.ahead,
            consistency: Consistency::Sequential,
        });
        vec![PagesState { world, accesses: self.accesses, deaths: self.deaths }]
    }

    fn actions(&self, state: &PagesState, steps: &mut Vec<Step>) {
        steps.extend(state.world.loaded_links().map(|(from, to)| Step::Deliver(from, to)));
        steps.extend(state.world.losable_links().map(|(from, to)| Step::Lose(from, to)));
        for (rank, member) in state.world.members.iter().enumerate() {
            let Some(member) = member else { continue };
            if member.node.due_ns().is_some() {
                steps.push(Step::Tick(rank));
            }
            if state.deaths > 0 {
                steps.push(Step::Kill(rank));
            }
            if state.accesses > 0 && member.waits.is_none() {
                for page in 0..self.pages {
                    let has = member.node.access(page);
                    // An access that the rank already has changes nothing, unless it is a write.
                    let accesses = [Access::Read, Access::Write];
                    let changes = |access: &Access| *access > has || *access == Access::Write;
                    steps.extend(
                        accesses.into_iter().filter(changes).map(|access| Step::Access(rank, page, access)),
                    );
                }
            }
        }
    }

    fn next_state(&self, before: &PagesState, step: Step) -> Option<PagesState> {
        let mut state = before.clone();
        match step {
            Step::Access(rank, page, access) => {
                state.accesses -= 1;
                state.world.access(rank, page, access);
            }
            Step::Deliver(from, to) => state.world.deliver(from, to, 0),
            Step::Tick(rank) => state.world.tick(rank, 1),
            Step::Kill(rank) => {
                state.deaths -= 1;
                state.world.kill(rank);
            }
            Step::Lose(from, to) => state.world.lose(from, to),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("memory is coherent", |_, state: &PagesState| state.world.broken.is_none()),
            Property::always("every access ends", |_, state: &PagesState| {
                !state.world.is_quiet() || !state.world.is_waiting()
            }),
            Property::sometimes("a program waits", |_, state: &PagesState| state.world.is_waiting()),
            Property::sometimes("a page is lost", |model: &Pages, state: &PagesState| {
                model.deaths == 0 || state.world.refused > 0
            }),
        ]
    }
}

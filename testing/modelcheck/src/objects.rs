//! Shared objects under a model checker.
//!
//! The ranks are the real ones of `protocol/sharing`. Each of their operations on the memory is a separate
//! step. The checker explores every order of acquisitions, steps, releases, deaths and death notices. A rank
//! may also die after publishing only a part of its data.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use stateright::{Model, Property};
use tombolo_base::OutOfRange;
use tombolo_sharing::{Access, Caching, Consistency, Controller, Header, Layout, Memory, Object, Rank};
use tombolo_sharing::{Ranks, Step as Progress};

/// Mistake planted in the ranks, which the checker must find.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Canary {
    /// No mistake.
    None,
    /// The controller does not raise the last of its lines.
    MissingInvalidate,
    /// Ranks consider a living rank dead.
    Suspicion,
}

/// Controller of the ranks, with a canary.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Checked(pub Consistency, pub Canary);

impl Checked {
    fn omit_last(self, lines: Range<usize>) -> Range<usize> {
        let missing = usize::from(self.1 == Canary::MissingInvalidate && !lines.is_empty());
        lines.start..lines.end - missing
    }
}

impl Controller for Checked {
    fn version_line(&self, layout: &Layout, rank: usize) -> usize {
        self.0.version_line(layout, rank)
    }

    fn raised_at_acquire(&self, layout: &Layout) -> Range<usize> {
        self.omit_last(self.0.raised_at_acquire(layout))
    }

    fn raised_at_release(&self, layout: &Layout, modified: bool) -> Range<usize> {
        self.omit_last(self.0.raised_at_release(layout, modified))
    }
}

/// Nonzero words of the memory, by byte offset.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Words(BTreeMap<usize, u64>);

/// Memory as accessed by one rank, and the number of words that the rank still stores before it dies.
struct View(RefCell<(Words, usize)>);

impl View {
    /// Runs `body` on the memory, of which only the first `stores` stores take effect.
    fn run<R>(words: &mut Words, stores: usize, body: impl FnOnce(&View) -> R) -> R {
        let view = View(RefCell::new((std::mem::take(words), stores)));
        let result = body(&view);
        *words = view.0.into_inner().0;
        result
    }
}

impl Memory for View {
    fn len_bytes(&self) -> usize {
        1 << 16
    }

    fn load(&self, offset_bytes: usize) -> Result<u64, OutOfRange> {
        Ok(self.0.borrow().0.0.get(&offset_bytes).copied().unwrap_or(0))
    }

    fn store(&self, offset_bytes: usize, value: u64) -> Result<(), OutOfRange> {
        let (words, stores) = &mut *self.0.borrow_mut();
        if *stores > 0 {
            *stores -= 1;
            words.0.insert(offset_bytes, value);
            words.0.retain(|_, word| *word != 0);
        }
        Ok(())
    }

    fn get(&self, offset_bytes: usize, target: &mut [u8]) -> Result<(), OutOfRange> {
        for (index, bytes) in target.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *bytes = self.load(offset_bytes + 8 * index)?.to_le_bytes();
        }
        Ok(())
    }

    fn put(&self, offset_bytes: usize, source: &[u8]) -> Result<(), OutOfRange> {
        for (index, bytes) in source.as_chunks::<8>().0.iter().enumerate() {
            self.store(offset_bytes + 8 * index, u64::from_le_bytes(*bytes))?;
        }
        Ok(())
    }
}

/// Configuration and bounds of a model.
#[derive(Clone, Debug)]
pub struct Objects {
    /// Number of ranks.
    pub ranks: u8,
    /// Number of acquisitions by all ranks together.
    pub acquisitions: u8,
    /// Number of ranks that may die.
    pub deaths: u8,
    /// Whether ranks may give up while they wait.
    pub gives_up: bool,
    /// Controller by which ranks learn of writes, with its canary.
    pub controller: Checked,
    /// Mode in which ranks access the data.
    pub caching: Caching,
}

/// A living rank and its knowledge of deaths.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Member {
    object: Object<Checked>,
    /// Ranks that it knows to have ended.
    gone: Ranks,
    /// It learned that the object is abandoned, and has withdrawn.
    told: bool,
}

/// All ranks and the memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ObjectsState {
    members: Vec<Option<Member>>,
    words: Words,
    dead: Ranks,
    acquisitions: u8,
    deaths: u8,
    /// Last value published; `None` if a writer died halfway.
    value: Option<u64>,
    broken: Option<&'static str>,
}

/// One step of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A rank starts to acquire the object.
    Acquire(usize, Access),
    /// A rank performs its next operation.
    Continue(usize),
    /// A rank that has the object writes, if permitted, and releases it.
    Release(usize),
    /// A rank gives up an acquisition.
    GiveUp(usize),
    /// A rank dies after storing this number of words in its next operation.
    Kill(usize, usize),
    /// A rank learns of a death.
    Learn(usize, Rank),
}

impl Objects {
    fn layout(&self) -> Layout {
        Layout::new(0, usize::from(self.ranks), 16).expect("a small object")
    }

    fn advance(&self, state: &mut ObjectsState, rank: usize, stores: usize) -> Option<Progress> {
        let member = state.members[rank].as_mut()?;
        let mut gone = member.gone;
        if self.controller.1 == Canary::Suspicion {
            gone.add(Rank(0));
        }
        let progress = View::run(&mut state.words, stores, |view| member.object.step(view, gone));
        match progress {
            Ok(Progress::Abandoned(_)) => {
                member.told = true;
                View::run(&mut state.words, stores, |view| member.object.withdraw(view)).ok()?;
            }
            Ok(_) => {}
            Err(_) => state.broken = Some("a step fails"),
        }
        progress.ok()
    }

    /// Reads both words of the data as a rank that has the object.
    fn read(member: &Member, words: &mut Words) -> [u64; 2] {
        let mut bytes = [0; 16];
        let read = View::run(words, usize::MAX, |view| member.object.read(view, 0, &mut bytes));
        assert_eq!(read, Ok(()), "a rank that has the object reads it");
        [0, 8].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes")))
    }

    fn release(&self, state: &mut ObjectsState, rank: usize) -> Option<()> {
        let member = state.members[rank].as_mut()?;
        if member.object.held()? != Access::Read {
            let value = state.value.unwrap_or(100) + 1;
            let bytes = [value.to_le_bytes(); 2].concat();
            View::run(&mut state.words, usize::MAX, |view| member.object.write(view, 0, &bytes)).ok()?;
            state.value = Some(value);
        }
        member.object.release().ok()
    }

    fn kill(&self, state: &mut ObjectsState, rank: usize, stores: usize) {
        let excludes = state.members[rank].as_ref().and_then(|member| member.object.excludes());
        if stores > 0 {
            let _ = self.advance(state, rank, stores);
        }
        state.deaths -= 1;
        state.members[rank] = None;
        state.dead.add(Rank(rank as u8));
        if matches!(excludes, None | Some(Access::Read)) {
            return;
        }
        // The data that a writer published, complete or not.
        let data = self.layout().data();
        let [first, second] = [0, 8].map(|at| state.words.0.get(&(data + at)).copied().unwrap_or(0));
        state.value = (first == second).then_some(first);
    }

    /// Checks mutual exclusion, and that holders read the last value published.
    fn check(&self, state: &mut ObjectsState) {
        let excludes = |member: &Option<Member>| member.as_ref().and_then(|member| member.object.excludes());
        let all: Vec<Access> = state.members.iter().filter_map(excludes).collect();
        if all.len() > 1 && all.iter().any(|access| *access != Access::Read) {
            state.broken = Some("a writer is not alone");
        }
        for member in state.members.iter().flatten() {
            if matches!(member.object.held(), Some(Access::Read | Access::Write)) {
                let [first, second] = Self::read(member, &mut state.words);
                if state.value != Some(first) || first != second {
                    state.broken = Some("a rank has the object and reads something else than the last write");
                }
            }
        }
    }

    /// Returns whether a rank still wants the object although no step makes progress.
    fn is_stuck(&self, state: &ObjectsState) -> bool {
        let mut steps = Vec::new();
        self.actions(state, &mut steps);
        let moves = |step: &Step| match step {
            Step::Continue(_) => self.next_state(state, *step).is_some_and(|next| next != *state),
            Step::Release(_) | Step::Learn(..) => true,
            _ => false,
        };
        !steps.iter().any(moves)
            && state.members.iter().flatten().any(|member| {
                let mut object = member.object.clone();
                // Only an idle rank can start an acquisition.
                object.acquire(Access::Read).is_err()
            })
    }
}

impl Model for Objects {
    type State = ObjectsState;
    type Action = Step;

    fn init_states(&self) -> Vec<ObjectsState> {
        let layout = self.layout();
        let mut words = Words::default();
        let consistency = self.controller.0;
        let header = Header { id: 1, shape: 1, consistency, caching: self.caching };
        View::run(&mut words, usize::MAX, |view| header.create(view, &layout, &[0; 16])).expect("room");
        let member = |rank| {
            let object = Object::new(layout, Rank(rank), self.controller, self.caching);
            Some(Member { object, gone: Ranks::NONE, told: false })
        };
        vec![ObjectsState {
            members: (0..self.ranks).map(member).collect(),
            words,
            dead: Ranks::NONE,
            acquisitions: self.acquisitions,
            deaths: self.deaths,
            value: Some(0),
            broken: None,
        }]
    }

    fn actions(&self, state: &ObjectsState, steps: &mut Vec<Step>) {
        if state.broken.is_some() {
            return;
        }
        for (rank, member) in state.members.iter().enumerate() {
            let Some(member) = member else { continue };
            let idle = member.object.clone().acquire(Access::Read).is_ok();
            if idle && state.acquisitions > 0 {
                steps.push(Step::Acquire(rank, Access::Read));
                steps.push(Step::Acquire(rank, if member.told { Access::Repair } else { Access::Write }));
            }
            if member.object.held().is_some() {
                steps.push(Step::Release(rank));
            } else if !idle {
                steps.push(Step::Continue(rank));
            }
            if self.gives_up && !idle && member.object.excludes().is_none() {
                steps.push(Step::GiveUp(rank));
            }
            if state.deaths > 0 && !idle {
                steps.extend([Step::Kill(rank, 0), Step::Kill(rank, 1)]);
            }
            let news = state.dead.iter().filter(|dead| !member.gone.contains(*dead));
            steps.extend(news.map(|dead| Step::Learn(rank, dead)));
        }
    }

    fn next_state(&self, before: &ObjectsState, step: Step) -> Option<ObjectsState> {
        let mut state = before.clone();
        match step {
            Step::Acquire(rank, access) => {
                state.acquisitions -= 1;
                state.members[rank].as_mut()?.object.acquire(access).ok()?;
            }
            Step::Continue(rank) => {
                self.advance(&mut state, rank, usize::MAX)?;
            }
            Step::Release(rank) => self.release(&mut state, rank)?,
            Step::GiveUp(rank) => {
                let member = state.members[rank].as_mut()?;
                View::run(&mut state.words, usize::MAX, |view| member.object.withdraw(view)).ok()?;
            }
            Step::Kill(rank, stores) => self.kill(&mut state, rank, stores),
            Step::Learn(rank, dead) => state.members[rank].as_mut()?.gone.add(dead),
        }
        self.check(&mut state);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("many read or one writes, and nothing stale", |_, state: &ObjectsState| {
                state.broken.is_none()
            }),
            Property::always("every acquisition ends", |model: &Objects, state: &ObjectsState| {
                !model.is_stuck(state)
            }),
            Property::sometimes("two ranks read", |_, state: &ObjectsState| {
                let reads = |member: &&Member| member.object.held() == Some(Access::Read);
                state.members.iter().flatten().filter(reads).count() > 1
            }),
            Property::sometimes("ranks learn that a writer died", |model: &Objects, state: &ObjectsState| {
                model.deaths == 0 || state.members.iter().flatten().any(|member| member.told)
            }),
            Property::sometimes("a rank repairs", |model: &Objects, state: &ObjectsState| {
                let repairs = |member: &Member| member.object.held() == Some(Access::Repair);
                model.deaths == 0 || state.members.iter().flatten().any(repairs)
            }),
        ]
    }
}

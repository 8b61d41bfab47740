//! The one rank that a program is, and how calls reach it.

use alloc::collections::BTreeMap;

#[cfg(target_os = "none")]
use tombolo_bare::{self as tombolo, prelude::*};

use tombolo::names::LockGuard;
use tombolo_base::Coherent;
use tombolo_base::coherence::Flushed;

use crate::engine::{Arrived, CollectiveError, Engine, PrivateBytes, WrongLength};
use crate::failure::{Code, Failure};
use crate::job::{Joined, Keeper, Memory};
use crate::layout::Layout;
use crate::system::{self, Global, Instant};

/// Memory of the C program that a request uses until it is complete.
#[derive(Debug)]
pub(crate) struct Borrowed {
    address: *mut u8,
    /// Its length, in bytes; `None` if it is as long as what comes.
    length: Option<usize>,
}

// SAFETY: the address is only used by the one thread that is in a call of the library at a time; the program
// keeps the memory until the request is complete, whichever of its threads asks.
unsafe impl Send for Borrowed {}

impl Borrowed {
    /// `length` bytes at `address`, or as many as a message has that is received there.
    ///
    /// # Safety
    /// They are valid for reads, and for writes if the request receives into them, and used by nothing else
    /// until the request is complete or withdrawn.
    pub(crate) unsafe fn new(address: *mut u8, length: Option<usize>) -> Self {
        Borrowed { address, length }
    }
}

impl PrivateBytes for Borrowed {
    fn bytes(&self) -> &[u8] {
        match self.length {
            None | Some(0) => &[],
            // SAFETY: by the contract of `new`; an empty range may have no address.
            Some(length) => unsafe { core::slice::from_raw_parts(self.address, length) },
        }
    }

    fn bytes_mut(&mut self, length: usize) -> &mut [u8] {
        match self.length.unwrap_or(length).min(length) {
            0 => &mut [],
            // SAFETY: as above; it is no longer than what the program said, or than the message.
            length => unsafe { core::slice::from_raw_parts_mut(self.address, length) },
        }
    }
}

/// The rank over memory of either kind.
#[derive(Debug)]
pub(crate) enum AnyEngine {
    Coherent(Engine<Coherent, Borrowed>),
    Flushed(Engine<Flushed, Borrowed>),
}

/// Does something with the engine, whatever its memory.
macro_rules! with_engine {
    ($any:expr, $engine:ident => $body:expr) => {
        match $any {
            $crate::world::AnyEngine::Coherent($engine) => $body,
            $crate::world::AnyEngine::Flushed($engine) => $body,
        }
    };
}
pub(crate) use with_engine;

/// The rank that this program is.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) engine: AnyEngine,
    pub(crate) keeper: Keeper,
    pub(crate) layout: Layout,
    pub(crate) rank: usize,
    /// What `iRCCE_get_source` and `iRCCE_get_length` return without a request.
    pub(crate) recent: Option<Arrived>,
    pub(crate) locks: BTreeMap<usize, LockGuard>,
    pub(crate) domain: tombolo::Domain,
    pub(crate) job: String,
    /// The first byte of the memory in this program.
    base: usize,
    _region: Option<tombolo::region::Capability>,
}

/// Where an address of the program lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In memory of the program alone.
    Private,
    /// In the memory of the job, at this offset.
    Shared(usize),
}

impl World {
    fn new(joined: Joined) -> Result<World, Failure> {
        let Joined { domain, job, rank, memory, layout, keeper, region } = joined;
        let short = |_| Failure::end("the job's memory is shorter than its layout");
        let (base, engine) = match memory {
            Memory::Coherent(memory) => {
                let base = memory.words().as_ptr().addr();
                (base, AnyEngine::Coherent(Engine::new(memory, layout, rank).map_err(short)?))
            }
            Memory::Flushed(memory) => {
                let base = memory.words().as_ptr().addr();
                (base, AnyEngine::Flushed(Engine::new(memory, layout, rank).map_err(short)?))
            }
        };
        let (recent, locks) = (None, BTreeMap::new());
        Ok(World { engine, keeper, layout, rank, recent, locks, domain, job, base, _region: region })
    }

    /// Where `length` bytes at an address lie.
    ///
    /// # Errors
    /// They are partly in the job's memory.
    pub(crate) fn place(&self, address: usize, length: usize) -> Result<Place, Failure> {
        let total = self.layout.total_bytes();
        if address.saturating_add(length) <= self.base || address >= self.base + total {
            return Ok(Place::Private);
        }
        let offset = address.checked_sub(self.base);
        let offset = offset.filter(|offset| length <= total - offset);
        let partly = || Failure::new(Code::Error, "a buffer is partly in the memory that ranks share");
        offset.map(Place::Shared).ok_or_else(partly)
    }

    /// The address in this program of an offset of the job's memory.
    pub(crate) fn address(&self, offset: usize) -> *mut u8 {
        let memory = with_engine!(&self.engine, engine => engine.memory().words().as_ptr());
        memory.cast::<u8>().cast_mut().wrapping_add(offset)
    }

    /// The offset in this rank's message buffer of an address in it.
    pub(crate) fn buffer_offset(&self, address: usize) -> Option<usize> {
        let offset = address.checked_sub(self.base + self.layout.buffer(self.rank))?;
        (offset < self.layout.buffer_bytes).then_some(offset)
    }

    /// A rank of the job, as C names it.
    pub(crate) fn rank_of(&self, number: i32) -> Result<usize, Failure> {
        let ranks = self.layout.ranks;
        let rank = usize::try_from(number).ok().filter(|rank| *rank < ranks);
        rank.ok_or_else(|| {
            Failure::new(Code::Id, format!("there is no rank {number}; the job has ranks 0 to {}", ranks - 1))
        })
    }
}

/// From the first call to the last.
#[derive(Debug)]
enum State {
    Before,
    Running(Box<World>),
    After,
}

static STATE: Global<State> = Global::new(State::Before);

impl From<WrongLength> for Failure {
    fn from(error: WrongLength) -> Failure {
        Failure::new(Code::MessageLength, error.to_string())
    }
}

impl From<CollectiveError<Failure>> for Failure {
    fn from(error: CollectiveError<Failure>) -> Failure {
        match error {
            CollectiveError::Ended(failure) => failure,
            CollectiveError::Unequal { .. } => Failure::end(error.to_string()),
            CollectiveError::WrongLength(_) => Failure::end(error.to_string()),
        }
    }
}

/// Starts the rank.
pub(crate) fn start(join: impl FnOnce() -> Result<Joined, Failure>) -> Result<(usize, usize), Failure> {
    let mut state = STATE.lock();
    if !matches!(*state, State::Before) {
        return Err(Failure::new(Code::Error, "RCCE_init was called before"));
    }
    let world = World::new(join()?)?;
    let numbers = (world.rank, world.layout.ranks);
    *state = State::Running(Box::new(world));
    Ok(numbers)
}

/// Ends the rank.
pub(crate) fn finish(body: impl FnOnce(&mut World) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut state = STATE.lock();
    let State::Running(world) = &mut *state else { return Err(not_running(&state)) };
    body(world)?;
    world.keeper.say_bye();
    *state = State::After;
    Ok(())
}

fn not_running(state: &State) -> Failure {
    let when = if matches!(state, State::Before) { "before RCCE_init" } else { "after RCCE_finalize" };
    Failure::new(Code::Error, format!("called {when}"))
}

/// Does what a call is for, and returns what C gets: what `body` says, or `otherwise` made of an error's
/// number. The error is written to the standard error; one that ends the job ends the program.
pub(crate) fn call<T>(
    name: &str,
    otherwise: impl FnOnce(i32) -> T,
    body: impl FnOnce(&mut World) -> Result<T, Failure>,
) -> T {
    guard(name, otherwise, || match &mut *STATE.lock() {
        State::Running(world) => body(world),
        other => Err(not_running(other)),
    })
}

/// As [`call`], of what needs no rank.
pub(crate) fn guard<T>(
    name: &str,
    otherwise: impl FnOnce(i32) -> T,
    body: impl FnOnce() -> Result<T, Failure>,
) -> T {
    let defect = |()| Err(Failure::end("a defect of the library, which wrote more before: please report it"));
    match system::caught(body).unwrap_or_else(defect) {
        Ok(value) => value,
        Err(failure) => {
            report(name, &failure);
            if failure.ends {
                system::exit(1);
            }
            otherwise(failure.code as i32)
        }
    }
}

/// One line on the standard error that names rank and call.
fn report(name: &str, failure: &Failure) {
    let variable = |name| system::variable(name).unwrap_or_else(|| "?".to_owned());
    eprintln!("RCCE: rank {} of {}: {name}: {failure}", variable("TOMBOLO_RANK"), variable("TOMBOLO_SIZE"));
}

/// Seconds since the first call of this.
pub(crate) fn seconds() -> f64 {
    static START: Global<Option<Instant>> = Global::new(None);
    let mut start = START.lock();
    start.get_or_insert_with(Instant::now).elapsed().as_secs_f64()
}

//! Global state of the rank that the program is, and access to it from calls.

use alloc::collections::BTreeMap;

#[cfg(target_os = "none")]
use tombolo_bare::{self as tombolo, prelude::*};

use tombolo::names::LockGuard;
use tombolo_base::Coherent;
use tombolo_base::coherence::Flushed;

use crate::engine::{CollectiveError, Engine, PrivateBytes, ReceivedMessage, WrongLength};
use crate::failure::{Code, Failure};
use crate::job::{Joined, Liveness, Memory};
use crate::layout::Layout;
use crate::system::{self, Global, Instant};

/// Memory of the C program that a request uses until it is complete.
#[derive(Debug)]
pub(crate) struct Borrowed {
    address: *mut u8,
    /// Length in bytes; `None` if it is that of the received message.
    length: Option<usize>,
}

// SAFETY: only one thread at a time is in a call of the library and uses the address; the program keeps the
// memory valid until the request is complete, whichever thread makes the calls.
unsafe impl Send for Borrowed {}

impl Borrowed {
    /// Borrows `length` bytes at `address`, or as many as the message that is received there has.
    ///
    /// # Safety
    /// They must be valid for reads, and for writes if the request receives into them, and must not be
    /// accessed otherwise until the request is complete or withdrawn.
    pub(crate) unsafe fn new(address: *mut u8, length: Option<usize>) -> Self {
        Borrowed { address, length }
    }
}

impl PrivateBytes for Borrowed {
    fn bytes(&self) -> &[u8] {
        match self.length {
            None | Some(0) => &[],
            // SAFETY: by the contract of `new`; the address of an empty range may be null.
            Some(length) => unsafe { core::slice::from_raw_parts(self.address, length) },
        }
    }

    fn bytes_mut(&mut self, length: usize) -> &mut [u8] {
        match self.length.unwrap_or(length).min(length) {
            0 => &mut [],
            // SAFETY: as above; at most as long as the program stated, or as the message.
            length => unsafe { core::slice::from_raw_parts_mut(self.address, length) },
        }
    }
}

/// The engine, over either kind of memory.
#[derive(Debug)]
pub(crate) enum AnyEngine {
    Coherent(Engine<Coherent, Borrowed>),
    Flushed(Engine<Flushed, Borrowed>),
}

/// Evaluates an expression with the engine, for either kind of memory.
macro_rules! with_engine {
    ($any:expr, $engine:ident => $body:expr) => {
        match $any {
            $crate::world::AnyEngine::Coherent($engine) => $body,
            $crate::world::AnyEngine::Flushed($engine) => $body,
        }
    };
}
pub(crate) use with_engine;

/// State of the rank that this program is.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) engine: AnyEngine,
    pub(crate) liveness: Liveness,
    pub(crate) layout: Layout,
    pub(crate) rank: usize,
    /// Last received message, for `iRCCE_get_source` and `iRCCE_get_length` without a request.
    pub(crate) last_received: Option<ReceivedMessage>,
    pub(crate) locks: BTreeMap<usize, LockGuard>,
    pub(crate) domain: tombolo::Domain,
    pub(crate) job: String,
    /// Address of the job's memory in this program.
    base: usize,
    _region: Option<tombolo::region::Capability>,
}

/// Location of an address range of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In private memory of the program.
    Private,
    /// In the memory of the job, at this offset.
    Shared(usize),
}

impl World {
    fn new(joined: Joined) -> Result<World, Failure> {
        let Joined { domain, job, rank, memory, layout, liveness, region } = joined;
        let short = |_| Failure::fatal("the job's memory is shorter than its layout");
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
        let (last_received, locks) = (None, BTreeMap::new());
        Ok(World { engine, liveness, layout, rank, last_received, locks, domain, job, base, _region: region })
    }

    /// Locates `length` bytes at an address.
    ///
    /// # Errors
    /// [`Failure`] if only a part of them is in the job's memory.
    pub(crate) fn locate(&self, address: usize, length: usize) -> Result<Place, Failure> {
        let total = self.layout.total_bytes();
        if address.saturating_add(length) <= self.base || address >= self.base + total {
            return Ok(Place::Private);
        }
        let offset = address.checked_sub(self.base);
        let offset = offset.filter(|offset| length <= total - offset);
        let partly = || Failure::new(Code::Error, "a buffer is partly in the memory that ranks share");
        offset.map(Place::Shared).ok_or_else(partly)
    }

    /// Returns the address in this program of an offset in the job's memory.
    pub(crate) fn address(&self, offset: usize) -> *mut u8 {
        let memory = with_engine!(&self.engine, engine => engine.memory().words().as_ptr());
        memory.cast::<u8>().cast_mut().wrapping_add(offset)
    }

    /// Returns the offset of an address within this rank's message buffer; `None` if it is outside.
    pub(crate) fn buffer_offset(&self, address: usize) -> Option<usize> {
        let offset = address.checked_sub(self.base + self.layout.buffer(self.rank))?;
        (offset < self.layout.buffer_bytes).then_some(offset)
    }

    /// Validates a rank number from C.
    pub(crate) fn rank_of(&self, number: i32) -> Result<usize, Failure> {
        let ranks = self.layout.ranks;
        let rank = usize::try_from(number).ok().filter(|rank| *rank < ranks);
        rank.ok_or_else(|| {
            Failure::new(Code::Id, format!("there is no rank {number}; the job has ranks 0 to {}", ranks - 1))
        })
    }
}

/// Lifecycle of the rank.
#[derive(Debug)]
enum State {
    NotStarted,
    Running(Box<World>),
    Finished,
}

static STATE: Global<State> = Global::new(State::NotStarted);

impl From<WrongLength> for Failure {
    fn from(error: WrongLength) -> Failure {
        Failure::new(Code::MessageLength, error.to_string())
    }
}

impl From<CollectiveError<Failure>> for Failure {
    fn from(error: CollectiveError<Failure>) -> Failure {
        match error {
            CollectiveError::Ended(failure) => failure,
            CollectiveError::Unequal { .. } => Failure::fatal(error.to_string()),
            CollectiveError::WrongLength(_) => Failure::fatal(error.to_string()),
        }
    }
}

/// Joins the job, once. Returns rank and number of ranks.
pub(crate) fn start(join: impl FnOnce() -> Result<Joined, Failure>) -> Result<(usize, usize), Failure> {
    let mut state = STATE.lock();
    if !matches!(*state, State::NotStarted) {
        return Err(Failure::new(Code::Error, "RCCE_init was called before"));
    }
    let world = World::new(join()?)?;
    let numbers = (world.rank, world.layout.ranks);
    *state = State::Running(Box::new(world));
    Ok(numbers)
}

/// Runs `body` as the last call, and leaves the job.
pub(crate) fn finish(body: impl FnOnce(&mut World) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut state = STATE.lock();
    let State::Running(world) = &mut *state else { return Err(not_running(&state)) };
    body(world)?;
    world.liveness.announce_finalize();
    *state = State::Finished;
    Ok(())
}

fn not_running(state: &State) -> Failure {
    let when = if matches!(state, State::NotStarted) { "before RCCE_init" } else { "after RCCE_finalize" };
    Failure::new(Code::Error, format!("called {when}"))
}

/// Runs `body` for a call, and returns its result or, on error, `on_error` of the error number. Errors are
/// printed to standard error; a fatal one ends the program.
pub(crate) fn call<T>(
    name: &str,
    on_error: impl FnOnce(i32) -> T,
    body: impl FnOnce(&mut World) -> Result<T, Failure>,
) -> T {
    guard(name, on_error, || match &mut *STATE.lock() {
        State::Running(world) => body(world),
        other => Err(not_running(other)),
    })
}

/// Like [`call`], for calls that need no rank.
pub(crate) fn guard<T>(
    name: &str,
    on_error: impl FnOnce(i32) -> T,
    body: impl FnOnce() -> Result<T, Failure>,
) -> T {
    let defect =
        |()| Err(Failure::fatal("a defect of the library, which wrote more before: please report it"));
    match system::catch_panic(body).unwrap_or_else(defect) {
        Ok(value) => value,
        Err(failure) => {
            report(name, &failure);
            if failure.is_fatal {
                system::exit(1);
            }
            on_error(failure.code as i32)
        }
    }
}

/// Prints one line to standard error that names rank and call.
fn report(name: &str, failure: &Failure) {
    let variable = |name| system::variable(name).unwrap_or_else(|| "?".to_owned());
    eprintln!("RCCE: rank {} of {}: {name}: {failure}", variable("TOMBOLO_RANK"), variable("TOMBOLO_SIZE"));
}

/// Returns the seconds since the first call of this function.
pub(crate) fn seconds() -> f64 {
    static START: Global<Option<Instant>> = Global::new(None);
    let mut start = START.lock();
    start.get_or_insert_with(Instant::now).elapsed().as_secs_f64()
}

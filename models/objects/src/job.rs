//! Ranks of a job that shares objects.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tombolo::names::NewRecord;
use tombolo::region::{CapabilityId, MapOptions, Mapping, Region, RegionOptions, Rights};
use tombolo::{Channel, Domain, Listener};
use tombolo_base::LINE_BYTES;
use tombolo_onesided::SymmetricHeap;
use tombolo_placement::Kernels;
use tombolo_sharing::{Access, Consistency, MAX_RANKS, Members, Memory, Object, Rank, Ranks, Step};

use crate::error::ObjectError;
use crate::ranks::{self, Presence};
use crate::tree::Tree;

/// Version of the formats of records, objects and messages. Ranks of different versions cannot join.
const VERSION: i64 = 1;

/// Startup timeout for other ranks: emulated nodes are slow to start programs.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of a rank that joins a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinOptions {
    /// Memory for the objects that this rank creates, including control lines, in bytes.
    pub memory_bytes: usize,
    /// Default timeout of operations.
    pub timeout: Duration,
    /// Rank 0 only: the window for the memory, by its name or that of its node. By default the first one
    /// that all ranks can map; no window if they run on one kernel.
    pub window: Option<String>,
}

impl Default for JoinOptions {
    /// 1 MiB, 10 seconds.
    fn default() -> Self {
        JoinOptions { memory_bytes: 1 << 20, timeout: Duration::from_secs(10), window: None }
    }
}

/// A rank of a job whose ranks share objects.
///
/// Guards borrow it, and collectives borrow it mutably: a guard held across a collective does not compile,
/// as it could block ranks that have not reached the collective yet.
///
/// ```compile_fail,E0502
/// # fn example(mut job: tombolo_objects::Job) -> Result<(), tombolo_objects::ObjectError> {
/// # use tombolo_objects::Consistency;
/// let mut total = job.create(&0_u64, Consistency::Timestamp)?;
/// let guard = total.read(&job)?;
/// job.barrier()?;
/// println!("{}", *guard);
/// # Ok(()) }
/// ```
pub struct Job {
    pub(crate) domain: Domain,
    pub(crate) job: tombolo::Job,
    pub(crate) memory: Box<dyn Memory>,
    /// Offset of this rank's objects in the memory.
    arena: usize,
    heap: RefCell<SymmetricHeap>,
    last_id: Cell<u64>,
    presence: RefCell<Presence>,
    /// Offsets of the objects that have a guard.
    held: RefCell<BTreeSet<usize>>,
    pub(crate) tree: Tree,
    /// Number of times that the members have shrunk.
    pub(crate) generation: u32,
    pub(crate) calls: RefCell<Calls>,
    timeout: Duration,
    _region: Option<Region>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("rank", &self.rank()).field("size", &self.size()).finish_non_exhaustive()
    }
}

impl Job {
    /// Joins the job that this program was started in. All of its ranks must do so.
    ///
    /// # Errors
    /// [`ObjectError::TimedOut`] names a rank that did not join; [`ObjectError::NoWindow`] if there is no
    /// window that all can map; [`ObjectError::Refused`].
    pub fn join(domain: &Domain, options: JoinOptions) -> Result<Job, ObjectError> {
        let domain = domain.within(JOIN_TIMEOUT);
        let job = domain.job()?.within(JOIN_TIMEOUT);
        let refused = |why: String| Err(ObjectError::Refused { why });
        if job.size() > u32::from(MAX_RANKS) {
            return refused(format!("it has {} ranks; {MAX_RANKS} can", job.size()));
        }
        let memory_bytes = options.memory_bytes.max(LINE_BYTES).next_multiple_of(LINE_BYTES);
        let record = NewRecord::new(&ranks::record_name(&job, job.rank()))
            .with("version", VERSION)
            .with("node", domain.node_name())
            .with("bytes", memory_bytes as i64);
        domain.names().set(&record)?;
        let (mapping, region, arena, presence) = if job.rank() == 0 {
            create_memory(&domain, &job, options.window)?
        } else {
            map_memory(&domain, &job)?
        };
        let memory: Box<dyn Memory> = match (mapping.flushed_memory()?, mapping.memory()) {
            (Some(view), _) => Box::new(view),
            (None, Some(memory)) => Box::new(memory),
            (None, None) => return refused("its memory cannot be mapped".into()),
        };
        if arena.checked_add(memory_bytes).is_none_or(|end| end > memory.len_bytes()) {
            return refused("rank 0 assigned memory that there is not".into());
        }
        // At most 64, as checked above.
        let members = Members::new(Ranks::below(job.size() as u8));
        let tree = Tree::open(&domain, &job, members, 0, || Ok(()))?;
        Ok(Job {
            domain,
            memory,
            arena,
            heap: RefCell::new(SymmetricHeap::new(memory_bytes)),
            last_id: Cell::new(u64::from(job.rank()) << 48),
            presence: RefCell::new(presence),
            held: RefCell::default(),
            tree,
            generation: 0,
            calls: RefCell::default(),
            timeout: options.timeout,
            _region: region,
            job,
        })
    }

    /// Returns the number of this rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.job.rank()
    }

    /// Returns the number of ranks of the job.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.job.size()
    }

    /// Returns the default timeout of operations.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the ranks that have ended, in order, as far as this rank's monitor knows.
    ///
    /// # Errors
    /// [`ObjectError::Domain`] if the monitor has ended.
    pub fn ended(&self) -> Result<Vec<u32>, ObjectError> {
        Ok(self.ended_ranks()?.iter().map(|rank| u32::from(rank.0)).collect())
    }

    pub(crate) fn ended_ranks(&self) -> Result<Ranks, ObjectError> {
        let mut presence = self.presence.borrow_mut();
        presence.update()?;
        Ok(presence.ended_ranks())
    }

    /// Allocates memory and an id for an object. Returns offset and id.
    pub(crate) fn allocate(&self, length_bytes: usize) -> Result<(usize, u64), ObjectError> {
        let offset = self.heap.borrow_mut().allocate(length_bytes.next_multiple_of(LINE_BYTES))?;
        self.last_id.set(self.last_id.get() + 1);
        Ok((self.arena + offset.next_multiple_of(LINE_BYTES), self.last_id.get()))
    }

    /// Acquires an object; on error its state is unchanged.
    pub(crate) fn acquire(
        &self,
        object: &mut Object<Consistency>,
        access: Access,
        timeout: Duration,
    ) -> Result<(), ObjectError> {
        let at_bytes = object.layout().at_bytes();
        if !self.held.borrow_mut().insert(at_bytes) {
            return Err(ObjectError::AlreadyHeld);
        }
        let outcome = self.drive_acquire(object, access, timeout);
        if outcome.is_err() {
            self.held.borrow_mut().remove(&at_bytes);
            object.withdraw(&*self.memory)?;
        }
        outcome
    }

    fn drive_acquire(
        &self,
        object: &mut Object<Consistency>,
        access: Access,
        timeout: Duration,
    ) -> Result<(), ObjectError> {
        object.acquire(access)?;
        let mut backoff = Backoff::new(timeout);
        let mut ended_ranks = self.presence.borrow().ended_ranks();
        loop {
            match object.step(&*self.memory, ended_ranks)? {
                Step::Working => {}
                Step::Held => return Ok(()),
                Step::Abandoned(died) => {
                    let rank = died.first().map_or(0, |rank| u32::from(rank.0));
                    return Err(ObjectError::WriterDied { rank });
                }
                Step::Idle => return Err(tombolo_sharing::Fault::NotHeld.into()),
                Step::Waiting(rank) => {
                    if backoff.has_timed_out() {
                        let rank = Some(u32::from(rank.0));
                        let what = "the object was not released".to_owned();
                        return Err(ObjectError::TimedOut { what, timeout, rank });
                    }
                    if backoff.wait() {
                        ended_ranks = self.ended_ranks()?;
                        // Rank 0 owns the memory, which ends with it.
                        if ended_ranks.contains(Rank(0)) && self.rank() != 0 {
                            return Err(ObjectError::RankEnded { rank: 0, what: "the memory of the job" });
                        }
                    }
                }
            }
        }
    }

    /// Releases an object. It can fail only if the memory is too short, which was checked before.
    pub(crate) fn release(&self, object: &mut Object<Consistency>) {
        let at_bytes = object.layout().at_bytes();
        if object.release().is_ok() {
            while !matches!(object.step(&*self.memory, Ranks::NONE), Ok(Step::Idle) | Err(_)) {}
        }
        self.held.borrow_mut().remove(&at_bytes);
    }

    /// Releases an object without publishing changes, unless they were written through.
    pub(crate) fn abandon(&self, object: &mut Object<Consistency>) {
        let at_bytes = object.layout().at_bytes();
        let _ = object.withdraw(&*self.memory);
        self.held.borrow_mut().remove(&at_bytes);
    }
}

/// Channels for a rank's remote calls.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Channels to ranks that this one has called.
    pub(crate) outgoing: BTreeMap<u32, Channel>,
    /// Listener for callers, once this rank serves.
    pub(crate) listener: Option<Listener>,
    pub(crate) incoming: Vec<Channel>,
}

type Parts = (Mapping, Option<Region>, usize, Presence);

const MAP: MapOptions = MapOptions { address: None, alignment_bytes: 0, populate: true };

/// Returns the name of the record in which rank 0 passes a rank its memory.
fn memory_name(job: &tombolo::Job, rank: u32) -> String {
    job.name(&format!("objects/memory/{rank}"))
}

/// Waits for all ranks, and creates memory that all can map; called by rank 0.
fn create_memory(domain: &Domain, job: &tombolo::Job, window: Option<String>) -> Result<Parts, ObjectError> {
    let mut presence = Presence::new(domain, job)?;
    presence.wait_for_all(JOIN_TIMEOUT)?;
    let created = create_shared_region(domain, &presence, window);
    let (region, mapping, arenas) = match created {
        Ok(created) => created,
        Err(error) => {
            for rank in 1..job.size() {
                let record = NewRecord::new(&memory_name(job, rank)).with("why", error.to_string());
                domain.names().set(&record)?;
            }
            return Err(error);
        }
    };
    for (rank, record) in (0..).zip(&presence.records).skip(1) {
        let owner = record.as_ref().and_then(|record| record.owner);
        let owner = owner.ok_or(ObjectError::RankEnded { rank, what: "the start of the job" })?;
        let capability = region.grant(owner, Rights::READ_WRITE)?.id.0;
        let record = NewRecord::new(&memory_name(job, rank))
            .with("capability", capability.cast_signed())
            .with("start", arenas[rank as usize] as i64);
        domain.names().set(&record)?;
    }
    Ok((mapping, Some(region), arenas[0], presence))
}

pub(crate) fn refused(why: impl ToString) -> ObjectError {
    ObjectError::Refused { why: why.to_string() }
}

/// Creates the region. Returns the offset of each rank's objects in it.
fn create_shared_region(
    domain: &Domain,
    presence: &Presence,
    window: Option<String>,
) -> Result<(Region, Mapping, Vec<usize>), ObjectError> {
    let (mut nodes, mut arenas, mut length) = (Vec::new(), Vec::new(), 0_usize);
    for record in presence.records.iter().flatten() {
        if record.integer("version").map_err(refused)? != VERSION {
            return Err(refused(format!("{} is of another version; build all ranks with one", record.name)));
        }
        nodes.push(record.text("node").map_err(refused)?.to_owned());
        let bytes = usize::try_from(record.integer("bytes").map_err(refused)?).map_err(refused)?;
        arenas.push(length);
        length = length.checked_add(bytes).ok_or_else(|| refused("its ranks want too much memory"))?;
    }
    let kernels = Kernels::new(&domain.nodes()?, nodes);
    let options = RegionOptions::new(length as u64);
    let window = window
        .map_or_else(|| kernels.window(&domain.windows()?).map_err(ObjectError::from), |name| Ok(Some(name)));
    let options = match window? {
        Some(window) => options.in_window_of(&window),
        None => options,
    };
    let region = domain.create_region(&options)?;
    let mapping = region.map_with(Rights::READ_WRITE, MAP)?;
    Ok((region, mapping, arenas))
}

/// Waits for rank 0 and maps the memory; called by the other ranks.
fn map_memory(domain: &Domain, job: &tombolo::Job) -> Result<Parts, ObjectError> {
    let record = domain.names().wait_for(&memory_name(job, job.rank()), JOIN_TIMEOUT)?;
    if let Ok(why) = record.text("why") {
        return Err(refused(why));
    }
    let capability = record.integer("capability").map_err(refused)?.cast_unsigned();
    let arena = usize::try_from(record.integer("start").map_err(refused)?).map_err(refused)?;
    let mapping = domain.capability(CapabilityId(capability))?.map_with(Rights::READ_WRITE, MAP)?;
    // All ranks were present when the memory was created: one that is missing now has ended.
    Ok((mapping, None, arena, Presence::new(domain, job)?))
}

/// Number of polls that only spin.
const SPINS: u32 = 200;
/// Number of polls after these that yield the processor; later ones sleep.
const YIELDS: u32 = 200;
const SLEEP: Duration = Duration::from_micros(50);
/// Polls between two queries of the monitor, which are syscalls.
const POLLS_PER_CHECK: u32 = 64;

/// A wait for another rank, which spins, yields, and then sleeps.
#[derive(Debug)]
pub(crate) struct Backoff {
    deadline: Option<Instant>,
    polls: u32,
}

impl Backoff {
    /// Interval between two queries of the monitor that return at once.
    pub(crate) const QUERY_INTERVAL: Duration = Duration::from_millis(2);
    /// Length of a wait at the monitor before ended ranks are checked.
    pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(50);

    pub(crate) fn new(timeout: Duration) -> Backoff {
        Backoff { deadline: Instant::now().checked_add(timeout), polls: 0 }
    }

    /// Returns whether the deadline has passed. Reads the clock only periodically.
    pub(crate) fn has_timed_out(&self) -> bool {
        let reads_clock = self.polls.is_multiple_of(POLLS_PER_CHECK) || self.polls > SPINS + YIELDS;
        reads_clock && self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Waits briefly. Returns whether it is time to check for ended ranks.
    pub(crate) fn wait(&mut self) -> bool {
        self.polls = self.polls.saturating_add(1);
        if self.polls < SPINS {
            tombolo_base::sync::spin_hint();
        } else if self.polls < SPINS + YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(SLEEP);
        }
        self.polls.is_multiple_of(POLLS_PER_CHECK) || self.polls == u32::MAX
    }
}

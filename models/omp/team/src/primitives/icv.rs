//! Internal control variables: what programs and their environment set.

/// How iterations are shared out. The numbers are OpenMP's (`omp_sched_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum ScheduleKind {
    /// In equal parts, or in chunks by turns.
    #[default]
    Static = 1,
    /// In chunks, to threads as they ask.
    Dynamic = 2,
    /// In chunks that get smaller.
    Guided = 3,
    /// As the runtime likes: in equal parts.
    Auto = 4,
}

impl ScheduleKind {
    /// The kind with this number in OpenMP, 1 to 4; `None` for any other.
    pub fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::Static,
            2 => Self::Dynamic,
            3 => Self::Guided,
            4 => Self::Auto,
            _ => return None,
        })
    }
}

/// The bit of a schedule that asks for chunks in order on each thread. They always are.
pub const MONOTONIC: u32 = 0x8000_0000;

/// A schedule as `run-sched-var` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// How iterations are shared out.
    pub kind: ScheduleKind,
    /// [`MONOTONIC`] or 0.
    pub modifier: u32,
    /// Iterations of a chunk; 0 where none was given.
    pub chunk: i32,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { kind: ScheduleKind::Dynamic, modifier: 0, chunk: 1 }
    }
}

/// Variables that each task has its own values of. Every task gets a copy of its parent's: the alignment is
/// so that this is done in pieces which are the same each time, as processors want it that read what they
/// wrote just before.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icv {
    /// Threads of the next region (`nthreads-var`); 0: as many as follows from the speed of the nodes.
    pub threads: u32,
    /// What `schedule(runtime)` is (`run-sched-var`).
    pub schedule: Schedule,
    /// Whether regions may have fewer threads than asked for (`dyn-var`).
    pub dynamic: bool,
    /// How threads are bound (`bind-var`): OpenMP's number.
    pub bind: u8,
    /// Active regions within each other (`max-active-levels-var`).
    pub active_levels: u32,
    /// Threads of a contention group (`thread-limit-var`).
    pub limit: u32,
    /// `default-device-var`.
    pub device: i32,
    /// `def-allocator-var`.
    pub allocator: usize,
}

impl Default for Icv {
    fn default() -> Self {
        Self {
            threads: 1,
            schedule: Schedule::default(),
            dynamic: false,
            bind: 0,
            active_levels: 1,
            limit: u32::MAX,
            device: 0,
            allocator: 1,
        }
    }
}

/// Levels of regions that lists like `OMP_NUM_THREADS` are kept for.
pub const LEVELS: usize = 8;
/// As many active levels as there can be.
pub const ACTIVE_LEVELS_MAX: u32 = u8::MAX as u32;

/// A list with one value for each level.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByLevel<T> {
    values: [T; LEVELS],
    count: usize,
}

impl<T: Copy + Default> ByLevel<T> {
    /// Of values for level 0, 1 and so on; what is beyond [`LEVELS`] is left out.
    pub fn of(values: &[T]) -> Self {
        let mut list = Self::default();
        for (place, value) in list.values.iter_mut().zip(values) {
            *place = *value;
        }
        list.count = values.len().min(LEVELS);
        list
    }

    /// All that there are.
    pub fn all(&self) -> &[T] {
        &self.values[..self.count]
    }

    /// That of a level, if the list is that long.
    pub fn at(&self, level: usize) -> Option<T> {
        self.all().get(level).copied()
    }
}

/// Where threads run that the program creates itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Created {
    /// On the node of the thread that creates them.
    #[default]
    Here,
    /// On all nodes in turn, on each as often as it has processors.
    Spread,
    /// So on the nodes other than that where the program began.
    Others,
}

impl Created {
    /// What has this name.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        Some(match text {
            "here" => Self::Here,
            "spread" => Self::Spread,
            "others" => Self::Others,
            _ => return None,
        })
    }
}

/// What was set before the program began, and for all of it.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What the first task begins with.
    pub icv: Icv,
    /// `OMP_NUM_THREADS` by level.
    pub threads: ByLevel<u32>,
    /// `OMP_PROC_BIND` by level.
    pub binds: ByLevel<u8>,
    /// `OMP_STACKSIZE` in bytes; 0 is the system's.
    pub stack: usize,
    /// `OMP_CANCELLATION`.
    pub cancellation: bool,
    /// `OMP_MAX_TASK_PRIORITY`.
    pub priority: i32,
    /// `OMP_WAIT_POLICY`: whether waiting threads spin; `None` if nothing was said.
    pub active_wait: Option<bool>,
    /// `GOMP_SPINCOUNT`.
    pub spins: Option<u64>,
    /// `OMP_TARGET_OFFLOAD`: whether a region for a device must not run here.
    pub offload_mandatory: bool,
    /// `OMP_TARGET_OFFLOAD`: whether there is to be no device besides the host.
    pub offload_disabled: bool,
    /// `OMP_TOMBOLO_TARGET`: whether devices have a copy of everything, as if they had memory of their own.
    pub target_copies: bool,
    /// Whether all threads of a node are of one process, whose memory is the device's.
    pub own_memory: bool,
    /// `OMP_NUM_TEAMS`.
    pub teams: u32,
    /// `OMP_TEAMS_THREAD_LIMIT`.
    pub teams_limit: u32,
    /// `OMP_DISPLAY_AFFINITY`.
    pub display_affinity: bool,
    /// Whether `OMP_TOMBOLO_REPORT` asks for a report.
    pub report: bool,
    /// `OMP_TOMBOLO_ARENA` in bytes; 0 where nothing was said.
    pub arena: usize,
    /// Processors that the program had at first.
    pub processors: u32,
    /// `OMP_TOMBOLO_PTHREADS`: where threads run that the program creates itself.
    pub created: Created,
    /// `OMP_TOMBOLO_BALANCE`: whether marked functions run on the node where they are fastest.
    pub balance: bool,
}

impl Settings {
    /// The settings of a program with an empty environment on `processors` processors.
    pub fn of(processors: u32) -> Self {
        Self {
            icv: Icv { threads: processors, ..Icv::default() },
            threads: ByLevel::default(),
            binds: ByLevel::default(),
            stack: 0,
            cancellation: false,
            priority: 0,
            active_wait: None,
            spins: None,
            offload_mandatory: false,
            offload_disabled: false,
            target_copies: false,
            own_memory: false,
            teams: 0,
            teams_limit: 0,
            display_affinity: false,
            report: false,
            arena: 0,
            processors,
            created: Created::Here,
            balance: false,
        }
    }

    /// How many turns a thread spins at most before it sleeps: where nothing is said as many as with GCC's
    /// library.
    pub fn turns(&self) -> u64 {
        self.turns_or(300_000)
    }

    /// The same for jobs on several nodes. Their processors may be used by others that are not known here:
    /// those of an emulator are threads of its host.
    pub fn turns_of_several(&self) -> u64 {
        self.turns_or(20_000)
    }

    fn turns_or(&self, unsaid: u64) -> u64 {
        match (self.spins, self.active_wait) {
            (Some(spins), _) => spins,
            (None, Some(true)) => 30_000_000_000,
            (None, Some(false)) => 0,
            (None, None) => unsaid,
        }
    }
}

//! Internal control variables (ICVs), set by programs and their environment.

/// Distribution of a loop's iterations. The numbers are OpenMP's (`omp_sched_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum ScheduleKind {
    /// Equal parts, or chunks in round-robin order.
    #[default]
    Static = 1,
    /// Chunks, claimed by threads on demand.
    Dynamic = 2,
    /// Chunks of decreasing size.
    Guided = 3,
    /// Chosen by the run-time: equal parts.
    Auto = 4,
}

impl ScheduleKind {
    /// Converts OpenMP's number, 1 to 4; `None` for any other.
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

/// Modifier bit of a schedule that asks for chunks in increasing order on each thread. They always are.
pub const MONOTONIC: u32 = 0x8000_0000;

/// Value of `run-sched-var`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Kind of the schedule.
    pub kind: ScheduleKind,
    /// [`MONOTONIC`] or 0.
    pub modifier: u32,
    /// Chunk size in iterations; 0 if none was given.
    pub chunk: i32,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { kind: ScheduleKind::Dynamic, modifier: 0, chunk: 1 }
    }
}

/// Per-task ICVs. Every task gets a copy of its parent's. The alignment ensures that copies use accesses of
/// the same width each time, which store-to-load forwarding requires.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icv {
    /// Threads of the next region (`nthreads-var`); 0 to derive it from the speed of the nodes.
    pub threads: u32,
    /// Schedule of `schedule(runtime)` (`run-sched-var`).
    pub schedule: Schedule,
    /// Whether regions may have fewer threads than asked for (`dyn-var`).
    pub dynamic: bool,
    /// Binding policy of threads (`bind-var`), as OpenMP's number.
    pub bind: u8,
    /// Maximum number of nested active regions (`max-active-levels-var`).
    pub active_levels: u32,
    /// Maximum number of threads of a contention group (`thread-limit-var`).
    pub limit: u32,
    /// Default device number (`default-device-var`).
    pub device: i32,
    /// Default memory allocator (`def-allocator-var`).
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

/// Number of nesting levels that lists like `OMP_NUM_THREADS` are kept for.
pub const LEVELS: usize = 8;
/// Maximum number of active levels.
pub const ACTIVE_LEVELS_MAX: u32 = u8::MAX as u32;

/// List with one value per nesting level.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByLevel<T> {
    values: [T; LEVELS],
    count: usize,
}

impl<T: Copy + Default> ByLevel<T> {
    /// Creates a list of the values for levels 0, 1 and so on; drops those beyond [`LEVELS`].
    pub fn of(values: &[T]) -> Self {
        let mut list = Self::default();
        for (place, value) in list.values.iter_mut().zip(values) {
            *place = *value;
        }
        list.count = values.len().min(LEVELS);
        list
    }

    /// Returns the values of all levels.
    pub fn all(&self) -> &[T] {
        &self.values[..self.count]
    }

    /// Returns the value of a level, if the list is that long.
    pub fn at(&self, level: usize) -> Option<T> {
        self.all().get(level).copied()
    }
}

/// Placement of threads created by the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PthreadPlacement {
    /// On the node of the creating thread.
    #[default]
    Here,
    /// On all nodes in turn, in proportion to their processors.
    Spread,
    /// The same on all nodes other than the first.
    Others,
}

impl PthreadPlacement {
    /// Parses the value of `OMP_TOMBOLO_PTHREADS`.
    #[must_use]
    pub fn from_name(text: &str) -> Option<Self> {
        Some(match text {
            "here" => Self::Here,
            "spread" => Self::Spread,
            "others" => Self::Others,
            _ => return None,
        })
    }
}

/// Settings of the whole program, fixed before it begins.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// ICVs of the initial task.
    pub icv: Icv,
    /// `OMP_NUM_THREADS` by level.
    pub threads: ByLevel<u32>,
    /// `OMP_PROC_BIND` by level.
    pub binds: ByLevel<u8>,
    /// `OMP_STACKSIZE` in bytes; 0 for the system's default.
    pub stack: usize,
    /// `OMP_CANCELLATION`.
    pub cancellation: bool,
    /// `OMP_MAX_TASK_PRIORITY`.
    pub priority: i32,
    /// `OMP_WAIT_POLICY`: whether waiting threads spin; `None` if not set.
    pub active_wait: Option<bool>,
    /// `GOMP_SPINCOUNT`.
    pub spins: Option<u64>,
    /// `OMP_TARGET_OFFLOAD`: whether a region for a device must not fall back to the host.
    pub offload_mandatory: bool,
    /// `OMP_TARGET_OFFLOAD`: whether there are no devices besides the host.
    pub offload_disabled: bool,
    /// `OMP_TOMBOLO_TARGET`: whether devices get copies of everything, as if they had memory of their own.
    pub target_copies: bool,
    /// Whether all threads of a node are in one process, whose memory is the device's.
    pub own_memory: bool,
    /// `OMP_NUM_TEAMS`.
    pub teams: u32,
    /// `OMP_TEAMS_THREAD_LIMIT`.
    pub teams_limit: u32,
    /// `OMP_DISPLAY_AFFINITY`.
    pub display_affinity: bool,
    /// Whether `OMP_TOMBOLO_REPORT` asks for a report.
    pub report: bool,
    /// `OMP_TOMBOLO_ARENA` in bytes; 0 if not set.
    pub arena: usize,
    /// Number of processors that the program had at its start.
    pub processors: u32,
    /// `OMP_TOMBOLO_PTHREADS`: placement of threads created by the program.
    pub pthread_placement: PthreadPlacement,
    /// `OMP_TOMBOLO_BALANCE`: whether marked functions run on the node where they are fastest.
    pub balance: bool,
}

impl Settings {
    /// Returns the settings for an empty environment on `processors` processors.
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
            pthread_placement: PthreadPlacement::Here,
            balance: false,
        }
    }

    /// Returns the maximum number of spin turns before a thread sleeps. The default is that of libgomp.
    pub fn turns(&self) -> u64 {
        self.turns_or(300_000)
    }

    /// Returns the same for jobs on several nodes. Unknown programs may compete for their processors: those
    /// of an emulator are threads of its host.
    pub fn turns_with_several_nodes(&self) -> u64 {
        self.turns_or(20_000)
    }

    fn turns_or(&self, default: u64) -> u64 {
        match (self.spins, self.active_wait) {
            (Some(spins), _) => spins,
            (None, Some(true)) => 30_000_000_000,
            (None, Some(false)) => 0,
            (None, None) => default,
        }
    }
}

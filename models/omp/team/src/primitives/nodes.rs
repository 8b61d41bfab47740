//! Nodes of a job: their properties, and the assignment of a team's threads to them.
//!
//! The table is in the store, so every worker reads the same. Node 0 is the master's. A job that names no
//! others has only that, at no cost: nothing is measured, and every thread is on node 0.
//!
//! The node of a thread follows from its number alone. The assignment of a team of `n` threads is a prefix of
//! that of `n + 1` threads, so a team that grows or shrinks keeps its threads. See [`NodeAssignment`].

use std::borrow::Cow;
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU32, Ordering};

use super::lock::Spinlock;
use super::node_load::NodeLoad;
use super::{speed, sys};

/// Maximum number of nodes of a job.
pub const NODES_MAX: usize = 64;
/// Maximum length of a node's name in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Maximum number of threads per processor if the number of threads is derived from speeds.
pub const THREADS_PER_PROCESSOR_MAX: u32 = 16;
/// Timeout for a node's speed, from the request for its first thread, in milliseconds.
const SPEED_TIMEOUT_MS: u32 = 60_000;

/// Instruction set, encoded as a number in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Isa {
    /// x86-64.
    X86_64 = 1,
    /// 64-bit Arm.
    Aarch64 = 2,
    /// 64-bit RISC-V.
    Riscv64 = 3,
}

impl Isa {
    /// Returns the instruction set of this build.
    pub const fn own() -> Self {
        #[cfg(target_arch = "x86_64")]
        return Self::X86_64;
        #[cfg(target_arch = "aarch64")]
        return Self::Aarch64;
        #[cfg(target_arch = "riscv64")]
        return Self::Riscv64;
    }

    /// Returns the name of the instruction set.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
            Self::Riscv64 => "riscv64",
        }
    }

    /// Parses a name such as `x86_64`; `None` for any other.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::X86_64, Self::Aarch64, Self::Riscv64].into_iter().find(|isa| isa.name() == name)
    }

    fn from_number(number: u32) -> Self {
        let all = [Self::X86_64, Self::Aarch64, Self::Riscv64];
        all.into_iter().find(|isa| *isa as u32 == number).unwrap_or(Self::own())
    }
}

/// Node named in `OMP_TOMBOLO_NODES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedNode {
    /// Name of the node in its machine.
    pub name: String,
    /// Maximum number of threads; 0 if not given.
    pub threads: u32,
}

/// Description of a node to be added.
#[derive(Clone, Copy, Debug)]
pub struct NodeDescription<'a> {
    /// Name of the node in its machine.
    pub name: &'a str,
    /// Its instruction set.
    pub isa: Isa,
    /// Number of its processors.
    pub processors: u32,
    /// Maximum number of threads; 0 for no limit.
    pub threads: u32,
    /// Node whose processors it uses: itself, or the node that emulates its foreign instruction set. Threads
    /// of nodes that share processors count each other when they decide whether to spin.
    pub runs_on: Option<u32>,
}

/// Node on which threads of the job run.
#[repr(C, align(64))]
pub struct Node {
    name: UnsafeCell<[u8; NAME_BYTES_MAX]>,
    name_length: Cell<u32>,
    isa: Cell<u32>,
    processors: Cell<u32>,
    /// Maximum number of threads; 0 for no limit.
    threads: Cell<u32>,
    runs_on: Cell<u32>,
    /// Number of threads created for the node. Guarded by the lock of idle threads.
    pub(crate) created_threads: Cell<u32>,
    /// Steps of [`speed::step`] per millisecond on one processor; 0 if not measured yet.
    speed: AtomicU32,
    reserved: u32,
    reserved_tail: [u64; 4],
    /// Counts of the threads that are awake on the node.
    node_load: NodeLoad,
}

/// All nodes of a job.
#[repr(C, align(64))]
pub struct Nodes {
    /// Number of nodes. A node is written before it is counted, and afterwards only its atomics change.
    count: AtomicU32,
    /// Default number of threads of a team; 0 while the speeds are not known.
    default_team_size: AtomicU32,
    add_lock: Spinlock,
    team_size_lock: Spinlock,
    measure_lock: Spinlock,
    /// Maximum spin turns once there are several nodes.
    turns: Cell<u64>,
    list: [Node; NODES_MAX],
}

// SAFETY: cells are written with `add_lock` held before the node is counted (release), or with the lock that
// they name.
unsafe impl Sync for Node {}
// SAFETY: as for `Node`; `turns` is written before others see the table.
unsafe impl Sync for Nodes {}

// Layout that all builds share.
const _: () = {
    assert!(size_of::<Node>() == 192 && align_of::<Node>() == 64);
    assert!(std::mem::offset_of!(Node, name_length) == 64);
    assert!(std::mem::offset_of!(Node, speed) == 88);
    assert!(std::mem::offset_of!(Node, node_load) == 128);
    assert!(std::mem::offset_of!(Nodes, list) == 64);
    assert!(size_of::<Nodes>() == 64 + NODES_MAX * 192);
};

impl Node {
    /// Returns the node's name in its machine.
    pub fn name(&self) -> String {
        self.name_lossy().into_owned()
    }

    /// Returns the [`name`](Self::name) without heap allocation.
    pub fn name_lossy(&self) -> Cow<'_, str> {
        // SAFETY: the name of a counted node does not change.
        let name = unsafe { &*self.name.get() };
        let length = (self.name_length.get() as usize).min(NAME_BYTES_MAX);
        String::from_utf8_lossy(&name[..length])
    }

    /// The instruction set of its processors.
    pub fn isa(&self) -> Isa {
        Isa::from_number(self.isa.get())
    }

    /// Returns the number of processors.
    pub fn processors(&self) -> u32 {
        self.processors.get()
    }

    /// Returns the maximum number of threads; `u32::MAX` for no limit.
    pub fn max_threads(&self) -> u32 {
        match self.threads.get() {
            0 => u32::MAX,
            threads => threads,
        }
    }

    /// Returns the steps of [`speed::step`] per millisecond on one processor; 0 if not measured yet.
    pub fn speed(&self) -> u32 {
        self.speed.load(Ordering::Acquire)
    }

    /// Returns the node whose processors it uses.
    pub fn runs_on(&self) -> u32 {
        self.runs_on.get()
    }

    /// Returns the speed of all its processors together; one step per processor if not measured.
    pub fn weight(&self) -> u64 {
        u64::from(self.speed().max(1)) * u64::from(self.processors().max(1))
    }

    /// Sets the speed and wakes threads that wait for it.
    pub fn set_speed(&self, speed: u32) {
        self.speed.store(speed.max(1), Ordering::Release);
        sys::futex_wake(&self.speed, u32::MAX >> 1);
    }

    fn write(&self, index: u32, description: NodeDescription<'_>) {
        // SAFETY: the node is not counted yet, and the lock for adding nodes is held.
        let name = unsafe { &mut *self.name.get() };
        let length = description.name.len().min(NAME_BYTES_MAX);
        name[..length].copy_from_slice(&description.name.as_bytes()[..length]);
        self.name_length.set(u32::try_from(length).unwrap_or(0));
        self.isa.set(description.isa as u32);
        self.processors.set(description.processors.clamp(1, u32::from(u16::MAX)));
        self.threads.set(description.threads);
        self.runs_on.set(description.runs_on.unwrap_or(index).min(index));
    }
}

impl Nodes {
    /// Initialises an all-zero table with the master's node. `turns` are the maximum spin turns with one node
    /// and with several.
    pub fn init(&self, own: NodeDescription<'_>, turns: (u64, u64)) {
        self.turns.set(turns.1);
        let first = &self.list[0];
        first.write(0, own);
        first.node_load.configure(first.processors(), turns.0);
        // The master thread.
        first.created_threads.set(1);
        self.count.store(1, Ordering::Release);
    }

    /// Creates a table outside a job.
    #[cfg(test)]
    pub(crate) fn table(own: NodeDescription<'_>) -> Box<Self> {
        // SAFETY: an all-zero table has no nodes and is valid.
        let nodes = unsafe { Box::<Self>::new_zeroed().assume_init() };
        nodes.init(own, (0, 0));
        nodes
    }

    /// Adds a node, before the first region. Returns its number.
    ///
    /// # Errors
    /// There are already [`NODES_MAX`] nodes, the name is invalid or taken, or speeds have already been
    /// measured.
    pub fn add(&self, description: NodeDescription<'_>) -> Result<u32, String> {
        let _held = self.add_lock.lock();
        let count = self.count();
        let name = description.name;
        if count as usize == NODES_MAX {
            return Err(format!("node {name} is one too many: a job can have {NODES_MAX}"));
        }
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(format!(
                "a node's name has 1 to {NAME_BYTES_MAX} bytes, and {name:?} has {}",
                name.len()
            ));
        }
        if self.find(name).is_some() {
            return Err(format!("node {name} is in the job already"));
        }
        if self.default_team_size.load(Ordering::Acquire) != 0 {
            return Err(format!("node {name} comes too late: regions have run"));
        }
        let node = &self.list[count as usize];
        node.write(count, description);
        for node in [node, &self.list[0]] {
            node.node_load.configure(node.processors(), self.turns.get());
        }
        self.count.store(count + 1, Ordering::Release);
        Ok(count)
    }

    /// Sets the name of the master's node and its maximum number of threads (0 for no limit), before the
    /// first region.
    pub fn set_own_description(&self, name: &str, threads: u32) {
        let _held = self.add_lock.lock();
        let own = &self.list[0];
        own.write(
            0,
            NodeDescription { name, isa: Isa::own(), processors: own.processors(), threads, runs_on: None },
        );
    }

    /// Returns the number of nodes.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Whether there are nodes besides the master's.
    #[inline]
    pub fn has_several(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 1
    }

    /// Returns a node, or the master's if the index is invalid.
    #[inline]
    pub fn at(&self, index: u32) -> &Node {
        self.list.get(index as usize).unwrap_or(&self.list[0])
    }

    /// Iterates over all nodes, with their numbers.
    pub fn all(&self) -> impl Iterator<Item = (u32, &Node)> {
        (0..self.count()).map(|index| (index, self.at(index)))
    }

    /// Finds the number of the node with this name.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.all().find(|(_, node)| node.name() == name).map(|(index, _)| index)
    }

    /// Returns the counts of threads that are awake on a node's processors.
    #[inline]
    pub fn node_load(&self, node: u32) -> &NodeLoad {
        &self.at(self.at(node).runs_on()).node_load
    }

    /// Returns the number of processors of all nodes.
    pub fn processors(&self) -> u32 {
        self.all().map(|(_, node)| node.processors()).sum()
    }

    /// Returns the maximum number of threads of a team.
    pub fn max_threads(&self) -> u32 {
        self.all().fold(0, |sum: u32, (_, node)| sum.saturating_add(node.max_threads()))
    }

    /// Returns the default number of threads of a team: one per processor of the slowest node, and
    /// proportionally more on faster ones, so that equal shares of a loop take equally long. Processors get
    /// at most [`THREADS_PER_PROCESSOR_MAX`] threads.
    pub fn threads(&self) -> u32 {
        let Some(slowest) = self.all().map(|(_, node)| u64::from(node.speed().max(1))).min() else {
            return 1;
        };
        let of = |node: &Node| {
            let fair = (node.weight() + slowest / 2) / slowest;
            let fair = u32::try_from(fair).unwrap_or(u32::MAX).max(1);
            fair.min(node.processors().saturating_mul(THREADS_PER_PROCESSOR_MAX)).min(node.max_threads())
        };
        self.all().fold(0, |sum: u32, (_, node)| sum.saturating_add(of(node)))
    }
}

/// Assignment of a team's threads to nodes, in order of their numbers.
///
/// Thread 0 is the master, on its own node. Then each node gets one thread, in the order of the table, as a
/// named node is to take part. Each further thread goes to the node with the largest share per thread: speed
/// times processors, divided by the number of threads that it would have. Among all ways to assign threads
/// one by one this keeps the slowest thread fastest, and if the nodes' weights are multiples of each other it
/// reaches their exact proportion (it is the divisor method of D'Hondt).
pub struct NodeAssignment<'a> {
    nodes: &'a Nodes,
    threads: [u32; NODES_MAX],
}

impl<'a> NodeAssignment<'a> {
    /// Begins the assignment of a team whose master is on this node.
    pub fn new(nodes: &'a Nodes, master: u32) -> Self {
        let mut assignment = Self { nodes, threads: [0; NODES_MAX] };
        assignment.count(master);
        assignment
    }

    /// Counts a thread that was already assigned to this node.
    pub fn count(&mut self, node: u32) {
        self.threads[node as usize % NODES_MAX] += 1;
    }

    /// Returns the node of the next thread.
    pub fn next_node(&mut self) -> u32 {
        let there = |index: u32| self.threads[index as usize];
        let room = |&(index, node): &(u32, &Node)| there(index) < node.max_threads();
        let unused = self.nodes.all().filter(room).find(|&(index, _)| there(index) == 0);
        let best = || {
            self.nodes.all().filter(room).reduce(|best, next| {
                let share = |(_, node): (u32, &Node), (other, _): (u32, &Node)| {
                    u128::from(node.weight()) * (u128::from(there(other)) + 1)
                };
                if share(next, best) > share(best, next) { next } else { best }
            })
        };
        // A team exceeds the capacity of its nodes only if it is one of many.
        let next = unused.or_else(best).map_or(0, |(index, _)| index);
        self.count(next);
        next
    }
}

impl Nodes {
    /// Returns the default number of threads of a team. With several nodes this needs their speeds:
    /// `start_first_worker` starts the first thread of a node, which measures the node before it waits for
    /// work.
    pub fn default_team_size(&self, start_first_worker: impl Fn(u32) -> Result<(), String>) -> u32 {
        match self.default_team_size.load(Ordering::Acquire) {
            0 => self.compute_default_team_size(start_first_worker),
            threads => threads,
        }
    }

    #[cold]
    fn compute_default_team_size(&self, start_first_worker: impl Fn(u32) -> Result<(), String>) -> u32 {
        let _held = self.team_size_lock.lock();
        match self.default_team_size.load(Ordering::Acquire) {
            0 => {}
            threads => return threads,
        }
        for (index, _) in self.all().filter(|(index, node)| *index > 0 && node.speed() == 0) {
            if let Err(text) = start_first_worker(index) {
                sys::fatal(text);
            }
        }
        self.measure(0);
        for (_, node) in self.all() {
            let began = sys::now_ns();
            while node.speed() == 0 {
                if sys::now_ns() - began > u64::from(SPEED_TIMEOUT_MS) * 1_000_000 {
                    sys::fatal(format_args!(
                        "node {} did not report its speed within {} s: its worker does not run; `tombolo ps` shows the node's domains",
                        node.name(),
                        SPEED_TIMEOUT_MS / 1000
                    ));
                }
                sys::futex_wait_for(&node.speed, 0, 1);
            }
        }
        let threads = self.threads();
        self.default_team_size.store(threads, Ordering::Release);
        threads
    }

    /// Measures the node of the calling thread unless it is measured already. Only one thread of the job
    /// measures at a time, as nodes may share processors.
    pub fn measure(&self, node: u32) {
        let node = self.at(node);
        if node.speed() == 0 {
            let _held = self.measure_lock.lock();
            if node.speed() == 0 {
                node.set_speed(speed::measure());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(name: &str, processors: u32, threads: u32) -> NodeDescription<'_> {
        NodeDescription { name, isa: Isa::Aarch64, processors, threads, runs_on: None }
    }

    /// Creates nodes from triples: processors, maximum number of threads, and speed.
    fn table(list: &[(u32, u32, u32)]) -> Box<Nodes> {
        let (first, others) = list.split_first().expect("a node");
        let nodes =
            Nodes::table(NodeDescription { isa: Isa::own(), ..description("host", first.0, first.1) });
        for (index, &(processors, threads, _)) in others.iter().enumerate() {
            nodes.add(description(&format!("node{index}"), processors, threads)).expect("there is room");
        }
        for ((_, node), (_, _, speed)) in nodes.all().zip(list) {
            node.set_speed(*speed);
        }
        nodes
    }

    fn plan(nodes: &Nodes, size: usize) -> Vec<u32> {
        let mut assignment = NodeAssignment::new(nodes, 0);
        std::iter::once(0).chain((1..size).map(|_| assignment.next_node())).collect()
    }

    fn counts(nodes: &Nodes, size: usize) -> Vec<usize> {
        let plan = plan(nodes, size);
        nodes.all().map(|(index, _)| plan.iter().filter(|&&node| node == index).count()).collect()
    }

    #[test]
    fn single_node_has_one_thread_per_processor() {
        let nodes = table(&[(4, 0, 1000)]);
        assert_eq!(plan(&nodes, 5), [0; 5]);
        assert_eq!((nodes.threads(), nodes.has_several(), nodes.max_threads()), (4, false, u32::MAX));
    }

    #[test]
    fn each_node_gets_a_thread_before_any_gets_two() {
        let nodes = table(&[(64, 0, 1_000_000), (1, 0, 1), (2, 0, 10)]);
        assert_eq!(plan(&nodes, 4), [0, 1, 2, 0]);
    }

    #[test]
    fn default_thread_counts_follow_node_speeds() {
        let nodes = table(&[(2, 0, 3000), (4, 0, 1000)]);
        assert_eq!(nodes.threads(), 6 + 4);
        assert_eq!(counts(&nodes, 10), [6, 4]);
        assert_eq!(counts(&nodes, 20), [12, 8]);
        // Nearly equal nodes get one thread per processor.
        assert_eq!(table(&[(2, 0, 1030), (2, 0, 1000)]).threads(), 4);
        // A node of negligible speed does not cause a thousand threads on the others.
        assert_eq!(table(&[(2, 0, 1_000_000), (1, 0, 1)]).threads(), 2 * THREADS_PER_PROCESSOR_MAX + 1);
    }

    #[test]
    fn thread_limit_is_kept() {
        let nodes = table(&[(2, 3, 1000), (2, 1, 9000)]);
        assert_eq!((counts(&nodes, 4), nodes.max_threads()), (vec![3, 1], 4));
        assert_eq!(nodes.threads(), 2 + 1);
    }

    #[test]
    fn invalid_nodes_are_rejected() {
        let nodes = table(&[(1, 0, 1)]);
        let long = "n".repeat(NAME_BYTES_MAX + 1);
        assert!(nodes.add(description("host", 1, 0)).is_err_and(|text| text.contains("already")));
        assert!(nodes.add(description(&long, 1, 0)).is_err_and(|text| text.contains("bytes")));
        for index in 1..NODES_MAX {
            nodes.add(description(&index.to_string(), 1, 0)).expect("there is room");
        }
        assert!(nodes.add(description("more", 1, 0)).is_err_and(|text| text.contains("too many")));
        assert_eq!(nodes.find("17"), Some(17));
        assert_eq!((nodes.at(17).name().as_str(), nodes.at(17).isa()), ("17", Isa::Aarch64));
    }

    #[test]
    fn nodes_on_same_processors_share_load_counts() {
        let nodes = table(&[(2, 0, 1)]);
        let emulated = nodes
            .add(NodeDescription { runs_on: Some(0), ..description("arm", 2, 0) })
            .expect("there is room");
        let apart = nodes.add(description("vm", 2, 0)).expect("there is room");
        assert!(std::ptr::eq(nodes.node_load(0), nodes.node_load(emulated)));
        assert!(!std::ptr::eq(nodes.node_load(0), nodes.node_load(apart)));
    }

    proptest::proptest! {
        #[test]
        fn growing_team_keeps_threads_in_proportion(
            list in proptest::collection::vec((1_u32..9, 0_u32..5, 1_u32..100_000), 1..6),
            size in 1_usize..60,
        ) {
            let nodes = table(&list);
            let longer = plan(&nodes, size + 1);
            proptest::prop_assert_eq!(&plan(&nodes, size)[..], &longer[..size]);
            let counts = counts(&nodes, size);
            for ((_, node), &count) in nodes.all().zip(&counts) {
                let within = size as u64 <= u64::from(nodes.max_threads());
                proptest::prop_assert!(!within || count as u64 <= u64::from(node.max_threads()).max(1));
            }
            // No thread would be better off on another node: the last thread of a node has at least the share
            // that it would have on any other node with room.
            if size as u64 <= u64::from(nodes.max_threads()) {
                for ((_, from), &had) in nodes.all().zip(&counts).filter(|(_, had)| **had > 1) {
                    for ((_, to), &has) in nodes.all().zip(&counts) {
                        if (has as u64) < u64::from(to.max_threads()) {
                            let (here, there) = (from.weight() * (has as u64 + 1), to.weight() * had as u64);
                            proptest::prop_assert!(here >= there);
                        }
                    }
                }
            }
        }
    }
}

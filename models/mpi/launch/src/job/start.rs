//! Starting ranks: sequentially on each node, with all nodes in parallel.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tombolo::nodes::{NodeInfo, NodeKind};
use tombolo::{Child, Domain, Error, SpawnOptions};
use tombolo_placement::{MAX_RANKS, PlacementError};
use tombolo_platform::lock_unpoisoned;

use super::{JobError, JobOptions, Part, RankName, Stdin, Watcher};
use crate::environment::SharedMemory;
use crate::pmi::process_mapping;

/// Environment variable with the descriptor of the rank's process-manager connection.
const PMI_VARIABLE: &str = "PMI_FD";

/// Makes ROMIO, MPICH's MPI-IO, refuse files by naming a file system that it does not have; the rest of the
/// value appears in its error message.
const NO_COMMON_FILES: (&str, &str) = (
    "ROMIO_FSTYPE_FORCE",
    "panfs: (MPI-IO is refused: the nodes of this job have no file system in common; have one node read and write, or set \
     ROMIO_FSTYPE_FORCE=ufs: if they do)",
);

/// Whether ranks on these nodes have different file systems. Each virtual machine has its own.
fn have_separate_file_systems(of_ranks: &[usize], nodes: &[NodeInfo]) -> bool {
    let is_vm = |index: &usize| nodes.get(*index).is_some_and(|node| node.kind == NodeKind::Vm);
    of_ranks.iter().any(is_vm) && of_ranks.iter().any(|index| Some(index) != of_ranks.first())
}

/// Checks that every rank can run on its node.
pub(super) fn check(options: &JobOptions) -> Result<(), JobError> {
    check_count(options.parts.iter().map(|part| part.nodes.len()).sum())?;
    options.parts.iter().try_for_each(|part| check_part(part, &options.nodes))?;
    let mut linked = options.parts.iter().filter_map(|part| Some((part, part.program.mpi()?)));
    let Some((first, (mpi, library))) = linked.next() else { return Ok(()) };
    match linked.find(|(_, (other, _))| *other != mpi) {
        None => Ok(()),
        Some((second, (_, other))) => Err(JobError::MixedMpi {
            first: first.program.name.clone(),
            first_library: library.to_owned(),
            second: second.program.name.clone(),
            second_library: other.to_owned(),
        }),
    }
}

pub(super) fn check_count(total: usize) -> Result<(), PlacementError> {
    match total {
        0 => Err(PlacementError::Count("a job has at least one rank: 0 were asked for".into())),
        1..=MAX_RANKS => Ok(()),
        more => {
            Err(PlacementError::Count(format!("a job has at most {MAX_RANKS} ranks: {more} were asked for")))
        }
    }
}

/// Checks that a program can run on its nodes and finds its MPI library there.
pub(super) fn check_part(part: &Part, nodes: &[NodeInfo]) -> Result<(), JobError> {
    for node in nodes_of_part(part, nodes) {
        if let Some(build) = part.program.build_for(node)? {
            part.environment.check(node, build, finds_own_mpi(part, node))?;
        }
    }
    Ok(())
}

/// Nodes that a part uses, without duplicates.
fn nodes_of_part<'a>(part: &'a Part, nodes: &'a [NodeInfo]) -> impl Iterator<Item = &'a NodeInfo> {
    nodes.iter().enumerate().filter(|(index, _)| part.nodes.contains(index)).map(|(_, node)| node)
}

/// Whether the program's run path leads to an MPI library. Scripts are unknown, so our library is added
/// at the end of their search path.
fn finds_own_mpi(part: &Part, node: &NodeInfo) -> bool {
    match part.program.build_for(node) {
        Ok(Some(build)) => {
            build.mpi.as_ref().is_some_and(|(_, library)| part.program.has_in_run_path(build, library))
        }
        _ => false,
    }
}

/// The PMI process mapping of a world: which ranks share memory.
pub(super) fn mapping(parts: &[Part]) -> String {
    let apart = |part: &Part| part.environment.shared_memory() == SharedMemory::Tombolo;
    let nodes: Vec<usize> = parts.iter().flat_map(|part| part.nodes.iter().copied()).collect();
    let mapping_value = if parts.iter().any(apart) { None } else { process_mapping(&nodes) };
    mapping_value.unwrap_or_else(|| format!("(vector,(0,{},1))", nodes.len()))
}

/// A rank that is ready to start.
pub(super) struct RankStart {
    pub(super) name: RankName,
    pub(super) node: usize,
    pub(super) spawn: SpawnOptions,
}

/// Start descriptions of the ranks of a world, indexed by rank.
pub(super) fn rank_starts(
    parts: &[Part],
    nodes: &[NodeInfo],
    world: usize,
    (job, stdin): (&str, Stdin),
    watcher: &dyn Watcher,
) -> Vec<RankStart> {
    let size: usize = parts.iter().map(|part| part.nodes.len()).sum();
    let mut of_node: BTreeMap<usize, usize> = BTreeMap::new();
    let all: Vec<usize> = parts.iter().flat_map(|part| part.nodes.iter().copied()).collect();
    let separate_files = have_separate_file_systems(&all, nodes);
    let mut rank_starts = Vec::new();
    for part in parts {
        let environments = environments(part, nodes, watcher);
        for index in &part.nodes {
            let (Some(node), Some(environment)) = (nodes.get(*index), environments.get(index)) else {
                continue;
            };
            let name = RankName { world, rank: rank_starts.len() };
            let local = of_node.entry(*index).or_default();
            let with_input = match stdin {
                _ if world > 0 => false,
                Stdin::None => false,
                Stdin::First => name.rank == 0,
                Stdin::All => true,
            };
            let mut spawn = part
                .program
                .spawn_options(node)
                .args(&part.arguments)
                .directory(&part.directory)
                .with_side_stream(PMI_VARIABLE);
            if separate_files && environment.iter().all(|(name, _)| name != NO_COMMON_FILES.0) {
                spawn = spawn.env(NO_COMMON_FILES.0, NO_COMMON_FILES.1);
            }
            for (name, value) in environment {
                spawn = spawn.env(name, value);
            }
            let local_size = all.iter().filter(|other| *other == index).count();
            for (variable, value) in [
                ("PMI_RANK", name.rank),
                ("PMI_SIZE", size),
                // The variables of other launchers.
                ("MPI_LOCALRANKID", *local),
                ("MPI_LOCALNRANKS", local_size),
            ] {
                spawn = spawn.env(variable, value.to_string());
            }
            spawn = spawn.rank(name.rank as u32, size as u32, job);
            if world > 0 {
                spawn = spawn.env("PMI_SPAWNED", "1");
            }
            *local += 1;
            rank_starts.push(RankStart {
                name,
                node: *index,
                spawn: if with_input { spawn.with_input() } else { spawn },
            });
        }
    }
    rank_starts
}

/// Environment of a part's ranks per node.
fn environments(
    part: &Part,
    nodes: &[NodeInfo],
    watcher: &dyn Watcher,
) -> BTreeMap<usize, Vec<(String, String)>> {
    let mut all = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate().filter(|(index, _)| part.nodes.contains(index)) {
        let (environment, left) = part.environment.for_node(node, finds_own_mpi(part, node));
        if !left.is_empty() {
            watcher.warn(&format!("variables that are too long to travel stay behind: {}", left.join(", ")));
        }
        all.insert(index, environment);
    }
    all
}

/// Starts all ranks; stops at the first failure or when `stops` returns true. Returns one result per rank, or
/// `None` for those that were not tried.
pub(super) fn start_all(
    domain: &Domain,
    rank_starts: &[RankStart],
    watcher: &dyn Watcher,
    stops: impl Fn() -> bool + Sync,
) -> Vec<Option<Result<Child, Error>>> {
    let failed = AtomicBool::new(false);
    let outcomes: Mutex<Vec<Option<Result<Child, Error>>>> =
        Mutex::new((0..rank_starts.len()).map(|_| None).collect());
    let start_on = |node: usize| {
        for (index, start) in rank_starts.iter().enumerate().filter(|(_, start)| start.node == node) {
            if failed.load(Ordering::Relaxed) || stops() {
                return;
            }
            watcher.on_starting();
            let outcome = domain.spawn(&start.spawn);
            watcher.on_started(outcome.as_ref().ok().map(|child| (start.name, child)));
            if outcome.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            lock_unpoisoned(&outcomes)[index] = Some(outcome);
        }
    };
    let mut nodes: Vec<usize> = rank_starts.iter().map(|start| start.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    std::thread::scope(|scope| {
        let start_on = &start_on;
        for node in nodes.iter().skip(1).copied() {
            scope.spawn(move || start_on(node));
        }
        nodes.first().copied().into_iter().for_each(start_on);
    });
    outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tombolo::{Isa, NodeId};

    use super::*;

    #[test]
    fn virtual_machines_have_separate_file_systems() {
        let kinds = [NodeKind::Host, NodeKind::User, NodeKind::Vm, NodeKind::Vm];
        let nodes = kinds.map(|kind| NodeInfo::new(NodeId(0), kind.name(), kind, Isa::Aarch64));
        for (of_ranks, unlike) in [
            (&[0, 0, 0][..], false),
            (&[0, 1, 0], false),
            (&[2, 2], false),
            (&[2], false),
            (&[0, 2], true),
            (&[1, 2], true),
            (&[2, 3], true),
        ] {
            assert_eq!(have_separate_file_systems(of_ranks, &nodes), unlike, "{of_ranks:?}");
        }
    }
}

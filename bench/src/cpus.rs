//! Selects and pins the processors on which the two sides of a measurement run.

use std::fs;

use serde::{Deserialize, Serialize};

use tombolo_bench_far::cpus::set;
pub use tombolo_bench_far::cpus::{allowed, pin, waited_ns};

/// Guard that keeps the calling thread pinned to one processor until dropped.
#[derive(Debug)]
pub struct Pinned {
    before: Vec<usize>,
}

impl Pinned {
    /// Pins this thread to `cpu`.
    ///
    /// # Errors
    /// As [`pin`].
    pub fn to(cpu: usize) -> std::io::Result<Self> {
        let before = allowed()?;
        pin(cpu)?;
        Ok(Pinned { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The mask was valid before. If the kernel rejects it now, the thread stays pinned, which is
        // harmless.
        let _ = set(&self.before);
    }
}

/// Returns two of the allowed processors: the first, and the next that is not a hardware thread of the same
/// core, so that the two sides do not share execution units. `None` when fewer than two are allowed.
#[must_use]
pub fn pair(allowed: &[usize]) -> Option<(usize, usize)> {
    pair_apart_from(allowed, &siblings(*allowed.first()?))
}

fn pair_apart_from(allowed: &[usize], siblings: &[usize]) -> Option<(usize, usize)> {
    let (first, others) = allowed.split_first()?;
    let second = others.iter().find(|cpu| !siblings.contains(cpu)).or(others.first())?;
    Some((*first, *second))
}

/// Closest resource that two processors share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// One core: they are two of its hardware threads.
    Core,
    /// A cache, but not a core.
    Cache,
    /// Neither a core nor a cache.
    Nothing,
}

/// Returns what two processors share according to the kernel; `None` if it exposes no cache topology.
#[must_use]
pub fn sharing(first: usize, second: usize) -> Option<Sharing> {
    let shared_lists = (0..8).map_while(|index| {
        let path = format!("/sys/devices/system/cpu/cpu{first}/cache/index{index}/shared_cpu_list");
        fs::read_to_string(path).ok()
    });
    sharing_of(second, &siblings(first), &shared_lists.map(|list| parse_list(&list)).collect::<Vec<_>>())
}

/// Returns what `second` shares with a processor, given its `siblings` and the sharers of each of its caches.
fn sharing_of(second: usize, siblings: &[usize], caches: &[Vec<usize>]) -> Option<Sharing> {
    if siblings.contains(&second) {
        Some(Sharing::Core)
    } else if caches.is_empty() {
        None
    } else if caches.iter().any(|cache| cache.contains(&second)) {
        Some(Sharing::Cache)
    } else {
        Some(Sharing::Nothing)
    }
}

/// Returns the hardware threads of a processor's core; empty if the kernel does not expose them.
fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    fs::read_to_string(path).map(|list| parse_list(&list)).unwrap_or_default()
}

/// Parses a processor list in the kernel's format: `0-3,8`.
pub(crate) fn parse_list(list: &str) -> Vec<usize> {
    let range = |part: &str| -> Option<Vec<usize>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.parse().ok()?..=last.parse().ok()?).collect())
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_two_cores_where_there_are_two() {
        assert_eq!(pair_apart_from(&[0, 1, 2, 3], &[0, 1]), Some((0, 2)));
        assert_eq!(pair_apart_from(&[0, 1, 2, 3], &[0, 2]), Some((0, 1)));
        assert_eq!(pair_apart_from(&[4, 5], &[4, 5]), Some((4, 5)));
        assert_eq!(pair_apart_from(&[7], &[]), None);
        assert_eq!(pair_apart_from(&[], &[]), None);
    }

    #[test]
    fn sharing_is_read_from_the_topology() {
        let caches = [vec![0, 4], vec![0, 4], vec![0, 1, 4, 5]];
        assert_eq!(sharing_of(4, &[0, 4], &caches), Some(Sharing::Core));
        assert_eq!(sharing_of(5, &[0, 4], &caches), Some(Sharing::Cache));
        assert_eq!(sharing_of(2, &[0, 4], &caches), Some(Sharing::Nothing));
        assert_eq!(sharing_of(2, &[0, 4], &[]), None);
        assert_eq!(sharing_of(4, &[0, 4], &[]), Some(Sharing::Core));
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(parse_list("0-2,8,10-11\n"), [0, 1, 2, 8, 10, 11]);
        assert_eq!(parse_list("5"), [5]);
        assert!(parse_list("").is_empty());
        assert!(parse_list("nonsense").is_empty());
    }

    #[test]
    fn pinning_ends() {
        let before = allowed().expect("the kernel says");
        let pinned = Pinned::to(before[0]).expect("it is allowed");
        assert_eq!(allowed().expect("the kernel says"), [before[0]]);
        drop(pinned);
        assert_eq!(allowed().expect("the kernel says"), before);
    }
}

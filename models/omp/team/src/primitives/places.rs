//! `OMP_PLACES`: sets of processors that threads are bound to.

use std::fs;

use super::store::Store;
use super::sys::{self, Processors};

/// Threads are not bound. The numbers are OpenMP's (`omp_proc_bind_t`).
pub const FALSE: u8 = 0;
/// Bound, by a policy that the run-time chooses.
pub const TRUE: u8 = 1;
/// Bound to the master's place.
pub const PRIMARY: u8 = 2;
/// Bound to places close to the master's.
pub const CLOSE: u8 = 3;
/// Bound to places spread as far apart as possible.
pub const SPREAD: u8 = 4;

/// Returns the name of a policy.
pub fn bind_policy_name(bind: u8) -> &'static str {
    ["FALSE", "TRUE", "PRIMARY", "CLOSE", "SPREAD"].get(usize::from(bind)).copied().unwrap_or("FALSE")
}

/// All places of the job.
#[derive(Clone, Copy)]
pub struct Places {
    list: &'static [Processors],
}

impl Places {
    /// Stores a list of places in the store.
    pub fn new(store: &'static Store, places: &[Processors]) -> Self {
        let bytes = size_of_val(places);
        let list = if places.is_empty() {
            &[][..]
        } else {
            let Some(memory) = store.allocate(bytes, 64) else { store.exhausted() };
            // SAFETY: the memory was allocated with this length and is never freed.
            unsafe {
                std::ptr::copy_nonoverlapping(places.as_ptr(), memory.cast(), places.len());
                std::slice::from_raw_parts(memory.cast(), places.len())
            }
        };
        Self { list }
    }

    /// Returns the number of places.
    pub fn len(&self) -> u32 {
        u32::try_from(self.list.len()).unwrap_or(u32::MAX)
    }

    /// Whether there are none, so that threads are not bound.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the place with this index, from 0; `None` if the index is too large.
    pub fn at(&self, index: u32) -> Option<&'static Processors> {
        self.list.get(index as usize)
    }

    /// Formats the places as `OMP_DISPLAY_ENV` shows them.
    pub fn describe(&self) -> String {
        let places: Vec<String> =
            self.list.iter().map(|place| format!("{{{}}}", format_processors(place))).collect();
        places.join(",")
    }
}

/// Lists the numbers of the processors in a set.
pub fn numbers(set: &Processors) -> Vec<usize> {
    (0..sys::limit()).filter(|&processor| sys::includes(set, processor)).collect()
}

/// Formats a set of processors as ranges, such as `0-3,7`.
pub fn format_processors(set: &Processors) -> String {
    let numbers = numbers(set);
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let show = |&(first, last): &(usize, usize)| {
        if first == last { format!("{first}") } else { format!("{first}-{last}") }
    };
    runs.iter().map(show).collect::<Vec<_>>().join(",")
}

fn set_of(numbers: impl IntoIterator<Item = usize>) -> Processors {
    // SAFETY: an empty mask is a valid value, all of whose bytes are zero.
    let mut set: Processors = unsafe { std::mem::zeroed() };
    numbers.into_iter().for_each(|number| sys::include(&mut set, number));
    set
}

/// Returns a place for each processor.
pub fn threads(available: &Processors) -> Vec<Processors> {
    numbers(available).into_iter().map(|number| set_of([number])).collect()
}

/// Parses `OMP_PLACES`: a name with an optional number, or a list.
pub fn parse(text: &str, available: &Processors) -> Option<Vec<Processors>> {
    if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return parse_name(text, available);
    }
    let mut places: Vec<Processors> = Vec::new();
    for item in split_places(text) {
        let (without, item) = item.strip_prefix('!').map_or((false, item), |item| (true, item.trim_start()));
        // A place may be given as the number of its only processor, without braces.
        let (inside, tail) = match item.strip_prefix('{') {
            Some(body) => body.split_once('}')?,
            None => item.find(':').map_or((item, ""), |at| item.split_at(at)),
        };
        let numbers_in = parse_place(inside)?;
        let (count, stride) = parse_repeat(tail.trim())?;
        for repeat in 0..count {
            let moved = |number: &usize| {
                i64::try_from(*number).ok().and_then(|number| usize::try_from(number + repeat * stride).ok())
            };
            let place = set_of(
                numbers_in.iter().filter_map(moved).filter(|&number| sys::includes(available, number)),
            );
            if numbers(&place).is_empty() {
                continue;
            }
            if without {
                places.retain(|other| numbers(other) != numbers(&place));
            } else {
                places.push(place);
            }
        }
    }
    (!places.is_empty()).then_some(places)
}

/// Splits a list of places at commas outside braces.
fn split_places(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    let outer_comma = move |at: char| {
        inside = if inside { at != '}' } else { at == '{' };
        at == ',' && !inside
    };
    text.split(outer_comma).map(str::trim)
}

/// Parses `:count[:stride]` or an empty text.
fn parse_repeat(text: &str) -> Option<(i64, i64)> {
    if text.is_empty() {
        return Some((1, 1));
    }
    let mut parts = text.strip_prefix(':')?.split(':').map(|part| part.trim().parse::<i64>().ok());
    let count = parts.next()??;
    let stride = parts.next().map_or(Some(1), |stride| stride)?;
    (count > 0 && count < 65536 && parts.next().is_none()).then_some((count, stride))
}

/// Parses `number[:count[:stride]],…`, where `!` excludes numbers.
fn parse_place(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for item in text.split(',').map(str::trim) {
        let (without, item) = item.strip_prefix('!').map_or((false, item), |item| (true, item));
        let (first, repeat) = item.find(':').map_or((item, ""), |at| item.split_at(at));
        let first: i64 = first.trim().parse().ok()?;
        let (count, stride) = parse_repeat(repeat)?;
        for repeat in 0..count {
            let number = usize::try_from(first + repeat * stride).ok()?;
            if without {
                numbers.retain(|&other| other != number);
            } else {
                numbers.push(number);
            }
        }
    }
    Some(numbers)
}

fn parse_name(text: &str, available: &Processors) -> Option<Vec<Processors>> {
    let (name, count) = match text.split_once('(') {
        Some((name, count)) => (
            name.trim(),
            count.trim_end_matches(')').trim().parse::<usize>().ok().filter(|&count| count > 0)?,
        ),
        None => (text, usize::MAX),
    };
    let file = match name.to_ascii_lowercase().as_str() {
        "threads" => None,
        "cores" => Some("topology/thread_siblings_list"),
        "sockets" => Some("topology/core_siblings_list"),
        "ll_caches" => Some("cache/index3/shared_cpu_list"),
        "numa_domains" => Some(NODE_LIST),
        _ => return None,
    };
    let mut places: Vec<Processors> = Vec::new();
    for number in numbers(available) {
        if places.iter().any(|place| sys::includes(place, number)) {
            continue;
        }
        let read_topology_list = file.and_then(|file| read_topology_list(number, file));
        let together =
            read_topology_list.and_then(|list| list_numbers(list.trim())).unwrap_or_else(|| vec![number]);
        places.push(set_of(
            together.into_iter().chain([number]).filter(|&other| sys::includes(available, other)),
        ));
    }
    places.truncate(count);
    Some(places)
}

/// File with the processors of a NUMA node, in the node's directory.
const NODE_LIST: &str = "cpulist";

/// Reads the kernel's list of processors that share `file`'s resource with a processor. A processor's
/// directory has a link to its NUMA node, named after the node's number.
fn read_topology_list(number: usize, file: &str) -> Option<String> {
    let folder = format!("/sys/devices/system/cpu/cpu{number}");
    if file != NODE_LIST {
        return fs::read_to_string(format!("{folder}/{file}")).ok();
    }
    let is_node = |name: &str| {
        name.strip_prefix("node").is_some_and(|digits| digits.bytes().all(|at| at.is_ascii_digit()))
    };
    let mut links = fs::read_dir(folder).ok()?.flatten();
    let node = links.find(|link| link.file_name().to_str().is_some_and(is_node))?;
    fs::read_to_string(node.path().join(NODE_LIST)).ok()
}

/// Parses `0-3,7`, also with spaces and strides as in `GOMP_CPU_AFFINITY`.
fn list_numbers(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for item in text.split([',', ' ']).filter(|item| !item.is_empty()) {
        let (range, stride) = item.split_once(':').map_or((item, "1"), |parts| parts);
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        numbers.extend(
            (first..=last.min(sys::limit()))
                .step_by(stride.parse::<usize>().ok().filter(|&stride| stride > 0)?),
        );
    }
    Some(numbers)
}

/// Parses `GOMP_CPU_AFFINITY`: one place per number.
pub fn parse_list(text: &str, available: &Processors) -> Option<Vec<Processors>> {
    let there = |number: &usize| sys::includes(available, *number);
    let places: Vec<_> =
        list_numbers(text)?.into_iter().filter(there).map(|number| set_of([number])).collect();
    (!places.is_empty()).then_some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eight() -> Processors {
        set_of(0..8)
    }

    fn parsed(text: &str) -> Option<Vec<Vec<usize>>> {
        parse(text, &eight()).map(|places| places.iter().map(numbers).collect())
    }

    #[test]
    fn place_lists_are_parsed() {
        assert_eq!(parsed("{0,1},{2,3}"), Some(vec![vec![0, 1], vec![2, 3]]));
        assert_eq!(parsed("{0:2}:3:2"), Some(vec![vec![0, 1], vec![2, 3], vec![4, 5]]));
        assert_eq!(parsed("{0:4,!2}"), Some(vec![vec![0, 1, 3]]));
        assert_eq!(parsed("{7:1:1}:2"), Some(vec![vec![7]]), "what is not there is left out");
        assert_eq!(parsed("{0}:4,!{2}"), Some(vec![vec![0], vec![1], vec![3]]));
        assert_eq!(parsed("{0}, {1}:2 , !{2}"), Some(vec![vec![0], vec![1]]));
        assert_eq!(parsed("0, 2:2,7"), Some(vec![vec![0], vec![2], vec![3], vec![7]]));
        for wrong in ["{0", "{a}", "{0}:0", "{}", "cabbages", "threads(0)", "{0},", "{0}{1}", "0,x"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn place_names_are_parsed() {
        assert_eq!(parsed("threads(3)"), Some(vec![vec![0], vec![1], vec![2]]));
        assert_eq!(parsed("THREADS").map(|places| places.len()), Some(8));
    }

    #[test]
    fn processors_are_formatted() {
        assert_eq!(format_processors(&set_of([0, 1, 2, 5, 7, 8])), "0-2,5,7-8");
        assert_eq!(list_numbers("0 3 1-2 4-9:2"), Some(vec![0, 3, 1, 2, 4, 6, 8]));
    }
}

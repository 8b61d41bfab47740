//! Load of the processors, and use of memory.

use std::os::fd::OwnedFd;

use super::read::{Reader, lines, number, open, words};
use super::{MAX_PROCESSORS, SystemPaths};

/// Time counters of a processor since the kernel started, in kernel ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Ticks {
    busy: u64,
    all: u64,
}

/// Memory use of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryUsage {
    /// Memory that is not available for other use, in bytes.
    pub used_bytes: u64,
    /// Total memory, in bytes.
    pub total_bytes: u64,
}

/// Reads the load of processors and memory.
#[derive(Debug)]
pub struct LoadMeter {
    stat: Option<OwnedFd>,
    meminfo: Option<OwnedFd>,
    before: Vec<Ticks>,
    now: Vec<Ticks>,
    permille: Vec<u16>,
}

impl LoadMeter {
    /// Opens the files to read.
    #[must_use]
    pub fn open(paths: &SystemPaths) -> LoadMeter {
        let file = |name: &str| open(&paths.proc.join(name));
        let (stat, meminfo) = (file("stat"), file("meminfo"));
        LoadMeter { stat, meminfo, before: Vec::new(), now: Vec::new(), permille: Vec::new() }
    }

    /// Returns the load of each processor since the last call, in thousandths; since the kernel started at
    /// the first call. Indexes without a processor read 0. Time that the hypervisor gave to other guests
    /// counts as idle.
    pub fn processors(&mut self, reader: &mut Reader) -> &[u16] {
        std::mem::swap(&mut self.before, &mut self.now);
        self.now.clear();
        if let Some(bytes) = self.stat.as_ref().and_then(|file| reader.record(file)) {
            parse_stat(bytes, &mut self.now);
        }
        self.permille.resize(self.now.len(), 0);
        self.before.resize(self.now.len(), Ticks::default());
        for ((load, before), now) in self.permille.iter_mut().zip(&self.before).zip(&self.now) {
            let all = now.all.saturating_sub(before.all);
            let busy = now.busy.saturating_sub(before.busy).min(all);
            // Less than a tick has passed: keep the last value.
            if let Some(permille) = busy.saturating_mul(1000).checked_div(all) {
                *load = permille as u16;
            }
        }
        &self.permille
    }

    /// Returns the current memory use of the machine.
    pub fn memory(&self, reader: &mut Reader) -> MemoryUsage {
        let bytes = self.meminfo.as_ref().and_then(|file| reader.record(file));
        bytes.map(parse_meminfo).unwrap_or_default()
    }
}

/// Parses the lines of `/proc/stat` about processors.
fn parse_stat(bytes: &[u8], found: &mut Vec<Ticks>) {
    for line in lines(bytes) {
        let mut fields = words(line);
        let Some(digits) = fields.next().and_then(|name| name.strip_prefix(b"cpu")) else { return };
        let Some(index) = number(digits).and_then(|index| usize::try_from(index).ok()) else { continue };
        if index >= MAX_PROCESSORS {
            continue;
        }
        // user, nice, system, idle, iowait, irq, softirq, steal
        let mut times = [0_u64; 8];
        for (time, field) in times.iter_mut().zip(fields) {
            *time = number(field).unwrap_or(0);
        }
        let all = times.iter().fold(0_u64, |sum, time| sum.saturating_add(*time));
        let [_, _, _, idle, iowait, _, _, steal] = times;
        let busy = all.saturating_sub(idle).saturating_sub(iowait).saturating_sub(steal);
        if found.len() <= index {
            found.resize(index + 1, Ticks::default());
        }
        found[index] = Ticks { busy, all };
    }
}

/// Parses `/proc/meminfo`.
fn parse_meminfo(bytes: &[u8]) -> MemoryUsage {
    let (mut total, mut free, mut available) = (0, None, None);
    for line in lines(bytes) {
        let mut fields = words(line);
        let (Some(name), Some(kib)) = (fields.next(), fields.next().and_then(number)) else { continue };
        match name {
            b"MemTotal:" => total = kib,
            b"MemFree:" => free = Some(kib),
            b"MemAvailable:" => {
                available = Some(kib);
                break;
            }
            _ => {}
        }
    }
    let left = available.or(free).unwrap_or(0);
    let bytes = |kib: u64| kib.saturating_mul(1024);
    MemoryUsage { used_bytes: bytes(total.saturating_sub(left)), total_bytes: bytes(total) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn idle_waiting_and_stolen_time_is_not_load() {
        let stat = b"cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 10 20 30 100 50 1 2 7 3 3\ncpu2 1 0 0 9\nintr 99 1\ncpu3 5 5 5 5\n";
        let mut found = Vec::new();
        parse_stat(stat, &mut found);
        let ticks = |busy, all| Ticks { busy, all };
        assert_eq!(found, [ticks(63, 220), ticks(0, 0), ticks(1, 10)]);
    }

    #[test]
    fn used_memory_is_the_total_less_the_available() {
        let memory = |used_kib: u64, total_kib: u64| MemoryUsage {
            used_bytes: used_kib * 1024,
            total_bytes: total_kib * 1024,
        };
        let new = b"MemTotal:  1000 kB\nMemFree:  100 kB\nMemAvailable:  700 kB\nBuffers: 5 kB\n";
        assert_eq!(parse_meminfo(new), memory(300, 1000));
        assert_eq!(parse_meminfo(b"MemTotal: 1000 kB\nMemFree: 100 kB\n"), memory(900, 1000));
        assert_eq!(parse_meminfo(b"MemTotal: x\n"), memory(0, 0));
    }

    proptest! {
        #[test]
        fn arbitrary_stat_gives_a_bounded_number_of_processors(noise in "(cpu[0-9]{0,5}( [0-9]{1,22}){0,12}\n|[ -~]{0,9}\n){0,9}") {
            let mut found = Vec::new();
            parse_stat(noise.as_bytes(), &mut found);
            prop_assert!(found.len() <= MAX_PROCESSORS);
            prop_assert!(found.iter().all(|ticks| ticks.busy <= ticks.all));
        }

        #[test]
        fn arbitrary_meminfo_never_uses_more_than_the_total(noise in prop::collection::vec(any::<u8>(), 0..200)) {
            let memory = parse_meminfo(&noise);
            prop_assert!(memory.used_bytes <= memory.total_bytes);
        }

        #[test]
        fn well_formed_meminfo_with_any_numbers_never_uses_more_than_the_total(noise in "(Mem(Total|Free|Available): +[0-9]{1,22} kB\n){0,6}") {
            let memory = parse_meminfo(noise.as_bytes());
            prop_assert!(memory.used_bytes <= memory.total_bytes);
        }
    }
}

//! Power drawn by the machine, as measured by its hardware.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::SystemPaths;
use super::read::{Reader, number, open, saturate_u32};

/// Maximum number of meters read.
pub const MAX_METERS: usize = 32;

/// Maximum length of a meter's name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Maximum number of sensors per device.
const MAX_SENSORS: usize = 16;

/// Reading of one power meter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meter<'a> {
    /// Name given by the hardware.
    pub name: &'a str,
    /// Mean power since the last reading, in milliwatts.
    pub power_mw: u32,
}

#[derive(Debug)]
enum MeterKind {
    /// Counts energy in microjoules, and wraps after this value.
    Energy { wraps_at: u64, before: Option<(u64, u64)> },
    /// Reports the power in microwatts.
    Power,
}

#[derive(Debug)]
struct Source {
    name: String,
    file: OwnedFd,
    kind: MeterKind,
    power_mw: u32,
}

/// The power meters of a machine.
#[derive(Debug)]
pub struct PowerMeters {
    sources: Vec<Source>,
}

impl PowerMeters {
    /// Finds the meters that this user may read. For processors these are whole packages and their memory: a
    /// package includes its other parts, but not its memory.
    #[must_use]
    pub fn open(paths: &SystemPaths, reader: &mut Reader) -> PowerMeters {
        let mut sources = Vec::new();
        for zone in children(&paths.sys.join("class/powercap")) {
            sources.extend(energy_meter(&zone, reader));
        }
        for device in children(&paths.sys.join("class/hwmon")) {
            add_sensors(&device, reader, &mut sources);
        }
        sources.truncate(MAX_METERS);
        PowerMeters { sources }
    }

    /// Reads all meters at `now_ns` of the monotonic clock. Energy counters give no power at the first
    /// reading.
    pub fn sample(&mut self, reader: &mut Reader, now_ns: u64) {
        for source in &mut self.sources {
            let value = reader.record(&source.file).map(<[u8]>::trim_ascii).and_then(number);
            source.power_mw = match (&mut source.kind, value) {
                (_, None) => 0,
                (MeterKind::Power, Some(microwatts)) => saturate_u32(microwatts / 1000),
                (MeterKind::Energy { wraps_at, before }, Some(energy)) => {
                    let before = before.replace((energy, now_ns));
                    before.map_or(0, |before| milliwatts(before, (energy, now_ns), *wraps_at))
                }
            };
        }
    }

    /// Returns the readings of all meters.
    pub fn meters(&self) -> impl Iterator<Item = Meter<'_>> {
        self.sources.iter().map(|source| Meter { name: &source.name, power_mw: source.power_mw })
    }
}

/// Returns the mean power from two readings of a counter of microjoules, each with its time in nanoseconds.
fn milliwatts(before: (u64, u64), now: (u64, u64), wraps_at: u64) -> u32 {
    let energy = match now.0.checked_sub(before.0) {
        Some(energy) => energy,
        None if before.0 <= wraps_at => wraps_at - before.0 + now.0,
        // The value exceeds the counter's range: a different counter.
        None => 0,
    };
    let elapsed = u128::from(now.1.saturating_sub(before.1));
    let power = (u128::from(energy) * 1_000_000).checked_div(elapsed).unwrap_or(0);
    u32::try_from(power).unwrap_or(u32::MAX)
}

/// Returns the entries of a sysfs folder, in the order of their names.
fn children(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn checked_name(name: String) -> Option<String> {
    (1..=MAX_NAME_BYTES).contains(&name.len()).then_some(name)
}

/// Returns an energy counter: `intel-rapl:0`, which is not only for Intel, and its subzone `intel-rapl:0:2`
/// if that is memory.
fn energy_meter(zone: &Path, reader: &mut Reader) -> Option<Source> {
    let file_name = zone.file_name()?.to_str()?;
    let (_, numbers) = file_name.strip_prefix("intel-rapl").and_then(|rest| rest.split_once(':'))?;
    // Another interface to the same counters.
    if file_name.starts_with("intel-rapl-mmio") {
        return None;
    }
    let mut name = reader.text(&zone.join("name"))?;
    if let Some((package, _)) = numbers.split_once(':') {
        if name != "dram" {
            return None;
        }
        let package = zone.with_file_name(format!("intel-rapl:{package}"));
        name = format!("{} {name}", reader.text(&package.join("name"))?);
    } else if !name.starts_with("package") {
        // Includes the packages: the whole board.
        return None;
    }
    let wraps_at = reader.number(&zone.join("max_energy_range_uj")).unwrap_or(0);
    let file = open(&zone.join("energy_uj"))?;
    Some(Source {
        name: checked_name(name)?,
        file,
        kind: MeterKind::Energy { wraps_at, before: None },
        power_mw: 0,
    })
}

/// Finds the power sensors of a device.
fn add_sensors(device: &Path, reader: &mut Reader, found: &mut Vec<Source>) {
    let Some(name) = reader.text(&device.join("name")) else { return };
    for number in 1..=MAX_SENSORS {
        let file = |what: &str| device.join(format!("power{number}_{what}"));
        let Some(sensor) = open(&file("average")).or_else(|| open(&file("input"))) else { continue };
        let label = reader.text(&file("label")).unwrap_or_else(|| format!("power{number}"));
        if let Some(name) = checked_name(format!("{name} {label}")) {
            found.push(Source { name, file: sensor, kind: MeterKind::Power, power_mw: 0 });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_counter_that_wraps_is_followed() {
        // 3 J in 1.5 s.
        assert_eq!(milliwatts((1_000_000, 0), (4_000_000, 1_500_000_000), 10_000_000), 2000);
        assert_eq!(milliwatts((9_000_000, 0), (2_000_000, 1_000_000_000), 10_000_000), 3000);
        assert_eq!(milliwatts((9_000_000, 0), (2_000_000, 1_000_000_000), 0), 0);
        assert_eq!(milliwatts((9_000_000, 5), (9_000_001, 5), 0), 0);
    }

    proptest! {
        #[test]
        fn arbitrary_readings_never_overflow(before: (u64, u64), now: (u64, u64), wraps_at: u64) {
            let now = (now.0.min(wraps_at), now.1);
            let _ = milliwatts(before, now, wraps_at);
        }
    }
}

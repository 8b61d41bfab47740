//! Clock frequencies of processors.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::SystemPaths;
use super::read::{Reader, lines, number, open, saturate_u32};

/// Maximum number of distinct governors.
pub const MAX_GOVERNORS: usize = 16;

/// Maximum length of a governor's name, in bytes.
const MAX_GOVERNOR_BYTES: usize = 32;

/// Number of processors per reading; later readings cover the others.
const PROCESSORS_PER_SAMPLE: usize = 16;

/// Number of readings per read of `/proc/cpuinfo`, which is long and makes the kernel query every processor.
const SAMPLES_PER_CPUINFO_READ: u32 = 16;

/// Frequencies of a processor; 0 if unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Frequency {
    /// Current frequency, in kHz.
    pub khz: u32,
    /// Lowest frequency supported by the hardware, in kHz.
    pub min_khz: u32,
    /// Highest frequency supported by the hardware, in kHz.
    pub max_khz: u32,
    /// Lowest frequency allowed by the settings, in kHz.
    pub floor_khz: u32,
    /// Highest frequency allowed by the settings, in kHz.
    pub ceiling_khz: u32,
    /// Governor, as an index into [`FrequencyMeter::governors`].
    pub governor: Option<u8>,
}

#[derive(Debug)]
struct Processor {
    folder: Option<PathBuf>,
    frequency: Frequency,
}

/// Frequencies of a machine's processors.
#[derive(Debug)]
pub struct FrequencyMeter {
    folder: PathBuf,
    processors: Vec<Processor>,
    governors: Vec<String>,
    next: usize,
    /// Fallback if processors have no folders in sysfs; dropped when its content turns out to be useless.
    cpuinfo: Option<OwnedFd>,
    samples: u32,
    /// Buffer for the names of files.
    path: PathBuf,
}

/// Returns the sysfs folder of the processors.
pub(super) fn folder(paths: &SystemPaths) -> PathBuf {
    paths.sys.join("devices/system/cpu")
}

/// Returns the sysfs folder of one processor's frequencies.
pub(super) fn folder_of(processors: &Path, index: usize) -> PathBuf {
    processors.join(format!("cpu{index}/cpufreq"))
}

impl FrequencyMeter {
    /// Opens the files to read.
    #[must_use]
    pub fn open(paths: &SystemPaths) -> FrequencyMeter {
        FrequencyMeter {
            folder: folder(paths),
            processors: Vec::new(),
            governors: Vec::new(),
            next: 0,
            cpuinfo: open(&paths.proc.join("cpuinfo")),
            samples: 0,
            path: PathBuf::new(),
        }
    }

    /// Reads the first `count` processors, or some of them if there are many.
    pub fn sample(&mut self, reader: &mut Reader, count: usize) {
        self.processors.truncate(count);
        while self.processors.len() < count {
            let processor = self.probe(reader, self.processors.len());
            self.processors.push(processor);
        }
        for _ in 0..count.min(PROCESSORS_PER_SAMPLE) {
            let index = self.next % count;
            self.next = index + 1;
            self.read_processor(reader, index);
        }
        self.samples = self.samples.wrapping_add(1);
        if self.samples % SAMPLES_PER_CPUINFO_READ == 1
            && self.processors.iter().all(|each| each.folder.is_none())
        {
            self.read_cpuinfo(reader);
        }
    }

    /// Returns the last reading of each processor.
    pub fn processors(&self) -> impl Iterator<Item = &Frequency> {
        self.processors.iter().map(|processor| &processor.frequency)
    }

    /// Returns the governors known so far.
    #[must_use]
    pub fn governors(&self) -> &[String] {
        &self.governors
    }

    /// Reads the constant properties of a processor.
    fn probe(&mut self, reader: &mut Reader, index: usize) -> Processor {
        let folder = Some(folder_of(&self.folder, index)).filter(|folder| folder.is_dir());
        let mut frequency = Frequency::default();
        if let Some(folder) = &folder {
            let mut khz = |name: &str| reader.number(&folder.join(name)).map_or(0, saturate_u32);
            (frequency.min_khz, frequency.max_khz) = (khz("cpuinfo_min_freq"), khz("cpuinfo_max_freq"));
            let offered = reader.text(&folder.join("scaling_available_governors")).unwrap_or_default();
            for name in offered.split_ascii_whitespace() {
                governor(&mut self.governors, name.as_bytes());
            }
        }
        Processor { folder, frequency }
    }

    fn read_processor(&mut self, reader: &mut Reader, index: usize) {
        let Some(Processor { folder: Some(folder), frequency }) = self.processors.get_mut(index) else {
            return;
        };
        self.path.clone_from(folder);
        let mut file = |name: &str| {
            self.path.push(name);
            let khz = reader.number(&self.path).map_or(0, saturate_u32);
            self.path.pop();
            khz
        };
        frequency.khz = file("scaling_cur_freq");
        frequency.floor_khz = file("scaling_min_freq");
        frequency.ceiling_khz = file("scaling_max_freq");
        self.path.push("scaling_governor");
        frequency.governor = reader.file(&self.path).and_then(|name| governor(&mut self.governors, name));
    }

    fn read_cpuinfo(&mut self, reader: &mut Reader) {
        let Some(bytes) = self.cpuinfo.as_ref().and_then(|file| reader.records(file)) else { return };
        let mut found_any = false;
        parse_cpuinfo(bytes, |index, khz| {
            found_any = true;
            if let Some(processor) = self.processors.get_mut(index) {
                processor.frequency.khz = khz;
            }
        });
        if !found_any {
            self.cpuinfo = None;
        }
    }
}

/// Returns the index of a governor, adding it if it is new.
fn governor(known: &mut Vec<String>, name: &[u8]) -> Option<u8> {
    let index = known.iter().position(|other| other.as_bytes() == name);
    let index = index.or_else(|| {
        let is_name = (1..=MAX_GOVERNOR_BYTES).contains(&name.len()) && known.len() < MAX_GOVERNORS;
        let name = std::str::from_utf8(name).ok().filter(|_| is_name)?;
        known.push(name.to_owned());
        Some(known.len() - 1)
    })?;
    u8::try_from(index).ok()
}

/// Parses `/proc/cpuinfo` and calls `on_khz` with each processor that has a frequency.
fn parse_cpuinfo(bytes: &[u8], mut on_khz: impl FnMut(usize, u32)) {
    let mut index = None;
    for line in lines(bytes) {
        let mut parts = line.splitn(2, |byte| *byte == b':').map(<[u8]>::trim_ascii);
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else { continue };
        match name {
            b"processor" => index = number(value).and_then(|index| usize::try_from(index).ok()),
            b"cpu MHz" => {
                if let (Some(index), Some(khz)) = (index, khz(value)) {
                    on_khz(index, khz);
                }
            }
            _ => {}
        }
    }
}

/// Parses a number of MHz with a decimal point.
fn khz(megahertz: &[u8]) -> Option<u32> {
    let mut parts = megahertz.splitn(2, |byte| *byte == b'.');
    let whole = parts.next().and_then(number)?;
    let thousandths = parts.next().map_or(Some(0), |digits| {
        let mut padded = *b"000";
        padded.iter_mut().zip(digits).for_each(|(place, digit)| *place = *digit);
        number(&padded)
    })?;
    Some(saturate_u32(whole.saturating_mul(1000).saturating_add(thousandths)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn megahertz_have_a_point() {
        let mut found = Vec::new();
        let text =
            b"processor\t: 0\nmodel name\t: A: B\ncpu MHz\t\t: 2596.124\n\nprocessor\t: 7\ncpu MHz\t: 800\n\
                     processor : x\ncpu MHz : 5\n";
        parse_cpuinfo(text, |index, khz| found.push((index, khz)));
        assert_eq!(found, [(0, 2_596_124), (7, 800_000)]);
        assert_eq!((khz(b"1.5"), khz(b"1.x"), khz(b".5")), (Some(1500), None, None));
    }

    proptest! {
        #[test]
        fn garbage_is_nothing(noise in "(processor\t: [0-9]{0,25}\n|cpu MHz: [0-9.]{0,25}\n|[ -~]{0,30}\n){0,9}") {
            parse_cpuinfo(noise.as_bytes(), |_, _| {});
        }

        #[test]
        fn governors_are_few_and_short(names in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..40)) {
            let mut known = Vec::new();
            for name in &names {
                let place = governor(&mut known, name);
                prop_assert_eq!(place.map(|place| known[usize::from(place)].as_bytes()).unwrap_or(name), name.as_slice());
            }
            prop_assert!(known.len() <= MAX_GOVERNORS);
            prop_assert!(known.iter().all(|name| name.len() <= MAX_GOVERNOR_BYTES));
        }
    }
}

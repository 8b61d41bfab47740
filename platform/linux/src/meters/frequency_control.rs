//! Sets the frequencies of processors, and restores the former values.
//!
//! A change is made completely or not at all. The former value of a file is recorded before its first change,
//! here and in a memory file that another process may also hold ([`restore_recorded`]). It is written back on
//! [`FrequencyControl::restore`] and when the [`FrequencyControl`] is dropped.

use std::fs::OpenOptions;
use std::io::{Error, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::frequency::{folder, folder_of};
use super::read::{Reader, number};
use super::{MAX_PROCESSORS, SystemPaths};
use crate::Errno;
use crate::error::{Context, OsError};

/// Number of passes over the former values: a value may be refused until another is restored.
const RESTORE_PASSES: usize = 2;

/// Change of the frequency settings of processors.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FrequencySettings {
    /// Processors to change; all if empty.
    pub processors: Vec<u16>,
    /// New governor; unchanged if `None`.
    pub governor: Option<String>,
    /// Lowest frequency allowed, in kHz; unchanged if `None`.
    pub min_khz: Option<u32>,
    /// Highest frequency allowed, in kHz; unchanged if `None`.
    pub max_khz: Option<u32>,
}

/// Reason for refusing a change.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum FrequencyError {
    /// The kernel offers no settings.
    #[error(
        "the node's kernel offers no frequency settings: there is no {}/cpu0/cpufreq (virtual machines rarely \
         have it)", folder.display()
    )]
    Nothing { folder: PathBuf },
    /// A processor does not exist or has no settings.
    #[error("cannot set the frequency of processor {processor}: there is no {}", folder.display())]
    Processor { processor: u16, folder: PathBuf },
    /// The governor does not exist.
    #[error("processor {processor} has no governor {wanted}; it offers {offered}")]
    Governor { processor: u16, wanted: String, offered: String },
    /// The frequency range is not supported.
    #[error(
        "processor {processor} cannot run from {floor_khz} to {ceiling_khz} kHz; it supports {min_khz} to {max_khz} kHz"
    )]
    Range { processor: u16, floor_khz: u64, ceiling_khz: u64, min_khz: u64, max_khz: u64 },
    /// A file has unexpected content.
    #[error("{} has unexpected content", path.display())]
    UnexpectedContent { path: PathBuf },
    /// The kernel refused the change.
    #[error("cannot write {value} to {}: {cause}{}; nothing was changed", path.display(), advice(cause))]
    Kernel { path: PathBuf, value: String, cause: Error },
    /// The former values could not be recorded.
    #[error(transparent)]
    Record(#[from] OsError),
}

fn advice(cause: &Error) -> &'static str {
    match cause.kind() {
        std::io::ErrorKind::PermissionDenied => {
            " (run the node's monitor as a user who may write there, by default root)"
        }
        _ => "",
    }
}

/// Writable setting file of a processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Setting {
    Governor,
    Floor,
    Ceiling,
}

impl Setting {
    const ALL: [Setting; 3] = [Setting::Governor, Setting::Floor, Setting::Ceiling];

    fn file_name(self) -> &'static str {
        match self {
            Setting::Governor => "scaling_governor",
            Setting::Floor => "scaling_min_freq",
            Setting::Ceiling => "scaling_max_freq",
        }
    }
}

/// Saved value of a setting file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct SavedSetting {
    processor: u16,
    setting: Setting,
    value: String,
}

impl SavedSetting {
    fn path(&self, processors: &Path) -> PathBuf {
        folder_of(processors, self.processor.into()).join(self.setting.file_name())
    }

    fn write(&self, processors: &Path) -> Result<(), Error> {
        write(&self.path(processors), &self.value)
    }

    fn is_same_setting(&self, other: &SavedSetting) -> bool {
        (self.processor, self.setting) == (other.processor, other.setting)
    }
}

/// Step of a change: the current and the new value of a file.
struct Step {
    saved: SavedSetting,
    value: String,
}

/// Control over the frequencies of a machine's processors.
#[derive(Debug)]
pub struct FrequencyControl {
    folder: PathBuf,
    saved: Vec<SavedSetting>,
    ledger: Option<OwnedFd>,
}

impl FrequencyControl {
    /// Creates the control. Also records former values in `ledger`, a memory file, if given.
    #[must_use]
    pub fn new(paths: &SystemPaths, ledger: Option<OwnedFd>) -> FrequencyControl {
        FrequencyControl { folder: folder(paths), saved: Vec::new(), ledger }
    }

    /// Returns whether any setting differs from its former value.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        !self.saved.is_empty()
    }

    /// Applies a change completely or, on an error, not at all.
    ///
    /// # Errors
    /// [`FrequencyError`]; all settings are unchanged.
    pub fn set(&mut self, change: &FrequencySettings) -> Result<(), FrequencyError> {
        let steps = self.plan(change)?;
        let known = self.saved.len();
        for step in &steps {
            if !self.saved.iter().any(|saved| saved.is_same_setting(&step.saved)) {
                self.saved.push(step.saved.clone());
            }
        }
        if let Err(error) = self.write_ledger() {
            self.saved.truncate(known);
            return Err(error.into());
        }
        for (done, step) in steps.iter().enumerate() {
            let path = step.saved.path(&self.folder);
            if let Err(cause) = write(&path, &step.value) {
                // In reverse order, each step restores what it overwrote.
                let undone: Vec<_> =
                    steps[..done].iter().rev().map(|step| step.saved.write(&self.folder)).collect();
                if undone.iter().all(Result::is_ok) {
                    self.saved.truncate(known);
                    self.write_ledger()?;
                }
                return Err(FrequencyError::Kernel { path, value: step.value.clone(), cause });
            }
        }
        Ok(())
    }

    /// Restores all former values. Retries those that the kernel refuses on the next call.
    pub fn restore(&mut self) {
        if self.saved.is_empty() {
            return;
        }
        restore_saved(&self.folder, &mut self.saved);
        // If this fails, the values are merely restored again later.
        let _ = self.write_ledger();
    }

    /// Returns the steps of a change, in order.
    fn plan(&self, change: &FrequencySettings) -> Result<Vec<Step>, FrequencyError> {
        let mut reader = Reader::default();
        let mut steps = Vec::new();
        for processor in self.processors(change)? {
            self.plan_processor(&mut reader, processor, change, &mut steps)?;
        }
        Ok(steps)
    }

    fn processors(&self, change: &FrequencySettings) -> Result<Vec<u16>, FrequencyError> {
        let has = |processor: &u16| folder_of(&self.folder, (*processor).into()).is_dir();
        let all: Vec<u16> = (0..MAX_PROCESSORS as u16).filter(has).collect();
        if all.is_empty() {
            return Err(FrequencyError::Nothing { folder: self.folder.clone() });
        }
        if change.processors.is_empty() {
            return Ok(all);
        }
        let missing = change.processors.iter().find(|processor| !all.contains(processor));
        match missing {
            Some(&processor) => Err(FrequencyError::Processor {
                processor,
                folder: folder_of(&self.folder, processor.into()),
            }),
            None => Ok(change.processors.clone()),
        }
    }

    fn plan_processor(
        &self,
        reader: &mut Reader,
        processor: u16,
        change: &FrequencySettings,
        steps: &mut Vec<Step>,
    ) -> Result<(), FrequencyError> {
        let folder = folder_of(&self.folder, processor.into());
        let mut read_setting = |name: &str| {
            let path = folder.join(name);
            reader.text(&path).ok_or(FrequencyError::UnexpectedContent { path })
        };
        let mut khz = |name: &str| {
            let value = read_setting(name)?;
            number(value.as_bytes())
                .ok_or_else(|| FrequencyError::UnexpectedContent { path: folder.join(name) })
        };
        let mut ranges = Vec::new();
        if change.min_khz.is_some() || change.max_khz.is_some() {
            let (min_khz, max_khz) = (khz("cpuinfo_min_freq")?, khz("cpuinfo_max_freq")?);
            let (floor, ceiling) = (khz(Setting::Floor.file_name())?, khz(Setting::Ceiling.file_name())?);
            let floor_khz = change.min_khz.map_or(floor, u64::from);
            let ceiling_khz = change.max_khz.map_or(ceiling, u64::from);
            if !(min_khz <= floor_khz && floor_khz <= ceiling_khz && ceiling_khz <= max_khz) {
                return Err(FrequencyError::Range { processor, floor_khz, ceiling_khz, min_khz, max_khz });
            }
            ranges.push((Setting::Floor, floor, floor_khz));
            ranges.push((Setting::Ceiling, ceiling, ceiling_khz));
            // The minimum must never exceed the maximum.
            if floor_khz > ceiling {
                ranges.reverse();
            }
        }
        if let Some(wanted) = &change.governor {
            let offered = read_setting("scaling_available_governors")?;
            if !offered.split_ascii_whitespace().any(|name| name == wanted) {
                return Err(FrequencyError::Governor { processor, wanted: wanted.clone(), offered });
            }
            let setting = Setting::Governor;
            let saved = SavedSetting { processor, setting, value: read_setting(setting.file_name())? };
            steps.push(Step { saved, value: wanted.clone() });
        }
        for (setting, before, value) in ranges.into_iter().filter(|(_, before, value)| before != value) {
            let saved = SavedSetting { processor, setting, value: before.to_string() };
            steps.push(Step { saved, value: value.to_string() });
        }
        Ok(())
    }

    /// Records the changed settings for a process that outlives this one.
    fn write_ledger(&self) -> Result<(), OsError> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let line = |saved: &SavedSetting| {
            format!("{} {} {}\n", saved.processor, saved.setting.file_name(), saved.value)
        };
        let text: String = self.saved.iter().map(line).collect();
        let doing = "record the frequency settings";
        let mut written = 0;
        while let Some(rest) = text.as_bytes().get(written..).filter(|rest| !rest.is_empty()) {
            written += rustix::io::pwrite(ledger, rest, written as u64).context(doing)?;
        }
        rustix::fs::ftruncate(ledger, text.len() as u64).context(doing)
    }
}

impl Drop for FrequencyControl {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Restores the settings that a dead process recorded in its ledger and did not restore itself.
///
/// # Errors
/// An error of the kernel.
pub fn restore_recorded(paths: &SystemPaths, ledger: impl AsFd) -> Result<(), OsError> {
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match rustix::io::pread(&ledger, &mut piece, text.len() as u64) {
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(&piece[..count]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(OsError::new("read the recorded frequency settings", errno)),
        }
    }
    let mut saved: Vec<SavedSetting> =
        String::from_utf8_lossy(&text).lines().filter_map(parse_line).collect();
    restore_saved(&folder(paths), &mut saved);
    match saved.is_empty() {
        true => Ok(()),
        false => Err(OsError::new("restore the frequency settings", Errno::IO)),
    }
}

fn parse_line(line: &str) -> Option<SavedSetting> {
    let mut words = line.split(' ');
    let processor = words.next()?.parse().ok()?;
    let name = words.next()?;
    let setting = Setting::ALL.into_iter().find(|setting| setting.file_name() == name)?;
    let value = words.next()?.to_owned();
    words.next().is_none().then_some(SavedSetting { processor, setting, value })
}

/// Writes back the former values, the last change first; failed ones stay recorded.
fn restore_saved(processors: &Path, saved: &mut Vec<SavedSetting>) {
    for _ in 0..RESTORE_PASSES {
        saved.reverse();
        saved.retain(|saved| saved.write(processors).is_err());
        saved.reverse();
    }
}

fn write(path: &Path, value: &str) -> Result<(), Error> {
    // The kernel expects the whole value in one call.
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(format!("{value}\n").as_bytes())
}

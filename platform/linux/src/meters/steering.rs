//! Sets the frequencies of processors, and restores the former values.
//!
//! A change is made completely or not at all. The former value of a file is recorded before its first change,
//! here and in a memory file that another process may also hold ([`give_back`]). It is written back on
//! [`Steering::restore`] and when the [`Steering`] is dropped.

use std::fs::OpenOptions;
use std::io::{Error, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::frequency::{folder, folder_of};
use super::read::{Reader, number};
use super::{Folders, MAX_PROCESSORS};
use crate::Errno;
use crate::error::{Context, OsError};

/// Number of passes over the former values: a value may be refused until another is restored.
const PASSES: usize = 2;

/// Change of the frequency settings of processors.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
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
pub enum Refusal {
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
    Senseless { path: PathBuf },
    /// The kernel refused the change.
    #[error("cannot write {value} to {}: {cause}{}; nothing was changed", path.display(), advice(cause))]
    Kernel { path: PathBuf, value: String, cause: Error },
    /// The former values could not be recorded.
    #[error(transparent)]
    Note(#[from] OsError),
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

/// Former value of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Former {
    processor: u16,
    setting: Setting,
    value: String,
}

impl Former {
    fn path(&self, processors: &Path) -> PathBuf {
        folder_of(processors, self.processor.into()).join(self.setting.file_name())
    }

    fn write(&self, processors: &Path) -> Result<(), Error> {
        write(&self.path(processors), &self.value)
    }

    fn is_of(&self, other: &Former) -> bool {
        (self.processor, self.setting) == (other.processor, other.setting)
    }
}

/// Step of a change: the current and the new value of a file.
struct Step {
    former: Former,
    value: String,
}

/// Control over the frequencies of a machine's processors.
#[derive(Debug)]
pub struct Steering {
    folder: PathBuf,
    former: Vec<Former>,
    ledger: Option<OwnedFd>,
}

impl Steering {
    /// Creates the control. Also records former values in `ledger`, a memory file, if given.
    #[must_use]
    pub fn new(folders: &Folders, ledger: Option<OwnedFd>) -> Steering {
        Steering { folder: folder(folders), former: Vec::new(), ledger }
    }

    /// Returns whether any setting differs from its former value.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        !self.former.is_empty()
    }

    /// Applies a change completely or, on an error, not at all.
    ///
    /// # Errors
    /// [`Refusal`]; all settings are unchanged.
    pub fn set(&mut self, change: &Change) -> Result<(), Refusal> {
        let steps = self.plan(change)?;
        let known = self.former.len();
        for step in &steps {
            if !self.former.iter().any(|former| former.is_of(&step.former)) {
                self.former.push(step.former.clone());
            }
        }
        if let Err(error) = self.note() {
            self.former.truncate(known);
            return Err(error.into());
        }
        for (done, step) in steps.iter().enumerate() {
            let path = step.former.path(&self.folder);
            if let Err(cause) = write(&path, &step.value) {
                // In reverse order, each step restores what it overwrote.
                let undone: Vec<_> =
                    steps[..done].iter().rev().map(|step| step.former.write(&self.folder)).collect();
                if undone.iter().all(Result::is_ok) {
                    self.former.truncate(known);
                    self.note()?;
                }
                return Err(Refusal::Kernel { path, value: step.value.clone(), cause });
            }
        }
        Ok(())
    }

    /// Restores all former values. Retries those that the kernel refuses on the next call.
    pub fn restore(&mut self) {
        if self.former.is_empty() {
            return;
        }
        write_back(&self.folder, &mut self.former);
        // If this fails, the values are merely restored again later.
        let _ = self.note();
    }

    /// Returns the steps of a change, in order.
    fn plan(&self, change: &Change) -> Result<Vec<Step>, Refusal> {
        let mut reader = Reader::default();
        let mut steps = Vec::new();
        for processor in self.processors(change)? {
            self.plan_one(&mut reader, processor, change, &mut steps)?;
        }
        Ok(steps)
    }

    fn processors(&self, change: &Change) -> Result<Vec<u16>, Refusal> {
        let has = |processor: &u16| folder_of(&self.folder, (*processor).into()).is_dir();
        let all: Vec<u16> = (0..MAX_PROCESSORS as u16).filter(has).collect();
        if all.is_empty() {
            return Err(Refusal::Nothing { folder: self.folder.clone() });
        }
        if change.processors.is_empty() {
            return Ok(all);
        }
        let missing = change.processors.iter().find(|processor| !all.contains(processor));
        match missing {
            Some(&processor) => {
                Err(Refusal::Processor { processor, folder: folder_of(&self.folder, processor.into()) })
            }
            None => Ok(change.processors.clone()),
        }
    }

    fn plan_one(
        &self,
        reader: &mut Reader,
        processor: u16,
        change: &Change,
        steps: &mut Vec<Step>,
    ) -> Result<(), Refusal> {
        let folder = folder_of(&self.folder, processor.into());
        let mut said = |name: &str| {
            let path = folder.join(name);
            reader.text(&path).ok_or(Refusal::Senseless { path })
        };
        let mut khz = |name: &str| {
            let value = said(name)?;
            number(value.as_bytes()).ok_or_else(|| Refusal::Senseless { path: folder.join(name) })
        };
        let mut ranges = Vec::new();
        if change.min_khz.is_some() || change.max_khz.is_some() {
            let (min_khz, max_khz) = (khz("cpuinfo_min_freq")?, khz("cpuinfo_max_freq")?);
            let (floor, ceiling) = (khz(Setting::Floor.file_name())?, khz(Setting::Ceiling.file_name())?);
            let floor_khz = change.min_khz.map_or(floor, u64::from);
            let ceiling_khz = change.max_khz.map_or(ceiling, u64::from);
            if !(min_khz <= floor_khz && floor_khz <= ceiling_khz && ceiling_khz <= max_khz) {
                return Err(Refusal::Range { processor, floor_khz, ceiling_khz, min_khz, max_khz });
            }
            ranges.push((Setting::Floor, floor, floor_khz));
            ranges.push((Setting::Ceiling, ceiling, ceiling_khz));
            // The minimum must never exceed the maximum.
            if floor_khz > ceiling {
                ranges.reverse();
            }
        }
        if let Some(wanted) = &change.governor {
            let offered = said("scaling_available_governors")?;
            if !offered.split_ascii_whitespace().any(|name| name == wanted) {
                return Err(Refusal::Governor { processor, wanted: wanted.clone(), offered });
            }
            let setting = Setting::Governor;
            let former = Former { processor, setting, value: said(setting.file_name())? };
            steps.push(Step { former, value: wanted.clone() });
        }
        for (setting, before, value) in ranges.into_iter().filter(|(_, before, value)| before != value) {
            let former = Former { processor, setting, value: before.to_string() };
            steps.push(Step { former, value: value.to_string() });
        }
        Ok(())
    }

    /// Records the changed settings for a process that outlives this one.
    fn note(&self) -> Result<(), OsError> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let line = |former: &Former| {
            format!("{} {} {}\n", former.processor, former.setting.file_name(), former.value)
        };
        let text: String = self.former.iter().map(line).collect();
        let doing = "record the frequency settings";
        let mut written = 0;
        while let Some(rest) = text.as_bytes().get(written..).filter(|rest| !rest.is_empty()) {
            written += rustix::io::pwrite(ledger, rest, written as u64).context(doing)?;
        }
        rustix::fs::ftruncate(ledger, text.len() as u64).context(doing)
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Restores the settings that a dead process recorded in its ledger and did not restore itself.
///
/// # Errors
/// An error of the kernel.
pub fn give_back(folders: &Folders, ledger: impl AsFd) -> Result<(), OsError> {
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
    let mut former: Vec<Former> = String::from_utf8_lossy(&text).lines().filter_map(parse_line).collect();
    write_back(&folder(folders), &mut former);
    match former.is_empty() {
        true => Ok(()),
        false => Err(OsError::new("restore the frequency settings", Errno::IO)),
    }
}

fn parse_line(line: &str) -> Option<Former> {
    let mut words = line.split(' ');
    let processor = words.next()?.parse().ok()?;
    let name = words.next()?;
    let setting = Setting::ALL.into_iter().find(|setting| setting.file_name() == name)?;
    let value = words.next()?.to_owned();
    words.next().is_none().then_some(Former { processor, setting, value })
}

/// Writes back the former values, the last change first; failed ones stay recorded.
fn write_back(processors: &Path, former: &mut Vec<Former>) {
    for _ in 0..PASSES {
        former.reverse();
        former.retain(|former| former.write(processors).is_err());
        former.reverse();
    }
}

fn write(path: &Path, value: &str) -> Result<(), Error> {
    // The kernel expects the whole value in one call.
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(format!("{value}\n").as_bytes())
}

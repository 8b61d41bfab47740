//! Setting how fast processors run, and giving back what they had.
//!
//! A change is made wholly or not at all. What a file said before its first change is noted down before it is changed,
//! here and in a memory file that another process may hold too ([`give_back`]), and written back on [`Steering::restore`]
//! and when the [`Steering`] is dropped.

use std::fs::OpenOptions;
use std::io::{Error, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::frequency::{folder, folder_of};
use super::read::{Reader, number};
use super::{Folders, MAX_PROCESSORS};
use crate::Errno;
use crate::error::{Context, OsError};

/// Times that all former values are written back: one may be refused as long as another is not back.
const PASSES: usize = 2;

/// How processors are to run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// Which; all if none.
    pub processors: Vec<u16>,
    /// The governor to have; as it is if none.
    pub governor: Option<String>,
    /// The slowest they may run, in kHz; as it is if none.
    pub min_khz: Option<u32>,
    /// The fastest they may run, in kHz; as it is if none.
    pub max_khz: Option<u32>,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Its kernel offers nothing to set.
    #[error(
        "its kernel offers no way to set how fast processors run: there is no {}/cpu0/cpufreq (in a virtual machine \
         there seldom is)", folder.display()
    )]
    Nothing {
        /// Where that was looked for.
        folder: PathBuf,
    },
    /// One of the processors is not there, or cannot be set.
    #[error("how fast processor {processor} runs cannot be set: there is no {}", folder.display())]
    Processor {
        /// Which.
        processor: u16,
        /// Where that was looked for.
        folder: PathBuf,
    },
    /// There is no such governor.
    #[error("processor {processor} can have these governors: {offered}; not {wanted}")]
    Governor {
        /// Which.
        processor: u16,
        /// What was asked for.
        wanted: String,
        /// What there is.
        offered: String,
    },
    /// It cannot run like that.
    #[error(
        "processor {processor} can run from {min_khz} to {max_khz} kHz; not from {floor_khz} to {ceiling_khz}"
    )]
    Range {
        /// Which.
        processor: u16,
        /// The slowest it would have had to.
        floor_khz: u64,
        /// And the fastest.
        ceiling_khz: u64,
        /// The slowest it can.
        min_khz: u64,
        /// And the fastest.
        max_khz: u64,
    },
    /// A file does not tell what it should.
    #[error("{} says nothing that makes sense", path.display())]
    Senseless {
        /// Which.
        path: PathBuf,
    },
    /// The kernel refused it.
    #[error("cannot write {value} to {}: {cause}{}; nothing was changed", path.display(), advice(cause))]
    Kernel {
        /// Which file.
        path: PathBuf,
        /// What was to be written.
        value: String,
        /// Why.
        cause: Error,
    },
    /// What was cannot be noted down.
    #[error(transparent)]
    Note(#[from] OsError),
}

fn advice(cause: &Error) -> &'static str {
    match cause.kind() {
        std::io::ErrorKind::PermissionDenied => {
            " (the node's monitor has to be run by somebody who may write there, by default root)"
        }
        _ => "",
    }
}

/// A file of a processor that is written.
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

/// What a file said.
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

/// A step of a change: what a file says, and what it is to say.
struct Step {
    former: Former,
    value: String,
}

/// Sets how fast the processors of a machine run.
#[derive(Debug)]
pub struct Steering {
    folder: PathBuf,
    former: Vec<Former>,
    ledger: Option<OwnedFd>,
}

impl Steering {
    /// Notes down what was in `ledger` too, a memory file, if there is one.
    #[must_use]
    pub fn new(folders: &Folders, ledger: Option<OwnedFd>) -> Steering {
        Steering { folder: folder(folders), former: Vec::new(), ledger }
    }

    /// Whether something is not as it was.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        !self.former.is_empty()
    }

    /// Makes a change.
    ///
    /// # Errors
    /// [`Refusal`]: then everything is as before.
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
                // In reverse, each finds what it was written over.
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

    /// Gives everything back as it was. What the kernel does not take now is tried the next time again.
    pub fn restore(&mut self) {
        if self.former.is_empty() {
            return;
        }
        write_back(&self.folder, &mut self.former);
        // Should that fail, it is given back once more.
        let _ = self.note();
    }

    /// What is to be written, in order.
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
            // The slowest must never be faster than the fastest.
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

    /// Writes down what is not as it was, for whoever outlives this process.
    fn note(&self) -> Result<(), OsError> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let line = |former: &Former| {
            format!("{} {} {}\n", former.processor, former.setting.file_name(), former.value)
        };
        let text: String = self.former.iter().map(line).collect();
        let doing = "note down how fast processors ran";
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

/// Gives back what a process that is gone has noted down in its ledger and not given back itself.
///
/// # Errors
/// What the kernel refused.
pub fn give_back(folders: &Folders, ledger: impl AsFd) -> Result<(), OsError> {
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match rustix::io::pread(&ledger, &mut piece, text.len() as u64) {
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(&piece[..count]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(OsError::new("read how fast processors ran", errno)),
        }
    }
    let mut former: Vec<Former> = String::from_utf8_lossy(&text).lines().filter_map(parse_line).collect();
    write_back(&folder(folders), &mut former);
    match former.is_empty() {
        true => Ok(()),
        false => Err(OsError::new("give back how fast processors ran", Errno::IO)),
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

/// Writes back, the last change first; what could not be written stays.
fn write_back(processors: &Path, former: &mut Vec<Former>) {
    for _ in 0..PASSES {
        former.reverse();
        former.retain(|former| former.write(processors).is_err());
        former.reverse();
    }
}

fn write(path: &Path, value: &str) -> Result<(), Error> {
    // The kernel takes what comes in one call.
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(format!("{value}\n").as_bytes())
}

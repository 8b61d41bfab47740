//! Presence of a job's ranks, as reported by their monitors.

use std::time::{Duration, Instant};

use tombolo::names::{Change, Record, Watch, WatchOptions};
use tombolo_sharing::{Rank, Ranks};

use crate::error::ObjectError;

/// Kind of the record with which a rank announces itself. The record vanishes with its domain.
const KIND: &str = "objects/rank";

/// Returns the name of a rank's record.
pub(crate) fn record_name(job: &tombolo::Job, rank: u32) -> String {
    job.name(&format!("{KIND}/{rank}"))
}

fn rank_of(record: &Record) -> Option<u32> {
    record.name.rsplit('/').next()?.parse().ok()
}

/// Watched records of all ranks.
#[derive(Debug)]
pub(crate) struct Presence {
    watch: Watch,
    pub(crate) records: Vec<Option<Record>>,
}

impl Presence {
    /// Starts to watch the ranks of the job that this domain belongs to.
    pub(crate) fn new(domain: &tombolo::Domain, job: &tombolo::Job) -> Result<Presence, ObjectError> {
        let query = job.name(&format!("{KIND}/*"));
        let watch = domain.names().watch(&query, WatchOptions::default())?;
        let mut presence = Presence { records: vec![None; job.size() as usize], watch };
        for record in presence.watch.current().to_vec() {
            presence.set_record(rank_of(&record), Some(record));
        }
        Ok(presence)
    }

    fn set_record(&mut self, rank: Option<u32>, record: Option<Record>) {
        if let Some(place) = rank.and_then(|rank| self.records.get_mut(rank as usize)) {
            *place = record;
        }
    }

    fn apply(&mut self, change: Change) -> Result<(), ObjectError> {
        match change {
            Change::Set(record) => self.set_record(rank_of(&record), Some(record)),
            Change::Deleted(record, _) => self.set_record(rank_of(&record), None),
            // The queue of notices cannot overflow: there are at most two changes per rank.
            _ => {
                return Err(ObjectError::Refused {
                    why: "the names of its ranks are no longer watched".into(),
                });
            }
        }
        Ok(())
    }

    /// Processes pending notices.
    pub(crate) fn update(&mut self) -> Result<(), ObjectError> {
        while let Some(notice) = self.watch.try_next()? {
            self.apply(notice.change)?;
        }
        Ok(())
    }

    /// Waits until all ranks have announced themselves.
    pub(crate) fn wait_for_all(&mut self, timeout: Duration) -> Result<(), ObjectError> {
        let deadline = Instant::now() + timeout;
        while let Some(absent) = self.records.iter().position(Option::is_none) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.watch.next(left) {
                Ok(notice) => self.apply(notice.change)?,
                Err(tombolo::Error::TimedOut { .. }) => {
                    let what = format!("rank {absent} did not join");
                    return Err(ObjectError::TimedOut { what, timeout, rank: None });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns the ranks that have ended, given that all were present before.
    pub(crate) fn ended_ranks(&self) -> Ranks {
        let mut ended_ranks = Ranks::NONE;
        for (rank, record) in (0..).zip(&self.records) {
            if record.is_none() {
                ended_ranks.add(Rank(rank));
            }
        }
        ended_ranks
    }
}

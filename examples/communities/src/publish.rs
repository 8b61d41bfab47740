//! Publishes progress and result as name records of the machine, where `tombolo names 'job/*'` and the page
//! of `tombolo web` find them.
//!
//! `job/DOMAIN` has the progress and is removed with the domain. `job/DOMAIN/figure` has the drawn result and
//! stays until the machine goes down; only the latest figures are kept.

use std::time::{Duration, Instant};

use tombolo::names::NewRecord;
use tombolo::{Domain, Error};

use crate::figure::Figure;
use crate::search::Step;

/// Minimum interval between two updates of the progress.
const EVERY: Duration = Duration::from_millis(200);

/// Number of figures that are kept.
const KEPT: usize = 8;

/// Publishes the progress of a job. No job depends on its publication, so errors are ignored.
pub struct Publisher {
    domain: Domain,
    name: String,
    began: Instant,
    told: Option<Instant>,
}

impl Publisher {
    /// Creates the publisher of this domain's progress.
    #[must_use]
    pub fn new(domain: Domain) -> Publisher {
        let name = format!("job/{}", domain.id());
        Publisher { domain, name, began: Instant::now(), told: None }
    }

    /// Publishes the phase of the job, without its progress.
    pub fn phase(&mut self, phase: &str) {
        let _ = self.set(self.record(phase));
    }

    /// Publishes the progress of the search, five times a second at most.
    pub fn step(&mut self, step: &Step) {
        if self.told.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        self.told = Some(Instant::now());
        let phase = if step.refining { "refining" } else { "searching" };
        let record = self
            .record(phase)
            .with("level", step.level as i64)
            .with("vertices", step.vertices as i64)
            .with("edges", step.edges as i64)
            .with("rounds", i64::from(step.rounds))
            .with("modularity", step.modularity);
        let _ = self.set(record);
    }

    /// Publishes the drawn result.
    ///
    /// # Errors
    /// The machine rejects the record.
    pub fn figure(&mut self, figure: &Figure) -> Result<(), Error> {
        let json = serde_json::to_string(figure).unwrap_or_default();
        let names = self.domain.names();
        let record = NewRecord::new(&format!("{}/figure", self.name))
            .with("title", figure.title.as_str())
            .with("figure", json.as_str())
            .persistent();
        let version = names.set(&record)?.version;
        let mut before = names.find("job/*/figure")?;
        before.retain(|record| record.version < version && record.owner.is_none());
        before.sort_by_key(|record| record.version);
        let excess = before.len().saturating_sub(KEPT - 1);
        // Another job may have deleted it already.
        before.iter().take(excess).for_each(|record| drop(names.delete(&record.name)));
        self.phase("done");
        Ok(())
    }

    fn record(&self, phase: &str) -> NewRecord {
        let elapsed_ms = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        NewRecord::new(&self.name).with("phase", phase).with("elapsed_ms", elapsed_ms)
    }

    fn set(&self, record: NewRecord) -> Result<(), Error> {
        self.domain.names().set(&record).map(|_| ())
    }
}

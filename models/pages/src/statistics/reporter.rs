//! Thread that updates the record of a rank.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tombolo::Domain;
use tombolo_directory::Counts;
use tombolo_platform::lock_unpoisoned;

use super::objects::Objects;
use super::report::{MAX_HOT, PageReport, RankReport};
use crate::service::Shared;

/// Interval between two checks for changes.
const PERIOD: Duration = Duration::from_secs(1);

/// Handle of the thread, which stops it when dropped. The record stays until the program ends or closes the
/// range.
#[derive(Debug)]
pub(crate) struct Reporter {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

/// The report and the domain for publishing it.
struct RecordUpdater {
    domain: Domain,
    report: RankReport,
}

impl Reporter {
    /// Starts the thread. Failure to create it is ignored, as the range works without it.
    pub(crate) fn start(shared: Arc<Shared>, domain: &Domain, report: RankReport) -> Option<Reporter> {
        let mut updater = RecordUpdater { domain: domain.clone(), report };
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let stops = Arc::clone(&stop);
        let run = move || {
            let (stop, changed) = &*stops;
            let mut stopped = lock_unpoisoned(stop);
            while !*stopped {
                let waited = changed.wait_timeout(stopped, PERIOD);
                (stopped, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
                if !*stopped {
                    drop(stopped);
                    updater.update(&shared);
                    stopped = lock_unpoisoned(stop);
                }
            }
            drop(shared);
            updater.withdraw();
        };
        let thread = std::thread::Builder::new().name("pages-report".to_owned()).spawn(run).ok()?;
        Some(Reporter { stop, thread: Some(thread) })
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        *lock_unpoisoned(&self.stop.0) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl RecordUpdater {
    /// Sets the record if something changed since the last time.
    fn update(&mut self, shared: &Shared) {
        let pages = self.report.pages;
        let mut state = shared.lock();
        let totals = state.totals(pages);
        if totals == self.report.totals {
            return;
        }
        if state.objects.is_none() {
            // Reading the program's file can take long: do not hold the lock meanwhile.
            drop(state);
            let length_bytes = u64::from(pages) * u64::from(self.report.page_bytes);
            let range = self.report.address..self.report.address.saturating_add(length_bytes);
            let found = Objects::of_program(&range);
            state = shared.lock();
            state.objects = Some(found);
        }
        let hottest = state.hottest(pages, MAX_HOT);
        self.report.totals = totals;
        self.report.hot = hottest
            .into_iter()
            .map(|(page, counts)| PageReport { page, counts, places: state.places(page) })
            .collect();
        drop(state);
        // Errors (the monitor is gone, or the name table is full) do not affect the pages.
        let _ = self.domain.names().set(&self.report.record());
    }

    /// Deletes the record, as the range is closed.
    fn withdraw(&self) {
        if self.report.totals != Counts::default() {
            let _ = self.domain.names().delete(&self.report.name());
        }
    }
}

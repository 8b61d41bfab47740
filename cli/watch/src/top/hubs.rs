//! Queries the hub servers while hubs are shown, on a separate thread, because one that does not respond
//! blocks it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tombolo::Domain;
use tombolo_cli_common::output::lock_unpoisoned;
use tombolo_hubs::Task;
use tombolo_web::StateCache;
use tombolo_web::view::HubRow;

/// Interval between two queries.
const QUERY_INTERVAL: Duration = Duration::from_secs(1);

/// Polling period for whether hubs are shown.
const VISIBILITY_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Timeout of a hub whose record exists.
const HUB_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Shared {
    wanted: AtomicBool,
    rows: Mutex<Vec<HubRow>>,
}

/// Thread that queries the hubs. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct HubWatch(Arc<Shared>);

impl HubWatch {
    pub(super) fn start(cache: &StateCache) -> std::io::Result<HubWatch> {
        let shared = Arc::<Shared>::default();
        let (weak, cache) = (Arc::downgrade(&shared), cache.clone());
        std::thread::Builder::new().name("hubs".into()).spawn(move || {
            let mut task: Option<(tombolo::DomainId, Task)> = None;
            while let Some(shared) = weak.upgrade() {
                if !shared.wanted.load(Ordering::Relaxed) {
                    task = None;
                    drop(shared);
                    std::thread::sleep(VISIBILITY_POLL_INTERVAL);
                    continue;
                }
                if let Some(domain) = cache.snapshot().domain() {
                    task = task.take().filter(|(of, _)| *of == domain.id()).or_else(|| attached(domain));
                    *lock_unpoisoned(&shared.rows) =
                        task.as_ref().map(|(_, task)| rows(task)).unwrap_or_default();
                }
                drop(shared);
                std::thread::sleep(QUERY_INTERVAL);
            }
        })?;
        Ok(HubWatch(shared))
    }

    /// Returns the recent state of the hubs, if they are shown.
    pub(super) fn rows(&self, wanted: bool) -> Vec<HubRow> {
        self.0.wanted.store(wanted, Ordering::Relaxed);
        lock_unpoisoned(&self.0.rows).clone()
    }
}

fn attached(domain: &Domain) -> Option<(tombolo::DomainId, Task)> {
    Some((domain.id(), Task::attach(domain).ok()?.within(HUB_TIMEOUT)))
}

/// Queries the hubs. Without a response of the monitor the list is empty; the screen reports that it is gone.
fn rows(task: &Task) -> Vec<HubRow> {
    let hubs = task.list().unwrap_or_default();
    hubs.into_iter().map(|(node, status)| HubRow::new(node, status)).collect()
}

/// Returns the state of the machine's hubs, queried once.
pub(super) fn now(domain: Option<&Domain>) -> Vec<HubRow> {
    domain.and_then(attached).map(|(_, task)| rows(&task)).unwrap_or_default()
}

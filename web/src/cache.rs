//! The state cache: one copy of the observed state of a machine, for all viewers.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tombolo::find::machines_up;
use tombolo::spawn::Stream;
use tombolo::{Domain, Error};
use tombolo_admin::Machine;
use tombolo_admin::observe::{Observer, Seen};
use tombolo_platform::lock_unpoisoned;

/// Minimum interval between refreshes from the monitor.
const REFRESH_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum time that a refresh waits for changes; it bounds the delay until the last viewer's departure is
/// noticed.
const MAX_REFRESH_WAIT: Duration = Duration::from_secs(1);

/// Interval between queries whether the machine is tracing.
const TRACING_EVERY: Duration = Duration::from_secs(2);

/// Delay before the second attempt to reconnect to the monitor; it grows with each attempt.
const FIRST_RETRY: Duration = Duration::from_millis(250);

/// Maximum delay between attempts.
const LAST_RETRY: Duration = Duration::from_secs(3);

/// Connection state of the machine's monitor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MonitorState {
    /// The monitor answers requests.
    Connected,
    /// The monitor does not answer; the snapshot is the last state seen.
    Gone {
        /// The reason, as a sentence.
        why: String,
    },
}

/// Observed state of a machine, with its age and source.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The machine's name.
    pub machine: String,
    /// Nodes, domains, channels and so on.
    pub seen: Arc<Seen>,
    /// Monitor's clock in nanoseconds. It advances even when nothing changes.
    pub now_ns: u64,
    /// Same instant in nanoseconds since the Unix epoch, by the host's clock.
    pub wall_ns: u64,
    /// Whether the state is current.
    pub monitor: MonitorState,
    /// Whether the machine is tracing.
    pub tracing: bool,
    /// Domain through which the monitor is queried; `None` in snapshots for tests.
    pub(crate) domain: Option<Domain>,
    /// Time of the monitor's last answer; `None` before the first one.
    pub(crate) taken: Option<Instant>,
}

impl Snapshot {
    /// Creates a snapshot that does not come from a monitor, for tests.
    #[must_use]
    pub fn of(machine: &str, seen: Seen, monitor: MonitorState) -> Snapshot {
        Snapshot {
            machine: machine.to_owned(),
            now_ns: seen.now_ns,
            wall_ns: seen.wall_ns,
            seen: Arc::new(seen),
            monitor,
            tracing: false,
            domain: None,
            taken: Some(Instant::now()),
        }
    }

    /// Returns the domain through which the monitor is queried.
    #[must_use]
    pub fn domain(&self) -> Option<&Domain> {
        self.domain.as_ref()
    }

    /// Returns whether the monitor has answered at all.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.taken.is_some()
    }
}

impl Snapshot {
    /// Returns the id of the observing domain.
    #[must_use]
    pub fn observer(&self) -> Option<tombolo::DomainId> {
        self.domain.as_ref().map(Domain::id)
    }
}

#[derive(Debug, Default)]
struct ViewerCount {
    viewers: usize,
    stopped: bool,
}

#[derive(Debug)]
struct Shared {
    viewer_state: Mutex<ViewerCount>,
    viewer_arrived: Condvar,
    snapshot: watch::Sender<Arc<Snapshot>>,
}

/// Cached state of a machine, refreshed while there are viewers, also after its monitor was replaced by
/// another of the same name. Clones share the cache. Its thread ends within about a second after the last
/// clone is dropped; the thread that reads unsolicited messages ends with the monitor.
#[derive(Clone, Debug)]
pub struct StateCache {
    shared: Arc<Shared>,
    _last: Arc<StopOnDrop>,
}

/// Stops the cache's thread when the last handle is dropped.
#[derive(Debug)]
struct StopOnDrop(Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        lock_unpoisoned(&self.0.viewer_state).stopped = true;
        self.0.viewer_arrived.notify_all();
    }
}

/// Registration of a viewer: the cache is refreshed while at least one exists.
#[derive(Debug)]
pub struct Viewer {
    shared: Arc<Shared>,
}

impl Drop for Viewer {
    fn drop(&mut self) {
        lock_unpoisoned(&self.shared.viewer_state).viewers -= 1;
    }
}

impl StateCache {
    /// Starts a cache for the machine of a domain.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub fn start(domain: &Domain) -> std::io::Result<StateCache> {
        let snapshot = Snapshot {
            machine: domain.machine_name().to_owned(),
            seen: Arc::default(),
            now_ns: 0,
            wall_ns: 0,
            monitor: MonitorState::Connected,
            tracing: false,
            domain: Some(domain.clone()),
            taken: None,
        };
        let shared = Arc::new(Shared {
            viewer_state: Mutex::default(),
            viewer_arrived: Condvar::new(),
            snapshot: watch::Sender::new(Arc::new(snapshot)),
        });
        discard_messages(domain);
        let (keeping, observer) = (Arc::clone(&shared), Machine::of(domain).observe());
        std::thread::Builder::new().name("cache".into()).spawn(move || run(&keeping, observer))?;
        Ok(StateCache { _last: Arc::new(StopOnDrop(Arc::clone(&shared))), shared })
    }

    /// Registers a viewer, so that the cache is refreshed until it is dropped.
    #[must_use]
    pub fn add_viewer(&self) -> Viewer {
        lock_unpoisoned(&self.shared.viewer_state).viewers += 1;
        self.shared.viewer_arrived.notify_all();
        Viewer { shared: Arc::clone(&self.shared) }
    }

    /// Returns the latest snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.shared.snapshot.borrow())
    }

    /// Subscribes to new snapshots.
    pub(crate) fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.shared.snapshot.subscribe()
    }

    /// Waits up to `timeout` for a current snapshot; returns the latest one if none arrives in time.
    pub(crate) async fn current(&self, timeout: Duration) -> Arc<Snapshot> {
        let viewer = self.add_viewer();
        let mut snapshots = self.snapshots();
        let is_fresh = |snapshot: &Arc<Snapshot>| {
            snapshot.taken.is_some_and(|taken| taken.elapsed() < MAX_REFRESH_WAIT + REFRESH_INTERVAL)
        };
        let snapshot = tokio::time::timeout(timeout, snapshots.wait_for(is_fresh)).await;
        drop(viewer);
        match snapshot {
            Ok(Ok(snapshot)) => Arc::clone(&snapshot),
            _ => self.snapshot(),
        }
    }
}

impl Shared {
    /// Waits for a viewer; returns false if the cache has been stopped.
    fn wait_for_viewers(&self) -> bool {
        let viewer_state = lock_unpoisoned(&self.viewer_state);
        let waited = self
            .viewer_arrived
            .wait_while(viewer_state, |viewer_state| viewer_state.viewers == 0 && !viewer_state.stopped);
        !waited.unwrap_or_else(PoisonError::into_inner).stopped
    }

    /// Sleeps for `time`; returns false if the cache has been stopped.
    fn pause(&self, time: Duration) -> bool {
        let viewer_state = lock_unpoisoned(&self.viewer_state);
        let waited =
            self.viewer_arrived.wait_timeout_while(viewer_state, time, |viewer_state| !viewer_state.stopped);
        !waited.unwrap_or_else(PoisonError::into_inner).0.stopped
    }

    fn publish(&self, change: impl FnOnce(&mut Snapshot)) {
        self.snapshot.send_modify(|snapshot| change(Arc::make_mut(snapshot)));
    }
}

/// Discards the messages to `domain` that no other thread waits for: the output of the domains that it
/// starts, which viewers get from the monitor's memory instead, and their exits. Ends with the monitor.
fn discard_messages(domain: &Domain) {
    domain.on_output(|_, _: Stream, _| {});
    let domain = domain.clone();
    let listening = std::thread::Builder::new().name("listener".into());
    // If no thread can be created, children with much output stall, which is visible to the user.
    let _ = listening.spawn(move || {
        while matches!(domain.next_exit(Duration::from_secs(3600)), Ok(_) | Err(Error::TimedOut { .. })) {}
    });
}

/// Main loop of the cache's thread.
fn run(shared: &Shared, mut observer: Observer) {
    let mut tracing_looked: Option<Instant> = None;
    while shared.wait_for_viewers() {
        let began = Instant::now();
        match refresh(shared, &mut observer, &mut tracing_looked) {
            Ok(()) => {
                if !shared.pause(REFRESH_INTERVAL.saturating_sub(began.elapsed())) {
                    return;
                }
            }
            Err(error) => {
                shared.publish(|snapshot| snapshot.monitor = MonitorState::Gone { why: error.to_string() });
                match reattach(shared) {
                    Some(again) => observer = again,
                    None => return,
                }
            }
        }
    }
}

/// Refreshes once and publishes the result.
fn refresh(
    shared: &Shared,
    observer: &mut Observer,
    tracing_looked: &mut Option<Instant>,
) -> Result<(), Error> {
    // The first viewer after a pause gets the current state without waiting for a change.
    let stale = shared
        .snapshot
        .borrow()
        .taken
        .is_none_or(|taken| taken.elapsed() > MAX_REFRESH_WAIT + REFRESH_INTERVAL);
    let new = observer.refresh(if stale { Duration::ZERO } else { MAX_REFRESH_WAIT })?;
    let mut tracing = None;
    if tracing_looked.is_none_or(|at| at.elapsed() >= TRACING_EVERY) {
        tracing = Some(observer.machine().is_tracing()?);
        *tracing_looked = Some(Instant::now());
    }
    // Clone before locking the snapshot, so that no reader waits for the copy.
    let seen = new.then(|| Arc::new(observer.seen().clone()));
    shared.publish(|snapshot| {
        if let Some(seen) = seen {
            snapshot.seen = seen;
        }
        (snapshot.now_ns, snapshot.wall_ns) = (observer.seen().now_ns, observer.seen().wall_ns);
        snapshot.monitor = MonitorState::Connected;
        snapshot.domain = Some(observer.machine().domain().clone());
        snapshot.tracing = tracing.unwrap_or(snapshot.tracing);
        snapshot.taken = Some(Instant::now());
    });
    Ok(())
}

/// Reattaches once a machine of that name is up. Retries only while there are viewers; `None` once the cache
/// is stopped.
fn reattach(shared: &Shared) -> Option<Observer> {
    let name = shared.snapshot.borrow().machine.clone();
    let mut retry = FIRST_RETRY;
    loop {
        if !shared.pause(retry) || !shared.wait_for_viewers() {
            return None;
        }
        retry = (retry * 2).min(LAST_RETRY);
        // Attaching to a host-only machine that is down would start it.
        if !machines_up().is_ok_and(|up| up.contains(&name)) {
            continue;
        }
        match Domain::attach_to_machine(&name) {
            Ok(domain) => {
                discard_messages(&domain);
                return Some(Machine::of(&domain).observe());
            }
            Err(error) => {
                shared.publish(|snapshot| snapshot.monitor = MonitorState::Gone { why: error.to_string() });
            }
        }
    }
}

//! The state cache: one copy of the observed state of a machine, for all viewers.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tombolo::find::machines_up;
use tombolo::spawn::Stream;
use tombolo::{Domain, Error};
use tombolo_admin::Machine;
use tombolo_admin::observe::{Observer, Seen};
use tombolo_platform::unpoisoned;

/// The time from one look at the monitor to the next, at least.
const PACE: Duration = Duration::from_millis(250);

/// How long a refresh may wait for something new; it bounds how late the last viewer's leaving is noticed.
const WAIT: Duration = Duration::from_secs(1);

/// The time between two looks at whether the machine traces.
const TRACING_EVERY: Duration = Duration::from_secs(2);

/// The time from a first attempt to reach a monitor that is gone to the second.
const FIRST_RETRY: Duration = Duration::from_millis(250);

/// The time between attempts, at most.
const LAST_RETRY: Duration = Duration::from_secs(3);

/// Whether the machine's monitor can be asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MonitorState {
    /// It answers.
    Connected,
    /// It does not; what is seen is how the machine was last.
    Gone {
        /// Why, in a sentence.
        why: String,
    },
}

/// What is seen of a machine, and how it was come by.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The machine's name.
    pub machine: String,
    /// What is on it.
    pub seen: Arc<Seen>,
    /// The monitor's clock. It goes on when nothing changes.
    pub now_ns: u64,
    /// The same instant since 1970 in UTC, by the host's clock.
    pub wall_ns: u64,
    /// Whether this is how it is, or was.
    pub monitor: MonitorState,
    /// Whether the machine traces.
    pub tracing: bool,
    /// By whom it is asked: none before the first answer.
    pub(crate) domain: Option<Domain>,
    /// When the monitor answered.
    pub(crate) taken: Option<Instant>,
}

impl Picture {
    /// A picture that does not come from a monitor, for tests.
    #[must_use]
    pub fn of(machine: &str, seen: Seen, monitor: MonitorState) -> Picture {
        Picture {
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

    /// By whom the machine is asked.
    #[must_use]
    pub fn domain(&self) -> Option<&Domain> {
        self.domain.as_ref()
    }

    /// Whether the monitor has answered at all.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.taken.is_some()
    }
}

impl Picture {
    /// Who looks, as a domain of the machine.
    #[must_use]
    pub fn observer(&self) -> Option<tombolo::DomainId> {
        self.domain.as_ref().map(Domain::id)
    }
}

#[derive(Debug, Default)]
struct Audience {
    viewers: usize,
    stopped: bool,
}

#[derive(Debug)]
struct Shared {
    audience: Mutex<Audience>,
    came: Condvar,
    picture: watch::Sender<Arc<Picture>>,
}

/// Keeps up with a machine while it has viewers, also when its monitor ends and another of the same name
/// starts. A handle: clones are of the same cache. Its thread ends with the last handle, within about a
/// second; the thread that reads what the monitor sends unasked ends with the monitor.
#[derive(Clone, Debug)]
pub struct StateCache {
    shared: Arc<Shared>,
    _last: Arc<Last>,
}

/// Stops the thread when the last handle goes.
#[derive(Debug)]
struct Last(Arc<Shared>);

impl Drop for Last {
    fn drop(&mut self) {
        unpoisoned(&self.0.audience).stopped = true;
        self.0.came.notify_all();
    }
}

/// While there is one, the machine is looked at.
#[derive(Debug)]
pub struct Viewer {
    shared: Arc<Shared>,
}

impl Drop for Viewer {
    fn drop(&mut self) {
        unpoisoned(&self.shared.audience).viewers -= 1;
    }
}

impl StateCache {
    /// Starts to keep up with the machine of a domain.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub fn start(domain: &Domain) -> std::io::Result<StateCache> {
        let picture = Picture {
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
            audience: Mutex::default(),
            came: Condvar::new(),
            picture: watch::Sender::new(Arc::new(picture)),
        });
        listen(domain);
        let (keeping, observer) = (Arc::clone(&shared), Machine::of(domain).observe());
        std::thread::Builder::new().name("cache".into()).spawn(move || keep(&keeping, observer))?;
        Ok(StateCache { _last: Arc::new(Last(Arc::clone(&shared))), shared })
    }

    /// Has the machine looked at for as long as what this returns lives.
    #[must_use]
    pub fn look(&self) -> Viewer {
        unpoisoned(&self.shared.audience).viewers += 1;
        self.shared.came.notify_all();
        Viewer { shared: Arc::clone(&self.shared) }
    }

    /// What was seen last.
    #[must_use]
    pub fn picture(&self) -> Arc<Picture> {
        Arc::clone(&self.shared.picture.borrow())
    }

    /// Is told of each new picture.
    pub(crate) fn pictures(&self) -> watch::Receiver<Arc<Picture>> {
        self.shared.picture.subscribe()
    }

    /// Waits for a picture of now, up to `timeout`; without one in time, what there is.
    pub(crate) async fn fresh(&self, timeout: Duration) -> Arc<Picture> {
        let viewer = self.look();
        let mut pictures = self.pictures();
        let is_fresh =
            |picture: &Arc<Picture>| picture.taken.is_some_and(|taken| taken.elapsed() < WAIT + PACE);
        let picture = tokio::time::timeout(timeout, pictures.wait_for(is_fresh)).await;
        drop(viewer);
        match picture {
            Ok(Ok(picture)) => Arc::clone(&picture),
            _ => self.picture(),
        }
    }
}

impl Shared {
    /// Waits for an audience; false when it is all over.
    fn wait_for_viewers(&self) -> bool {
        let audience = unpoisoned(&self.audience);
        let waited = self.came.wait_while(audience, |audience| audience.viewers == 0 && !audience.stopped);
        !waited.unwrap_or_else(PoisonError::into_inner).stopped
    }

    /// Waits, unless it is all over; false then.
    fn pause(&self, time: Duration) -> bool {
        let audience = unpoisoned(&self.audience);
        let waited = self.came.wait_timeout_while(audience, time, |audience| !audience.stopped);
        !waited.unwrap_or_else(PoisonError::into_inner).0.stopped
    }

    fn publish(&self, change: impl FnOnce(&mut Picture)) {
        self.picture.send_modify(|picture| change(Arc::make_mut(picture)));
    }
}

/// Reads the messages to `domain` that no other thread waits for: the output of the domains that it starts,
/// which viewers get from the monitor's memory instead, and their exits. Ends with the monitor.
fn listen(domain: &Domain) {
    domain.on_output(|_, _: Stream, _| {});
    let domain = domain.clone();
    let listening = std::thread::Builder::new().name("listener".into());
    // Without it children would stall once they have written much, which shows.
    let _ = listening.spawn(move || {
        while matches!(domain.next_exit(Duration::from_secs(3600)), Ok(_) | Err(Error::TimedOut { .. })) {}
    });
}

/// The cache's thread.
fn keep(shared: &Shared, mut observer: Observer) {
    let mut tracing_looked: Option<Instant> = None;
    while shared.wait_for_viewers() {
        let began = Instant::now();
        match look(shared, &mut observer, &mut tracing_looked) {
            Ok(()) => {
                if !shared.pause(PACE.saturating_sub(began.elapsed())) {
                    return;
                }
            }
            Err(error) => {
                shared.publish(|picture| picture.monitor = MonitorState::Gone { why: error.to_string() });
                match come_back(shared) {
                    Some(again) => observer = again,
                    None => return,
                }
            }
        }
    }
}

/// Looks once, and shows what there is.
fn look(shared: &Shared, observer: &mut Observer, tracing_looked: &mut Option<Instant>) -> Result<(), Error> {
    // The first viewer after a pause wants to see something at once.
    let stale = shared.picture.borrow().taken.is_none_or(|taken| taken.elapsed() > WAIT + PACE);
    let new = observer.refresh(if stale { Duration::ZERO } else { WAIT })?;
    let mut tracing = None;
    if tracing_looked.is_none_or(|at| at.elapsed() >= TRACING_EVERY) {
        tracing = Some(observer.machine().is_tracing()?);
        *tracing_looked = Some(Instant::now());
    }
    // Copied before the picture is locked, so that no reader waits for the copy.
    let seen = new.then(|| Arc::new(observer.seen().clone()));
    shared.publish(|picture| {
        if let Some(seen) = seen {
            picture.seen = seen;
        }
        (picture.now_ns, picture.wall_ns) = (observer.seen().now_ns, observer.seen().wall_ns);
        picture.monitor = MonitorState::Connected;
        picture.domain = Some(observer.machine().domain().clone());
        picture.tracing = tracing.unwrap_or(picture.tracing);
        picture.taken = Some(Instant::now());
    });
    Ok(())
}

/// Attaches again, once a machine of that name is up. Looks for it only while there are viewers; `None` once
/// the cache is stopped.
fn come_back(shared: &Shared) -> Option<Observer> {
    let name = shared.picture.borrow().machine.clone();
    let mut retry = FIRST_RETRY;
    loop {
        if !shared.pause(retry) || !shared.wait_for_viewers() {
            return None;
        }
        retry = (retry * 2).min(LAST_RETRY);
        // Attaching to the machine of a plain host would start it.
        if !machines_up().is_ok_and(|up| up.contains(&name)) {
            continue;
        }
        match Domain::attach_to_machine(&name) {
            Ok(domain) => {
                listen(&domain);
                return Some(Machine::of(&domain).observe());
            }
            Err(error) => {
                shared.publish(|picture| picture.monitor = MonitorState::Gone { why: error.to_string() });
            }
        }
    }
}

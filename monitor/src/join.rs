//! Implementation of `tombolod join`: adds a running Linux system to a machine as a node.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tombolo_base::coherence::{Caches, NoCacheInstructions};
use tombolo_base::hash::fnv1a;
use tombolo_base::{CacheMaintenance, Isa, SharedMemory};
use tombolo_control::FINGERPRINT;
use tombolo_link::either::{Either, EitherMemory};
use tombolo_link::rendezvous::{
    Accepted, BellKind, JoinEvent, Joiner, Name, RENDEZVOUS_BYTES, RendezvousError, Terms, Waiting,
};
use tombolo_link::window::{
    CONTROL_OFFSET_BYTES, MIN_WINDOW_BYTES, WindowError, WindowHeader, control_config,
};
use tombolo_link::{ChannelLayout, Hello, Side};
use tombolo_machine::file::FileError;
use tombolo_machine::{AttachedNode, KeyError, Machine, WindowKey};
use tombolo_platform::error::Context;
use tombolo_platform::event::{Interest, eventfd, poll, signal};
use tombolo_platform::shared_window::{OpenWindow, WindowSource};
use tombolo_platform::time::now_ns;
use tombolo_platform::{Deadline, OsError, memory, process, socket};
use tombolo_transport::window;

use crate::agent::{GuestBells, GuestWindow};
use crate::control_link::ControlLink;
use crate::node_monitor::{self, HostConnection, NodeMonitorError};
use crate::polled_bells::{JoinSide, PolledBells};
use crate::random_nonce;

/// Polling period for an offer or an answer.
const POLL_PERIOD: Duration = Duration::from_millis(10);

/// Timeout for the root to open the control link.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(60);

/// Delay before another attempt, so that immediate failures do not load the root.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Options of `tombolod join`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinOptions {
    /// Location of the window.
    pub window: WindowSource,
    /// Length in bytes, if it is to be checked or the window does not determine it.
    pub length_bytes: Option<u64>,
    /// Caches between this side and the window; `None` if it is coherent.
    pub caches: Option<Caches>,
    /// File with the key.
    pub key: Option<PathBuf>,
    /// Name of the node that the window must belong to.
    pub node: Option<String>,
    /// Time without a heartbeat after which the root counts as lost.
    pub silence: Duration,
    /// Timeout for the root to appear; `None` for no limit.
    pub timeout: Option<Duration>,
    /// End when the machine ends, instead of waiting for its return.
    pub once: bool,
    /// Join even if the window loses or changes data.
    pub force: bool,
}

impl JoinOptions {
    /// Creates default options for a window.
    #[must_use]
    pub fn new(window: WindowSource) -> Self {
        JoinOptions {
            window,
            length_bytes: None,
            caches: None,
            key: None,
            node: None,
            silence: Duration::from_secs(AttachedNode::DEFAULT_SILENCE_S.into()),
            timeout: None,
            once: false,
            force: false,
        }
    }

    /// Reads the settings of a node from a machine file.
    ///
    /// # Errors
    /// [`JoinError::File`], [`JoinError::NotAttached`].
    pub fn from_file(file: &Path, node: &str) -> Result<Self, JoinError> {
        let machine = Machine::open(file)?;
        let attached = machine.node_named(node).and_then(|node| node.as_attached());
        let attached = attached
            .ok_or_else(|| JoinError::NotAttached { file: file.to_owned(), node: node.to_owned() })?;
        Ok(JoinOptions {
            length_bytes: Some(u64::from(attached.window_mib) << 20),
            caches: attached.caches,
            key: attached.key.clone(),
            node: Some(node.to_owned()),
            silence: Duration::from_secs(attached.silence_s.into()),
            ..JoinOptions::new(attached.joiner_window().clone())
        })
    }
}

/// Reason why a node cannot join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The machine file has mistakes.
    #[error(transparent)]
    File(#[from] FileError),
    /// The machine file has no attached node of this name.
    #[error("{file} has no node '{node}' of kind \"attached\"")]
    NotAttached {
        /// The machine file.
        file: PathBuf,
        /// The node.
        node: String,
    },
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The window is too small.
    #[error("the window {window} has {found} bytes; a window has {MIN_WINDOW_BYTES} or more")]
    TooSmall {
        /// Location of the window.
        window: WindowSource,
        /// Length of the window.
        found: u64,
    },
    /// The window is not coherent, and this processor lacks cache instructions.
    #[error(transparent)]
    Caches(#[from] NoCacheInstructions),
    /// The two sides do not agree.
    #[error("cannot join through the window {window}: {error}")]
    Rendezvous {
        /// Location of the window.
        window: WindowSource,
        /// The difference.
        error: RendezvousError,
    },
    /// The root did not appear.
    #[error("no machine offered the window {window} within {seconds:.0} s; bring it up with `tombolo up`")]
    Timeout {
        /// Location of the window.
        window: WindowSource,
        /// Time waited, in seconds.
        seconds: f64,
    },
    /// The operating system refused an operation.
    #[error(transparent)]
    Os(#[from] OsError),
}

impl JoinError {
    /// Returns whether a file that the user named is the reason, the machine file or that of the key.
    #[must_use]
    pub fn is_of_given_file(&self) -> bool {
        matches!(self, JoinError::File(_) | JoinError::NotAttached { .. } | JoinError::Key(_))
    }
}

/// Reason why a membership ended.
enum LeaveReason {
    /// The machine is gone, or has lost this node.
    Machine(String),
    /// Stopped by SIGTERM or SIGINT.
    Terminated,
}

/// Runs the node: joins, and rejoins whenever the machine returns, until SIGTERM or SIGINT. `report` gets
/// messages for the user.
///
/// # Errors
/// [`JoinError`] with the reason.
pub fn run(options: &JoinOptions, mut report: impl FnMut(String)) -> Result<(), JoinError> {
    let termination_signalfd = process::termination_signalfd()?;
    let key = WindowKey::read(options.key.as_deref())?;
    loop {
        match join_once(options, &key, termination_signalfd.as_fd(), &mut report)? {
            LeaveReason::Terminated => return Ok(()),
            LeaveReason::Machine(why) => report(why),
        }
        if options.once {
            return Ok(());
        }
        if is_readable(termination_signalfd.as_fd(), RETRY_DELAY)? {
            return Ok(());
        }
    }
}

fn is_readable(fd: BorrowedFd<'_>, within: Duration) -> Result<bool, OsError> {
    Ok(poll(&[(fd, Interest::Read)], Some(Deadline::after(within)))?[0].any())
}

fn join_once(
    options: &JoinOptions,
    key: &WindowKey,
    termination_signalfd: BorrowedFd<'_>,
    report: &mut impl FnMut(String),
) -> Result<LeaveReason, JoinError> {
    let opened = options.window.open(options.length_bytes)?;
    if opened.length_bytes < MIN_WINDOW_BYTES as u64 {
        return Err(JoinError::TooSmall { window: options.window.clone(), found: opened.length_bytes });
    }
    let page = memory::map(&opened.file, opened.base_bytes, RENDEZVOUS_BYTES)?;
    match EitherMemory::view(page, options.caches)? {
        Either::Coherent(page) => join_through(options, &page, opened, key, termination_signalfd, report),
        Either::Flushed(page) => join_through(options, &page, opened, key, termination_signalfd, report),
    }
}

/// Joins through this side's view of the first page of the window.
fn join_through<C: CacheMaintenance>(
    options: &JoinOptions,
    page: &SharedMemory<C>,
    opened: OpenWindow,
    key: &WindowKey,
    termination_signalfd: BorrowedFd<'_>,
    report: &mut impl FnMut(String),
) -> Result<LeaveReason, JoinError> {
    let terms = Terms {
        release: FINGERPRINT,
        length_bytes: opened.length_bytes,
        bells: 0,
        kind: BellKind::Poll,
        caches: options.caches,
        isa: Isa::current(),
    };
    let silence_ns = u64::try_from(options.silence.as_nanos()).unwrap_or(u64::MAX);
    let wanted = options.node.as_deref().map(Name::new);
    let here = (boot_id()?, opened.base_bytes);
    let mut joiner =
        Joiner::new(page, terms, wanted, random_nonce()?, here, silence_ns).forced(options.force);
    let Some(accepted) = rendezvous(options, &mut joiner, page, key, termination_signalfd, report)? else {
        return Ok(LeaveReason::Terminated);
    };
    let Accepted { generation, name, machine, .. } = accepted;
    report(format!(
        "joined machine '{}' as node '{}', generation {generation}",
        machine.as_str(),
        name.as_str()
    ));
    let ended = serve(joiner, accepted, page, (opened, options.caches), key, termination_signalfd)?;
    if is_readable(termination_signalfd, Duration::ZERO)? {
        return Ok(LeaveReason::Terminated);
    }
    Ok(LeaveReason::Machine(match ended {
        Ok(()) => "the machine was taken down".to_owned(),
        Err(error) => error.to_string(),
    }))
}

/// Returns an identifier of the running kernel, different after each boot.
fn boot_id() -> Result<u64, OsError> {
    let path = "/proc/sys/kernel/random/boot_id";
    let boot_id = std::fs::read(path).context(&format!("read {path}"))?;
    Ok(fnv1a(&boot_id))
}

/// Claims the window; `None` if SIGTERM or SIGINT came first.
fn rendezvous<C: CacheMaintenance>(
    options: &JoinOptions,
    joiner: &mut Joiner,
    page: &SharedMemory<C>,
    key: &WindowKey,
    termination_signalfd: BorrowedFd<'_>,
    report: &mut impl FnMut(String),
) -> Result<Option<Accepted>, JoinError> {
    let deadline = options.timeout.map(Deadline::after);
    let mut before = None;
    loop {
        match joiner.poll(page, now_ns(), key) {
            JoinEvent::Joined(accepted) => return Ok(Some(accepted)),
            JoinEvent::Failed(error) => {
                return Err(JoinError::Rendezvous { window: options.window.clone(), error });
            }
            JoinEvent::Waiting(waiting) => {
                if before.replace(waiting) != Some(waiting) {
                    let window = &options.window;
                    report(match waiting {
                        Waiting::ForRoot => format!("waiting for a machine to offer the window {window}"),
                        Waiting::ForPredecessor => {
                            format!("the window {window} has a node already; waiting for signs of life of it")
                        }
                        Waiting::ForAnswer => format!("claimed the window {window}"),
                    });
                }
            }
            JoinEvent::Nothing | JoinEvent::Lost(_) => {}
        }
        if deadline.is_some_and(Deadline::passed) {
            let seconds = options.timeout.unwrap_or_default().as_secs_f64();
            return Err(JoinError::Timeout { window: options.window.clone(), seconds });
        }
        if is_readable(termination_signalfd, POLL_PERIOD)? {
            return Ok(None);
        }
    }
}

/// Acts as a node of the machine until one of the two ends.
fn serve<C: CacheMaintenance>(
    joiner: Joiner,
    accepted: Accepted,
    page: &SharedMemory<C>,
    (opened, caches): (OpenWindow, Option<Caches>),
    key: &WindowKey,
    termination_signalfd: BorrowedFd<'_>,
) -> Result<Result<(), NodeMonitorError>, OsError> {
    let counters = || (0..accepted.bells).map(|_| eventfd()).collect::<Result<Vec<OwnedFd>, OsError>>();
    let (incoming, outgoing) = (counters()?, counters()?);
    let (lifeline, far_end) = socket::pair(socket::SocketKind::Stream)?;
    let stop = eventfd()?;
    let bells = joiner.bells(page, &accepted);
    std::thread::scope(|scope| {
        let (incoming_here, outgoing_here) = (duplicate_fds(&incoming)?, duplicate_fds(&outgoing)?);
        let stop_fd = stop.as_fd();
        scope.spawn(move || {
            let mut end = JoinSide::Joiner(joiner);
            let bells = PolledBells {
                window: page,
                key,
                end: &mut end,
                bells,
                incoming: &incoming_here,
                outgoing: &outgoing_here,
                stop: &[stop_fd, termination_signalfd],
            };
            let _ = bells.run();
            end.leave(page);
            // The control link is closed together with its lifeline.
            drop(far_end);
        });
        let ended = run_node(opened, caches, lifeline, (incoming, outgoing));
        signal(&stop)?;
        Ok(ended)
    })
}

fn duplicate_fds(counters: &[OwnedFd]) -> Result<Vec<OwnedFd>, OsError> {
    counters.iter().map(|counter| counter.try_clone().context("copy a descriptor")).collect()
}

/// Reads the header that the root has written for this node.
fn read_header(opened: &OpenWindow, caches: Option<Caches>) -> Result<WindowHeader, NodeMonitorError> {
    let length = usize::try_from(opened.length_bytes).unwrap_or(usize::MAX);
    let whole = memory::map(&opened.file, opened.base_bytes, length)?;
    if let Some(caches) = caches {
        // Uses the window itself, whose length is known, rather than a view of its first page.
        let page = whole.slice(0, RENDEZVOUS_BYTES);
        page.map(|page| caches.invalidate(&page))
            .map_err(|error| NodeMonitorError::Window(error.to_string()))?;
    }
    WindowHeader::read(&whole).map_err(|error: WindowError| NodeMonitorError::Window(error.to_string()))
}

fn run_node(
    opened: OpenWindow,
    caches: Option<Caches>,
    lifeline: OwnedFd,
    (incoming, outgoing): (Vec<OwnedFd>, Vec<OwnedFd>),
) -> Result<(), NodeMonitorError> {
    let unusable = |error: &dyn std::fmt::Display| NodeMonitorError::Window(error.to_string());
    let header = read_header(&opened, caches)?;
    let copy = |fd: Option<&OwnedFd>| {
        let fd = fd.ok_or_else(|| unusable(&"it has no doorbells"))?;
        fd.try_clone().context("copy a descriptor").map_err(NodeMonitorError::from)
    };
    let resources = window::WindowResources {
        memory: copy(Some(&opened.file))?,
        offset_bytes: opened.base_bytes + CONTROL_OFFSET_BYTES as u64,
        length_bytes: ChannelLayout::new(control_config()).length_bytes() as u64,
        lifeline,
        bell: copy(incoming.first())?,
        peer_doorbell: copy(outgoing.first())?,
        doorbell_target: None,
        caches: header.caches,
        group: None,
    };
    let hello = Hello::new(control_config(), crate::CONTROL_INTERFACE_HASH, None);
    let channel = window::open(resources, Side::A, hello, Deadline::after(CONTROL_TIMEOUT))
        .map_err(|error| unusable(&error))?;
    let bells = GuestBells::Polled { incoming, outgoing };
    let window = GuestWindow { memory: opened.file, bells, caches: header.caches };
    let windows = BTreeMap::from([(header.window, window)]);
    let joined = HostConnection::Windows(header.window, windows);
    node_monitor::run_monitor(ControlLink::over_window(channel), None, joined)
}

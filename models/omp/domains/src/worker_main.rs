//! First thread of a worker's process: it maps the shared memory, and starts and wakes threads at the hub's
//! request.

use std::time::Duration;

use tombolo::region::CapabilityId;
use tombolo::{Domain, Error, Ready, Token, WaitSet};
use tombolo_omp_team::device::threads;
use tombolo_omp_team::job::stack::Stack;
use tombolo_omp_team::job::{layout, start, worker};
use tombolo_omp_team::primitives::parker::Parker;
use tombolo_omp_team::primitives::store::Store;
use tombolo_omp_team::primitives::{paged_wait, separate_processes, sys, wake_domain};
use tombolo_omp_team::team::root::{self, Root};
use tombolo_omp_team::team::thread::Thread;

use crate::hub::{self, Image};
use crate::memory::{self, Access, Variables};
use crate::message::{FromHub, FromWorker, Layout};
use crate::outbox::{Message, Outbox};
use crate::send_queue;
use crate::{JOIN_VARIABLE, calls, channel_options, fatal, paged_memory, replica, request};

/// Time within which the hub must reply.
const HUB_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of one wait for a request; hours may pass between two requests.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);

/// Returns whether this process was started as a worker.
#[must_use]
pub fn is_worker_process() -> bool {
    std::env::var_os(JOIN_VARIABLE).is_some()
}

/// Runs a worker's process until the job ends. Calls `on_attached` with the heap's store before any worker
/// begins.
///
/// # Safety
/// The variables are the program's; nothing of the program has run yet.
pub unsafe fn run(variables: Variables, image: Image, on_attached: impl FnOnce(&'static Store)) -> ! {
    separate_processes::mark_worker_process();
    // SAFETY: guaranteed by the caller.
    match unsafe { run_until_error(variables, image, on_attached) } {
        // The program ended, or the launcher that started it.
        Error::PeerDied { .. }
        | Error::RelayDied { .. }
        | Error::Closed { .. }
        | Error::MonitorLost { .. } => sys::exit_now(0),
        error => fatal(format_args!("a worker cannot be part of the job: {error}")),
    }
}

/// Joins the job and serves the hub's requests. Returns the error that ended the loop.
///
/// # Safety
/// As [`run`].
unsafe fn run_until_error(
    variables: Variables,
    image: Image,
    on_attached: impl FnOnce(&'static Store),
) -> Error {
    // SAFETY: guaranteed by the caller.
    let mut worker_main = match unsafe { WorkerMain::join(variables, image, on_attached) } {
        Ok(worker_main) => worker_main,
        Err(error) => return error,
    };
    loop {
        if let Err(error) = worker_main.process_event() {
            return error;
        }
    }
}

/// State of the first thread.
struct WorkerMain {
    /// Wait set of the thread.
    set: WaitSet,
    /// Token of the hub's channel in the set.
    hub: Token,
    /// Messages that the hub's channel had no room for.
    outbox: Outbox<FromWorker>,
    mapped: memory::Mapped,
    _domain: Domain,
}

impl WorkerMain {
    /// Connects to the hub and maps the memory that it describes.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn join(
        variables: Variables,
        image: Image,
        on_attached: impl FnOnce(&'static Store),
    ) -> Result<Self, Error> {
        let job = std::env::var(JOIN_VARIABLE).unwrap_or_default();
        let mut words = job.split(' ');
        let number = words.next().and_then(|number| number.parse::<u32>().ok());
        let (Some(number), Some(name), pages) = (number, words.next(), words.next()) else {
            fatal(format_args!(
                "{JOIN_VARIABLE} is for the run-time's own use, and {job:?} is not what it says there"
            ));
        };
        let domain = Domain::attach()?.with_timeout(HUB_TIMEOUT);
        let mut channel = channel_options().connect(&domain, name)?;
        let hello = FromWorker::Hello { number: number.into(), image, records: layout::fingerprint() };
        channel.send(&hello.encode())?;
        let mut bytes = Vec::new();
        channel.recv_into(&mut bytes)?;
        let Some(FromHub::Welcome { capability, layout, root, wake_domain, multi_domain }) =
            FromHub::decode(&bytes)
        else {
            fatal("the hub of the job said something that means nothing");
        };
        if layout.variables != variables.start as u64 {
            fatal("the program's variables are elsewhere than in its other builds");
        }
        let access = match (capability, pages) {
            (Some(capability), _) => Access::Region(domain.capability(CapabilityId(capability))?),
            (None, Some(name)) => {
                Access::RemotePages(paged_memory::PagesHome { name: name.to_owned(), number })
            }
            (None, None) => fatal("the hub of the job sends pages, and did not say where they come from"),
        };
        // SAFETY: the layout is that of an image with the same id; nothing of the program has run.
        let mapped = match unsafe { memory::map(&domain, &access, layout, false) } {
            Ok(mapped) => mapped,
            Err(error) => fatal(format_args!("node {}: {error}", domain.node_name())),
        };
        if mapped.paged_ranges().is_some() {
            sys::use_private_futexes();
            paged_wait::set_memory_paged();
        }
        attach_to_root(root, u32::try_from(wake_domain).unwrap_or(0), multi_domain, layout, on_attached);
        let mut set = WaitSet::new()?;
        set.set_spin_ns(0);
        send_queue::set_waker(set.waker());
        let hub = set.add(channel)?;
        let mut worker_main = Self { set, hub, outbox: Outbox::default(), mapped, _domain: domain };
        worker_main.send(FromWorker::Ready)?;
        Ok(worker_main)
    }

    /// Queues a message for the hub and sends what the channel has room for.
    fn send(&mut self, message: FromWorker) -> Result<(), Error> {
        self.outbox.push(message);
        self.outbox.flush(&mut self.set, self.hub)
    }

    /// Waits for an event and handles it.
    fn process_event(&mut self) -> Result<(), Error> {
        let timeout = if self.outbox.is_empty() { IDLE_TIMEOUT } else { HUB_TIMEOUT };
        match self.set.wait(timeout) {
            Ok(Ready::Woken) => self.send_queued(),
            Ok(Ready::Channel(_)) => {
                self.outbox.flush(&mut self.set, self.hub)?;
                self.receive_all()
            }
            Err(Error::TimedOut { .. }) if self.outbox.full_for() < HUB_TIMEOUT => Ok(()),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends the messages that other threads queued.
    fn send_queued(&mut self) -> Result<(), Error> {
        let (mut messages, mut asleep) = (Vec::new(), Vec::new());
        let start = |parker: &'static Parker| FromWorker::Start { thread: std::ptr::from_ref(parker) as u64 };
        send_queue::drain(|parker| messages.push(start(parker)), |parker| asleep.push(parker));
        let wake = |(wake_domain, parkers)| FromWorker::Wake { wake_domain: u64::from(wake_domain), parkers };
        messages.extend(hub::group_by_wake_domain(asleep).into_iter().map(wake));
        request::drain(|request| messages.push(FromWorker::Request { request }));
        messages.into_iter().try_for_each(|message| self.send(message))
    }

    /// Handles all messages that the hub sent.
    fn receive_all(&mut self) -> Result<(), Error> {
        let mut bytes = Vec::new();
        loop {
            let Some(channel) = self.set.get_mut(self.hub) else { return Ok(()) };
            if channel.try_recv_into(&mut bytes)?.is_none() {
                return Ok(());
            }
            if let Some(answer) = handle_message(&bytes, &self.mapped) {
                self.send(answer)?;
            }
        }
    }
}

/// Attaches this process to the job's root and configures wake-ups.
fn attach_to_root(
    root: u64,
    wake_domain: u32,
    multi_domain: bool,
    layout: Layout,
    on_attached: impl FnOnce(&'static Store),
) {
    let within = root.wrapping_sub(layout.arena) < layout.arena_bytes && root.is_multiple_of(64);
    if !within {
        fatal("the root of the job is not in its arena");
    }
    // SAFETY: the hub created the root at this address in the arena, and its records have the same layout
    // here.
    let root: &'static Root = unsafe { &*(root as *const Root) };
    separate_processes::enable(|| {});
    if !paged_wait::is_memory_paged()
        && sys::use_private_futexes_if_needed(root.futex_probe())
        && wake_domain == 0
    {
        fatal("threads cannot be woken here: the kernel knows no pages of the arena");
    }
    start::attach(root, send_queue::start);
    if multi_domain {
        wake_domain::configure(wake_domain, send_queue::wake);
    }
    on_attached(root.store);
}

/// Executes a request of the hub and returns the reply, if it has one.
fn handle_message(bytes: &[u8], mapped: &memory::Mapped) -> Option<FromWorker> {
    match FromHub::decode(bytes) {
        Some(FromHub::Start { thread, stack, length }) => {
            let stack = Stack { memory: stack as *mut u8, size: usize::try_from(length).unwrap_or(0) };
            let argument = (thread as *const Thread).cast_mut().cast();
            // SAFETY: the hub made the record and the stack for this worker.
            if let Err(text) = unsafe { stack.run(worker::worker, argument) } {
                fatal(format_args!("a worker cannot be started ({text}); OMP_STACKSIZE sets that"));
            }
        }
        Some(FromHub::Wake { parkers }) => {
            for parker in parkers {
                // SAFETY: parkers are never freed, and a thread of the job sent this address.
                if let Some(parker) = unsafe { (parker as *const Parker).as_ref() } {
                    parker.wake_local();
                }
            }
        }
        Some(FromHub::Call { request }) => {
            // SAFETY: a thread of the job created the request and waits for its completion.
            if let Some(request) = unsafe { (request as *const request::Request).as_ref() } {
                calls::serve(request);
            }
        }
        Some(FromHub::Measure { number, node }) => {
            if let Some(root) = root::current() {
                threads::measure(root, u32::try_from(node).unwrap_or(u32::MAX));
            }
            return Some(FromWorker::Measured { number });
        }
        Some(FromHub::Replicate { request, begin, bytes, restore }) => {
            let error = replica::apply(mapped, begin, bytes, restore);
            return Some(FromWorker::Replicated { request, error: u64::from(error) });
        }
        Some(FromHub::Welcome { .. }) | None => fatal("the hub of the job said something that means nothing"),
    }
    None
}

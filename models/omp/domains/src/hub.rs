//! The program's first thread: it starts domains for workers, watches them, and forwards wake-ups.

mod paged_job;
mod process;
mod replicate;
mod termination;
mod thread_reports;

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tombolo::nodes::Target;
use tombolo::{Child, Domain, Error, Listener, Ready, Token, WaitSet};
use tombolo_omp_team::job::env::{EnvSettings, Mode};
use tombolo_omp_team::job::stack::{Main, MainCall, Stack};
use tombolo_omp_team::job::{arguments, layout, start, worker};
use tombolo_omp_team::primitives::nodes::{Isa, NodeDescription};
use tombolo_omp_team::primitives::parker::Parker;
use tombolo_omp_team::primitives::{paged_wait, separate_processes, sys, wake_domain};
use tombolo_omp_team::team::root::Root;
use tombolo_omp_team::team::thread::Thread;
use tombolo_placement::{Facts, Needs, NeedsError, choose};

use self::process::{Process, ProcessState};
pub use self::thread_reports::{Symbolizer, set_symbolizer};
use crate::memory::{self, Access, Mapped, Variables};
use crate::message::{FromHub, FromWorker, Layout, PARKERS_MAX};
use crate::node_selection::{self, JobNode, Kernel, MemoryKind};
use crate::send_queue;
use crate::{channel_options, death, fatal, paged_memory, request};

/// Time within which a worker's process must have mapped everything.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval of deadline checks.
const TICK: Duration = Duration::from_secs(1);
/// Time within which a worker must drain a full channel of requests: its first thread does nothing else.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Set while the job ends, when the end of a worker is expected.
static TERMINATING: AtomicBool = AtomicBool::new(false);

/// Identity that all builds of an image share.
pub type Image = [u64; 4];

/// State of a job in its hub.
pub struct Hub {
    domain: Domain,
    program: Program,
    set: WaitSet,
    listener: Listener,
    /// Listener for page channels, if memory is sent in pages.
    pages_listener: Option<(Token, Listener)>,
    access: Access,
    layout: Layout,
    job_nodes: Vec<JobNode>,
    mode: Mode,
    image: Image,
    /// Whether the job has several wake domains, so that some threads can be woken only by their own process.
    multi_domain: bool,
    /// Whether each process is a wake domain of its own, even on the hub's kernel.
    domain_per_process: bool,
    root: &'static Root,
    processes: Vec<Process>,
    /// Channels whose peer has not sent `Hello` yet.
    unidentified: Vec<Token>,
    mapped: Mapped,
    replicas: replicate::Replicas,
    report_clients: thread_reports::ReportClients,
}

/// Program that workers are started from.
enum Program {
    /// Image that the machine started this domain from.
    ThisImage,
    /// File with an image or a program.
    File(std::path::PathBuf),
}

/// Shares the program's variables and begins a job. Called once, before `main`, in the process's initial
/// thread.
///
/// # Safety
/// The variables are the program's and are not in use during the call.
#[must_use]
pub unsafe fn begin(env_settings: EnvSettings, variables: Variables, image: Image) -> Hub {
    // SAFETY: guaranteed by the caller.
    match unsafe { Hub::begin(env_settings, variables, image) } {
        Ok(hub) => hub,
        Err(error) => fatal(error),
    }
}

/// Errors of the start of a job.
#[derive(Debug, thiserror::Error)]
enum BeginError {
    /// The process could not attach to a machine.
    #[error("workers are domains of a machine: {0}; `tombolo run` starts a program there")]
    Machine(#[from] Error),
    /// The requested nodes cannot be used.
    #[error(transparent)]
    Place(#[from] node_selection::NodeSelectionError),
    /// `OMP_TOMBOLO_NEEDS` is invalid.
    #[error("OMP_TOMBOLO_NEEDS: {0}")]
    Needs(#[from] NeedsError),
    /// The shared memory cannot be set up.
    #[error(transparent)]
    Memory(#[from] memory::MemoryError),
    /// The report file cannot be opened.
    #[error(transparent)]
    Report(#[from] crate::report::NotGranted),
    /// A node cannot be chosen or entered into the table of nodes.
    #[error("{0}")]
    Node(String),
}

/// Returns the nodes that meet `OMP_TOMBOLO_NEEDS`, the best first. A job whose nodes cannot all share memory
/// takes the first ones that can.
fn choose_nodes(domain: &Domain, needs: &str) -> Result<Vec<String>, BeginError> {
    let needs: Needs = needs.parse()?;
    let facts = Facts::query(domain, &needs)?;
    let targets = [tombolo::Isa::X86_64, tombolo::Isa::Aarch64].map(Target::linux);
    let choice =
        choose(&facts, &needs, Some(&targets)).map_err(|error| BeginError::Node(error.to_string()))?;
    Ok(choice.candidates.into_iter().map(|candidate| candidate.node).collect())
}

impl Hub {
    /// # Safety
    /// As [`begin`].
    unsafe fn begin(
        env_settings: EnvSettings,
        variables: Variables,
        image: Image,
    ) -> Result<Self, BeginError> {
        let domain = Domain::attach()?.with_timeout(JOIN_TIMEOUT);
        let program = if domain.was_spawned() { Program::ThisImage } else { Program::File(program_file()) };
        let chosen = if node_selection::is_automatic(&env_settings.nodes) {
            choose_nodes(&domain, &env_settings.needs)?
        } else {
            vec![]
        };
        let (nodes, windows) = (domain.nodes()?, domain.windows()?);
        let (job_nodes, memory) = node_selection::select_nodes(
            &nodes,
            &windows,
            domain.node_name(),
            &env_settings.nodes,
            &chosen,
            env_settings.memory,
        )?;
        crate::report::open(&domain, &job_nodes[0], &env_settings.report)?;
        let mut set = WaitSet::new()?;
        set.set_spin_ns(0);
        let listener = channel_options().listen(&domain)?;
        set.add_listener(&listener)?;
        let pages_listener = match memory {
            MemoryKind::Pages => {
                let listener = paged_memory::listen(&domain)?;
                Some((set.add_listener(&listener)?, listener))
            }
            MemoryKind::Memory { .. } | MemoryKind::Window { .. } => None,
        };
        let endpoints =
            process::Endpoints::new(&listener, pages_listener.as_ref().map(|(_, listener)| listener));
        // Start the workers now, so that failures are reported before the program runs. A virtual machine
        // also receives the program through its window, which must happen before the arena takes the free
        // space there.
        let children: Vec<Child> = job_nodes[1..]
            .iter()
            .zip(1..)
            .map(|(job_node, number)| process::start(&domain, &program, &endpoints, job_node, number))
            .collect::<Result<_, _>>()?;
        let memory_of_job = memory::create(&domain, &memory, variables, env_settings.settings.arena);
        let (access, layout) = memory_of_job.inspect_err(|_| {
            // They would report a job that never began. A child that cannot be killed ends when this process
            // does.
            children.iter().for_each(|child| drop(child.kill()));
        })?;
        // SAFETY: guaranteed by the caller.
        let mapped = unsafe { memory::map(&domain, &access, layout, true)? };
        paged_job::set_report_source(&memory, &mapped);
        let mode = env_settings.mode;
        let root = start::install(memory::format(layout, &memory), env_settings, send_queue::start);
        separate_processes::enable(terminate);
        // SAFETY: the C library's list, which no other thread accesses yet; the copy is never freed.
        unsafe { arguments::use_environment(arguments::copy(root.store, arguments::environment())) };
        add_nodes(root, &job_nodes).map_err(BeginError::Node)?;
        // In a window, the kernel of a virtual machine has no `struct page` for the memory, so shared futexes
        // fail; pages that are sent belong to each process alone.
        let domain_per_process = if mapped.paged_ranges().is_some() {
            sys::use_private_futexes();
            paged_wait::set_memory_paged();
            true
        } else {
            sys::use_private_futexes_if_needed(root.futex_probe())
        };
        let multi_domain =
            domain_per_process || job_nodes.iter().any(|job_node| job_node.kernel != job_nodes[0].kernel);
        debug_assert!(!domain_per_process || matches!(memory, MemoryKind::Window { .. } | MemoryKind::Pages));
        if multi_domain {
            wake_domain::configure(0, send_queue::wake);
        }
        send_queue::set_waker(set.waker());
        let mut hub = Self {
            domain,
            program,
            set,
            listener,
            pages_listener,
            access,
            layout,
            job_nodes,
            mode,
            image,
            multi_domain,
            domain_per_process,
            root,
            processes: Vec::new(),
            unidentified: Vec::new(),
            mapped,
            replicas: replicate::Replicas::default(),
            report_clients: thread_reports::ReportClients::default(),
        };
        for (child, node) in children.into_iter().zip(1..) {
            hub.register_process(node, child)?;
        }
        while hub.processes.iter().any(|process| !matches!(process.state, ProcessState::Ready { .. })) {
            hub.process_event();
        }
        hub.listen_for_report_clients()?;
        Ok(hub)
    }

    /// Returns the root of the job.
    #[must_use]
    pub fn root(&self) -> &'static Root {
        self.root
    }

    /// Runs `main` on a stack in the arena and serves the job until it returns. Returns the status of `main`.
    ///
    /// # Safety
    /// `count` and `words` are the arguments that the C library passes to `main`.
    pub unsafe fn run(mut self, main: Main, argc: c_int, argv: *mut *mut c_char) -> c_int {
        let store = self.root.store;
        // SAFETY: guaranteed by the caller.
        let argv = unsafe { arguments::copy(store, argv) };
        let arguments = (argc, argv.cast(), arguments::environment().cast());
        let call: &'static MainCall =
            store.place(MainCall::new(main, arguments, send_queue::wake_first_thread));
        call.start(self.root.store);
        loop {
            if let Some(status) = call.status() {
                if self.mapped.paged_ranges().is_some() {
                    // The exit handlers may need pages that only workers have, so the workers must still be
                    // running.
                    sys::exit(status);
                }
                return status;
            }
            self.process_event();
        }
    }

    /// Waits for an event and handles it.
    fn process_event(&mut self) {
        match self.set.wait(TICK) {
            Ok(Ready::Woken) => self.process_queues(),
            Ok(Ready::Listener(token)) => self.accept(token),
            Ok(Ready::Channel(token)) => self.handle_channel(token),
            Ok(Ready::Child(token)) => self.handle_child_exit(token),
            Ok(_) => {}
            Err(Error::TimedOut { .. }) => self.check_deadlines(),
            Err(error) => fatal(format_args!("the machine is gone: {error}")),
        }
        self.check_client_deadlines();
    }

    fn process_queues(&mut self) {
        let (mut wanted, mut asleep) = (Vec::new(), Vec::new());
        send_queue::drain(|parker| wanted.push(parker), |parker| asleep.push(parker));
        for parker in wanted {
            self.start(std::ptr::from_ref(parker) as u64);
        }
        let mut requests = Vec::new();
        request::drain(|request| requests.push(request));
        for request in requests {
            self.handle_request(request);
        }
        for (wake_domain, parkers) in group_by_wake_domain(asleep) {
            self.wake(wake_domain, parkers);
        }
    }

    /// Starts a process for workers on a node.
    fn spawn(&mut self, node: usize) -> Result<(), Error> {
        let number = self.processes.len() + 1;
        if self.mapped.paged_ranges().is_some() && number >= paged_memory::PROCESSES_MAX {
            fatal(format_args!(
                "memory that is sent in pages can be that of {} processes: OMP_TOMBOLO=hybrid has one for each node",
                paged_memory::PROCESSES_MAX
            ));
        }
        let pages_listener = self.pages_listener.as_ref().map(|(_, listener)| listener);
        let endpoints = process::Endpoints::new(&self.listener, pages_listener);
        let child = process::start(&self.domain, &self.program, &endpoints, &self.job_nodes[node], number)?;
        self.register_process(node, child)
    }

    /// Registers a started process as the job's next one.
    fn register_process(&mut self, node: usize, child: Child) -> Result<(), Error> {
        let number = self.processes.len() + 1;
        let shares_kernel =
            !self.domain_per_process && self.job_nodes[node].kernel == self.job_nodes[0].kernel;
        let wake_domain = if shares_kernel { 0 } else { u32::try_from(number).unwrap_or(u32::MAX) };
        let token = self.set.add_child(&child)?;
        death::add_worker(&child);
        self.processes.push(Process::new(node, wake_domain, child, token));
        Ok(())
    }

    fn accept(&mut self, token: Token) {
        if self.pages_listener.as_ref().is_some_and(|(pages_listener, _)| *pages_listener == token) {
            return self.accept_page_channel();
        }
        if self.accept_report_client(token) {
            return;
        }
        match self.listener.within(Duration::ZERO).accept() {
            Ok(channel) => match self.set.add(channel) {
                Ok(token) => self.unidentified.push(token),
                Err(error) => fatal(format_args!("a worker cannot be listened to: {error}")),
            },
            Err(Error::TimedOut { .. } | Error::Refused { .. }) => {}
            Err(error) => fatal(format_args!("no worker can connect any more: {error}")),
        }
    }

    /// Receives a message from a channel, and sends queued messages if the channel has room again.
    fn handle_channel(&mut self, token: Token) {
        if self.handle_client_channel(token) {
            return;
        }
        if let Some(index) = self.processes.iter().position(|process| process.channel() == Some(token)) {
            self.flush_outbox(index);
        }
        let mut bytes = Vec::new();
        let Some(channel) = self.set.get_mut(token) else { return };
        match channel.try_recv_into(&mut bytes) {
            Ok(Some(_)) => {}
            Ok(None) => return,
            // The machine reports how the process ended.
            Err(_) => {
                self.set.remove(token);
                return self.unidentified.retain(|unidentified| *unidentified != token);
            }
        }
        let known = self.processes.iter().position(|process| process.channel() == Some(token));
        match (FromWorker::decode(&bytes), known) {
            (Some(FromWorker::Hello { number, image, records }), None) => {
                self.handle_hello(token, number, image, records);
            }
            (Some(FromWorker::Ready), Some(index)) => self.handle_ready(index, token),
            (Some(FromWorker::Start { thread }), Some(_)) => self.start(thread),
            (Some(FromWorker::Request { request }), Some(_)) => self.handle_request(request),
            (Some(FromWorker::Replicated { request, error }), Some(_)) => {
                self.handle_replicated(request, error);
            }
            (Some(FromWorker::Measured { number }), Some(index)) => self.handle_measured(index, number),
            (Some(FromWorker::Wake { wake_domain, parkers }), Some(_)) => {
                self.wake(u32::try_from(wake_domain).unwrap_or(0), parkers);
            }
            // Not a valid message of one of the job's processes.
            _ => {
                self.set.remove(token);
                self.unidentified.retain(|unidentified| *unidentified != token);
            }
        }
    }

    /// Handles `Hello`: verifies the process and its image, and sends the memory layout.
    fn handle_hello(&mut self, token: Token, number: u64, image: Image, records: u64) {
        let peer = self.set.get(token).map(tombolo::Channel::peer);
        let index = usize::try_from(number).unwrap_or(0).wrapping_sub(1);
        let process = self.processes.get_mut(index).filter(|process| {
            Some(process.child.id()) == peer && matches!(process.state, ProcessState::Started { .. })
        });
        self.unidentified.retain(|unidentified| *unidentified != token);
        let Some(process) = process else {
            self.set.remove(token);
            return;
        };
        let node = process.child.node_name().to_owned();
        if image != self.image || records != layout::fingerprint() {
            fatal(format_args!(
                "the worker on node {node} is of another image than the program: compile all builds at once with `tombolo ompcc`"
            ));
        }
        let granted = match &self.access {
            Access::Region(capability) => {
                Some(capability.grant(process.child.id(), tombolo::region::Rights::READ_WRITE))
            }
            Access::HomePages | Access::RemotePages(_) => None,
        };
        let capability = match granted.transpose() {
            Ok(granted) => granted.map(|granted| granted.id.0),
            Err(error) => fatal(format_args!("node {node} does not get at what workers share: {error}")),
        };
        process.state = ProcessState::Joining { since: Instant::now(), channel: token };
        let welcome = FromHub::Welcome {
            capability,
            layout: self.layout,
            root: std::ptr::from_ref(self.root) as u64,
            wake_domain: u64::from(process.wake_domain),
            multi_domain: self.multi_domain,
        };
        self.send_to(index, welcome);
    }

    /// Handles `Ready`: starts the threads that wait for the process.
    fn handle_ready(&mut self, index: usize, channel: Token) {
        let process = &mut self.processes[index];
        process.state = ProcessState::Ready { channel };
        self.send_replicas_to(index);
        let process = &mut self.processes[index];
        for thread in std::mem::take(&mut process.waiting) {
            self.send_start(index, thread);
        }
    }

    /// Queues a message for a process and sends what the channel has room for.
    fn send_to(&mut self, index: usize, message: FromHub) {
        self.processes[index].outbox.push(message);
        self.flush_outbox(index);
    }

    fn flush_outbox(&mut self, index: usize) {
        let process = &mut self.processes[index];
        if let Err(error) = process.flush_outbox(&mut self.set) {
            fatal(format_args!("the worker on node {} cannot be told: {error}", process.child.node_name()));
        }
    }

    /// Starts a worker, in an existing process with room for it or in a new one.
    fn start(&mut self, thread: u64) {
        // SAFETY: the address comes from a thread of the job or from a worker, which is trusted like one.
        let Some(thread) = (unsafe { (thread as *const Thread).as_ref() }) else { return };
        let node = (thread.node as usize).min(self.job_nodes.len() - 1);
        if self.mode == Mode::Hybrid && node == 0 {
            let argument = std::ptr::from_ref(thread).cast_mut().cast();
            // SAFETY: the stack is unused, and `worker` expects the address of its record.
            if let Err(text) = unsafe { Stack::of_worker(thread).run(worker::worker, argument) } {
                fatal(format_args!("a worker cannot be started ({text}); OMP_STACKSIZE sets that"));
            }
            return;
        }
        let room =
            |process: &Process| process.node == node && (self.mode == Mode::Hybrid || process.threads == 0);
        let index = match self.processes.iter().position(room) {
            Some(index) => index,
            None => {
                if let Err(error) = self.spawn(node) {
                    let node = &self.job_nodes[node].name;
                    fatal(format_args!("a worker cannot be started on node {node}: {error}"));
                }
                self.processes.len() - 1
            }
        };
        let process = &mut self.processes[index];
        process.threads += 1;
        thread.parker.set_domain(process.wake_domain);
        match process.state {
            ProcessState::Ready { .. } => self.send_start(index, thread),
            ProcessState::Started { .. } | ProcessState::Joining { .. } => process.waiting.push(thread),
        }
    }

    fn send_start(&mut self, index: usize, thread: &'static Thread) {
        let Stack { memory, size } = Stack::of_worker(thread);
        let message = FromHub::Start {
            thread: std::ptr::from_ref(thread) as u64,
            stack: memory as u64,
            length: size as u64,
        };
        self.send_to(index, message);
    }

    /// Wakes threads: directly if they are of this process's wake domain, otherwise through a process of
    /// theirs.
    fn wake(&mut self, wake_domain: u32, parkers: Vec<u64>) {
        if wake_domain == 0 {
            for parker in parkers {
                // SAFETY: the address comes from a thread of the job or from a worker, which is trusted like
                // one; parkers are never freed.
                if let Some(parker) = unsafe { (parker as *const Parker).as_ref() } {
                    parker.wake_local();
                }
            }
            return;
        }
        let joined = |process: &Process| process.wake_domain == wake_domain && process.channel().is_some();
        if let Some(index) = self.processes.iter().position(joined) {
            self.send_to(index, FromHub::Wake { parkers });
        }
    }
}

/// Groups parkers by wake domain, at most [`PARKERS_MAX`] in a group, as messages carry them.
pub(crate) fn group_by_wake_domain(parkers: Vec<&'static Parker>) -> Vec<(u32, Vec<u64>)> {
    let mut domains: Vec<(u32, Vec<u64>)> = Vec::new();
    for parker in parkers {
        let address = std::ptr::from_ref(parker) as u64;
        match domains
            .iter_mut()
            .find(|(wake_domain, parkers)| *wake_domain == parker.domain() && parkers.len() < PARKERS_MAX)
        {
            Some((_, parkers)) => parkers.push(address),
            None => domains.push((parker.domain(), vec![address])),
        }
    }
    domains
}

/// Records that the program ends. The machine ends the workers with it.
fn terminate() {
    TERMINATING.store(true, Ordering::Release);
}

/// Adds the nodes to the table that all workers share.
fn add_nodes(root: &'static Root, job_nodes: &[JobNode]) -> Result<(), String> {
    let isa = |job_node: &JobNode| Isa::from_name(job_node.isa.name()).unwrap_or(Isa::own());
    let mut host = None;
    for (index, job_node) in job_nodes.iter().enumerate() {
        // Foreign programs on the host are emulated on the host's processors.
        let runs_on = (job_node.kernel == Kernel::Host).then_some(host).flatten();
        let description = NodeDescription {
            name: &job_node.name,
            isa: isa(job_node),
            processors: job_node.processors,
            threads: job_node.threads,
            runs_on,
        };
        if index == 0 {
            root.nodes().set_own_description(description.name, description.threads);
        } else {
            root.nodes().add(description)?;
        }
        if job_node.kernel == Kernel::Host && host.is_none() {
            host = u32::try_from(index).ok();
        }
    }
    Ok(())
}

/// Returns the file that workers are started from if the machine did not start the program: the image next to
/// it, or the program itself.
fn program_file() -> std::path::PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let mut image = program.clone();
    image.as_mut_os_string().push(".tbi");
    if image.is_file() { image } else { program }
}

//! A running job: serves its ranks' process-manager requests, observes exits, and ends the remaining ranks.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tombolo::error::Fault;
use tombolo::nodes::NodeKind;
use tombolo::spawn::SideStream;
use tombolo::{Child, Domain, Error, Exit, Ready, Token, WaitSet};
use tombolo_admin::{Machine, Signal};
use tombolo_placement::{Placement, PlacementError, place};

use super::cleaner::Cleaner;
use super::ending::{Cause, Ending, Outcome, RankEnd, Termination};
use super::leftovers::{WorldFiles, clean_host, clean_nodes, job_name};
use super::services::Services;
use super::start::{check_count, check_part, mapping, rank_starts, start_all};
use super::{Control, Job, JobError, JobOptions, Part, RankName, SIGPIPE, SIGTERM, Watcher, describe_rank};
use crate::pmi::{Event, MemberId, Phase, Server, SpawnCommand, WorldId};
use crate::program::Program;

/// Grace period between SIGTERM and SIGKILL when a rank ended the job.
const GRACE: Duration = Duration::from_secs(1);

/// Grace period when the user ended the job: programs may handle the signal.
const USER_GRACE: Duration = Duration::from_secs(3);

/// Time after the grace period within which monitors must report the exit of every rank.
const EXIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest single wait.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Limit of answers queued for a rank that does not read them.
const MAX_OUTGOING_BYTES: usize = 256 << 10;

/// Exit status after the time limit, as that of timeout(1).
const TIMED_OUT_STATUS: u8 = 124;

struct Rank {
    name: RankName,
    node: usize,
    program: String,
    child: Option<Child>,
    side: Option<SideStream>,
    outgoing: VecDeque<u8>,
    exit: Option<Exit>,
    /// The rank called `MPI_Abort`; its own exit is not a cause.
    aborted: bool,
    /// The rank's world failed to start as a whole; its exit is not a failure of the rank.
    start_failed: bool,
}

impl Rank {
    fn is_alive(&self) -> bool {
        self.child.is_some() && self.exit.is_none()
    }
}

#[derive(Clone, Copy)]
enum EventSource {
    Child(usize),
    Side(usize),
}

pub(super) struct RunningJob<'a> {
    domain: Domain,
    set: WaitSet,
    control: Control,
    options: &'a JobOptions,
    watcher: &'a dyn Watcher,
    server: Server,
    services: Services,
    cleaner: Option<Cleaner>,
    /// Indexed by `MemberId` of the process manager.
    ranks: Vec<Rank>,
    tokens: HashMap<Token, EventSource>,
    ending: Option<Ending>,
    started_at: Instant,
    /// Index of the node for the next spawned rank.
    next_node: usize,
    worlds: usize,
    warned_of_provider: bool,
}

impl<'a> RunningJob<'a> {
    pub(super) fn new(job: Job, options: &'a JobOptions, watcher: &'a dyn Watcher) -> RunningJob<'a> {
        let Job { domain, set, control, cleaner } = job;
        let server = Server::new(&job_name(domain.id()));
        RunningJob {
            services: Services::new(domain.names()),
            domain,
            set,
            control,
            options,
            watcher,
            server,
            cleaner,
            ranks: Vec::new(),
            tokens: HashMap::new(),
            ending: None,
            started_at: Instant::now(),
            next_node: 0,
            worlds: 0,
            warned_of_provider: false,
        }
    }

    pub(super) fn run(mut self) -> Result<Outcome, JobError> {
        let ended = self.run_until_ended();
        self.remove_leftovers();
        if let Some(Err(error)) = self.cleaner.take().map(Cleaner::stop) {
            self.watcher.log_verbose(&format!("the process that removes files of MPICH has failed: {error}"));
        }
        ended?;
        let ranks = self.ranks.iter().map(|rank| RankEnd {
            name: rank.name,
            node: self.node_name(rank.node),
            program: rank.program.clone(),
            domain: rank.child.as_ref().map(Child::id),
            exit: rank.exit.clone(),
        });
        Ok(Outcome::new(self.ending.as_ref(), self.started_at.elapsed(), ranks.collect()))
    }

    fn run_until_ended(&mut self) -> Result<(), JobError> {
        match self.start_world(&self.options.parts, &[])? {
            Ok(children) => self.watcher.stdin_ready(children),
            Err(error) => self.end(Cause::Request, error.to_string(), 1, SIGTERM, GRACE),
        }
        while self.ranks.iter().any(Rank::is_alive) {
            self.process_next_event()?;
            if self.ending.as_ref().is_some_and(|ending| ending.since.elapsed() > USER_GRACE + EXIT_TIMEOUT) {
                self.watcher.warn("some ranks did not end in time; the monitor ends them now");
                break;
            }
        }
        Ok(())
    }

    /// Removes the shared-memory files of killed ranks.
    fn remove_leftovers(&self) {
        let files = |world| self.server.kvs_name(WorldId(world)).map(WorldFiles::of);
        match clean_host(&(0..self.worlds).filter_map(files).collect()) {
            Ok(0) => {}
            Ok(count) => {
                self.watcher.log_verbose(&format!("removed {count} unused files of MPICH"));
            }
            Err(error) => {
                self.watcher.log_verbose(&format!("files of MPICH may stay in shared memory: {error}"));
            }
        }
        // A node with its own kernel has files only if a rank there did not reach its end.
        let mut nodes = BTreeMap::new();
        for (index, rank) in self.ranks.iter().enumerate() {
            let node = &self.options.nodes[rank.node];
            let stays = self.server.phase(MemberId(index)) == Phase::Inside
                && !matches!(rank.exit, Some(Exit::NodeLost { .. }));
            if let Some(files) = files(rank.name.world).filter(|_| stays && node.kind == NodeKind::Vm) {
                nodes.entry(rank.node).or_insert_with(|| (node, BTreeSet::new())).1.insert(files);
            }
        }
        clean_nodes(&self.domain, nodes, &|text| self.watcher.log_verbose(text));
    }

    /// Registers a world with the cleaner before it starts.
    fn register_world(&mut self, world: WorldId, parts: &[Part]) {
        let (Some(cleaner), Some(space)) = (&mut self.cleaner, self.server.kvs_name(world)) else { return };
        let used: BTreeSet<usize> = parts.iter().flat_map(|part| part.nodes.iter().copied()).collect();
        let nodes = used.iter().filter_map(|index| self.options.nodes.get(*index));
        let machines = nodes.filter(|node| node.kind == NodeKind::Vm).map(|node| &*node.name);
        if let Err(error) = cleaner.register_world(WorldFiles::of(space), machines) {
            self.watcher.log_verbose(&format!("files of MPICH may stay if this is killed: {error}"));
            self.cleaner = None;
        }
    }

    fn node_name(&self, node: usize) -> String {
        self.options.nodes.get(node).map_or_else(String::new, |node| node.name.clone())
    }

    fn describe_rank(&self, index: usize) -> String {
        let rank = &self.ranks[index];
        describe_rank(rank.name, &self.node_name(rank.node), rank.child.as_ref().map(Child::id))
    }

    /// Starts the ranks of a world. The inner error says which rank could not be started; the started ranks
    /// of the world are then terminated.
    fn start_world(
        &mut self,
        parts: &[Part],
        preput: &[(String, String)],
    ) -> Result<Result<Vec<Child>, Error>, JobError> {
        let appnums: Vec<usize> = parts
            .iter()
            .enumerate()
            .flat_map(|(appnum, part)| part.nodes.iter().map(move |_| appnum))
            .collect();
        let (world, members) = self.server.add_world(&appnums, mapping(parts), preput);
        self.register_world(world, parts);
        let job = format!("job-{}", self.domain.id());
        let rank_starts =
            rank_starts(parts, &self.options.nodes, self.worlds, (&job, self.options.stdin), self.watcher);
        self.worlds += 1;
        let control = self.control.clone();
        let ended = self.ending.is_some();
        let outcomes =
            start_all(&self.domain, &rank_starts, self.watcher, || ended || control.interrupted().is_some());
        let mut failure = None;
        let mut children = Vec::new();
        for ((start, outcome), (member, appnum)) in
            rank_starts.into_iter().zip(outcomes).zip(members.into_iter().zip(appnums))
        {
            debug_assert_eq!(member.0, self.ranks.len());
            let child = match outcome {
                Some(Ok(child)) => Some(child),
                Some(Err(error)) => {
                    failure = failure.or(Some(error));
                    None
                }
                None => None,
            };
            let side = child.as_ref().and_then(Child::side_stream);
            if let Some(child) = &child {
                self.tokens.insert(self.set.add_child(child)?, EventSource::Child(member.0));
                children.push(child.clone());
            }
            if let Some(side) = &side {
                self.tokens.insert(self.set.add_side(side)?, EventSource::Side(member.0));
            }
            self.ranks.push(Rank {
                name: start.name,
                node: start.node,
                program: parts[appnum].program.name.clone(),
                child,
                side,
                outgoing: VecDeque::new(),
                exit: None,
                aborted: false,
                start_failed: false,
            });
        }
        let Some(error) = failure else { return Ok(Ok(children)) };
        let first = self.ranks.len()
            - self.ranks.iter().rev().take_while(|rank| rank.name.world + 1 == self.worlds).count();
        for index in first..self.ranks.len() {
            self.ranks[index].start_failed = true;
            self.kill(index, SIGTERM, GRACE);
        }
        Ok(Err(error))
    }

    /// Waits for the next event and handles it.
    fn process_next_event(&mut self) -> Result<(), JobError> {
        let left = self.options.timeout.map(|timeout| timeout.saturating_sub(self.started_at.elapsed()));
        let left = match &self.ending {
            None => left,
            Some(ending) => ending.remaining_hold(),
        };
        match self.set.wait(left.unwrap_or(MAX_WAIT).min(MAX_WAIT)) {
            Ok(Ready::Side(token) | Ready::Child(token)) => self.handle_event(token)?,
            Ok(_) => {}
            Err(Error::TimedOut { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.process_requests()?;
        if let Some(signal) = self.control.interrupted() {
            // SIGPIPE is not sent to ranks on other nodes.
            let sent_signal = if signal == SIGPIPE { SIGTERM } else { signal };
            let why = format!("ended by {}", Signal(signal));
            self.end(Cause::Request, why, 128_u8.saturating_add(signal), sent_signal, USER_GRACE);
        }
        if let Some(timeout) = self.options.timeout.filter(|timeout| self.started_at.elapsed() >= *timeout) {
            let why = format!("the job did not end within {} s", timeout.as_secs_f64());
            self.end(Cause::Request, why, TIMED_OUT_STATUS, SIGTERM, GRACE);
        }
        self.signal_ranks(SIGTERM, GRACE);
        Ok(())
    }

    /// Handles an event of a rank.
    fn handle_event(&mut self, token: Token) -> Result<(), JobError> {
        let finished = match self.tokens.get(&token) {
            Some(EventSource::Side(index)) => self.read_requests(*index)?,
            Some(EventSource::Child(index)) => {
                self.on_rank_exit(*index)?;
                true
            }
            None => false,
        };
        if finished {
            self.tokens.remove(&token);
            self.set.remove(token);
        }
        Ok(())
    }

    /// Reads a rank's process-manager requests. Returns true at end of file.
    fn read_requests(&mut self, index: usize) -> Result<bool, JobError> {
        loop {
            let Some(side) = &mut self.ranks[index].side else { return Ok(true) };
            match side.try_recv()? {
                None => {
                    self.flush(index)?;
                    return Ok(false);
                }
                Some(piece) if piece.is_empty() => return Ok(true),
                Some(piece) => self.server.receive(MemberId(index), &piece),
            }
        }
    }

    /// Sends queued answers to a rank, as far as there is room.
    fn flush(&mut self, index: usize) -> Result<(), JobError> {
        let rank = &mut self.ranks[index];
        let Some(side) = &mut rank.side else { return Ok(()) };
        // Called with an empty queue too: it consumes the credit that the rank returned, which the wait set
        // reports until then.
        loop {
            match side.try_send(rank.outgoing.make_contiguous()) {
                Ok(0) => break,
                Ok(count) => {
                    rank.outgoing.drain(..count);
                    if rank.outgoing.is_empty() {
                        break;
                    }
                }
                // The rank exited; its exit is reported separately.
                Err(Error::Monitor(Fault::NoSuchDomain { .. })) => rank.outgoing.clear(),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Handles the requests of ranks.
    fn process_requests(&mut self) -> Result<(), JobError> {
        while let Some(event) = self.server.next_event() {
            match event {
                Event::Send(member, bytes) => {
                    self.ranks[member.0].outgoing.extend(bytes);
                    self.flush(member.0)?;
                    if self.ranks[member.0].outgoing.len() > MAX_OUTGOING_BYTES {
                        let why = format!(
                            "{} asks its process manager, and does not read what it is answered",
                            self.describe_rank(member.0)
                        );
                        self.abort(member.0, Cause::Abort, why, 1);
                    }
                }
                Event::Initialized(member) => self.on_mpi_init(member.0),
                Event::Spawn(member, commands) => {
                    let outcome = self.spawn(&commands)?;
                    self.server.reply_to_spawn(member, outcome);
                }
                Event::Publish { ref service, ref port, .. } => {
                    let outcome = self.services.publish(service, port);
                    self.server.reply(&event, outcome);
                }
                Event::Unpublish { ref service, .. } => {
                    let outcome = self.services.unpublish(service);
                    self.server.reply(&event, outcome);
                }
                Event::Lookup { ref service, .. } => {
                    let outcome = self.services.look_up(service);
                    self.server.reply(&event, outcome);
                }
                Event::Abort(member, code, _) => {
                    // MPI_Abort(0) is still a failure.
                    let status = if code & 0xff == 0 { 1 } else { (code & 0xff) as u8 };
                    let cause = Cause::from_abort_code(code);
                    let did = match cause {
                        Cause::MpiError => format!("met an error in MPI that ends it (code {code})"),
                        _ => format!("called MPI_Abort({code})"),
                    };
                    self.abort(member.0, cause, format!("{} {did}", self.describe_rank(member.0)), status);
                }
                Event::Violation(member, refusal) => {
                    let why = format!("{} cannot be served: {refusal}", self.describe_rank(member.0));
                    self.abort(member.0, Cause::Abort, why, 1);
                }
            }
        }
        Ok(())
    }

    /// Terminates a rank and ends the job. The rank is killed at once because MPICH returns from `MPI_Abort`,
    /// which programs do not expect.
    fn abort(&mut self, index: usize, cause: Cause, why: String, status: u8) {
        self.ranks[index].aborted = true;
        self.kill(index, SIGTERM, GRACE);
        self.end(cause, why, status, SIGTERM, GRACE);
    }

    /// A rank called `MPI_Init`: ends the job if another rank of its world exited without doing so.
    fn on_mpi_init(&mut self, index: usize) {
        let rank = &self.ranks[index];
        let missing = self.server.world_of(MemberId(index)).iter().find(|member| {
            self.ranks.get(member.0).is_some_and(|rank| rank.exit.is_some() && !rank.aborted)
                && self.server.phase(**member) != Phase::Finalized
        });
        if let Some(missing) = missing.map(|member| member.0) {
            return self.end_for_missing_rank(missing);
        }
        let parts = &self.options.parts;
        let node = &self.options.nodes[rank.node];
        if !self.warned_of_provider
            && let Some(environment) = parts.first().map(|part| &part.environment)
            && environment.value("FI_PROVIDER").is_none()
            && let Err(missing) = environment.provider(node)
        {
            self.warned_of_provider = true;
            self.watcher.warn(&format!("{missing}; MPI uses what it finds"));
        }
    }

    /// Ends the job because a rank exited with success while others wait for it.
    fn end_for_missing_rank(&mut self, index: usize) {
        let when = match self.server.phase(MemberId(index)) {
            Phase::Outside => "before MPI_Init",
            _ => "without MPI_Finalize",
        };
        let why = format!("{} ended {when}, while others of its job are in MPI", self.describe_rank(index));
        self.end(Cause::Status, why, 1, SIGTERM, GRACE);
    }

    /// Handles the exit of a rank, after its last requests.
    fn on_rank_exit(&mut self, index: usize) -> Result<(), JobError> {
        self.read_requests(index)?;
        self.process_requests()?;
        let Some(child) = &self.ranks[index].child else { return Ok(()) };
        let exit = child.wait(Duration::ZERO)?;
        self.ranks[index].side = None;
        self.ranks[index].exit = Some(exit.clone());
        let status = exit.shell_status();
        self.watcher.log_verbose(&format!("{} {exit}", self.describe_rank(index)));
        let rank = &self.ranks[index];
        if rank.start_failed
            || rank.aborted
            || self.ending.as_ref().is_some_and(|ending| ending.explains_exit(&exit))
        {
            return Ok(());
        }
        if status != 0 {
            let why = format!("{} {exit}{}", self.describe_rank(index), self.mpi_phase_text(index));
            self.end(Cause::from_exit(&exit), why, status, SIGTERM, GRACE);
        } else if self.server.phase(MemberId(index)) != Phase::Finalized {
            let inside = |member: &MemberId| {
                self.ranks.get(member.0).is_some_and(Rank::is_alive)
                    && self.server.phase(*member) == Phase::Inside
            };
            if self.server.world_of(MemberId(index)).iter().any(inside) {
                self.end_for_missing_rank(index);
            }
        }
        Ok(())
    }

    /// How far a failed rank had come in MPI, for messages.
    fn mpi_phase_text(&self, index: usize) -> &'static str {
        let any_initialized = self
            .server
            .world_of(MemberId(index))
            .iter()
            .any(|member| self.server.phase(*member) != Phase::Outside);
        match self.server.phase(MemberId(index)) {
            Phase::Outside if any_initialized => " before MPI_Init",
            Phase::Inside => " before MPI_Finalize",
            _ => "",
        }
    }

    /// Records the cause of the job's end and signals all ranks, unless a more specific cause may still be
    /// reported.
    fn end(&mut self, cause: Cause, why: String, status: u8, signal: u8, grace: Duration) {
        match &mut self.ending {
            Some(ending) => ending.add_cause(cause, why, status),
            None => {
                let running = self.ranks.iter().filter(|rank| rank.is_alive() && !rank.aborted).count();
                self.ending = Some(Ending::new(cause, why, status, running));
            }
        }
        self.signal_ranks(signal, grace);
    }

    /// Signals all ranks once the job is ending and its cause is final.
    fn signal_ranks(&mut self, signal: u8, grace: Duration) {
        let Some(ending) = &mut self.ending else { return };
        if ending.termination.is_some() || ending.remaining_hold().is_some_and(|left| !left.is_zero()) {
            return;
        }
        ending.termination = Some(Termination { signal, grace, since: Instant::now() });
        (0..self.ranks.len()).for_each(|index| self.kill(index, signal, grace));
    }

    fn kill(&self, index: usize, signal: u8, grace: Duration) {
        if let Some(child) = self.ranks[index].child.as_ref().filter(|_| self.ranks[index].is_alive()) {
            // If the rank is gone its exit will be reported; if the monitor is, all its domains are gone too.
            let _ = Machine::of(&self.domain).kill(child.id(), Signal(signal), grace);
        }
    }

    /// Spawns a new world at the request of a rank. The outer error ends the job.
    fn spawn(&mut self, commands: &[SpawnCommand]) -> Result<Result<(), String>, JobError> {
        if self.ending.is_some() {
            return Ok(Err("the job is being ended".to_owned()));
        }
        let parts = match commands
            .iter()
            .map(|command| self.plan_part(command))
            .collect::<Result<Vec<Part>, JobError>>()
        {
            Ok(parts) => parts,
            Err(error) => {
                self.watcher.warn(&format!("a rank asked for what cannot be started: {error}"));
                return Ok(Err(error.to_string()));
            }
        };
        let total: usize = parts.iter().map(|part| part.nodes.len()).sum();
        let live = self.ranks.iter().filter(|rank| rank.is_alive()).count();
        if let Err(error) = check_count(total).and_then(|()| check_count(total + live)) {
            return Ok(Err(error.to_string()));
        }
        let preput = commands.first().map_or(&[][..], |command| &command.preput);
        Ok(self.start_world(&parts, preput)?.map(|_| ()).map_err(|error| error.to_string()))
    }

    /// Plans one spawn command: placed by its hints, otherwise round-robin on the job's nodes.
    fn plan_part(&mut self, command: &SpawnCommand) -> Result<Part, JobError> {
        let nodes = &self.options.nodes;
        let first = self.options.parts.first();
        let own = first.map_or_else(|| Path::new("/").to_owned(), |part| part.directory.clone());
        let directory = command.hint("wdir").map_or_else(|| own.clone(), |folder| own.join(folder));
        let mut of_job: Vec<usize> = Vec::new();
        for index in self.options.parts.iter().flat_map(|part| &part.nodes) {
            if !of_job.contains(index) {
                of_job.push(*index);
            }
        }
        let hosts = command.hint("host").or(command.hint("hosts"));
        let rank_nodes: Vec<usize> = match hosts {
            None => {
                let rank_nodes =
                    (self.next_node..self.next_node + command.count).map(|turn| of_job[turn % of_job.len()]);
                let rank_nodes = rank_nodes.collect();
                self.next_node += command.count;
                rank_nodes
            }
            Some(hosts) => {
                let named = hosts.split(',').map(|host| host.trim().parse());
                let named =
                    named.collect::<Result<Vec<Placement>, String>>().map_err(PlacementError::Count)?;
                place(Some(command.count), &named, tombolo_placement::Order::RoundRobin, nodes, None)?
            }
        };
        let environment = first
            .map(|part| part.environment.clone())
            .ok_or_else(|| JobError::Placement(PlacementError::Count("the job has no ranks".into())))?;
        let path = command.hint("path").or(environment.value("PATH")).unwrap_or_default();
        let program = Program::find(&command.program, &directory, Some(std::ffi::OsStr::new(path)))?;
        let part = Part {
            program: Arc::new(program),
            arguments: command.arguments.clone(),
            nodes: rank_nodes,
            environment,
            directory,
        };
        check_part(&part, nodes)?;
        Ok(part)
    }
}

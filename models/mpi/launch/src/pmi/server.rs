//! State machine that answers the PMI requests of a job's ranks.

use std::collections::{BTreeMap, VecDeque};

use super::mapping::MAX_VALUE_BYTES;
use super::spawn::SpawnCommand;
use super::wire::{Command, Malformed, Message, Reader, excerpt};

/// Maximum length of a key and of a key-value space's name.
const MAX_KEY_BYTES: usize = 64;
const MAX_SPACE_BYTES: usize = 256;

/// `MPI_UNIVERSE_SIZE`: unknown, since only the nodes' memory limits the number of ranks. With a number,
/// programs that check it would not spawn: a spawned world of that size would conclude that the universe is
/// full.
const UNIVERSE: i32 = -1;

/// Limits on the keys of one world: a few per rank, plus those that describe all ranks.
const MAX_KEYS_OF_RANK: usize = 64;
const MAX_KEYS_OF_WORLD: usize = 1024;

/// Maximum length of a service name and of a port.
const MAX_SERVICE_BYTES: usize = 1024;

/// A group of ranks started together: by `mpirun` or by one spawn request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorldId(pub usize);

/// A rank of any world, numbered within the job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MemberId(pub usize);

/// Phase of a rank according to its own requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Before `init`; it may not be an MPI program.
    Outside,
    /// Between `init` and `finalize`.
    Inside,
    /// After `finalize`.
    Finalized,
}

/// Why a rank's connection is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The rank sent a malformed message.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The rank requested an unsupported PMI version.
    #[error("it asks for PMI {0}; this process manager speaks PMI 1.1")]
    Version(String),
    /// The command is unknown.
    #[error("it asks for '{0}', which PMI-1 does not have")]
    Unknown(String),
    /// A field of the command is missing or too long.
    #[error("its '{command}' is not usable: {why}")]
    Unusable {
        /// The command, as it was sent.
        command: String,
        /// Description of the violation.
        why: String,
    },
    /// The command is not allowed in the rank's phase.
    #[error("it asks for '{command}' {when}")]
    Order {
        /// The command, as it was sent.
        command: String,
        /// Phase of the rank, for the message.
        when: &'static str,
    },
    /// The world exceeded the limit of keys.
    #[error("its world has put {0} keys, and no more are kept")]
    Full(usize),
}

/// Action for the caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Send these bytes to a rank.
    Send(MemberId, Vec<u8>),
    /// A rank called `MPI_Init`.
    Initialized(MemberId),
    /// Start programs for a rank, then call [`Server::reply_to_spawn`].
    Spawn(MemberId, Vec<SpawnCommand>),
    /// Publish a port under a service name, then call [`Server::reply`].
    Publish {
        /// The member that asked.
        member: MemberId,
        /// The name.
        service: String,
        /// Port to publish.
        port: String,
    },
    /// Remove a published service, then call [`Server::reply`].
    Unpublish {
        /// The member that asked.
        member: MemberId,
        /// The name.
        service: String,
    },
    /// Look up the port of a service, then call [`Server::reply`].
    Lookup {
        /// The member that asked.
        member: MemberId,
        /// The name.
        service: String,
    },
    /// A rank called `MPI_Abort` with this code and message.
    Abort(MemberId, i64, Option<String>),
    /// A rank violated the protocol.
    Violation(MemberId, Refusal),
}

#[derive(Debug)]
struct Member {
    world: WorldId,
    appnum: usize,
    phase: Phase,
    reader: Reader,
    in_barrier: bool,
    /// Set after a protocol violation; further input is ignored.
    is_failed: bool,
}

#[derive(Debug)]
struct World {
    /// Name of the key-value space.
    space: String,
    mapping: String,
    keys: BTreeMap<String, String>,
    members: Vec<MemberId>,
}

/// The process manager of one job.
#[derive(Debug)]
pub struct Server {
    /// Name that is unique to the job.
    name: String,
    worlds: Vec<World>,
    members: Vec<Member>,
    events: VecDeque<Event>,
}

impl Server {
    /// Creates the process manager of the job with this unique name.
    #[must_use]
    pub fn new(name: &str) -> Server {
        let name = name.chars().filter(char::is_ascii_graphic).take(MAX_SPACE_BYTES / 2).collect();
        Server { name, worlds: Vec::new(), members: Vec::new(), events: VecDeque::new() }
    }

    /// Adds a world. `appnums` has the number of each rank's program, `mapping` the process mapping, and
    /// `preput` the initial keys.
    pub fn add_world(
        &mut self,
        appnums: &[usize],
        mapping: String,
        preput: &[(String, String)],
    ) -> (WorldId, Vec<MemberId>) {
        let id = WorldId(self.worlds.len());
        let first = self.members.len();
        let members: Vec<MemberId> = (first..first + appnums.len()).map(MemberId).collect();
        self.members.extend(appnums.iter().map(|appnum| Member {
            world: id,
            appnum: *appnum,
            phase: Phase::Outside,
            reader: Reader::default(),
            in_barrier: false,
            is_failed: false,
        }));
        self.worlds.push(World {
            space: format!("{}-{}", self.name, id.0),
            mapping,
            keys: preput.iter().cloned().collect(),
            members: members.clone(),
        });
        (id, members)
    }

    /// Name of a world's key-value space.
    #[must_use]
    pub fn kvs_name(&self, world: WorldId) -> Option<&str> {
        self.worlds.get(world.0).map(|world| world.space.as_str())
    }

    /// Returns the next action for the caller.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Phase of a rank.
    #[must_use]
    pub fn phase(&self, member: MemberId) -> Phase {
        self.members.get(member.0).map_or(Phase::Outside, |member| member.phase)
    }

    /// The ranks of a rank's world, itself included.
    #[must_use]
    pub fn world_of(&self, member: MemberId) -> &[MemberId] {
        let world = self.members.get(member.0).and_then(|member| self.worlds.get(member.world.0));
        world.map_or(&[], |world| &world.members)
    }

    /// Processes bytes received from a rank.
    pub fn receive(&mut self, id: MemberId, bytes: &[u8]) {
        let Some(member) = self.members.get_mut(id.0).filter(|member| !member.is_failed) else { return };
        member.reader.push(bytes);
        loop {
            let Some(member) = self.members.get_mut(id.0).filter(|member| !member.is_failed) else { return };
            let outcome = match member.reader.next() {
                Ok(None) => return,
                Ok(Some(message)) => self.handle_message(id, message),
                Err(malformed) => Err(malformed.into()),
            };
            if let Err(refusal) = outcome {
                if let Some(member) = self.members.get_mut(id.0) {
                    member.is_failed = true;
                    member.reader = Reader::default();
                }
                self.events.push_back(Event::Violation(id, refusal));
            }
        }
    }

    fn send_line(&mut self, member: MemberId, line: &str) {
        self.events.push_back(Event::Send(member, format!("{line}\n").into_bytes()));
    }

    fn handle_message(&mut self, id: MemberId, message: Message) -> Result<(), Refusal> {
        let phase = self.phase(id);
        let name = match &message {
            Message::Command(command) => command.name.as_str(),
            Message::Spawn(_) => "spawn",
        };
        if phase != Phase::Inside && !matches!(name, "init" | "abort") {
            let when = if phase == Phase::Outside { "before 'init'" } else { "after 'finalize'" };
            return Err(Refusal::Order { command: excerpt(name.as_bytes()), when });
        }
        match message {
            Message::Command(command) => self.handle_command(id, &command),
            Message::Spawn(commands) => {
                self.events.push_back(Event::Spawn(id, commands));
                Ok(())
            }
        }
    }

    fn handle_command(&mut self, id: MemberId, command: &Command) -> Result<(), Refusal> {
        match command.name.as_str() {
            "init" => return self.init(id, command),
            "get_maxes" => {
                let maxes = format!(
                    "cmd=maxes rc=0 kvsname_max={MAX_SPACE_BYTES} keylen_max={MAX_KEY_BYTES} vallen_max={MAX_VALUE_BYTES}"
                );
                self.send_line(id, &maxes);
            }
            "get_appnum" => {
                let appnum = self.members[id.0].appnum;
                self.send_line(id, &format!("cmd=appnum rc=0 appnum={appnum}"));
            }
            "get_my_kvsname" => {
                let space = self.world(id).space.clone();
                self.send_line(id, &format!("cmd=my_kvsname rc=0 kvsname={space}"));
            }
            "get_universe_size" => {
                self.send_line(id, &format!("cmd=universe_size rc=0 size={UNIVERSE}"));
            }
            "put" => return self.put(id, command),
            "get" => self.get(id, command)?,
            "barrier_in" => return self.barrier_in(id),
            "finalize" => {
                self.members[id.0].phase = Phase::Finalized;
                self.send_line(id, "cmd=finalize_ack rc=0");
            }
            "abort" => {
                let message = command.get("message").filter(|text| !text.is_empty()).map(str::to_owned);
                self.events.push_back(Event::Abort(id, command.number("exitcode").unwrap_or(1), message));
            }
            "publish_name" => {
                let (service, port) = (service_field(command)?, field(command, "port", MAX_SERVICE_BYTES)?);
                self.events.push_back(Event::Publish { member: id, service, port });
            }
            "unpublish_name" => {
                let event = Event::Unpublish { member: id, service: service_field(command)? };
                self.events.push_back(event);
            }
            "lookup_name" => {
                let event = Event::Lookup { member: id, service: service_field(command)? };
                self.events.push_back(event);
            }
            other => return Err(Refusal::Unknown(excerpt(other.as_bytes()))),
        }
        Ok(())
    }

    fn world(&self, id: MemberId) -> &World {
        &self.worlds[self.members[id.0].world.0]
    }

    fn init(&mut self, id: MemberId, command: &Command) -> Result<(), Refusal> {
        let field_or_unknown = |key| command.get(key).unwrap_or("?").to_owned();
        if command.get("pmi_version") != Some("1") {
            self.send_line(id, "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1");
            let version =
                format!("{}.{}", field_or_unknown("pmi_version"), field_or_unknown("pmi_subversion"));
            return Err(Refusal::Version(excerpt(version.as_bytes())));
        }
        let member = &mut self.members[id.0];
        if member.in_barrier {
            return Err(Refusal::Order { command: "init".into(), when: "while it is in a barrier" });
        }
        // MPICH sends `init` for each MPI session, with or without a `finalize` of the previous one.
        let before = std::mem::replace(&mut member.phase, Phase::Inside);
        // PMI 1.2 adds only barriers of groups with threads, which MPICH does not need.
        self.send_line(id, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1");
        if before != Phase::Inside {
            self.events.push_back(Event::Initialized(id));
        }
        Ok(())
    }

    fn put(&mut self, id: MemberId, command: &Command) -> Result<(), Refusal> {
        let key = field(command, "key", MAX_KEY_BYTES)?;
        let value = field(command, "value", MAX_VALUE_BYTES)?;
        let space = command.get("kvsname");
        if key.starts_with("PMI_") || space.is_some_and(|space| space != self.world(id).space) {
            self.send_line(id, "cmd=put_result rc=-1 msg=not_yours_to_put");
            return Ok(());
        }
        let world = self.members[id.0].world;
        let world = &mut self.worlds[world.0];
        let most = MAX_KEYS_OF_WORLD + MAX_KEYS_OF_RANK * world.members.len();
        if world.keys.len() >= most && !world.keys.contains_key(&key) {
            return Err(Refusal::Full(most));
        }
        world.keys.insert(key, value);
        self.send_line(id, "cmd=put_result rc=0");
        Ok(())
    }

    fn get(&mut self, id: MemberId, command: &Command) -> Result<(), Refusal> {
        let key = field(command, "key", MAX_KEY_BYTES)?;
        let world = match command.get("kvsname") {
            None => Some(self.world(id)),
            Some(space) => self.worlds.iter().find(|world| world.space == space),
        };
        let value = world.and_then(|world| match key.as_str() {
            "PMI_process_mapping" => Some(world.mapping.clone()),
            "universeSize" => Some(UNIVERSE.to_string()),
            key => world.keys.get(key).cloned(),
        });
        let answer = match value {
            Some(value) => format!("cmd=get_result rc=0 value={value}"),
            None => "cmd=get_result rc=-1 msg=not_found value=unknown".to_owned(),
        };
        self.send_line(id, &answer);
        Ok(())
    }

    fn barrier_in(&mut self, id: MemberId) -> Result<(), Refusal> {
        if std::mem::replace(&mut self.members[id.0].in_barrier, true) {
            return Err(Refusal::Order { command: "barrier_in".into(), when: "while it is in a barrier" });
        }
        let members = self.world(id).members.clone();
        if members.iter().all(|member| self.members[member.0].in_barrier) {
            for member in members {
                self.members[member.0].in_barrier = false;
                self.send_line(member, "cmd=barrier_out rc=0");
            }
        }
        Ok(())
    }

    /// Answers a spawn request with success or the reason of its failure.
    pub fn reply_to_spawn(&mut self, member: MemberId, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.send_line(member, "cmd=spawn_result rc=0"),
            Err(why) => self.send_line(member, &format!("cmd=spawn_result rc=-1 msg={}", escape_word(&why))),
        }
    }

    /// Answers `event`, an [`Event::Publish`], [`Event::Unpublish`] or [`Event::Lookup`], with the port found
    /// (for a lookup) or the reason of the failure.
    pub fn reply(&mut self, event: &Event, outcome: Result<String, String>) {
        let (member, command) = match event {
            Event::Publish { member, .. } => (*member, "publish_result"),
            Event::Unpublish { member, .. } => (*member, "unpublish_result"),
            Event::Lookup { member, .. } => (*member, "lookup_result"),
            _ => return,
        };
        let line = match outcome {
            Ok(port) if command == "lookup_result" => format!("cmd={command} rc=0 port={port}"),
            Ok(_) => format!("cmd={command} rc=0"),
            Err(why) => format!("cmd={command} rc=-1 msg={}", escape_word(&why)),
        };
        self.send_line(member, &line);
    }
}

fn service_field(command: &Command) -> Result<String, Refusal> {
    field(command, "service", MAX_SERVICE_BYTES)
}

/// Returns a mandatory field; refuses the command if it is missing or longer than `max_bytes`.
fn field(command: &Command, key: &str, max_bytes: usize) -> Result<String, Refusal> {
    let unusable = |why: String| Refusal::Unusable { command: excerpt(command.name.as_bytes()), why };
    match command.get(key).filter(|value| !value.is_empty()) {
        None => Err(unusable(format!("it has no '{key}'"))),
        Some(value) if value.len() > max_bytes => {
            Err(unusable(format!("'{key}' has {} bytes, and may have {max_bytes}", value.len())))
        }
        Some(value) => Ok(value.to_owned()),
    }
}

/// Escapes a sentence so that it is one word of a line.
fn escape_word(text: &str) -> String {
    let letter =
        |character: char| if character.is_ascii_graphic() && character != '\\' { character } else { '_' };
    text.chars().take(200).map(letter).collect()
}

//! What the ranks of a job ask, and what they are answered.

use std::collections::{BTreeMap, VecDeque};

use super::mapping::MAX_VALUE_BYTES;
use super::spawn::SpawnCommand;
use super::wire::{Command, Malformed, Message, Reader, shown};

/// The longest key and the longest name of a space of keys.
const MAX_KEY_BYTES: usize = 64;
const MAX_SPACE_BYTES: usize = 256;

/// How many ranks there may be in all, `MPI_UNIVERSE_SIZE`: not known, for nothing but the memory of nodes
/// bounds it. A number would keep programs from spawning that look at it: a spawned world of that size takes
/// itself for all there can be.
const UNIVERSE: i32 = -1;

/// What the ranks of one world may have put together: of each a few, and what it takes to describe all of
/// them.
const MAX_KEYS_OF_RANK: usize = 64;
const MAX_KEYS_OF_WORLD: usize = 1024;

/// The longest name of a service, and the longest port.
const MAX_SERVICE_BYTES: usize = 1024;

/// Which ranks belong together from their start: those of `mpirun`, or of one request to start programs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorldId(pub usize);

/// A rank of any world of the job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MemberId(pub usize);

/// How far a rank is, as it has said itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It has not begun: it may be no MPI program at all.
    Outside,
    /// Between the two.
    Inside,
    /// It has said that it is done.
    Finalized,
}

/// Why a rank cannot go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// It sent a malformed message.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// It wants another version.
    #[error("it asks for PMI {0}; this process manager speaks PMI 1.1")]
    Version(String),
    /// An unknown command.
    #[error("it asks for '{0}', which PMI-1 does not have")]
    Unknown(String),
    /// A command lacks something, or something in it is too long.
    #[error("its '{command}' is not usable: {why}")]
    Unusable {
        /// The command, as it was sent.
        command: String,
        /// What is wrong.
        why: String,
    },
    /// A command does not fit what it has said before.
    #[error("it asks for '{command}' {when}")]
    Order {
        /// The command, as it was sent.
        command: String,
        /// What it is before or after.
        when: &'static str,
    },
    /// It has put more than is kept.
    #[error("its world has put {0} keys, and no more are kept")]
    Full(usize),
}

/// Something to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Send a rank these bytes.
    Say(MemberId, Vec<u8>),
    /// A rank has begun to use MPI.
    Began(MemberId),
    /// Start programs for a rank, and answer by [`Server::spawned`].
    Spawn(MemberId, Vec<SpawnCommand>),
    /// Make a port known by the name of a service, and answer by [`Server::answer`].
    Publish {
        /// The member that asked.
        member: MemberId,
        /// The name.
        service: String,
        /// What is known by it.
        port: String,
    },
    /// Take that back, and answer by [`Server::answer`].
    Unpublish {
        /// The member that asked.
        member: MemberId,
        /// The name.
        service: String,
    },
    /// Look up a port, and answer by [`Server::answer`].
    Lookup {
        /// The member that asked.
        member: MemberId,
        /// The name.
        service: String,
    },
    /// A rank wants the job to end with this code.
    Abort(MemberId, i64, Option<String>),
    /// A rank cannot go on.
    Broken(MemberId, Refusal),
}

#[derive(Debug)]
struct Member {
    world: WorldId,
    appnum: usize,
    phase: Phase,
    reader: Reader,
    in_barrier: bool,
    /// It sent nonsense: nothing of it is listened to any more.
    broken: bool,
}

#[derive(Debug)]
struct World {
    /// The name of its space of keys.
    space: String,
    mapping: String,
    keys: BTreeMap<String, String>,
    members: Vec<MemberId>,
}

/// The process manager of one job.
#[derive(Debug)]
pub struct Server {
    /// What no other job has.
    name: String,
    worlds: Vec<World>,
    members: Vec<Member>,
    events: VecDeque<Event>,
}

impl Server {
    /// Of the job of that name.
    #[must_use]
    pub fn new(name: &str) -> Server {
        let name = name.chars().filter(char::is_ascii_graphic).take(MAX_SPACE_BYTES / 2).collect();
        Server { name, worlds: Vec::new(), members: Vec::new(), events: VecDeque::new() }
    }

    /// Adds a world: of each rank the number of its program among those of the world. `mapping` says which
    /// share memory, and `preput` what they find.
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
            broken: false,
        }));
        self.worlds.push(World {
            space: format!("{}-{}", self.name, id.0),
            mapping,
            keys: preput.iter().cloned().collect(),
            members: members.clone(),
        });
        (id, members)
    }

    /// The name of a world's space of keys.
    #[must_use]
    pub fn space(&self, world: WorldId) -> Option<&str> {
        self.worlds.get(world.0).map(|world| world.space.as_str())
    }

    /// The next thing to be done.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// How far a rank is.
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

    /// Takes in what a rank sent.
    pub fn receive(&mut self, id: MemberId, bytes: &[u8]) {
        let Some(member) = self.members.get_mut(id.0).filter(|member| !member.broken) else { return };
        member.reader.push(bytes);
        loop {
            let Some(member) = self.members.get_mut(id.0).filter(|member| !member.broken) else { return };
            let outcome = match member.reader.next() {
                Ok(None) => return,
                Ok(Some(message)) => self.obey(id, message),
                Err(malformed) => Err(malformed.into()),
            };
            if let Err(refusal) = outcome {
                if let Some(member) = self.members.get_mut(id.0) {
                    member.broken = true;
                    member.reader = Reader::default();
                }
                self.events.push_back(Event::Broken(id, refusal));
            }
        }
    }

    fn say(&mut self, member: MemberId, line: &str) {
        self.events.push_back(Event::Say(member, format!("{line}\n").into_bytes()));
    }

    fn obey(&mut self, id: MemberId, message: Message) -> Result<(), Refusal> {
        let phase = self.phase(id);
        let name = match &message {
            Message::Command(command) => command.name.as_str(),
            Message::Spawn(_) => "spawn",
        };
        if phase != Phase::Inside && !matches!(name, "init" | "abort") {
            let when = if phase == Phase::Outside { "before 'init'" } else { "after 'finalize'" };
            return Err(Refusal::Order { command: shown(name.as_bytes()), when });
        }
        match message {
            Message::Command(command) => self.command(id, &command),
            Message::Spawn(commands) => {
                self.events.push_back(Event::Spawn(id, commands));
                Ok(())
            }
        }
    }

    fn command(&mut self, id: MemberId, command: &Command) -> Result<(), Refusal> {
        match command.name.as_str() {
            "init" => return self.init(id, command),
            "get_maxes" => {
                let maxes = format!(
                    "cmd=maxes rc=0 kvsname_max={MAX_SPACE_BYTES} keylen_max={MAX_KEY_BYTES} vallen_max={MAX_VALUE_BYTES}"
                );
                self.say(id, &maxes);
            }
            "get_appnum" => {
                let appnum = self.members[id.0].appnum;
                self.say(id, &format!("cmd=appnum rc=0 appnum={appnum}"));
            }
            "get_my_kvsname" => {
                let space = self.world(id).space.clone();
                self.say(id, &format!("cmd=my_kvsname rc=0 kvsname={space}"));
            }
            "get_universe_size" => {
                self.say(id, &format!("cmd=universe_size rc=0 size={UNIVERSE}"));
            }
            "put" => return self.put(id, command),
            "get" => self.get(id, command)?,
            "barrier_in" => return self.barrier_in(id),
            "finalize" => {
                self.members[id.0].phase = Phase::Finalized;
                self.say(id, "cmd=finalize_ack rc=0");
            }
            "abort" => {
                let message = command.get("message").filter(|text| !text.is_empty()).map(str::to_owned);
                self.events.push_back(Event::Abort(id, command.number("exitcode").unwrap_or(1), message));
            }
            "publish_name" => {
                let (service, port) = (service(command)?, field(command, "port", MAX_SERVICE_BYTES)?);
                self.events.push_back(Event::Publish { member: id, service, port });
            }
            "unpublish_name" => {
                let event = Event::Unpublish { member: id, service: service(command)? };
                self.events.push_back(event);
            }
            "lookup_name" => {
                let event = Event::Lookup { member: id, service: service(command)? };
                self.events.push_back(event);
            }
            other => return Err(Refusal::Unknown(shown(other.as_bytes()))),
        }
        Ok(())
    }

    fn world(&self, id: MemberId) -> &World {
        &self.worlds[self.members[id.0].world.0]
    }

    fn init(&mut self, id: MemberId, command: &Command) -> Result<(), Refusal> {
        let asked = |key| command.get(key).unwrap_or("?").to_owned();
        if command.get("pmi_version") != Some("1") {
            self.say(id, "cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1");
            let version = format!("{}.{}", asked("pmi_version"), asked("pmi_subversion"));
            return Err(Refusal::Version(shown(version.as_bytes())));
        }
        let member = &mut self.members[id.0];
        if member.in_barrier {
            return Err(Refusal::Order { command: "init".into(), when: "while it is in a barrier" });
        }
        // MPICH asks again for each of several MPI sessions, whether it has said that it is done with the one
        // before or not.
        let before = std::mem::replace(&mut member.phase, Phase::Inside);
        // Of 1.2 it would need only threads in barriers of groups, which MPICH does without.
        self.say(id, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1");
        if before != Phase::Inside {
            self.events.push_back(Event::Began(id));
        }
        Ok(())
    }

    fn put(&mut self, id: MemberId, command: &Command) -> Result<(), Refusal> {
        let key = field(command, "key", MAX_KEY_BYTES)?;
        let value = field(command, "value", MAX_VALUE_BYTES)?;
        let space = command.get("kvsname");
        if key.starts_with("PMI_") || space.is_some_and(|space| space != self.world(id).space) {
            self.say(id, "cmd=put_result rc=-1 msg=not_yours_to_put");
            return Ok(());
        }
        let world = self.members[id.0].world;
        let world = &mut self.worlds[world.0];
        let most = MAX_KEYS_OF_WORLD + MAX_KEYS_OF_RANK * world.members.len();
        if world.keys.len() >= most && !world.keys.contains_key(&key) {
            return Err(Refusal::Full(most));
        }
        world.keys.insert(key, value);
        self.say(id, "cmd=put_result rc=0");
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
        self.say(id, &answer);
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
                self.say(member, "cmd=barrier_out rc=0");
            }
        }
        Ok(())
    }

    /// Answers a request to start programs: it was done, or why not.
    pub fn spawned(&mut self, member: MemberId, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.say(member, "cmd=spawn_result rc=0"),
            Err(why) => self.say(member, &format!("cmd=spawn_result rc=-1 msg={}", word(&why))),
        }
    }

    /// Answers [`Event::Publish`], [`Event::Unpublish`] or [`Event::Lookup`], which `event` was: what was
    /// found in the last case, or why it could not be done.
    pub fn answer(&mut self, event: &Event, outcome: Result<String, String>) {
        let (member, command) = match event {
            Event::Publish { member, .. } => (*member, "publish_result"),
            Event::Unpublish { member, .. } => (*member, "unpublish_result"),
            Event::Lookup { member, .. } => (*member, "lookup_result"),
            _ => return,
        };
        let line = match outcome {
            Ok(port) if command == "lookup_result" => format!("cmd={command} rc=0 port={port}"),
            Ok(_) => format!("cmd={command} rc=0"),
            Err(why) => format!("cmd={command} rc=-1 msg={}", word(&why)),
        };
        self.say(member, &line);
    }
}

fn service(command: &Command) -> Result<String, Refusal> {
    field(command, "service", MAX_SERVICE_BYTES)
}

/// A field that has to be there and may not be longer.
fn field(command: &Command, key: &str, max_bytes: usize) -> Result<String, Refusal> {
    let unusable = |why: String| Refusal::Unusable { command: shown(command.name.as_bytes()), why };
    match command.get(key).filter(|value| !value.is_empty()) {
        None => Err(unusable(format!("it has no '{key}'"))),
        Some(value) if value.len() > max_bytes => {
            Err(unusable(format!("'{key}' has {} bytes, and may have {max_bytes}", value.len())))
        }
        Some(value) => Ok(value.to_owned()),
    }
}

/// A sentence as one word of a line.
fn word(text: &str) -> String {
    let letter =
        |character: char| if character.is_ascii_graphic() && character != '\\' { character } else { '_' };
    text.chars().take(200).map(letter).collect()
}

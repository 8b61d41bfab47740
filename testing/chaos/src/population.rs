//! The domains that keep the machine busy: parses their output and checks it against the kills.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tombolo::spawn::Stream;
use tombolo::{Child, Domain, DomainId, Error, Exit, SpawnOptions};
use tombolo_e2e::PATIENCE;

use crate::endings::Endings;
use crate::late::{Cause, DeathReport, Deaths};
use crate::monotonic_ns;
use crate::pause::Pauses;

/// Description of a failure.
pub(crate) type Failure = String;

/// Maximum time of one poll for output.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A place in the population, held by one domain at a time.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) node: String,
    peers: Vec<String>,
    /// Domain that holds the place now.
    pub(crate) child: Option<Child>,
    /// Its process, on this kernel.
    pub(crate) pid: Option<i32>,
    /// Peers of its open channels, by channel number.
    open: HashMap<u64, String>,
    messages: u64,
    last_output_at: Instant,
    last_line: String,
}

/// Output of children that is not parsed yet.
type ChildOutput = Arc<Mutex<VecDeque<(DomainId, Vec<u8>)>>>;

/// All members.
pub(crate) struct Population {
    pub(crate) members: Vec<Member>,
    pending_output: ChildOutput,
    partial_lines: HashMap<DomainId, Vec<u8>>,
    /// Time and cause of each kill, by domain.
    killed: HashMap<String, (i64, Cause)>,
    /// Killed domains not yet known to have ended.
    dying: HashSet<DomainId>,
    dropped: HashSet<u64>,
    closed: HashSet<u64>,
    /// Nodes with kernels of their own; channels between two of them are relayed.
    pub(crate) in_vms: HashSet<String>,
    /// Whether a relay was killed.
    relay_killed: bool,
    /// Channels that ended with their relay.
    pub(crate) ended_with_relays: u64,
    /// Members that gave up connecting closed channels that the other side may already have had open.
    gave_up: usize,
    /// The deaths that survivors reported.
    pub(crate) deaths: Deaths,
    endings: Endings,
    /// Processes that were stopped in the meantime.
    pub(crate) pauses: Pauses,
    pub(crate) messages: u64,
}

impl Population {
    /// Creates members on these nodes, with the number on each, and starts none of them. A death on this
    /// kernel is late after `latency_ms`.
    pub(crate) fn new(nodes: &[(String, u16)], latency_ms: u64) -> Population {
        let places: Vec<&String> =
            nodes.iter().flat_map(|(node, count)| std::iter::repeat_n(node, usize::from(*count))).collect();
        let members = places
            .iter()
            .enumerate()
            .map(|(index, node)| Member {
                name: format!("member-{index}"),
                node: (*node).clone(),
                peers: (1..=3).map(|step| format!("member-{}", (index + step) % places.len())).collect(),
                child: None,
                pid: None,
                open: HashMap::new(),
                messages: 0,
                last_output_at: Instant::now(),
                last_line: String::new(),
            })
            .collect();
        Population {
            members,
            pending_output: ChildOutput::default(),
            partial_lines: HashMap::new(),
            killed: HashMap::new(),
            dying: HashSet::new(),
            dropped: HashSet::new(),
            closed: HashSet::new(),
            in_vms: HashSet::new(),
            relay_killed: false,
            ended_with_relays: 0,
            gave_up: 0,
            deaths: Deaths::judged_after_ms(latency_ms),
            endings: Endings::default(),
            pauses: Pauses::default(),
            messages: 0,
        }
    }

    /// Queues all output of the children of this domain.
    pub(crate) fn listen(&mut self, domain: &Domain) {
        let pending_output = Arc::clone(&self.pending_output);
        domain.on_output(move |child, _: Stream, bytes| {
            pending_output.lock().unwrap_or_else(PoisonError::into_inner).push_back((child, bytes.to_vec()));
        });
    }

    /// Fills a place with a new domain.
    pub(crate) fn start(
        &mut self,
        domain: &Domain,
        image: &std::path::Path,
        place: usize,
        pause_us: u64,
    ) -> Result<(), Failure> {
        let member = &mut self.members[place];
        let words = ["member".to_owned(), member.name.clone(), pause_us.to_string()];
        let options = SpawnOptions::image(image)
            .on(member.node.clone())
            .args(words.into_iter().chain(member.peers.iter().cloned()))
            .with_input();
        let child = domain.spawn(&options).map_err(|error| format!("start {}: {error}", member.name))?;
        if self.killed.contains_key(&child.id().to_string()) {
            return Err(format!("the id {} was given out again", child.id()));
        }
        member.child = Some(child);
        (member.pid, member.last_output_at, member.messages) = (None, Instant::now(), 0);
        member.open.clear();
        member.last_line.clear();
        Ok(())
    }

    /// Forgets all members, after the machine has gone down.
    pub(crate) fn forget_all(&mut self) {
        for member in &mut self.members {
            (member.child, member.pid) = (None, None);
            member.open.clear();
        }
        self.pending_output.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.partial_lines.clear();
        // Another machine of the same name gives out the same ids again.
        self.killed.clear();
        self.endings.forget_all();
        self.dying.clear();
        self.dropped.clear();
        self.closed.clear();
        self.relay_killed = false;
        self.gave_up = 0;
    }

    /// Records that the relay is about to be killed. Returns the channels that it relays.
    pub(crate) fn mark_relay_dying(&mut self) -> HashSet<u64> {
        self.relay_killed = true;
        let nodes: HashMap<String, &str> = self
            .members
            .iter()
            .filter_map(|member| Some((member.child.as_ref()?.id().to_string(), member.node.as_str())))
            .collect();
        let is_relayed = |node: &str, peer: &String| {
            let far = nodes.get(peer).copied().unwrap_or(node);
            far != node && self.in_vms.contains(node) && self.in_vms.contains(far)
        };
        let open = self.members.iter().flat_map(|member| member.open.iter().map(move |line| (member, line)));
        open.filter(|(member, (_, peer))| is_relayed(&member.node, peer))
            .map(|(_, (channel, _))| *channel)
            .collect()
    }

    /// Attends until no member has any of these channels, whose relay was killed.
    pub(crate) fn relay_died(&mut self, domain: &Domain, relayed: &HashSet<u64>) -> Result<(), Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            self.process_events(domain, Duration::from_millis(1))?;
            let left = self.members.iter().find_map(|member| {
                let channel = member.open.keys().find(|channel| relayed.contains(*channel))?;
                Some(format!("{} on {} still has channel {channel}", member.name, member.node))
            });
            let Some(left) = left else { return Ok(()) };
            if Instant::now() > until {
                return Err(format!("hangs: {} s after its relay was killed {left}", PATIENCE.as_secs()));
            }
        }
    }

    /// Notes that the domains of some places are about to be killed, now, by the end of a process of this
    /// kernel if one is named.
    pub(crate) fn mark_dying(&mut self, places: &[usize], cause: Cause, process: Option<i32>) {
        let children = places.iter().filter_map(|place| self.members[*place].child.as_ref());
        let ids: Vec<DomainId> = children.map(Child::id).collect();
        if let Some(pid) = process {
            self.endings.watch(ids.iter().map(ToString::to_string).collect(), pid);
        }
        let now_ns = monotonic_ns();
        self.killed.extend(ids.iter().map(|id| (id.to_string(), (now_ns, cause))));
        self.dying.extend(ids);
    }

    /// Describes every member: its domain, its last line and when, and its channels.
    pub(crate) fn describe(&self) -> String {
        let lines = self.members.iter().map(|member| {
            let Member { name, node, child, pid, open, last_output_at, last_line, .. } = member;
            let id = child.as_ref().map_or("not running".to_owned(), |child| child.id().to_string());
            let silent_s = last_output_at.elapsed().as_secs();
            format!("{name} on {node}: {id}, process {pid:?}, silent for {silent_s} s after {last_line:?}, {open:?}\n")
        });
        lines.chain([format!("killed and not known to have ended: {:?}\n", self.dying)]).collect()
    }

    fn place_of(&self, id: DomainId) -> Option<usize> {
        self.members.iter().position(|member| member.child.as_ref().is_some_and(|child| child.id() == id))
    }

    /// Handles the output that arrives within `time`.
    pub(crate) fn process_events(&mut self, domain: &Domain, time: Duration) -> Result<(), Failure> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match domain.next_exit(left.min(POLL_INTERVAL)) {
                Ok((id, exit)) => {
                    self.process_output()?;
                    self.ended(id, &exit)?;
                }
                Err(Error::TimedOut { .. }) => self.process_output()?,
                Err(error) => return Err(error.to_string()),
            }
            if left.is_zero() {
                return Ok(());
            }
        }
    }

    /// Attends until all killed domains have ended, and no survivor has a channel left to any of them.
    pub(crate) fn settle(&mut self, domain: &Domain) -> Result<(), Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            self.process_events(domain, Duration::ZERO)?;
            let Some(what) = self.unsettled() else { return Ok(()) };
            if Instant::now() > until {
                return Err(format!("hangs: after {} s {what}", PATIENCE.as_secs()));
            }
            self.process_events(domain, Duration::from_millis(1))?;
        }
    }

    fn unsettled(&self) -> Option<String> {
        if let Some(id) = self.dying.iter().next() {
            return Some(format!("domain {id}, which was killed, is not known to have ended"));
        }
        let alive = self.members.iter().filter(|member| member.child.is_some());
        alive
            .flat_map(|member| member.open.iter().map(move |(channel, peer)| (member, channel, peer)))
            .find(|(.., peer)| self.killed.contains_key(*peer))
            .map(|(member, channel, peer)| {
                let Member { name, node, .. } = member;
                format!("{name} on {node} does not know that {peer}, at the other end of channel {channel}, is dead")
            })
    }

    /// Checks that every living member reported recently and counted every message.
    pub(crate) fn assert_alive(&self) -> Result<(), Failure> {
        let silent = self
            .members
            .iter()
            .find(|member| member.child.is_some() && member.last_output_at.elapsed() > PATIENCE);
        silent.map_or(Ok(()), |member| {
            let Member { name, node, .. } = member;
            Err(format!("hangs: {name} on {node} has said nothing for {} s", PATIENCE.as_secs()))
        })
    }

    /// Checks that every channel reported as closed was closed by its peer, or given up while it was being
    /// opened.
    pub(crate) fn assert_explained(&self) -> Result<(), Failure> {
        let unexplained: Vec<_> = self.closed.difference(&self.dropped).collect();
        if unexplained.len() <= self.gave_up {
            return Ok(());
        }
        Err(format!(
            "channels {unexplained:?} were reported as closed; no member closed them, and only {} were given up",
            self.gave_up
        ))
    }

    fn ended(&mut self, id: DomainId, exit: &Exit) -> Result<(), Failure> {
        let Some(place) = self.place_of(id) else { return Ok(()) };
        self.partial_lines.remove(&id);
        let member = &mut self.members[place];
        (member.child, member.pid) = (None, None);
        member.open.clear();
        if self.dying.remove(&id) {
            return Ok(());
        }
        let Member { name, node, last_line, .. } = member;
        Err(format!(
            "{name} ({id} on {node}), which was not killed, ended: {exit:?}; its last line was: {last_line}"
        ))
    }

    /// Reads the output of children, line by line.
    fn process_output(&mut self) -> Result<(), Failure> {
        loop {
            let next = self.pending_output.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((id, bytes)) = next else { return Ok(()) };
            let partial_lines = self.partial_lines.entry(id).or_default();
            partial_lines.extend_from_slice(&bytes);
            let Some(end) = partial_lines.iter().rposition(|byte| *byte == b'\n') else { continue };
            let whole: Vec<u8> = partial_lines.drain(..=end).collect();
            for line in String::from_utf8_lossy(&whole).lines() {
                self.handle_line(id, line)?;
            }
        }
    }

    fn handle_line(&mut self, id: DomainId, line: &str) -> Result<(), Failure> {
        let Some(place) = self.place_of(id) else { return Ok(()) };
        let member = &mut self.members[place];
        member.last_output_at = Instant::now();
        member.last_line = line.to_owned();
        let words: Vec<&str> = line.split_whitespace().collect();
        let strange = || Err(format!("{} on {} says {line:?}", member.name, member.node));
        match words.as_slice() {
            ["ready", pid] => member.pid = pid.parse().ok(),
            ["alive", count] => {
                let count = count.parse().unwrap_or(0);
                self.messages += count - member.messages.min(count);
                member.messages = count;
            }
            ["open", channel, peer] => {
                let Ok(channel) = channel.parse() else { return strange() };
                member.open.insert(channel, (*peer).to_owned());
            }
            ["end", channel, peer, how, at_ns, starved_ns, ..] => {
                let (Ok(channel), Ok(at_ns), Ok(starved_ns)) =
                    (channel.parse(), at_ns.parse(), starved_ns.parse())
                else {
                    return strange();
                };
                return self
                    .end(place, channel, peer, how, (at_ns, starved_ns))
                    .map_err(|failure| format!("{failure} ({line})"));
            }
            // Whom it tried to reach did not come in time, was not there, or went away meanwhile.
            ["unconnected", _, "timed-out", ..] => self.gave_up += 1,
            ["unconnected", _, "died" | "closed" | "monitor", ..] => {}
            ["unconnected", _, "relay-died", ..] if self.relay_killed => {}
            // It speaks of something that ended it, or that should not be.
            ["unconnected" | "corrupt", ..] => return strange(),
            _ => {}
        }
        Ok(())
    }

    fn end(
        &mut self,
        place: usize,
        channel: u64,
        peer: &str,
        how: &str,
        (at_ns, starved_ns): (i64, i64),
    ) -> Result<(), Failure> {
        let member = &mut self.members[place];
        member.open.remove(&channel);
        let Member { name, node, .. } = member;
        match how {
            "dropped" => {
                self.dropped.insert(channel);
            }
            "closed" => {
                self.closed.insert(channel);
            }
            "died" => {
                let Some(&(killed_ns, cause)) = self.killed.get(peer) else {
                    return Err(format!(
                        "{name} on {node} reports the death of {peer}, which was not killed"
                    ));
                };
                let in_vm = self.in_vms.contains(node);
                // The clock of a virtual machine is another: what counts is when it was heard here.
                let known_ns = if in_vm { monotonic_ns() } else { at_ns };
                let cause = match cause {
                    _ if self.pauses.overlap(killed_ns, known_ns) => Cause::Paused,
                    _ if in_vm => Cause::Across,
                    cause => cause,
                };
                self.deaths.add(DeathReport {
                    latency_ns: known_ns - killed_ns,
                    gone_after_ns: self.endings.gone_ns(peer).map(|gone_ns| gone_ns - killed_ns),
                    starved_ns,
                    cause,
                    survivor: format!("{name} on {node}"),
                    victim: peer.to_owned(),
                });
            }
            "relay-died" if self.relay_killed && self.in_vms.contains(node) => self.ended_with_relays += 1,
            _ => return Err(format!("channel {channel} of {name} on {node} to {peer} ended so: {how}")),
        }
        Ok(())
    }
}

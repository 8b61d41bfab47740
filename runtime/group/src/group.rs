//! Member of a group, with its channels.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use tombolo::{Channel, Error, Interest, Listener, Opening, Ready, Token, WaitSet};
use tombolo_broadcast::{BroadcastError, Event as MemberEvent, Member, MemberId, Usage};

use crate::{Event, GroupError, GroupOptions, Peer, open};

/// Maximum number of messages received from a channel before the others get a turn.
const BATCH: usize = 64;

/// Member of a group. See the [crate] for an example.
///
/// Dropping it closes its channels, and the other members see that it left. Messages broadcast just before
/// may be lost; [`leave`](Self::leave) waits for them.
#[derive(Debug)]
pub struct Group {
    name: String,
    member: Member,
    set: WaitSet,
    peers: BTreeMap<MemberId, Link>,
    members: HashMap<Token, MemberId>,
    /// Channels of programs that have connected and not joined yet.
    joining: HashMap<Token, MemberId>,
    listener: Option<Listener<Opening>>,
    inbox: VecDeque<Event>,
    inbox_bytes: usize,
    max_inbox_bytes: usize,
    expelled: bool,
    timeout: Duration,
    next_timeout: Option<Duration>,
    buffer: Vec<u8>,
}

/// Channel to another member.
#[derive(Debug)]
struct Link {
    token: Token,
    info: Peer,
    /// Message that the channel had no room for.
    unsent: Option<Vec<u8>>,
}

impl Group {
    pub(crate) fn new(
        name: &str,
        member: Member,
        options: &GroupOptions,
        timeout: Duration,
    ) -> Result<Group, GroupError> {
        let mut set = WaitSet::new()?;
        if let Some(spin_ns) = options.spin_ns {
            set.set_spin_ns(spin_ns);
        }
        Ok(Group {
            name: name.to_owned(),
            member,
            set,
            peers: BTreeMap::new(),
            members: HashMap::new(),
            joining: HashMap::new(),
            listener: None,
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            max_inbox_bytes: options.inbox_bytes,
            expelled: false,
            timeout,
            next_timeout: None,
            buffer: Vec::new(),
        })
    }

    /// Adds the channel to a member.
    pub(crate) fn add(&mut self, member: MemberId, channel: Channel) -> Result<(), GroupError> {
        let info = Peer { member, domain: channel.peer(), node: channel.peer_node().to_owned() };
        let token = self.set.add(channel).map_err(|refused| refused.error)?;
        self.members.insert(token, member);
        self.peers.insert(member, Link { token, info, unsent: None });
        Ok(())
    }

    /// Accepts programs that join from now on.
    pub(crate) fn listen(&mut self, listener: Listener<Opening>) -> Result<(), GroupError> {
        self.set.add_listener(&listener)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Waits until the other members have admitted this one.
    pub(crate) fn wait_admitted(&mut self, timeout: Duration) -> Result<(), GroupError> {
        self.wait_for(timeout, "not all members took this one in", |group| {
            group.member.is_member().then_some(())
        })
    }

    /// Name of the group, or id of the job.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of this member.
    #[must_use]
    pub fn id(&self) -> MemberId {
        self.member.id()
    }

    /// Iterates over the other members that this one has channels to.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values().map(|link| &link.info)
    }

    /// Memory usage of this member for the group.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.member.usage()
    }

    /// Sets the timeout of the next operation that waits.
    #[must_use = "it is the next operation that waits so long"]
    pub fn within(&mut self, timeout: Duration) -> &mut Group {
        self.next_timeout = Some(timeout);
        self
    }

    fn take_timeout(&mut self) -> Duration {
        self.next_timeout.take().unwrap_or(self.timeout)
    }

    /// Broadcasts a message to all other members, and with total order also to this one; waits for room.
    /// Returns when the message is accepted, not when it has arrived.
    ///
    /// # Errors
    /// [`GroupError::TimedOut`] if members did not take enough of the earlier messages: the message was not
    /// sent. [`GroupError::TooLong`], [`GroupError::Expelled`], or an error of the machine.
    pub fn broadcast(&mut self, message: &[u8]) -> Result<(), GroupError> {
        let timeout = self.take_timeout();
        self.wait_for(timeout, "other members did not take what was broadcast before", |group| {
            group.member.can_broadcast().then_some(())
        })?;
        match self.try_broadcast(message)? {
            true => Ok(()),
            false => Err(self.timed_out("other members did not take what was broadcast before", timeout)),
        }
    }

    /// Broadcasts a message if there is room; returns false if there is none.
    ///
    /// # Errors
    /// Same as [`broadcast`](Self::broadcast).
    pub fn try_broadcast(&mut self, message: &[u8]) -> Result<bool, GroupError> {
        self.check()?;
        match self.member.broadcast(message) {
            Ok(()) => {
                self.send_all();
                Ok(true)
            }
            Err(BroadcastError::Full) => {
                self.process_messages(Duration::ZERO)?;
                Ok(false)
            }
            Err(BroadcastError::TooLong { length_bytes, max_bytes }) => {
                Err(GroupError::TooLong { group: self.name.clone(), length_bytes, max_bytes })
            }
            Err(BroadcastError::NotMember) => Err(GroupError::Expelled { group: self.name.clone() }),
        }
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// [`GroupError::TimedOut`] if nothing happened, [`GroupError::Expelled`], or an error of the machine.
    pub fn recv(&mut self) -> Result<Event, GroupError> {
        let timeout = self.take_timeout();
        self.wait_for(timeout, "nothing happened", Group::pop_event)
    }

    /// Returns the next event, if there is one. Also receives and forwards messages for others.
    ///
    /// # Errors
    /// [`GroupError::Expelled`], or an error of the machine.
    pub fn try_recv(&mut self) -> Result<Option<Event>, GroupError> {
        if let Some(event) = self.pop_event() {
            return Ok(Some(event));
        }
        self.process_messages(Duration::ZERO)?;
        match self.pop_event() {
            Some(event) => Ok(Some(event)),
            None => self.check().map(|()| None),
        }
    }

    /// Waits until all members have taken everything that this one has broadcast.
    ///
    /// # Errors
    /// [`GroupError::TimedOut`], [`GroupError::Expelled`], or an error of the machine.
    pub fn flush(&mut self) -> Result<(), GroupError> {
        let timeout = self.take_timeout();
        self.wait_for(timeout, "not all members took what was broadcast", |group| {
            group.member.is_drained().then_some(())
        })
    }

    /// Leaves the group: waits until all others have taken everything that this member has broadcast, and
    /// closes its channels.
    ///
    /// # Errors
    /// Same as [`flush`](Self::flush). The member has left in any case.
    pub fn leave(mut self) -> Result<(), GroupError> {
        let timeout = self.take_timeout();
        self.member.leave();
        self.wait_for(timeout, "not all members took what was broadcast", |group| {
            let sent = group.peers.values().all(|link| link.unsent.is_none());
            (group.member.has_left() && sent).then_some(())
        })
    }

    fn check(&self) -> Result<(), GroupError> {
        if self.expelled { Err(GroupError::Expelled { group: self.name.clone() }) } else { Ok(()) }
    }

    fn timed_out(&self, what: &str, timeout: Duration) -> GroupError {
        GroupError::TimedOut { group: self.name.clone(), what: what.to_owned(), timeout }
    }

    /// Participates in the group until `found` returns a result.
    fn wait_for<T>(
        &mut self,
        timeout: Duration,
        what: &str,
        mut found: impl FnMut(&mut Group) -> Option<T>,
    ) -> Result<T, GroupError> {
        if let Some(found) = found(self) {
            return Ok(found);
        }
        // Handle what has arrived at least once, even with a timeout of zero.
        self.process_messages(Duration::ZERO)?;
        let started = Instant::now();
        loop {
            if let Some(found) = found(self) {
                return Ok(found);
            }
            self.check()?;
            let left = timeout.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Err(self.timed_out(what, timeout));
            }
            self.process_messages(left)?;
        }
    }

    fn pop_event(&mut self) -> Option<Event> {
        let event = self.inbox.pop_front()?;
        if let Event::Message { data, .. } = &event {
            self.inbox_bytes -= data.len();
        }
        Some(event)
    }

    /// Waits for a message, handles it, and sends the resulting messages.
    fn process_messages(&mut self, timeout: Duration) -> Result<(), GroupError> {
        self.take_events();
        self.send_all();
        match self.set.wait(timeout) {
            Ok(ready) => self.handle_ready(ready),
            Err(Error::TimedOut { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        // Handle further messages without reading the clock.
        for _ in 0..BATCH {
            match self.set.wait(Duration::ZERO) {
                Ok(ready) => self.handle_ready(ready),
                Err(Error::TimedOut { .. }) => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.take_events();
        self.send_all();
        Ok(())
    }

    fn handle_ready(&mut self, ready: Ready) {
        match ready {
            Ready::Channel(token) => self.receive_from(token),
            Ready::Listener(_) => {
                if let Some((member, channel)) = self.listener.as_ref().and_then(open::accept)
                    && let Ok(token) = self.set.add(channel)
                {
                    self.joining.insert(token, member);
                }
            }
            _ => {}
        }
    }

    fn receive_from(&mut self, token: Token) {
        for _ in 0..BATCH {
            let Some(channel) = self.set.get_mut(token) else { return };
            match channel.try_recv_into(&mut self.buffer) {
                Ok(None) => return,
                Ok(Some(_)) => {
                    let Some(member) = self.sender_of(token) else { return };
                    if self.member.receive(member, &self.buffer).is_err() {
                        return self.drop_channel(token);
                    }
                }
                Err(_) => return self.drop_channel(token),
            }
        }
    }

    /// Returns the member at the other end of a channel. A program that joins becomes a member with its first
    /// message, which it sends once it has channels to all members.
    fn sender_of(&mut self, token: Token) -> Option<MemberId> {
        if let Some(member) = self.members.get(&token) {
            return Some(*member);
        }
        let member = self.joining.remove(&token)?;
        let channel = self.set.get(token)?;
        if self.member.view().is_gone(member) || self.peers.contains_key(&member) {
            // Two programs cannot have the same number, and a member that is gone never returns.
            self.set.remove(token);
            return None;
        }
        let info = Peer { member, domain: channel.peer(), node: channel.peer_node().to_owned() };
        self.members.insert(token, member);
        self.peers.insert(member, Link { token, info, unsent: None });
        self.member.peer_connected(member);
        Some(member)
    }

    /// Removes a channel that has failed.
    fn drop_channel(&mut self, token: Token) {
        self.set.remove(token);
        self.joining.remove(&token);
        if let Some(member) = self.members.remove(&token) {
            self.peers.remove(&member);
            self.member.peer_died(member);
        }
    }

    /// Moves events to the inbox, as far as there is room.
    fn take_events(&mut self) {
        self.disconnect_departed();
        while self.inbox_bytes < self.max_inbox_bytes.max(1) {
            let Some(event) = self.member.next_event() else { return };
            self.inbox.push_back(match event {
                MemberEvent::Joined(member) => Event::Joined(member),
                MemberEvent::Message { from, data } => {
                    self.inbox_bytes += data.len();
                    Event::Message { from, data }
                }
                MemberEvent::Left { member, in_order } => Event::Left { member, died: !in_order },
                MemberEvent::Expelled => {
                    self.expelled = true;
                    return;
                }
            });
        }
    }

    /// Sends everything that there is room for.
    fn send_all(&mut self) {
        let mut lost = Vec::new();
        for (member, link) in &mut self.peers {
            if send(&mut self.member, &mut self.set, *member, link).is_err() {
                lost.push(link.token);
            }
        }
        let again = !lost.is_empty();
        for token in lost {
            // Messages that it sent before its end are still available.
            self.receive_from(token);
            self.drop_channel(token);
        }
        if again {
            self.send_all();
        }
    }

    /// Closes the channels to members that others have reported as gone.
    fn disconnect_departed(&mut self) {
        let view = self.member.view();
        let departed: Vec<Token> = self
            .peers
            .iter()
            .filter(|(member, _)| !view.members.contains(member))
            .map(|(_, link)| link.token)
            .collect();
        for token in departed {
            // If it left in order, the message about that is still in the channel.
            self.receive_from(token);
            // If it is alive, this informs it.
            let mut bytes = Vec::new();
            self.member.expulsion_message().encode(&mut bytes);
            let _ = self.set.try_send(token, &bytes);
            self.drop_channel(token);
        }
    }
}

/// Sends a member's messages for a peer, until there are none left or there is no room.
fn send(member: &mut Member, set: &mut WaitSet, peer: MemberId, link: &mut Link) -> Result<(), Error> {
    let had_unsent = link.unsent.is_some();
    loop {
        let bytes = match link.unsent.take() {
            Some(bytes) => bytes,
            None => {
                let Some(message) = member.transmit(peer) else { break };
                let mut bytes = Vec::new();
                message.encode(&mut bytes);
                bytes
            }
        };
        match set.try_send(link.token, &bytes) {
            Ok(()) => {}
            Err(Error::WouldBlock) => {
                link.unsent = Some(bytes);
                set.set_interest(link.token, Interest::ReadWrite);
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    if had_unsent {
        set.set_interest(link.token, Interest::Read);
    }
    Ok(())
}

//! A member of a group with its channels.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use tombolo::{Channel, Error, Interest, Listener, Opening, Ready, Token, WaitSet};
use tombolo_broadcast::{Event as Happening, Member, MemberId, Refusal, Usage};

use crate::{Event, GroupError, GroupOptions, Peer, open};

/// Messages that are received from a channel before others have their turn.
const AT_A_TIME: usize = 64;

/// A member of a group. See the [crate] for an example.
///
/// Dropping it closes its channels, and the others hear that it left; what it broadcast just before may then
/// be lost, which [`leave`](Self::leave) waits for.
#[derive(Debug)]
pub struct Group {
    name: String,
    member: Member,
    set: WaitSet,
    peers: BTreeMap<MemberId, Link>,
    members: HashMap<Token, MemberId>,
    /// Channels of programs that have connected and not yet said that they join.
    joining: HashMap<Token, MemberId>,
    listener: Option<Listener<Opening>>,
    inbox: VecDeque<Event>,
    inbox_bytes: usize,
    max_inbox_bytes: usize,
    expelled: bool,
    timeout: Duration,
    once: Option<Duration>,
    buffer: Vec<u8>,
}

/// The channel to another member.
#[derive(Debug)]
struct Link {
    token: Token,
    about: Peer,
    /// A message that the channel had no room for.
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
            once: None,
            buffer: Vec::new(),
        })
    }

    /// The channel to a member is open.
    pub(crate) fn add(&mut self, member: MemberId, channel: Channel) -> Result<(), GroupError> {
        let about = Peer { member, domain: channel.peer(), node: channel.peer_node().to_owned() };
        let token = self.set.add(channel).map_err(|refused| refused.error)?;
        self.members.insert(token, member);
        self.peers.insert(member, Link { token, about, unsent: None });
        Ok(())
    }

    /// Takes in programs that join from now on.
    pub(crate) fn listen(&mut self, listener: Listener<Opening>) -> Result<(), GroupError> {
        self.set.add_listener(&listener)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Waits until the others have taken this member in.
    pub(crate) fn settle_in(&mut self, timeout: Duration) -> Result<(), GroupError> {
        self.wait_for(timeout, "not all members took this one in", |group| {
            group.member.is_member().then_some(())
        })
    }

    /// The name of the group, or the id of the job.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// This member's number.
    #[must_use]
    pub fn id(&self) -> MemberId {
        self.member.id()
    }

    /// The other members that it has channels to.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values().map(|link| &link.about)
    }

    /// What it keeps in memory for others.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.member.usage()
    }

    /// Has the next operation that waits do so up to `timeout`.
    #[must_use = "it is the next operation that waits so long"]
    pub fn within(&mut self, timeout: Duration) -> &mut Group {
        self.once = Some(timeout);
        self
    }

    fn patience(&mut self) -> Duration {
        self.once.take().unwrap_or(self.timeout)
    }

    /// Broadcasts a message to all other members, and with a total order to this one, too; waits for room.
    /// Returns when the message is accepted, not when it has arrived.
    ///
    /// # Errors
    /// [`GroupError::TimedOut`] when members did not take enough of the messages before it, so that it was
    /// not sent; [`GroupError::TooLong`], [`GroupError::Expelled`], or what the machine says.
    pub fn broadcast(&mut self, message: &[u8]) -> Result<(), GroupError> {
        let timeout = self.patience();
        self.wait_for(timeout, "other members did not take what was broadcast before", |group| {
            group.member.can_broadcast().then_some(())
        })?;
        match self.try_broadcast(message)? {
            true => Ok(()),
            false => Err(self.timed_out("other members did not take what was broadcast before", timeout)),
        }
    }

    /// Broadcasts a message if there is room; false if there is none.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast).
    pub fn try_broadcast(&mut self, message: &[u8]) -> Result<bool, GroupError> {
        self.check()?;
        match self.member.broadcast(message) {
            Ok(()) => {
                self.send_all();
                Ok(true)
            }
            Err(Refusal::Full) => {
                self.look(Duration::ZERO)?;
                Ok(false)
            }
            Err(Refusal::TooLong { length_bytes, max_bytes }) => {
                Err(GroupError::TooLong { group: self.name.clone(), length_bytes, max_bytes })
            }
            Err(Refusal::NotMember) => Err(GroupError::Expelled { group: self.name.clone() }),
        }
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// [`GroupError::TimedOut`] when nothing happened, [`GroupError::Expelled`], or what the machine says.
    pub fn recv(&mut self) -> Result<Event, GroupError> {
        let timeout = self.patience();
        self.wait_for(timeout, "nothing happened", Group::pop)
    }

    /// The next event, if there is one. Also receives and forwards what has come for others.
    ///
    /// # Errors
    /// [`GroupError::Expelled`], or what the machine says.
    pub fn try_recv(&mut self) -> Result<Option<Event>, GroupError> {
        if let Some(event) = self.pop() {
            return Ok(Some(event));
        }
        self.look(Duration::ZERO)?;
        match self.pop() {
            Some(event) => Ok(Some(event)),
            None => self.check().map(|()| None),
        }
    }

    /// Waits until all members have taken everything that this one has broadcast.
    ///
    /// # Errors
    /// [`GroupError::TimedOut`], [`GroupError::Expelled`], or what the machine says.
    pub fn flush(&mut self) -> Result<(), GroupError> {
        let timeout = self.patience();
        self.wait_for(timeout, "not all members took what was broadcast", |group| {
            group.member.is_drained().then_some(())
        })
    }

    /// Leaves the group: waits until all others have taken everything that this member broadcast, and closes
    /// its channels.
    ///
    /// # Errors
    /// As [`flush`](Self::flush). It has left all the same.
    pub fn leave(mut self) -> Result<(), GroupError> {
        let timeout = self.patience();
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

    /// Takes part in the group until `found` finds something.
    fn wait_for<T>(
        &mut self,
        timeout: Duration,
        what: &str,
        mut found: impl FnMut(&mut Group) -> Option<T>,
    ) -> Result<T, GroupError> {
        if let Some(found) = found(self) {
            return Ok(found);
        }
        // What is there already is looked at once, however short the time.
        self.look(Duration::ZERO)?;
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
            self.look(left)?;
        }
    }

    fn pop(&mut self) -> Option<Event> {
        let event = self.inbox.pop_front()?;
        if let Event::Message { data, .. } = &event {
            self.inbox_bytes -= data.len();
        }
        Some(event)
    }

    /// Waits for something to come, takes it in, and sends what follows from it.
    fn look(&mut self, timeout: Duration) -> Result<(), GroupError> {
        self.take_events();
        self.send_all();
        match self.set.wait(timeout) {
            Ok(ready) => self.handle(ready),
            Err(Error::TimedOut { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        // What else is there needs no look at the clock.
        for _ in 0..AT_A_TIME {
            match self.set.wait(Duration::ZERO) {
                Ok(ready) => self.handle(ready),
                Err(Error::TimedOut { .. }) => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.take_events();
        self.send_all();
        Ok(())
    }

    fn handle(&mut self, ready: Ready) {
        match ready {
            Ready::Channel(token) => self.receive(token),
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

    fn receive(&mut self, token: Token) {
        for _ in 0..AT_A_TIME {
            let Some(channel) = self.set.get_mut(token) else { return };
            match channel.try_recv_into(&mut self.buffer) {
                Ok(None) => return,
                Ok(Some(_)) => {
                    let Some(member) = self.sender(token) else { return };
                    if self.member.receive(member, &self.buffer).is_err() {
                        return self.lost(token);
                    }
                }
                Err(_) => return self.lost(token),
            }
        }
    }

    /// The member at the other end of a channel. A program that joins is one from its first message on: that
    /// comes when it has channels to all.
    fn sender(&mut self, token: Token) -> Option<MemberId> {
        if let Some(member) = self.members.get(&token) {
            return Some(*member);
        }
        let member = self.joining.remove(&token)?;
        let channel = self.set.get(token)?;
        if self.member.view().is_gone(member) || self.peers.contains_key(&member) {
            // Two programs cannot have one number, and a member that is gone does not come back.
            self.set.remove(token);
            return None;
        }
        let about = Peer { member, domain: channel.peer(), node: channel.peer_node().to_owned() };
        self.members.insert(token, member);
        self.peers.insert(member, Link { token, about, unsent: None });
        self.member.connected(member);
        Some(member)
    }

    /// A channel is of no use any more.
    fn lost(&mut self, token: Token) {
        self.set.remove(token);
        self.joining.remove(&token);
        if let Some(member) = self.members.remove(&token) {
            self.peers.remove(&member);
            self.member.died(member);
        }
    }

    /// Puts what has happened into the inbox, as far as there is room.
    fn take_events(&mut self) {
        self.part_with_those_gone();
        while self.inbox_bytes < self.max_inbox_bytes.max(1) {
            let Some(event) = self.member.next_event() else { return };
            self.inbox.push_back(match event {
                Happening::Joined(member) => Event::Joined(member),
                Happening::Message { from, data } => {
                    self.inbox_bytes += data.len();
                    Event::Message { from, data }
                }
                Happening::Left { member, in_order } => Event::Left { member, died: !in_order },
                Happening::Expelled => {
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
            // What came before its end is still there.
            self.receive(token);
            self.lost(token);
        }
        if again {
            self.send_all();
        }
    }

    /// Closes the channels to members of which others have said that they are gone.
    fn part_with_those_gone(&mut self) {
        let view = self.member.view();
        let gone: Vec<Token> = self
            .peers
            .iter()
            .filter(|(member, _)| !view.members.contains(member))
            .map(|(_, link)| link.token)
            .collect();
        for token in gone {
            // If it left in order, it has said so.
            self.receive(token);
            // If it lives, it is to know.
            let mut bytes = Vec::new();
            self.member.farewell().encode(&mut bytes);
            let _ = self.set.try_send(token, &bytes);
            self.lost(token);
        }
    }
}

/// Sends what a member has for another, until there is nothing left or no room.
fn send(member: &mut Member, set: &mut WaitSet, peer: MemberId, link: &mut Link) -> Result<(), Error> {
    let waited = link.unsent.is_some();
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
    if waited {
        set.set_interest(link.token, Interest::Read);
    }
    Ok(())
}

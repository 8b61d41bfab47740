use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use proptest::prelude::*;

use super::*;

/// How one side of a link ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Closed,
    Died(Option<DisconnectReason>),
}

/// Link with a bounded number of messages in each direction, shared by its two sides.
#[derive(Default)]
struct Link {
    room: usize,
    queues: [RefCell<VecDeque<Vec<u8>>>; 2],
    ended: [Cell<Option<End>>; 2],
    broken: Cell<bool>,
}

struct Side {
    link: Rc<Link>,
    side: usize,
}

fn link(room: usize) -> (Side, Side) {
    let link = Rc::new(Link { room, ..Link::default() });
    (Side { link: Rc::clone(&link), side: 0 }, Side { link, side: 1 })
}

impl Side {
    fn end(&self, how: End) {
        if self.link.ended[self.side].get().is_none() {
            self.link.ended[self.side].set(Some(how));
        }
    }
}

impl Hop for Side {
    fn receive(&mut self, buffer: &mut Vec<u8>) -> Result<bool, EndError> {
        if self.link.broken.get() {
            return Err(EndError::Broken);
        }
        match (self.link.queues[1 - self.side].borrow_mut().pop_front(), self.link.ended[1 - self.side].get())
        {
            (Some(message), _) => {
                *buffer = message;
                Ok(true)
            }
            (None, None) => Ok(false),
            (None, Some(End::Closed)) => Err(EndError::Closed),
            (None, Some(End::Died(_))) => Err(EndError::PeerDied),
        }
    }

    fn send(&mut self, message: &[u8]) -> Result<(), EndError> {
        match self.link.ended[1 - self.side].get() {
            Some(End::Closed) => return Err(EndError::Closed),
            Some(End::Died(_)) => return Err(EndError::PeerDied),
            None => {}
        }
        let mut queue = self.link.queues[self.side].borrow_mut();
        if queue.len() == self.link.room {
            return Err(EndError::Full);
        }
        queue.push_back(message.to_vec());
        Ok(())
    }

    fn has_unsent(&mut self) -> bool {
        false
    }

    fn disconnect_reason(&self) -> Option<DisconnectReason> {
        match self.link.ended[1 - self.side].get() {
            Some(End::Died(reason)) => reason,
            _ => None,
        }
    }

    fn close(&mut self) {
        self.end(End::Closed);
    }

    fn abort(&mut self, reason: DisconnectReason) {
        self.end(End::Died(Some(reason)));
    }
}

/// A domain, a relay and a domain.
struct Line {
    a: Side,
    near: Side,
    far: Side,
    b: Side,
    route: Route,
}

fn line(room: usize) -> Line {
    let ((a, near), (far, b)) = (link(room), link(room));
    Line { a, near, far, b, route: Route::new([HopPeer::End; 2]) }
}

impl Line {
    fn step(&mut self) -> Step {
        self.route.step([&mut self.near, &mut self.far])
    }

    fn run_until_idle(&mut self) -> Step {
        loop {
            let step = self.step();
            if !step.has_more {
                return step;
            }
        }
    }
}

fn drain(side: &mut Side) -> (Vec<Vec<u8>>, Option<EndError>) {
    let (mut all, mut buffer) = (Vec::new(), Vec::new());
    loop {
        match side.receive(&mut buffer) {
            Ok(true) => all.push(buffer.clone()),
            Ok(false) => return (all, None),
            Err(error) => return (all, Some(error)),
        }
    }
}

#[test]
fn relay_buffers_one_message_per_direction() {
    let mut line = line(2);
    let mut sent = 0;
    for _ in 0..10 {
        while line.a.send(&[sent]).is_ok() {
            sent += 1;
        }
        line.step();
    }
    // Two on each hop, and one in the relay.
    assert_eq!(sent, 5);
    let step = line.step();
    assert_eq!(step.needs[0], Needs { message: false, room: false });
    assert_eq!(step.needs[1], Needs { message: true, room: true });
    let mut received = Vec::new();
    while received.len() < 5 {
        received.extend(drain(&mut line.b).0);
        line.step();
    }
    assert_eq!(received, (0..5).map(|number| vec![number]).collect::<Vec<_>>());
}

#[test]
fn relay_forwards_messages_before_the_end() {
    for (how, error) in [(End::Closed, EndError::Closed), (End::Died(None), EndError::PeerDied)] {
        let mut line = line(2);
        line.a.send(b"1").unwrap();
        line.a.send(b"2").unwrap();
        line.b.send(b"lost").unwrap();
        line.a.end(how);
        assert!(line.run_until_idle().finished);
        assert_eq!(drain(&mut line.b), (vec![b"1".to_vec(), b"2".to_vec()], Some(error)));
        assert_eq!(line.b.disconnect_reason(), (how != End::Closed).then_some(DisconnectReason::Died));
    }
}

#[test]
fn relay_delays_the_end_until_held_messages_fit() {
    let mut line = line(1);
    line.a.send(b"1").unwrap();
    line.run_until_idle();
    line.a.send(b"2").unwrap();
    line.run_until_idle();
    line.a.send(b"3").unwrap();
    line.a.end(End::Closed);
    assert!(!line.run_until_idle().finished);
    let mut received = Vec::new();
    for _ in 0..3 {
        received.extend(drain(&mut line.b).0);
        line.run_until_idle();
    }
    assert_eq!(received, [b"1", b"2", b"3"]);
    assert!(line.run_until_idle().finished);
    assert_eq!(drain(&mut line.b), (vec![], Some(EndError::Closed)));
}

#[test]
fn reason_of_death_is_forwarded_along_the_route() {
    let node = NodeId(7);
    for (peer, reason, expected) in [
        (HopPeer::End, None, DisconnectReason::Died),
        (HopPeer::Relay(node), None, DisconnectReason::RelayDied(node)),
        (HopPeer::Relay(node), Some(DisconnectReason::Died), DisconnectReason::Died),
        (
            HopPeer::Relay(node),
            Some(DisconnectReason::RelayDied(NodeId(9))),
            DisconnectReason::RelayDied(NodeId(9)),
        ),
        (HopPeer::Relay(node), Some(DisconnectReason::Broken), DisconnectReason::Broken),
    ] {
        let mut line = line(2);
        line.route = Route::new([peer, HopPeer::End]);
        line.a.end(End::Died(reason));
        assert!(line.step().finished);
        assert_eq!(line.b.disconnect_reason(), Some(expected));
    }
}

#[test]
fn violation_on_one_hop_ends_the_other_after_delivery() {
    let mut line = line(2);
    line.a.send(b"good").unwrap();
    line.step();
    line.near.link.broken.set(true);
    assert!(line.step().finished);
    assert_eq!(drain(&mut line.b), (vec![b"good".to_vec()], Some(EndError::PeerDied)));
    assert_eq!(line.b.disconnect_reason(), Some(DisconnectReason::Broken));
}

/// Event on a line, in any order.
#[derive(Clone, Copy, Debug)]
enum Event {
    Send(usize),
    Receive(usize),
    Step,
    Close(usize),
    Die(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        8 => (0..2_usize).prop_map(Event::Send),
        8 => (0..2_usize).prop_map(Event::Receive),
        8 => Just(Event::Step),
        1 => (0..2_usize).prop_map(Event::Close),
        1 => (0..2_usize).prop_map(Event::Die),
    ];
    prop::collection::vec(event, 0..if cfg!(miri) { 30 } else { 200 })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// In every case messages arrive in order without a gap, an end that was propagated is the true one, and
    /// once an end is gone the route ends, with everything delivered that its peer could still take.
    #[test]
    fn route_preserves_order_and_reports_the_end(room in 1..4_usize, events in events()) {
        let mut line = line(room);
        let (mut sent, mut received) = ([0_u64; 2], [0_u64; 2]);
        let mut gone = [None; 2];
        let take = |side: &mut Side, received: &mut u64| {
            let (messages, error) = drain(side);
            for message in messages {
                assert_eq!(message, received.to_le_bytes());
                *received += 1;
            }
            error
        };
        for event in events {
            match event {
                Event::Send(by) if gone[by].is_none() => {
                    let side = if by == 0 { &mut line.a } else { &mut line.b };
                    if side.send(&sent[by].to_le_bytes()).is_ok() {
                        sent[by] += 1;
                    }
                }
                Event::Receive(by) if gone[by].is_none() => {
                    let side = if by == 0 { &mut line.a } else { &mut line.b };
                    take(side, &mut received[by]);
                }
                Event::Step => {
                    line.step();
                }
                Event::Close(by) | Event::Die(by) if gone[by].is_none() => {
                    let how = if matches!(event, Event::Close(_)) { End::Closed } else { End::Died(None) };
                    gone[by] = Some(how);
                    if by == 0 { line.a.end(how) } else { line.b.end(how) }
                }
                _ => {}
            }
            let bound = (2 * room + 1) as u64;
            prop_assert!(sent[0] - received[1] <= bound && sent[1] - received[0] <= bound);
        }
        // Afterwards every live party receives until nothing changes.
        let mut errors = [None; 2];
        for _ in 0..500 {
            line.step();
            for by in [0, 1] {
                let side = if by == 0 { &mut line.a } else { &mut line.b };
                if gone[by].is_none() {
                    errors[by] = take(side, &mut received[by]);
                }
            }
        }
        for (by, other) in [(0, 1), (1, 0)] {
            let side = if by == 0 { &line.a } else { &line.b };
            match (gone[by], gone[other]) {
                (None, None) => prop_assert_eq!((errors[by], received[by]), (None, sent[other])),
                (None, Some(End::Closed)) => {
                    prop_assert_eq!((errors[by], received[by]), (Some(EndError::Closed), sent[other]));
                }
                (None, Some(End::Died(_))) => {
                    prop_assert_eq!((errors[by], received[by]), (Some(EndError::PeerDied), sent[other]));
                    prop_assert_eq!(side.disconnect_reason(), Some(DisconnectReason::Died));
                }
                (Some(_), _) => {}
            }
        }
        prop_assert_eq!(line.step().finished, gone != [None; 2]);
    }
}

//! The checker finds each violation of the contract, and reports none where there is none.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use tombolo_link::TransportKind;
use tombolo_platform::event::{Interest, eventfd};
use tombolo_transport::contract::Announced;
use tombolo_transport::wrap::Checked;
use tombolo_transport::{
    Capabilities, ChannelError, Description, EndError, Message, Stats, Transport, TransportExt,
};

/// The defect of a [`ToyTransport`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Defect {
    Nothing,
    Loses,
    Repeats,
    Swaps,
    Changes,
    CountsTwice,
    GrowsItsLimit,
    AcceptsLate,
    BlocksLate,
    SaysTooLong,
    Recovers,
    BreaksInSilence,
    ShowsNothing,
    HidesTheEnd,
    ClosesEarly,
    DiesAlive,
    WaitedForNothing,
    Unsent,
    NoSources,
}

type Queue = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// Transport within a process, with one defect.
struct ToyTransport {
    defect: Defect,
    outgoing: Queue,
    incoming: Queue,
    calls: u32,
    closed: bool,
    stats: Stats,
    source: OwnedFd,
}

fn toy_pair(defect: Defect) -> (ToyTransport, ToyTransport) {
    let (one, other) = (Queue::default(), Queue::default());
    let transport = |outgoing: &Queue, incoming: &Queue| ToyTransport {
        defect,
        outgoing: outgoing.clone(),
        incoming: incoming.clone(),
        calls: 0,
        closed: false,
        stats: Stats::default(),
        source: eventfd().unwrap(),
    };
    (transport(&one, &other), transport(&other, &one))
}

impl Transport for ToyTransport {
    fn describe(&self) -> Description {
        let grown = usize::from(self.defect == Defect::GrowsItsLimit && self.calls > 1);
        Description {
            kind: TransportKind::Shm,
            capabilities: Capabilities::OF_SHARED_MEMORY,
            max_message_bytes: 100 + grown,
        }
    }

    fn stats(&self) -> Stats {
        Stats { unsent_bytes: u64::from(self.defect == Defect::Unsent), ..self.stats }
    }

    fn failure(&self) -> Option<ChannelError> {
        (self.defect != Defect::BreaksInSilence).then(|| ChannelError::Violation("once".into()))
    }

    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        self.calls += 1;
        if self.closed && self.defect != Defect::AcceptsLate {
            let blocks = self.defect == Defect::BlocksLate;
            return Err(if blocks { EndError::Full } else { EndError::Closed });
        }
        if message.len() > 100 || self.defect == Defect::SaysTooLong {
            return Err(EndError::TooLong);
        }
        let mut queue = self.outgoing.lock().unwrap();
        let mut sent = message.to_vec();
        match self.defect {
            Defect::Changes => sent[0] ^= 1,
            Defect::Repeats => queue.push_back(sent.clone()),
            _ => {}
        }
        if self.defect != Defect::Loses || self.calls != 4 {
            queue.push_back(sent);
        }
        if self.defect == Defect::Swaps && queue.len() == 2 {
            queue.swap(0, 1);
        }
        self.stats.messages_sent += 1 + u64::from(self.defect == Defect::CountsTwice);
        self.stats.bytes_sent += message.len() as u64;
        Ok(())
    }

    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        self.calls += 1;
        match self.defect {
            _ if self.closed => return Err(EndError::Closed),
            Defect::ClosesEarly => return Err(EndError::Closed),
            Defect::DiesAlive => return Err(EndError::PeerDied),
            Defect::Recovers | Defect::BreaksInSilence if self.calls == 1 => return Err(EndError::Broken),
            Defect::WaitedForNothing => return Err(EndError::Full),
            _ => {}
        }
        let Some(message) = self.incoming.lock().unwrap().pop_front() else { return Ok(None) };
        self.stats.messages_received += 1;
        self.stats.bytes_received += message.len() as u64;
        Ok(Some(read(&Message::of_bytes(&message))))
    }

    fn is_ready(&mut self, awaited: Interest) -> bool {
        if awaited != Interest::Read {
            return true;
        }
        let shows = self.defect == Defect::ShowsNothing || self.closed && self.defect != Defect::HidesTheEnd;
        shows || !self.incoming.lock().unwrap().is_empty()
    }

    fn announce_sleep(&mut self, _awaited: Interest) -> Announced {
        Announced::Complete
    }

    fn may_sleep(&mut self, _awaited: Interest) -> bool {
        true
    }

    fn sources<'a>(&'a self, _awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        if self.defect != Defect::NoSources {
            sources.push((self.source.as_fd(), Interest::Read));
        }
    }

    fn finish_sleep(&mut self, _rung: bool) {}

    fn close(&mut self) {
        self.closed = true;
    }
}

/// Uses a channel in every way, as a program may.
fn exercise((mut a, mut b): (Checked<ToyTransport>, Checked<ToyTransport>)) {
    let mut buffer = vec![7; 5];
    let _ = a.try_recv_into(&mut buffer);
    let _ = a.try_recv_into(&mut buffer);
    for text in [b"one", b"two", b"six"] {
        let _ = a.try_send(text);
    }
    let _ = a.try_send(&[0; 100]);
    let _ = a.try_send(&[0; 101]);
    let _ = a.try_send_in_place(9, |draft| draft.write_at(0, b"in place!").unwrap());
    let _ = a.try_send_batch(|batch| {
        for text in [&b"of a batch"[..], b"and another"] {
            let _ = batch.push(text);
        }
    });
    let _ = b.announce_sleep(Interest::Read);
    if b.may_sleep(Interest::Read) {
        b.sources(Interest::Read, &mut Vec::new());
    }
    b.finish_sleep(true);
    while let Ok(Some(_)) = b.try_recv_into(&mut buffer) {
        let _ = b.try_recv_in_place(|message| message.to_vec());
        let _ = b.try_recv_batch(2, |_| ());
        let _ = b.readable();
    }
    let _ = (b.readable(), b.try_recv_into(&mut buffer));
    a.close();
    a.readable();
    let _ = (a.try_send(b"late"), a.try_recv_into(&mut buffer));
}

/// Returns the first line of the checker's report.
fn verdict(check: impl FnOnce()) -> Option<String> {
    let caught = catch_unwind(AssertUnwindSafe(check)).err()?;
    let text = caught.downcast_ref::<String>().expect("a panic of the checker has a text");
    Some(text.lines().next().unwrap_or_default().to_owned())
}

fn transport_violation(what: &str) -> Option<String> {
    Some(format!("the transport broke the contract of a shm channel: {what}"))
}

#[test]
fn conforming_transport_passes() {
    let (a, b) = toy_pair(Defect::Nothing);
    assert_eq!(verdict(|| exercise(Checked::pair(a, b))), None);
    let (a, b) = toy_pair(Defect::Nothing);
    assert_eq!(verdict(|| exercise((Checked::new(a), Checked::new(b)))), None);
}

#[test]
fn every_violation_is_found_and_named() {
    for (defect, what) in [
        (Defect::Loses, "message 2 was received before message 1: the order changed or one was lost"),
        (Defect::Swaps, "message 1 was received before message 0: the order changed or one was lost"),
        (
            Defect::Changes,
            "a message of 3 bytes that was never sent, or received before, was received in place of message 0 (3 bytes)",
        ),
        (Defect::CountsTwice, "its counters do not match what passed"),
        (Defect::GrowsItsLimit, "its description changed"),
        (Defect::AcceptsLate, "it accepted a message after it was closed"),
        (Defect::BlocksLate, "it reported no room instead of the close"),
        (Defect::SaysTooLong, "it refused a message within its limit as too long"),
        (Defect::Recovers, "receiving found no end after the end"),
        (Defect::BreaksInSilence, "it failed without giving the cause"),
        (Defect::ShowsNothing, "it reported something to receive, but there was nothing"),
        (Defect::HidesTheEnd, "it shows no end after it was closed"),
        (Defect::ClosesEarly, "it ended as closed, but the peer's end is open"),
        (Defect::DiesAlive, "the peer's death was reported, but it is alive"),
        (Defect::WaitedForNothing, "a receive returned an error of sending"),
        (Defect::Unsent, "a store to memory waits to be sent"),
        (Defect::NoSources, "it has nothing to sleep on"),
    ] {
        let (a, b) = toy_pair(defect);
        assert_eq!(verdict(|| exercise(Checked::pair(a, b))), transport_violation(what), "{defect:?}");
    }
    let (a, b) = toy_pair(Defect::Repeats);
    let verdict_text = verdict(|| exercise(Checked::pair(a, b))).unwrap();
    assert!(verdict_text.contains("in place of message 1"), "{verdict_text}");
}

/// An effect that only a peer can cause is not blamed on this end.
#[test]
fn one_end_is_not_blamed_for_its_peer() {
    for defect in [
        Defect::Loses,
        Defect::Swaps,
        Defect::Changes,
        Defect::Repeats,
        Defect::ShowsNothing,
        Defect::Recovers,
        Defect::ClosesEarly,
        Defect::DiesAlive,
    ] {
        let (a, b) = toy_pair(defect);
        assert_eq!(verdict(|| exercise((Checked::new(a), Checked::new(b)))), None, "{defect:?}");
    }
}

#[test]
fn an_unannounced_sleep_is_reported() {
    let sleep = |announced: Option<Interest>, awaited: Interest| {
        let mut channel = Checked::new(toy_pair(Defect::Nothing).0);
        verdict(|| {
            if let Some(announced) = announced {
                let _ = channel.announce_sleep(announced);
            }
            channel.may_sleep(awaited);
        })
    };
    let expected_verdict = Some(
        "the program broke the contract of a shm channel: it is about to sleep without an announcement"
            .to_owned(),
    );
    assert_eq!(sleep(None, Interest::Read), expected_verdict);
    assert_eq!(sleep(Some(Interest::Read), Interest::Write), expected_verdict);
    assert_eq!(sleep(Some(Interest::Read), Interest::ReadWrite), expected_verdict);
    assert_eq!(sleep(Some(Interest::Read), Interest::Read), None);
    assert_eq!(sleep(Some(Interest::ReadWrite), Interest::Write), None);
    // Withdrawn.
    let mut channel = Checked::new(toy_pair(Defect::Nothing).0);
    let _ = channel.announce_sleep(Interest::Read);
    channel.finish_sleep(false);
    assert_eq!(verdict(|| assert!(channel.may_sleep(Interest::Read))), expected_verdict);
}

#[test]
fn violation_lists_the_last_operations() {
    let (a, b) = toy_pair(Defect::CountsTwice);
    let mut a = Checked::new(a);
    drop(b);
    let _ = a.try_recv_into(&mut Vec::new());
    let _ = a.announce_sleep(Interest::Read);
    a.finish_sleep(true);
    let caught = catch_unwind(AssertUnwindSafe(|| a.try_send(b"seven..").is_ok())).unwrap_err();
    let text = caught.downcast_ref::<String>().unwrap();
    assert!(text.contains("operations until then: receive(0) announce(0) woken(1) send(7)"), "{text}");
}

#[test]
fn unchecked_transport_is_left_alone() {
    for defect in [Defect::CountsTwice, Defect::AcceptsLate, Defect::Unsent] {
        let (a, b) = toy_pair(defect);
        assert_eq!(verdict(|| exercise((Checked::unchecked(a), Checked::unchecked(b)))), None);
    }
    assert!(!Checked::new(toy_pair(Defect::Nothing).0).into_inner().closed);
}

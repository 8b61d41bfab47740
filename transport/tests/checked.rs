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

/// The defect of a [`Toy`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
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
struct Toy {
    wrong: Wrong,
    outgoing: Queue,
    incoming: Queue,
    calls: u32,
    closed: bool,
    stats: Stats,
    source: OwnedFd,
}

fn toys(wrong: Wrong) -> (Toy, Toy) {
    let (one, other) = (Queue::default(), Queue::default());
    let toy = |outgoing: &Queue, incoming: &Queue| Toy {
        wrong,
        outgoing: outgoing.clone(),
        incoming: incoming.clone(),
        calls: 0,
        closed: false,
        stats: Stats::default(),
        source: eventfd().unwrap(),
    };
    (toy(&one, &other), toy(&other, &one))
}

impl Transport for Toy {
    fn describe(&self) -> Description {
        let grown = usize::from(self.wrong == Wrong::GrowsItsLimit && self.calls > 1);
        Description {
            kind: TransportKind::Shm,
            capabilities: Capabilities::OF_SHARED_MEMORY,
            max_message_bytes: 100 + grown,
        }
    }

    fn stats(&self) -> Stats {
        Stats { unsent_bytes: u64::from(self.wrong == Wrong::Unsent), ..self.stats }
    }

    fn failure(&self) -> Option<ChannelError> {
        (self.wrong != Wrong::BreaksInSilence).then(|| ChannelError::Violation("once".into()))
    }

    fn try_send(&mut self, message: &[u8]) -> Result<(), EndError> {
        self.calls += 1;
        if self.closed && self.wrong != Wrong::AcceptsLate {
            let blocks = self.wrong == Wrong::BlocksLate;
            return Err(if blocks { EndError::Full } else { EndError::Closed });
        }
        if message.len() > 100 || self.wrong == Wrong::SaysTooLong {
            return Err(EndError::TooLong);
        }
        let mut queue = self.outgoing.lock().unwrap();
        let mut sent = message.to_vec();
        match self.wrong {
            Wrong::Changes => sent[0] ^= 1,
            Wrong::Repeats => queue.push_back(sent.clone()),
            _ => {}
        }
        if self.wrong != Wrong::Loses || self.calls != 4 {
            queue.push_back(sent);
        }
        if self.wrong == Wrong::Swaps && queue.len() == 2 {
            queue.swap(0, 1);
        }
        self.stats.messages_sent += 1 + u64::from(self.wrong == Wrong::CountsTwice);
        self.stats.bytes_sent += message.len() as u64;
        Ok(())
    }

    fn try_recv_in_place<R>(&mut self, read: impl FnOnce(&Message<'_>) -> R) -> Result<Option<R>, EndError> {
        self.calls += 1;
        match self.wrong {
            _ if self.closed => return Err(EndError::Closed),
            Wrong::ClosesEarly => return Err(EndError::Closed),
            Wrong::DiesAlive => return Err(EndError::PeerDied),
            Wrong::Recovers | Wrong::BreaksInSilence if self.calls == 1 => return Err(EndError::Broken),
            Wrong::WaitedForNothing => return Err(EndError::Full),
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
        let shows = self.wrong == Wrong::ShowsNothing || self.closed && self.wrong != Wrong::HidesTheEnd;
        shows || !self.incoming.lock().unwrap().is_empty()
    }

    fn announce_sleep(&mut self, _awaited: Interest) -> Announced {
        Announced::Complete
    }

    fn may_sleep(&mut self, _awaited: Interest) -> bool {
        true
    }

    fn sources<'a>(&'a self, _awaited: Interest, sources: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        if self.wrong != Wrong::NoSources {
            sources.push((self.source.as_fd(), Interest::Read));
        }
    }

    fn woken(&mut self, _rung: bool) {}

    fn close(&mut self) {
        self.closed = true;
    }
}

/// Uses a channel in every way, as a program may.
fn use_it((mut a, mut b): (Checked<Toy>, Checked<Toy>)) {
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
    b.woken(true);
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

fn of_a_transport(what: &str) -> Option<String> {
    Some(format!("the transport broke the contract of a shm channel: {what}"))
}

#[test]
fn a_transport_that_keeps_to_it_is_left_alone() {
    let (a, b) = toys(Wrong::Nothing);
    assert_eq!(verdict(|| use_it(Checked::pair(a, b))), None);
    let (a, b) = toys(Wrong::Nothing);
    assert_eq!(verdict(|| use_it((Checked::new(a), Checked::new(b)))), None);
}

#[test]
fn each_breach_is_found_and_named() {
    for (wrong, what) in [
        (Wrong::Loses, "message 2 was received before message 1: the order changed or one was lost"),
        (Wrong::Swaps, "message 1 was received before message 0: the order changed or one was lost"),
        (
            Wrong::Changes,
            "a message of 3 bytes that was never sent, or received before, was received in place of message 0 (3 bytes)",
        ),
        (Wrong::CountsTwice, "its counters do not match what passed"),
        (Wrong::GrowsItsLimit, "its description changed"),
        (Wrong::AcceptsLate, "it accepted a message after it was closed"),
        (Wrong::BlocksLate, "it reported no room instead of the close"),
        (Wrong::SaysTooLong, "it refused a message within its limit as too long"),
        (Wrong::Recovers, "receiving found no end after the end"),
        (Wrong::BreaksInSilence, "it failed without giving the cause"),
        (Wrong::ShowsNothing, "it reported something to receive, but there was nothing"),
        (Wrong::HidesTheEnd, "it shows no end after it was closed"),
        (Wrong::ClosesEarly, "it ended as closed, but the peer's end is open"),
        (Wrong::DiesAlive, "the peer's death was reported, but it is alive"),
        (Wrong::WaitedForNothing, "a receive returned an error of sending"),
        (Wrong::Unsent, "a store to memory waits to be sent"),
        (Wrong::NoSources, "it has nothing to sleep on"),
    ] {
        let (a, b) = toys(wrong);
        assert_eq!(verdict(|| use_it(Checked::pair(a, b))), of_a_transport(what), "{wrong:?}");
    }
    let (a, b) = toys(Wrong::Repeats);
    let said = verdict(|| use_it(Checked::pair(a, b))).unwrap();
    assert!(said.contains("in place of message 1"), "{said}");
}

/// An effect that only a peer can cause is not blamed on this end.
#[test]
fn one_end_is_not_blamed_for_its_peer() {
    for wrong in [
        Wrong::Loses,
        Wrong::Swaps,
        Wrong::Changes,
        Wrong::Repeats,
        Wrong::ShowsNothing,
        Wrong::Recovers,
        Wrong::ClosesEarly,
        Wrong::DiesAlive,
    ] {
        let (a, b) = toys(wrong);
        assert_eq!(verdict(|| use_it((Checked::new(a), Checked::new(b)))), None, "{wrong:?}");
    }
}

#[test]
fn an_unannounced_sleep_is_reported() {
    let sleep = |announced: Option<Interest>, awaited: Interest| {
        let mut channel = Checked::new(toys(Wrong::Nothing).0);
        verdict(|| {
            if let Some(announced) = announced {
                let _ = channel.announce_sleep(announced);
            }
            channel.may_sleep(awaited);
        })
    };
    let told = Some(
        "the program broke the contract of a shm channel: it is about to sleep without an announcement"
            .to_owned(),
    );
    assert_eq!(sleep(None, Interest::Read), told);
    assert_eq!(sleep(Some(Interest::Read), Interest::Write), told);
    assert_eq!(sleep(Some(Interest::Read), Interest::ReadWrite), told);
    assert_eq!(sleep(Some(Interest::Read), Interest::Read), None);
    assert_eq!(sleep(Some(Interest::ReadWrite), Interest::Write), None);
    // Withdrawn.
    let mut channel = Checked::new(toys(Wrong::Nothing).0);
    let _ = channel.announce_sleep(Interest::Read);
    channel.woken(false);
    assert_eq!(verdict(|| assert!(channel.may_sleep(Interest::Read))), told);
}

#[test]
fn a_breach_lists_the_last_operations() {
    let (a, b) = toys(Wrong::CountsTwice);
    let mut a = Checked::new(a);
    drop(b);
    let _ = a.try_recv_into(&mut Vec::new());
    let _ = a.announce_sleep(Interest::Read);
    a.woken(true);
    let caught = catch_unwind(AssertUnwindSafe(|| a.try_send(b"seven..").is_ok())).unwrap_err();
    let text = caught.downcast_ref::<String>().unwrap();
    assert!(text.contains("operations until then: receive(0) announce(0) woken(1) send(7)"), "{text}");
}

#[test]
fn what_is_unwatched_is_left_alone() {
    for wrong in [Wrong::CountsTwice, Wrong::AcceptsLate, Wrong::Unsent] {
        let (a, b) = toys(wrong);
        assert_eq!(verdict(|| use_it((Checked::unwatched(a), Checked::unwatched(b)))), None);
    }
    assert!(!Checked::new(toys(Wrong::Nothing).0).into_inner().closed);
}

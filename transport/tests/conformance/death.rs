//! A peer is killed at any moment: what it sent is received, then its death shows, however this side waits.
//!
//! The peer is this program again, as a process of its own. It gets its end over a socket on its standard input.

use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use tombolo_link::{ChannelConfig, Side};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::process::Process;
use tombolo_platform::socket::{self, Kind};
use tombolo_ring::{SlotSize, Variant};
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::{ChannelError, Transport};

use crate::carrier::{Carrier, LONG, Shm, Tcp, UnixStream, Window, deadline, hello, shape};
use crate::messages::{Random, check, message, recv, recv_until_end, some_length};

const IS_CHILD: &str = "TOMBOLO_TEST_PEER";

fn config(round: u64) -> ChannelConfig {
    let variant = if round.is_multiple_of(2) { Variant::EpochCredit } else { Variant::UsedFlag };
    shape(SlotSize::B64, [2, 16, 256][(round % 3) as usize], variant)
}

/// What a child does with its end, once it has said that it is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Sends,
    Receives,
    Idles,
}

const ROLES: [Role; 3] = [Role::Sends, Role::Receives, Role::Idles];

fn play<C: Carrier>(role: Role, round: u64, ends: Vec<std::os::fd::OwnedFd>) {
    let config = config(round);
    let mut channel = C::open(ends, Side::B, hello(config), deadline()).unwrap();
    let (mut spin, mut buffer) = (Spin::new(if round.is_multiple_of(5) { 0 } else { 10_000 }), Vec::new());
    wait::send(&mut channel, &mut spin, b"here", LONG).unwrap();
    let max_bytes = channel.limits().max_message_bytes;
    let mut number = 0;
    loop {
        match role {
            Role::Sends => {
                let bytes = message(number, some_length(number, max_bytes));
                wait::send(&mut channel, &mut spin, &bytes, LONG).unwrap();
                number += 1;
            }
            Role::Receives => {
                wait::recv_into(&mut channel, &mut spin, &mut buffer, LONG).unwrap();
            }
            Role::Idles => std::thread::sleep(Duration::from_secs(1)),
        }
    }
}

/// The child's program: a test that does nothing when it is run as one.
#[test]
fn peer_process() {
    if std::env::var_os(IS_CHILD).is_none() {
        return;
    }
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    assert!(poll(&[(stdin.as_fd(), Interest::Read)], Some(deadline())).unwrap()[0].readable);
    let mut buffer = [0; 64];
    let received = socket::receive(&stdin, &mut buffer).unwrap();
    let order = std::str::from_utf8(&buffer[..received.length]).unwrap();
    let [carrier, role, round] = order.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let role = ROLES[role.parse::<usize>().unwrap()];
    let round = round.parse().unwrap();
    match carrier {
        Shm::NAME => play::<Shm>(role, round, received.fds),
        Window::NAME => play::<Window>(role, round, received.fds),
        UnixStream::NAME => play::<UnixStream>(role, round, received.fds),
        Tcp::NAME => play::<Tcp>(role, round, received.fds),
        other => panic!("{other}"),
    }
}

/// A peer process, and this side's end of the channel to it.
fn with_peer<C: Carrier>(role: Role, round: u64) -> (Process, C::Channel) {
    let (ends_a, ends_b) = C::ends(config(round));
    let (ours, theirs) = socket::pair(Kind::Packet).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["death::peer_process", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(IS_CHILD, "1").stdin(Stdio::from(theirs)).stdout(Stdio::null());
    let process = Process::start(&mut command, &[]).unwrap();
    let order = format!("{} {} {round}", C::NAME, role as usize);
    let fds: Vec<_> = ends_b.iter().map(AsFd::as_fd).collect();
    socket::send(&ours, order.as_bytes(), &fds).unwrap();
    drop((ends_b, command));
    let mut channel = C::open(ends_a, Side::A, hello(config(round)), deadline()).unwrap();
    assert_eq!(recv(&mut channel, 0), b"here");
    (process, channel)
}

/// Kills the peer a little later while `wait` goes on.
fn killed_during<R>(mut process: Process, random: &mut Random, wait: impl FnOnce() -> R) -> R {
    let delay = Duration::from_micros(random.below(3_000));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(delay);
            process.destroy();
        });
        wait()
    })
}

const ROUNDS: u64 = 12;

pub(crate) fn of_a_sender<C: Carrier>() {
    let mut random = Random(0x5eed);
    for round in 0..ROUNDS {
        let (process, mut channel) = with_peer::<C>(Role::Sends, round);
        let max_bytes = channel.limits().max_message_bytes;
        let spin_ns = if round % 2 == 0 { 0 } else { 50_000 };
        let mut number = 0;
        let end = killed_during(process, &mut random, || {
            recv_until_end(&mut channel, spin_ns, |bytes| {
                check(bytes, number, some_length(number, max_bytes));
                number += 1;
            })
        });
        assert_eq!(end, ChannelError::PeerDied, "after {number} messages");
        assert_eq!(channel.try_recv_into(&mut Vec::new()), Err(ChannelError::PeerDied));
        assert_eq!(channel.try_send(b"to nobody"), Err(ChannelError::PeerDied));
    }
}

/// The receiver polls and never sleeps.
pub(crate) fn seen_by_a_poller<C: Carrier>() {
    let mut random = Random(0xca11);
    for round in 0..ROUNDS {
        let role = if round % 2 == 0 { Role::Sends } else { Role::Idles };
        let (process, mut channel) = with_peer::<C>(role, round);
        let max_bytes = channel.limits().max_message_bytes;
        let (mut number, mut buffer) = (0, Vec::new());
        let end = killed_during(process, &mut random, || {
            let deadline = deadline();
            loop {
                match channel.try_recv_into(&mut buffer) {
                    Ok(Some(_)) => {
                        check(&buffer, number, some_length(number, max_bytes));
                        number += 1;
                    }
                    Ok(None) => assert!(!deadline.passed(), "a poller never learned of its peer's death"),
                    Err(error) => break error,
                }
            }
        });
        assert_eq!(end, ChannelError::PeerDied);
    }
}

/// Of one that receives, and of one that does not, so that the sender soon sleeps for room.
pub(crate) fn of_a_receiver<C: Carrier>() {
    let mut random = Random(0xdead);
    for round in 0..ROUNDS {
        let role = if round % 2 == 0 { Role::Receives } else { Role::Idles };
        let (process, mut channel) = with_peer::<C>(role, round);
        let bytes = message(1, channel.limits().max_message_bytes / 2);
        let end = killed_during(process, &mut random, || {
            let mut spin = Spin::new(if round % 3 == 0 { 0 } else { 50_000 });
            loop {
                if let Err(error) = wait::send(&mut channel, &mut spin, &bytes, LONG) {
                    return error;
                }
            }
        });
        assert_eq!(end, ChannelError::PeerDied);
        let end = recv_until_end(&mut channel, 0, |_| panic!("it sent nothing"));
        assert_eq!(end, ChannelError::PeerDied);
    }
}

pub(crate) fn of_one_among_several<C: Carrier>() {
    let (mut alive, mut channel) = with_peer::<C>(Role::Idles, 0);
    let mut random = Random(0xfeed);
    let (process, mut doomed) = with_peer::<C>(Role::Idles, 1);
    let index = killed_during(process, &mut random, || {
        wait::any(&mut [&mut channel, &mut doomed], &mut Spin::new(0), LONG, 0)
    });
    assert_eq!(index, Ok(1));
    assert_eq!(doomed.try_recv_into(&mut Vec::new()), Err(ChannelError::PeerDied));
    assert!(!channel.readable());
    alive.destroy();
}

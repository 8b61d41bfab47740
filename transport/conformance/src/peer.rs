//! Peers that can be killed.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Duration;

use tombolo_link::{ChannelConfig, Hello, Side};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::process::Process;
use tombolo_platform::socket::{self, SocketKind};
use tombolo_ring::SlotSize;
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::{ChannelError, TransportExt};

use crate::carrier::{Carrier, hello, shape};
use crate::messages::{message, message_length};
use crate::patience::{deadline, patience};
use crate::subject::{AnyEnd, Subject};

const PEER_VARIABLE: &str = "TOMBOLO_CONFORMANCE_PEER";

/// Peer that the suite will kill.
pub trait KillablePeer: Send {
    /// Kills the peer between two instructions, without notice.
    fn kill(&mut self);
}

/// Activity of a peer on its end, after it has reported that it is ready, until it is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Sends messages numbered from 0.
    Sends,
    /// Receives everything.
    Receives,
    /// Does nothing.
    Idles,
}

const ROLES: [Role; 3] = [Role::Sends, Role::Receives, Role::Idles];

/// Instructions for a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerTask {
    /// Activity of the peer on its end.
    pub role: Role,
    /// Round of a case, which determines the configuration of the channel and whether the peer spins or
    /// sleeps.
    pub round: u64,
}

impl PeerTask {
    /// Returns the configuration of the channel.
    #[must_use]
    pub fn config<C: Carrier>(self) -> ChannelConfig {
        let variant = Subject::of::<C>().variant_of_round(self.round);
        shape(SlotSize::B64, [2, 16, 256][(self.round % 3) as usize], variant)
    }

    /// Returns how long the peer spins before it sleeps, in nanoseconds.
    #[must_use]
    pub fn spin_ns(self) -> u64 {
        if self.round.is_multiple_of(5) { 0 } else { 10_000 }
    }

    fn to_text(self, carrier: &str) -> String {
        format!("{carrier} {} {}", self.role as usize, self.round)
    }

    fn from_text(text: &str) -> Option<(&str, PeerTask)> {
        let [carrier, role, round] = text.split(' ').collect::<Vec<_>>().try_into().ok()?;
        let role = *ROLES.get(role.parse::<usize>().ok()?)?;
        Some((carrier, PeerTask { role, round: round.parse().ok()? }))
    }
}

/// Executes `task` on side B until the channel ends.
///
/// # Errors
/// The error with which the channel ended.
pub fn run_peer<C: Carrier>(end: C::End, task: PeerTask) -> Result<(), ChannelError> {
    run_task(&Subject::of::<C>(), Box::new(end), hello(task.config::<C>()), task)
}

fn run_task(subject: &Subject, end: AnyEnd, hello: Hello, task: PeerTask) -> Result<(), ChannelError> {
    let mut channel = subject.checked(subject.open(end, Side::B, hello, deadline())?);
    let (mut spin, mut buffer) = (Spin::new(task.spin_ns()), Vec::new());
    wait::send(&mut channel, &mut spin, b"here", patience())?;
    let max_bytes = channel.max_message_bytes();
    let mut number = 0;
    loop {
        match task.role {
            Role::Sends => {
                let bytes = message(number, message_length(number, max_bytes));
                wait::send(&mut channel, &mut spin, &bytes, patience())?;
                number += 1;
            }
            Role::Receives => {
                wait::recv_into(&mut channel, &mut spin, &mut buffer, patience())?;
            }
            Role::Idles => std::thread::sleep(Duration::from_secs(1)),
        }
    }
}

impl KillablePeer for Process {
    fn kill(&mut self) {
        self.destroy();
    }
}

/// Implements [`Carrier::spawn_killable_peer`] for ends that are descriptors: the peer is this program in a
/// process of its own, which gets its end over a socket on its standard input.
#[must_use]
pub fn spawn_process_peer<C: Carrier<End = Vec<OwnedFd>>>(
    task: PeerTask,
) -> (C::Channel, Box<dyn KillablePeer>) {
    let (end_a, end_b) = C::ends(task.config::<C>());
    let (ours, theirs) = socket::pair(SocketKind::Packet).expect("a socket pair");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(PEER_VARIABLE, "1").stdin(Stdio::from(theirs)).stdout(Stdio::null());
    let process = Process::start(&mut command, &[]).expect("this program starts again");
    let descriptors: Vec<_> = end_b.iter().map(AsFd::as_fd).collect();
    socket::send(&ours, task.to_text(C::NAME).as_bytes(), &descriptors).expect("the peer is told");
    drop((end_b, command));
    let channel = C::open(end_a, Side::A, hello(task.config::<C>()), deadline()).expect("a channel");
    (channel, Box::new(process))
}

/// Returns the carrier's name, the task and the received end, in a process that is a peer.
pub(crate) fn receive_task() -> Option<(String, PeerTask, Vec<OwnedFd>)> {
    std::env::var_os(PEER_VARIABLE)?;
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().expect("standard input");
    let ready = poll(&[(stdin.as_fd(), Interest::Read)], Some(deadline())).expect("a socket");
    assert!(ready[0].readable, "a peer process was told nothing");
    let mut buffer = [0; 64];
    let received = socket::receive(&stdin, &mut buffer).expect("a task");
    let text = std::str::from_utf8(&buffer[..received.length]).expect("text");
    let (carrier, task) = PeerTask::from_text(text).expect("a task");
    Some((carrier.to_owned(), task, received.fds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_task_round_trips() {
        for role in ROLES {
            let task = PeerTask { role, round: 7 };
            assert_eq!(PeerTask::from_text(&task.to_text("shm")), Some(("shm", task)));
        }
        for text in ["", "shm", "shm 1", "shm 3 1", "shm x 1", "shm 1 1 1"] {
            assert_eq!(PeerTask::from_text(text), None, "{text}");
        }
    }
}

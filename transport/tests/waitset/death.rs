//! Killed and hostile peers next to healthy ones.

use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use tombolo_platform::event::{Interest, poll};
use tombolo_platform::process::Process;
use tombolo_platform::socket::{self, SocketKind};
use tombolo_transport::wait::{self, Spin};
use tombolo_transport::waitset::{Ready, Token};
use tombolo_transport::{EndError, MemoryChannel, Transport, WaitSet, shm};

use crate::pairs::{MAX_WAIT, Shm, deadline, finds_nothing, hello, next_channel, recv, set_with_channels};

const CHILD_VARIABLE: &str = "TOMBOLO_TEST_PEER";
const CHANNELS_PER_PEER: usize = 40;

/// Program of the child, a test that does nothing when run as one: it opens channels and communicates over
/// every other one.
#[test]
fn peer_process() {
    if std::env::var_os(CHILD_VARIABLE).is_none() {
        return;
    }
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let mut channels = Vec::new();
    while channels.len() < CHANNELS_PER_PEER {
        assert!(poll(&[(stdin.as_fd(), Interest::Read)], Some(deadline())).unwrap()[0].readable);
        let mut received = socket::receive(&stdin, &mut [0; 8]).unwrap();
        channels.push(shm::accept(received.fds.remove(0), hello(), deadline()).unwrap());
    }
    loop {
        for channel in channels.iter_mut().step_by(2) {
            wait::send(channel, &mut Spin::new(0), b"alive", MAX_WAIT).unwrap();
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn add_peer(set: &mut WaitSet<MemoryChannel>) -> (Process, Vec<Token>) {
    let (ours, theirs) = socket::pair(SocketKind::Packet).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["death::peer_process", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(CHILD_VARIABLE, "1").stdin(Stdio::from(theirs)).stdout(Stdio::null());
    let process = Process::start(&mut command, &[]).unwrap();
    drop(command);
    let tokens = (0..CHANNELS_PER_PEER).map(|_| {
        let (near, far) = socket::pair(SocketKind::Stream).unwrap();
        socket::send(&ours, b"take it", &[far.as_fd()]).unwrap();
        drop(far);
        set.add(shm::connect(near, hello(), deadline()).unwrap(), Interest::Read).unwrap()
    });
    (process, tokens.collect())
}

#[test]
fn each_killed_peer_is_reported_and_the_others_continue() {
    for round in 0..4 {
        let mut set = WaitSet::new().unwrap();
        set.set_spin(Spin::new(if round % 2 == 0 { 0 } else { 20_000 }));
        let (mut victim, mut doomed) = add_peer(&mut set);
        let (mut other, spared) = add_peer(&mut set);
        let mut killed = false;
        let (mut heard, mut received_since) = (0, 0);
        while !doomed.is_empty() || received_since < 200 {
            let token = next_channel(&mut set);
            match recv(&mut set, token) {
                Ok(Some(message)) => {
                    assert_eq!(message, b"alive");
                    heard += 1;
                    received_since += usize::from(killed && spared.contains(&token));
                }
                Ok(None) => panic!("{token:?} was told and has nothing"),
                Err(error) => {
                    assert_eq!(error, EndError::PeerDied);
                    let index = doomed
                        .iter()
                        .position(|known| *known == token)
                        .expect("it was killed, or told twice");
                    doomed.swap_remove(index);
                    drop(set.remove(token).unwrap());
                }
            }
            if !killed && heard > round * 50 {
                victim.destroy();
                killed = true;
            }
        }
        assert_eq!(set.len(), CHANNELS_PER_PEER);
        other.destroy();
        let mut gone = 0;
        while gone < CHANNELS_PER_PEER {
            let token = next_channel(&mut set);
            if let Err(error) = recv(&mut set, token) {
                assert_eq!(error, EndError::PeerDied);
                set.remove(token);
                gone += 1;
            }
        }
        assert!(set.is_empty() && finds_nothing(&mut set));
    }
}

/// A peer that violates the protocol, and one that rings endlessly, affect only their own channels and cost a
/// few polls.
#[test]
fn hostile_peers_affect_no_other_channel() {
    for spin_ns in [0, 20_000] {
        let (mut set, tokens, mut far) = set_with_channels::<Shm>(3);
        set.set_spin(Spin::new(spin_ns));
        let (near, bell) = socket::pair(SocketKind::Stream).unwrap();
        let (theirs, ours) = (near.try_clone().unwrap(), bell);
        drop(near);
        let ringing = std::thread::spawn(move || {
            let channel = shm::accept(ours.try_clone().unwrap(), hello(), deadline()).unwrap();
            // The other side closes when it has enough.
            let until = deadline();
            while !until.passed() {
                match socket::send(&ours, &[1; 64], &[]) {
                    Ok(_) | Err(tombolo_platform::Errno::AGAIN) => std::thread::yield_now(),
                    Err(_) => break,
                }
            }
            drop(channel);
        });
        let flooded = set.add(shm::connect(theirs, hello(), deadline()).unwrap(), Interest::Read).unwrap();
        let broken = far.remove(2).into_raw_memory();
        for offset in (512..broken.memory.len_bytes()).step_by(8).map(|offset| offset / 8) {
            broken.memory.store_le(offset, 0xdead_beef_dead_beef, tombolo_base::sync::Ordering::Relaxed);
        }
        let ready = set.wait(Duration::from_millis(20)).unwrap();
        assert_ne!(ready, Some(Ready::Channel(flooded)), "it rang, and has nothing");
        for number in 0..200_u32 {
            far[number as usize % 2].try_send(&number.to_le_bytes()).unwrap();
            loop {
                let token = next_channel(&mut set);
                if token == tokens[2] {
                    // For anything that it sends, only this channel is affected.
                    if recv(&mut set, token).is_err() {
                        set.remove(token);
                    }
                    continue;
                }
                assert_eq!(token, tokens[number as usize % 2]);
                assert_eq!(recv(&mut set, token).unwrap().unwrap(), number.to_le_bytes());
                break;
            }
        }
        drop(set);
        ringing.join().unwrap();
    }
}

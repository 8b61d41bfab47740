//! The program of a relay: a domain that joins channels between nodes without a link.
//!
//! Monitors start it. It exports a name, which tells the root that it is ready, and then gets two ends of
//! each channel that it is to join: one towards the domain that connected, one towards the domain that
//! accepts. One thread forwards the messages of all channels, one takes in new ends, and each channel is
//! opened on a thread of its own, which ends with the handshake.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tombolo_base::ChannelId;
use tombolo_control::{Grant, RELAY_PROGRAM};
use tombolo_link::{ChannelConfig, Side};
use tombolo_platform::{Deadline, OsError};
use tombolo_transport::Joint;
use tombolo_transport::relay::{Beyond, Forwarder, Joined, join};
use tombolo_transport::waitset::Waker;

use crate::domain::Domain;
use crate::error::Error;
use crate::joint::joint;
use crate::listener::Listener;

/// How long the domain that connects may take to say hello. It has connected already.
const HELLO_TIMEOUT: Duration = Duration::from_secs(60);

/// Channels that may be in their handshakes at once. Each has a thread.
const MAX_OPENING: usize = 1024;

/// The stack of a thread that performs a handshake, in bytes.
const OPENING_STACK_BYTES: usize = 128 * 1024;

/// A wait that ends with what it waits for.
const LONG: Duration = Duration::from_secs(3600);

/// A route that is open, and what is beyond its hops.
type NewRoute = (Joined, [Beyond; 2]);

/// Relays channels until the monitor of this node is gone.
///
/// # Errors
/// This process is not a domain of a machine, or the kernel refused something.
pub fn serve() -> Result<(), Error> {
    let domain = Domain::attach()?;
    let listener = domain.export(RELAY_PROGRAM)?;
    let mut forwarder = Forwarder::new()?;
    let (routes, new_routes) = channel();
    let waker = forwarder.waker();
    let start = std::thread::Builder::new().name("ends".into());
    start
        .spawn(move || {
            // The monitor is gone, and with it this domain.
            let _ = take_ends(&listener, &routes, &waker);
            drop(routes);
            waker.wake();
        })
        .map_err(|error| OsError::from_io("start a thread", &error))?;
    let result = forward(&mut forwarder, &new_routes);
    // Not closed in order: the ends must learn that the relay is gone.
    forwarder.abandon();
    result
}

/// Moves messages until no new routes can come.
fn forward(forwarder: &mut Forwarder, new_routes: &Receiver<NewRoute>) -> Result<(), Error> {
    use std::sync::mpsc::TryRecvError;
    loop {
        loop {
            match new_routes.try_recv() {
                Ok((joined, beyond)) => forwarder.add(joined, beyond),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
        forwarder.turn(LONG)?;
    }
}

/// An end of a channel whose other end has not come yet; `None` when it cannot be used.
struct Waiting {
    grant: Grant,
    joint: Option<Joint>,
}

/// Takes in the ends of channels and opens each channel that has both.
fn take_ends(listener: &Listener, routes: &Sender<NewRoute>, waker: &Waker) -> Result<(), Error> {
    let mut waiting: HashMap<ChannelId, Waiting> = HashMap::new();
    let opening = Arc::new(AtomicUsize::new(0));
    loop {
        let (grant, fds) = match next_end(listener) {
            Err(Error::TimedOut { .. }) => continue,
            end => end?,
        };
        let joint = joint(&grant, fds).ok();
        let end = Waiting { grant, joint };
        match waiting.remove(&end.grant.channel) {
            None => {
                waiting.insert(end.grant.channel, end);
            }
            Some(other) => open(other, end, &opening, routes, waker),
        }
    }
}

fn next_end(listener: &Listener) -> Result<(Grant, Vec<OwnedFd>), Error> {
    let number = listener.number();
    listener
        .link()
        .wait(LONG, "an end of a channel to relay", |arrived| arrived.incoming.get_mut(&number)?.pop_front())
}

/// What is at the other end of a hop: the domain itself, or the first relay on the way to it.
fn beyond(grant: &Grant) -> Beyond {
    grant.via.first().map_or(Beyond::End, |relay| Beyond::Relay(relay.node))
}

/// Opens a channel on a thread of its own. Ends that cannot be opened are dropped, which shows their peers
/// that this relay is of no use to them.
fn open(one: Waiting, other: Waiting, opening: &Arc<AtomicUsize>, routes: &Sender<NewRoute>, waker: &Waker) {
    let (near, far) = if one.grant.side == Side::B { (one, other) } else { (other, one) };
    if near.grant.side != Side::B || far.grant.side != Side::A {
        return;
    }
    let (Some(near_joint), Some(far_joint)) = (near.joint, far.joint) else { return };
    if opening.fetch_add(1, Ordering::Relaxed) >= MAX_OPENING {
        opening.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let (config, beyond): (ChannelConfig, _) = (near.grant.config, [beyond(&near.grant), beyond(&far.grant)]);
    let (routes, waker, count) = (routes.clone(), waker.clone(), Arc::clone(opening));
    let started = std::thread::Builder::new().stack_size(OPENING_STACK_BYTES).spawn(move || {
        let deadline = Deadline::after(HELLO_TIMEOUT);
        if let Ok(joined) = join((near_joint, far_joint), config, beyond, deadline) {
            // If the other thread is gone, so is the monitor.
            let _ = routes.send((joined, beyond));
            waker.wake();
        }
        count.fetch_sub(1, Ordering::Relaxed);
    });
    if started.is_err() {
        opening.fetch_sub(1, Ordering::Relaxed);
    }
}

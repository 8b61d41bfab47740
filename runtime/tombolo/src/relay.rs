//! Main function of a relay: a domain that connects channels between nodes without a link.
//!
//! Monitors start it. It exports a name, which signals readiness to the root, and then receives two ends of
//! each channel to connect: one towards the domain that connected, one towards the domain that accepts. One
//! thread forwards the messages of all channels, one receives new ends, and each channel is opened on a
//! separate thread, which ends after the handshake.

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
use tombolo_transport::PendingChannel;
use tombolo_transport::relay::{Forwarder, HopPeer, OpenRoute, join};
use tombolo_transport::waitset::Waker;

use crate::channel_descriptors::pending_channel;
use crate::domain::Domain;
use crate::error::Error;
use crate::listener::Listener;

/// Timeout for the handshake with the domain that connects, which has connected already.
const HELLO_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of channels in the handshake at a time. Each has a thread.
const MAX_OPENING: usize = 1024;

/// Stack size of a thread that performs a handshake, in bytes.
const OPENING_STACK_BYTES: usize = 128 * 1024;

/// Timeout of waits that end with the event that they wait for.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Open route, and what is beyond its two hops.
type NewRoute = (OpenRoute, [HopPeer; 2]);

/// Relays channels until the monitor of this node has ended.
///
/// # Errors
/// An error if this process is not a domain of a machine, or the kernel refused something.
pub fn serve() -> Result<(), Error> {
    let domain = Domain::attach()?;
    let listener = domain.export(RELAY_PROGRAM)?;
    let mut forwarder = Forwarder::new()?;
    let (routes, new_routes) = channel();
    let waker = forwarder.waker();
    let start = std::thread::Builder::new().name("ends".into());
    start
        .spawn(move || {
            // The monitor has ended, and with it this domain.
            let _ = accept_ends(&listener, &routes, &waker);
            drop(routes);
            waker.wake();
        })
        .map_err(|error| OsError::from_io("start a thread", &error))?;
    let result = forward(&mut forwarder, &new_routes);
    // Not closed in order: the ends must detect that the relay has ended.
    forwarder.abandon();
    result
}

/// Forwards messages until no new routes can arrive.
fn forward(forwarder: &mut Forwarder, new_routes: &Receiver<NewRoute>) -> Result<(), Error> {
    use std::sync::mpsc::TryRecvError;
    loop {
        loop {
            match new_routes.try_recv() {
                Ok((joined, hop_peer)) => forwarder.add(joined, hop_peer),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
        forwarder.run_once(MAX_WAIT)?;
    }
}

/// End of a channel whose other end has not arrived yet; `channel` is `None` if it cannot be used.
struct PendingEnd {
    grant: Grant,
    channel: Option<PendingChannel>,
}

/// Receives the ends of channels and opens each channel that has both.
fn accept_ends(listener: &Listener, routes: &Sender<NewRoute>, waker: &Waker) -> Result<(), Error> {
    let mut waiting: HashMap<ChannelId, PendingEnd> = HashMap::new();
    let opening = Arc::new(AtomicUsize::new(0));
    loop {
        let (grant, fds) = match next_end(listener) {
            Err(Error::TimedOut { .. }) => continue,
            end => end?,
        };
        let channel = pending_channel(&grant, fds).ok();
        let end = PendingEnd { grant, channel };
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
    listener.link().wait(MAX_WAIT, "an end of a channel to relay", |arrived| {
        arrived.incoming.get_mut(&number)?.pop_front()
    })
}

/// Returns what is at the other end of a hop: the domain itself, or the first relay on the way to it.
fn hop_peer(grant: &Grant) -> HopPeer {
    grant.via.first().map_or(HopPeer::End, |relay| HopPeer::Relay(relay.node))
}

/// Opens a channel on a separate thread. Ends that cannot be opened are dropped, so that their peers see this
/// relay end.
fn open(
    one: PendingEnd,
    other: PendingEnd,
    opening: &Arc<AtomicUsize>,
    routes: &Sender<NewRoute>,
    waker: &Waker,
) {
    let (near, far) = if one.grant.side == Side::B { (one, other) } else { (other, one) };
    if near.grant.side != Side::B || far.grant.side != Side::A {
        return;
    }
    let (Some(near_channel), Some(far_channel)) = (near.channel, far.channel) else { return };
    if opening.fetch_add(1, Ordering::Relaxed) >= MAX_OPENING {
        opening.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let (config, hop_peers): (ChannelConfig, _) =
        (near.grant.config, [hop_peer(&near.grant), hop_peer(&far.grant)]);
    let (routes, waker, count) = (routes.clone(), waker.clone(), Arc::clone(opening));
    let started = std::thread::Builder::new().stack_size(OPENING_STACK_BYTES).spawn(move || {
        let deadline = Deadline::after(HELLO_TIMEOUT);
        if let Ok(joined) = join((near_channel, far_channel), config, hop_peers, deadline) {
            // If the other thread has ended, so has the monitor.
            let _ = routes.send((joined, hop_peers));
            waker.wake();
        }
        count.fetch_sub(1, Ordering::Relaxed);
    });
    if started.is_err() {
        opening.fetch_sub(1, Ordering::Relaxed);
    }
}

//! Handshake of a channel that a relay joins.

use std::time::Duration;

use tombolo_link::ChannelConfig;
use tombolo_link::relay::HopPeer;
use tombolo_link::{ChannelLayout, DisconnectReason, Hello, Side};
use tombolo_platform::event::poll;
use tombolo_platform::time::Deadline;

use super::half::{Half, OpenFailure, decode_hello};
use super::hop::Hop;
use crate::pending::PendingChannel;

/// Time for a side that sent its hello to accept the other's answer.
const VERDICT_TIMEOUT: Duration = Duration::from_secs(60);

/// Route whose two channels are open.
#[derive(Debug)]
pub struct OpenRoute {
    /// Channel to the domain that connected.
    pub near: Hop,
    /// Channel to the domain that accepted.
    pub far: Hop,
}

/// Error of two ends that did not open the channel. The reason was reported to each of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the two ends of a relayed channel did not open it")]
pub struct JoinError;

/// Performs the handshake of a channel that is relayed here: `near` leads to the connecting domain, `far` to
/// the accepting one. Each receives the other's hello and verdict as if they were connected directly.
///
/// Waits until `deadline` for the hello of the near side, which is available at once unless that side is
/// slow, and from then on as long as both sides live and wait.
///
/// # Errors
/// [`JoinError`], after both ends were notified.
pub fn join(
    (near, far): (PendingChannel, PendingChannel),
    config: ChannelConfig,
    peers: [HopPeer; 2],
    deadline: Deadline,
) -> Result<OpenRoute, JoinError> {
    let death_reasons = peers.map(|peer| match peer {
        HopPeer::End => DisconnectReason::Died,
        HopPeer::Relay(node) => DisconnectReason::RelayDied(node),
    });
    let (near, hello) = match hello_from(near, config, deadline) {
        Ok(opening) => opening,
        Err(why) => {
            notify_unopened(far, config, &why, death_reasons[0]);
            return Err(JoinError);
        }
    };
    let far = match Half::far(far, hello) {
        Ok(far) => far,
        Err(why) => {
            near.fail(&why, None, death_reasons[1]);
            return Err(JoinError);
        }
    };
    let (near, far) = open_far(near, far, death_reasons)?;
    open_near(near, far, hello, death_reasons)
}

/// Waits for the hello of the side that connects.
fn hello_from(
    pending: PendingChannel,
    config: ChannelConfig,
    deadline: Deadline,
) -> Result<(Half, Hello), OpenFailure> {
    let mut near = Half::near(pending, config, deadline)?;
    loop {
        match near.peek() {
            Ok(Some(words)) => match decode_hello(&words).filter(|hello| fits_config(hello, config)) {
                Some(hello) => return Ok((near, hello)),
                None => {
                    // The hello has another version, or a larger configuration than the domain requested from
                    // its monitor. The other side has this version, or will find another difference.
                    let own = Hello::new(config, words[3], None).to_words();
                    near.fail(&OpenFailure::Refused, Some(own), DisconnectReason::Died);
                    return Err(OpenFailure::Unusable(words));
                }
            },
            Ok(None) if deadline.passed() => {
                near.fail(&OpenFailure::Withdrawn, None, DisconnectReason::Died);
                return Err(OpenFailure::Withdrawn);
            }
            Ok(None) => sleep(&mut [&mut near], Some(deadline)),
            Err(why) => return Err(why),
        }
    }
}

/// Whether a channel with this hello fits into memory that was lent for `config`.
fn fits_config(hello: &Hello, config: ChannelConfig) -> bool {
    ChannelLayout::new(hello.config).length_bytes() <= ChannelLayout::new(config).length_bytes()
}

/// Notifies a side to which nothing was sent yet why there will be no channel.
fn notify_unopened(
    pending: PendingChannel,
    config: ChannelConfig,
    why: &OpenFailure,
    death_reason: DisconnectReason,
) {
    match (why, pending) {
        (OpenFailure::Disconnected(reason), PendingChannel::Shm(socket)) => {
            crate::shm::report_disconnect(&socket, reason.unwrap_or(death_reason));
        }
        (OpenFailure::Broken, PendingChannel::Shm(socket)) => {
            crate::shm::report_disconnect(&socket, DisconnectReason::Broken);
        }
        (OpenFailure::Unusable(words), PendingChannel::Shm(socket)) => {
            if let Ok(half) = Half::for_refusal(socket, config) {
                half.fail(&OpenFailure::Refused, Some(*words), death_reason);
            }
        }
        (OpenFailure::Disconnected(_) | OpenFailure::Broken | OpenFailure::Unusable(_), pending) => {
            let Ok(half) = Half::without_hello(pending, config) else { return };
            match why {
                OpenFailure::Unusable(words) => half.fail(&OpenFailure::Refused, Some(*words), death_reason),
                why => half.fail(why, None, death_reason),
            }
        }
        (_, pending) => pending.withdraw(Side::A),
    }
}

/// Waits until the far side has accepted, or either side has left.
fn open_far(
    mut near: Half,
    mut far: Half,
    death_reasons: [DisconnectReason; 2],
) -> Result<(Half, Half), JoinError> {
    loop {
        match far.step() {
            Ok(true) => return Ok((near, far)),
            Ok(false) => {}
            Err(why) => {
                let theirs = far.peer_hello();
                near.fail(&why, theirs, death_reasons[1]);
                return Err(JoinError);
            }
        }
        if let Some(why) = near.peer_departure() {
            far.fail(&why, None, death_reasons[0]);
            return Err(JoinError);
        }
        sleep(&mut [&mut near, &mut far], None);
    }
}

/// Passes on that the far side accepted, and waits for the near side's verdict.
fn open_near(
    mut near: Half,
    far: Half,
    hello: Hello,
    death_reasons: [DisconnectReason; 2],
) -> Result<OpenRoute, JoinError> {
    // The far side agreed with everything but its own domain.
    let domain = far.peer_hello().and_then(|words| tombolo_base::DomainId::from_bits(words[4]));
    let sent = near.send_hello(Hello { domain, ..hello });
    // Its own hello has arrived, so its verdict follows as soon as it looks.
    let deadline = Deadline::after(VERDICT_TIMEOUT);
    let opened = sent.and_then(|()| {
        loop {
            if near.step()? {
                return Ok(());
            }
            if deadline.passed() {
                return Err(OpenFailure::Withdrawn);
            }
            sleep(&mut [&mut near], Some(deadline));
        }
    });
    let far = far.into_hop().map_err(|_| JoinError)?;
    if opened == Err(OpenFailure::Withdrawn) {
        // Whether it stopped waiting or this side did: notify both.
        near.fail(&OpenFailure::Withdrawn, None, death_reasons[1]);
        abort(far, &OpenFailure::Withdrawn, death_reasons[0]);
        return Err(JoinError);
    }
    match opened {
        Ok(()) => near.into_hop().map(|near| OpenRoute { near, far }).map_err(|_| JoinError),
        Err(why) => {
            abort(far, &why, death_reasons[0]);
            Err(JoinError)
        }
    }
}

/// Notifies a far side that is already open how the near side ended.
fn abort(mut far: Hop, why: &OpenFailure, death_reason: DisconnectReason) {
    use tombolo_link::relay::Hop as _;
    match why {
        OpenFailure::Disconnected(reason) => far.abort(reason.unwrap_or(death_reason)),
        OpenFailure::Broken => far.abort(DisconnectReason::Broken),
        OpenFailure::Refused
        | OpenFailure::Unusable(_)
        | OpenFailure::Declined(_)
        | OpenFailure::Withdrawn => far.close(),
    }
}

/// Sleeps until an event occurs on one of the halves.
fn sleep(halves: &mut [&mut Half], deadline: Option<Deadline>) {
    let mut sources = Vec::with_capacity(4);
    halves.iter().for_each(|half| half.sources(&mut sources));
    // Errors of polling show up in the next read.
    let _ = poll(&sources, deadline);
    drop(sources);
    halves.iter_mut().for_each(|half| half.poll_signals());
}

//! Handshake of a channel that a relay joins.

use std::time::Duration;

use tombolo_link::ChannelConfig;
use tombolo_link::relay::Beyond;
use tombolo_link::{ChannelLayout, FarEnd, Hello, Side};
use tombolo_platform::event::poll;
use tombolo_platform::time::Deadline;

use super::half::{Failed, Half, hello_of};
use super::hop::Hop;
use crate::joint::Joint;

/// Time for a side that sent its hello to accept the other's answer.
const VERDICT_TIMEOUT: Duration = Duration::from_secs(60);

/// Route whose two channels are open.
#[derive(Debug)]
pub struct Joined {
    /// Channel to the domain that connected.
    pub near: Hop,
    /// Channel to the domain that accepted.
    pub far: Hop,
}

/// Error of two ends that did not open the channel. The reason was reported to each of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the two ends of a relayed channel did not open it")]
pub struct NotJoined;

/// Performs the handshake of a channel that is relayed here: `near` leads to the connecting domain, `far` to
/// the accepting one. Each receives the other's hello and verdict as if they were connected directly.
///
/// Waits until `deadline` for the hello of the near side, which is available at once unless that side is
/// slow, and from then on as long as both sides live and wait.
///
/// # Errors
/// [`NotJoined`], after both ends were notified.
pub fn join(
    (near, far): (Joint, Joint),
    config: ChannelConfig,
    beyond: [Beyond; 2],
    deadline: Deadline,
) -> Result<Joined, NotJoined> {
    let died = beyond.map(|beyond| match beyond {
        Beyond::End => FarEnd::Died,
        Beyond::Relay(node) => FarEnd::RelayDied(node),
    });
    let (near, hello) = match hello_from(near, config, deadline) {
        Ok(said) => said,
        Err(why) => {
            tell_unopened(far, config, &why, died[0]);
            return Err(NotJoined);
        }
    };
    let far = match Half::far(far, hello) {
        Ok(far) => far,
        Err(why) => {
            near.fail(&why, None, died[1]);
            return Err(NotJoined);
        }
    };
    let (near, far) = open_far(near, far, died)?;
    open_near(near, far, hello, died)
}

/// Waits for the hello of the side that connects.
fn hello_from(joint: Joint, config: ChannelConfig, deadline: Deadline) -> Result<(Half, Hello), Failed> {
    let mut near = Half::near(joint, config, deadline)?;
    loop {
        match near.peek() {
            Ok(Some(words)) => match hello_of(&words).filter(|hello| fits(hello, config)) {
                Some(hello) => return Ok((near, hello)),
                None => {
                    // The hello has another version, or a larger configuration than the domain requested from
                    // its monitor. The other side has this version, or will find another difference.
                    let own = Hello::new(config, words[3], None).to_words();
                    near.fail(&Failed::Refused, Some(own), FarEnd::Died);
                    return Err(Failed::Unusable(words));
                }
            },
            Ok(None) if deadline.passed() => {
                near.fail(&Failed::Withdrawn, None, FarEnd::Died);
                return Err(Failed::Withdrawn);
            }
            Ok(None) => sleep(&mut [&mut near], Some(deadline)),
            Err(why) => return Err(why),
        }
    }
}

/// Whether a channel with this hello fits into memory that was lent for `config`.
fn fits(hello: &Hello, config: ChannelConfig) -> bool {
    ChannelLayout::new(hello.config).length_bytes() <= ChannelLayout::new(config).length_bytes()
}

/// Notifies a side to which nothing was sent yet why there will be no channel.
fn tell_unopened(joint: Joint, config: ChannelConfig, why: &Failed, died: FarEnd) {
    match (why, joint) {
        (Failed::Gone(told), Joint::Shm(socket)) => {
            crate::shm::tell_far_end(&socket, told.unwrap_or(died));
        }
        (Failed::Broken, Joint::Shm(socket)) => crate::shm::tell_far_end(&socket, FarEnd::Broken),
        (Failed::Unusable(words), Joint::Shm(socket)) => {
            if let Ok(half) = Half::refusing(socket, config) {
                half.fail(&Failed::Refused, Some(*words), died);
            }
        }
        (Failed::Gone(_) | Failed::Broken | Failed::Unusable(_), joint) => {
            let Ok(half) = Half::silent(joint, config) else { return };
            match why {
                Failed::Unusable(words) => half.fail(&Failed::Refused, Some(*words), died),
                why => half.fail(why, None, died),
            }
        }
        (_, joint) => joint.withdraw(Side::A),
    }
}

/// Waits until the far side has accepted, or either side has left.
fn open_far(mut near: Half, mut far: Half, died: [FarEnd; 2]) -> Result<(Half, Half), NotJoined> {
    loop {
        match far.step() {
            Ok(true) => return Ok((near, far)),
            Ok(false) => {}
            Err(why) => {
                let theirs = far.peer_hello();
                near.fail(&why, theirs, died[1]);
                return Err(NotJoined);
            }
        }
        if let Some(why) = near.has_left() {
            far.fail(&why, None, died[0]);
            return Err(NotJoined);
        }
        sleep(&mut [&mut near, &mut far], None);
    }
}

/// Passes on that the far side accepted, and waits for the near side's verdict.
fn open_near(mut near: Half, far: Half, hello: Hello, died: [FarEnd; 2]) -> Result<Joined, NotJoined> {
    // The far side agreed with everything but its own domain.
    let domain = far.peer_hello().and_then(|words| tombolo_base::DomainId::from_bits(words[4]));
    let said = near.say(Hello { domain, ..hello });
    // Its own hello has arrived, so its verdict follows as soon as it looks.
    let deadline = Deadline::after(VERDICT_TIMEOUT);
    let opened = said.and_then(|()| {
        loop {
            if near.step()? {
                return Ok(());
            }
            if deadline.passed() {
                return Err(Failed::Withdrawn);
            }
            sleep(&mut [&mut near], Some(deadline));
        }
    });
    let far = far.into_hop().map_err(|_| NotJoined)?;
    if opened == Err(Failed::Withdrawn) {
        // Whether it stopped waiting or this side did: notify both.
        near.fail(&Failed::Withdrawn, None, died[1]);
        leave(far, &Failed::Withdrawn, died[0]);
        return Err(NotJoined);
    }
    match opened {
        Ok(()) => near.into_hop().map(|near| Joined { near, far }).map_err(|_| NotJoined),
        Err(why) => {
            leave(far, &why, died[0]);
            Err(NotJoined)
        }
    }
}

/// Notifies a far side that is already open how the near side ended.
fn leave(mut far: Hop, why: &Failed, died: FarEnd) {
    use tombolo_link::relay::Hop as _;
    match why {
        Failed::Gone(told) => far.leave(told.unwrap_or(died)),
        Failed::Broken => far.leave(FarEnd::Broken),
        Failed::Refused | Failed::Unusable(_) | Failed::Declined(_) | Failed::Withdrawn => far.close(),
    }
}

/// Sleeps until an event occurs on one of the halves.
fn sleep(halves: &mut [&mut Half], deadline: Option<Deadline>) {
    let mut sources = Vec::with_capacity(4);
    halves.iter().for_each(|half| half.sources(&mut sources));
    // Errors of polling show up in the next read.
    let _ = poll(&sources, deadline);
    drop(sources);
    halves.iter_mut().for_each(|half| half.listen());
}

//! One link: starting a peer at its far side, measuring, and ending the peer.

use std::time::{Duration, Instant};

use tombolo::channel::Either;
use tombolo::nodes::NodeInfo;
use tombolo::{Channel, ChannelOptions, Child, Domain, Exit, Listener, SpawnOptions, TransportKind};
use tombolo_bench_far::ring::peer::{OPEN, back_name, opener_makes_memory, sleeper_name};

use super::near::{self, Figures};
use super::{Ends, Error, Options, PeerArguments};
use crate::sample::Clock;

/// How long a peer may take to end once it was told to, or once it failed.
const END: Duration = Duration::from_secs(5);

/// Between two looks whether a peer that does not connect has ended.
const LOOK: Duration = Duration::from_millis(200);

/// Measures the link to `node`.
pub(super) fn measure(
    domain: &Domain,
    node: &NodeInfo,
    options: &Options,
    peer_cpu: Option<usize>,
    clock: Clock,
    progress: &mut dyn FnMut(&str),
) -> Result<(TransportKind, Figures), Error> {
    if !node.up {
        return Err(Error::NodeDown { node: node.name.clone(), cause: node.cause.clone() });
    }
    progress("starting the peer");
    let shape = options.shape.options()?;
    let name = format!("bench/{}/{}", domain.id(), node.name);
    let listener = shape.export(domain, &name)?;
    // A name is one listener's, so all channels have its options; the ends that sleep at once are asked for
    // by another name.
    let sleeper = shape.clone().spin_ns(0).export(domain, &sleeper_name(&name))?;
    let arguments = PeerArguments { name, shape: options.shape, cpu: peer_cpu };
    let spawn = SpawnOptions::image(&options.image).on(&node.name).args(arguments.to_arguments());
    let child = domain.spawn(&spawn)?;
    let roomy = options.shape.roomy().options()?;
    let result = open(domain, &listener, &sleeper, (&child, &arguments, &roomy)).and_then(|mut ends| {
        let transport = ends.ring.transport();
        near::measure(&mut ends, clock, &options.schedule, progress).map(|figures| (transport, figures))
    });
    finish(&child, result)
}

fn open(
    domain: &Domain,
    listener: &Listener,
    sleeper: &Listener,
    (child, arguments, roomy): (&Child, &PeerArguments, &ChannelOptions),
) -> Result<Ends<Channel>, Error> {
    let ring = accept(child, |timeout| listener.within(timeout).accept())?;
    let raw = accept(child, |timeout| listener.within(timeout).accept())?
        .into_raw_memory()
        .and_then(Either::coherent);
    let wake = accept(child, |timeout| sleeper.within(timeout).accept())?;
    let own = if opener_makes_memory(&ring) {
        roomy
            .connect(&domain.within(OPEN), back_name(&arguments.name))?
            .into_raw_memory()
            .and_then(Either::coherent)
    } else {
        None
    };
    Ok(Ends { ring, raw, own, wake })
}

/// Accepts the peer's next channel, unless it ends before.
pub(crate) fn accept<T>(
    child: &Child,
    mut accept: impl FnMut(Duration) -> Result<T, tombolo::Error>,
) -> Result<T, Error> {
    let start = Instant::now();
    loop {
        match accept(LOOK) {
            Err(tombolo::Error::TimedOut { .. }) if start.elapsed() < OPEN => {
                if let Ok(exit) = child.wait(Duration::ZERO) {
                    return Err(ended(child, &exit));
                }
            }
            result => return Ok(result?),
        }
    }
}

/// Sees the peer to its end. If it failed by itself, that is why the measurement did.
pub(crate) fn finish<T>(child: &Child, result: Result<T, Error>) -> Result<T, Error> {
    match result {
        Ok(measured) => match child.wait(END) {
            Ok(Exit::Exited { status: 0 }) => Ok(measured),
            Ok(exit) => Err(ended(child, &exit)),
            Err(error) => {
                child.kill()?;
                Err(error.into())
            }
        },
        Err(Error::Tombolo(error)) if error.is_peer_gone() => match child.wait(END) {
            Ok(exit) => Err(ended(child, &exit)),
            Err(_) => {
                child.kill()?;
                Err(error.into())
            }
        },
        Err(error) => {
            child.kill()?;
            Err(error)
        }
    }
}

/// The error of a peer that ended so.
pub(crate) fn ended(child: &Child, exit: &Exit) -> Error {
    let exit = match exit {
        Exit::Exited { status } => format!("status {status}"),
        Exit::Signalled { signal } => format!("killed by signal {signal}"),
        Exit::NodeLost { cause } => format!("its node was lost: {cause}"),
        Exit::Left => "its end was not seen".to_owned(),
    };
    Error::PeerEnded { node: child.node_name().to_owned(), exit }
}

//! Measurement of one link: starts a peer at its far side, measures, and ends the peer.

use std::time::{Duration, Instant};

use tombolo::channel::Either;
use tombolo::nodes::NodeInfo;
use tombolo::{Channel, ChannelOptions, Child, Domain, Exit, Listener, SpawnOptions, TransportKind};
use tombolo_bench_far::ring::peer::{OPEN, back_name, opener_makes_memory, sleeper_name};

use super::near::{self, Figures};
use super::{Ends, Error, Options, PeerArguments};
use crate::sample::Clock;

/// Timeout for a peer to exit after it was told to or failed.
const END: Duration = Duration::from_secs(5);

/// Interval between checks whether a peer that has not connected yet has exited.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

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
    // A name has one listener, so all its channels have the same options; the ends that sleep at once use
    // another name.
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

/// Accepts the peer's next channel, or fails if the peer exits first.
pub(crate) fn accept<T>(
    child: &Child,
    mut accept: impl FnMut(Duration) -> Result<T, tombolo::Error>,
) -> Result<T, Error> {
    let start = Instant::now();
    loop {
        match accept(POLL_INTERVAL) {
            Err(tombolo::Error::TimedOut { .. }) if start.elapsed() < OPEN => {
                if let Ok(exit) = child.wait(Duration::ZERO) {
                    return Err(ended(child, &exit));
                }
            }
            result => return Ok(result?),
        }
    }
}

/// Waits for the peer to exit. If the peer failed by itself, its error is the reason why the measurement
/// failed.
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

/// Creates the error of a peer that exited with this status.
pub(crate) fn ended(child: &Child, exit: &Exit) -> Error {
    let exit = match exit {
        Exit::Exited { status } => format!("status {status}"),
        Exit::Signalled { signal } => format!("killed by signal {signal}"),
        Exit::NodeLost { cause } => format!("its node was lost: {cause}"),
        Exit::Left => "its end was not seen".to_owned(),
    };
    Error::PeerEnded { node: child.node_name().to_owned(), exit }
}

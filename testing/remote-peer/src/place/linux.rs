//! Channel operations on Linux.

use tombolo::{Channel, Domain, Error};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::{Deadline, barrier};
use tombolo_remote_peer::Awaited;
use tombolo_transport::Transport;
use tombolo_transport::contract::Announced;

use crate::station::PeerStation;
use crate::{Outcome, TIMEOUT};

fn of(awaited: Awaited) -> Interest {
    match awaited {
        Awaited::Message => Interest::Read,
        Awaited::Room => Interest::Write,
        Awaited::Both => Interest::ReadWrite,
    }
}

pub(crate) fn readable(end: &mut Channel) -> bool {
    end.is_ready(Interest::Read)
}

pub(crate) fn announce(end: &mut Channel, awaited: Awaited) {
    if end.announce_sleep(of(awaited)) == Announced::NeedsBarrier {
        barrier::global();
    }
}

pub(crate) fn may_sleep(end: &mut Channel, awaited: Awaited) -> bool {
    Transport::may_sleep(end, of(awaited))
}

pub(crate) fn finish_sleep(end: &mut Channel, rung: bool) {
    end.finish_sleep(rung);
}

pub(crate) fn close(end: &mut Channel) {
    Transport::close(end);
}

/// Sleeps until an order arrives or a sleeping end is rung.
pub(crate) fn sleep(_domain: &Domain, stations: &mut [PeerStation]) -> Outcome<()> {
    stations.iter_mut().for_each(|station| announce(&mut station.control, Awaited::Message));
    let mut rung = Vec::new();
    if stations.iter_mut().all(|station| may_sleep(&mut station.control, Awaited::Message)) {
        let (mut sources, mut owners) = (Vec::new(), Vec::new());
        for (number, station) in stations.iter().enumerate() {
            station.control.sources(Interest::Read, &mut sources);
            owners.resize(sources.len(), (number, false));
            if let (Some(end), Some(awaited)) = (&station.end, station.asleep) {
                end.sources(of(awaited), &mut sources);
                owners.resize(sources.len(), (number, true));
            }
        }
        let ready = poll(&sources, Some(Deadline::after(TIMEOUT)))?;
        rung =
            owners.into_iter().zip(ready).filter(|(_, ready)| ready.any()).map(|(owner, _)| owner).collect();
    }
    for (number, station) in stations.iter_mut().enumerate() {
        station.control.finish_sleep(rung.contains(&(number, false)));
        station.rung = rung.contains(&(number, true));
    }
    Ok(())
}

pub(crate) fn idle(_domain: &Domain) -> Result<(), Error> {
    std::thread::sleep(TIMEOUT);
    Ok(())
}

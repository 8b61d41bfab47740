//! Channel operations on a board.

use tombolo_bare::{Awaited as Sleep, Channel, Domain, Error};
use tombolo_remote_peer::Awaited;

use crate::station::PeerStation;
use crate::{Outcome, TIMEOUT};

fn of(awaited: Awaited) -> Sleep {
    match awaited {
        Awaited::Message => Sleep::Message,
        Awaited::Room => Sleep::Room,
        Awaited::Both => Sleep::Both,
    }
}

pub(crate) fn readable(end: &mut Channel) -> bool {
    end.readable()
}

pub(crate) fn announce(end: &mut Channel, awaited: Awaited) {
    end.announce_sleep(of(awaited));
}

pub(crate) fn may_sleep(end: &mut Channel, awaited: Awaited) -> bool {
    end.may_sleep(of(awaited))
}

pub(crate) fn finish_sleep(end: &mut Channel, _rung: bool) {
    end.finish_sleep();
}

pub(crate) fn close(end: &mut Channel) {
    end.close();
}

/// Sleeps until an order arrives or a sleeping end is rung.
///
/// A doorbell does not identify its channel, so all ends are checked after the sleep. They are not checked
/// without a ring, so that a lost ring makes the test time out on the other side.
pub(crate) fn sleep(domain: &Domain, stations: &mut [PeerStation]) -> Outcome<()> {
    // A hang-up reported before the last order was executed was already consumed and would not end the sleep.
    for station in stations.iter_mut().filter(|station| station.asleep.is_some()) {
        station.rung = station.end.as_ref().is_some_and(Channel::is_hung_up);
    }
    if stations.iter().any(|station| station.rung) {
        return Ok(());
    }
    stations.iter_mut().for_each(|station| station.control.announce_sleep(Sleep::Message));
    if stations.iter_mut().all(|station| station.control.may_sleep(Sleep::Message)) {
        domain.sleep(TIMEOUT)?;
        for station in stations.iter_mut() {
            let (Some(end), Some(awaited)) = (&mut station.end, station.announced) else { continue };
            station.rung = station.asleep.is_some() && end.is_rung(of(awaited));
            if !station.rung {
                // Each announcement is rung once. The ring may have come for less room than awaited, or
                // before the order to sleep, so announce again and check.
                end.announce_sleep(of(awaited));
                station.rung = station.asleep.is_some() && end.is_rung(of(awaited));
            }
        }
    }
    stations.iter_mut().for_each(|station| station.control.finish_sleep());
    Ok(())
}

pub(crate) fn idle(domain: &Domain) -> Result<(), Error> {
    domain.sleep(TIMEOUT)
}

//! What a board's program has.

use tombolo_bare::{Awaited as Sleep, Channel, Domain, Error};
use tombolo_remote_peer::Awaited;

use crate::station::Station;
use crate::{Outcome, PATIENCE};

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

pub(crate) fn awake(end: &mut Channel, _rung: bool) {
    end.awake();
}

pub(crate) fn close(end: &mut Channel) {
    end.close();
}

/// Sleeps until there are orders or an end that sleeps is rung.
///
/// A doorbell does not say whose it is: what ended the sleep is looked for. An end that was not rung is not
/// looked at before something else rings, so a ring that was lost shows as a wait in vain on the other side.
pub(crate) fn sleep(domain: &Domain, stations: &mut [Station]) -> Outcome<()> {
    // A report that came before the last order was followed has been taken in, and ends no sleep.
    for station in stations.iter_mut().filter(|station| station.asleep.is_some()) {
        station.rung = station.end.as_ref().is_some_and(Channel::is_hung_up);
    }
    if stations.iter().any(|station| station.rung) {
        return Ok(());
    }
    stations.iter_mut().for_each(|station| station.control.announce_sleep(Sleep::Message));
    if stations.iter_mut().all(|station| station.control.may_sleep(Sleep::Message)) {
        domain.sleep(PATIENCE)?;
        for station in stations.iter_mut() {
            let (Some(end), Some(awaited)) = (&mut station.end, station.announced) else { continue };
            station.rung = station.asleep.is_some() && end.is_rung(of(awaited));
            if !station.rung {
                // It may have been rung for less room than it waits for, and is rung once for each
                // announcement; also before the order to sleep, which then would sleep on a bell that has
                // rung already.
                end.announce_sleep(of(awaited));
                station.rung = station.asleep.is_some() && end.is_rung(of(awaited));
            }
        }
    }
    stations.iter_mut().for_each(|station| station.control.awake());
    Ok(())
}

pub(crate) fn idle(domain: &Domain) -> Result<(), Error> {
    domain.sleep(PATIENCE)
}

//! A peer that sends, receives or idles until it is killed.

#[cfg(target_os = "none")]
use tombolo_bare::{self as tombolo, prelude::*};

use tombolo::{Domain, Error};
use tombolo_link::ChannelConfig;
use tombolo_remote_peer::{message, message_length};
use tombolo_ring::{SlotSize, Variant};

use crate::{Outcome, TIMEOUT, USAGE, place};

pub(crate) fn play(name: &str, role: &str, shape: &[&str]) -> Outcome<()> {
    let [slot_bytes, slots, used_flag, hash] = shape else { return Err(USAGE.into()) };
    let slot = SlotSize::from_bytes(slot_bytes.parse()?).ok_or(USAGE)?;
    let variant = if *used_flag == "true" { Variant::UsedFlag } else { Variant::EpochCredit };
    let config = ChannelConfig::new(slot, slots.parse()?, variant).map_err(|_| USAGE)?;
    match until_the_end(name, role, config, hash.parse()?) {
        // The suite ended before it killed this process.
        Err(Error::Closed { .. } | Error::PeerDied { .. }) => Ok(()),
        ended => Ok(ended?),
    }
}

fn until_the_end(name: &str, role: &str, config: ChannelConfig, hash: u64) -> Result<(), Error> {
    let domain = Domain::attach()?.with_timeout(TIMEOUT);
    let mut channel = place::options(config, hash)?.export(&domain, name)?.accept()?;
    channel.send(b"here")?;
    let (max_bytes, mut number, mut buffer) = (channel.max_message_bytes(), 0, Vec::new());
    loop {
        match role {
            "sends" => {
                channel.send(&message(number, message_length(number, max_bytes)))?;
                number += 1;
            }
            "receives" => {
                channel.recv_into(&mut buffer)?;
            }
            _ => place::idle(&domain)?,
        }
    }
}

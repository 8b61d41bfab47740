//! Region operations by order of a test: each message is an order and has an answer.

use core::sync::atomic::Ordering;

#[cfg(target_os = "none")]
use tombolo_bare::{self as tombolo, prelude::*};

use tombolo::region::{CapabilityId, Mapping, RegionOptions, Rights};
use tombolo::{Domain, Error};

use crate::{Outcome, TIMEOUT};

/// List of the valid orders.
const USAGE: &str = "map ID, view ID, read OFFSET LENGTH, write OFFSET TEXT, publish WORD VALUE, current WORD, \
                     keep, drop, make LENGTH [WINDOW], revoke, or spin";

pub(crate) fn follow(name: &str) -> Outcome<()> {
    let domain = Domain::attach()?.with_timeout(TIMEOUT);
    let mut channel = domain.export(name)?.accept()?;
    let (peer, mut mapping, mut made) = (channel.peer(), None::<Mapping>, None);
    let mut kept = Vec::new();
    let mut order = Vec::new();
    loop {
        match channel.recv_into(&mut order) {
            Err(Error::Closed { .. } | Error::PeerDied { .. }) => return Ok(()),
            received => received?,
        };
        let text = String::from_utf8(core::mem::take(&mut order))?;
        let words: Vec<&str> = text.split(' ').collect();
        let answer = match (words.as_slice(), &mapping) {
            (["map" | "view", id], _) => {
                let rights = if words[0] == "map" { Rights::READ_WRITE } else { Rights::READ };
                let capability = domain.capability(CapabilityId(id.parse()?));
                capability.and_then(|capability| capability.map(rights)).map(|mapped| {
                    let answer = format!("{} bytes", mapped.length_bytes());
                    mapping = Some(mapped);
                    answer
                })
            }
            (["read", offset, length], Some(mapping)) => {
                let mut bytes = vec![0; length.parse()?];
                let read = mapping.read(offset.parse()?, &mut bytes);
                read.map(|()| String::from_utf8_lossy(&bytes).into_owned())
            }
            (["write", offset, text], Some(mapping)) => {
                mapping.write(offset.parse()?, text.as_bytes()).map(|()| "written".to_owned())
            }
            (["keep"], Some(mapping)) => {
                kept.extend(mapping.memory());
                Ok(format!("kept {}", kept.len()))
            }
            (["publish", word, value], Some(mapping)) => mapping.flushed_memory().and_then(|view| {
                let view = view.ok_or(Error::WouldBlock)?;
                view.store_through_le(
                    word.parse().unwrap_or(0),
                    value.parse().unwrap_or(0),
                    Ordering::Release,
                );
                Ok("published".to_owned())
            }),
            (["current", word], Some(mapping)) => mapping.flushed_memory().and_then(|view| {
                let view = view.ok_or(Error::WouldBlock)?;
                Ok(view.load_current_le(word.parse().unwrap_or(0), Ordering::Acquire).to_string())
            }),
            (["drop"], _) => {
                mapping = None;
                kept.clear();
                Ok("dropped".to_owned())
            }
            (["make", length, window @ ..], _) => {
                let window = window.first().copied().unwrap_or(domain.node_name());
                let options = RegionOptions::new(length.parse()?).in_window_of(window);
                domain.create_region(&options).and_then(|region| {
                    let granted = region.grant(peer, Rights::READ_WRITE)?.id.0.to_string();
                    mapping = Some(region.map(Rights::READ_WRITE)?);
                    made = Some(region);
                    Ok(granted)
                })
            }
            (["revoke"], _) => {
                let made = made.as_ref().ok_or("it made no region")?;
                made.revoke(TIMEOUT).map(|revoked| format!("removed {}", revoked.removed))
            }
            (["spin"], _) => {
                channel.send(b"spinning")?;
                loop {
                    core::hint::spin_loop();
                }
            }
            _ => return Err(USAGE.into()),
        };
        let answer = answer.unwrap_or_else(|error| format!("error: {error}"));
        channel.send(answer.as_bytes())?;
    }
}

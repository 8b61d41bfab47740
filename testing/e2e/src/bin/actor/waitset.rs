//! A server with one waitset, and its clients.

use std::collections::HashMap;
use std::time::Duration;

use tombolo::{Channel, ChannelOptions, Error, Ready, Token, WaitSet};

use crate::{Outcome, PATIENCE};

fn options() -> Result<ChannelOptions, Error> {
    ChannelOptions::default().slots(16)
}

/// Serves all clients from one waitset until `clients` channels have come, been served and closed. Prints
/// from which nodes they came and the largest number of open channels.
pub(crate) fn serve(name: &str, clients: &str) -> Outcome {
    let clients: usize = clients.parse()?;
    let listener = options()?.export(&crate::attach()?, name)?;
    let mut set = WaitSet::new()?;
    set.add_listener(&listener)?;
    println!("serving");
    let (mut come, mut most, mut echoes) = (0, 0, 0_u64);
    let mut ends: HashMap<String, usize> = HashMap::new();
    let mut message = Vec::new();
    while come < clients || set.channels() > 0 {
        match set.wait(PATIENCE)? {
            Ready::Listener(_) => {
                set.add(listener.accept()?)?;
                come += 1;
                most = most.max(set.channels());
            }
            Ready::Channel(token) => echoes += serve_one(&mut set, token, &mut message, &mut ends)?,
            other => return Err(format!("something else: {other:?}").into()),
        }
    }
    let mut ends: Vec<_> = ends.into_iter().map(|(end, count)| format!("{end} {count}")).collect();
    ends.sort();
    println!("at most {most} channels, {echoes} echoes; {}", ends.join(", "));
    Ok(())
}

fn serve_one(
    set: &mut WaitSet,
    token: Token,
    message: &mut Vec<u8>,
    ends: &mut HashMap<String, usize>,
) -> Result<u64, Box<dyn std::error::Error>> {
    let channel = set.get_mut(token).ok_or("a channel that is not in")?;
    let how = match channel.try_recv_into(message) {
        Ok(Some(_)) => {
            set.try_send(token, message)?;
            return Ok(1);
        }
        Ok(None) => return Ok(0),
        Err(Error::Closed { .. }) => "closed",
        Err(Error::PeerDied { .. }) => "died",
        Err(error) => return Err(error.into()),
    };
    let channel = set.remove(token).ok_or("a channel that is not in")?;
    *ends.entry(format!("{} {how}", channel.peer_node())).or_default() += 1;
    Ok(0)
}

/// Opens `channels` channels to a server, uses all of them for `rounds` rounds, and then closes or keeps
/// them.
pub(crate) fn use_many(name: &str, channels: &str, rounds: &str, then: &str) -> Outcome {
    let (channels, rounds): (usize, u32) = (channels.parse()?, rounds.parse()?);
    let domain = crate::attach()?;
    let open = || options()?.connect(&domain, name);
    let mut channels: Vec<Channel> = (0..channels).map(|_| open()).collect::<Result<_, _>>()?;
    let mut message = Vec::new();
    for round in 0..rounds {
        for channel in &mut channels {
            channel.send(&round.to_le_bytes())?;
        }
        for channel in &mut channels {
            channel.recv_into(&mut message)?;
            if message != round.to_le_bytes() {
                return Err(format!("an echo of something else: {message:?}").into());
            }
        }
    }
    println!("used");
    if then == "keep" {
        std::thread::sleep(Duration::from_secs(600));
    }
    Ok(())
}

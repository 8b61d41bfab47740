//! Channels: names, refusals, limits and how they end.

use std::time::{Duration, Instant};

use tombolo::{Channel, ChannelOptions, Error};

use crate::{Outcome, PATIENCE};

fn options(slot_bytes: &str, slots: &str, hash: &str) -> Result<ChannelOptions, Box<dyn std::error::Error>> {
    let options = ChannelOptions::default().slot_bytes(slot_bytes.parse()?)?.slots(slots.parse()?)?;
    Ok(options.interface_hash(hash.parse()?))
}

/// Returns every message until the peer closes.
fn echo(channel: &mut Channel) -> Result<(), Error> {
    let mut message = Vec::new();
    loop {
        match channel.recv_into(&mut message) {
            Ok(_) => channel.send(&message)?,
            Err(Error::Closed { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Sends a message and gets it back.
fn ping(channel: &mut Channel) -> Outcome {
    let mut message = Vec::new();
    channel.send(b"ping")?;
    channel.recv_into(&mut message)?;
    if message == b"ping" { Ok(()) } else { Err(format!("an echo of something else: {message:?}").into()) }
}

/// Exports a name and keeps it.
pub(crate) fn export(name: &str) -> Outcome {
    let _listener = crate::attach()?.export(name)?;
    println!("exported");
    std::thread::sleep(PATIENCE);
    Ok(())
}

/// Serves clients one at a time with echoes; prints which clients were refused and why.
pub(crate) fn serve(name: &str, slot_bytes: &str, slots: &str, hash: &str) -> Outcome {
    let domain = crate::attach()?;
    let listener = options(slot_bytes, slots, hash)?.export(&domain, name)?;
    println!("serving");
    loop {
        match listener.accept() {
            Ok(mut channel) => match echo(&mut channel) {
                Ok(()) => println!("served {} on {}", channel.peer(), channel.peer_node()),
                Err(error) => println!("lost: {error}"),
            },
            Err(Error::TimedOut { .. }) => return Ok(()),
            Err(error) => println!("refused: {error}"),
        }
    }
}

/// Opens a channel and sends a greeting, or prints why that failed.
pub(crate) fn connect(name: &str, slot_bytes: &str, slots: &str, hash: &str) -> Outcome {
    let options = options(slot_bytes, slots, hash)?;
    let mut channel = options.connect(&crate::attach()?.within(Duration::from_secs(20)), name)?;
    ping(&mut channel)?;
    println!("connected to {} by {}", channel.peer_node(), channel.transport().name());
    Ok(())
}

/// Accepts every client, and keeps every channel until its peer closes it.
pub(crate) fn keep(name: &str) -> Outcome {
    let listener = crate::attach()?.export(name)?;
    println!("keeping");
    let mut kept: Vec<Channel> = Vec::new();
    let mut message = Vec::new();
    loop {
        match listener.within(Duration::from_millis(20)).accept() {
            Ok(channel) => kept.push(channel),
            Err(Error::TimedOut { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        kept.retain_mut(|channel| channel.try_recv_into(&mut message).is_ok());
    }
}

/// Opens channels until one is refused, closes one, and checks that another can be opened.
pub(crate) fn connect_in_turn(name: &str, count: &str) -> Outcome {
    let domain = crate::attach()?;
    let mut open = Vec::new();
    let count: usize = count.parse()?;
    let refused = loop {
        match domain.connect(name) {
            Ok(channel) => open.push(channel),
            Err(error) => break error,
        }
        if open.len() > count {
            return Err(format!("{} channels were opened", open.len()).into());
        }
    };
    println!("after {} channels: {refused}", open.len());
    drop(open.pop());
    // There is room again only after the far side noticed and closed its end.
    let until = Instant::now() + PATIENCE;
    loop {
        match domain.connect(name) {
            Ok(channel) => open.push(channel),
            Err(Error::Monitor(tombolo::error::Fault::Limit { .. })) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        break;
    }
    println!("opened again");
    Ok(())
}

/// Echoes to all clients, with one thread per channel that sleeps on it.
pub(crate) fn echo_many(name: &str) -> Outcome {
    let domain = crate::attach()?;
    let listener = ChannelOptions::default().slots(16)?.spin_ns(0).export(&domain, name)?;
    println!("echoing");
    loop {
        match listener.within(PATIENCE).accept() {
            Ok(mut channel) => {
                std::thread::spawn(move || echo(&mut channel));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Opens many channels to an echo server; one thread per channel repeatedly sends and waits for the reply. No
/// thread polls, so each reply needs a wake-up of the right thread on both sides.
pub(crate) fn wake_many(name: &str, count: &str, rounds: &str) -> Outcome {
    let domain = crate::attach()?;
    let (count, rounds): (usize, u64) = (count.parse()?, rounds.parse()?);
    let options = ChannelOptions::default().slots(16)?.spin_ns(0);
    let connect = |_| options.connect(&domain.within(PATIENCE), name);
    let channels = (0..count).map(connect).collect::<Result<Vec<_>, _>>()?;
    println!("{count} channels are open");
    let rounds_of = |number: usize, mut channel: Channel| -> Result<u64, Error> {
        let mut message = Vec::new();
        for round in 0..rounds {
            let sent = (number as u64) << 32 | round;
            channel.send(&sent.to_le_bytes())?;
            channel.within(PATIENCE).recv_into(&mut message)?;
            assert_eq!(message, sent.to_le_bytes(), "channel {number}");
        }
        Ok(channel.stats().sleeps)
    };
    let sleeps = std::thread::scope(|scope| {
        let threads: Vec<_> = channels
            .into_iter()
            .enumerate()
            .map(|(number, channel)| scope.spawn(move || rounds_of(number, channel)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<Result<u64, Error>>()
    })?;
    if sleeps < count as u64 {
        return Err(format!("only {sleeps} sleeps").into());
    }
    println!("woken on {count} channels");
    Ok(())
}

/// Opens many channels to itself and uses all of them.
pub(crate) fn many(count: &str) -> Outcome {
    let count: usize = count.parse()?;
    let job = std::env::var("TOMBOLO_JOB")?;
    let domain = crate::attach()?;
    let options = ChannelOptions::default().slots(16)?.spin_ns(0);
    let listener = options.export(&domain, &format!("{job}/many"))?;
    let connecting = {
        let (domain, options) = (domain.clone(), options.clone());
        let name = format!("{job}/many");
        std::thread::spawn(move || {
            (0..count).map(|_| options.connect(&domain, &name)).collect::<Result<Vec<_>, _>>()
        })
    };
    let accepted: Result<Vec<Channel>, Error> = (0..count).map(|_| listener.accept()).collect();
    let mut near = connecting.join().map_err(|_| "the connecting thread panicked")??;
    let mut far = accepted?;
    for (number, channel) in near.iter_mut().enumerate() {
        channel.send(&number.to_le_bytes())?;
    }
    let mut message = Vec::new();
    for (number, channel) in far.iter_mut().enumerate() {
        channel.recv_into(&mut message)?;
        if message != number.to_le_bytes() {
            return Err(format!("channel {number} carried {message:?}").into());
        }
    }
    println!("{count} channels at once");
    Ok(())
}

/// Accepts one channel, receives the first message, and ignores the channel from then on.
pub(crate) fn hold(name: &str) -> Outcome {
    let domain = crate::attach()?;
    let listener = domain.export(name)?;
    println!("serving");
    let mut channel = listener.accept()?;
    let mut message = Vec::new();
    channel.recv_into(&mut message)?;
    println!("holding");
    std::thread::sleep(PATIENCE);
    Ok(())
}

/// Opens a channel to a peer that will die and prints the resulting error: while blocked in `recv`, blocked
/// in `send` on a full ring, or in the middle of `traffic`.
pub(crate) fn lose_peer(how: &str, name: &str) -> Outcome {
    let domain = crate::attach()?;
    let mut channel = domain.connect(name)?;
    channel.send(b"first")?;
    let mut message = Vec::new();
    if how == "traffic" {
        channel.recv_into(&mut message)?;
    }
    println!("connected");
    let error = loop {
        let step = match how {
            "recv" => channel.recv_into(&mut message).map(|_| ()),
            "send" => channel.send(&[7; 1000]),
            _ => channel.send(b"traffic").and_then(|()| channel.recv_into(&mut message).map(|_| ())),
        };
        if let Err(error) = step {
            break error;
        }
    };
    let what = match &error {
        Error::PeerDied { .. } => "peer died",
        Error::RelayDied { .. } => "relay died",
        Error::Closed { .. } => "closed",
        Error::TimedOut { .. } => "timed out",
        _ => "something else",
    };
    println!("{what}: {error}");
    // Any error other than a death fails the test.
    if matches!(error, Error::PeerDied { .. } | Error::RelayDied { .. }) { Ok(()) } else { Err(error.into()) }
}

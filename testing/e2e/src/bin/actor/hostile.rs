//! Malicious peers, and honest programs that must survive them.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use tombolo::{Channel, ChannelOptions, Error, wait_any};
use tombolo_base::Random;
use tombolo_platform::guest::pci::{Registers, WindowDevice};

use crate::exchange::message;
use crate::{Outcome, PATIENCE};

/// First message of an honest client, and the message that ends its server.
const HONEST: &[u8] = b"honest";
const LAST: &[u8] = b"the last";

/// Rounds in which a scribbler writes into one channel, unless the channel fails first.
const ROUNDS: u32 = 300;

/// Time within which an honest peer makes room in its ring.
const ROOM: Duration = Duration::from_secs(2);

/// Finds the address ranges of channels in this process: mapped memfds, or the guest's mapping of the window.
fn channel_memory() -> Result<Vec<(u64, u64)>, Box<dyn std::error::Error>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let place = |line: &str| {
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
    };
    let is_shared = |line: &&str| line.contains("memfd:tombolo-channel") || line.contains("/resource2");
    Ok(maps.lines().filter(is_shared).filter_map(place).collect())
}

/// Returns a random number, often one that is meaningful to the protocol.
fn random_number(random: &mut Random) -> u64 {
    match random.word() % 3 {
        0 => random.word(),
        1 => random.word() % 64,
        _ => 1 << (random.word() % 64),
    }
}

/// Writes random values at random offsets into the memory that it shares with a peer while it sends and
/// receives normally, through one channel after the other.
pub(crate) fn scribble(name: &str, seed: &str, channels: &str) -> Outcome {
    let domain = crate::attach()?;
    let own_memory = OpenOptions::new().write(true).open("/proc/self/mem")?;
    let mut random = Random::new(seed.parse()?);
    let (channels, mut failed): (u32, u32) = (channels.parse()?, 0);
    for _ in 0..channels {
        let mut channel = domain.connect(name)?;
        failed += u32::from(scribble_on(&mut channel, &own_memory, &mut random)?);
    }
    println!("{failed} of {channels} channels failed");
    Ok(())
}

/// Scribbles on one channel and returns whether the channel failed at this end.
fn scribble_on(
    channel: &mut Channel,
    own_memory: &File,
    random: &mut Random,
) -> Result<bool, Box<dyn std::error::Error>> {
    let Some((start, end)) = channel_memory()?.last().copied() else {
        return Err("no memory that is shared with a peer".into());
    };
    let mut buffer = Vec::new();
    for _ in 0..ROUNDS {
        for _ in 0..random.word() % 16 {
            // Half of the writes hit the headers and first lines.
            let length = if random.word().is_multiple_of(2) { 4096.min(end - start) } else { end - start };
            let at = start + random.word() % (length / 8) * 8;
            own_memory.write_all_at(&random_number(random).to_le_bytes(), at)?;
        }
        let sent = channel.try_send(&vec![7; (random.word() % 300) as usize]);
        let received = channel.try_recv_into(&mut buffer).map(|_| ());
        for result in [sent, received] {
            match result {
                Ok(()) | Err(Error::WouldBlock) => {}
                // The scribbler may break its own end.
                Err(Error::Closed { .. } | Error::PeerDied { .. } | Error::Violation { .. }) => {
                    return Ok(true);
                }
                Err(error) => return Err(error.into()),
            }
        }
        // Give the peer a chance to see this write before the next one.
        std::thread::yield_now();
    }
    Ok(false)
}

/// Inside a virtual machine: writes random values at random offsets into the window to the host, including
/// the monitors' part, and rings random doorbells of all peers.
pub(crate) fn scribble_window(seed: &str, rounds: &str) -> Outcome {
    let device = WindowDevice::find()?;
    let window = device.open_memory()?;
    let memory = tombolo_platform::memory::map(&window.file, 0, usize::try_from(window.length_bytes)?)?;
    let registers = Registers::map(device.open_registers()?)?;
    let mut random = Random::new(seed.parse()?);
    println!("{} bytes are in reach", memory.len_bytes());
    for _ in 0..rounds.parse::<u64>()? {
        // The monitors' area, the memory that is lent first, or the whole window.
        let reach = [1 << 16, 1 << 20, memory.len_bytes()][(random.word() % 3) as usize];
        let at = (random.word() as usize % (reach.min(memory.len_bytes()) / 8)) * 8;
        memory.copy_in(at, &random_number(&mut random).to_le_bytes())?;
        let bell = random.word();
        registers.ring((bell % 4) as u16, (bell >> 8) as u16 % 64);
    }
    Ok(())
}

/// Sends forever and never reads replies, until its server gives up.
pub(crate) fn mute(name: &str) -> Outcome {
    let mut channel = crate::attach()?.connect(name)?;
    channel.send(HONEST)?;
    let (mut taken, mut refused) = (0_u64, 0_u64);
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        match channel.try_send(&[7; 100]) {
            Ok(()) => taken += 1,
            Err(Error::WouldBlock) => {
                refused += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(Error::Closed { .. } | Error::PeerDied { .. }) => {
                println!("{taken} were taken, {} refused", if refused > 0 { "more" } else { "none" });
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err("the server waits for ever".into())
}

/// Sends `count` messages as fast as the ring accepts them.
pub(crate) fn flood_channel(name: &str, count: &str) -> Outcome {
    let mut channel = crate::attach()?.connect(name)?;
    let (count, mut refused): (u64, u64) = (count.parse()?, 0);
    for number in 0..count {
        loop {
            match channel.try_send(&number.to_le_bytes()) {
                Ok(()) => break,
                Err(Error::WouldBlock) => refused += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
    println!("{count} were taken, after {refused} refusals");
    Ok(())
}

/// Sends numbered messages to an echo server and checks every byte of the replies.
pub(crate) fn honest(name: &str, count: &str, last: bool) -> Outcome {
    let domain = crate::attach()?;
    let mut channel = domain.connect(name)?;
    channel.send(HONEST)?;
    let (mut outgoing, mut incoming) = (Vec::new(), Vec::new());
    let count: u64 = count.parse()?;
    for number in 0..count {
        message(1, number, channel.max_message_bytes(), &mut outgoing);
        channel.send(&outgoing)?;
        channel.recv_into(&mut incoming)?;
        if incoming != outgoing {
            return Err(format!("message {number} did not come back as it was").into());
        }
    }
    if last {
        channel.send(LAST)?;
    }
    println!("{count} came back");
    Ok(())
}

/// A client of [`steadfast`].
struct Guest {
    channel: Channel,
    honest: bool,
}

/// Serves all clients until an honest one sends the last message: echoes honest messages, drops the others',
/// and counts how their channels end.
pub(crate) fn steadfast(name: &str) -> Outcome {
    let domain = crate::attach()?;
    let listener = domain.export(name)?;
    println!("serving");
    let mut guests: Vec<Guest> = Vec::new();
    let (mut failed, mut buffer) = (0, Vec::new());
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        match listener.within(Duration::ZERO).accept() {
            Ok(channel) => guests.push(Guest { channel, honest: false }),
            Err(Error::TimedOut { .. } | Error::Refused { .. }) => {}
            // The client scribbled over the handshake, or is gone already.
            Err(Error::PeerDied { .. } | Error::Closed { .. } | Error::Violation { .. }) => failed += 1,
            Err(error) => return Err(error.into()),
        }
        let mut all: Vec<&mut Channel> = guests.iter_mut().map(|guest| &mut guest.channel).collect();
        let index = match wait_any(&mut all, Duration::from_millis(5)) {
            Ok(index) => index,
            Err(Error::TimedOut { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let guest = &mut guests[index];
        let served = match guest.channel.try_recv_into(&mut buffer) {
            Ok(Some(_)) if guest.honest && buffer == LAST => {
                println!("{failed} others failed");
                return Ok(());
            }
            Ok(Some(_)) if guest.honest => guest.channel.within(ROOM).send(&buffer),
            Ok(Some(_)) => {
                guest.honest = buffer == HONEST;
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        match served {
            Ok(()) => {}
            Err(Error::Closed { .. }) if guest.honest => drop(guests.swap_remove(index)),
            Err(error @ (Error::Violation { .. } | Error::PeerDied { .. } | Error::TimedOut { .. }))
                if guest.honest =>
            {
                println!("lost one that began honestly: {error}");
                drop(guests.swap_remove(index));
            }
            Err(Error::Violation { .. } | Error::Closed { .. } | Error::PeerDied { .. }) => {
                failed += 1;
                drop(guests.swap_remove(index));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err("the honest client did not come to an end".into())
}

/// Opens channels one after the other and drops each immediately.
pub(crate) fn open_without_end(name: &str, count: &str) -> Outcome {
    let domain = crate::attach()?;
    let count: u64 = count.parse()?;
    let (mut opened, mut refused) = (0, 0);
    for _ in 0..count {
        match ChannelOptions::default().slots(2)?.connect(&domain, name) {
            Ok(_) => opened += 1,
            Err(Error::Monitor(_) | Error::PeerDied { .. } | Error::Closed { .. }) => refused += 1,
            Err(error) => return Err(error.into()),
        }
    }
    println!("{opened} opened, {refused} refused");
    Ok(())
}

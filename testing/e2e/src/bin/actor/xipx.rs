//! Message devices: nodes that send to each other, programs that use a node's device, and deaths of nodes.

use std::process::exit;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use tombolo_xipx::{Address, Client, Device, JoinOptions, Message, Node, XipxError, address_of};

use crate::{Outcome, PATIENCE, attach};

const FIFO_BYTES: usize = 2048;

fn join() -> Result<Node, Box<dyn std::error::Error>> {
    Ok(Node::join(&attach()?, &JoinOptions { fifo_bytes: FIFO_BYTES, ..JoinOptions::default() })?)
}

fn content(seed: u64, most_bytes: usize) -> Vec<u8> {
    let mut random = tombolo_base::Random::new(seed);
    let length = random.index(most_bytes + 1);
    (0..length).map(|_| random.word() as u8).collect()
}

fn seed(from: Address, to: Address, index: u64) -> u64 {
    let part = |address: Address| u64::from(address.node) << 8 | u64::from(address.channel);
    part(from) << 48 | part(to) << 32 | index
}

/// Runs a node with two devices, each served by its own threads, which sends to every device of every node.
pub(crate) fn work(rounds: &str) -> Outcome {
    let rounds: u64 = rounds.parse()?;
    let node = join()?;
    let devices = [node.open(Some(1))?, node.open(Some(2))?];
    if !matches!(node.open(Some(2)), Err(XipxError::ChannelInUse { channel: 2, .. })) {
        return Err("a channel was opened twice".into());
    }
    refusals(&devices[0])?;
    std::thread::scope(|scope| {
        let all = devices.each_ref().map(|device| {
            let receiver =
                scope.spawn(move || receive_all(device, rounds).map_err(|error| error.to_string()));
            let sender = scope.spawn(move || send_all(device, rounds).map_err(|error| error.to_string()));
            [receiver, sender]
        });
        for thread in all.into_iter().flatten() {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok::<(), Box<dyn std::error::Error>>(())
    })?;
    let counters = node.counters();
    if counters.invalid + counters.late > 0 {
        return Err(format!("{counters:?}").into());
    }
    println!("node {}: {} messages, all as they were sent", node.number(), counters.delivered);
    // Other nodes may not have received everything from this one yet.
    wait_for_all_nodes(&node, &devices[0])
}

fn addresses(device: &Device) -> Vec<Address> {
    let nodes = device.node().names().len() as u16;
    (0..nodes).flat_map(|node| [1, 2].map(|channel| Address { node, channel })).collect()
}

fn send_all(device: &Device, rounds: u64) -> Result<(), XipxError> {
    let own = Address { node: device.node().number(), channel: device.channel() };
    let most_bytes = device.node().max_message_bytes();
    for index in 0..rounds {
        for to in addresses(device) {
            send(device, to, &content(seed(own, to, index), most_bytes))?;
        }
    }
    Ok(())
}

/// Sends a message to a device that may not be open yet.
fn send(device: &Device, to: Address, message: &[u8]) -> Result<(), XipxError> {
    let start = std::time::Instant::now();
    loop {
        match device.send(to, message, PATIENCE) {
            Err(XipxError::NotOpen { .. }) if start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(2));
            }
            sent => return sent,
        }
    }
}

fn receive_all(device: &Device, rounds: u64) -> Result<(), Box<dyn std::error::Error>> {
    let own = Address { node: device.node().number(), channel: device.channel() };
    let sources = addresses(device);
    let mut counts = vec![0; sources.len()];
    let mut message = Message::default();
    while counts.iter().any(|count| *count < rounds) {
        device.receive_into(&mut message, None, PATIENCE)?;
        let from = sources.iter().position(|source| *source == message.source);
        let from = from.ok_or_else(|| format!("a message from {:?}", message.source))?;
        let expected = content(seed(message.source, own, counts[from]), device.node().max_message_bytes());
        if message.bytes != expected {
            return Err(format!("message {} from {:?} is wrong", counts[from], message.source).into());
        }
        counts[from] += 1;
    }
    Ok(())
}

/// Waits until all nodes have received everything: each reports to node 0, which then answers each.
fn wait_for_all_nodes(node: &Node, device: &Device) -> Outcome {
    let others = 1..node.names().len() as u16;
    if node.number() == 0 {
        others.clone().try_for_each(|_| device.receive(PATIENCE).map(drop))?;
        others
            .into_iter()
            .try_for_each(|other| device.send(Address { node: other, channel: 1 }, b"", PATIENCE))?;
    } else {
        device.send(Address { node: 0, channel: 1 }, b"done", PATIENCE)?;
        device.receive(PATIENCE)?;
    }
    Ok(())
}

/// Checks that invalid sends fail with an error that names the cause.
fn refusals(device: &Device) -> Outcome {
    let own = device.node().number();
    let most_bytes = device.node().max_message_bytes();
    let nodes = device.node().names().len() as u16;
    let send = |node, channel, length: usize| {
        let message = vec![0; length];
        match device.send(Address { node, channel }, &message, Duration::ZERO) {
            Ok(()) => "was sent".to_owned(),
            Err(error) => error.to_string(),
        }
    };
    for (said, expected) in [
        (send(own, 1, most_bytes + 1), format!("message of {} bytes is too long", most_bytes + 1)),
        (send(nodes, 1, 1), format!("no node {nodes};")),
        (send(own, 256, 1), "no channel 256;".to_owned()),
        (send(own, 9, 1), format!("no device is open on channel 9 of node {own}")),
    ] {
        if !said.contains(&expected) {
            return Err(format!("'{said}', where '{expected}' was expected").into());
        }
    }
    Ok(())
}

/// The last node dies while node 0 waits for it and others send to it; the others continue.
pub(crate) fn die() -> Outcome {
    let node = join()?;
    let device = node.open(Some(1))?;
    let last = node.names().len() as u16 - 1;
    if node.number() == last {
        // Skip messages of other nodes.
        let mut message = device.receive(PATIENCE)?;
        while message.bytes != b"die" {
            message = device.receive(PATIENCE)?;
        }
        device.send(message.source, b"last words", PATIENCE)?;
        let _ = kill_process(getpid(), Signal::KILL);
        exit(1);
    }
    let (dying, mut message) = (Address { node: last, channel: 1 }, Message::default());
    if node.number() == 0 {
        let device = node.open(None)?;
        send(&device, dying, b"die")?;
        device.receive_into(&mut message, Some(last), PATIENCE)?;
        match device.receive_into(&mut message, Some(last), PATIENCE) {
            Err(XipxError::NodeEnded { node, .. }) if node == last => {}
            other => return Err(format!("after a death: {other:?}").into()),
        }
    }
    // A send fails as soon as the death is known; until then the buffer only fills.
    let start = std::time::Instant::now();
    loop {
        match device.send(dying, &[0; 512], PATIENCE) {
            Err(XipxError::NodeEnded { node, .. }) if node == last => break,
            Ok(()) | Err(XipxError::NotOpen { .. }) if start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return Err(format!("a send to a dead node: {other:?}").into()),
        }
    }
    for other in (0..last).filter(|other| *other != node.number()) {
        send(&device, Address { node: other, channel: 1 }, b"alive")?;
        device.receive(PATIENCE)?;
    }
    println!("node {} lives on", node.number());
    if node.number() == 0 {
        (1..last).try_for_each(|_| device.receive(PATIENCE).map(drop))?;
    } else {
        device.send(Address { node: 0, channel: 1 }, b"done", PATIENCE)?;
    }
    Ok(())
}

fn client(group: &str, channel: Option<u16>) -> Result<Client, Box<dyn std::error::Error>> {
    let domain = attach()?;
    Ok(Client::open(&address_of(domain.machine_name(), group, domain.node_name()), channel)?)
}

/// Answers every message on a device served by another program until told to stop.
pub(crate) fn answer(group: &str, channel: &str) -> Outcome {
    let mut client = client(group, Some(channel.parse()?))?;
    println!("open: channel {} of node {}", client.address().channel, client.address().node);
    loop {
        let message = client.receive(PATIENCE)?;
        client.send(message.source, &message.bytes)?;
        if message.bytes == b"stop" {
            return Ok(());
        }
    }
}

/// Sends a request to an answering device.
pub(crate) fn ask(group: &str, node: &str, channel: &str, words: &str) -> Outcome {
    let to = Address { node: node.parse()?, channel: channel.parse()? };
    let mut client = client(group, None)?;
    let start = std::time::Instant::now();
    loop {
        match client.send(to, words.as_bytes()) {
            Err(error)
                if error.to_string().contains("no device is open") && start.elapsed() < PATIENCE / 4 =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            sent => break sent?,
        }
    }
    let answer = client.receive(PATIENCE)?;
    if answer.source != to || answer.bytes != words.as_bytes() {
        return Err(format!("{answer:?}").into());
    }
    println!("answered: {words}");
    Ok(())
}

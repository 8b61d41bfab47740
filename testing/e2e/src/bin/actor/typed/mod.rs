//! Typed interfaces: every type in both directions, and old and new versions of one interface. A C program
//! (`testing/e2e/c/typed.c`) does the same; each serves and calls each, on every kind of node.

mod buffers;
mod digest;
mod everything;
mod growth;
mod rights;

use std::time::Duration;

use tombolo::{Channel, ChannelOptions, Listener};

use crate::Outcome;

/// Timeout for the next client: it calls other servers first and may be an interpreter under emulation.
const NEXT_CLIENT: Duration = Duration::from_secs(1000);

/// Serves `clients` clients, one after the other. Each opens these channels in this order. The last `plain`
/// of them pass neither capabilities nor buffers.
pub(crate) fn serve(name: &str, clients: &str, plain: &str) -> Outcome {
    let (clients, plain): (u32, u32) = (clients.parse()?, plain.parse()?);
    let domain = crate::attach()?;
    let export = |part: &str, hash: u64| {
        ChannelOptions::default().interface_hash(hash).export(&domain, &format!("{name}-{part}"))
    };
    let everything = export("everything", everything::HASH)?;
    let now = export("now", growth::HASH)?;
    let before = export("before", growth::HASH)?;
    let rights = export("rights", rights::HASH)?;
    let buffers = export("buffers", buffers::HASH)?;
    println!("serving {name}");
    let accept = |listener: &Listener| -> Result<Channel, tombolo::Error> { listener.accept() };
    for client in 0..clients {
        everything::serve(everything.within(NEXT_CLIENT).accept()?)?;
        for _ in 0..2 {
            growth::serve_now(accept(&now)?)?;
            growth::serve_before(accept(&before)?)?;
        }
        if client + plain < clients {
            rights::serve(&domain, accept(&rights)?)?;
            buffers::serve(&domain, accept(&buffers)?, "-")?;
        }
    }
    println!("served {clients} clients");
    Ok(())
}

/// Calls each of these servers. Capabilities are to memory in the window of node `window`; servers written as
/// `plain:NAME` get neither capabilities nor buffers.
pub(crate) fn call(window: &str, names: &[&str]) -> Outcome {
    let domain = crate::attach()?;
    for word in names {
        let plain = word.strip_prefix("plain:");
        let name = plain.unwrap_or(word);
        let connect = |part: &str, hash: u64| {
            let options = ChannelOptions::default().interface_hash(hash);
            options.connect(&domain, format!("{name}-{part}"))
        };
        everything::call(connect("everything", everything::HASH)?)?;
        growth::call_as_now(connect("now", growth::HASH)?, growth::Peer::Now)?;
        growth::call_as_now(connect("before", growth::HASH)?, growth::Peer::Before)?;
        growth::call_as_before(connect("now", growth::HASH)?, growth::Peer::Now)?;
        growth::call_as_before(connect("before", growth::HASH)?, growth::Peer::Before)?;
        if plain.is_none() {
            rights::call(&domain, connect("rights", rights::HASH)?, (window != "-").then_some(window))?;
            buffers::call(&domain, connect("buffers", buffers::HASH)?, window)?;
        }
        println!("understood {name}");
    }
    Ok(())
}

/// Serves one client that passes capabilities.
pub(crate) fn serve_rights(name: &str) -> Outcome {
    let domain = crate::attach()?;
    let listener = ChannelOptions::default().interface_hash(rights::HASH).export(&domain, name)?;
    println!("serving {name}");
    rights::serve(&domain, listener.accept()?)?;
    println!("served");
    Ok(())
}

/// Passes capabilities to memory that both reach: in the window of node `window`, or in host memory for `-`.
pub(crate) fn call_rights(name: &str, window: &str) -> Outcome {
    let domain = crate::attach()?;
    let channel = ChannelOptions::default().interface_hash(rights::HASH).connect(&domain, name)?;
    rights::call(&domain, channel, (window != "-").then_some(window))?;
    println!("understood {name}");
    Ok(())
}

/// Serves clients that pass buffers; `clients` of them are connected at the same time.
pub(crate) fn serve_buffers(name: &str, how: &str, clients: &str) -> Outcome {
    let clients: usize = clients.parse()?;
    let domain = crate::attach()?;
    let listener = ChannelOptions::default().interface_hash(buffers::HASH).export(&domain, name)?;
    println!("serving {name}");
    let serving: Vec<_> = (0..clients)
        .map(|_| {
            let channel = listener.accept()?;
            let (domain, how) = (domain.clone(), how.to_owned());
            Ok(std::thread::spawn(move || {
                buffers::serve(&domain, channel, &how).map_err(|error| error.to_string())
            }))
        })
        .collect::<Result<_, tombolo::Error>>()?;
    for thread in serving {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    println!("served {clients} clients");
    Ok(())
}

/// Passes buffers over `channels` channels at the same time.
pub(crate) fn call_buffers(name: &str, how: &str, channels: &str) -> Outcome {
    let domain = crate::attach()?;
    let calling: Vec<_> = (0..channels.parse()?)
        .map(|_: u32| {
            let (domain, name, how) = (domain.clone(), name.to_owned(), how.to_owned());
            std::thread::spawn(move || -> Result<(), String> {
                let options = ChannelOptions::default().interface_hash(buffers::HASH);
                let channel = options.connect(&domain, &name).map_err(|error| error.to_string())?;
                buffers::call(&domain, channel, &how).map_err(|error| error.to_string())
            })
        })
        .collect();
    for thread in calling {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    println!("understood {name}");
    Ok(())
}

/// Fails unless a value is as expected.
fn expect<T: PartialEq + std::fmt::Debug>(what: &str, actual: T, expected: T) -> Outcome {
    if actual == expected { Ok(()) } else { Err(format!("{what}: {actual:?}, not {expected:?}").into()) }
}

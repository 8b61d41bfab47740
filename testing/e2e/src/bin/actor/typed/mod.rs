//! Typed interfaces: every type there and back, and old and new versions of one interface. A program in C
//! (`testing/e2e/c/typed.c`) does the same; each serves and calls each, on every kind of node.

mod digest;
mod everything;
mod growth;

use tombolo::{Channel, ChannelOptions, Domain, Listener};

use crate::{Outcome, PATIENCE};

/// Serves so many clients, one after the other: each opens these channels in this order.
pub(crate) fn serve(name: &str, clients: &str) -> Outcome {
    let clients: u32 = clients.parse()?;
    let domain = Domain::attach()?;
    let export = |part: &str, hash: u64| {
        domain.export(&format!("{name}-{part}"), &ChannelOptions::default().interface_hash(hash))
    };
    let everything = export("everything", everything::HASH)?;
    let now = export("now", growth::HASH)?;
    let before = export("before", growth::HASH)?;
    println!("serving {name}");
    let accept = |listener: &Listener| -> Result<Channel, tombolo::Error> { listener.accept(PATIENCE) };
    for _ in 0..clients {
        everything::serve(accept(&everything)?)?;
        for _ in 0..2 {
            growth::serve_now(accept(&now)?)?;
            growth::serve_before(accept(&before)?)?;
        }
    }
    println!("served {clients} clients");
    Ok(())
}

/// Calls each of these servers.
pub(crate) fn call(names: &[&str]) -> Outcome {
    let domain = Domain::attach()?;
    for name in names {
        let connect = |part: &str, hash: u64| {
            let options = ChannelOptions::default().interface_hash(hash);
            domain.connect(&format!("{name}-{part}"), &options, PATIENCE)
        };
        everything::call(connect("everything", everything::HASH)?)?;
        growth::call_as_now(connect("now", growth::HASH)?, growth::Peer::Now)?;
        growth::call_as_now(connect("before", growth::HASH)?, growth::Peer::Before)?;
        growth::call_as_before(connect("now", growth::HASH)?, growth::Peer::Now)?;
        growth::call_as_before(connect("before", growth::HASH)?, growth::Peer::Before)?;
        println!("understood {name}");
    }
    Ok(())
}

/// What ends a program whose peer did not say what it should.
fn expect<T: PartialEq + std::fmt::Debug>(what: &str, actual: T, expected: T) -> Outcome {
    if actual == expected { Ok(()) } else { Err(format!("{what}: {actual:?}, not {expected:?}").into()) }
}

//! `tombolo bench hub`: the semaphore loop over several channels, joined by processes that forward messages.

use std::time::Duration;

use tombolo::names::NewRecord;
use tombolo::{Channel, ChannelOptions, Child, Domain, Error, Ready, SpawnOptions, WaitSet};
use tombolo_hub::{Operation, Request, wire};

use super::{Bench, Role, Times};
use crate::suite::Error as BenchError;

/// Timeout of each wait for clients and their messages.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Numbers of channels that a request passes: one intermediate process, and those of the paper.
pub(super) const HOPS: [usize; 3] = [2, 3, 8];

/// Forwarding processes between tasks and the server of this benchmark's hubs.
pub(super) struct Forwarders {
    children: Vec<Child>,
}

impl Forwarders {
    /// Starts the processes for requests that pass this number of channels to the hubs `bench/a` and
    /// `bench/b`; tasks find these hubs by [`name`].
    pub(super) fn start(bench: &Bench<'_>, hops: usize) -> Result<Forwarders, BenchError> {
        let domain = bench.domain;
        let hub = domain.names().wait_for("hub/bench/a", MAX_WAIT)?;
        let (Ok(server), Ok(node)) = (hub.text("service"), hub.text("node")) else {
            return Err(BenchError::failed("the record of the hub has no service"));
        };
        let service = |hop: usize| format!("bench-hops/{}/{hops}/{hop}", domain.id());
        let mut forwarders = Forwarders { children: Vec::new() };
        for hop in 1..hops {
            let onward = if hop + 1 == hops { server.to_owned() } else { service(hop + 1) };
            let (program, arguments) = bench.member(&Role::Forward { service: service(hop), onward })?;
            forwarders.children.push(domain.spawn(&SpawnOptions::image(&program).args(arguments))?);
        }
        for hub in ["a", "b"] {
            let record = NewRecord::new(&format!("hub/{}", name(hops, hub)))
                .with("service", service(1).as_str())
                .with("node", node)
                .with("kind", "semaphore");
            domain.names().set(&record)?;
        }
        Ok(forwarders)
    }

    /// Ends the processes and removes their names.
    pub(super) fn end(self, domain: &Domain, hops: usize) -> Result<(), BenchError> {
        for hub in ["a", "b"] {
            domain.names().delete(&format!("hub/{}", name(hops, hub)))?;
        }
        for child in &self.children {
            child.kill()?;
        }
        for child in &self.children {
            child.wait(MAX_WAIT)?;
        }
        Ok(())
    }
}

/// Returns the name of a hub that is reached over this number of channels.
pub(super) fn name(hops: usize, hub: &str) -> String {
    if hops == 1 { format!("bench/{hub}") } else { format!("bench/{hops}/{hub}") }
}

/// Returns the server's name of a hub.
fn plain_name(name: &str) -> Option<String> {
    let (hops, hub) = name.strip_prefix("bench/")?.split_once('/')?;
    hops.parse::<usize>().ok()?;
    Some(format!("bench/{hub}"))
}

fn options() -> Result<ChannelOptions, Error> {
    Ok(ChannelOptions::default().slots(1024)?.interface_hash(wire::INTERFACE_HASH))
}

/// Forwards the messages of every client of a service to another service, until killed.
pub(super) fn forward(domain: &Domain, service: &str, onward: &str) -> Result<(), BenchError> {
    let listener = options()?.export(domain, service)?.within(MAX_WAIT);
    loop {
        let near = match listener.accept() {
            Ok(near) => near,
            Err(Error::TimedOut { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let far = options()?.connect(domain, onward)?;
        // The thread ends with its client.
        std::thread::spawn(move || join(near, far));
    }
}

fn join(near: Channel, far: Channel) -> Result<(), Error> {
    let mut set = WaitSet::new()?;
    let near = set.add(near).map_err(Error::from)?;
    let far = set.add(far).map_err(Error::from)?;
    let (mut message, mut renamed) = (Vec::new(), Vec::new());
    loop {
        let from = match set.wait(MAX_WAIT) {
            Ok(Ready::Channel(token)) => token,
            Ok(_) | Err(Error::TimedOut { .. }) => continue,
            Err(error) => return Err(error),
        };
        let to = if from == near { far } else { near };
        while set[from].try_recv_into(&mut message)?.is_some() {
            renamed.clear();
            // A task has one request in flight, so there is always room.
            if from == near && rename(&message, &mut renamed) {
                set.try_send(to, &renamed)?;
            } else {
                set.try_send(to, &message)?;
            }
        }
    }
}

/// Measures round trips of a message as long as a request on a channel, echoed by a process: the lower bound
/// of a hub.
pub(super) fn echoed(bench: &Bench<'_>) -> Result<Times, BenchError> {
    let domain = bench.domain;
    let service = format!("bench-echo/{}", domain.id());
    let (program, arguments) = bench.member(&Role::Echo { service: service.clone() })?;
    let echo = domain.spawn(&SpawnOptions::image(&program).args(arguments))?;
    let mut channel = options()?.connect(domain, &service)?;
    let request = [7; wire::REQUEST_BYTES];
    let mut answer = Vec::new();
    let times = Times::of(bench.options.count, || {
        channel.send(&request)?;
        channel.recv_into(&mut answer).map(drop)
    });
    drop(channel);
    echo.wait(MAX_WAIT)?;
    Ok(times?)
}

/// Echoes the messages of its only client.
pub(super) fn return_all(domain: &Domain, service: &str) -> Result<(), BenchError> {
    let mut channel = options()?.export(domain, service)?.within(MAX_WAIT).accept()?;
    let mut message = Vec::new();
    loop {
        match channel.recv_into(&mut message).and_then(|_| channel.send(&message)) {
            Ok(()) => {}
            Err(Error::Closed { .. } | Error::PeerDied { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Rewrites a request to the server's name of the hub; returns false for a request without a name.
fn rename(message: &[u8], renamed: &mut Vec<u8>) -> bool {
    let Ok(request) = Request::decode(message) else { return false };
    let Operation::Open { name, kind, value_type } = request.operation else { return false };
    let Some(plain) = plain_name(name) else { return false };
    Request { operation: Operation::Open { name: &plain, kind, value_type }, ..request }.encode(renamed);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_forwarded_hubs_change() {
        assert_eq!(name(1, "a"), "bench/a");
        assert_eq!(plain_name(&name(8, "a")).as_deref(), Some("bench/a"));
        let open = |name| {
            let operation = Operation::Open { name, kind: None, value_type: 0 };
            let request =
                Request { number: 1, hub: 0, priority: 9, tentative: false, timeout_us: 7, operation };
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            bytes
        };
        let mut renamed = Vec::new();
        assert!(rename(&open("bench/3/b"), &mut renamed));
        assert_eq!(renamed, open("bench/b"));
        assert!(!rename(&open("bench/b"), &mut renamed));
        assert!(!rename(&[1, 2, 3], &mut renamed));
    }
}

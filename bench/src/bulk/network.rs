//! Bulk data over TCP to a virtual machine with a network: the alternative to a window.
//!
//! The machine is a separate one, without a window and a monitor, started by `tombolo bench bulk` and removed
//! afterwards, because nodes have no network (ADR 0041). Its process 1 is the far side's program.

use std::net::{SocketAddr, TcpStream};

use tombolo_bench_far::bulk::command::{Command, TIMEOUT};
pub use tombolo_bench_far::network::{ADDRESS, FAILED, PORT, SERVING, TCP_OVER_VIRTIO};
use tombolo_bench_far::network::{Connection, failed};

use super::nodes::{deliveries, delivery_row, flow, rounds};
use super::row;
use crate::suite::{Error, Metric, PeerInfo, Results, Route, Row, Schedule, buffers, length};

/// Lengths in bytes, the same as those of the window's rows.
const LENGTHS: [usize; 8] = super::nodes::LENGTHS;

/// Adds rows for both directions between `host` and the machine at `address` that stands for node `node`.
///
/// # Errors
/// The machine does not answer, or received data differs from what was sent.
pub fn add(
    results: &mut Results,
    (host, node): (&str, &str),
    address: SocketAddr,
    schedule: Schedule,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT).map_err(|error| failed("connect", &error))?;
    let mut connection = Connection::new(stream)?;
    if results.peers.iter().all(|peer| peer.name != TCP_OVER_VIRTIO) {
        let about = "a connection to a virtual machine with the processor and the memory of the node, started for this, over \
                     the network that the emulator makes without privileges (frames of 1500 bytes); one write a buffer, no delay";
        results.peers.push(PeerInfo { name: TCP_OVER_VIRTIO.into(), about: about.into() });
    }
    for bytes in LENGTHS {
        progress(&format!("{node} by TCP: {}", length(bytes)));
        connection.ask(Command::Make { bytes: bytes as u64, count: buffers(bytes) as u32 })?;
        connection.length_bytes(bytes);
        let there = flow(schedule, bytes, |count| {
            connection.send_command(Command::Take { count })?;
            connection.give(count)?;
            connection.recv_answer()
        })?;
        let back = flow(schedule, bytes, |count| {
            connection.send_command(Command::Give { count })?;
            connection.read(count)?;
            connection.recv_answer()
        })?;
        for ((from, to), rate) in [((host, node), there), ((node, host), back)] {
            let (rate_per_s, slices) = (Some(rate), schedule.slices);
            let route = Some(Route { from: from.into(), to: to.into(), by: TCP_OVER_VIRTIO.into() });
            let title = format!("{from} → {to}: {TCP_OVER_VIRTIO}");
            results.rows.push(Row { rate_per_s, slices, route, ..row(title, Metric::Bandwidth { bytes }) });
        }
        let latency = rounds(schedule, deliveries(bytes), |count| {
            connection.send_command(Command::Deliver { count })?;
            let took_ns = connection.deliver(count)?;
            connection.recv_answer().map(|()| took_ns)
        })?;
        results.rows.push(delivery_row((host, node), TCP_OVER_VIRTIO, bytes, latency));
    }
    Ok(connection.ask(Command::Bye)?)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;
    use crate::fixture::results;

    const SHORT: Schedule = Schedule { slices: 1, slice: Duration::from_micros(100), retries: 0 };

    fn served() -> (SocketAddr, std::thread::JoinHandle<Result<(), tombolo_bench_far::Error>>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        let serve = move || Connection::new(listener.accept().expect("a connection").0)?.serve();
        (address, std::thread::spawn(serve))
    }

    #[test]
    fn every_length_is_measured_both_ways_and_one_by_one() {
        let (address, far) = served();
        let mut found = results("here");
        found.rows.clear();
        add(&mut found, ("host", "arm0"), address, SHORT, &mut |_| {}).expect("figures");
        far.join().expect("no panic").expect("the far side hears the end");
        assert_eq!(found.rows.len(), 3 * LENGTHS.len());
        assert_eq!(found.peers.iter().filter(|peer| peer.name == TCP_OVER_VIRTIO).count(), 1);
        for (name, metric) in [
            ("host → arm0: TCP over virtio-net", Metric::Bandwidth { bytes: 64 }),
            ("arm0 → host: TCP over virtio-net", Metric::Bandwidth { bytes: 16 << 20 }),
            ("host → arm0: TCP over virtio-net", Metric::Delivery { bytes: 4096 }),
        ] {
            let row = found.row(name, metric).expect(name);
            assert!(row.typical().is_some_and(|value| value > 0.0), "{row:?}");
            assert_eq!(row.route.as_ref().map(|route| route.by.as_str()), Some(TCP_OVER_VIRTIO));
        }
    }
}

//! ZeroMQ: a pair of sockets over a Unix domain socket.

use tombolo_bench::suite::content::{Aligned, check, check_sum, fill, fill_bulk, sum};
use tombolo_bench::suite::{AnyEnd, End, Error, Meeting, Metric, Peer, Side};

const NAME: &str = "ZeroMQ";
const TIMEOUT_MS: i32 = 10_000;

fn failed(what: &'static str) -> impl FnOnce(zmq::Error) -> Error {
    move |error| Error::of_peer(NAME, format!("{what}: {error}"))
}

/// `PAIR` sockets over `ipc://`.
pub(crate) struct Pairs;

impl Peer for Pairs {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> String {
        let (major, minor, patch) = zmq::version();
        format!("libzmq {major}.{minor}.{patch}, PAIR sockets over ipc, one I/O thread a side; blocking")
    }

    fn metrics(&self) -> Vec<Metric> {
        let mut metrics = Metric::ROUND_TRIPS.to_vec();
        metrics.extend([Metric::WakeUp, Metric::Rate { bytes: 64, batch: 1 }]);
        metrics.extend(Metric::BANDWIDTHS);
        metrics.extend(Metric::STANDING);
        metrics
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        let context = zmq::Context::new();
        let socket = context.socket(zmq::PAIR).map_err(failed("make a socket"))?;
        let limits = [socket.set_rcvtimeo(TIMEOUT_MS), socket.set_sndtimeo(TIMEOUT_MS), socket.set_linger(0)];
        limits.into_iter().collect::<Result<(), _>>().map_err(failed("set a limit"))?;
        // An abstract socket, so that no file is left behind.
        let address = format!("ipc://@{}", meeting.name);
        match meeting.side {
            Side::Near => socket.bind(&address).map_err(failed("bind"))?,
            Side::Far => socket.connect(&address).map_err(failed("connect"))?,
        }
        Ok(AnyEnd::new(Pair { socket, buffer: Vec::new(), _context: context }))
    }
}

struct Pair {
    socket: zmq::Socket,
    buffer: Vec<u8>,
    _context: zmq::Context,
}

impl End for Pair {
    fn send<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let mut message = Aligned([0; N]);
        fill(&mut message.0, sequence);
        self.socket.send(&message.0[..], 0).map_err(failed("send"))
    }

    fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let mut message = [0; N];
        let length = self.socket.recv_into(&mut message, 0).map_err(failed("receive"))?;
        check::<N>(&message[..length.min(N)], sequence)
    }

    fn send_bulk(&mut self, bytes: usize, sequence: u64) -> Result<(), Error> {
        self.buffer.resize(bytes, 0);
        fill_bulk(&mut self.buffer, sequence);
        // Passes ownership of the buffer, as a program with large messages would.
        self.socket.send(zmq::Message::from(std::mem::take(&mut self.buffer)), 0).map_err(failed("send"))
    }

    fn recv_bulk(&mut self, bytes: usize, sequence: u64) -> Result<(), Error> {
        let message = self.socket.recv_msg(0).map_err(failed("receive"))?;
        check_sum(sum(&message), bytes, sequence)
    }
}

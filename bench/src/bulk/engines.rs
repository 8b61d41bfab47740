//! Bulk data that is copied on the way: by engines of this tree, and by TCP.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use tombolo_base::sync::Ordering::{Acquire, Release};
use tombolo_bench_far::content::{check_words, fill_words};
use tombolo_copies::engines::{
    Access, Engine, ForeignProcess, Location, MemoryId, Offers, Request, Server, SharedMemory, finish,
};
use tombolo_engine::attach::Attach;
use tombolo_engine::cpu::Caller;
use tombolo_engine::far::Far;
use tombolo_link::{ChannelConfig, Hello};
use tombolo_platform::copy::CopyLoop;
use tombolo_platform::copy::attach::address_of;
use tombolo_platform::socket::{SocketKind, pair};
use tombolo_platform::{Deadline, OsError};
use tombolo_transport::StreamChannel;

use crate::suite::peers::bare::{place, poll};
use crate::suite::peers::stream::Stream;
use crate::suite::{AnyEnd, End, Error, Meeting, Metric, Peer, Side, buffers};

/// Name of the copy by the sender's processor.
pub const COPIED: &str = "copied by the sender";
/// Name of the copy by the kernel.
pub const ATTACHED: &str = "cross-memory attach";
/// Name of the copy in messages of a stream.
pub const CARRIED: &str = "engine over a stream";
/// Name of the TCP peer.
pub const TCP: &str = "TCP over loopback";

/// Timeout of a copy.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Indices of the flag words, on separate cache lines: the number of buffers passed on by a sender that
/// writes the receiver's memory itself, the number read by the receiver, and the address of its memory.
const PASSED: usize = 0;
const READ: usize = 16;
const PROCESS: usize = 32;
const ADDRESS: usize = 33;

/// Size of the count that follows the buffers in private memory: the number of buffers passed on by a sender
/// whose engine writes by commands.
const COUNT_BYTES: usize = 8;

/// Allocates private memory for the buffers of a metric and a count.
fn private(metric: Metric) -> Result<SharedMemory, Error> {
    let Metric::Bandwidth { bytes } = metric else { return Err(Error::Unsupported) };
    Ok(SharedMemory::zeroed(count_offset_bytes(bytes) + COUNT_BYTES))
}

/// Returns the offset of the count in private memory with buffers of `bytes`.
fn count_offset_bytes(bytes: usize) -> usize {
    bytes * buffers(bytes)
}

/// Sender: fills its own memory, from which an engine copies to the receiver's buffers.
struct Sender {
    flags: SharedMemory,
    own: SharedMemory,
    engine: Box<dyn Engine>,
    target: Target,
    passed: u64,
}

/// Location of the receiver's buffers.
enum Target {
    /// A pool that both map.
    Pool(SharedMemory),
    /// Private memory of the receiver, which sends its address.
    Process(Option<(Arc<ForeignProcess>, u64)>),
    /// Memory offered by the receiver.
    Far(MemoryId),
}

impl Sender {
    fn place(&mut self, offset_bytes: usize) -> Result<Location, Error> {
        Ok(match &mut self.target {
            Target::Pool(memory) => Location::Mapped { memory: memory.clone(), offset_bytes },
            Target::Far(memory) => Location::Far { memory: *memory, offset_bytes: offset_bytes as u64 },
            Target::Process(known) => {
                let (process, address) = match known {
                    Some(known) => known,
                    None => {
                        let pid = self.flags.load_le(PROCESS, Acquire) as i32;
                        let address = self.flags.load_le(ADDRESS, Acquire);
                        known.insert((Arc::new(ForeignProcess::open(pid)?), address))
                    }
                };
                Location::Process { process: Arc::clone(process), address: *address + offset_bytes as u64 }
            }
        })
    }

    /// Copies the number of buffers passed on. The receiver serves commands until this one: if the flag told
    /// it instead, it could stop serving while this side waited for an answer.
    fn send_count(&mut self, bytes: usize) -> Result<(), Error> {
        let offset_bytes = count_offset_bytes(bytes);
        self.own.store_le(offset_bytes / COUNT_BYTES, self.passed, Release);
        let source = Location::Mapped { memory: self.own.clone(), offset_bytes };
        let target = self.place(offset_bytes)?;
        self.copy(Request::copy(source, target, COUNT_BYTES as u64))
    }

    fn copy(&mut self, request: Request) -> Result<(), Error> {
        let failed = |what: String| Error::Far { what };
        self.engine.submit(request).map_err(|rejected| failed(rejected.to_string()))?;
        let completion =
            finish(self.engine.as_mut(), TIMEOUT)?.ok_or_else(|| failed("was too slow".into()))?;
        completion.result.map_err(|failure| failed(failure.to_string()))
    }
}

impl End for Sender {
    fn send<const N: usize>(&mut self, _sequence: u64) -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    fn recv<const N: usize>(&mut self, _sequence: u64) -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    fn send_bulk(&mut self, bytes: usize, sequence: u64) -> Result<(), Error> {
        let (passed, ahead) = (self.passed, buffers(bytes) as u64);
        // Data from a stream is received by the thread that reads it, so there is no other thread to wait
        // for.
        poll(&self.flags, READ, |read| read + ahead > passed)?;
        let index = (passed % ahead) as usize;
        fill_words(place(&self.own, bytes, index)?, sequence);
        let source = Location::Mapped { memory: self.own.clone(), offset_bytes: index * bytes };
        let target = self.place(index * bytes)?;
        self.copy(Request::copy(source, target, bytes as u64))?;
        self.passed += 1;
        if matches!(self.target, Target::Far(_)) {
            return self.send_count(bytes);
        }
        self.flags.store_le(PASSED, self.passed, Release);
        Ok(())
    }
}

/// Receiver: reads its buffers in place.
struct Receiver {
    flags: SharedMemory,
    memory: SharedMemory,
    /// Server of the sender's engine, if the engine needs one.
    server: Option<Server<StreamChannel>>,
    read: u64,
}

impl End for Receiver {
    fn send<const N: usize>(&mut self, _sequence: u64) -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    fn recv<const N: usize>(&mut self, _sequence: u64) -> Result<(), Error> {
        Err(Error::Unsupported)
    }

    fn recv_bulk(&mut self, bytes: usize, sequence: u64) -> Result<(), Error> {
        let read = self.read;
        match &mut self.server {
            Some(server) => {
                let count = count_offset_bytes(bytes) / COUNT_BYTES;
                while self.memory.load_le(count, Acquire) <= read {
                    server.serve_one(TIMEOUT)?;
                }
            }
            None => {
                poll(&self.flags, PASSED, |passed| passed > read)?;
            }
        }
        let index = (read % buffers(bytes) as u64) as usize;
        check_words(place(&self.memory, bytes, index)?, sequence)?;
        self.read += 1;
        self.flags.store_le(READ, self.read, Release);
        Ok(())
    }
}

fn sender(
    meeting: &Meeting<'_>,
    metric: Metric,
    engine: Box<dyn Engine>,
    target: Target,
) -> Result<AnyEnd, Error> {
    let flags = meeting.flags();
    flags.store_le(PASSED, 0, Release);
    Ok(AnyEnd::new(Sender { flags, own: private(metric)?, engine, target, passed: 0 }))
}

fn receiver(meeting: &Meeting<'_>, memory: SharedMemory, server: Option<Server<StreamChannel>>) -> AnyEnd {
    let flags = meeting.flags();
    flags.store_le(READ, 0, Release);
    AnyEnd::new(Receiver { flags, memory, server, read: 0 })
}

/// Engine `caller`, copying into memory that both map.
#[derive(Debug)]
pub(super) struct Copied;

impl Peer for Copied {
    fn name(&self) -> &'static str {
        COPIED
    }

    fn about(&self) -> String {
        "filled in private memory, copied into a shared buffer by the engine `caller`, read there".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        Metric::BANDWIDTHS.to_vec()
    }

    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error> {
        match meeting.side {
            Side::Near => {
                let caller = Box::new(Caller::new(CopyLoop::Best, 1));
                sender(meeting, metric, caller, Target::Pool(meeting.pool()))
            }
            Side::Far => Ok(receiver(meeting, meeting.pool(), None)),
        }
    }
}

/// Engine `attach`, copying into the receiver's private memory.
#[derive(Debug)]
pub(super) struct Attached;

impl Peer for Attached {
    fn name(&self) -> &'static str {
        ATTACHED
    }

    fn about(&self) -> String {
        "filled in private memory, written into the receiver's by the engine `attach` (process_vm_writev), read there".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        Metric::BANDWIDTHS.to_vec()
    }

    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error> {
        match meeting.side {
            // The near side started the far side, so the kernel permits this direction even where it
            // restricts access to ancestors (Yama).
            Side::Near => sender(meeting, metric, Box::new(Attach::start(1)?), Target::Process(None)),
            Side::Far => {
                let (flags, memory) = (meeting.flags(), private(metric)?);
                let address = address_of(&memory, 0).map_err(|_| Error::Unsupported)?;
                flags.store_le(PROCESS, std::process::id().into(), Release);
                flags.store_le(ADDRESS, address, Release);
                Ok(receiver(meeting, memory, None))
            }
        }
    }
}

/// Engine `far` over a byte stream.
#[derive(Debug)]
pub(super) struct Carried;

impl Peer for Carried {
    fn name(&self) -> &'static str {
        CARRIED
    }

    fn about(&self) -> String {
        "filled in private memory, carried by the engine `far` over a local stream socket, stored and read there".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        Metric::BANDWIDTHS.to_vec()
    }

    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error> {
        let hello = Hello::new(ChannelConfig { slots: 4096, ..ChannelConfig::default() }, 0x6275_6c6b, None);
        let until = Deadline::after(TIMEOUT);
        let memory = private(metric)?;
        let mut offers = Offers::new();
        let id = offers.offer(memory.clone(), Access::Write).ok_or(Error::Unsupported)?;
        match meeting.side {
            Side::Near => {
                let (near, far) = pair(SocketKind::Stream)?;
                meeting.line.give_fds(&[far.as_fd()])?;
                drop(far);
                let channel = StreamChannel::open(near, hello, until)?;
                // It is the first offer of each side, so it has the same id on both.
                sender(meeting, metric, Box::new(Far::start("far", channel, 1)?), Target::Far(id))
            }
            Side::Far => {
                let [far] = meeting.line.take_fds()?;
                let channel = StreamChannel::open(far, hello, until)?;
                Ok(receiver(meeting, memory, Some(Server::new(channel, offers))))
            }
        }
    }
}

/// TCP on this host: the cost of the same bytes through the kernel's network stack.
#[derive(Debug)]
pub(super) struct Tcp;

impl Peer for Tcp {
    fn name(&self) -> &'static str {
        TCP
    }

    fn about(&self) -> String {
        "a TCP connection over the loopback; blocking read and write, no delay".into()
    }

    fn metrics(&self) -> Vec<Metric> {
        Metric::BANDWIDTHS.to_vec()
    }

    fn open(&self, meeting: &Meeting<'_>, _metric: Metric) -> Result<AnyEnd, Error> {
        let socket: OwnedFd = match meeting.side {
            Side::Near => {
                let (near, far) = connected().map_err(|error| OsError::from_io("connect by TCP", &error))?;
                meeting.line.give_fds(&[far.as_fd()])?;
                near.into()
            }
            Side::Far => {
                let [far] = meeting.line.take_fds()?;
                far
            }
        };
        let copy = socket.try_clone().map_err(|error| OsError::from_io("use a socket both ways", &error))?;
        Ok(AnyEnd::new(Stream::new(socket, copy)))
    }
}

fn connected() -> std::io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok((near, far))
}

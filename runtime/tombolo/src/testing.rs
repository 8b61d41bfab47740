//! Channels without a monitor, and a simulated monitor for tests.

use std::future::Future;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tombolo_base::coherence::{Caches, Evictions};
use tombolo_base::{ChannelId, DomainId, NodeId};
use tombolo_capability::{
    Backing, CapabilityFault, CapabilityId, CapabilityInfo, Extent, Kind, PAGE_BYTES, RegionId, RegionInfo,
    Rights, Seal,
};
use tombolo_control::{ClientMessage, Exit, Fault, Grant, MonitorMessage, RegionMap, Reply, Request, Wire};
use tombolo_link::{ChannelConfig, Side, TransportKind};
use tombolo_naming::Operation;
use tombolo_platform::Deadline;
use tombolo_platform::allocations::CountingAllocator;
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::memory::{RegionOptions, create_region};
use tombolo_platform::socket::{self, SocketKind};
use tombolo_transport::trace::Recorder;

use crate::channel::{Channel, Owner};
use crate::domain::Domain;
use crate::listener::Listener;
use crate::monitor::MonitorLink;
use crate::options::ChannelOptions;
use crate::spawn::{Child, SpawnOptions};

/// Counts allocations for the tests.
#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;

/// Longer than any step of a test takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn id(bits: u64) -> DomainId {
    DomainId::from_bits(bits).unwrap()
}

pub(crate) fn domain_id() -> DomainId {
    id(0x0001_0001_0000_0001)
}

pub(crate) fn grant(side: Side, transport: TransportKind) -> Grant {
    Grant {
        channel: ChannelId(7),
        side,
        peer: domain_id(),
        peer_node: "host".into(),
        transport,
        config: ChannelConfig::default(),
        window: None,
        hop: ChannelId(7),
        via: Vec::new(),
    }
}

fn open(side: Side, transport: TransportKind, socket: OwnedFd, options: &ChannelOptions) -> Channel {
    let recorder = Recorder::disabled();
    let owner = Owner { id: domain_id(), recorder: &recorder, link: Weak::new(), timeout: LONG };
    Channel::open(grant(side, transport), vec![socket], owner, options, LONG).unwrap()
}

/// Opens both ends of a channel.
pub(crate) fn pair_over(transport: TransportKind) -> (Channel, Channel) {
    pair_with(transport, &ChannelOptions::default())
}

/// Like [`pair_over`], with these options.
pub(crate) fn pair_with(transport: TransportKind, options: &ChannelOptions) -> (Channel, Channel) {
    let (a, b) = socket::pair(SocketKind::Stream).unwrap();
    std::thread::scope(|scope| {
        let a = scope.spawn(move || open(Side::A, transport, a, options));
        let b = open(Side::B, transport, b, options);
        (a.join().unwrap(), b)
    })
}

pub(crate) fn pair() -> (Channel, Channel) {
    pair_over(TransportKind::Shm)
}

/// Executor of a single future.
#[derive(Default)]
struct FutureWaker {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for FutureWaker {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let signal = Arc::new(FutureWaker::default());
    let waker = Waker::from(Arc::clone(&signal));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let woken = signal.woken.lock().unwrap();
        let (mut woken, waited) = signal.changed.wait_timeout_while(woken, LONG, |woken| !*woken).unwrap();
        assert!(!waited.timed_out(), "the future was not woken");
        *woken = false;
    }
}

/// Monitor's end of a domain's connection.
pub(crate) struct Monitor {
    socket: OwnedFd,
}

impl Monitor {
    /// Creates a domain and its monitor.
    pub(crate) fn with_domain() -> (Domain, Monitor) {
        let (ours, theirs) = socket::pair(SocketKind::Packet).unwrap();
        let link = Arc::new(MonitorLink::new(ours, "test".into(), Box::new(|_, _, _| {})));
        (Domain::of_link(link, domain_id()), Monitor { socket: theirs })
    }

    /// Wraps an accepted connection.
    pub(crate) fn of_connection(socket: OwnedFd) -> Monitor {
        Monitor { socket }
    }

    /// Creates a domain with an id that is unique in this process.
    pub(crate) fn another_domain() -> Domain {
        Self::with_another_domain().0
    }

    fn with_another_domain() -> (Domain, Monitor) {
        static LAST: AtomicU64 = AtomicU64::new(100);
        let (domain, monitor) = Self::with_domain();
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        (Domain::of_link(domain.link, id(domain_id().to_bits() + number)), monitor)
    }

    /// Creates a domain with a unique id, whose monitor creates one region and lets any domain map all of it
    /// with all rights.
    pub(crate) fn domain_with(memory: &Arc<SharedRegion>) -> Domain {
        let (domain, monitor) = Self::with_another_domain();
        let memory = Arc::clone(memory);
        std::thread::spawn(move || memory.serve(&monitor));
        domain
    }

    pub(crate) fn send_reply(&self, request: u32, body: Reply, fds: &[&OwnedFd]) {
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        socket::send(&self.socket, &MonitorMessage { request, body }.to_bytes().unwrap(), &fds).unwrap();
    }

    /// Returns the next message; its number is 0 if it needs no reply.
    pub(crate) fn next_message(&self) -> (u32, Request) {
        let mut buffer = vec![0; socket::MAX_PACKET_BYTES];
        let soon = Some(Deadline::after(LONG));
        assert!(poll(&[(self.socket.as_fd(), Interest::Read)], soon).unwrap()[0].readable);
        let received = socket::receive(&self.socket, &mut buffer).unwrap();
        let message = ClientMessage::from_bytes(&buffer[..received.length]).unwrap();
        (message.request, message.body)
    }

    /// Returns the next request that needs a reply.
    pub(crate) fn next_request(&self) -> (u32, Request) {
        loop {
            let (request, body) = self.next_message();
            if request != 0 {
                return (request, body);
            }
        }
    }

    /// Returns the next operation on names.
    pub(crate) fn next_about_names(&self) -> (u32, Operation) {
        let (request, body) = self.next_message();
        let Request::Names { operation, .. } = body else { panic!("{body:?}") };
        (request, operation)
    }

    /// Creates an export of `domain`, with number 5, and a child of it.
    pub(crate) fn listener_and_child(&self, domain: &Domain) -> (Listener, Child) {
        let listener = std::thread::scope(|scope| {
            scope.spawn(|| self.export(5));
            domain.export("name").unwrap()
        });
        let child = std::thread::scope(|scope| {
            scope.spawn(|| self.spawn(id(0x0001_0001_0000_0007)));
            domain.spawn(&SpawnOptions::this_image()).unwrap()
        });
        (listener, child)
    }

    pub(crate) fn export(&self, listener: u32) {
        let (request, body) = self.next_request();
        assert!(matches!(body, Request::Export { .. }));
        self.send_reply(request, Reply::Export { listener }, &[]);
    }

    /// Connects to a listener as a peer; the thread returns the peer's end.
    pub(crate) fn connect(&self, listener: u32) -> std::thread::JoinHandle<Channel> {
        self.connect_with(listener, ChannelOptions::default())
    }

    /// Like [`connect`](Self::connect), with these options.
    pub(crate) fn connect_with(
        &self,
        listener: u32,
        options: ChannelOptions,
    ) -> std::thread::JoinHandle<Channel> {
        let (a, b) = socket::pair(SocketKind::Stream).unwrap();
        self.send_reply(0, Reply::Incoming { listener, grant: grant(Side::B, TransportKind::Shm) }, &[&b]);
        std::thread::spawn(move || open(Side::A, TransportKind::Shm, a, &options))
    }

    pub(crate) fn end_child(&self, domain: DomainId, status: u8) {
        self.send_reply(0, Reply::Ended { domain, exit: Exit::Exited { status } }, &[]);
    }

    /// Answers the next request, which must start a child.
    pub(crate) fn spawn(&self, domain: DomainId) {
        let (request, body) = self.next_request();
        assert!(matches!(body, Request::Spawn { .. }));
        self.send_reply(request, Reply::Spawn { domain }, &[]);
    }
}

/// Region that several monitors share.
#[derive(Default)]
pub(crate) struct SharedRegion {
    memory: Mutex<Option<(OwnedFd, u64)>>,
    /// Whether its domains cannot reach the memory that others offer them.
    is_far: bool,
    /// Cache maintenance of its domains' views, if it is not coherent.
    caches: Option<Caches>,
}

impl SharedRegion {
    /// Creates the region of a domain that reaches no other's.
    pub(crate) fn far() -> Arc<Self> {
        Arc::new(SharedRegion { is_far: true, ..SharedRegion::default() })
    }

    /// Creates a region for which each domain has an emulated cache that never moves a line on its own.
    pub(crate) fn cached() -> Arc<Self> {
        Arc::new(SharedRegion {
            caches: Some(Caches::Emulated(Evictions::default())),
            ..SharedRegion::default()
        })
    }

    /// Answers the requests of a domain until it ends.
    fn serve(&self, monitor: &Monitor) {
        let mut lifelines = Vec::new();
        let mut buffer = vec![0; socket::MAX_PACKET_BYTES];
        loop {
            let waited = poll(&[(monitor.socket.as_fd(), Interest::Read)], Some(Deadline::after(LONG)));
            let Some(received) = waited.ok().and_then(|_| socket::receive(&monitor.socket, &mut buffer).ok())
            else {
                return;
            };
            let Ok(message) = ClientMessage::from_bytes(&buffer[..received.length]) else { return };
            if self.is_far && matches!(message.body, Request::CapabilityAccept { .. }) {
                let region = Self::region(PAGE_BYTES).id;
                let fault = CapabilityFault::NotReachable { region, from: domain_id() };
                monitor.send_reply(
                    message.request,
                    Reply::Failed { fault: Fault::Capability { fault } },
                    &[],
                );
                continue;
            }
            if let Request::RegionCreate { length_bytes, .. } = message.body {
                let length_bytes = length_bytes.next_multiple_of(PAGE_BYTES);
                let options = RegionOptions { huge_page_bytes: 0, numa_node: None };
                let made = create_region("tombolo-test", length_bytes, options).unwrap();
                *self.memory.lock().unwrap() = Some((made, length_bytes));
            }
            let memory = self.memory.lock().unwrap();
            let (memory, length_bytes) = memory.as_ref().expect("a region");
            let capability = Self::right(*length_bytes);
            match message.body {
                Request::RegionCreate { .. } => {
                    monitor.send_reply(message.request, Reply::RegionCreate { capability }, &[]);
                }
                Request::CapabilityDerive { .. } => {
                    monitor.send_reply(message.request, Reply::CapabilityDerive { capability }, &[]);
                }
                Request::CapabilityAccept { .. } => {
                    let region = Self::region(*length_bytes);
                    let reply = Reply::CapabilityAccept { capability, region, foreign: None };
                    monitor.send_reply(message.request, reply, &[]);
                }
                Request::RegionMap { rights, .. } => {
                    let (ours, theirs) = socket::pair(SocketKind::Stream).unwrap();
                    lifelines.push(ours);
                    let CapabilityInfo { region, extent, .. } = capability;
                    let (file_offset_bytes, huge_page_bytes) = (0, 0);
                    let backing = Backing::Memory;
                    let map = RegionMap {
                        region,
                        extent,
                        rights,
                        file_offset_bytes,
                        backing,
                        huge_page_bytes,
                        caches: self.caches,
                    };
                    monitor.send_reply(message.request, Reply::RegionMap { map }, &[memory, &theirs]);
                }
                Request::CapabilityRevoke { .. } => {
                    let reply = Reply::CapabilityRevoke { removed: 0, killed: Vec::new() };
                    monitor.send_reply(message.request, reply, &[]);
                }
                // Requests that need no reply.
                other => assert_eq!(message.request, 0, "{other:?}"),
            }
        }
    }

    fn right(length_bytes: u64) -> CapabilityInfo {
        CapabilityInfo {
            id: CapabilityId(1),
            region: Self::region(length_bytes).id,
            extent: Extent::new(0, length_bytes),
            rights: Rights::ALL,
            holder: domain_id(),
            parent: None,
            revoked: false,
            granter: None,
            kind: Kind::Memory,
        }
    }

    fn region(length_bytes: u64) -> RegionInfo {
        RegionInfo {
            id: RegionId::new(NodeId::HOST, NonZeroU16::MIN, 1),
            backing: Backing::Memory,
            length_bytes,
            maker: domain_id(),
            seal: Seal::Open,
            capabilities: 1,
            mappings: 0,
        }
    }
}

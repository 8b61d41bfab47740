//! Test rigs of the engines: one for each route.

use std::any::Any;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tombolo_base::SharedMemory;
use tombolo_engine::attach::Attach;
use tombolo_engine::cpu::{Caller, Threads};
use tombolo_engine::cuda::Cuda;
use tombolo_engine::far::{Access, Far, Offers, Server, serve};
use tombolo_engine::{Engine, Location};
use tombolo_link::{ChannelConfig, Hello};
use tombolo_platform::Deadline;
use tombolo_platform::copy::attach::{AttachError, ForeignProcess, address_of, allow};
use tombolo_platform::copy::cuda::{DeviceMemory, PinnedMemory};
use tombolo_platform::copy::{self, Loop};
use tombolo_platform::memory::{create_sealed, map};
use tombolo_platform::process::{Process, inherited};
use tombolo_platform::socket::{self, SocketKind};
use tombolo_transport::{ChannelError, StreamChannel, Transport, shm};

/// Length of each of the two memories, in bytes.
pub(crate) const ROOM: usize = 5 << 18;

/// Time limit for everything. Nothing here measures time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

type At = Box<dyn Fn(usize) -> Location>;
type Write = Box<dyn Fn(usize, &[u8])>;
type Look = Box<dyn Fn(usize, usize) -> Vec<u8>>;

/// Memory of `ROOM` bytes, as named by the engine and as accessed by the test.
pub(crate) struct Spot {
    pub(crate) place: At,
    pub(crate) write: Write,
    pub(crate) read: Look,
}

/// Engine, two memories, and everything that must live as long.
pub(crate) struct Bench {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) source: Spot,
    pub(crate) target: Spot,
    /// Kills the other side, where there is one.
    pub(crate) kill: Option<Box<dyn FnOnce()>>,
    pub(crate) _keep: Vec<Box<dyn Any>>,
}

pub(crate) type Start = Arc<dyn Fn(usize) -> Bench + Send + Sync>;

pub(crate) struct Rig {
    pub(crate) name: String,
    pub(crate) start: Start,
    pub(crate) fills: bool,
    pub(crate) background: bool,
    pub(crate) killable: bool,
    /// Whether source and target can be the same memory.
    pub(crate) overlaps: bool,
    /// Reason why the rig is not available here.
    pub(crate) missing: Option<String>,
}

impl Rig {
    fn new(name: &str, start: impl Fn(usize) -> Bench + Send + Sync + 'static) -> Rig {
        Rig {
            name: name.into(),
            start: Arc::new(start),
            fills: true,
            background: true,
            killable: false,
            overlaps: true,
            missing: None,
        }
    }
}

/// Returns every engine with every route that it claims.
pub(crate) fn all(cuda: &Result<(), String>) -> Vec<Rig> {
    let mut rigs = Vec::new();
    for how in Loop::here() {
        let caller = move |limit| on_mapped(Box::new(Caller::new(*how, limit)));
        rigs.push(Rig { background: false, ..Rig::new(&format!("caller-{how}"), caller) });
    }
    for count in [1, 3] {
        let threads = move |limit| on_mapped(Box::new(Threads::start(Loop::Best, count, limit).unwrap()));
        rigs.push(Rig::new(&format!("threads-{count}"), threads));
    }
    let missing = no_attach();
    for (name, reads) in [("attach-read", true), ("attach-write", false)] {
        let rig = Rig::new(name, move |limit| attached(limit, reads));
        let missing = missing.clone();
        rigs.push(Rig { fills: false, killable: true, overlaps: false, missing, ..rig });
    }
    for (name, of_shm) in [("stream", false), ("shm", true)] {
        for (way, source_far, target_far) in
            [("push", false, true), ("fetch", true, false), ("alone", true, true)]
        {
            let rig = Rig::new(&format!("far-{name}-{way}"), move |limit| {
                if of_shm {
                    far(limit, memory_channels(), source_far, target_far)
                } else {
                    far(limit, stream_channels(), source_far, target_far)
                }
            });
            let both = source_far && target_far;
            rigs.push(Rig { fills: target_far, killable: true, overlaps: both, ..rig });
        }
    }
    let missing = cuda.as_ref().err().cloned();
    for (way, from, to, pinned) in [
        ("push", false, true, false),
        ("push-pinned", false, true, true),
        ("fetch", true, false, false),
        ("fetch-pinned", true, false, true),
        ("within", true, true, false),
    ] {
        let rig = Rig::new(&format!("cuda-{way}"), move |limit| on_device(limit, from, to, pinned));
        rigs.push(Rig { fills: to, overlaps: from && to, missing: missing.clone(), ..rig });
    }
    rigs
}

/// Returns the test's direct access to a memory that this process maps.
fn by_hand(memory: &SharedMemory) -> (Write, Look) {
    let (to, from) = (memory.clone(), memory.clone());
    let write = move |offset: usize, bytes: &[u8]| copy::write(Loop::Best, &to, offset, bytes).unwrap();
    let read = move |offset: usize, length: usize| {
        let mut bytes = vec![0; length];
        copy::read(Loop::Best, &from, offset, &mut bytes).unwrap();
        bytes
    };
    (Box::new(write), Box::new(read))
}

fn mapped() -> Spot {
    spot_of(SharedMemory::zeroed(ROOM))
}

fn spot_of(memory: SharedMemory) -> Spot {
    let (write, read) = by_hand(&memory);
    let place = move |offset_bytes| Location::Mapped { memory: memory.clone(), offset_bytes };
    Spot { place: Box::new(place), write, read }
}

fn on_mapped(engine: Box<dyn Engine>) -> Bench {
    Bench { engine, source: mapped(), target: mapped(), kill: None, _keep: Vec::new() }
}

const PEER_FILE: &str = "TOMBOLO_ENGINE_TEST_FILE";

/// Runs in the process whose memory is copied: maps the inherited file, reports its address, and exits when
/// its standard input ends.
pub(crate) fn be_the_other_process() -> bool {
    let Ok(number) = std::env::var(PEER_FILE) else { return false };
    let file = inherited(number.parse().unwrap()).unwrap();
    let memory = map(&file, 0, ROOM).unwrap();
    // Where the kernel permits only ancestors, the test is one; elsewhere this fails or has no
    // effect.
    let _ = allow(std::os::unix::process::parent_id() as i32);
    println!("{}", address_of(&memory, 0).unwrap());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    true
}

/// Returns the reason why this kernel does not copy between processes, tried on this process; `None` if it
/// does.
fn no_attach() -> Option<String> {
    let (from, to) = (SharedMemory::zeroed(8), SharedMemory::zeroed(8));
    let here = ForeignProcess::watch(std::process::id() as i32).ok()?;
    match here.read(address_of(&from, 0).ok()?, &to, 0, 8) {
        Err(error @ (AttachError::Unsupported { .. } | AttachError::NotAllowed { .. })) => {
            Some(error.to_string())
        }
        _ => None,
    }
}

fn attached(limit: usize, reads: bool) -> Bench {
    let file = create_sealed("tombolo-engine-test", ROOM as u64).unwrap();
    let memory = map(&file, 0, ROOM).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(PEER_FILE, file.as_raw_fd().to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = Process::start(&mut command, &[file.as_fd()]).unwrap();
    let mut said = String::new();
    BufReader::new(process.child_mut().stdout.take().unwrap()).read_line(&mut said).unwrap();
    let first: u64 = said.trim().parse().unwrap();
    let foreign = Arc::new(ForeignProcess::watch(process.pid()).unwrap());
    let (write, read) = by_hand(&memory);
    let named = Arc::clone(&foreign);
    let place = move |offset: usize| Location::Process {
        process: Arc::clone(&named),
        // Addresses for ranges outside the file must be unmapped.
        address: if offset <= ROOM { first + offset as u64 } else { offset as u64 % 4096 },
    };
    let theirs = Spot { place: Box::new(place), write, read };
    let (source, target) = if reads { (theirs, mapped()) } else { (mapped(), theirs) };
    let engine = Box::new(Attach::start(limit).unwrap());
    let process = Ended(process);
    Bench { engine, source, target, kill: Some(Box::new(move || drop(process))), _keep: Vec::new() }
}

/// Process that is killed when dropped.
struct Ended(Process);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.destroy();
    }
}

fn hello() -> Hello {
    Hello::new(ChannelConfig::default(), 0x636f_7079, None)
}

fn both<T: Send + 'static>(
    one: impl FnOnce() -> Result<T, ChannelError> + Send + 'static,
    other: impl FnOnce() -> Result<T, ChannelError>,
) -> (T, T) {
    let one = std::thread::spawn(one);
    let other = other().unwrap();
    (one.join().unwrap().unwrap(), other)
}

fn stream_channels() -> (StreamChannel, StreamChannel) {
    let (a, b) = socket::pair(SocketKind::Stream).unwrap();
    let until = Deadline::after(PATIENCE);
    both(move || StreamChannel::open(a, hello(), until), || StreamChannel::open(b, hello(), until))
}

fn memory_channels() -> (tombolo_transport::MemoryChannel, tombolo_transport::MemoryChannel) {
    let (a, b) = socket::pair(SocketKind::Stream).unwrap();
    let until = Deadline::after(PATIENCE);
    both(move || shm::connect(a, hello(), until), || shm::accept(b, hello(), until))
}

fn far<T: Transport + Send + 'static>(
    limit: usize,
    (ours, theirs): (T, T),
    source_far: bool,
    target_far: bool,
) -> Bench {
    let memories = [SharedMemory::zeroed(ROOM), SharedMemory::zeroed(ROOM)];
    let mut offers = Offers::new();
    let ids = memories.clone().map(|memory| offers.offer(memory, Access::Both).unwrap());
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        let mut server = Server::new(theirs, offers);
        let until = Deadline::after(PATIENCE * 10);
        // In short turns, so that it can be stopped.
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            if serve(&mut server, until.min(Deadline::after(Duration::from_millis(20)))).is_err() {
                break;
            }
        }
    });
    let spot = |index: usize, far: bool| {
        if !far {
            return mapped();
        }
        let (write, read) = by_hand(&memories[index]);
        let memory = ids[index];
        let place = move |offset: usize| Location::Far { memory, offset_bytes: offset as u64 };
        Spot { place: Box::new(place), write, read }
    };
    let (source, target) = (spot(0, source_far), spot(1, target_far));
    let engine = Box::new(Far::start("far", ours, limit).unwrap());
    let kill = move || {
        drop(stop);
        server.join().unwrap();
    };
    Bench { engine, source, target, kill: Some(Box::new(kill)), _keep: Vec::new() }
}

fn on_device(limit: usize, from: bool, to: bool, pinned: bool) -> Bench {
    let (engine, device) = Cuda::start(0, limit).unwrap();
    let mut keep: Vec<Box<dyn Any>> = vec![Box::new(Arc::clone(&device))];
    let mut spot = |on_device: bool| {
        if !on_device {
            let memory = SharedMemory::zeroed(ROOM);
            if pinned {
                keep.push(Box::new(PinnedMemory::pin(&device, &memory).unwrap()));
            }
            return spot_of(memory);
        }
        let memory = Arc::new(DeviceMemory::allocate(&device, ROOM).unwrap());
        let (named, to, from) = (Arc::clone(&memory), Arc::clone(&memory), memory);
        let place = move |offset_bytes| Location::Device { memory: Arc::clone(&named), offset_bytes };
        let write = move |offset: usize, bytes: &[u8]| {
            let here = SharedMemory::zeroed(bytes.len());
            here.copy_in(0, bytes).unwrap();
            to.write(offset, (&here, 0), bytes.len()).unwrap();
        };
        let read = move |offset: usize, length: usize| {
            let here = SharedMemory::zeroed(length);
            from.read(offset, (&here, 0), length).unwrap();
            let mut bytes = vec![0; length];
            here.copy_out(0, &mut bytes).unwrap();
            bytes
        };
        Spot { place: Box::new(place), write: Box::new(write), read: Box::new(read) }
    };
    let (source, target) = (spot(from), spot(to));
    Bench { engine: Box::new(engine), source, target, kill: None, _keep: keep }
}

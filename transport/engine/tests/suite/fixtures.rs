//! Test setups of the engines: one for each route.

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
use tombolo_platform::copy::attach::{AttachError, ForeignProcess, address_of, allow_access_by};
use tombolo_platform::copy::cuda::{DeviceMemory, PinnedMemory};
use tombolo_platform::copy::{self, CopyLoop};
use tombolo_platform::memory::{create_sealed, map};
use tombolo_platform::process::{Process, take_inherited_fd};
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
pub(crate) struct TestMemory {
    pub(crate) place: At,
    pub(crate) write: Write,
    pub(crate) read: Look,
}

/// Engine, two memories, and everything that must live as long.
pub(crate) struct Fixture {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) source: TestMemory,
    pub(crate) target: TestMemory,
    /// Kills the other side, where there is one.
    pub(crate) kill: Option<Box<dyn FnOnce()>>,
    pub(crate) _keep: Vec<Box<dyn Any>>,
}

pub(crate) type Start = Arc<dyn Fn(usize) -> Fixture + Send + Sync>;

pub(crate) struct EngineSetup {
    pub(crate) name: String,
    pub(crate) start: Start,
    pub(crate) fills: bool,
    pub(crate) background: bool,
    pub(crate) killable: bool,
    /// Whether source and target can be the same memory.
    pub(crate) overlaps: bool,
    /// Reason why the setup is not available here.
    pub(crate) missing: Option<String>,
}

impl EngineSetup {
    fn new(name: &str, start: impl Fn(usize) -> Fixture + Send + Sync + 'static) -> EngineSetup {
        EngineSetup {
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
pub(crate) fn all(cuda: &Result<(), String>) -> Vec<EngineSetup> {
    let mut setups = Vec::new();
    for how in CopyLoop::available() {
        let caller = move |limit| on_mapped(Box::new(Caller::new(*how, limit)));
        setups.push(EngineSetup { background: false, ..EngineSetup::new(&format!("caller-{how}"), caller) });
    }
    for count in [1, 3] {
        let threads = move |limit| on_mapped(Box::new(Threads::start(CopyLoop::Best, count, limit).unwrap()));
        setups.push(EngineSetup::new(&format!("threads-{count}"), threads));
    }
    let missing = no_attach();
    for (name, reads) in [("attach-read", true), ("attach-write", false)] {
        let setup = EngineSetup::new(name, move |limit| attached(limit, reads));
        let missing = missing.clone();
        setups.push(EngineSetup { fills: false, killable: true, overlaps: false, missing, ..setup });
    }
    for (name, of_shm) in [("stream", false), ("shm", true)] {
        for (way, source_far, target_far) in
            [("push", false, true), ("fetch", true, false), ("alone", true, true)]
        {
            let setup = EngineSetup::new(&format!("far-{name}-{way}"), move |limit| {
                if of_shm {
                    far(limit, memory_channels(), source_far, target_far)
                } else {
                    far(limit, stream_channels(), source_far, target_far)
                }
            });
            let both = source_far && target_far;
            setups.push(EngineSetup { fills: target_far, killable: true, overlaps: both, ..setup });
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
        let setup = EngineSetup::new(&format!("cuda-{way}"), move |limit| on_device(limit, from, to, pinned));
        setups.push(EngineSetup { fills: to, overlaps: from && to, missing: missing.clone(), ..setup });
    }
    setups
}

/// Returns the test's direct access to a memory that this process maps.
fn direct_access(memory: &SharedMemory) -> (Write, Look) {
    let (to, from) = (memory.clone(), memory.clone());
    let write = move |offset: usize, bytes: &[u8]| copy::write(CopyLoop::Best, &to, offset, bytes).unwrap();
    let read = move |offset: usize, length: usize| {
        let mut bytes = vec![0; length];
        copy::read(CopyLoop::Best, &from, offset, &mut bytes).unwrap();
        bytes
    };
    (Box::new(write), Box::new(read))
}

fn mapped() -> TestMemory {
    test_memory(SharedMemory::zeroed(ROOM))
}

fn test_memory(memory: SharedMemory) -> TestMemory {
    let (write, read) = direct_access(&memory);
    let place = move |offset_bytes| Location::Mapped { memory: memory.clone(), offset_bytes };
    TestMemory { place: Box::new(place), write, read }
}

fn on_mapped(engine: Box<dyn Engine>) -> Fixture {
    Fixture { engine, source: mapped(), target: mapped(), kill: None, _keep: Vec::new() }
}

const PEER_FILE: &str = "TOMBOLO_ENGINE_TEST_FILE";

/// Runs in the process whose memory is copied: maps the inherited file, reports its address, and exits when
/// its standard input ends.
pub(crate) fn run_as_peer_process() -> bool {
    let Ok(number) = std::env::var(PEER_FILE) else { return false };
    let file = take_inherited_fd(number.parse().unwrap()).unwrap();
    let memory = map(&file, 0, ROOM).unwrap();
    // Where the kernel permits only ancestors, the test is one; elsewhere this fails or has no
    // effect.
    let _ = allow_access_by(std::os::unix::process::parent_id() as i32);
    println!("{}", address_of(&memory, 0).unwrap());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    true
}

/// Returns the reason why this kernel does not copy between processes, tried on this process; `None` if it
/// does.
fn no_attach() -> Option<String> {
    let (from, to) = (SharedMemory::zeroed(8), SharedMemory::zeroed(8));
    let here = ForeignProcess::open(std::process::id() as i32).ok()?;
    match here.read(address_of(&from, 0).ok()?, &to, 0, 8) {
        Err(error @ (AttachError::Unsupported { .. } | AttachError::NotAllowed { .. })) => {
            Some(error.to_string())
        }
        _ => None,
    }
}

fn attached(limit: usize, reads: bool) -> Fixture {
    let file = create_sealed("tombolo-engine-test", ROOM as u64).unwrap();
    let memory = map(&file, 0, ROOM).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(PEER_FILE, file.as_raw_fd().to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = Process::start(&mut command, &[file.as_fd()]).unwrap();
    let mut line = String::new();
    BufReader::new(process.child_mut().stdout.take().unwrap()).read_line(&mut line).unwrap();
    let first: u64 = line.trim().parse().unwrap();
    let foreign = Arc::new(ForeignProcess::open(process.pid()).unwrap());
    let (write, read) = direct_access(&memory);
    let named = Arc::clone(&foreign);
    let place = move |offset: usize| Location::Process {
        process: Arc::clone(&named),
        // Addresses for ranges outside the file must be unmapped.
        address: if offset <= ROOM { first + offset as u64 } else { offset as u64 % 4096 },
    };
    let theirs = TestMemory { place: Box::new(place), write, read };
    let (source, target) = if reads { (theirs, mapped()) } else { (mapped(), theirs) };
    let engine = Box::new(Attach::start(limit).unwrap());
    let process = Ended(process);
    Fixture { engine, source, target, kill: Some(Box::new(move || drop(process))), _keep: Vec::new() }
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
) -> Fixture {
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
        let (write, read) = direct_access(&memories[index]);
        let memory = ids[index];
        let place = move |offset: usize| Location::Far { memory, offset_bytes: offset as u64 };
        TestMemory { place: Box::new(place), write, read }
    };
    let (source, target) = (spot(0, source_far), spot(1, target_far));
    let engine = Box::new(Far::start("far", ours, limit).unwrap());
    let kill = move || {
        drop(stop);
        server.join().unwrap();
    };
    Fixture { engine, source, target, kill: Some(Box::new(kill)), _keep: Vec::new() }
}

fn on_device(limit: usize, from: bool, to: bool, pinned: bool) -> Fixture {
    let (engine, device) = Cuda::start(0, limit).unwrap();
    let mut keep: Vec<Box<dyn Any>> = vec![Box::new(Arc::clone(&device))];
    let mut spot = |on_device: bool| {
        if !on_device {
            let memory = SharedMemory::zeroed(ROOM);
            if pinned {
                keep.push(Box::new(PinnedMemory::pin(&device, &memory).unwrap()));
            }
            return test_memory(memory);
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
        TestMemory { place: Box::new(place), write: Box::new(write), read: Box::new(read) }
    };
    let (source, target) = (spot(from), spot(to));
    Fixture { engine: Box::new(engine), source, target, kill: None, _keep: keep }
}

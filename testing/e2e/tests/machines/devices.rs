//! Networks between nodes, and disks of one node on another, used by kernels and their programs.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::process::Signal;
use tombolo_e2e::{
    DEATH_IS_KNOWN, Finished, Machine, MachineFile, PATIENCE, Running, eventually, unsupported,
};
use tombolo_platform::device::tap::Tap;

/// Runs a tool on the Arm machine.
fn busybox(machine: &Machine, words: &[&str]) -> Finished {
    start_busybox(machine, words).finish()
}

fn start_busybox(machine: &Machine, words: &[&str]) -> Running {
    let tool = tombolo_e2e::kit_folder().join("aarch64/busybox").display().to_string();
    machine.start(["run", "--on", "arm0", &tool].iter().chain(words))
}

/// Returns bytes of which no two blocks are equal.
fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state >> 3).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Whether this user can create network devices on this kernel; reports if not.
fn has_network_devices() -> bool {
    match Tap::create(&format!("try{}", std::process::id())) {
        Ok(_) => true,
        Err(error) => {
            unsupported(&format!("a network between nodes: {error}"));
            false
        }
    }
}

#[test]
fn a_network_of_two_nodes() {
    if !has_network_devices() {
        return;
    }
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let number = std::process::id() % 200;
    let (name, host) = (format!("tom{}", std::process::id()), format!("10.89.{number}.1"));
    let subnet = format!("10.89.{number}.0/24");
    let words = ["net", "--on", "host,arm0", "--name", &name, "--subnet", &subnet, "--mtu", "9000"];
    let net = machine.start(words);
    net.wait_for("[host] link up: arm0");
    net.wait_for("[arm0] link up: host");
    let ping = |bytes: &str| busybox(&machine, &["ping", "-c", "3", "-w", "60", "-s", bytes, &host]).ok();
    // Short, the longest that fits into one packet, and one that is fragmented.
    for bytes in ["56", "8972", "20000"] {
        assert!(ping(bytes).contains(" 0% packet loss"), "{bytes}");
    }
    there_and_back(&machine, &host);

    // The death of one end takes the other's link down; its return brings the link up.
    let port = machine.domains_on("arm0")[0].1.to_string();
    busybox(&machine, &["kill", "-9", &port]).ok();
    net.wait_for("[host] link down: arm0");
    let both = |text: &str, count: usize| eventually(|| net.stdout_so_far().matches(text).count() >= count);
    assert!(both("[arm0] link up: host", 2), "{}", net.stdout_so_far());
    assert!(ping("56").contains(" 0% packet loss"));
    // The same with the whole node.
    machine.tombolo(["restart", "arm0", "--force"]).ok();
    assert!(both("[arm0] link up: host", 3), "{}", net.stdout_so_far());
    assert!(ping("56").contains(" 0% packet loss"));

    // Nothing is left of a network whose command is killed.
    assert!(has_card(&name));
    net.signal(Signal::KILL);
    let _ = net.finish();
    assert!(eventually(|| !has_card(&name)), "the card is still there");
    machine.down();
}

fn has_card(name: &str) -> bool {
    let cards = fs::read_to_string("/proc/self/net/dev").expect("a list of network devices");
    cards.lines().any(|line| line.trim_start().starts_with(&format!("{name}:")))
}

/// Sends a byte stream from this host to a file on the Arm machine and back.
fn there_and_back(machine: &Machine, host: &str) {
    let bytes = pattern(8 << 20, 7);
    let accept = || {
        let listener = TcpListener::bind((host, 0)).expect("the host's address on the network");
        let port = listener.local_addr().unwrap().port().to_string();
        (listener, port)
    };
    let (listener, port) = accept();
    let client = start_busybox(
        machine,
        &["sh", "-c", &format!("/tombolo/busybox nc {host} {port} >/tmp/got </dev/null")],
    );
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&bytes).unwrap();
    drop(stream);
    client.finish().ok();
    let (listener, port) = accept();
    let client =
        start_busybox(machine, &["sh", "-c", &format!("/tombolo/busybox nc {host} {port} </tmp/got")]);
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    // The guest's tool ends with the connection.
    drop(stream);
    client.finish().ok();
    assert!(back == bytes, "{} of {} bytes are back, or others", back.len(), bytes.len());
}

#[test]
fn what_a_network_refuses() {
    let machine = Machine::up(&MachineFile::host().with_user("a", "aarch64").with_user("b", "aarch64"));
    let fails = |words: &[&str], status: i32, said: &[&str]| {
        machine.tombolo(["net"].iter().chain(words)).fails_with(status, said);
    };
    fails(&["--on", "host"], 2, &["two nodes or more"]);
    fails(&["--on", "host,nowhere"], 1, &["nowhere"]);
    fails(&["--on", "host,a,host"], 2, &["named twice"]);
    fails(&["--on", "host,a", "--subnet", "10.1.2.3/24"], 2, &["10.1.2.0/24"]);
    fails(&["--on", "host,a,b", "--subnet", "10.1.2.0/30"], 2, &["no addresses for 3 nodes"]);
    machine.down();
}

const DISK_BYTES: usize = 8 << 20;

/// Command that writes standard input to the middle of the disk, not aligned to pages.
const WRITE: &str = "/tombolo/busybox cat >/tmp/some && /tombolo/busybox dd if=/tmp/some of=/dev/nbd0 bs=96k seek=7 conv=notrunc,fsync";

#[test]
fn a_disk_of_the_host_on_the_arm_machine() {
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let file = machine.folder().join("disk");
    let content = pattern(DISK_BYTES, 1);
    fs::write(&file, &content).unwrap();
    let mut server = serve(&machine, &file, &[]);
    let disk = machine.start(["block", "attach", "d0", "--on", "arm0", "--timeout", "20"]);
    disk.wait_for(&format!("[arm0] ready: /dev/nbd0 on arm0 is 'd0' of host, {DISK_BYTES} bytes"));
    let all = || busybox(&machine, &["cat", "/dev/nbd0"]).ok_bytes().to_vec();
    assert!(all() == content);

    // Completed writes of the Arm machine are in the file.
    let some = pattern(40 << 16, 2);
    let mut write = start_busybox(&machine, &["sh", "-c", WRITE]);
    write.feed(some.clone());
    write.finish().ok();
    let (from, to) = (7 * (96 << 10), 7 * (96 << 10) + some.len());
    let expected = [&content[..from], &some, &content[to..]].concat();
    assert!(fs::read(&file).unwrap() == expected && all() == expected);

    // No second client gets the disk or the file.
    let second = machine.tombolo(["block", "attach", "d0", "--socket", "@second", "--timeout", "1"]);
    assert_ne!(second.status, 0, "{second}");
    server.wait_for("refused: host");
    let path = file.display().to_string();
    machine.tombolo(["block", "serve", "d1", &path]).fails_with(1, &["served for writing already"]);

    // If the server dies during writes, the client soon gets an error and does not hang.
    let writes = "B=/tombolo/busybox; echo begun; \
                  while $B dd if=/dev/zero of=/dev/nbd0 bs=64k count=128 conv=notrunc,fsync; do :; done; echo failed";
    let uncached = |command: &str| {
        let forget = "/tombolo/busybox sync; echo 3 >/proc/sys/vm/drop_caches";
        busybox(&machine, &["sh", "-c", &format!("{forget}; /tombolo/busybox {command}")])
    };
    for round in 1..=2 {
        let writing = start_busybox(&machine, &["sh", "-c", writes]);
        writing.wait_for("begun");
        machine.kill(machine.domains_on("host")[0].1);
        assert!(writing.finish_within(DEATH_IS_KNOWN * 3).text().contains("failed"));
        assert_ne!(server.finish().status, 0);
        assert_ne!(
            uncached("dd if=/dev/nbd0 of=/dev/null bs=64k count=1 skip=99").status,
            0,
            "without a server"
        );
        server = serve(&machine, &file, &[]);
        assert!(eventually(|| disk.stdout_so_far().matches("connected again").count() == round));
        assert!(uncached("cat /dev/nbd0").ok_bytes() == fs::read(&file).unwrap());
    }

    // The disk goes away with its command, even after SIGKILL.
    disk.signal(Signal::KILL);
    let _ = disk.finish();
    let size = || busybox(&machine, &["cat", "/sys/block/nbd0/size"]).ok();
    assert!(eventually(|| size() == "0\n"), "{}", size());
    server.signal(Signal::INT);
    server.finish().ok();
    machine.down();
}

fn serve(machine: &Machine, file: &Path, options: &[&str]) -> Running {
    let file = file.display().to_string();
    let server = machine.start(["block", "serve", "d0", &file].iter().chain(options));
    server.wait_for("[host] ready: 'd0' on host");
    server
}

/// A minimal client of the network block device protocol.
struct Client {
    stream: UnixStream,
    bytes: u64,
    flags: u16,
}

impl Client {
    fn connect(path: &Path) -> Client {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        // The flag that omits the zero padding; then the option without a reply.
        stream.write_all(&[0, 0, 0, 3]).unwrap();
        stream.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\x02d0").unwrap();
        let mut export = [0; 10];
        stream.read_exact(&mut export).unwrap();
        let bytes = u64::from_be_bytes(export[..8].try_into().unwrap());
        Client { stream, bytes, flags: u16::from_be_bytes(export[8..].try_into().unwrap()) }
    }

    fn ask(&mut self, code: u16, offset: u64, length: u32, data: &[u8]) {
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend([0, 0]);
        request.extend(code.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(length.to_be_bytes());
        request.extend(data);
        self.stream.write_all(&request).unwrap();
    }

    /// Returns error and cookie of the next reply.
    fn answer(&mut self) -> (u32, u64) {
        let mut answer = [0; 16];
        self.stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer[..4], 0x6744_6698_u32.to_be_bytes());
        let error = u32::from_be_bytes(answer[4..8].try_into().unwrap());
        (error, u64::from_be_bytes(answer[8..].try_into().unwrap()))
    }

    fn execute(&mut self, code: u16, offset: u64, length: u32, data: &[u8]) -> u32 {
        self.ask(code, offset, length, data);
        let (error, cookie) = self.answer();
        assert_eq!(cookie, offset);
        error
    }

    fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        assert_eq!(self.execute(0, offset, length, &[]), 0);
        let mut data = vec![0; length as usize];
        self.stream.read_exact(&mut data).unwrap();
        data
    }
}

#[test]
fn a_disk_on_a_socket_for_other_programs() {
    let machine = Machine::up(&MachineFile::host());
    let (file, socket) = (machine.folder().join("disk"), machine.folder().join("socket"));
    let server = serve(&machine, &file, &["--create", "8M"]);
    let server_pid = machine.domains_on("host")[0].1;
    let place = socket.display().to_string();
    let attach = || {
        let attached = machine.start(["block", "attach", "d0", "--socket", &place, "--timeout", "5"]);
        attached.wait_for("[host] ready: ");
        attached
    };
    let attached = attach();
    let mut client = Client::connect(&socket);
    assert_eq!((client.bytes, client.flags), (DISK_BYTES as u64, 0b110_1101));
    // Longer than a buffer and than the maximum in flight, 64 times 128 KiB.
    let bytes = pattern(DISK_BYTES, 3);
    assert_eq!(client.execute(1, 0, DISK_BYTES as u32, &bytes), 0);
    assert_eq!(client.execute(3, 0, 0, &[]), 0, "a flush");
    assert!(fs::read(&file).unwrap() == bytes);
    assert!(client.read(0, DISK_BYTES as u32) == bytes);
    assert!(client.read(512, 1 << 20) == bytes[512..][..1 << 20]);
    // Several requests at once, answered in any order.
    for block in 0..32 {
        client.ask(1, block * 4096, 4096, &pattern(4096, block));
    }
    let mut answered: Vec<u64> =
        (0..32).map(|_| client.answer()).map(|(error, at)| at + u64::from(error)).collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..32).map(|block| block * 4096).collect::<Vec<_>>());
    assert!(client.read(5 * 4096, 4096) == pattern(4096, 5));
    // Discarded and zeroed blocks, ranges out of bounds, unsupported commands.
    assert_eq!(client.execute(4, 4096, 4096, &[]), 0);
    assert_eq!(client.execute(6, 65536, 65536, &[]), 0);
    assert!(client.read(65536, 65536).iter().all(|byte| *byte == 0));
    assert_eq!(client.execute(0, DISK_BYTES as u64, 512, &[]), 22);
    assert_eq!(client.execute(1, 1, 512, &[0; 512]), 22);
    assert_eq!(client.execute(9, 0, 0, &[]), 95);

    // The server dies and comes back: errors first, then the same bytes.
    machine.kill(server_pid);
    attached.wait_for("connection lost");
    assert_eq!(client.execute(0, 0, 512, &[]), 5);
    assert_ne!(server.finish().status, 0);
    let server = serve(&machine, &file, &[]);
    attached.wait_for("connected again");
    assert!(client.read(5 * 4096, 4096) == pattern(4096, 5));
    server.signal(Signal::INT);
    server.finish().ok();

    // A read-only server, for a client that reconnects. A server of another size ends it.
    let server = serve(&machine, &file, &["--read-only"]);
    let ended = attached.finish_within(PATIENCE);
    ended.fails_with(1, &["another size or other abilities"]);
    let attached = attach();
    drop(Client::connect(&socket));
    let mut client = Client::connect(&socket);
    assert_eq!(client.flags & 2, 2);
    assert_eq!(client.execute(1, 0, 512, &[0; 512]), 1);
    assert!(client.read(5 * 4096, 4096) == pattern(4096, 5));
    // Invalid requests only end their client.
    client.stream.write_all(&[0xff; 64]).unwrap();
    let mut rest = Vec::new();
    let _ = client.stream.read_to_end(&mut rest);
    assert!(Client::connect(&socket).read(0, 512).len() == 512);
    for running in [attached, server] {
        running.signal(Signal::INT);
        running.finish().ok();
    }
    machine.tombolo(["block", "serve", "d0", "nothing-there"]).fails_with(2, &["nothing-there"]);
    machine.tombolo(["block", "serve", "d0", "x", "--create", "511"]).fails_with(2, &["512 bytes or more"]);
    machine.down();
}

//! C programs with generated interfaces, against servers and clients in Rust, on this host.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use tombolo::interface::{Call, CallError, Decline, Fault, Malformed, Never, Response};
use tombolo::{Channel, ChannelOptions, Domain, Error};
use tombolo_e2e::c::{AARCH64, HOST};
use tombolo_e2e::{Machine, MachineFile, PATIENCE, eventually};
use tombolo_hubs::Task;
use tombolo_stubs::kv::{
    Kv, KvAwaitChange, KvAwaitChangeReply, KvChanged, KvChangedView, KvClient, KvError, KvEvents, KvForget,
    KvForgetView, KvGet, KvGetReply, KvGetRequest, KvHandler, KvList, KvListReply, KvListRequest, KvPut,
    KvPutReply, KvPutRequest, KvServer,
};
use tombolo_stubs::rights::Buffers;

/// Builds a C example and returns its path.
fn built(machine: &Machine, name: &str) -> PathBuf {
    let program = machine.folder().join(name);
    let library = HOST.library().expect("this test depends on it");
    HOST.build(&[&format!("examples/c/{name}.c")], &library, &program);
    program
}

/// A Rust server of the key-value store.
#[derive(Default)]
struct Store {
    entries: Vec<(String, Vec<u8>, u64)>,
}

impl Store {
    fn find(&self, key: &str) -> Option<usize> {
        self.entries.iter().position(|(known, ..)| known == key)
    }
}

impl KvHandler for Store {
    fn get<'s>(&'s mut self, request: Call<'_, KvGet>) -> Result<Response<KvGetReply<'s>>, Decline<KvError>> {
        let key = request.key()?.to_string()?;
        let index = self.find(&key).ok_or(Decline::Error(KvError::NOT_FOUND))?;
        let (_, value, version) = &self.entries[index];
        Ok(KvGetReply { value, version: *version }.into())
    }

    fn put(&mut self, request: Call<'_, KvPut>) -> Result<Response<KvPutReply>, Decline<KvError>> {
        let (key, value) = (request.key()?.to_string()?, request.value()?.to_vec());
        let index = self.find(&key);
        let version = index.map_or(0, |index| self.entries[index].2);
        if request.expected()?.is_some_and(|expected| expected != version) {
            return Err(Decline::Error(KvError::CONFLICT));
        }
        match index {
            Some(index) => self.entries[index] = (key, value, version + 1),
            None => self.entries.push((key, value, 1)),
        }
        Ok(KvPutReply { version: version + 1 }.into())
    }

    fn list<'s>(&'s mut self, _: Call<'_, KvList>) -> Result<Response<KvListReply<'s>>, Decline<Never>> {
        // The client left one entry.
        Ok(KvListReply { keys: &["größte Insel: 島"][..self.entries.len().min(1)] }.into())
    }

    fn await_change(
        &mut self,
        _: Call<'_, KvAwaitChange>,
    ) -> Result<Response<KvAwaitChangeReply>, Decline<KvError>> {
        Err(Decline::Unserved)
    }

    fn forget(&mut self, message: KvForgetView<'_>) -> Result<(), Malformed> {
        let key = message.key()?.to_string()?;
        self.entries.retain(|(known, ..)| *known != key);
        Ok(())
    }
}

fn options() -> ChannelOptions {
    ChannelOptions::default().interface_hash(Kv::HASH)
}

/// Serves a C client from this process and returns the number of refused messages.
fn serve(channel: Channel) -> u64 {
    let mut server = KvServer::bind(channel).expect("the channel fits");
    let mut store = Store::default();
    loop {
        match server.serve_one(&mut store) {
            Ok(true) => {
                let change = KvChanged { key: "any", version: 1 };
                let _ = server.within(std::time::Duration::ZERO).changed(&change);
            }
            Ok(false) => panic!("the client fell silent"),
            Err(_) => return 0,
        }
    }
}

fn rust_serves(machine: &Machine, node: &str, program: &Path) {
    let domain = Domain::attach_to_machine(machine.name()).expect("the machine is up").with_timeout(PATIENCE);
    let listener = options().export(&domain, "kv-rust").unwrap();
    let running = machine.start([
        OsStr::new("run"),
        OsStr::new("--on"),
        OsStr::new(node),
        program.as_os_str(),
        OsStr::new("kv-rust"),
    ]);
    serve(listener.accept().unwrap());
    let said = running.finish().ok();
    assert!(said.contains("declined: not_found") && said.contains("key: größte Insel: 島"), "{said}");
    assert!(said.contains("await_change: TOMBOLO_UNSERVED"), "{said}");
}

struct Heard(u64);

impl KvEvents for Heard {
    fn changed(&mut self, event: KvChangedView<'_>) -> Result<(), Malformed> {
        self.0 += event.version()?;
        Ok(())
    }
}

fn c_serves(machine: &Machine, node: &str, program: &Path) {
    let running = machine.start([
        OsStr::new("run"),
        OsStr::new("--on"),
        OsStr::new(node),
        program.as_os_str(),
        OsStr::new("kv-c"),
    ]);
    running.wait_for("serving kv-c");
    let domain = Domain::attach_to_machine(machine.name()).expect("the machine is up").with_timeout(PATIENCE);
    let channel = options().connect(&domain, "kv-c").unwrap();
    let mut client = KvClient::bind(channel, Heard(0)).unwrap();
    let value = vec![7; 2048];
    for round in 1..=50_u64 {
        let put = KvPutRequest {
            key: "größte Insel: 島",
            value: &value[..(round * 40) as usize],
            expected: Some(round - 1),
        };
        assert_eq!(client.put(&put).unwrap().version(), Ok(round));
    }
    let get = KvGetRequest { key: "größte Insel: 島" };
    assert_eq!(client.get(&get).unwrap().value().unwrap().to_vec(), value[..2000]);
    let declined = client.get(&KvGetRequest { key: "" });
    assert!(matches!(declined, Err(CallError::Declined(KvError::NOT_FOUND))), "{declined:?}");
    let unserved = client.start(&tombolo_stubs::kv::KvAwaitChangeRequest { key: "k" });
    let unserved = client.wait(unserved.unwrap());
    assert!(matches!(unserved, Err(CallError::Fault(Fault::Unserved))), "{unserved:?}");
    client.forget(&KvForget { key: "größte Insel: 島" }).unwrap();
    assert_eq!(client.list(&KvListRequest { prefix: "" }).unwrap().keys().unwrap().len(), 0);
    drop(client);
    let said = running.finish().ok();
    assert!(
        said.contains("client left with TOMBOLO_CLOSED after 54 calls, 1 messages, 0 unknown, 0 malformed"),
        "{said}"
    );
}

#[test]
fn c_and_rust_serve_each_other_on_the_host() {
    let machine = Machine::up(&MachineFile::host());
    rust_serves(&machine, "host", &built(&machine, "kv_client"));
    c_serves(&machine, "host", &built(&machine, "kv_server"));
    machine.down();
}

/// Arguments that run a program on one node.
fn on<'a>(node: &'a str, program: &'a Path, words: &[&'a str]) -> Vec<&'a OsStr> {
    let start = ["run", "--on", node].map(OsStr::new);
    start.into_iter().chain([program.as_os_str()]).chain(words.iter().map(|word| OsStr::new(*word))).collect()
}

/// Errors with regions and buffers, one after the other; finally the peer dies while it has buffers.
#[test]
fn invalid_memory_calls_in_c_are_refused() {
    let machine = Machine::up(&MachineFile::host());
    let program = machine.folder().join("memory");
    let library = HOST.library().expect("this test depends on it");
    HOST.build(&["runtime/c/tests/memory.c"], &library, &program);
    for trust in ["full", "none"] {
        let name = format!("memory-{trust}");
        let peer = machine.start(on("host", &program, &["peer", &name, trust]));
        let said = machine.start(on("host", &program, &["check", &name, trust])).finish().ok();
        assert!(said.ends_with(" checks\n"), "{said}");
        peer.finish().ok();
    }
    machine.down();
}

/// Buffers and shared memory between two C programs.
fn send_and_receive(
    machine: &Machine,
    (to, receiver): (&str, &Path),
    (from, sender): (&str, &Path),
    window: &[&str],
) {
    let name = format!("bulk-{from}-{to}");
    let receiving = machine.start(on(to, receiver, &["receive", &name]));
    receiving.wait_for(&format!("waiting as {name}"));
    let said = machine.start(on(from, sender, &[&["send", &name], window].concat())).finish().ok();
    assert!(said.starts_with(&format!("connected to {to} over ")), "{said}");
    let rest = "back: FROM ONE TO THE OTHER\nreleased: seen\nrevoked: 1\nend: TOMBOLO_CLOSED\nfree: 4\n";
    assert!(said.ends_with(rest), "{said}");
    let said = receiving.finish().ok();
    let rest = "a pool of 4 buffers of 65536 bytes\nmoved: from one to the other (number 1)\n\
                shared: to be read by both\nmapped: a word in common\nthen: TOMBOLO_REVOKED\n";
    assert!(said.ends_with(rest), "{said}");
}

#[test]
fn buffers_go_between_programs_in_c() {
    let machine = Machine::up(&MachineFile::host());
    let program = built(&machine, "bulk");
    send_and_receive(&machine, ("host", &program), ("host", &program), &[]);
    machine.down();
}

#[test]
fn buffers_go_through_a_window_between_programs_in_c() {
    let Some(library) = AARCH64.library() else { return };
    let machine = Machine::up(&MachineFile::host().with_vm("arm0", ""));
    let here = built(&machine, "bulk");
    let there = machine.folder().join("bulk-arm");
    AARCH64.build(&["examples/c/bulk.c"], &library, &there);
    send_and_receive(&machine, ("arm0", &there), ("host", &here), &["arm0"]);
    send_and_receive(&machine, ("host", &here), ("arm0", &there), &["arm0"]);
    machine.down();
}

/// An invalid call only fails itself: the C server continues and reports what it refused.
#[test]
fn server_in_c_survives_invalid_requests() {
    let machine = Machine::up(&MachineFile::host());
    let program = built(&machine, "kv_server");
    let words = [
        OsStr::new("run"),
        OsStr::new("--on"),
        OsStr::new("host"),
        program.as_os_str(),
        OsStr::new("kv-bad"),
    ];
    let running = machine.start(words);
    running.wait_for("serving kv-bad");
    let domain = Domain::attach_to_machine(machine.name()).expect("the machine is up").with_timeout(PATIENCE);
    let mut channel = options().connect(&domain, "kv-bad").unwrap();
    let mut answer = Vec::new();
    // Header: ordinal, body length in words, kind, call number. With each, the text of the expected fault.
    let head = |ordinal: u8, words: u8, kind: u8, call: u8| [ordinal, 0, words, 0, kind, call, 0, 0];
    let key = |offset: u8, length: u8| [offset, 0, 0, 0, length, 0, 0, 0];
    let bad: &[(&[[u8; 8]], u8)] = &[
        (&[head(99, 0, 2, 1)], 1),
        (&[head(1, 1, 2, 1), key(16, 9), *b"too shor"], 2),
        (&[head(1, 1, 2, 1), key(16, 65)], 2),
        (&[head(1, 1, 2, 1), key(12, 4), *b"isle\0\0\0\0"], 2),
        (&[head(1, 1, 2, 1), key(16, 1), [0xff, 0, 0, 0, 0, 0, 0, 0]], 2),
        (&[head(2, 4, 2, 1), key(0, 0), key(0, 0), key(2, 0), key(0, 0)], 2),
    ];
    for (words, fault) in bad {
        channel.send(&words.concat()).unwrap();
        channel.recv_into(&mut answer).unwrap();
        assert_eq!((answer[4], answer[8]), (5, *fault), "{words:?}: {answer:?}");
    }
    // Messages that are no calls get no reply but are counted.
    for words in
        [&[1_u8, 2, 3][..], &head(5, 9, 1, 0), &head(77, 0, 1, 0), &head(1, 0, 9, 1), &head(1, 0, 3, 1)]
    {
        channel.send(words).unwrap();
    }
    channel.send(&[head(1, 1, 2, 2), key(16, 4), *b"isle\0\0\0\0"].concat()).unwrap();
    channel.recv_into(&mut answer).unwrap();
    assert_eq!((answer[4], answer[5], answer[8]), (4, 2, KvError::NOT_FOUND.number()), "{answer:?}");
    drop(channel);
    let said = running.finish().ok();
    assert!(said.contains("TOMBOLO_CLOSED after 7 calls, 0 messages, 2 unknown, 9 malformed"), "{said}");
    machine.down();
}

/// A client in C learns how its server ended.
#[test]
fn client_in_c_notices_end_of_server() {
    let machine = Machine::up(&MachineFile::host());
    let program = built(&machine, "kv_client");
    let domain = Domain::attach_to_machine(machine.name()).expect("the machine is up").with_timeout(PATIENCE);
    let listener = options().export(&domain, "kv-mute").unwrap();
    let words = [
        OsStr::new("run"),
        OsStr::new("--on"),
        OsStr::new("host"),
        program.as_os_str(),
        OsStr::new("kv-mute"),
    ];
    let running = machine.start(words);
    let mut channel = listener.accept().unwrap();
    // Receives its first call and does not answer.
    channel.recv_into(&mut Vec::new()).unwrap();
    drop(channel);
    running.finish().fails_with(1, &["TOMBOLO_CLOSED"]);
    assert!(eventually(|| machine.domains_on("host").is_empty()));
    machine.down();
}

/// An interface that a link cannot carry is refused when a client or server is bound, before any call.
#[test]
fn bind_in_c_refuses_interface_unfit_for_link() {
    let machine = Machine::up(&MachineFile::host());
    let program = machine.folder().join("rights");
    HOST.build(&["testing/e2e/c/rights.c"], &HOST.library().expect("this test depends on it"), &program);
    let domain = Domain::attach_to_machine(machine.name()).expect("the machine is up").with_timeout(PATIENCE);
    let options = ChannelOptions::default().interface_hash(Buffers::HASH);
    let listener = options.export(&domain, "rights").unwrap();
    let words = ["run", "--on", "host"].map(OsStr::new);
    let running = machine.start(words.into_iter().chain([program.as_os_str(), OsStr::new("rights")]));
    let channel = listener.accept().unwrap();
    let said = running.finish().ok();
    for end in ["client", "server"] {
        assert!(said.contains(&format!("{end}: TOMBOLO_CANNOT_CARRY: ")), "{said}");
    }
    drop(channel);
    machine.down();
}

#[test]
fn channels_are_opened_with_requests_between_c_and_rust() {
    const KIND: u64 = 0x5e55;
    let machine = Machine::up(&MachineFile::host());
    let program = machine.folder().join("opening");
    HOST.build(&["runtime/c/tests/opening.c"], &HOST.library().expect("this test depends on it"), &program);
    let domain = Domain::attach_to_machine(machine.name()).expect("the machine is up").with_timeout(PATIENCE);
    let options = ChannelOptions::default();
    let listener = options.export_for_requests(&domain, "store-rust", KIND).expect("the name is free");
    let running = machine.start(on("host", &program, &[]));

    let opening = listener.accept().expect("it connects");
    assert_eq!(opening.request(), b"write");
    opening.refuse("this store is read-only").expect("it waits");
    let opening = listener.accept().expect("it connects again");
    assert_eq!(opening.request(), b"read-only");
    let mut channel = opening.accept().expect("it waits");
    let mut hello = Vec::new();
    channel.recv_into(&mut hello).expect("it sends");
    assert_eq!(hello, b"hello");

    running.wait_for("serving");
    let request = |bytes: &[u8]| options.clone().request(KIND, bytes).expect("it is short");
    match request(b"other").connect(&domain, "store-c") {
        Err(Error::OpeningRefused { name, reason, .. }) => {
            assert_eq!((name.as_str(), reason.as_str()), ("store-c", "this store is full"));
        }
        other => panic!("{other:?}"),
    }
    let mut channel = request(b"open").connect(&domain, "store-c").expect("it accepts");
    let mut welcome = Vec::new();
    channel.recv_into(&mut welcome).expect("it sends");
    assert_eq!(welcome, b"welcome");
    let said = running.finish().ok();
    assert!(
        said.contains("which exports 'store-rust', refused this channel: this store is read-only"),
        "{said}"
    );
    assert!(said.contains("done"), "{said}");
    // A connection without a request is refused.
    let connecting = std::thread::spawn(move || domain.connect("store-rust").map(drop));
    assert!(matches!(listener.accept(), Err(Error::Refused { .. })));
    assert!(matches!(connecting.join().expect("no panic"), Err(Error::Refused { .. })));
    drop(listener);
    machine.down();
}

#[test]
fn a_program_in_c_uses_hubs_of_every_kind() {
    let machine = Machine::up(&MachineFile::host());
    let hubs = [
        "c-fifo:fifo:2",
        "c-port:port",
        "c-go:event",
        "c-count:semaphore:2",
        "c-guard:resource",
        "c-pool:pool:2:512",
    ];
    let serving = machine.start(["hubs", "serve"].iter().chain(&hubs));
    serving.wait_for("ready: ");
    let program = machine.folder().join("hubs");
    HOST.build(&["runtime/c/tests/hubs.c"], &HOST.library().expect("this test depends on it"), &program);
    let running = machine.start(on("host", &program, &[]));
    let domain = Domain::attach_to_machine(machine.name()).expect("the machine is up");
    let task = Task::attach(&domain).expect("a task").within(PATIENCE);
    let port = task.port::<String>("c-port").expect("it is served");
    task.event("c-go").expect("it is served").wait().expect("the program raises it");
    port.send("from Rust".to_owned()).expect("the program receives");
    assert_eq!(port.recv().expect("the program sends"), "from C");
    let said = running.finish().ok();
    assert!(said.contains("received from Rust\nall held"), "{said}");
    serving.signal(Signal::INT);
    serving.finish().ok();
    machine.down();
}

//! The machine under test and the remote peers on its nodes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tombolo::{Channel, ChannelOptions, Child, Domain, SpawnOptions};
use tombolo_conformance::Subject;
use tombolo_e2e::{
    Machine, MachineFile, Running, WindowFile, eventually, has_narrow, has_virtual_machine, image,
};
use tombolo_remote_peer::{CONTROL_SLOT_BYTES, CONTROL_SLOTS};
use tombolo_transport::Capabilities;

use crate::carrier::Remote;

/// Maximum number of simultaneous channels under test per remote peer: the suite waits on four.
const CONTROLS: usize = 5;

/// Location of a remote peer.
pub(crate) trait RemoteNode: 'static {
    /// Name under which its cases are listed.
    const NAME: &'static str;
    /// Node of the remote peer that executes orders.
    const NODE: &'static str;
    /// Nodes for remote peers that get killed. A case may need two at the same time, and a board runs only
    /// one program.
    const SPARES: [&'static str; 2];
    /// Capabilities of its channels.
    const CAPABILITIES: Capabilities;
    /// Whether slots may be returned by a flag, which needs coherent memory.
    const USED_FLAG: bool = true;
}

/// A board with an Arm processor.
pub(crate) struct ArmBoard;

impl RemoteNode for ArmBoard {
    const NAME: &'static str = "aarch64-board";
    const NODE: &'static str = "arm";
    const SPARES: [&'static str; 2] = ["arm-spare0", "arm-spare1"];
    const CAPABILITIES: Capabilities = Capabilities::OF_WINDOW.without(Capabilities::WHOLE_BATCHES);
}

/// A board with a non-coherent window: the caches of both sides evict a line at every fourth operation.
pub(crate) struct EvictingBoard;

impl RemoteNode for EvictingBoard {
    const NAME: &'static str = "evicting-board";
    const NODE: &'static str = "evicting";
    const SPARES: [&'static str; 2] = ["evicting-spare0", "evicting-spare1"];
    const CAPABILITIES: Capabilities = ArmBoard::CAPABILITIES;
    const USED_FLAG: bool = false;
}

/// A Linux that joins through a non-coherent window: this one, with an emulated cache for each side.
pub(crate) struct EvictingJoiner;

impl RemoteNode for EvictingJoiner {
    const NAME: &'static str = "evicting-joiner";
    const NODE: &'static str = "joiner";
    const SPARES: [&'static str; 2] = ["joiner"; 2];
    const CAPABILITIES: Capabilities = ArmBoard::CAPABILITIES;
    const USED_FLAG: bool = false;
}

/// A board with a RISC-V processor.
pub(crate) struct RiscvBoard;

impl RemoteNode for RiscvBoard {
    const NAME: &'static str = "riscv64-board";
    const NODE: &'static str = "riscv";
    const SPARES: [&'static str; 2] = ["riscv-spare0", "riscv-spare1"];
    const CAPABILITIES: Capabilities = ArmBoard::CAPABILITIES;
}

/// A big-endian program on this kernel.
pub(crate) struct S390x;

impl RemoteNode for S390x {
    const NAME: &'static str = "s390x-user";
    const NODE: &'static str = "s390x-user";
    const SPARES: [&'static str; 2] = ["s390x-user"; 2];
    const CAPABILITIES: Capabilities = Capabilities::OF_SHARED_MEMORY.without(Capabilities::WHOLE_BATCHES);
}

/// An x86-64 virtual machine: another kernel behind a window, with the host's instruction set.
pub(crate) struct X86Machine;

impl RemoteNode for X86Machine {
    const NAME: &'static str = "x86_64-vm";
    const NODE: &'static str = "x86";
    const SPARES: [&'static str; 2] = ["x86"; 2];
    const CAPABILITIES: Capabilities = ArmBoard::CAPABILITIES;
}

/// A RISC-V virtual machine, which polls its window for interrupts.
pub(crate) struct RiscvMachine;

impl RemoteNode for RiscvMachine {
    const NAME: &'static str = "riscv64-vm";
    const NODE: &'static str = "riscv-vm";
    const SPARES: [&'static str; 2] = ["riscv-vm"; 2];
    const CAPABILITIES: Capabilities = ArmBoard::CAPABILITIES;
}

/// A 32-bit program on this kernel.
pub(crate) struct I386;

impl RemoteNode for I386 {
    const NAME: &'static str = "i386-user";
    const NODE: &'static str = "i386-user";
    const SPARES: [&'static str; 2] = ["i386-user"; 2];
    const CAPABILITIES: Capabilities = S390x::CAPABILITIES;
}

/// A 32-bit program for a weaker memory model.
pub(crate) struct Armv7;

impl RemoteNode for Armv7 {
    const NAME: &'static str = "armv7-user";
    const NODE: &'static str = "armv7-user";
    const SPARES: [&'static str; 2] = ["armv7-user"; 2];
    const CAPABILITIES: Capabilities = S390x::CAPABILITIES;
}

/// Nodes that the kit supports only on request, with their kinds and instruction sets.
fn optional() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let all = [
        (X86Machine::NODE, "vm", "x86_64", has_virtual_machine("x86_64")),
        (RiscvMachine::NODE, "vm", "riscv64", has_virtual_machine("riscv64")),
        (I386::NODE, "user", "i386", has_narrow("i386", "qemu-i386")),
        (Armv7::NODE, "user", "armv7", has_narrow("armv7", "qemu-arm")),
    ];
    all.into_iter().filter(|(.., is_there)| *is_there).map(|(node, kind, isa, _)| (node, kind, isa))
}

/// Returns the suite's subjects for these nodes.
pub(crate) fn optional_subjects() -> Vec<Subject> {
    fn both<P: RemoteNode>() -> [Subject; 2] {
        [Subject::of::<Remote<P, false>>(), Subject::of::<Remote<P, true>>()]
    }
    let subjects = |node: &str| match node {
        X86Machine::NODE => both::<X86Machine>(),
        RiscvMachine::NODE => both::<RiscvMachine>(),
        I386::NODE => both::<I386>(),
        _ => both::<Armv7>(),
    };
    optional().flat_map(|(node, ..)| subjects(node)).collect()
}

/// Remote peer, control channels and spare nodes of a location.
struct Station {
    _remote_peer: Child,
    controls: Vec<Channel>,
    spares: Vec<&'static str>,
}

struct Fleet {
    /// Dropped before the machine, which ends its programs.
    stations: Mutex<HashMap<&'static str, Station>>,
    domain: Domain,
    machine: Machine,
    /// The `tombolo join` of the node that joined, and its window.
    joined: Running,
    window: WindowFile,
}

static FLEET: Mutex<Option<Arc<Fleet>>> = Mutex::new(None);

/// Ignores poisoning: a failed case leaves the data consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the machine, which the first call brings up.
fn fleet() -> Arc<Fleet> {
    lock(&FLEET).get_or_insert_with(|| Arc::new(Fleet::up())).clone()
}

/// Takes the machine down if it is up, and asserts that nothing is left.
pub(crate) fn down() {
    let Some(fleet) = lock(&FLEET).take() else { return };
    let Fleet { stations, domain, machine, joined, window } =
        Arc::into_inner(fleet).expect("no case runs any more");
    drop((stations, domain));
    machine.down();
    joined.finish().ok();
    drop(window);
}

impl Fleet {
    fn up() -> Fleet {
        // The board's memory must fit the suite's largest message, which no transport must carry.
        let roomy = "memory_mib = 64";
        let evicting = "coherence = \"flush\"\ncache_seed = 7\nevict_one_in = 4";
        let file = MachineFile::host()
            .with_board(ArmBoard::NODE, "aarch64", roomy)
            .with_board(ArmBoard::SPARES[0], "aarch64", "")
            .with_board(ArmBoard::SPARES[1], "aarch64", "")
            .with_board(RiscvBoard::NODE, "riscv64", roomy)
            .with_board(RiscvBoard::SPARES[0], "riscv64", "")
            .with_board(RiscvBoard::SPARES[1], "riscv64", "")
            .with_board(EvictingBoard::NODE, "aarch64", &format!("{roomy}\n{evicting}"))
            .with_board(EvictingBoard::SPARES[0], "aarch64", evicting)
            .with_board(EvictingBoard::SPARES[1], "aarch64", evicting)
            .with_user(S390x::NODE, "s390x");
        let window = WindowFile::new(64);
        let joiner = format!("window = \"{}\"\nwindow_mib = 64\n{evicting}", window.source());
        let file = file.with_node(EvictingJoiner::NODE, "attached", std::env::consts::ARCH, &joiner);
        let file = optional().fold(file, |file, (node, kind, isa)| file.with_node(node, kind, isa, ""));
        let machine = Machine::up(&file);
        let mut join = machine.command();
        join.env_remove("TOMBOLO_MACHINE").arg("join").arg("--once");
        join.arg("--file").arg(machine.file()).args(["--node", EvictingJoiner::NODE]);
        let joined = Running::start(&mut join);
        assert!(eventually(|| machine.node(EvictingJoiner::NODE)["state"] == "up"), "the node joins");
        let domain = Domain::attach_to_machine(machine.name()).expect("the machine is up");
        Fleet { machine, domain, stations: Mutex::default(), joined, window }
    }

    fn spawn<'a>(&self, node: &str, words: impl IntoIterator<Item = &'a str>) -> Child {
        let options = SpawnOptions::image(image("remote-peer")).on(node).args(words);
        self.domain.spawn(&options).unwrap_or_else(|error| panic!("a remote peer on {node}: {error}"))
    }

    fn start<P: RemoteNode>(&self) -> Station {
        let options = ChannelOptions::default().slot_bytes(CONTROL_SLOT_BYTES).expect("a size");
        let options = options.slots(CONTROL_SLOTS).expect("a number");
        let prefix = format!("control/{}", P::NODE);
        let listeners = (0..CONTROLS).map(|number| {
            options.export(&self.domain, &format!("{prefix}/{number}")).expect("a name of its own")
        });
        let listeners: Vec<_> = listeners.collect();
        let remote_peer = self.spawn(P::NODE, ["serve", &prefix, &CONTROLS.to_string()]);
        let accept = |listener: tombolo::Listener| listener.accept().expect("a remote peer that connects");
        let controls = listeners.into_iter().map(accept).collect();
        Station { _remote_peer: remote_peer, controls, spares: P::SPARES.to_vec() }
    }
}

/// Returns the domain of this program.
pub(crate) fn domain() -> Domain {
    fleet().domain.clone()
}

/// Takes an item from a location's station as soon as there is one.
fn take<P: RemoteNode, T>(what: &str, take: impl Fn(&mut Station) -> Option<T>) -> T {
    let fleet = fleet();
    let mut taken = None;
    let found = eventually(|| {
        let mut stations = lock(&fleet.stations);
        taken = take(stations.entry(P::NODE).or_insert_with(|| fleet.start::<P>()));
        taken.is_some()
    });
    assert!(found, "{} has no {what} left", P::NAME);
    taken.expect("it was found")
}

fn give_back<P: RemoteNode>(give: impl FnOnce(&mut Station)) {
    let fleet = fleet();
    if let Some(station) = lock(&fleet.stations).get_mut(P::NODE) {
        give(station);
    }
}

/// Takes a control channel.
pub(crate) fn control<P: RemoteNode>() -> Channel {
    take::<P, _>("control channel", |station| station.controls.pop())
}

/// Returns a control channel for reuse.
pub(crate) fn give_back_control<P: RemoteNode>(control: Channel) {
    give_back::<P>(|station| station.controls.push(control));
}

/// A remote peer that a case kills.
pub(crate) struct Convict {
    child: Child,
    give_back: Option<Box<dyn FnOnce() + Send>>,
}

impl Convict {
    /// Starts a remote peer on a spare node.
    pub(crate) fn start<P: RemoteNode>(words: &[&str]) -> Convict {
        let spare = take::<P, _>("spare node", |station| station.spares.pop());
        let child = fleet().spawn(spare, words.iter().copied());
        let give_back = move || give_back::<P>(|station| station.spares.push(spare));
        Convict { child, give_back: Some(Box::new(give_back)) }
    }

    /// Starts a remote peer on the host.
    pub(crate) fn on_the_host(words: &[&str]) -> Convict {
        let child = fleet().spawn("host", words.iter().copied());
        Convict { child, give_back: Some(Box::new(|| ())) }
    }

    /// Kills the remote peer and waits for its end.
    pub(crate) fn end(&mut self) {
        if let Some(give_back) = self.give_back.take() {
            self.child.kill().expect("the monitor lives");
            self.child.wait(Duration::from_secs(60)).expect("what is killed ends");
            give_back();
        }
    }
}

impl Drop for Convict {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}

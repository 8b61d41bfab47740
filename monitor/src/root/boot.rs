//! Starting nodes: the emulator of a virtual machine, or an agent under an emulator on this kernel.

use std::num::NonZeroU16;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::{Command, Stdio};

use tombolo_base::NodeId;
use tombolo_control::{Order, Report};
use tombolo_link::hello::PROTOCOL_VERSION;
use tombolo_link::window::WindowHeader;
use tombolo_machine::vm::{Qemu, VmKit, Window, initramfs};
use tombolo_machine::{Node, NodeKind, VmNode, kit};
use tombolo_platform::memory::map;
use tombolo_platform::process::Process;
use tombolo_platform::socket;
use tombolo_platform::time::now_ns;

use super::Root;
use super::node::{NodeLine, RunningNode, VmSide};
use crate::link::Line;

impl Root {
    /// Starts a node; one that does not start is lost with the reason.
    pub(super) fn boot_node(&mut self, id: NodeId, generation: NonZeroU16) {
        let Some(node) = self.machine.node(id).cloned() else { return };
        let welcome =
            Order::Welcome { node: id, name: node.name.clone(), machine: self.machine.name().to_owned() };
        let started = match &node.kind {
            NodeKind::Host => return self.host_is_up(),
            NodeKind::User(_) => self.start_user(&node),
            NodeKind::Vm(vm) => self.start_vm(&node, vm, generation),
        };
        match started {
            Ok(mut running) => {
                running.order(&welcome, Vec::new());
                let window = running.window().map(|window| (window.length_bytes(), window.vectors()));
                self.core.node_started(id, running.pid(), window);
                self.nodes.insert(id, running);
            }
            Err(cause) => self.core.node_lost(id, &cause),
        }
    }

    /// The host's agent is part of this process.
    fn host_is_up(&mut self) {
        let ready = Report::Ready {
            version: PROTOCOL_VERSION,
            isa: tombolo_base::Isa::current(),
            cores: crate::cores(),
            pid: std::process::id() as i32,
        };
        self.core.report(now_ns(), NodeId::HOST, ready, None);
    }

    fn start_user(&self, node: &Node) -> Result<RunningNode, String> {
        let kit = self.kit.as_ref().ok_or("the kit of node monitors was not found")?;
        let tombolod = kit.tombolod(node.isa).map_err(text)?;
        let emulator = kit::emulator(node).map_err(text)?.ok_or("a user node needs an emulator")?;
        let (ours, theirs) = socket::pair(socket::Kind::Packet).map_err(text)?;
        let mut command = Command::new(&emulator);
        let cpu = node.as_user().and_then(|user| user.cpu.clone());
        if let Some(cpu) = &cpu {
            command.args(["-cpu", cpu]);
        }
        command.arg(&tombolod).arg("agent").arg(theirs.as_raw_fd().to_string()).arg(&emulator);
        command.args(&cpu);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let process = Process::start(&mut command, &[theirs.as_fd()]).map_err(text)?;
        Ok(RunningNode::new(process, NodeLine::Made(Line::over_socket(ours)), None))
    }

    fn start_vm(&self, node: &Node, vm: &VmNode, generation: NonZeroU16) -> Result<RunningNode, String> {
        let kit = self.kit.as_ref().ok_or("the kit of virtual machines was not found")?;
        let parts = VmKit::locate(kit.root(), node.isa).map_err(text)?;
        let program = kit::emulator(node).map_err(text)?.ok_or("a virtual machine needs an emulator")?;
        let archive = initramfs::pack(&parts).map_err(text)?;
        let directory = initramfs::cache_directory().map_err(text)?;
        let initrd = initramfs::keep(&archive, &directory).map_err(text)?;
        let length_bytes = u64::from(vm.window_mib) << 20;
        let window = Window::new(length_bytes, vm.doorbells).map_err(text)?;
        let length = usize::try_from(length_bytes).map_err(text)?;
        let memory = map(window.memory(), 0, length).map_err(text)?;
        WindowHeader { node: node.id, generation, length_bytes }.write(&memory);
        let (server, window_end) = window.connect().map_err(text)?;
        let (serial, serial_end) = socket::pair(socket::Kind::Stream).map_err(text)?;
        let launch = Qemu::new(program, &parts.kernel, initrd)
            .cpu(&vm.cpu)
            .memory_mib(vm.memory_mib)
            .processors(vm.processors)
            .vectors(vm.doorbells)
            .parameter("tombolo.node", &node.name)
            .launch(serial_end, window_end)
            .map_err(text)?;
        let mut command = Command::new(&launch.program);
        command.args(&launch.arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let inherit: Vec<BorrowedFd<'_>> = launch.inherited.iter().map(AsFd::as_fd).collect();
        let process = Process::start(&mut command, &inherit).map_err(text)?;
        let (lifeline, far_end) = socket::pair(socket::Kind::Stream).map_err(text)?;
        let side = VmSide { window, memory, _server: server, serial, lifeline, _lifeline_far_end: far_end };
        Ok(RunningNode::new(process, NodeLine::Awaited(Vec::new()), Some(side)))
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

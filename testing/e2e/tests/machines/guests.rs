//! Virtual machines that are not started by Tombolo and join by themselves.
//!
//! A guest boots Debian's kernel and a root file system that has nothing of Tombolo but installed programs
//! and a service, which runs the command of the package's unit. The emulator shares nothing with the machine
//! but memory: a file behind an `ivshmem` device, behind an NVDIMM with the guest's DAX driver, or behind
//! guest memory that its kernel leaves alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use tombolo_e2e::{
    Finished, Machine, MachineFile, Running, WindowFile, eventually, has_virtual_machine, kit_folder, tombolo,
};
use tombolo_machine::vm::Archive;

/// Time without a sign of life after which a side counts as lost; long, because both are emulated on a busy
/// host.
const SILENCE_S: u32 = 5;

/// Properties that differ between emulated computers.
pub(crate) struct Computer {
    isa: &'static str,
    /// Options of its emulator.
    pub(crate) words: &'static str,
    /// Parameters of its kernel.
    pub(crate) kernel_line: &'static str,
}

const COMPUTERS: [Computer; 3] = [
    Computer { isa: "aarch64", words: "-M virt -cpu cortex-a72", kernel_line: "console=ttyAMA0 cma=0" },
    Computer {
        isa: "x86_64",
        words: "-M q35,nvdimm=on -cpu qemu64",
        kernel_line: "console=ttyS0 mitigations=off pti=off i8042.noaux i8042.nokbd tsc=reliable no_timer_check",
    },
    Computer { isa: "riscv64", words: "-M virt -cpu rv64", kernel_line: "console=ttyS0" },
];

impl Computer {
    pub(crate) fn of(isa: &str) -> &'static Computer {
        COMPUTERS.iter().find(|computer| computer.isa == isa).expect("a known instruction set")
    }

    fn kit(&self) -> PathBuf {
        kit_folder().join(self.isa)
    }
}

/// Device that gives a guest memory shared with the host.
#[derive(Clone, Copy)]
pub(crate) enum Device {
    /// BAR 2 of a PCI device, found through sysfs.
    Ivshmem,
    /// `/dev/dax0.0`, which the guest's kernel creates for an NVDIMM.
    Dax,
    /// The end of an Arm guest's memory, which its kernel does not use.
    Reserved,
}

impl Device {
    /// Returns the name of the window for `tombolo join` in the guest.
    fn join(self) -> &'static str {
        match self {
            Device::Ivshmem => "ivshmem",
            Device::Dax => "dax:/dev/dax0.0",
            Device::Reserved => "memory:0x4c000000 --size-mib 64",
        }
    }

    /// Returns the emulator options that present a file as this device.
    pub(crate) fn words(self, file: &Path, mib: u64) -> Vec<String> {
        let file = file.display();
        let memory = format!("memory-backend-file,id=window,size={mib}M,mem-path={file},share=on");
        let (option, value) = match self {
            Device::Ivshmem => ("-device", "ivshmem-plain,memdev=window"),
            Device::Dax => ("-device", "nvdimm,memdev=window"),
            Device::Reserved => ("-machine", "memory-backend=window"),
        };
        ["-object", &memory, option, value].map(str::to_owned).to_vec()
    }

    /// Returns the kernel parameters for the device.
    fn kernel_line(self) -> String {
        match self {
            Device::Ivshmem | Device::Dax => String::new(),
            Device::Reserved => format!(" mem={}M", MEMORY_MIB - 64),
        }
    }
}

/// Size of a guest's memory, in MiB.
const MEMORY_MIB: u64 = 256;

/// Beginning of the start script, common to all guests.
const START: &str = "#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
ifconfig lo 127.0.0.1 up
";

/// Creates `/dev/dax0.0` on the NVDIMM, as `ndctl create-namespace --mode=devdax --map=mem --align=4k` does.
/// The kernel keeps the namespace's description in the first 2 MiB and finds it at the next boot.
const START_DAX: &str = "cd /modules
for module in $(cat order); do insmod $module; done
cd /sys/bus/nd/devices
if ! [ -e /dev/dax0.0 ]; then
    echo namespace0.0 >/sys/bus/nd/drivers/nd_pmem/unbind
    cat /proc/sys/kernel/random/uuid >dax0.0/uuid
    echo ram >dax0.0/mode
    echo 4096 >dax0.0/align
    echo namespace0.0 >dax0.0/namespace
    echo dax0.0 >/sys/bus/nd/drivers/dax_pmem/bind
fi
";

/// Offset of the window in the file behind an NVDIMM.
const DAX_OFFSET_MIB: u64 = 2;

/// Returns the service script, which runs the command of the package's unit with the same settings file.
/// `init` restarts it when it ends.
fn service(program: &str) -> String {
    let unit = include_str!("../../../../packaging/tombolo-join@.service");
    let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let words = command.strip_prefix("tombolo ").expect("it runs tombolo");
    format!("#!/bin/sh\nJOIN=$(sed -n s/^JOIN=//p /etc/tombolo/join/card0.conf)\nexec {program} {words}\n")
}

/// Adds a folder with its contents.
fn add_folder(archive: &mut Archive, from: &Path, to: &str) {
    let entries = std::fs::read_dir(from).unwrap_or_else(|error| panic!("{from:?}: {error}"));
    for entry in entries.flatten() {
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        let (path, inside) = (entry.path(), if to.is_empty() { name } else { format!("{to}/{name}") });
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() {
            archive.directory(&inside);
            add_folder(archive, &path, &inside);
        } else if kind.is_symlink() {
            let target = std::fs::read_link(&path).expect("a link");
            archive.symlink(&inside, target.to_str().expect("a name in UTF-8"));
        } else {
            archive.file(&inside, 0o755, &std::fs::read(&path).expect("a file"));
        }
    }
}

/// Builds the root file system as an initramfs.
fn root(computer: &Computer, device: Device, key: &[u8]) -> Vec<u8> {
    let kit = computer.kit();
    let mut archive = Archive::new();
    // Libraries for dynamically linked programs, such as this host's.
    let libraries = kit.join("root");
    let has_libraries = libraries.is_dir();
    match has_libraries {
        true => add_folder(&mut archive, &libraries, ""),
        false => archive.directory("usr"),
    }
    for folder in ["bin", "dev", "proc", "sys", "tmp", "run", "modules", "usr/bin", "etc", "etc/tombolo"] {
        archive.directory(folder);
    }
    let read = |path: PathBuf| std::fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    archive.file("bin/busybox", 0o755, &read(kit.join("busybox")));
    archive.symlink("bin/sh", "busybox");
    archive.symlink("init", "bin/busybox");
    // For other instruction sets the kit has only the monitor, which is all that the command would start.
    let program = if has_libraries && computer.isa == std::env::consts::ARCH {
        archive.file("usr/bin/tombolo", 0o755, &read(tombolo()));
        archive.file("usr/bin/tombolod", 0o755, &read(tombolo().with_file_name("tombolod")));
        "/usr/bin/tombolo"
    } else {
        archive.file("usr/bin/tombolod", 0o755, &read(kit.join("tombolod")));
        "/usr/bin/tombolod"
    };
    let mut start = START.to_owned();
    if let Device::Dax = device {
        start.push_str(START_DAX);
        add_folder(&mut archive, &kit.join("dax-modules"), "modules");
    }
    archive.file("etc/start", 0o755, start.as_bytes());
    archive.file("etc/join", 0o755, service(program).as_bytes());
    archive.file("etc/inittab", 0o644, b"::sysinit:/etc/start\n::respawn:/etc/join\n");
    archive.directory("etc/tombolo/join");
    archive.file("etc/tombolo/join/card0.key", 0o600, key);
    let settings =
        format!("JOIN={} --key /etc/tombolo/join/card0.key --silence {SILENCE_S}\n", device.join());
    archive.file("etc/tombolo/join/card0.conf", 0o644, settings.as_bytes());
    archive.finish()
}

/// Starts the emulator. It does not belong to the machine but ends with the test in any case.
fn boot(machine: &Machine, computer: &Computer, device: Device, window: &WindowFile, mib: u64) -> Running {
    let key = std::fs::read(machine.folder().join("key")).expect("a key");
    let image = machine.folder().join("root.cpio");
    std::fs::write(&image, root(computer, device, &key)).expect("a root");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(format!("qemu-system-{}", computer.isa));
    command.args(computer.words.split_whitespace());
    // With a maximum of one processor the emulator would omit memory barriers.
    command.args("-smp 1,maxcpus=2 -nodefaults -nographic -serial stdio".split(' '));
    command.args(["-m", &format!("{MEMORY_MIB},slots=2,maxmem=1G")]);
    command.arg("-kernel").arg(computer.kit().join("vmlinuz")).arg("-initrd").arg(image);
    let (line, more) = (computer.kernel_line, device.kernel_line());
    command.args(["-append", &format!("quiet panic=-1 cryptomgr.notests=1 {line}{more}")]);
    Running::start(command.args(device.words(window.path(), mib)))
}

/// Creates a machine, without bringing it up: this host, and guests as nodes `card0` and so on, each behind
/// one of the windows `sources`, with this key or one derived from the machine's name.
pub(crate) fn machine(isa: &str, sources: &[String], key: Option<&[u8]>) -> Machine {
    let settings = format!("kind = \"attached\"\nisa = \"{isa}\"\nkey = \"key\"\nsilence_s = {SILENCE_S}");
    let nodes = sources.iter().enumerate().map(|(number, source)| {
        let window = format!("window = \"{source}\"\nwindow_mib = 64");
        format!("[[node]]\nname = \"card{number}\"\n{settings}\n{window}\n")
    });
    let machine = Machine::new(&MachineFile::host().with_setting(&nodes.collect::<String>()));
    let own = machine.name().as_bytes().repeat(4);
    std::fs::write(machine.folder().join("key"), key.unwrap_or(&own)).expect("a key");
    machine
}

#[track_caller]
fn wait_until_up_as(machine: &Machine, node: &str, guest: &Running, generation: u64) {
    let up = eventually(|| {
        let node = machine.node(node);
        node["state"] == "up" && node["generation"] == generation
    });
    assert!(up, "{}\n{}", machine.node(node), guest.stdout_so_far());
}

#[track_caller]
pub(crate) fn wait_until_up(machine: &Machine, guest: &Running, generation: u64) {
    wait_until_up_as(machine, "card0", guest, generation);
}

/// Starts a command in the guest.
pub(crate) fn tool(machine: &Machine, isa: &str, words: &[&str]) -> Running {
    let busybox = kit_folder().join(isa).join("busybox").display().to_string();
    machine.start(["run", "--on", "card0", &busybox].iter().chain(words))
}

/// Runs programs on both sides, and two on the guest, over channels in the window.
pub(crate) fn check_programs(machine: &Machine, isa: &str) {
    machine.actor("host,card0", &["exchange", "2000"]).ok();
    machine.actor("card0,card0", &["exchange", "200"]).ok();
    let said = tool(machine, isa, &["uname", "-m"]).finish().ok();
    assert_eq!(said.trim(), isa);
}

/// Runs a command in the guest that ends its service or kernel while a program on the host has a channel to
/// it, and checks that the program learns of it.
pub(crate) fn check_restart_by(machine: &Machine, isa: &str, words: &[&str]) {
    let peer = machine.start_actor("card0", &["hold", "victim"]);
    peer.wait_for("serving");
    let survivor = machine.start_actor("host", &["lose-peer", "recv", "victim"]);
    survivor.wait_for("connected");
    peer.wait_for("holding");
    let cause = tool(machine, isa, words);
    let said: Finished = survivor.finish();
    assert!(said.ok().contains("peer died"), "{said}");
    assert_ne!(peer.finish().status, 0);
    assert_ne!(cause.finish().status, 0);
}

/// Runs through a node's life: it waits before the machine is up, its service is killed, it reboots, the
/// host's part goes down and comes back, dies and comes back, and finally the guest is powered off.
fn check_life_cycle(mut machine: Machine, isa: &str, guest: Running) {
    guest.wait_for("waiting for a machine to offer the window");
    machine.bring_up();
    wait_until_up(&machine, &guest, 1);
    check_programs(&machine, isa);
    let sound = machine.json(&["litmus", "--on", "card0", "--rounds", "2000", "--seconds", "60"]);
    assert_eq!(sound["nodes"][0]["verdict"], "sound", "{sound}");

    check_restart_by(&machine, isa, &["killall", "-9", "tombolod"]);
    wait_until_up(&machine, &guest, 2);
    check_programs(&machine, isa);
    check_restart_by(&machine, isa, &["reboot", "-f"]);
    wait_until_up(&machine, &guest, 3);
    check_programs(&machine, isa);

    machine.tombolo(["down"]).ok();
    machine.bring_up();
    wait_until_up(&machine, &guest, 1);
    machine.kill(machine.processes("serve")[0]);
    // The name is free once the root's supervisor has cleaned up.
    assert!(eventually(|| machine.tombolo([Path::new("up"), machine.file()]).status == 0));
    wait_until_up(&machine, &guest, 1);
    check_programs(&machine, isa);

    drop(guest);
    let lost =
        || machine.node("card0")["cause"].as_str().is_some_and(|cause| cause.contains("no sign of life"));
    assert!(eventually(lost), "{}", machine.node("card0"));
    assert!(eventually(|| machine.node("card0")["window_used_bytes"] == 0), "{}", machine.node("card0"));
    machine.down();
}

fn check_ivshmem_guest(isa: &str) {
    let computer = Computer::of(isa);
    let window = WindowFile::new(64);
    let machine = machine(isa, &[window.source()], None);
    let guest = boot(&machine, computer, Device::Ivshmem, &window, 64);
    check_life_cycle(machine, isa, guest);
}

#[test]
fn an_arm_guest_joins_through_a_pci_device() {
    check_ivshmem_guest("aarch64");
}

/// Like reserved memory between unlike cores: there is no device, and `/dev/mem` maps an address.
#[test]
fn arm_guest_joins_through_reserved_memory() {
    let isa = "aarch64";
    let memory = WindowFile::new(MEMORY_MIB);
    let mut machine = machine(isa, &[format!("{}+{:#x}", memory.source(), (MEMORY_MIB - 64) << 20)], None);
    let guest = boot(&machine, Computer::of(isa), Device::Reserved, &memory, MEMORY_MIB);
    machine.bring_up();
    wait_until_up(&machine, &guest, 1);
    check_programs(&machine, isa);
    check_restart_by(&machine, isa, &["reboot", "-f"]);
    wait_until_up(&machine, &guest, 2);
    check_programs(&machine, isa);
    machine.down();
}

/// The host relays between guests without common memory, and the death of one is reported to the other.
#[test]
fn two_guests_reach_each_other_through_the_host() {
    let isa = "aarch64";
    let windows = [WindowFile::new(64), WindowFile::new(64)];
    let mut machine = machine(isa, &[windows[0].source(), windows[1].source()], None);
    let boot_with = |window| boot(&machine, Computer::of(isa), Device::Ivshmem, window, 64);
    let [first, second] = [boot_with(&windows[0]), boot_with(&windows[1])];
    machine.bring_up();
    wait_until_up_as(&machine, "card0", &first, 1);
    wait_until_up_as(&machine, "card1", &second, 1);
    machine.actor("card0,card1", &["exchange", "500"]).ok();
    let peer = machine.start_actor("card0", &["hold", "victim"]);
    peer.wait_for("serving");
    let survivor = machine.start_actor("card1", &["lose-peer", "recv", "victim"]);
    survivor.wait_for("connected");
    drop(first);
    let said = survivor.finish();
    assert!(said.ok().contains("peer died"), "{said}");
    assert_ne!(peer.finish().status, 0);
    machine.actor("host,card1", &["exchange", "200"]).ok();
    machine.down();
}

#[test]
fn guests_of_other_instruction_sets_join_through_a_pci_device() {
    ["x86_64", "riscv64"].into_iter().filter(|isa| has_virtual_machine(isa)).for_each(check_ivshmem_guest);
}

#[test]
fn a_guest_joins_through_an_nvdimm_that_is_a_dax_device() {
    let isa = "x86_64";
    if !has_virtual_machine(isa) {
        return;
    }
    let window = WindowFile::new(64 + DAX_OFFSET_MIB);
    let machine = machine(isa, &[format!("{}+{:#x}", window.source(), DAX_OFFSET_MIB << 20)], None);
    let guest = boot(&machine, Computer::of(isa), Device::Dax, &window, 64 + DAX_OFFSET_MIB);
    check_life_cycle(machine, isa, guest);
}

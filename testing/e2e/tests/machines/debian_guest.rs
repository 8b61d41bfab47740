//! A Debian guest that joins by itself. It has nothing of Tombolo but the installed package, whose service
//! systemd starts. `scripts/test-guest-package.sh` creates its disk and then runs this test.

use std::path::{Path, PathBuf};
use std::process::Command;

use tombolo_e2e::{Machine, Running, WindowFile, eventually, has_virtual_machine, report_optional};

use crate::guests::{Computer, Device, check_programs, check_restart_by, machine, tool, wait_until_up};

const ISA: &str = std::env::consts::ARCH;

const WINDOW_MIB: u64 = 64;

/// Folder with the kernel, the initramfs, the disk and the key.
fn guest_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("TOMBOLO_GUEST").map(PathBuf::from);
    if folder.is_none() {
        report_optional("the package in a Debian that joins by itself: `make test-guest-package`");
    }
    folder.filter(|_| has_virtual_machine(ISA))
}

/// Starts the emulator, which ends with the test. The guest's writes go to a temporary overlay, not to the
/// disk's file. KVM is not used, because it hangs where it is available but itself emulated.
fn boot(folder: &Path, window: &WindowFile) -> Running {
    let computer = Computer::of(ISA);
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(format!("qemu-system-{ISA}"));
    command.args(computer.words.split_whitespace());
    command.args("-smp 1,maxcpus=2 -m 1G -nodefaults -nographic -serial stdio".split(' '));
    command.arg("-kernel").arg(folder.join("vmlinuz")).arg("-initrd").arg(folder.join("initrd.img"));
    let disk = folder.join("disk");
    command.args(["-drive", &format!("file={},format=raw,if=virtio,snapshot=on", disk.display())]);
    let line = computer.kernel_line;
    command.args(["-append", &format!("root=/dev/vda rw systemd.journald.forward_to_console=1 {line}")]);
    Running::start(command.args(Device::Ivshmem.words(window.path(), WINDOW_MIB)))
}

/// Waits for the boot, which takes minutes when emulated on a busy host.
#[track_caller]
fn booted(machine: &Machine, guest: &Running, generation: u64) {
    let up = || machine.node("card0")["state"] == "up" && machine.node("card0")["generation"] == generation;
    let _ = (0..3).any(|_| eventually(up));
    wait_until_up(machine, guest, generation);
}

/// Runs `systemctl` in the guest.
fn systemctl(machine: &Machine, words: &str) -> Running {
    tool(machine, ISA, &["sh", "-c", &format!("exec /usr/bin/systemctl {words}")])
}

/// Systemd starts the service at boot and restarts it after a kill, and stops it when the guest reboots or
/// powers off. The host's part may go down and come back meanwhile.
#[test]
fn debian_guest_with_package_is_a_node() {
    let Some(folder) = guest_folder() else { return };
    let window = WindowFile::new(WINDOW_MIB);
    let key = std::fs::read(folder.join("key")).expect("a key");
    let mut machine = machine(ISA, &[window.source()], Some(&key));
    let mut guest = boot(&folder, &window);
    machine.bring_up();
    booted(&machine, &guest, 1);
    check_programs(&machine, ISA);
    let service = systemctl(&machine, "is-active tombolo-join@card0").finish().ok();
    assert_eq!(service.trim(), "active");
    let sound = machine.json(&["litmus", "--on", "card0", "--rounds", "2000", "--seconds", "60"]);
    assert_eq!(sound["nodes"][0]["verdict"], "sound", "{sound}");

    check_restart_by(&machine, ISA, &["killall", "-9", "tombolod"]);
    booted(&machine, &guest, 2);
    check_programs(&machine, ISA);
    check_restart_by(&machine, ISA, &["sh", "-c", "/usr/bin/systemctl reboot && sleep 1000"]);
    booted(&machine, &guest, 3);
    check_programs(&machine, ISA);

    machine.tombolo(["down"]).ok();
    machine.bring_up();
    booted(&machine, &guest, 1);
    check_programs(&machine, ISA);

    let asked = systemctl(&machine, "poweroff");
    assert!(eventually(|| machine.node("card0")["state"] != "up"), "{}", machine.node("card0"));
    // The command ends before or with its node.
    let _ = asked.finish();
    assert!(eventually(|| !guest.is_running()), "{}", guest.stdout_so_far());
    let ended = guest.finish();
    assert_eq!(ended.status, 0, "{ended}");
    assert!(eventually(|| machine.node("card0")["window_used_bytes"] == 0), "{}", machine.node("card0"));
    machine.down();
}

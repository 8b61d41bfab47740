//! MPI programs on the host, and across processors with and without a common kernel.

use std::ffi::OsStr;
use std::process::Command;

use tombolo_e2e::mpi::{Mpi, PROGRAMS};
use tombolo_e2e::{Finished, Machine, MachineFile, Running};

/// Runs a test program with its ranks on these nodes in turn.
fn run(machine: &Machine, mpi: Mpi, (program, ranks): (&str, usize), on: &str) -> Finished {
    let image = mpi.image(program);
    let ranks = ranks.to_string();
    let words =
        ["mpirun", "--timeout", "100", "-n", &ranks, "--on", on, "--map", "round-robin"].map(OsStr::new);
    machine.tombolo(words.into_iter().chain([image.as_os_str()]))
}

fn check_programs(machine: &Machine, mpi: Mpi, on: &str, ranks: &[usize]) {
    for program in PROGRAMS {
        for ranks in ranks {
            let said = run(machine, mpi, (program, *ranks), on).ok();
            assert_eq!(said, format!("{program}: right on {ranks} ranks\n"));
        }
    }
}

#[test]
fn programs_are_correct_on_the_host() {
    let Some(mpi) = Mpi::find() else { return };
    let machine = Machine::up(&MachineFile::host());
    check_programs(&machine, mpi, "host", &[1, 2, 4]);
    // Many more ranks than processors, each of which connects to all others.
    let said = run(&machine, mpi, ("everyone", 40), "host").ok();
    assert_eq!(said, "everyone: right on 40 ranks\n");
    machine.down();
}

#[test]
fn programs_are_correct_with_emulated_node() {
    let Some(mpi) = Mpi::find() else { return };
    let machine = Machine::up(&mpi.with_user(MachineFile::host(), "arm-user"));
    check_programs(&machine, mpi, "host,arm-user", &[2, 4]);
    machine.down();
}

#[test]
fn programs_are_correct_with_virtual_machine() {
    let Some(mpi) = Mpi::find() else { return };
    let machine = Machine::up(&mpi.with_vm(MachineFile::host(), "arm0"));
    check_programs(&machine, mpi, "host,arm0", &[2]);
    machine.down();
}

#[test]
fn python_talks_by_mpi_on_the_host() {
    let Some(mpi) = Mpi::find() else { return };
    let Some(python) = mpi.python() else { return };
    let machine = Machine::up(&MachineFile::host());
    let script = machine.folder().join("sum.py");
    let text = "from mpi4py import MPI\nworld = MPI.COMM_WORLD\nranks = world.gather((world.rank, 'x' * 100000))\n\
                if world.rank == 0: print([rank for rank, text in ranks if len(text) == 100000])\n";
    std::fs::write(&script, text).unwrap();
    let words = ["mpirun", "--timeout", "100", "-n", "3"].map(OsStr::new);
    let said = machine.tombolo(words.into_iter().chain([python.as_os_str(), script.as_os_str()])).ok();
    assert_eq!(said, "[0, 1, 2]\n");
    machine.down();
}

#[test]
fn mpi_abi_programs_run_on_nodes_of_other_isas() {
    let Some(mpi) = Mpi::find() else { return };
    let machine = Machine::up(&mpi.with_user(MachineFile::host(), "arm-user"));
    let source = Mpi::source("ring");
    machine.tombolo(["mpicc", "--abi", "-O2", source.to_str().unwrap(), "-o", "ring.tbi"]).ok();
    let words = ["mpirun", "--timeout", "100", "--on", "host,arm-user", "ring.tbi"];
    assert_eq!(machine.tombolo(words).ok(), "ring: right on 2 ranks\n");
    machine.down();
}

/// A third-party program, linked with Open MPI and started by Open MPI's launcher. Environment variables
/// select the provider.
#[test]
fn netpipe_runs_over_open_mpi() {
    let Some(mpi) = Mpi::find() else { return };
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !is_there("mpirun.openmpi") || !is_there("NPopenmpi") {
        return tombolo_e2e::skipped("NetPIPE over Open MPI: it is not installed (Debian: netpipe-openmpi)");
    }
    let machine = Machine::up(&MachineFile::host());
    let launcher =
        ["--allow-run-as-root", "--oversubscribe", "-n", "2", "--mca", "pml", "cm", "--mca", "mtl", "ofi"];
    let program =
        ["--mca", "mtl_ofi_provider_include", "tombolo", "NPopenmpi", "-i", "-u", "65536", "-n", "20"];
    let mut command = Command::new("mpirun.openmpi");
    for (name, value) in machine.command().get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("FI_PROVIDER_PATH", mpi.provider_folder()).current_dir(machine.folder());
    let said = Running::start(command.args(launcher).args(program)).finish();
    assert_eq!(said.status, 0, "{said}");
    let all = said.text() + &said.stderr;
    let passed = all.lines().filter(|line| line.ends_with("Integrity check passed")).count();
    assert!(passed > 20 && all.contains("49153 bytes"), "{said}");
    machine.down();
}

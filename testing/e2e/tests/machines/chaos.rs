//! Repeated random kills under load; afterwards nothing is left.

use std::time::Duration;

use rustix::process::Signal;
use tombolo_e2e::{Machine, MachineFile, Random, Running, eventually};

const NODES: [&str; 4] = ["host", "arm0", "riscv-user", "s390x-user"];

fn zoo() -> MachineFile {
    MachineFile::host()
        .with_vm("arm0", "")
        .with_user("riscv-user", "riscv64")
        .with_user("s390x-user", "s390x")
}

/// Starts a job that keeps two nodes busy with messages, output or children.
fn start_job(machine: &Machine, random: &mut Random) -> Running {
    let one = NODES[random.below(4) as usize];
    let other = NODES[random.below(4) as usize];
    match random.below(4) {
        0 => machine.start_actor(&format!("{one},{other}"), &["exchange", "1000000000"]),
        1 => machine.start_actor(&format!("{one}:2"), &["flood", "stdout", "1000000000000"]),
        2 => machine.start_actor(&format!("{one},{other}"), &["spawn-in-turn", other, "100000"]),
        _ => machine.start_actor(one, &["leave-behind", "setsid sleep 1001 &", "1000"]),
    }
}

/// Asserts that a job which failed because it, or something it needs, was killed reports that and blames no
/// other program.
fn failed(job: Running) {
    let finished = job.finish();
    assert_ne!(finished.status, 0, "{finished}");
    for word in ["panicked", "protocol", "not what was sent"] {
        assert!(!finished.stderr.contains(word), "{finished}");
    }
}

/// Kills a random part of the machine; returns false if that was the whole machine.
fn kill_something(machine: &Machine, random: &mut Random, jobs: &mut Vec<Running>) -> bool {
    match random.below(10) {
        0..4 => {
            let domains: Vec<_> = NODES.iter().flat_map(|node| machine.domains_on(node)).collect();
            if let Some((id, _)) = domains.get(random.below(domains.len().max(1) as u64) as usize) {
                // The domain may have ended meanwhile.
                let _ = machine.tombolo(["kill", id, "--grace", "0"]);
            }
        }
        4..6 if !jobs.is_empty() => {
            let job = jobs.swap_remove(random.below(jobs.len() as u64) as usize);
            job.signal(if random.below(2) == 0 { Signal::KILL } else { Signal::INT });
            failed(job);
        }
        6..9 => {
            let node = NODES[1 + random.below(3) as usize];
            machine.kill(machine.pid_of(node));
            assert!(eventually(|| machine.node(node)["state"] == "down"), "{node}");
            machine.tombolo(["restart", node]).ok();
        }
        9 => {
            machine.kill(machine.pid_of("host"));
            return false;
        }
        _ => {}
    }
    true
}

fn chaos(seed: u64, rounds: u32) {
    let mut random = Random::new(seed);
    let mut machine = Machine::up(&zoo());
    let mut jobs = Vec::new();
    for round in 0..rounds {
        eprintln!("round {round} of seed {seed}");
        jobs.push(start_job(&machine, &mut random));
        std::thread::sleep(Duration::from_millis(random.below(400)));
        let is_up = kill_something(&machine, &mut random, &mut jobs);
        if !is_up {
            jobs.drain(..).for_each(failed);
            machine.assert_gone();
            machine.bring_up();
        }
        while jobs.len() > 3 {
            let job = jobs.remove(0);
            job.signal(Signal::INT);
            failed(job);
        }
    }
    for job in jobs {
        job.signal(Signal::TERM);
        failed(job);
    }
    // The machine still works.
    for node in NODES {
        assert!(eventually(|| machine.domains_on(node).is_empty()), "{node}: {:?}", machine.domains_on(node));
        machine.actor(node, &["exit", "6"]).fails_with(6, &[]);
    }
    assert!(eventually(|| machine.processes("sleep 1001").is_empty()), "something was left behind");
    machine.actor("host,arm0", &["exchange", "1000"]).ok();
    assert_eq!(machine.node("arm0")["window_used_bytes"], 0);
    machine.down();
}

#[test]
fn random_kills_leave_nothing() {
    chaos(2, 12);
}

#[test]
#[ignore = "takes an hour"]
fn random_kills_leave_nothing_for_long() {
    (1..=40).for_each(|seed| chaos(seed, 50));
}

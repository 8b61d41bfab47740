use tombolo_monitor_core::root::Nanos;

use super::*;

const SECOND: Nanos = 1_000_000_000;

fn machine(nodes: u16, domains: usize) -> SyntheticMachine {
    let plan = Plan {
        machine: "synthetic".into(),
        nodes,
        domains,
        ends_per_second: 10,
        down_every_ns: 20 * SECOND,
        down_for_ns: 5 * SECOND,
        watchers: 2,
        seed: 1,
    };
    SyntheticMachine::new(plan, SECOND).unwrap()
}

/// Steps the machine from one time to another.
fn pass(machine: &mut SyntheticMachine, from: Nanos, to: Nanos) {
    let mut now = from;
    while now < to {
        machine.step(now).unwrap();
        machine.settle(now).unwrap();
        let due = machine.core.next_tick().into_iter().chain([machine.next_step()]).min().unwrap();
        now = due.max(now + 1_000_000);
    }
}

#[test]
fn all_domains_start_and_a_node_goes_down_and_comes_back() {
    let mut machine = machine(20, 500);
    pass(&mut machine, SECOND, 12 * SECOND);
    let up = |machine: &SyntheticMachine| machine.core.boot_progress().up.len();
    assert_eq!((machine.domains(), up(&machine)), (500, 20), "the host is not simulated");
    let lives = |machine: &SyntheticMachine| -> usize {
        let held = machine.core.resource_counts();
        held.iter().find(|(what, _)| *what == "domains").map_or(0, |(_, count)| *count)
    };
    // Starters and watchers are domains too.
    assert_eq!(lives(&machine), 500 + 1 + 2);
    assert!(
        machine.observed().observations > 500 && machine.observed().replies > 20,
        "{:?}",
        machine.observed()
    );
    pass(&mut machine, 12 * SECOND, 23 * SECOND);
    assert_eq!(up(&machine), 19);
    pass(&mut machine, 23 * SECOND, 35 * SECOND);
    assert_eq!((machine.domains(), up(&machine)), (500, 20));
}

#[test]
fn the_same_seed_gives_the_same_machine() {
    let states: Vec<Vec<(&str, usize)>> = (0..2)
        .map(|_| {
            let mut machine = machine(8, 100);
            pass(&mut machine, SECOND, 30 * SECOND);
            machine.core.resource_counts()
        })
        .collect();
    assert_eq!(states[0], states[1]);
}

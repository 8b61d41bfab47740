use tombolod::core::Nanos;

use super::*;

const SECOND: Nanos = 1_000_000_000;

fn crowd(nodes: u16, domains: usize) -> Crowd {
    let plan = Plan {
        machine: "crowd".into(),
        nodes,
        domains,
        ends_per_second: 10,
        down_every_ns: 20 * SECOND,
        down_for_ns: 5 * SECOND,
        watchers: 2,
        seed: 1,
    };
    Crowd::new(plan, SECOND).unwrap()
}

/// Lets time pass.
fn pass(crowd: &mut Crowd, from: Nanos, to: Nanos) {
    let mut now = from;
    while now < to {
        crowd.step(now).unwrap();
        crowd.settle(now).unwrap();
        let due = crowd.core.next_tick().into_iter().chain([crowd.next_step()]).min().unwrap();
        now = due.max(now + 1_000_000);
    }
}

#[test]
fn all_are_there_after_a_while_and_a_node_comes_and_goes() {
    let mut crowd = crowd(20, 500);
    pass(&mut crowd, SECOND, 12 * SECOND);
    let up = |crowd: &Crowd| crowd.core.boot_progress().up.len();
    assert_eq!((crowd.domains(), up(&crowd)), (500, 20), "the host is not made up");
    let lives = |crowd: &Crowd| -> usize {
        let held = crowd.core.held();
        held.iter().find(|(what, _)| *what == "domains").map_or(0, |(_, count)| *count)
    };
    // Starters and watchers are domains too.
    assert_eq!(lives(&crowd), 500 + 1 + 2);
    assert!(crowd.told().parts > 500 && crowd.told().answers > 20, "{:?}", crowd.told());
    pass(&mut crowd, 12 * SECOND, 23 * SECOND);
    assert_eq!(up(&crowd), 19);
    pass(&mut crowd, 23 * SECOND, 35 * SECOND);
    assert_eq!((crowd.domains(), up(&crowd)), (500, 20));
}

#[test]
fn the_same_seed_makes_the_same_crowd() {
    let states: Vec<Vec<(&str, usize)>> = (0..2)
        .map(|_| {
            let mut crowd = crowd(8, 100);
            pass(&mut crowd, SECOND, 30 * SECOND);
            crowd.core.held()
        })
        .collect();
    assert_eq!(states[0], states[1]);
}

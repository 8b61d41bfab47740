//! A few seeds of broadcast groups. `cargo xtask sim` runs thousands, and canaries.

use tombolo_sim::broadcast::run;

#[test]
fn groups_agree_after_any_death() {
    let (mut largest, mut deaths, mut taken) = (0, 0, 0);
    for seed in 1..=25 {
        let outcome = run(seed);
        assert_eq!(outcome.failure, None, "seed {seed}: `cargo xtask sim --seed {seed}` runs it alone");
        (largest, deaths, taken) =
            (largest.max(outcome.members), deaths + outcome.deaths, taken + outcome.taken);
    }
    assert!(
        largest >= 20 && deaths > 10 && taken > 2_000,
        "{largest} members, {deaths} deaths, {taken} taken"
    );
}

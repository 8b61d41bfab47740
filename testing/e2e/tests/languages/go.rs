//! Go programs: the package's own tests against a machine of this test, and examples on unlike nodes.

use std::path::{Path, PathBuf};

use tombolo_e2e::go::Go;
use tombolo_e2e::{Machine, MachineFile, Running, built, tombolo};

/// Tests that need hubs serve them with the command.
#[test]
fn the_tests_of_the_go_package_pass() {
    let Some(go) = Go::find() else { return };
    let machine = Machine::up(&MachineFile::host());
    for folder in ["runtime/go", "examples/go"] {
        let vetted = Running::start(go.command(folder).args(["vet", "./..."])).finish();
        vetted.ok();
    }
    let mut test = go.command("runtime/go");
    for (name, value) in machine.command().get_envs() {
        match value {
            Some(value) => test.env(name, value),
            None => test.env_remove(name),
        };
    }
    // The race detector needs a C compiler, which tests require anyway.
    test.env("TOMBOLO_COMMAND", tombolo()).args(["test", "-count=1", "-race", "./..."]);
    let said = Running::start(&mut test).finish().ok();
    for package in ["tombolo", "tombolo/hub", "tombolo/stubs", "tombolo/internal/ring"] {
        assert!(said.contains(&format!("ok  \t{package}\t")), "{said}");
    }
    machine.down();
}

/// The same where `int` has 32 bits: this processor runs such programs directly. Without the race detector,
/// which does not support them.
#[test]
#[cfg(target_arch = "x86_64")]
fn the_tests_of_the_go_package_pass_with_32_bits() {
    let Some(go) = Go::find() else { return };
    let packages = ["./stubs", "./internal/ring"];
    let mut test = go.command("runtime/go");
    test.env("GOARCH", "386").env("CGO_ENABLED", "0").args(["test", "-count=1"]).args(packages);
    let said = Running::start(&mut test).finish().ok();
    for package in packages {
        assert!(said.contains(&format!("ok  \ttombolo/{}\t", &package[2..])), "{said}");
    }
}

/// Builds an image of an example for this host and for s390x.
fn image(go: Go, machine: &Machine, example: &str) -> PathBuf {
    let image = machine.folder().join(format!("{example}.tbi"));
    let isas = format!("{},s390x", std::env::consts::ARCH);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/go").join(example);
    let mut build = machine.command();
    build.envs(go.settings()).arg("build").arg(source).args(["--isa", &isas, "-o"]).arg(&image);
    // No timeout for compilers.
    let output = build.output().expect("the command runs");
    assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    image
}

/// One image with builds for all instruction sets; the two ends of a channel have different byte orders.
#[test]
fn a_program_in_go_runs_on_unlike_nodes() {
    let Some(go) = Go::find() else { return };
    let machine = Machine::up(&MachineFile::host().with_user("s390x-user", "s390x"));
    let pingpong = image(go, &machine, "pingpong");
    for (on, from, to) in
        [("host,s390x-user", "host", "s390x-user"), ("s390x-user,host", "s390x-user", "host")]
    {
        let words = ["run".as_ref(), "--on".as_ref(), on.as_ref(), pingpong.as_os_str()];
        let said = machine.tombolo(words).ok();
        assert!(said.contains(&format!(" on {from} -> ")), "{said}");
        assert!(said.contains(&format!(" on {to}: 10000 round trips, median ")), "{said}");
    }
    islands_in_go_and_rust_evolve_alike(go, &machine);
    machine.down();
}

/// Evolves four islands for few enough generations that they have not converged, and compares the best
/// results: in one process in each language, and in a job of both languages and byte orders.
fn islands_in_go_and_rust_evolve_alike(go: Go, machine: &Machine) {
    let (in_go, in_rust) = (image(go, machine, "islands"), built("islands"));
    let (in_go, in_rust) = (in_go.to_string_lossy(), in_rust.to_string_lossy());
    let jobs = [
        vec!["run", &in_go, "native", "4", "60"],
        vec!["run", &in_rust, "native", "4", "60"],
        vec![
            "run",
            "--on",
            "host:2",
            &in_go,
            "channels",
            "60",
            ":",
            "--on",
            "s390x-user",
            &in_go,
            "channels",
            "60",
            ":",
            "--on",
            "host",
            &in_rust,
            "channels",
            "60",
        ],
    ];
    let found = jobs.map(|words| {
        let said = machine.tombolo(words).ok();
        let (_, result) = said.split_once("channels: ").unwrap_or_else(|| panic!("{said}"));
        result.rsplit_once(", ").map(|(result, _)| result.to_owned()).unwrap_or_default()
    });
    assert!(found[0].contains("fitness ") && !found[0].ends_with("fitness 0"), "{found:?}");
    assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
}

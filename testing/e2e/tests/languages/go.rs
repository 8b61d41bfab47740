//! Programs in Go: the package's own tests, on a machine of this test, and examples on unlike nodes.

use tombolo_e2e::go::Go;
use tombolo_e2e::{Machine, MachineFile, Running, tombolo};

/// Those that need hubs serve them by the command.
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
    // The race detector needs a C compiler, which tests have.
    test.env("TOMBOLO_COMMAND", tombolo()).args(["test", "-count=1", "-race", "./..."]);
    let said = Running::start(&mut test).finish().ok();
    for package in ["tombolo", "tombolo/hub", "tombolo/stubs", "tombolo/internal/ring"] {
        assert!(said.contains(&format!("ok  \t{package}\t")), "{said}");
    }
    machine.down();
}

/// One image with builds for all instruction sets; the two ends of a channel differ in byte order.
#[test]
fn a_program_in_go_runs_on_unlike_nodes() {
    let Some(go) = Go::find() else { return };
    let machine = Machine::up(&MachineFile::host().with_user("s390x-user", "s390x"));
    let image = machine.folder().join("pingpong.tbi");
    let builds = [std::env::consts::ARCH, "s390x"].map(|isa| machine.folder().join(isa));
    for (build, isa) in builds.iter().zip([std::env::consts::ARCH, "s390x"]) {
        go.build("examples/go", "./pingpong", isa, build);
    }
    let words = ["image".as_ref(), "pack".as_ref(), "-o".as_ref(), image.as_os_str()];
    machine.tombolo(words.into_iter().chain(builds.iter().map(|build| build.as_os_str()))).ok();
    for (on, from, to) in
        [("host,s390x-user", "host", "s390x-user"), ("s390x-user,host", "s390x-user", "host")]
    {
        let words = ["run".as_ref(), "--on".as_ref(), on.as_ref(), image.as_os_str()];
        let said = machine.tombolo(words).ok();
        assert!(said.contains(&format!(" on {from} -> ")), "{said}");
        assert!(said.contains(&format!(" on {to}: 10000 round trips, median ")), "{said}");
    }
    machine.down();
}

//! The book's key-value service: every client against every server.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use tombolo_e2e::c::HOST;
use tombolo_e2e::go::Go;
use tombolo_e2e::python::Python;
use tombolo_e2e::{Machine, MachineFile, Running, built};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A program of the book.
enum Program {
    Native(PathBuf),
    Python(Python, PathBuf),
}

impl Program {
    fn start(&self, machine: &Machine, name: &str) -> Running {
        match self {
            Program::Native(path) => machine.start([
                "run".as_ref(),
                "--on".as_ref(),
                "host".as_ref(),
                path.as_os_str(),
                name.as_ref(),
            ]),
            Program::Python(python, script) => Running::start(python.command(machine).arg(script).arg(name)),
        }
    }
}

/// Builds the client or server in each language.
fn programs(machine: &Machine, name: &str, python: Option<&Python>) -> Vec<(&'static str, Program)> {
    let in_c = machine.folder().join(format!("{name}_c"));
    let library = HOST.library().expect("this test depends on it");
    HOST.build(&[&format!("examples/c/{name}.c")], &library, &in_c);
    let script = root().join(format!("examples/python/{name}.py"));
    let mut all = vec![("rust", Program::Native(built(name))), ("c", Program::Native(in_c))];
    all.extend(python.map(|python| ("python", Program::Python(python.clone(), script))));
    if let Some(go) = Go::find() {
        let in_go = machine.folder().join(format!("{name}_go"));
        let package = format!("./{}", name.replace('_', ""));
        go.build("examples/go", &package, std::env::consts::ARCH, &in_go);
        all.push(("go", Program::Native(in_go)));
    }
    all
}

#[test]
fn every_client_of_the_book_understands_every_server() {
    let machine = Machine::up(&MachineFile::host());
    let python = Python::of(&machine);
    let servers = programs(&machine, "kv_server", python.as_ref());
    let clients = programs(&machine, "kv_client", python.as_ref());
    for (serving, server) in &servers {
        for (calling, client) in &clients {
            let name = format!("kv-{serving}-{calling}");
            let running = server.start(&machine, &name);
            running.wait_for(&format!("serving {name} on host"));
            let said = client.start(&machine, &name).finish().ok();
            assert!(
                said.contains("declined: not_found\nkey: größte Insel: 島\nawait_change: "),
                "{name}: {said}"
            );
            // The C server ends with its client; the others serve until they are told to end.
            if *serving == "c" {
                let served = running.finish().ok();
                assert!(served.contains("0 unknown, 0 malformed"), "{name}: {served}");
            } else {
                running.signal(Signal::TERM);
                assert_ne!(running.finish().status, 0, "{name}");
            }
        }
    }
    machine.down();
}

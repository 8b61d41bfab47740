//! Python programs: the package's own tests against a machine of this test, with the library built by cargo.

use std::fs;

use rustix::process::Signal;
use tombolo_e2e::python::Python;
use tombolo_e2e::{Machine, MachineFile, Random, Running};

#[path = "../../../../runtime/c/tests/samples/mod.rs"]
mod samples;

use samples::{check, mutated, samples};

/// Hubs used by `test_hubs.py`.
const HUBS: &[&str] = &[
    "py-fifo:fifo:2",
    "py-bytes:fifo:4",
    "py-port:port",
    "py-go:event",
    "py-count:semaphore:2",
    "py-guard:resource",
    "py-pool:pool:2:512",
    "py-left:fifo:2",
    "py-right:fifo:4",
    "py-async:fifo:2",
    "py-async-go:event",
    "py-async-count:semaphore:4",
    "py-async-guard:resource",
];

#[test]
fn the_tests_of_the_python_package_pass() {
    let machine = Machine::up(&MachineFile::host());
    if let Some(python) = Python::of(&machine) {
        let served = HUBS.join(" ");
        let serving = machine.start(["hubs", "serve"].iter().chain(HUBS));
        serving.wait_for("ready: ");
        let mut unittest = python.command(&machine);
        unittest.env("TOMBOLO_SERVED_HUBS", served);
        // Resources that a test leaves open are errors.
        unittest.args(["-W", "error::ResourceWarning", "-m", "unittest", "discover", "-v"]);
        let finished = Running::start(&mut unittest).finish();
        let said = finished.stderr.clone();
        finished.ok();
        assert!(said.contains("\nOK"), "{said}");
    }
    machine.down();
}

/// Programs in the book's chapter on Python.
#[test]
fn the_examples_in_python_serve_and_call() {
    let machine = Machine::up(&MachineFile::host());
    if let Some(python) = Python::of(&machine) {
        let example = |name: &str| {
            let program = format!("../../../examples/python/{name}.py");
            Running::start(python.command(&machine).arg(program).arg("kv-python"))
        };
        let server = example("kv_server");
        server.wait_for("serving kv-python on host");
        let said = example("kv_client").finish().ok();
        assert!(said.contains("declined: not_found\nkey: größte Insel: 島\nawait_change: "), "{said}");
        assert!(said.ends_with("7 calls, versions 2\n"), "{said}");
        server.signal(Signal::KILL);
        assert_ne!(server.finish().status, 0, "it serves until it is killed");
    }
    machine.down();
}

/// The benchmark measures calls and, for comparison, a `multiprocessing.Pipe`.
#[test]
fn python_benchmark_compares_calls_with_a_pipe() {
    let machine = Machine::up(&MachineFile::host());
    if let Some(python) = Python::of(&machine) {
        let path = machine.folder().join("null-call.json");
        let mut program = python.command(&machine);
        program.arg("../../../bench/python/null_call.py").args(["--calls", "20", "--json"]).arg(&path);
        let said = Running::start(&mut program).finish().ok();
        assert!(said.contains("Tombolo calls") && said.contains("multiprocessing.Pipe"), "{said}");
        let json: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(path).expect("it was written")).expect("it is JSON");
        for peer in ["Tombolo calls", "multiprocessing.Pipe"] {
            for what in ["null", "32 B", "1024 B", "65536 B"] {
                let row = &json["latency_ns"][peer][what];
                assert!(
                    row["p50"].as_f64() > Some(0.0) && row["p99"].as_f64() >= row["p50"].as_f64(),
                    "{row}"
                );
            }
        }
    }
    machine.down();
}

#[test]
fn python_benchmark_transfers_arrays() {
    let machine = Machine::up(&MachineFile::host());
    if let Some(python) = Python::of(&machine) {
        let path = machine.folder().join("array.json");
        let mut program = python.command(&machine);
        program
            .arg("../../../bench/python/array_transfer.py")
            .args(["--mebibytes", "1", "--rounds", "10", "--runs", "3", "--json"])
            .arg(&path);
        let said = Running::start(&mut program).finish().ok();
        assert!(said.contains("Tombolo pool") && said.contains("multiprocessing.shared_memory"), "{said}");
        let json: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(path).expect("it was written")).expect("it is JSON");
        for peer in ["Tombolo pool", "multiprocessing.shared_memory"] {
            for what in ["one copy", "no copy"] {
                let row = &json["latency_ns"][peer][what];
                let [least, p50, most] = ["least", "p50", "most"].map(|key| row[key].as_f64());
                assert!(least > Some(0.0) && least <= p50 && p50 <= most, "{json}");
            }
        }
        // A missing competitor is reported as missing, not left out.
        let ray = &json["latency_ns"]["Ray"];
        assert!(ray.is_object() || ray == "not installed" || ray == "needs numpy", "{json}");
        assert_eq!(json["aims"].as_array().map(Vec::len), Some(2), "{json}");
    }
    machine.down();
}

#[test]
fn python_and_rust_encode_and_refuse_alike() {
    let (whole, mut random) = (samples(), Random::new(2));
    let wrong = (0..5000).map(|_| {
        let (which, message) = &whole[random.index(whole.len())];
        (*which, mutated(message, &mut random), 0)
    });
    let all = whole.iter().map(|(which, message)| (*which, message.clone(), 1)).chain(wrong);
    let (mut file, mut refused) = (Vec::new(), 0);
    for (which, message, is_whole) in all {
        let is_taken = u8::from(check(which, &message).is_ok());
        refused += usize::from(is_taken == 0);
        file.extend([which, is_taken, is_whole]);
        file.extend(u32::try_from(message.len()).expect("a short message").to_le_bytes());
        file.extend(message);
    }
    // Only provides the path of the package; the machine stays down.
    let machine = Machine::new(&MachineFile::host());
    if let Some(python) = Python::of(&machine) {
        let path = machine.folder().join("messages");
        fs::write(&path, file).expect("the machine's folder");
        let said = Running::start(python.command(&machine).arg("wire.py").arg(&path)).finish().ok();
        assert_eq!(said, format!("{refused} refused, {} written again\n", whole.len()));
    }
}

//! Parts of two releases work together or are refused with a message that says what to do.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tombolo_control::{
    ClientMessage, FINGERPRINT, Fault, MAX_MESSAGE_BYTES, MonitorMessage, Reply, Request, Wire, socket_name,
};
use tombolo_e2e::{Machine, MachineFile, PATIENCE, image, tombolo};
use tombolo_platform::event::{Interest, poll};
use tombolo_platform::{Deadline, process, socket};

/// Creates a copy of the kit with the version of another release.
fn kit_of_another_release(machine: &Machine) -> PathBuf {
    let parts = tombolo().parent().expect("a profile").with_file_name("kit");
    let kit = machine.folder().join("kit");
    fs::create_dir(&kit).expect("a folder");
    for isa in ["aarch64", "riscv64"] {
        symlink(parts.join(isa), kit.join(isa)).expect("a link");
    }
    fs::write(kit.join("version"), "0.0.9\n").expect("a file");
    kit
}

#[test]
fn the_kit_of_another_release_is_refused_before_anything_starts() {
    for file in [MachineFile::host().with_vm("arm0", ""), MachineFile::host().with_user("arm1", "aarch64")] {
        let machine = Machine::new(&file);
        let kit = kit_of_another_release(&machine);
        let mut up = machine.command();
        up.arg("up").arg(machine.file()).env("TOMBOLO_KIT", &kit);
        let output = up.output().expect("the command");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let kit = kit.display().to_string();
        let version = env!("CARGO_PKG_VERSION");
        for words in [&kit, "those of Tombolo 0.0.9", &format!("this is Tombolo {version}"), "TOMBOLO_KIT"] {
            assert!(said.contains(words), "no '{words}' in: {said}");
        }
        machine.assert_gone();
    }
}

fn receive(connection: &OwnedFd) -> Vec<u8> {
    let until = Some(Deadline::after(PATIENCE));
    assert!(poll(&[(connection.as_fd(), Interest::Read)], until).expect("poll")[0].readable, "nothing came");
    let mut buffer = vec![0; MAX_MESSAGE_BYTES];
    let received = socket::receive(connection, &mut buffer).expect("a message");
    buffer.truncate(received.length);
    buffer
}

#[test]
fn program_of_another_release_is_refused() {
    let machine = Machine::up(&MachineFile::host());
    let client = socket::connect(&socket_name(process::user_id(), machine.name(), None)).expect("a monitor");
    let body = Request::Attach { version: FINGERPRINT ^ 1, program: "old".into() };
    socket::send(&client, &ClientMessage { request: 1, body }.to_bytes().unwrap(), &[]).expect("it listens");
    let answer = MonitorMessage::from_bytes(&receive(&client)).expect("a message").body;
    let Reply::Failed { fault: Fault::Refused { why } } = answer else { panic!("{answer:?}") };
    for words in [&format!("{:08x}", FINGERPRINT ^ 1), &format!("{FINGERPRINT:08x}"), "different releases"] {
        assert!(why.contains(words), "{why}");
    }
    machine.tombolo(["status"]).ok();
    machine.down();
}

/// Returns the answer of an earlier release's monitor to a program of this release: the bytes of
/// docs/specs/control.md, with another text.
fn refusal(request: u32) -> Vec<u8> {
    let why = "this program is of another release".to_owned();
    let body = Reply::Failed { fault: Fault::Refused { why } };
    MonitorMessage { request, body }.to_bytes().expect("it fits")
}

#[test]
fn commands_explain_refusal_by_older_release() {
    let machine = Machine::new(&MachineFile::host());
    let listener = socket::listen(&socket_name(process::user_id(), machine.name(), None)).expect("a name");
    let image = image("pingpong").display().to_string();
    let commands: [&[&str]; 4] = [&["ps"], &["status"], &["run", "--on", "host", &image], &["down"]];
    for words in commands {
        let command = machine.start(words);
        let until = Some(Deadline::after(PATIENCE));
        assert!(poll(&[(listener.as_fd(), Interest::Read)], until).expect("poll")[0].readable, "{words:?}");
        let connection = socket::accept(&listener).expect("accept").expect("a connection");
        let attach = ClientMessage::from_bytes(&receive(&connection)).expect("a message");
        assert!(matches!(attach.body, Request::Attach { version: FINGERPRINT, .. }), "{attach:?}");
        socket::send(&connection, &refusal(attach.request), &[]).expect("it waits for an answer");
        let finished = command.finish();
        assert_eq!(finished.status, 1, "{words:?}: {finished}");
        assert!(finished.stderr.contains("of another release"), "{words:?}: {finished}");
    }
}

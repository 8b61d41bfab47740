//! Virtual machine with a network and no window, with which `tombolo bench bulk` compares a window.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tombolo_machine::image::Image;
use tombolo_machine::paths::cache_dir;
use tombolo_machine::vm::{Architecture, Files, InitramfsError, Qemu, VmKit, initramfs};
use tombolo_machine::{Kit, Node, kit};
use tombolo_platform::process::Process;

use super::network::{ADDRESS, FAILED, PORT, SERVING, TCP_OVER_VIRTIO};
use crate::suite::Error;

/// Running virtual machine. It is killed when this is dropped or this program exits in any way.
#[derive(Debug)]
pub struct NetworkMachine {
    process: Process,
    address: SocketAddr,
}

impl NetworkMachine {
    /// Starts a machine with the processor and the memory of `node`, and waits until it serves.
    ///
    /// # Errors
    /// A part of the kit or the emulator is missing, or the machine does not come up within `timeout`; the
    /// error has its output.
    pub fn start(node: &Node, timeout: Duration) -> Result<NetworkMachine, Error> {
        let vm = node.as_vm().ok_or_else(|| unstarted("it is no virtual machine"))?;
        let kit = Kit::locate().map_err(unstarted)?;
        let parts = VmKit::locate(kit.root(), node.isa).map_err(unstarted)?;
        let emulator =
            kit::emulator(node).map_err(unstarted)?.ok_or_else(|| unstarted("no emulator is known"))?;
        let image = Image::open(&kit.image("bench")).map_err(unstarted)?;
        let program = image.program(node.isa).map_err(unstarted)?;
        let libraries: Vec<_> = parts.root.iter().cloned().collect();
        let files = Files::gather(&libraries).map_err(InitramfsError::from);
        let archive = files.and_then(|files| initramfs::pack_program(&parts, program.bytes, &files));
        let kept = archive.and_then(|archive| initramfs::store(&archive, &cache_dir()?));
        let boot_image = kept.map_err(unstarted)?;
        let address: Ipv4Addr = ADDRESS.parse().map_err(unstarted)?;
        let ((serial, serial_end), (control, control_end)) = (line()?, line()?);
        let architecture =
            Architecture::of(node.isa).ok_or_else(|| unstarted("there is no machine of it"))?;
        let launch = Qemu::new(architecture, emulator, &parts.kernel, boot_image)
            .cpu(vm.cpu.clone())
            .memory_mib(vm.memory_mib)
            .processors(vm.processors)
            .launch_with_network(serial_end.into(), control_end.into(), (address, PORT))
            .map_err(unstarted)?;
        let mut command = Command::new(&launch.program);
        command.args(&launch.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let inherited: Vec<_> = launch.inherited.iter().map(AsFd::as_fd).collect();
        let started = Process::start(&mut command, &inherited);
        let process = started.map_err(unstarted)?;
        drop(inherited);
        // From here on, only the emulator's ends keep the lines open.
        drop(launch);
        let mut machine = NetworkMachine { process, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let until = Instant::now() + timeout;
        let port = forwarded_port(control, until).map_err(|why| machine.failed("say its port", &why))?;
        machine.address.set_port(port);
        wait_until_serving(&listen(serial), until).map_err(|why| machine.failed("serve", &why))?;
        Ok(machine)
    }

    /// Terminates the machine and returns an error with the emulator's output.
    fn failed(&mut self, what: &str, why: &str) -> Error {
        self.process.destroy();
        let mut output = String::new();
        if let Some(stderr) = self.process.child_mut().stderr.take() {
            // A read error only shortens the message.
            let _ = stderr.take(4096).read_to_string(&mut output);
        }
        match output.trim() {
            "" => failed(what, &why),
            output => failed(what, &format!("{why}; the emulator said: {output}")),
        }
    }

    /// Returns its address on the host's loopback.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for NetworkMachine {
    fn drop(&mut self) {
        self.process.destroy();
    }
}

fn failed(what: &str, why: &dyn std::fmt::Display) -> Error {
    Error::of_peer(TCP_OVER_VIRTIO, format!("{what}: {why}"))
}

fn unstarted(why: impl std::fmt::Display) -> Error {
    failed("be started", &why)
}

fn line() -> Result<(UnixStream, UnixStream), Error> {
    UnixStream::pair().map_err(Error::system("make two sockets"))
}

/// Reads the lines of a console until its end, even if they are not needed: an emulator blocks when its
/// console is full.
fn listen(serial: UnixStream) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let mut serial = BufReader::new(serial);
        let mut line = Vec::new();
        while serial.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            // The receiver is dropped once the machine serves.
            let _ = sender.send(String::from_utf8_lossy(&line).trim().to_owned());
            line.clear();
        }
    });
    lines
}

/// Waits for the line that announces the server.
fn wait_until_serving(lines: &Receiver<String>, until: Instant) -> Result<(), String> {
    let mut last = String::new();
    loop {
        match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) if line == SERVING => return Ok(()),
            Ok(line) => match line.strip_prefix(FAILED) {
                Some(why) => return Err(why.to_owned()),
                None if line.is_empty() => {}
                None => last = line,
            },
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("it takes too long; it last said {last:?}"));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(format!("it ended; it last said {last:?}")),
        }
    }
}

/// Queries the emulator for the port chosen by the kernel.
fn forwarded_port(control: UnixStream, until: Instant) -> Result<u16, String> {
    let mut control = Control { lines: BufReader::new(control), until };
    control.ask(&json!({ "execute": "qmp_capabilities" }))?;
    let arguments = json!({ "command-line": "info usernet" });
    let answer = control.ask(&json!({ "execute": "human-monitor-command", "arguments": arguments }))?;
    let table = answer.as_str().unwrap_or_default();
    port_in(table).ok_or_else(|| format!("its table of connections has none: {table:?}"))
}

/// Parses the port in a line like `TCP[HOST_FORWARD]  13  127.0.0.1 40123  10.0.2.15  7700  0  0`.
fn port_in(table: &str) -> Option<u16> {
    let line = table.lines().find(|line| line.trim_start().starts_with("TCP[HOST_FORWARD]"))?;
    let mut words = line.split_whitespace().skip_while(|word| *word != "127.0.0.1");
    words.nth(1)?.parse().ok().filter(|port| *port != 0)
}

/// Client of the emulator's monitor protocol (QMP): one JSON object per line in each direction.
struct Control {
    lines: BufReader<UnixStream>,
    until: Instant,
}

impl Control {
    /// Runs a command and returns its result. Skips greetings and events in between.
    fn ask(&mut self, command: &Value) -> Result<Value, String> {
        let stream = self.lines.get_mut();
        writeln!(stream, "{command}").map_err(|error| error.to_string())?;
        loop {
            let left = self.until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.lines.get_ref().set_read_timeout(Some(left)).map_err(|error| error.to_string())?;
            let mut line = String::new();
            match self.lines.read_line(&mut line).map_err(|error| error.to_string())? {
                0 => return Err("the emulator has ended".into()),
                _ => {
                    let answer: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
                    if let Some(error) = answer.get("error") {
                        return Err(error.to_string());
                    }
                    if let Some(found) = answer.get("return") {
                        return Ok(found.clone());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "Hub -1 (network):\r\n  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ\r\n  \
                         TCP[HOST_FORWARD]  13       127.0.0.1 40123       10.0.2.15  7700     0     0\r\n";

    #[test]
    fn the_port_is_found_in_the_emulators_table() {
        assert_eq!(port_in(TABLE), Some(40123));
        for table in ["", "TCP[ESTABLISHED] 13 127.0.0.1 40123", "TCP[HOST_FORWARD] 13 127.0.0.1 0 10.0.2.15"]
        {
            assert_eq!(port_in(table), None, "{table}");
        }
    }

    #[test]
    fn emulator_greetings_and_events_are_skipped() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let answer = json!({ "return": TABLE });
        let output = format!(
            "{}\n{}\n{}\n{answer}\n",
            json!({ "QMP": {} }),
            json!({ "return": {} }),
            json!({ "event": "X" })
        );
        (&theirs).write_all(output.as_bytes()).unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        assert_eq!(forwarded_port(ours.try_clone().unwrap(), until), Ok(40123));
        (&theirs).write_all(format!("{}\n", json!({ "error": { "desc": "no" } })).as_bytes()).unwrap();
        assert!(forwarded_port(ours.try_clone().unwrap(), until).unwrap_err().contains("no"));
        drop(theirs);
        assert!(forwarded_port(ours, until).is_err());
    }

    #[test]
    fn failed_machine_start_has_a_reason() {
        let wait = |output: &str, timeout: Duration| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            (&theirs).write_all(output.as_bytes()).unwrap();
            let theirs = (timeout == Duration::ZERO).then_some(theirs);
            let found =
                wait_until_serving(&listen(ours), Instant::now() + timeout.max(Duration::from_millis(200)));
            drop(theirs);
            found
        };
        let long = Duration::from_secs(10);
        assert_eq!(wait(&format!("a kernel\r\n{SERVING}\r\n"), long), Ok(()));
        assert_eq!(wait("\nbench-peer: cannot load it\n", long), Err("cannot load it".into()));
        assert!(
            wait("Kernel panic\n", long).unwrap_err().contains("it ended; it last said \"Kernel panic\"")
        );
        assert!(
            wait("Booting\n", Duration::ZERO).unwrap_err().contains("too long; it last said \"Booting\"")
        );
    }
}

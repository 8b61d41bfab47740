//! Bulk data over TCP to a virtual machine with a network: the alternative to a window.
//!
//! The machine is a separate one, without a window and a monitor, started by `tombolo bench bulk` and removed
//! afterwards, because nodes have no network (ADR 0041). Its process 1 is this program, which answers one
//! connection.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command as Program;
use std::time::Instant;

use tombolo_platform::guest::init;

use crate::Error;
use crate::bulk::command::{ANSWER, COMMAND_BYTES, Command, TIMEOUT, from_bytes, to_bytes};
use crate::content::{check_sum, fill_bulk, sum};

/// Name in rows and legends.
pub const TCP_OVER_VIRTIO: &str = "TCP over virtio-net";

/// Address of the machine in its private network inside the emulator.
pub const ADDRESS: &str = "10.0.2.15";

/// TCP port on which the machine listens.
pub const PORT: u16 = 7700;

/// Console line that the machine prints once it listens.
pub const SERVING: &str = "bench-peer: serving";

/// Prefix of the console line with the reason if it cannot listen.
pub const FAILED: &str = "bench-peer: ";

/// Creates the error of a failed step over TCP.
pub fn failed(what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::Network { what: format!("{what}: {error}") }
}

/// Connection for commands, answers and buffers in turn.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// Wraps a TCP stream.
    ///
    /// # Errors
    /// The connection fails.
    pub fn new(stream: TcpStream) -> Result<Connection, Error> {
        let set = stream.set_nodelay(true);
        let set = set.and_then(|()| stream.set_read_timeout(Some(TIMEOUT)));
        set.and_then(|()| stream.set_write_timeout(Some(TIMEOUT)))
            .map_err(|error| failed("set up", &error))?;
        Ok(Connection { stream, buffer: Vec::new() })
    }

    /// Sets the length of the buffer.
    pub fn length_bytes(&mut self, bytes: usize) {
        self.buffer.resize(bytes, 0);
        // Frees the excess: the machine is small.
        self.buffer.shrink_to_fit();
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.stream.write_all(bytes).map_err(|error| failed("send", &error))
    }

    fn recv(&mut self) -> Result<[u64; 3], Error> {
        let mut message = [0; COMMAND_BYTES];
        self.stream.read_exact(&mut message).map_err(|error| failed("receive", &error))?;
        Ok(from_bytes(message))
    }

    /// Sends a command to the other side.
    ///
    /// # Errors
    /// The connection fails.
    pub fn send_command(&mut self, command: Command) -> Result<(), Error> {
        self.send(&to_bytes(command.words()))
    }

    fn answer(&mut self) -> Result<(), Error> {
        self.send(&to_bytes([ANSWER, 0, 0]))
    }

    /// Waits for the answer to a command.
    ///
    /// # Errors
    /// The connection fails, or received data differs from what was sent.
    pub fn recv_answer(&mut self) -> Result<(), Error> {
        match self.recv()? {
            [ANSWER, 0, 0] => Ok(()),
            other => Err(failed("read an answer", &format!("{other:?} is invalid"))),
        }
    }

    /// Sends a command and waits for its answer.
    ///
    /// # Errors
    /// The connection fails, or received data differs from what was sent.
    pub fn ask(&mut self, command: Command) -> Result<(), Error> {
        self.send_command(command)?;
        self.recv_answer()
    }

    fn send_buffer(&mut self, sequence: u64) -> Result<(), Error> {
        fill_bulk(&mut self.buffer, sequence);
        self.stream.write_all(&self.buffer).map_err(|error| failed("send a buffer", &error))
    }

    fn recv_buffer(&mut self, sequence: u64) -> Result<(), Error> {
        self.stream.read_exact(&mut self.buffer).map_err(|error| failed("receive a buffer", &error))?;
        check_sum(sum(&self.buffer), self.buffer.len(), sequence)
    }

    /// Fills and sends `count` buffers.
    ///
    /// # Errors
    /// The connection fails.
    pub fn give(&mut self, count: u64) -> Result<(), Error> {
        (0..count).try_for_each(|sequence| self.send_buffer(sequence))
    }

    /// Receives and checks `count` buffers.
    ///
    /// # Errors
    /// The connection fails, or received data differs from what was sent.
    pub fn read(&mut self, count: u64) -> Result<(), Error> {
        (0..count).try_for_each(|sequence| self.recv_buffer(sequence))
    }

    /// Returns the nanoseconds until the other side has read a buffer and acknowledged it: the mean of
    /// `count` rounds without the first.
    ///
    /// # Errors
    /// The connection fails, or received data differs from what was sent.
    pub fn deliver(&mut self, count: u64) -> Result<f64, Error> {
        let mut began = Instant::now();
        for sequence in 0..count {
            if sequence == 1 {
                began = Instant::now();
            }
            self.send_buffer(sequence)?;
            self.recv_answer()?;
        }
        Ok(began.elapsed().as_nanos() as f64 / count.saturating_sub(1).max(1) as f64)
    }

    /// Executes the commands of the other side until it closes.
    ///
    /// # Errors
    /// The connection fails, or received data differs from what was sent.
    pub fn serve(&mut self) -> Result<(), Error> {
        /// Maximum length of an accepted buffer, in bytes.
        const MAX_BUFFER_BYTES: u64 = 256 << 20;
        loop {
            let words = self.recv()?;
            match Command::from_words(words) {
                Some(Command::Make { bytes, .. }) if bytes <= MAX_BUFFER_BYTES => {
                    self.length_bytes(
                        usize::try_from(bytes).map_err(|error| failed("make a buffer", &error))?,
                    );
                }
                Some(Command::Take { count }) => self.read(count)?,
                Some(Command::Give { count }) => self.give(count)?,
                Some(Command::Deliver { count }) => (0..count).try_for_each(|sequence| {
                    self.recv_buffer(sequence)?;
                    self.answer()
                })?,
                Some(Command::Bye) => return self.answer(),
                _ => return Err(failed("read a command", &format!("{words:?} is invalid over TCP"))),
            }
            self.answer()?;
        }
    }
}

/// Runs as process 1 of a machine whose only device is a network: serves one connection, then powers the
/// machine off.
///
/// # Errors
/// The setup or the connection fails, which is also reported on the console, or the machine cannot be powered
/// off.
pub fn run_as_init() -> Result<(), Error> {
    let say = |line: &str| {
        // Without a console there is no place to print to.
        if let Ok(path) = init::console()
            && let Ok(mut console) = File::options().write(true).open(path)
        {
            let _ = writeln!(console, "{line}");
        }
    };
    if let Err(error) = serve_machine(&say) {
        say(&format!("{FAILED}{error}"));
    }
    Err(init::power_off().into())
}

fn serve_machine(say: &dyn Fn(&str)) -> Result<(), Error> {
    init::mount_file_systems()?;
    init::load_modules(Path::new(init::MODULES))?;
    let mut configure = Program::new(init::BUSYBOX);
    let status = configure.args(["ifconfig", "eth0", ADDRESS, "netmask", "255.255.255.0", "up"]).status();
    match status.map_err(|error| failed("configure the network", &error))? {
        status if status.success() => {}
        status => return Err(failed("configure the network", &status)),
    }
    let listener = TcpListener::bind((ADDRESS, PORT)).map_err(|error| failed("listen", &error))?;
    say(SERVING);
    let (stream, _) = listener.accept().map_err(|error| failed("accept", &error))?;
    Connection::new(stream)?.serve()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn served() -> (SocketAddr, std::thread::JoinHandle<Result<(), Error>>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        let serve = move || Connection::new(listener.accept().expect("a connection").0)?.serve();
        (address, std::thread::spawn(serve))
    }

    #[test]
    fn invalid_input_ends_the_connection() {
        for words in [[0, 0, 0], [1, 0, 0], [8, u64::MAX, 1], [ANSWER, 0, 0]] {
            let (address, far) = served();
            let mut stream = TcpStream::connect(address).expect("a connection");
            stream.write_all(&to_bytes(words)).expect("a command");
            let error = far.join().expect("no panic").expect_err("it is no command");
            assert!(error.to_string().contains("is invalid over TCP"), "{error}");
        }
    }
}

//! `tombolo bench devices`: network and disk across nodes, compared with those of the emulator.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use tombolo::{Child, Domain, DomainId, Error as Unreached, Exit, SpawnOptions};
use tombolo_bench_far::devices::{CHUNK_BYTES, RECEIVES, SENDS};
use tombolo_platform::device::tap::Interface;

use crate::report::BenchReport;
use crate::suite::Error;
use crate::table::{align, cells};

/// Options of the device benchmark.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time per figure, in seconds.
    pub seconds: u64,
    /// MTU of both networks, in bytes.
    pub mtu: u32,
    /// Emulator of the Arm node, looked up in `PATH`.
    pub emulator: String,
    /// Path of the kit folder.
    pub kit: PathBuf,
}

/// Size of each disk in bytes: smaller than the node's memory, larger than its read-ahead.
const DISK_BYTES: usize = 64 << 20;

/// Timeout for a device to appear, and the time that a program may take beyond the measured time.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Polling interval while waiting for output.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Figures that the programs print, in display order.
const FIGURES: [(&str, &str, Unit); 11] = [
    ("read_4k_p50", "disk: read 4 KiB, median", Unit::Ns),
    ("read_4k_p99", "disk: read 4 KiB, p99", Unit::Ns),
    ("write_4k_p50", "disk: write 4 KiB, median", Unit::Ns),
    ("write_4k_p99", "disk: write 4 KiB, p99", Unit::Ns),
    ("read_128k", "disk: read 128 KiB in sequence", Unit::BytesPerS),
    ("write_128k", "disk: write 128 KiB in sequence", Unit::BytesPerS),
    ("round_trip_p50", "network: 64 B there and back, median", Unit::Ns),
    ("round_trip_p99", "network: 64 B there and back, p99", Unit::Ns),
    ("stream_out", "network: TCP to the host", Unit::BytesPerS),
    ("stream_in", "network: TCP from the host", Unit::BytesPerS),
    ("lost", "network: datagrams lost", Unit::Count),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Unit {
    Ns,
    BytesPerS,
    Count,
}

impl Unit {
    fn suffix(self) -> &'static str {
        match self {
            Unit::Ns => "_ns",
            Unit::BytesPerS => "_bytes_per_s",
            Unit::Count => "",
        }
    }

    fn show(self, value: u64) -> String {
        match self {
            Unit::Ns => format!("{:.1} us", value as f64 / 1e3),
            Unit::BytesPerS => format!("{:.1} MB/s", value as f64 / 1e6),
            Unit::Count => value.to_string(),
        }
    }
}

/// Results of one run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    mtu: u32,
    seconds: u64,
    rows: Vec<Row>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Row {
    name: &'static str,
    #[serde(skip)]
    what: &'static str,
    unit: Unit,
    tombolo: u64,
    virtio: u64,
}

type Figures = BTreeMap<String, u64>;

/// Parses the figures from a program's output.
fn figures(output_of: &str) -> Figures {
    let figure = |line: &str| {
        let mut words = line.strip_prefix("figure ")?.split(' ');
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
    };
    output_of.lines().filter_map(figure).collect()
}

/// Measures on the running machine of `test_files`. `output_of` returns the output of a child of `domain` so
/// far; `progress` is called with a description of each measurement.
///
/// # Errors
/// A program cannot be started or fails (the error has its output), or the system refuses the network card.
pub fn run(
    domain: &Domain,
    options: &Options,
    test_files: &TestFiles,
    output_of: &dyn Fn(DomainId) -> String,
    progress: &mut dyn FnMut(&str),
) -> Result<Report, Error> {
    let [tombolo, virtio] = Bench { domain, options, test_files, output_of }.measure(progress)?;
    let row = |(name, what, unit): (&'static str, &'static str, Unit)| {
        let of = |figures: &Figures| {
            let found = figures.get(&format!("{name}{}", unit.suffix())).copied();
            found.ok_or_else(|| Error::failed(format!("a program did not say {name}")))
        };
        Ok(Row { name, what, unit, tombolo: of(&tombolo)?, virtio: of(&virtio)? })
    };
    let rows = FIGURES.into_iter().map(row).collect::<Result<_, Error>>()?;
    Ok(Report { mtu: options.mtu, seconds: options.seconds, rows })
}

impl BenchReport for Report {
    fn table(&self) -> String {
        let mut lines = vec![cells(&["WHAT", "TOMBOLO", "VIRTIO", "RATIO"])];
        for Row { what, unit, tombolo, virtio, .. } in &self.rows {
            let ratio = match unit {
                Unit::Count => String::new(),
                _ => format!("{:.2}", *tombolo as f64 / (*virtio).max(1) as f64),
            };
            lines.push(vec![(*what).to_owned(), unit.show(*tombolo), unit.show(*virtio), ratio]);
        }
        format!(
            "{}MTU {}; {} s a figure; on an emulated processor, so ratios mean more than times\n",
            align(&lines),
            self.mtu,
            self.seconds
        )
    }
}

/// Files of a measurement: disks, an emulator wrapper that adds devices, and a machine file that uses it.
/// Dropping it removes them.
#[derive(Debug)]
pub struct TestFiles {
    folder: PathBuf,
    card: String,
}

impl TestFiles {
    /// # Errors
    /// The files cannot be written.
    pub fn create(options: &Options) -> Result<TestFiles, Error> {
        let number = std::process::id();
        let folder = std::env::temp_dir().join(format!("tombolo-bench-devices-{number}"));
        let test_files = TestFiles { folder, card: format!("qtap{}", number % 1_000_000) };
        let written = test_files.fill(options);
        written.map_err(Error::system(format!("write to {}", test_files.folder.display())))?;
        Ok(test_files)
    }

    /// Returns the path of the machine file.
    #[must_use]
    pub fn machine_file(&self) -> PathBuf {
        self.folder.join("machine.toml")
    }

    fn fill(&self, options: &Options) -> std::io::Result<()> {
        let TestFiles { folder, card } = self;
        fs::create_dir_all(folder)?;
        for disk in ["tombolo.disk", "virtio.disk"] {
            fs::write(folder.join(disk), vec![0x55; DISK_BYTES])?;
        }
        let emulator = folder.join("emulator");
        let Options { emulator: program, mtu, .. } = options;
        let disk = folder.join("virtio.disk");
        let script = format!(
            "#!/bin/sh\nexec {program} \"$@\" -netdev tap,id=n0,ifname={card},script=no,downscript=no \
             -device virtio-net-pci,netdev=n0,host_mtu={mtu},romfile= \
             -drive file={},if=none,id=d0,format=raw,cache=writeback -device virtio-blk-pci,drive=d0\n",
            disk.display()
        );
        fs::write(&emulator, script)?;
        fs::set_permissions(&emulator, fs::Permissions::from_mode(0o700))?;
        let name = format!("bench-devices-{}", std::process::id());
        let machine = format!(
            "name = \"{name}\"\n[[node]]\nname = \"host\"\nkind = \"host\"\n[[node]]\nname = \"arm0\"\nkind = \"vm\"\n\
             isa = \"aarch64\"\nmemory_mib = 512\nfiles = [\"kit:aarch64/network-modules\"]\nemulator = \"{}\"\n",
            emulator.display()
        );
        fs::write(self.machine_file(), machine)
    }
}

impl Drop for TestFiles {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

struct Bench<'a> {
    domain: &'a Domain,
    options: &'a Options,
    test_files: &'a TestFiles,
    output_of: &'a dyn Fn(DomainId) -> String,
}

impl Bench<'_> {
    /// Measures Tombolo's devices, then the emulator's.
    fn measure(&self, progress: &mut dyn FnMut(&str)) -> Result<[Figures; 2], Error> {
        let ms = (self.options.seconds * 1000).to_string();
        let (mtu, disk) = (self.options.mtu.to_string(), self.test_files.folder.join("tombolo.disk"));
        let disk = disk.display().to_string();
        let (images, busybox) = (self.options.kit.join("images"), self.options.kit.join("aarch64/busybox"));
        let of_card = |octet: u8| Ipv4Addr::new(10, octet, (std::process::id() % 250) as u8, 1);
        let (ours, theirs) = (of_card(94), of_card(95));
        let far = |address: Ipv4Addr| Ipv4Addr::from_bits(address.to_bits() + 1);
        let with = |address: Ipv4Addr| format!("{address}/24");

        let card = Interface::named(&self.test_files.card)?;
        card.set_mtu(self.options.mtu)?;
        card.set_address(theirs, 24)?;
        card.bring_up()?;
        let load = "while read m; do /tombolo/busybox insmod /$m; done </order; cd /sys/class/net; \
                    for card in eth*; do /tombolo/busybox ifconfig $card";
        let load = format!("{load} {} netmask 255.255.255.0 mtu {mtu} up; done", far(theirs));
        self.run(&busybox, &["sh", "-c", &load])?;

        let name = format!("bench{}", std::process::id());
        let devices = images.join("devices.tbi");
        let start = |node: &str, words: &[&str], until: &str| self.start((&devices, node), words, until);
        let server = start("host", &["serve", "bench", &disk, "rw", "-"], "ready: ")?;
        let attached = start("arm0", &["attach", "bench", "30", "device", "-"], "ready: ")?;
        let switch = start("host", &["switch", &name, "bench0", &with(ours), &mtu], "ready: ")?;
        let port = start("arm0", &["port", &name, "bench0", &with(far(ours)), &mtu], "link up: ")?;
        let output_of = (self.output_of)(attached.id());
        let path = output_of
            .strip_prefix("ready: ")
            .and_then(|output_of| output_of.split(' ').next())
            .unwrap_or_default();

        let bench = images.join("bench.tbi");
        let mut measure = |what: &str, path: &str, address: Ipv4Addr| -> Result<Figures, Error> {
            progress(&format!("measuring {what} devices"));
            let mut found = figures(&self.run(&bench, &["disk", path, &ms])?);
            let responder = Responder::start(address).map_err(Error::system("answer on a network"))?;
            found.extend(figures(&self.run(&bench, &["network", &responder.address.to_string(), &ms])?));
            Ok(found)
        };
        let both = [measure("Tombolo's", path, ours)?, measure("the emulator's", "/dev/vda", theirs)?];
        for child in [port, switch, attached, server] {
            child.kill()?;
        }
        Ok(both)
    }

    /// Starts a program and waits until its output contains `until`.
    fn start(&self, (image, node): (&Path, &str), words: &[&str], until: &str) -> Result<Child, Error> {
        let child = self.domain.spawn(&SpawnOptions::image(image).on(node).args(words.iter().copied()))?;
        let deadline = Instant::now() + TIMEOUT;
        while !(self.output_of)(child.id()).contains(until) {
            match child.wait(POLL_INTERVAL) {
                Err(Unreached::TimedOut { .. }) if Instant::now() < deadline => {}
                _ => {
                    return Err(Error::failed(format!(
                        "{} on {node}: {}",
                        words.join(" "),
                        (self.output_of)(child.id())
                    )));
                }
            }
        }
        Ok(child)
    }

    /// Runs a program on the Arm node to completion and returns its output.
    fn run(&self, image: &Path, words: &[&str]) -> Result<String, Error> {
        let child = self.domain.spawn(&SpawnOptions::image(image).on("arm0").args(words.iter().copied()))?;
        let timeout = TIMEOUT + Duration::from_secs(self.options.seconds * FIGURES.len() as u64);
        let exit = child.wait(timeout)?;
        // The last output may arrive after the exit notification.
        let _ = child.wait(POLL_INTERVAL);
        let output_of = (self.output_of)(child.id());
        match exit {
            Exit::Exited { status: 0 } => Ok(output_of),
            _ => Err(Error::failed(format!("{} on arm0: {}", words.join(" "), output_of.trim()))),
        }
    }
}

/// Host side of the network measurements. Its threads run until this program exits; after a drop, their
/// sockets no longer answer.
struct Responder {
    address: SocketAddr,
}

impl Responder {
    fn start(address: Ipv4Addr) -> std::io::Result<Responder> {
        let listener = TcpListener::bind((address, 0))?;
        let address = listener.local_addr()?;
        let datagrams = UdpSocket::bind(address)?;
        std::thread::spawn(move || {
            let mut bytes = [0; 2048];
            while let Ok((length, from)) = datagrams.recv_from(&mut bytes) {
                let _ = datagrams.send_to(&bytes[..length], from);
            }
        });
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // The other end detects a broken connection.
                let _ = respond(stream);
            }
        });
        Ok(Responder { address })
    }
}

fn respond(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let (mut what, mut chunk) = ([0], vec![1; CHUNK_BYTES]);
    stream.read_exact(&mut what)?;
    if what[0] == RECEIVES {
        loop {
            stream.write_all(&chunk)?;
        }
    }
    debug_assert_eq!(what[0], SENDS);
    let mut arrived = 0;
    loop {
        match stream.read(&mut chunk)? {
            0 => return stream.write_all(&u64::to_le_bytes(arrived)),
            length => arrived += length as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_output_is_parsed() {
        let found = figures("figure a_ns 5\nother\nfigure b x\nfigure c 7\n");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("a_ns".to_owned(), 5), ("c".to_owned(), 7)]);
        assert_eq!(Unit::Ns.show(1500), "1.5 us");
        assert_eq!(Unit::BytesPerS.show(12_300_000), "12.3 MB/s");
    }
}

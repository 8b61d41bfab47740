//! The far side of `tombolo bench devices`: measures a disk and a network as a program sees them. It uses no
//! part of Tombolo, so that it measures the emulator's devices and Tombolo's in the same way.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

/// Length of the datagrams in round trips.
pub const DATAGRAM_BYTES: usize = 64;

/// First byte of a connection on which this side sends; the other side then reports the bytes received.
pub const SENDS: u8 = b's';

/// First byte of a connection on which this side receives until it closes.
pub const RECEIVES: u8 = b'r';

/// Length of each write to a stream.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Timeout of a peer's answer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Memory aligned for direct I/O (`O_DIRECT`).
#[repr(C, align(4096))]
struct Aligned<const BYTES: usize>([u8; BYTES]);

const BLOCK_BYTES: usize = 4 << 10;
const LONG_BYTES: usize = 128 << 10;

type Outcome = Result<(), String>;

/// Prints a figure in the format that the near side parses.
fn figure(name: &str, value: u64) {
    println!("figure {name} {value}");
}

fn distribution(name: &str, times_ns: &mut [u64]) {
    times_ns.sort_unstable();
    let at =
        |percent: usize| times_ns.get((times_ns.len() * percent / 100).min(times_ns.len().saturating_sub(1)));
    for (percent, value) in [("p50", at(50)), ("p99", at(99))] {
        figure(&format!("{name}_{percent}_ns"), value.copied().unwrap_or(0));
    }
}

/// Repeats a call for `time` and returns the time of each call.
fn repeat(time: Duration, mut call: impl FnMut() -> std::io::Result<()>) -> Result<Vec<u64>, String> {
    let mut times_ns = Vec::new();
    let start = Instant::now();
    while start.elapsed() < time {
        let begun = Instant::now();
        call().map_err(|error| error.to_string())?;
        times_ns.push(begun.elapsed().as_nanos() as u64);
    }
    Ok(times_ns)
}

/// Returns the bytes per second of calls that transfer `bytes` each.
fn rate(bytes: usize, times_ns: &[u64]) -> u64 {
    let all_ns = times_ns.iter().sum::<u64>().max(1);
    (bytes as u128 * times_ns.len() as u128 * 1_000_000_000 / u128::from(all_ns)) as u64
}

/// Reads and writes a disk for `time` each, bypassing this kernel's page cache.
///
/// # Errors
/// A description of the failed system call.
pub fn disk(path: &str, time: Duration) -> Outcome {
    let open = || {
        let file =
            File::options().read(true).write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path)?;
        let bytes = std::io::Seek::seek(&mut &file, std::io::SeekFrom::End(0))?;
        Ok::<_, std::io::Error>((file, bytes))
    };
    let (file, bytes) = open().map_err(|error| format!("open {path}: {error}"))?;
    let blocks = bytes / BLOCK_BYTES as u64;
    if blocks == 0 {
        return Err(format!("{path} has {bytes} bytes"));
    }
    let mut state = 1_u64;
    let mut somewhere = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 20) % blocks * BLOCK_BYTES as u64
    };
    let mut block = Box::new(Aligned([7; BLOCK_BYTES]));
    let mut reads = repeat(time, || file.read_exact_at(&mut block.0, somewhere()))?;
    distribution("read_4k", &mut reads);
    let mut writes = repeat(time, || file.write_all_at(&block.0, somewhere()))?;
    distribution("write_4k", &mut writes);
    let mut long = Box::new(Aligned([9; LONG_BYTES]));
    let mut at = 0;
    let mut next = || {
        let here = at;
        at = (at + LONG_BYTES as u64) % (bytes - bytes % LONG_BYTES as u64).max(1);
        here
    };
    let reads = repeat(time, || file.read_exact_at(&mut long.0, next()))?;
    figure("read_128k_bytes_per_s", rate(LONG_BYTES, &reads));
    let writes = repeat(time, || file.write_all_at(&long.0, next()))?;
    figure("write_128k_bytes_per_s", rate(LONG_BYTES, &writes));
    Ok(())
}

/// Measures round trips of datagrams and a stream in each direction, for `time` each.
///
/// # Errors
/// A description of the failed system call.
pub fn network(address: &str, time: Duration) -> Outcome {
    measure_network(address, time).map_err(|error| format!("{address}: {error}"))
}

fn measure_network(address: &str, time: Duration) -> std::io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    let (sent, mut got) = ([3; DATAGRAM_BYTES], [0; DATAGRAM_BYTES]);
    let mut lost = 0;
    let mut times_ns = Vec::new();
    let start = Instant::now();
    while start.elapsed() < time {
        let begun = Instant::now();
        socket.send(&sent)?;
        match socket.recv(&mut got) {
            Ok(_) => times_ns.push(begun.elapsed().as_nanos() as u64),
            Err(error) if lost > 5 => return Err(error),
            Err(_) => lost += 1,
        }
    }
    distribution("round_trip", &mut times_ns);
    figure("lost", lost);
    let connect = |what: u8| -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.write_all(&[what])?;
        Ok(stream)
    };
    let mut chunk = vec![5; CHUNK_BYTES];
    let mut stream = connect(SENDS)?;
    let start = Instant::now();
    while start.elapsed() < time {
        stream.write_all(&chunk)?;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut arrived = [0; 8];
    stream.read_exact(&mut arrived)?;
    let per_s = |bytes: u64, taken: Duration| (bytes as f64 / taken.as_secs_f64()) as u64;
    figure("stream_out_bytes_per_s", per_s(u64::from_le_bytes(arrived), start.elapsed()));
    let mut stream = connect(RECEIVES)?;
    let (start, mut bytes) = (Instant::now(), 0);
    while start.elapsed() < time {
        match stream.read(&mut chunk)? {
            0 => break,
            length => bytes += length as u64,
        }
    }
    figure("stream_in_bytes_per_s", per_s(bytes, start.elapsed()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times() {
        assert_eq!(rate(1000, &[500, 500]), 2_000_000_000);
        let times = repeat(Duration::from_millis(1), || Ok(())).unwrap();
        assert!(!times.is_empty());
        distribution("none", &mut []);
    }
}

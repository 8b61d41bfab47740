//! `hub COUNT`: alternatives for coordinating programs, for `tombolo bench hub`: POSIX semaphores and message
//! queues, ZeroMQ and NNG between two processes, Go channels between two goroutines.

mod posix;

use std::fmt::Display;
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Length of a value, in bytes.
const FIFO_BYTES: usize = 64;

/// Capacity of a queue in values, on each side if there are two.
const FIFO_VALUES: usize = 64;

/// Timeout of any operation that is expected to complete.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Number of operations that are timed together.
const BATCH: u64 = 10;

const GO: &str = include_str!("../../go/channels.go");

/// Reason why a peer was not measured.
type Why = String;

fn why(error: impl Display) -> Why {
    error.to_string()
}

/// Creates a row: operation, peer, bytes, and the mean and the median in nanoseconds.
fn row(what: &str, by: &str, bytes: usize, (mean_ns, p50_ns): (f64, f64)) -> Value {
    json!({ "what": what, "where": by, "bytes": bytes, "ns_each": mean_ns, "p50_ns": p50_ns })
}

/// Returns the mean and the median time of `count` calls of a function.
fn times(count: u64, mut once: impl FnMut() -> Result<(), Why>) -> Result<(f64, f64), Why> {
    let begun = Instant::now();
    let (mut batches, mut left) = (Vec::new(), count);
    while left > 0 {
        let (batch, at) = (left.min(BATCH), Instant::now());
        (0..batch).try_for_each(|_| once())?;
        batches.push(at.elapsed().as_nanos() as f64 / batch as f64);
        left -= batch;
    }
    let mean_ns = begun.elapsed().as_nanos() as f64 / count.max(1) as f64;
    batches.sort_by(f64::total_cmp);
    Ok((mean_ns, batches.get(batches.len() / 2).copied().unwrap_or(mean_ns)))
}

/// The other process, killed when dropped.
struct Far(Child);

impl Far {
    fn start(role: &str, name: &str, count: u64) -> Result<Far, Why> {
        let own = std::env::current_exe().map_err(why)?;
        let words = ["hub-far", role, name, &count.to_string()].map(str::to_owned);
        let child = Command::new(own).args(words).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        child.map(Far).map_err(why)
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // On success, it has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures everything, and reports what could not be measured.
pub(crate) fn measure(count: u64) -> Value {
    let name = |what: &str| format!("tombolo-bench-{}-{what}", std::process::id());
    let measured = [
        ("POSIX semaphores", semaphores(&name("semaphore"), count)),
        ("POSIX message queue", queue(&name("queue"), count)),
        ("ZeroMQ", zeromq(&name("zeromq"), count)),
        ("NNG", nng(&name("nng"), count)),
        ("Go channels", go(&name("go"), count)),
    ];
    let (mut rows, mut absent) = (Vec::new(), Vec::new());
    for (peer, result) in measured {
        match result {
            Ok(measured) => rows.extend(measured),
            Err(why) => absent.push(json!({ "peer": peer, "why": why })),
        }
    }
    json!({ "rows": rows, "absent": absent })
}

/// Runs the other process in the given role.
pub(crate) fn far(role: &str, name: &str, count: u64) -> Result<(), Why> {
    match role {
        "semaphore" => answer_semaphores(name, count).map_err(why),
        "queue" => {
            let queue = posix::Queue::open(name).map_err(why)?;
            (0..=count).try_for_each(|_| queue.send(&[7; FIFO_BYTES])).map_err(why)
        }
        "zeromq" => zeromq_far(name, count),
        "nng" => nng_far(name, count),
        _ => Err(format!("unknown role '{role}'")),
    }
}

fn semaphores(name: &str, count: u64) -> Result<Vec<Value>, Why> {
    let (a, _name_a) = posix::Semaphore::create(&format!("{name}-a")).map_err(why)?;
    let (b, _name_b) = posix::Semaphore::create(&format!("{name}-b")).map_err(why)?;
    let pair = times(count, || a.post().and_then(|()| a.wait()).map_err(why))?;
    let _far = Far::start("semaphore", name, count)?;
    let once = || a.post().and_then(|()| b.wait()).map_err(why);
    once()?;
    let exchanged = times(count, once)?;
    let by = "POSIX semaphores";
    Ok(vec![row("semaphore pair, one task", by, 0, pair), row("semaphore loop", by, 0, exchanged)])
}

fn answer_semaphores(name: &str, count: u64) -> io::Result<()> {
    let (a, b) =
        (posix::Semaphore::open(&format!("{name}-a"))?, posix::Semaphore::open(&format!("{name}-b"))?);
    (0..=count).try_for_each(|_| a.wait().and_then(|()| b.post()))
}

fn queue(name: &str, count: u64) -> Result<Vec<Value>, Why> {
    let (queue, _name) = posix::Queue::create(name).map_err(why)?;
    let _far = Far::start("queue", name, count)?;
    let mut value = [0; FIFO_BYTES];
    queue.receive(&mut value).map_err(why)?;
    let time = times(count, || queue.receive(&mut value).map_err(why))?;
    Ok(vec![row(&format!("fifo of {}", posix::QUEUE_VALUES), "POSIX message queue", FIFO_BYTES, time)])
}

#[cfg(feature = "zeromq")]
fn zeromq_socket(kind: zmq::SocketType) -> Result<zmq::Socket, Why> {
    let socket = zmq::Context::new().socket(kind).map_err(why)?;
    let (limit, timeout) = (FIFO_VALUES as i32, TIMEOUT.as_millis() as i32);
    let options = [
        socket.set_rcvhwm(limit),
        socket.set_sndhwm(limit),
        socket.set_rcvtimeo(timeout),
        socket.set_sndtimeo(timeout),
        // Sent data arrives even if the sender exits.
        socket.set_linger(timeout),
    ];
    options.into_iter().collect::<Result<(), _>>().map_err(why)?;
    Ok(socket)
}

#[cfg(feature = "zeromq")]
fn zeromq(name: &str, count: u64) -> Result<Vec<Value>, Why> {
    let socket = zeromq_socket(zmq::PULL)?;
    // An abstract socket, so that no file is left behind.
    socket.bind(&format!("ipc://@{name}")).map_err(why)?;
    let _far = Far::start("zeromq", name, count)?;
    let mut value = [0; FIFO_BYTES];
    let mut once = || socket.recv_into(&mut value, 0).map(drop).map_err(why);
    once()?;
    Ok(vec![row("fifo of 64", "ZeroMQ, push and pull", FIFO_BYTES, times(count, once)?)])
}

#[cfg(feature = "zeromq")]
fn zeromq_far(name: &str, count: u64) -> Result<(), Why> {
    let socket = zeromq_socket(zmq::PUSH)?;
    socket.connect(&format!("ipc://@{name}")).map_err(why)?;
    (0..=count).try_for_each(|_| socket.send(&[7; FIFO_BYTES][..], 0)).map_err(why)
}

#[cfg(feature = "nng")]
fn nng_socket(protocol: nng::Protocol) -> Result<nng::Socket, Why> {
    use nng::options::{Options, RecvBufferSize, RecvTimeout, SendBufferSize, SendTimeout};
    let socket = nng::Socket::new(protocol).map_err(why)?;
    let limit = FIFO_VALUES as i32;
    // Each socket has only one of the two directions, and rejects the options of the other.
    let _ = socket.set_opt::<RecvBufferSize>(limit);
    let _ = socket.set_opt::<SendBufferSize>(limit);
    socket.set_opt::<RecvTimeout>(Some(TIMEOUT)).map_err(why)?;
    socket.set_opt::<SendTimeout>(Some(TIMEOUT)).map_err(why)?;
    Ok(socket)
}

#[cfg(feature = "nng")]
fn nng_address(name: &str) -> (std::path::PathBuf, String) {
    let path = std::env::temp_dir().join(name);
    let address = format!("ipc://{}", path.display());
    (path, address)
}

#[cfg(feature = "nng")]
fn nng(name: &str, count: u64) -> Result<Vec<Value>, Why> {
    let (path, address) = nng_address(name);
    let measured = (|| {
        let socket = nng_socket(nng::Protocol::Pull0)?;
        socket.listen(&address).map_err(why)?;
        let _far = Far::start("nng", name, count)?;
        let once = || socket.recv().map(drop).map_err(why);
        once()?;
        Ok(vec![row("fifo of 64", "NNG, push and pull", FIFO_BYTES, times(count, once)?)])
    })();
    // The library may have removed the file itself.
    let _ = std::fs::remove_file(path);
    measured
}

#[cfg(feature = "nng")]
fn nng_far(name: &str, count: u64) -> Result<(), Why> {
    let socket = nng_socket(nng::Protocol::Push0)?;
    socket.dial(&nng_address(name).1).map_err(why)?;
    (0..=count).try_for_each(|_| socket.send(&[7_u8; FIFO_BYTES][..]).map_err(|(_, error)| why(error)))?;
    // Closing drops data that has not been received; the near side kills this process when it has everything.
    std::thread::sleep(TIMEOUT);
    Ok(())
}

#[cfg(not(feature = "zeromq"))]
fn zeromq(_name: &str, _count: u64) -> Result<Vec<Value>, Why> {
    Err("this program was built without it".into())
}

#[cfg(not(feature = "zeromq"))]
fn zeromq_far(name: &str, count: u64) -> Result<(), Why> {
    zeromq(name, count).map(drop)
}

#[cfg(not(feature = "nng"))]
fn nng(_name: &str, _count: u64) -> Result<Vec<Value>, Why> {
    Err("this program was built without it: it needs CMake (`make bench-peers`)".into())
}

#[cfg(not(feature = "nng"))]
fn nng_far(name: &str, count: u64) -> Result<(), Why> {
    nng(name, count).map(drop)
}

fn go(name: &str, count: u64) -> Result<Vec<Value>, Why> {
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder).map_err(why)?;
    let source = folder.join("channels.go");
    let run = || {
        std::fs::write(&source, GO)?;
        // Go's compiler spins, and would monopolize the processors under this program's real-time priority.
        let words = ["60", "chrt", "--other", "0", "go", "run"];
        let mut command = Command::new("timeout");
        command.args(words).arg(&source).arg(count.to_string()).stderr(Stdio::null()).output()
    };
    let output = run();
    let _ = std::fs::remove_dir_all(&folder);
    let output = output.map_err(|error| format!("cannot run `go`: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let rows = text.lines().filter_map(|line| {
        let words: Vec<f64> = line.split(' ').map_while(|word| word.parse().ok()).collect();
        let [capacity, mean_ns, p50_ns] = words[..] else { return None };
        let what = if capacity == 0.0 { "port" } else { "fifo of 64" };
        Some(row(what, "goroutines, Go's channel", FIFO_BYTES, (mean_ns, p50_ns)))
    });
    let rows: Vec<Value> = rows.collect();
    if rows.is_empty() { Err(format!("`go run` ended with {}", output.status)) } else { Ok(rows) }
}

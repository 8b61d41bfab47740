//! MPI over TCP to a virtual machine with a network in place of a window, for comparison in `tombolo bench
//! mpi`.
//!
//! It runs in a separate network namespace (`unshare --net`), in which it creates a tap device, the fastest
//! network that QEMU provides to a machine without help of the kernel. The namespace reaches no other host,
//! and disappears when its last process exits. Rank 0 is a process of this host, rank 1 the only program of
//! the machine.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use tombolo::Isa;
use tombolo_machine::paths::cache_dir;
use tombolo_machine::vm::{Architecture, Files, Qemu, VmKit, initramfs};
use tombolo_mpi_launch::pmi::{Event, MemberId, Server, process_mapping};
use tombolo_platform::process::Process;

use super::programs;
use crate::suite::Error;

/// Addresses of the host and the machine in their network.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const MACHINE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const DEVICE: &str = "tap0";

/// Timeout until the machine's rank connects.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Grace period for rank 0 to exit after the machine.
const GRACE: Duration = Duration::from_millis(500);

/// Script that the machine runs as process 1.
const INIT: &str = "\
#!/tombolo/busybox sh
B=/tombolo/busybox
$B mount -t proc proc /proc
$B mount -t sysfs sysfs /sys
$B mount -t devtmpfs devtmpfs /dev
$B mkdir -p /dev/shm
$B mount -t tmpfs tmpfs /dev/shm
while read module; do $B insmod /tombolo/modules/$module; done </tombolo/modules/order
# MPI is to take the one address that both sides know.
echo 1 2>/dev/null >/proc/sys/net/ipv6/conf/all/disable_ipv6
$B ifconfig lo 127.0.0.1 up
for word in $($B cat /proc/cmdline); do
    case $word in
    tombolo.address=*) $B ifconfig eth0 ${word#*=} netmask 255.255.255.0 up ;;
    tombolo.pmi=*) export PMI_PORT=${word#*=} PMI_ID=1 ;;
    tombolo.set=*) export \"${word#*=}\" ;;
    tombolo.measure=*) arguments=$(echo ${word#*=} | $B tr , ' ') ;;
    esac
done
# In the first seconds of a machine libfabric's tcp finds an address and cannot listen at it (EBADF); why is not known.
$B sleep 5
/measure $arguments || echo \"measure ended with $?\"
$B poweroff -f
";

/// Parameters of the machine and the program.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the kit folder.
    pub kit: PathBuf,
    /// Processor model of the machine.
    pub cpu: String,
    /// Memory of the machine, in MiB.
    pub memory_mib: u32,
    /// Arguments of the program `measure`.
    pub arguments: Vec<String>,
}

/// Runs both ranks and returns the exit status of rank 0.
///
/// # Errors
/// The network or the machine cannot be created, or a rank does not connect; the error has the machine's
/// output.
pub fn run(options: &Options) -> Result<u8, Error> {
    make_network()?;
    let listener = TcpListener::bind((HOST, 0)).map_err(Error::system("listen for the ranks"))?;
    let port = listener.local_addr().map_err(Error::system("listen for the ranks"))?;
    let (console, console_end) = UnixStream::pair().map_err(Error::system("make two sockets"))?;
    let mut machine = start_machine(options, port, console_end)?;
    let console_lines = keep_last_lines(console);
    let mut rank = Process::start(&mut first_rank(options, port), &[])
        .map_err(|error| Error::failed(format!("rank 0 does not start: {error}")))?;
    let outcome = serve_pmi(&listener, &mut rank, &mut machine.process);
    drop(machine);
    rank.destroy();
    outcome.map_err(|why| {
        let console_text = console_lines.lock().map(|lines| lines.join("; ")).unwrap_or_default();
        Error::failed(if console_text.is_empty() {
            why
        } else {
            format!("{why}; the machine said: {console_text}")
        })
    })
}

/// Virtual machine, killed when dropped.
struct Machine {
    process: Process,
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.process.destroy();
    }
}

/// Makes the device and gives this side of it an address.
fn make_network() -> Result<(), Error> {
    let address = format!("{HOST}/24");
    let steps: [&[&str]; 5] = [
        &["link", "set", "lo", "up"],
        &["tuntap", "add", "dev", DEVICE, "mode", "tap"],
        // Disables IPv6 addresses, as in the machine.
        &["link", "set", DEVICE, "addrgenmode", "none"],
        &["address", "add", &address, "dev", DEVICE],
        &["link", "set", DEVICE, "up"],
    ];
    for step in steps {
        let output = Command::new("ip").args(step).stdin(Stdio::null()).output();
        let output = output.map_err(Error::system("run `ip` (Debian: iproute2)"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::failed(format!("no network of its own: ip {}: {why}", step.join(" "))));
        }
    }
    Ok(())
}

fn start_machine(options: &Options, pmi: SocketAddr, console: UnixStream) -> Result<Machine, Error> {
    let say = |error: &dyn std::fmt::Display| Error::failed(format!("no virtual machine: {error}"));
    let parts = VmKit::locate(&options.kit, Isa::Aarch64).map_err(|error| say(&error))?;
    let folders = [options.kit.join("mpi/aarch64"), programs(&options.kit).join("vm")];
    let files = Files::gather(&folders).map_err(|error| say(&error))?;
    let archive = initramfs::pack_program(&parts, INIT.as_bytes(), &files);
    let image = archive.and_then(|archive| initramfs::store(&archive, &cache_dir()?));
    let image = image.map_err(|error| say(&error))?;
    let architecture = &Architecture::AARCH64;
    let mut qemu = Qemu::new(architecture, architecture.program, &parts.kernel, image)
        .cpu(Some(options.cpu.clone()))
        .memory_mib(options.memory_mib)
        .parameter("tombolo.address", MACHINE.to_string())
        .parameter("tombolo.pmi", pmi.to_string())
        .parameter("tombolo.measure", options.arguments.join(","));
    for (name, value) in SETTINGS.into_iter().chain([("FI_TCP_IFACE", "eth0")]) {
        qemu = qemu.parameter("tombolo.set", format!("{name}={value}"));
    }
    let launch = qemu.launch_with_tap(console.into(), DEVICE).map_err(|error| say(&error))?;
    let mut command = Command::new(&launch.program);
    command.args(&launch.arguments).stdin(Stdio::null()).stdout(Stdio::null());
    let inherited: Vec<_> = launch.inherited.iter().map(AsFd::as_fd).collect();
    let process = Process::start(&mut command, &inherited).map_err(|error| say(&error))?;
    Ok(Machine { process })
}

/// Settings for MPICH over only libfabric's TCP, on both sides.
const SETTINGS: [(&str, &str); 4] = [
    ("MPIR_CVAR_CH4_NETMOD", "ofi"),
    ("MPIR_CVAR_NOLOCAL", "1"),
    ("FI_PROVIDER", "tcp"),
    ("LD_LIBRARY_PATH", "/opt/tombolo/mpi/lib"),
];

fn first_rank(options: &Options, pmi: SocketAddr) -> Command {
    let mut command = Command::new(programs(&options.kit).join("measure.mpich"));
    command.args(&options.arguments).stdin(Stdio::null()).envs(SETTINGS).env_remove("LD_LIBRARY_PATH");
    command.env("PMI_PORT", pmi.to_string()).env("PMI_ID", "0").env("FI_TCP_IFACE", DEVICE);
    command
}

/// Keeps the last lines of the machine's console, for error messages.
fn keep_last_lines(console: UnixStream) -> std::sync::Arc<std::sync::Mutex<Vec<String>>> {
    let kept = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let lines = kept.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(console).lines().map_while(Result::ok) {
            let Ok(mut lines) = lines.lock() else { return };
            lines.push(line.trim().to_owned());
            let surplus = lines.len().saturating_sub(5);
            lines.drain(..surplus);
        }
    });
    kept
}

/// Line from a rank, or its hang-up.
struct RankLine {
    member: MemberId,
    bytes: Vec<u8>,
}

/// Acts as the process manager (PMI) of two ranks until rank 0 exits. Returns its exit status.
fn serve_pmi(listener: &TcpListener, rank: &mut Process, machine: &mut Process) -> Result<u8, String> {
    listener.set_nonblocking(true).map_err(|error| error.to_string())?;
    let mut server = Server::new("network");
    let mapping = process_mapping(&[0, 1]).unwrap_or_default();
    let (_, members) = server.add_world(&[0, 0], mapping, &[]);
    let (sender, rank_lines) = mpsc::channel();
    let mut streams: Vec<Option<TcpStream>> = vec![None, None];
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(ended) = rank.try_reap().map_err(|error| error.to_string())? {
            for stream in streams.iter().flatten() {
                // The rank may have closed the connection already.
                let _ = stream.shutdown(Shutdown::Both);
            }
            return match ended {
                tombolo_platform::process::ExitOutcome::Exited(status) => Ok(status),
                tombolo_platform::process::ExitOutcome::Signalled(signal) => {
                    Err(format!("rank 0 was ended by signal {signal}"))
                }
            };
        }
        if machine.try_reap().map_err(|error| error.to_string())?.is_some() {
            // Rank 0 then exits as well, unless it waits for rank 1.
            std::thread::sleep(GRACE);
            if matches!(rank.try_reap(), Ok(None)) {
                return Err("the machine has ended before rank 0".into());
            }
            continue;
        }
        if streams.iter().any(Option::is_none) {
            if Instant::now() >= until {
                return Err(format!("a rank has not asked for anything within {} s", TIMEOUT.as_secs()));
            }
            if let Ok((stream, _)) = listener.accept() {
                register_rank(stream, &members, &mut streams, &sender)?;
            }
        }
        serve(&mut server, &rank_lines, &mut streams)?;
    }
}

/// Identifies the rank that has connected, sends it the settings that it would otherwise find in its
/// environment, and listens to it from then on.
fn register_rank(
    stream: TcpStream,
    members: &[MemberId],
    streams: &mut [Option<TcpStream>],
    sender: &Sender<RankLine>,
) -> Result<(), String> {
    let text = |error: std::io::Error| format!("a rank cannot be heard: {error}");
    stream.set_nonblocking(false).map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    stream.set_read_timeout(Some(TIMEOUT)).map_err(text)?;
    let mut reader = BufReader::new(stream.try_clone().map_err(text)?);
    let mut line = String::new();
    reader.read_line(&mut line).map_err(text)?;
    let rank = parse_rank(&line).filter(|rank| streams.get(*rank).is_some_and(Option::is_none));
    let rank = rank.ok_or_else(|| format!("a rank began with {line:?}"))?;
    let greeting = format!("cmd=initack rc=0\ncmd=set size=2\ncmd=set rank={rank}\ncmd=set debug=0\n");
    (&stream).write_all(greeting.as_bytes()).map_err(text)?;
    stream.set_read_timeout(None).map_err(text)?;
    streams[rank] = Some(stream);
    let (member, sender) = (members[rank], sender.clone());
    std::thread::spawn(move || {
        loop {
            let Ok(bytes) = reader.fill_buf().map(<[u8]>::to_vec) else { return };
            reader.consume(bytes.len());
            if bytes.is_empty() || sender.send(RankLine { member, bytes }).is_err() {
                return;
            }
        }
    });
    Ok(())
}

/// Parses the rank in `cmd=initack pmiid=1`.
fn parse_rank(line: &str) -> Option<usize> {
    let rest = line.trim().strip_prefix("cmd=initack")?;
    rest.split_whitespace().find_map(|word| word.strip_prefix("pmiid="))?.parse().ok()
}

/// Serves pending requests of ranks, waiting a short time for the next one.
fn serve(
    server: &mut Server,
    rank_lines: &Receiver<RankLine>,
    streams: &mut [Option<TcpStream>],
) -> Result<(), String> {
    let Ok(first) = rank_lines.recv_timeout(Duration::from_millis(2)) else { return Ok(()) };
    for RankLine { member, bytes } in std::iter::once(first).chain(rank_lines.try_iter()) {
        server.receive(member, &bytes);
    }
    while let Some(event) = server.next_event() {
        match event {
            Event::Send(member, bytes) => {
                if let Some(mut stream) = streams.get(member.0).and_then(Option::as_ref) {
                    stream
                        .write_all(&bytes)
                        .map_err(|error| format!("a rank cannot be answered: {error}"))?;
                }
            }
            Event::Initialized(_) => {}
            Event::Violation(_, why) => return Err(format!("a rank cannot go on: {why}")),
            Event::Abort(_, code, why) => {
                return Err(format!("a rank gave up with {code}: {}", why.unwrap_or_default()));
            }
            Event::Spawn(..) => {
                return Err("a rank asked for more ranks, which this benchmark does not start".into());
            }
            Event::Publish { .. } | Event::Unpublish { .. } | Event::Lookup { .. } => {
                return Err("a rank used names of services, which this benchmark does not keep".into());
            }
        }
    }
    Ok(())
}

/// Returns the reason why this host cannot run such a machine, or `None` if it can.
#[must_use]
pub fn missing_requirement(kit: &Path) -> Option<String> {
    let there = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    };
    if let Some((program, package)) =
        [("ip", "iproute2"), ("unshare", "util-linux")].into_iter().find(|(program, _)| !there(program))
    {
        return Some(format!("`{program}` is not on PATH (Debian: {package})"));
    }
    let machine = programs(kit).join("vm/measure");
    (!machine.exists()).then(|| format!("{} is missing: `make bench-mpi` makes it", machine.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_is_parsed_from_its_greeting() {
        assert_eq!(parse_rank("cmd=initack pmiid=1\n"), Some(1));
        for wrong in ["", "cmd=init pmiid=1", "cmd=initack", "cmd=initack pmiid=x"] {
            assert_eq!(parse_rank(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ranks_meet_through_the_process_manager() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address");
        let far = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(port).expect("connected");
            stream.write_all(b"cmd=initack pmiid=1\n").expect("written");
            let mut lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
            let greeting: Vec<String> = lines.by_ref().take(4).map(|line| line.expect("a line")).collect();
            stream.write_all(b"cmd=init pmi_version=1 pmi_subversion=1\n").expect("written");
            (greeting, lines.next().expect("an answer").expect("a line"))
        });
        let start = |seconds: &str| Process::start(Command::new("sleep").arg(seconds), &[]).expect("started");
        let (mut rank, mut machine) = (start("1"), start("60"));
        assert_eq!(serve_pmi(&listener, &mut rank, &mut machine), Ok(0));
        machine.destroy();
        let (greeting, answer) = far.join().expect("no panic");
        assert_eq!(greeting[2], "cmd=set rank=1");
        assert!(answer.starts_with("cmd=response_to_init") && answer.contains("rc=0"), "{answer}");
    }
}

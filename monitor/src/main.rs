//! `tombolod`: started by `tombolo up`, by the first program on a plain host, or as process 1 of a virtual
//! machine.

mod join_words;

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};

use tombolo_control::RELAY_PROGRAM;
use tombolo_machine::{Kit, Machine};
use tombolo_platform::epoll::Epoll;
use tombolo_platform::guest::init;
use tombolo_platform::process::{self, ExitOutcome};
use tombolod::agent::Emulator;
use tombolod::join;
use tombolod::node_monitor;
use tombolod::root::{Root, RootError};
use tombolod::supervisor;

const USAGE: &str = "tombolod: the monitor of a Tombolo machine; `tombolo up` starts it.

usage: tombolod up FILE        bring up the machine of FILE, and serve it
       tombolod local          serve this host alone, until it has been unused for 10 s
       tombolod join WINDOW [OPTION...]
       tombolod join --file FILE --node NODE [OPTION...]
                               make this Linux a node of a machine whose root offers WINDOW:
                               file:PATH[+0xOFFSET], pci:ADDRESS/BAR, ivshmem, dax:PATH, uio:PATH/MAP or
                               memory:0xADDRESS. Options:
                               --node NODE, --size-mib N, --key FILE, --silence SECONDS, --timeout SECONDS,
                               --once, --force,
                               --coherence coherent|flush, --cache-seed N, --evict-one-in N
       tombolod agent FD EMULATOR [OPTION...]
                               be the monitor of a node whose programs run under EMULATOR with these
                               options; FD is the socket to the root monitor
       tombolod relay          join channels between nodes without a link; monitors start it";

fn main() -> ExitCode {
    if init::is_init() {
        return run_init();
    }
    // Images of programs are tens of megabytes, and a monitor runs for weeks.
    process::unmap_freed_large_buffers();
    let arguments: Result<Vec<String>, _> =
        std::env::args_os().skip(1).map(std::ffi::OsString::into_string).collect();
    let arguments = match arguments {
        Ok(arguments) => arguments,
        Err(word) => {
            eprintln!("tombolod: argument {} is not valid UTF-8", word.display());
            return ExitCode::from(2);
        }
    };
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["local"] | ["up", _] => supervise(&words),
        ["serve", ledger, "local"] => serve(ledger, Ok(Machine::local()), true),
        ["serve", ledger, "up", file] => {
            // A later restart of a node must find the file's folders regardless of the working directory.
            let file = std::path::absolute(file).map_err(|error| error.to_string());
            let machine = file.and_then(|file| Machine::open(&file).map_err(|error| error.to_string()));
            serve(ledger, machine, false)
        }
        ["guest"] => {
            tombolod::allow_many_descriptors();
            to_exit_code(node_monitor::run_guest())
        }
        ["join", options @ ..] => join(options),
        ["agent", number, emulator, options @ ..] => run_agent(number, emulator, options),
        [RELAY_PROGRAM] => run_relay(),
        ["--help" | "-h" | "help"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        ["--version" | "-V"] => {
            println!("tombolod {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Supervises the root monitor: starts it, and cleans up after it has ended.
fn supervise(words: &[&str]) -> ExitCode {
    let started = supervisor::start(words.iter().copied());
    let ended = started.and_then(|root| {
        // Only the root reports, so that its reader sees the end of the stream when it ends.
        detach_from_terminal();
        root.wait()
    });
    match ended {
        Ok(ExitOutcome::Exited(status)) => ExitCode::from(status),
        Ok(ExitOutcome::Signalled(_)) => ExitCode::FAILURE,
        Err(error) => {
            report(format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Serves a machine. Reports progress on standard output, and closes it once the machine is up.
fn serve(ledger: &str, machine: Result<Machine, String>, idle_exit: bool) -> ExitCode {
    tombolod::allow_many_descriptors();
    let outcome = machine.and_then(|machine| {
        let kit = Kit::locate();
        let supervisor = supervisor::watch(ledger).map_err(|error| error.to_string())?;
        let mut root =
            Root::new(machine, kit, supervisor, idle_exit).map_err(|error: RootError| error.to_string())?;
        let end = Epoll::watch_hang_up(std::io::stdout()).map_err(|error| error.to_string())?;
        root.boot(report, end).map_err(|error| error.to_string())?;
        Ok(root)
    });
    match outcome {
        // The command that requested the machine may have been killed meanwhile.
        Ok(_) if !report("ready".to_owned()) => ExitCode::FAILURE,
        Ok(mut root) => {
            detach_from_terminal();
            match root.serve() {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        Err(why) => {
            report(format!("error: {}", why.replace('\n', "\u{1}")));
            ExitCode::FAILURE
        }
    }
}

/// Reports to the process that started this one. Returns false if it is gone.
fn report(line: String) -> bool {
    writeln!(std::io::stdout(), "{line}").is_ok()
}

fn detach_from_terminal() {
    let _ = std::env::set_current_dir("/");
    if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

fn run_agent(number: &str, emulator: &str, options: &[&str]) -> ExitCode {
    let socket = number
        .parse()
        .map_err(|_| format!("invalid descriptor number {number}"))
        .and_then(|number| process::take_inherited_fd(number).map_err(|error| error.to_string()));
    let options = options.iter().map(|option| (*option).to_owned()).collect();
    let emulator = Emulator { program: emulator.into(), options };
    tombolod::allow_many_descriptors();
    match socket {
        Ok(socket) => to_exit_code(node_monitor::run_user(socket, Some(emulator))),
        Err(why) => {
            eprintln!("tombolod: {why}");
            ExitCode::from(2)
        }
    }
}

/// Runs a relay: a domain of the machine that forwards channels until its monitor is gone.
fn run_relay() -> ExitCode {
    tombolod::allow_many_descriptors();
    match tombolo::relay::serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tombolod: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Makes this Linux system a node.
fn join(words: &[&str]) -> ExitCode {
    let options = match join_words::join_options(words) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("tombolod: {why}");
            return ExitCode::from(2);
        }
    };
    tombolod::allow_many_descriptors();
    let report = |line: String| eprintln!("tombolod: {line}");
    match options.and_then(|options| join::run(&options, report)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tombolod: {error}");
            if error.is_of_given_file() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn to_exit_code(result: Result<(), node_monitor::NodeMonitorError>) -> ExitCode {
    match result {
        // If the root is gone there is no reader for a message.
        Ok(()) | Err(node_monitor::NodeMonitorError::RootClosed) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tombolod: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs process 1 of a virtual machine: prepares the system, supervises the monitor and a shell on the
/// console, and powers off when the monitor ends.
fn run_init() -> ExitCode {
    if let Err(error) = prepare_and_supervise() {
        eprintln!("tombolod: {error}");
    }
    eprintln!("tombolod: {}", init::power_off());
    ExitCode::FAILURE
}

fn prepare_and_supervise() -> Result<(), tombolo_platform::OsError> {
    init::mount_file_systems()?;
    // A user's kernel has built-in drivers, and modules only if the user provided some.
    for folder in [init::MODULES, init::DISK_MODULES].map(Path::new).into_iter().filter(|it| it.exists()) {
        init::load_modules(folder)?;
    }
    let parameters = init::Parameters::read()?;
    init::set_host_name(parameters.get("tombolo.node").unwrap_or("node"))?;
    if let Some(disk) = parameters.get(init::ROOT) {
        init::switch_root(disk)?;
    }
    let mut monitor = Command::new(init::PROGRAM);
    monitor.arg("guest").env("PATH", init::PATH);
    init::supervise(&mut monitor, Some(init::console_shell)).map(|_| ())
}

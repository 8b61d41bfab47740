//! `tombolod`: started by `tombolo up`, by the first program on a plain host, or as process 1 of a virtual machine.

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};

use tombolo_machine::{Kit, Machine};
use tombolo_platform::epoll::Epoll;
use tombolo_platform::guest::init;
use tombolo_platform::process::{self, Ended};
use tombolod::agent::Emulator;
use tombolod::keeper;
use tombolod::leaf;
use tombolod::root::{Root, RootError};

const USAGE: &str = "tombolod: the monitor of a Tombolo machine; `tombolo up` starts it.

usage: tombolod up FILE        bring up the machine that FILE describes, and serve it
       tombolod local          serve this host alone, until nobody has used it for 10 s
       tombolod agent FD EMULATOR [OPTION...]
                               be the monitor of a node whose programs run under EMULATOR with these
                               options; FD is the line to the root";

fn main() -> ExitCode {
    if init::is_init() {
        return be_init();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["local"] | ["up", _] => keep(&words),
        ["serve", ledger, "local"] => serve(ledger, Ok(Machine::local()), true),
        ["serve", ledger, "up", file] => {
            // A node that starts again finds what the file names wherever this process is by then.
            let file = std::path::absolute(file).map_err(|error| error.to_string());
            let machine = file.and_then(|file| Machine::open(&file).map_err(|error| error.to_string()));
            serve(ledger, machine, false)
        }
        ["guest"] => {
            tombolod::allow_many_descriptors();
            finish(leaf::run_guest())
        }
        ["agent", number, emulator, options @ ..] => be_agent(number, emulator, options),
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

/// Starts the root monitor, and waits in the background until it has ended and nothing is left of it.
fn keep(words: &[&str]) -> ExitCode {
    let started = keeper::start(words.iter().copied());
    let ended = started.and_then(|root| {
        // It alone says how things go: whoever listens should hear the end when it ends.
        let_go_of_terminal();
        root.wait()
    });
    match ended {
        Ok(Ended::Exited(status)) => ExitCode::from(status),
        Ok(Ended::Signalled(_)) => ExitCode::FAILURE,
        Err(error) => {
            say(format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Serves a machine: says on standard output how it goes, then lets go of it.
fn serve(ledger: &str, machine: Result<Machine, String>, idle_exit: bool) -> ExitCode {
    tombolod::allow_many_descriptors();
    let outcome = machine.and_then(|machine| {
        let kit = Kit::locate();
        let keeper = keeper::watch(ledger).map_err(|error| error.to_string())?;
        let mut root =
            Root::new(machine, kit, keeper, idle_exit).map_err(|error: RootError| error.to_string())?;
        let end = Epoll::of_end(std::io::stdout()).map_err(|error| error.to_string())?;
        root.boot(say, end).map_err(|error| error.to_string())?;
        Ok(root)
    });
    match outcome {
        // Whoever asked for the machine may be gone by now, killed: then nobody knows that it is up.
        Ok(_) if !say("ready".to_owned()) => ExitCode::FAILURE,
        Ok(mut root) => {
            let_go_of_terminal();
            match root.serve() {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            }
        }
        Err(why) => {
            say(format!("error: {}", why.replace('\n', "\u{1}")));
            ExitCode::FAILURE
        }
    }
}

/// Tells whoever started this process; false when nobody listens any more.
fn say(line: String) -> bool {
    writeln!(std::io::stdout(), "{line}").is_ok()
}

fn let_go_of_terminal() {
    let _ = std::env::set_current_dir("/");
    if let Ok(null) = std::fs::File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

fn be_agent(number: &str, emulator: &str, options: &[&str]) -> ExitCode {
    let socket = number
        .parse()
        .map_err(|_| format!("{number} is no descriptor"))
        .and_then(|number| process::inherited(number).map_err(|error| error.to_string()));
    let options = options.iter().map(|option| (*option).to_owned()).collect();
    let emulator = Emulator { program: emulator.into(), options };
    tombolod::allow_many_descriptors();
    match socket {
        Ok(socket) => finish(leaf::run_user(socket, Some(emulator))),
        Err(why) => {
            eprintln!("tombolod: {why}");
            ExitCode::from(2)
        }
    }
}

fn finish(result: Result<(), leaf::LeafError>) -> ExitCode {
    match result {
        // When the root is gone there is nobody to tell, and nothing to be said.
        Ok(()) | Err(leaf::LeafError::RootGone) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tombolod: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Process 1 of a virtual machine: prepares it, keeps the monitor and a shell on the console running, and turns the
/// machine off when the monitor ends.
fn be_init() -> ExitCode {
    if let Err(error) = prepare_and_supervise() {
        eprintln!("tombolod: {error}");
    }
    eprintln!("tombolod: {}", init::power_off());
    ExitCode::FAILURE
}

fn prepare_and_supervise() -> Result<(), tombolo_platform::OsError> {
    init::mount_file_systems()?;
    init::load_modules(Path::new(init::MODULES))?;
    let parameters = init::Parameters::read()?;
    init::set_host_name(parameters.get("tombolo.node").unwrap_or("node"))?;
    let mut monitor = Command::new("/init");
    monitor.arg("guest").env("PATH", init::PATH);
    init::supervise(&mut monitor, Some(init::console_shell)).map(|_| ())
}

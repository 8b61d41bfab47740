//! A machine under test.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::command::{Finished, Running, eventually};
use crate::{kit, leftovers};

/// Text of a machine file without the machine's name, which differs in each test.
#[derive(Clone, Debug)]
pub struct MachineFile {
    nodes: String,
}

impl MachineFile {
    /// Describes a machine that consists of the host alone.
    #[must_use]
    pub fn host() -> MachineFile {
        MachineFile { nodes: "[[node]]\nname = \"host\"\nkind = \"host\"\n".to_owned() }
    }

    /// Adds an Arm virtual machine with further settings.
    #[must_use]
    pub fn with_vm(self, name: &str, settings: &str) -> MachineFile {
        self.with_vm_of(name, 256, settings)
    }

    /// Adds an Arm virtual machine with `memory_mib` MiB of private memory.
    #[must_use]
    pub fn with_vm_of(mut self, name: &str, memory_mib: u32, settings: &str) -> MachineFile {
        let head = format!("kind = \"vm\"\nisa = \"aarch64\"\nmemory_mib = {memory_mib}");
        let _ = writeln!(self.nodes, "[[node]]\nname = \"{name}\"\n{head}\n{settings}");
        self
    }

    /// Adds a node that runs foreign programs on this kernel.
    #[must_use]
    pub fn with_user(self, name: &str, isa: &str) -> MachineFile {
        self.with_node(name, "user", isa, "")
    }

    /// Adds a node of a kind and an instruction set, with further settings.
    #[must_use]
    pub fn with_node(mut self, name: &str, kind: &str, isa: &str, settings: &str) -> MachineFile {
        let head = format!("kind = \"{kind}\"\nisa = \"{isa}\"");
        let _ = writeln!(self.nodes, "[[node]]\nname = \"{name}\"\n{head}\n{settings}");
        self
    }

    /// Adds a setting to the node that was added last.
    #[must_use]
    pub fn with_setting(mut self, setting: &str) -> MachineFile {
        let _ = writeln!(self.nodes, "{setting}");
        self
    }

    /// Adds a board without an operating system, with further settings.
    #[must_use]
    pub fn with_board(self, name: &str, isa: &str, settings: &str) -> MachineFile {
        self.with_node(name, "bare", isa, settings)
    }

    /// Describes the default machine of tests across instruction sets, which comes up in a moment: this host,
    /// a board behind a window, and a node of big-endian programs on this kernel.
    #[must_use]
    pub fn host_board_and_user() -> MachineFile {
        MachineFile::host().with_board("bare0", "aarch64", "").with_user("s390x-user", "s390x")
    }

    /// Sets a limit of the machine.
    #[must_use]
    pub fn with_limit(mut self, key: &str, value: u32) -> MachineFile {
        let _ = writeln!(self.nodes, "[limits]\n{key} = {value}");
        self
    }

    /// Adds a window that several nodes share, with further settings.
    #[must_use]
    pub fn with_window(mut self, name: &str, nodes: &[&str], settings: &str) -> MachineFile {
        let _ = writeln!(self.nodes, "[[window]]\nname = \"{name}\"\nnodes = {nodes:?}\n{settings}");
        self
    }

    /// Links two nodes by a byte stream.
    #[must_use]
    pub fn with_socket(mut self, a: &str, b: &str) -> MachineFile {
        let _ = writeln!(self.nodes, "[[link]]\nbetween = [\"{a}\", \"{b}\"]\ntransport = \"socket\"");
        self
    }
}

/// A machine with a unique name and its own folders. Dropping it takes the machine down and asserts that
/// nothing is left; after a failed test it prints the machine's state first.
pub struct Machine {
    name: String,
    folder: PathBuf,
    file: PathBuf,
    /// Whether the machine should be up.
    up: bool,
}

impl Machine {
    /// Chooses a unique name and writes the machine file; nothing runs yet.
    #[must_use]
    pub fn new(file: &MachineFile) -> Machine {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("e2e-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(&name);
        std::fs::create_dir_all(folder.join("temporary")).expect("a folder for the machine");
        let path = folder.join("machine.toml");
        std::fs::write(&path, format!("name = \"{name}\"\n{}", file.nodes)).expect("a machine file");
        Machine { name, folder, file: path, up: false }
    }

    /// Writes the machine file and brings the machine up.
    #[must_use]
    pub fn up(file: &MachineFile) -> Machine {
        let mut machine = Machine::new(file);
        machine.bring_up();
        machine
    }

    /// Brings the machine up.
    pub fn bring_up(&mut self) {
        self.bring_up_with(&[]);
    }

    /// Brings the machine up with additional environment variables for its monitors.
    pub fn bring_up_with(&mut self, variables: &[(&str, &Path)]) {
        self.up = true;
        let mut command = self.command();
        command.arg("up").arg(&self.file).envs(variables.iter().copied());
        Running::start(&mut command).finish().ok();
    }

    /// Returns the machine's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of its machine file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns a folder for the test's own files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the `tombolo` command with this machine selected. All processes that it starts carry the
    /// machine's mark in their environment.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(kit::tombolo());
        let temporary = self.folder.join("temporary");
        command
            .current_dir(&self.folder)
            .env("TOMBOLO_MACHINE", &self.name)
            .env(leftovers::MARK, &self.name)
            .env("TMPDIR", &temporary)
            .env("XDG_RUNTIME_DIR", &temporary);
        for variable in ["TOMBOLO_MONITOR", "TOMBOLO_KIT", "TOMBOLO_TOMBOLOD"] {
            command.env_remove(variable);
        }
        command
    }

    /// Starts `tombolo` with these arguments.
    #[must_use]
    pub fn start<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, words: I) -> Running {
        Running::start(self.command().args(words))
    }

    /// Runs `tombolo` with these arguments and no input until it ends.
    #[must_use]
    pub fn tombolo<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, words: I) -> Finished {
        self.start(words).finish()
    }

    /// Returns the arguments of a `tombolo run` of the test program on these nodes.
    fn actor_words<'a>(on: &'a str, words: &[&'a str]) -> Vec<String> {
        // The host alone needs no image for foreign nodes.
        let host_only = on.split(',').all(|node| node == "host" || node.starts_with("host:"));
        let image = if host_only { kit::host_actor() } else { kit::actor_image() };
        let mut all = vec!["run".to_owned(), "--on".to_owned(), on.to_owned(), image.display().to_string()];
        all.extend(words.iter().map(|word| (*word).to_owned()));
        all
    }

    /// Starts the test program on these nodes.
    #[must_use]
    pub fn start_actor(&self, on: &str, words: &[&str]) -> Running {
        self.start(Self::actor_words(on, words))
    }

    /// Runs the test program on these nodes until it ends.
    #[must_use]
    pub fn actor(&self, on: &str, words: &[&str]) -> Finished {
        self.tombolo(Self::actor_words(on, words))
    }

    /// Runs `tombolo WORDS --json` and returns the parsed output.
    #[track_caller]
    #[must_use]
    pub fn json(&self, words: &[&str]) -> Value {
        let text = self.tombolo(words.iter().copied().chain(["--json"])).ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}\n{text}"))
    }

    /// Returns a node's entry in `tombolo status`.
    #[must_use]
    pub fn node(&self, node: &str) -> Value {
        let status = self.json(&["status"]);
        let nodes = status["machines"][0]["nodes"].as_array().expect("nodes").clone();
        nodes.into_iter().find(|found| found["name"] == node).expect("the node is listed")
    }

    /// Returns the ids and process ids of the domains on a node that the machine started.
    #[must_use]
    pub fn domains_on(&self, node: &str) -> Vec<(String, i32)> {
        let listing = self.json(&["ps"]);
        let domains = listing["domains"].as_array().expect("domains").iter();
        domains
            .filter(|domain| domain["node"] == node && !domain["parent"].is_null())
            .map(|domain| {
                let id = domain["id"].as_str().expect("an id").to_owned();
                (id, domain["pid"].as_i64().expect("a process id") as i32)
            })
            .collect()
    }

    /// Returns the process id of a node on this host; for `host`, that of the root monitor.
    #[must_use]
    pub fn pid_of(&self, node: &str) -> i32 {
        self.node(node)["pid"].as_i64().expect("a process id") as i32
    }

    /// Returns the machine's living processes whose command line contains `part`.
    #[must_use]
    pub fn processes(&self, part: &str) -> Vec<i32> {
        let all = leftovers::processes(&self.name);
        all.into_iter().filter(|process| process.command_line.contains(part)).map(|found| found.pid).collect()
    }

    /// Kills a process of the machine with SIGKILL.
    ///
    /// # Panics
    /// When `pid` does not belong to the machine: a test must not kill other processes.
    pub fn kill(&self, pid: i32) {
        assert!(self.kill_if_there(pid), "process {pid} does not belong to machine {}", self.name);
    }

    /// Like [`kill`](Self::kill), but returns false if the process has already ended.
    pub fn kill_if_there(&self, pid: i32) -> bool {
        let ours = leftovers::processes(&self.name).iter().any(|process| process.pid == pid);
        if ours {
            let _ = kill_process(Pid::from_raw(pid).expect("not 0"), Signal::KILL);
        }
        ours
    }

    /// Returns the number of open descriptors of a process, not counting files in `/proc`.
    #[must_use]
    pub fn open_descriptors(&self, pid: i32) -> usize {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("a process of ours").flatten();
        // A monitor reads process statistics from `/proc` once a second and may open such a file at any time.
        let is_meter = |target: &Path| target.starts_with("/proc");
        entries
            .filter(|entry| !std::fs::read_link(entry.path()).is_ok_and(|target| is_meter(&target)))
            .count()
    }

    /// Returns the resident memory of a process in KiB.
    #[must_use]
    pub fn memory_kib(&self, pid: i32) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process of ours");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// Asserts that no process, socket or temporary file of the machine is left.
    #[track_caller]
    pub fn assert_gone(&self) {
        let gone = leftovers::wait_until_gone(&self.name, &self.folder.join("temporary"));
        assert_eq!(gone, Ok(()));
    }

    /// Asserts that the machine ended without `down` and left nothing behind.
    #[track_caller]
    pub fn has_ended(mut self) {
        self.up = false;
        self.assert_gone();
    }

    /// Takes the machine down and asserts that nothing is left.
    #[track_caller]
    pub fn down(mut self) {
        self.up = false;
        self.tombolo(["down"]).ok();
        self.assert_gone();
    }

    /// Prints the state of the machine after a failed test.
    fn describe(&self) {
        eprintln!("--- machine {} of the failed test:", self.name);
        for words in [&["status"][..], &["ps"], &["names"]] {
            eprintln!("{}", self.tombolo(words.iter().copied()));
        }
        let file = std::fs::read_to_string(&self.file).unwrap_or_default();
        let nodes = file.split("[[node]]").filter(|node| node.contains("\"vm\""));
        for name in nodes.filter_map(|node| node.split('"').nth(1)) {
            eprintln!("{}", self.tombolo(["console", name, "--no-input", "--for", "1"]));
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        if self.up {
            if failed {
                self.describe();
            }
            let _ = self.tombolo(["down"]);
        }
        let mut left = Ok(());
        if failed {
            // Leftover processes must not disturb later tests.
            let killed = eventually(|| {
                let all = leftovers::processes(&self.name);
                all.iter().for_each(|process| {
                    let _ = Pid::from_raw(process.pid).map(|pid| kill_process(pid, Signal::KILL));
                });
                all.is_empty()
            });
            eprintln!("--- machine {} is {}", self.name, if killed { "cleared" } else { "still there" });
        } else {
            left = leftovers::wait_until_gone(&self.name, &self.folder.join("temporary"));
        }
        let _ = std::fs::remove_dir_all(&self.folder);
        assert_eq!(left, Ok(()), "after the test");
    }
}

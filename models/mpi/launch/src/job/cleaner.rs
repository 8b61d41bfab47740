//! Helper process that removes MPICH's shared-memory files if `mpirun` is killed before it can do so.
//!
//! `mpirun` starts it and sends it, over a pipe, each world and the virtual machines that have ranks. Before
//! a normal exit `mpirun` sends a final line; end of file without that line means that `mpirun` was killed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use tombolo::Domain;

use super::leftovers::{WorldFiles, clean_host, clean_nodes};

const WORLD: &str = "world";
const NODE: &str = "node";
const DONE: &str = "done";

/// Pauses between removals. The monitor kills the ranks of a dead `mpirun`, but a rank that had just started
/// may create its file after the first removal.
const RETRY_DELAYS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(2)];

/// Handle of `mpirun` on the helper process.
#[derive(Debug)]
pub struct Cleaner {
    process: Child,
    input: ChildStdin,
}

impl Cleaner {
    /// Starts `command`, which must call [`clean_after`] on its standard input. The process gets its own
    /// process group, so a signal to the group of `mpirun` does not reach it.
    ///
    /// # Errors
    /// The error of the system if the process cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Cleaner> {
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.process_group(0).current_dir("/").spawn()?;
        let input = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Cleaner { process, input })
    }

    /// Registers a world and the virtual machines that run its ranks.
    pub(super) fn register_world<'a>(
        &mut self,
        world: WorldFiles,
        nodes: impl IntoIterator<Item = &'a str>,
    ) -> io::Result<()> {
        let mut lines = format!("{WORLD} {world}\n");
        for node in nodes {
            lines += &format!("{NODE} {node}\n");
        }
        self.input.write_all(lines.as_bytes())
    }

    /// Stops the process: nothing is left to remove.
    pub(super) fn stop(mut self) -> io::Result<()> {
        writeln!(self.input, "{DONE}")?;
        drop(self.input);
        self.process.wait().map(drop)
    }
}

/// Worlds and nodes received from `mpirun`.
#[derive(Default, PartialEq, Eq, Debug)]
struct CleanupList {
    worlds: BTreeSet<WorldFiles>,
    nodes: BTreeSet<String>,
}

/// Reads the pipe to its end. Returns what to remove, or `None` if `mpirun` removed everything itself.
fn read_cleanup_list(input: impl BufRead) -> Option<CleanupList> {
    let mut cleanup = CleanupList::default();
    for line in input.lines().map_while(Result::ok) {
        match line.split_once(' ') {
            Some((WORLD, world)) => cleanup.worlds.extend(WorldFiles::parse(world)),
            Some((NODE, node)) => drop(cleanup.nodes.insert(node.to_owned())),
            _ if line == DONE => return None,
            _ => {}
        }
    }
    Some(cleanup)
}

/// Waits until the `mpirun` that writes to `input` ends, then removes the files of its worlds if it did not.
/// Calls `attach` to reach the machine if ranks ran in virtual machines.
pub fn clean_after(input: impl BufRead, attach: impl FnOnce() -> Option<Domain>) {
    let Some(cleanup) = read_cleanup_list(input) else { return };
    for pause in RETRY_DELAYS {
        std::thread::sleep(pause);
        // A later round retries what fails now; there is no one to report the error to.
        let _ = clean_host(&cleanup.worlds);
    }
    if cleanup.nodes.is_empty() {
        return;
    }
    let Some(domain) = attach() else { return };
    let Ok(nodes) = domain.nodes() else { return };
    let of_job = nodes.iter().filter(|node| node.up && cleanup.nodes.contains(&node.name));
    let files: BTreeMap<_, _> =
        of_job.enumerate().map(|(index, node)| (index, (node, cleanup.worlds.clone()))).collect();
    clean_nodes(&domain, files, &|_| {});
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_input_without_done_removes_everything() {
        let world = WorldFiles::of("tombolo-0.1.329-0");
        let said = format!("world {world}\nnode arm0\nworld nonsense\nnode arm1\n");
        let cleanup = read_cleanup_list(said.as_bytes()).expect("it was not dismissed");
        assert_eq!(cleanup.worlds, BTreeSet::from([world]));
        assert_eq!(cleanup.nodes, ["arm0", "arm1"].map(str::to_owned).into());
        assert_eq!(read_cleanup_list(format!("{said}done\n").as_bytes()), None);
        assert_eq!(read_cleanup_list("".as_bytes()), Some(CleanupList::default()));
    }

    #[test]
    fn cleaner_reads_its_pipe_and_stops() {
        let folder = std::env::temp_dir().join(format!("tombolo-cleaner-{}", std::process::id()));
        let mut cleaner = Cleaner::start(Command::new("tee").arg(&folder)).expect("tee");
        cleaner.register_world(WorldFiles::of("x"), ["arm0"]).expect("it listens");
        cleaner.stop().expect("it ends");
        let cleanup = std::fs::read_to_string(&folder).expect("what it was told");
        assert_eq!(cleanup, format!("world {}\nnode arm0\ndone\n", WorldFiles::of("x")));
        std::fs::remove_file(&folder).expect("it is ours");
    }
}

//! Detection of processes, sockets and files that a machine left behind.

use std::path::Path;

use crate::command::eventually;

/// Environment variable that marks every process of a test, down to the grandchildren of its domains.
pub const MARK: &str = "TOMBOLO_E2E";

/// A process that carries the mark of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marked {
    /// Process id.
    pub pid: i32,
    /// Command line, with words separated by spaces.
    pub command_line: String,
}

/// Returns all living processes that carry the mark.
#[must_use]
pub fn processes(mark: &str) -> Vec<Marked> {
    let wanted = format!("{MARK}={mark}");
    let has_mark = |environment: &[u8]| environment.split(|byte| *byte == 0).any(|v| v == wanted.as_bytes());
    let entries = std::fs::read_dir("/proc").expect("/proc is there");
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            // Unreadable for other users' processes and for those that just ended; zombies have an empty
            // environment.
            let environment = std::fs::read(entry.path().join("environ")).ok()?;
            let words = std::fs::read(entry.path().join("cmdline")).ok()?;
            let command_line = String::from_utf8_lossy(&words).replace('\0', " ").trim_end().to_owned();
            has_mark(&environment).then_some(Marked { pid, command_line })
        })
        .collect()
}

/// Returns the names of the sockets that belong to machine `name`.
#[must_use]
pub fn sockets(name: &str) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/unix").expect("the kernel lists its sockets");
    let ours = |path: &str| {
        path.starts_with("@tombolo/") && path.split('/').nth(2).is_some_and(|machine| machine == name)
    };
    table
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .filter(|path| ours(path))
        .map(str::to_owned)
        .collect()
}

/// Returns the project's files in shared folders such as `/dev/shm`, and all files in `own`, the folder to
/// which the environment directs temporary files.
#[must_use]
pub fn files(own: &Path) -> Vec<String> {
    let names = |folder: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path().display().to_string()).collect()
    };
    let mut found = names(own);
    found.extend(names(Path::new("/dev/shm")).into_iter().filter(|path| path.contains("tombolo")));
    found
}

/// Waits until nothing of machine `name` is left.
///
/// # Errors
/// Returns a description of the leftovers at the deadline.
pub fn wait_until_gone(name: &str, own: &Path) -> Result<(), String> {
    let gone = eventually(|| processes(name).is_empty() && sockets(name).is_empty() && files(own).is_empty());
    if gone {
        return Ok(());
    }
    Err(format!(
        "left of machine {name}: processes {:#?}, sockets {:?}, files {:?}",
        processes(name),
        sockets(name),
        files(own)
    ))
}

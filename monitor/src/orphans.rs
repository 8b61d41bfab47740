//! Processes that outlive the one that started them.
//!
//! A domain's process group dies with it, but a process may leave its group and session. Every monitor is the
//! subreaper of the processes that it starts, so such an orphan becomes its child, and can be found, killed
//! and reaped.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use tombolo_platform::Errno;

use tombolo_monitor_core::agent::ProcessInfo;

/// Returns all children of this process. Their numbers are not reused until they are reaped.
pub(crate) fn children() -> Vec<ProcessInfo> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let process_info = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (parent, group) = parent_and_group(&stat)?;
        (parent == own).then_some(ProcessInfo { pid, group })
    };
    listed_children().unwrap_or_else(all_processes).into_iter().filter_map(process_info).collect()
}

/// Returns the children of all threads of this process from the kernel's lists; `None` if the kernel has no
/// such lists.
///
/// A list can miss a child if another is reaped while it is read. Here only the reading thread reaps, and new
/// children are appended.
fn listed_children() -> Option<Vec<i32>> {
    let mut found = Vec::new();
    for thread in std::fs::read_dir("/proc/self/task").ok()? {
        let list = std::fs::read_to_string(thread.ok()?.path().join("children")).ok()?;
        found.extend(list.split_ascii_whitespace().filter_map(|number| number.parse::<i32>().ok()));
    }
    Some(found)
}

/// Returns all processes: on a busy machine many times the number of children.
fn all_processes() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Parses a line of `/proc/PID/stat`. The name in it, between parentheses, may contain any bytes.
fn parent_and_group(stat: &str) -> Option<(i32, i32)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Returns a variable of a process's initial environment; an orphan has that of its domain.
pub(crate) fn variable_of(pid: i32, name: &str) -> Option<String> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let wanted = format!("{name}=");
    let value =
        environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(wanted.as_bytes()))?;
    String::from_utf8(value.to_vec()).ok()
}

/// Kills a child.
pub(crate) fn kill(child: ProcessInfo) {
    if let Some(pid) = Pid::from_raw(child.pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Kills every child of this process, including those reparented meanwhile, and waits until all are gone.
pub(crate) fn kill_all() {
    loop {
        let all = children();
        if all.is_empty() {
            return;
        }
        all.iter().copied().for_each(kill);
        for child in all {
            while matches!(waitpid(Pid::from_raw(child.pid), WaitOptions::empty()), Err(Errno::INTR)) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_line_with_any_program_name_is_parsed() {
        let stat = "17 (a) 1 (b) c) S 5 17 17 0 -1 4194560 103 0 0 0";
        assert_eq!(parent_and_group(stat), Some((5, 17)));
        assert_eq!(parent_and_group("17 (a"), None);
        assert_eq!(parent_and_group("17 (a) S x y"), None);
    }

    #[test]
    fn children_are_found_with_their_group_and_environment() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .env("TOMBOLO_DOMAIN", "1.2.3")
            .spawn()
            .expect("sleep starts");
        let pid = Pid::from_child(&child).as_raw_nonzero().get();
        let found = children().into_iter().find(|found| found.pid == pid).expect("it is ours");
        assert_eq!(found.group, rustix::process::getpgrp().as_raw_nonzero().get());
        // Test both methods if the kernel supports them.
        assert!(listed_children().is_none_or(|listed| listed.contains(&pid)));
        assert!(all_processes().contains(&pid));
        // During exec the process has no environment yet.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while variable_of(pid, "TOMBOLO_DOMAIN").is_none() && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(variable_of(pid, "TOMBOLO_DOMAIN").as_deref(), Some("1.2.3"));
        assert_eq!(variable_of(pid, "TOMBOLO_DOMAI"), None);
        kill(found);
        child.wait().expect("our own");
        assert!(!children().contains(&found));
    }
}

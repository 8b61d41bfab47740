//! Starts processes that cannot outlive their parent, and detects their end reliably.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::error::{Context, OsError};
use crate::thread::{Scheduling, set_cpus_after_fork, set_policy_after_fork};

/// Added to a process's memory share, in thousandths, when the OOM killer selects a process (`oom_score_adj`
/// in proc(5)).
const VICTIM_OOM_SCORE: i32 = 500;
const OOM_SCORE_PATH: &str = "/proc/self/oom_score_adj";

/// Outcome of a process that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExitOutcome {
    /// Exited with this status.
    Exited(u8),
    /// Killed by this signal.
    Signalled(u8),
}

/// A child process. It dies with its parent, leads its own process group, and is watched by a descriptor that
/// identifies the process, unlike a reusable number.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pidfd: OwnedFd,
}

impl Process {
    /// Starts `command`. The child keeps `inherit` open under the same numbers.
    ///
    /// The child is killed when the *thread* that called this ends (Linux defines it so); call it from one
    /// that lives as long as the parent should.
    ///
    /// # Errors
    /// An error of the kernel: no such program, not executable, out of processes.
    pub fn start(command: &mut Command, inherit: &[BorrowedFd<'_>]) -> Result<Process, OsError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let numbers: Vec<_> = inherit.iter().map(AsRawFd::as_raw_fd).collect();
        let parent = rustix::process::getpid();
        let prepare = move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died before the line above took effect.
            if rustix::process::getppid() != Some(parent) {
                return Err(Errno::SRCH.into());
            }
            for number in &numbers {
                // SAFETY: the caller keeps these descriptors borrowed until `spawn` returns, and the child
                // has copies of all of them until it executes the program.
                let fd = unsafe { BorrowedFd::borrow_raw(*number) };
                rustix::io::fcntl_setfd(fd, FdFlags::empty())?;
            }
            Ok(())
        };
        command.process_group(0);
        // SAFETY: between fork and exec the closure only makes system calls; it neither allocates nor locks.
        unsafe { command.pre_exec(prepare) };
        let child = command.spawn().context(&format!("start {program}"))?;
        let pid = Pid::from_child(&child);
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).context("watch a process")?;
        Ok(Process { child, pidfd })
    }

    /// Returns the process id, for display and for matching credentials, not for signals.
    #[must_use]
    pub fn pid(&self) -> i32 {
        Pid::from_child(&self.child).as_raw_nonzero().get()
    }

    /// Returns a descriptor that is readable once the process has ended.
    #[must_use]
    pub fn ended_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Returns the child, for its standard streams that were requested as pipes.
    pub fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Sends a signal to the whole process group. Does nothing once the process has ended.
    pub fn signal(&self, signal: Signal) {
        // Not reaped yet, so its id, which is also the group's, cannot have been reused.
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), signal);
    }

    /// Returns how the process ended, if it has, and then kills the rest of its process group.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn try_reap(&mut self) -> Result<Option<ExitOutcome>, OsError> {
        let ready = crate::event::poll(
            &[(self.pidfd.as_fd(), crate::event::Interest::Read)],
            Some(crate::time::Deadline::after(std::time::Duration::ZERO)),
        )?;
        if !ready[0].any() {
            return Ok(None);
        }
        self.signal(Signal::KILL);
        let status = self.child.try_wait().context("reap a process")?;
        Ok(status.map(|status| match (status.code(), status.signal()) {
            (Some(code), _) => ExitOutcome::Exited(code as u8),
            (None, signal) => ExitOutcome::Signalled(signal.unwrap_or(0) as u8),
        }))
    }

    /// Kills the process and its group, and waits for its end.
    pub fn destroy(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Restricts `command` to `cpus`, if any are given, and sets its scheduling, if given. Its children inherit
/// both.
///
/// Starting the command fails with `EINVAL` if the node has none of these processors, with `EPERM` if this
/// user may not use that priority.
pub fn set_placement(command: &mut Command, cpus: Vec<usize>, scheduling: Option<Scheduling>) {
    let prepare = move || {
        if !cpus.is_empty() {
            set_cpus_after_fork(&cpus)?;
        }
        if let Some(scheduling) = scheduling {
            set_policy_after_fork(scheduling.into())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls; it neither allocates nor locks.
    unsafe { command.pre_exec(prepare) };
}

/// Makes the OOM killer select `command` and its descendants before others, so that the supervising process
/// survives to report it. Has no effect if the kernel does not permit it.
pub fn prefer_as_oom_victim(command: &mut Command) {
    let inherited =
        std::fs::read_to_string(OOM_SCORE_PATH).ok().and_then(|score| score.trim().parse::<i32>().ok());
    if inherited.is_none_or(|score| score >= VICTIM_OOM_SCORE) {
        return;
    }
    let score = VICTIM_OOM_SCORE.to_string().into_bytes();
    let prepare = move || {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        if let Ok(file) = rustix::fs::open(OOM_SCORE_PATH, flags, Mode::empty()) {
            let _ = rustix::io::write(file, &score);
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes system calls; it neither allocates nor locks.
    unsafe { command.pre_exec(prepare) };
}

/// Takes ownership of a descriptor inherited under the number `number`, and sets close-on-exec, so that child
/// processes do not inherit it.
///
/// # Errors
/// `EBADF` if there is no such descriptor.
pub fn take_inherited_fd(number: i32) -> Result<OwnedFd, OsError> {
    if number < 0 {
        return Err(OsError::new("use an inherited descriptor", Errno::BADF));
    }
    // SAFETY: the number is only used to mark and duplicate the descriptor, which fails if there is none;
    // nothing is closed.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_setfd(borrowed, FdFlags::CLOEXEC).context("use an inherited descriptor")?;
    rustix::io::fcntl_dupfd_cloexec(borrowed, 3).context("use an inherited descriptor")
}

/// Watches a process that is not a child; the descriptor becomes readable when it has ended.
///
/// # Errors
/// `ESRCH` if it does not exist.
pub fn open_pidfd(pid: i32) -> Result<OwnedFd, OsError> {
    let pid = Pid::from_raw(pid).ok_or(OsError::new("watch a process", Errno::SRCH))?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).context("watch a process")
}

/// Blocks SIGTERM and SIGINT for this process and returns a descriptor that becomes, and stays, readable when
/// one arrives. Programs that it starts handle the signals as usual. Call before other threads are started.
///
/// # Errors
/// An error of the kernel.
pub fn termination_signalfd() -> Result<OwnedFd, OsError> {
    let operation = "take signals as a descriptor";
    // SAFETY: `sigset_t` is a plain set of bits, for which all zeros is a value.
    let mut set: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: `set` may be written, and lives until the calls return; the signal numbers are valid; the old
    // mask is not asked for.
    let number = unsafe {
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::sigaddset(&raw mut set, libc::SIGINT);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, core::ptr::null_mut());
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    if number < 0 {
        return Err(OsError::from_io(operation, &std::io::Error::last_os_error()));
    }
    // SAFETY: the kernel has just created this descriptor, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Fills `bytes` with random numbers of the kernel.
///
/// # Errors
/// An error of the kernel, whose generator may not be ready just after boot.
pub fn fill_random(bytes: &mut [u8]) -> Result<(), OsError> {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(OsError::new("read random numbers", errno)),
        }
    }
    Ok(())
}

/// Returns the effective user id of this process.
#[must_use]
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Makes this process the reaper of its orphaned descendants, so that none escapes.
pub fn become_subreaper() {
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Makes the allocator return memory of large buffers to the kernel as soon as it is freed, for long-running
/// programs that occasionally read large files. Otherwise glibc raises its threshold after such a buffer and
/// retains up to twice as much.
pub fn unmap_freed_large_buffers() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE_BYTES: libc::c_int = 1 << 20;
        // SAFETY: it sets numbers of the allocator, under the allocator's lock.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Interest, poll};
    use crate::time::Deadline;
    use std::time::Duration;

    fn wait(process: &mut Process) -> ExitOutcome {
        let soon = Some(Deadline::after(Duration::from_secs(20)));
        assert!(poll(&[(process.ended_fd(), Interest::Read)], soon).unwrap()[0].any());
        process.try_reap().unwrap().unwrap()
    }

    #[test]
    fn exit_status_and_signal_are_distinguished() {
        let mut exits = Process::start(Command::new("sh").args(["-c", "exit 7"]), &[]).unwrap();
        assert_eq!(wait(&mut exits), ExitOutcome::Exited(7));
        let mut killed = Process::start(Command::new("sleep").arg("60"), &[]).unwrap();
        assert_eq!(killed.try_reap().unwrap(), None);
        killed.signal(Signal::KILL);
        assert_eq!(wait(&mut killed), ExitOutcome::Signalled(9));
    }

    #[test]
    fn descendants_die_with_the_process() {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let script = format!("sleep 60 >&{0} & exit 0", writer.as_raw_fd());
        let mut process =
            Process::start(Command::new("sh").args(["-c", &script]), &[writer.as_fd()]).unwrap();
        drop(writer);
        wait(&mut process);
        let soon = Some(Deadline::after(Duration::from_secs(20)));
        assert!(poll(&[(reader.as_fd(), Interest::Read)], soon).unwrap()[0].hung_up);
    }

    #[test]
    fn placed_program_runs_there_or_fails_to_start() {
        let cpus = crate::thread::cpus().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "grep -q \"^Cpus_allowed_list:[[:space:]]*$0$\" /proc/self/status"]);
        command.arg(cpus[0].to_string());
        set_placement(&mut command, vec![cpus[0]], Some(Scheduling::Fair));
        assert_eq!(wait(&mut Process::start(&mut command, &[]).unwrap()), ExitOutcome::Exited(0));
        set_placement(&mut command, vec![usize::MAX], None);
        assert_eq!(Process::start(&mut command, &[]).unwrap_err().errno, Errno::INVAL);
    }

    #[test]
    fn oom_preference_is_set_in_the_kernel() {
        let mut command = Command::new("sh");
        prefer_as_oom_victim(
            command.args(["-c", "read score < /proc/self/oom_score_adj; exit $((score / 4))"]),
        );
        let own: i32 = std::fs::read_to_string(OOM_SCORE_PATH).unwrap().trim().parse().unwrap();
        let quarter = u8::try_from(own.max(VICTIM_OOM_SCORE) / 4).unwrap();
        assert_eq!(wait(&mut Process::start(&mut command, &[]).unwrap()), ExitOutcome::Exited(quarter));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Process::start(&mut Command::new("/nonexistent/program"), &[]).unwrap_err();
        assert_eq!(error.errno, Errno::NOENT);
        assert!(error.to_string().contains("/nonexistent/program"));
    }
}

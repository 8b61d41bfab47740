//! Processes of the domains that this agent started, and their pipes.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tombolo_base::DomainId;
use tombolo_control::{CpuPlacement, Exit, OWN_PROGRAM, ProgramSpec, StartOrder, streams};
use tombolo_machine::image::ARGV0_VARIABLE;
use tombolo_platform::error::Context;
use tombolo_platform::event::Interest;
use tombolo_platform::meters::SYSFS_VARIABLE;
use tombolo_platform::process::{ExitOutcome, Process};
use tombolo_platform::socket::{self, SocketKind};
use tombolo_platform::thread::{self, Scheduling};
use tombolo_platform::{Errno, OsError, Signal, process};

use super::orphans::DOMAIN_VARIABLE;
use super::poller::Registered;
use super::{Agent, EventSource, Token};
use tombolo_monitor_core::agent::PIECE_BYTES;

/// Variables for the monitor itself, removed from the environment of domains.
const MONITOR_VARIABLES: [&str; 5] =
    ["TOMBOLO_MONITOR", "TOMBOLO_MACHINE", "TOMBOLO_KIT", "TOMBOLO_TOMBOLOD", SYSFS_VARIABLE];

/// Descriptors of a process's streams, by number.
type Streams = Vec<(u8, OwnedFd)>;

/// A process, watched by the descriptor that reports its end.
#[derive(Debug)]
struct ProcessHandle(Process);

impl AsFd for ProcessHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.ended_fd()
    }
}

/// Process and pipes of a domain that this agent started.
#[derive(Debug)]
pub(super) struct ChildProcess {
    process: Registered<ProcessHandle>,
    /// Open output streams, by number.
    outputs: Vec<(u8, Registered<OwnedFd>)>,
    /// Open input streams, by number. Includes the side stream, with a separate descriptor.
    inputs: Vec<(u8, Registered<OwnedFd>)>,
}

impl ChildProcess {
    pub(super) fn destroy(&mut self) {
        self.process.inner_mut().0.destroy();
    }

    fn input(&self, number: u8) -> Option<&Registered<OwnedFd>> {
        self.inputs.iter().find(|(of, _)| *of == number).map(|(_, input)| input)
    }
}

impl Agent {
    pub(super) fn start(&mut self, order: StartOrder) {
        let domain = order.domain;
        if order.build == OWN_PROGRAM {
            self.keep_own_program();
        }
        match self.try_start(order) {
            Ok(child) => {
                let inputs: Vec<u8> = child.inputs.iter().map(|(number, _)| *number).collect();
                self.core.child_started(domain, child.process.inner().0.pid(), &inputs);
                self.children.insert(domain, child);
                self.changed.insert(EventSource::Child(domain));
            }
            Err(error) => self.core.child_start_failed(domain, error.to_string()),
        }
    }

    fn try_start(&self, order: StartOrder) -> Result<ChildProcess, OsError> {
        let StartOrder { domain, build, program: mut spec } = order;
        let argv0 = take_argv0(&mut spec);
        let file = self.program(&build)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut command = match &self.emulator {
            None => {
                let mut command = Command::new(&path);
                command.arg0(&argv0);
                command
            }
            Some(emulator) => {
                let mut command = Command::new(&emulator.program);
                command.args(&emulator.options).args(["-0", &argv0, &path]);
                command
            }
        };
        command.args(&spec.arguments);
        MONITOR_VARIABLES.iter().for_each(|name| {
            command.env_remove(name);
        });
        command.envs(spec.environment).env("TOMBOLO_MONITOR", &self.socket_name);
        command.env(DOMAIN_VARIABLE, domain.to_string());
        let directory = Path::new(&spec.directory);
        command.current_dir(if directory.is_dir() { directory } else { Path::new("/") });
        command.stdin(if spec.stdin { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        apply_placement(&mut command, &spec.cpus)?;
        process::prefer_as_oom_victim(&mut command);
        // The emulator opens the program itself after exec, so it must inherit the file.
        let mut inherit: Vec<BorrowedFd<'_>> = self.emulator.iter().map(|_| file.as_fd()).collect();
        let side = spec.side.as_ref().map(|_| socket::pair(SocketKind::Stream)).transpose()?;
        if let (Some((_, theirs)), Some(variable)) = (&side, &spec.side) {
            // The program reads it like a pipe.
            rustix::io::ioctl_fionbio(theirs, false).context("make a side stream")?;
            command.env(variable, theirs.as_raw_fd().to_string());
            inherit.push(theirs.as_fd());
        }
        let mut process = Process::start(&mut command, &inherit)
            .map_err(|error| explain_start_error(error, &spec.cpus, self.emulator.is_some()))?;
        let child = process.child_mut();
        let outputs = [
            child.stdout.take().map(|pipe| (streams::OUTPUT, OwnedFd::from(pipe))),
            child.stderr.take().map(|pipe| (streams::ERROR, OwnedFd::from(pipe))),
        ];
        let mut outputs: Streams = outputs.into_iter().flatten().collect();
        let input = child.stdin.take().map(|pipe| (streams::INPUT, OwnedFd::from(pipe)));
        let mut inputs: Streams = input.into_iter().collect();
        if let Some((ours, _)) = side {
            inputs.push((
                streams::SIDE,
                ours.try_clone()
                    .map_err(|error| OsError::from_io("feed a program by its side stream", &error))?,
            ));
            outputs.push((streams::SIDE, ours));
        }
        for (_, pipe) in &outputs {
            rustix::io::ioctl_fionbio(pipe, true).context("read a program's output")?;
        }
        for (_, pipe) in &inputs {
            rustix::io::ioctl_fionbio(pipe, true).context("feed a program")?;
        }
        self.register_child(domain, process, (outputs, inputs))
    }

    /// Waits for the end of a process; for its streams only after [`arm_child`](Self::arm_child).
    fn register_child(
        &self,
        domain: DomainId,
        process: Process,
        (outputs, inputs): (Streams, Streams),
    ) -> Result<ChildProcess, OsError> {
        let registered = |pipes: Streams, token: fn(DomainId, u8) -> Token| {
            let registered = pipes
                .into_iter()
                .map(|(number, pipe)| Ok((number, self.poller.add(pipe, token(domain, number), None)?)));
            registered.collect::<Result<Vec<_>, OsError>>()
        };
        Ok(ChildProcess {
            process: self.poller.add(
                ProcessHandle(process),
                Token::ChildEnd(domain),
                Some(Interest::Read),
            )?,
            outputs: registered(outputs, Token::ChildOutput)?,
            inputs: registered(inputs, Token::ChildInput)?,
        })
    }

    /// Updates the events to wait for on a child's streams.
    pub(super) fn arm_child(&mut self, domain: DomainId) {
        let Some(child) = self.children.get_mut(&domain) else { return };
        let (mut failed_outputs, mut failed_inputs) = (Vec::new(), Vec::new());
        for (number, pipe) in &mut child.outputs {
            let wanted = self.core.may_read_output(domain, *number).then_some(Interest::Read);
            if pipe.set_interest(wanted).is_err() {
                failed_outputs.push(*number);
            }
        }
        for (number, input) in &mut child.inputs {
            let wanted = self.core.next_input(domain, *number).map(|_| Interest::Write);
            if input.set_interest(wanted).is_err() {
                failed_inputs.push(*number);
            }
        }
        // Streams that cannot be waited for count as ended.
        failed_outputs.into_iter().for_each(|number| self.close_output(domain, number));
        failed_inputs.into_iter().for_each(|number| self.core.input_closed(domain, number));
    }

    pub(super) fn signal(&mut self, domain: DomainId, number: u8) {
        if let Some(child) = self.children.get(&domain)
            && let Some(signal) = Signal::from_named_raw(number.into())
        {
            child.process.inner().0.signal(signal);
        }
    }

    /// Reads one piece of output; closes the stream at its end. Returns whether there was output, or the end.
    pub(super) fn read_output(&mut self, domain: DomainId, number: u8) -> bool {
        let Some(child) = self.children.get_mut(&domain) else { return false };
        let Some((_, pipe)) = child.outputs.iter().find(|(of, _)| *of == number) else { return false };
        let mut piece = vec![0; PIECE_BYTES];
        match rustix::io::read(pipe, &mut piece) {
            Err(Errno::AGAIN | Errno::INTR) => return false,
            Ok(count) if count > 0 => {
                piece.truncate(count);
                self.core.output_read(domain, number, piece);
            }
            Ok(_) | Err(_) => self.close_output(domain, number),
        }
        true
    }

    fn close_output(&mut self, domain: DomainId, number: u8) {
        if let Some(child) = self.children.get_mut(&domain) {
            child.outputs.retain(|(of, _)| *of != number);
        }
        self.core.output_read(domain, number, Vec::new());
    }

    pub(super) fn write_input(&mut self, domain: DomainId, number: u8) {
        while let Some(input) = self.children.get(&domain).and_then(|child| child.input(number))
            && let Some(piece) = self.core.next_input(domain, number)
        {
            match rustix::io::write(input, piece) {
                Ok(count) => self.core.input_written(domain, number, count),
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => return self.core.input_closed(domain, number),
            }
        }
    }

    pub(super) fn close_input(&mut self, domain: DomainId, number: u8) {
        let Some(child) = self.children.get_mut(&domain) else { return };
        if number == streams::SIDE
            && let Some(side) = child.input(number)
        {
            // The other descriptor may still be read. A stream whose far end is closed has ended already.
            let _ = rustix::net::shutdown(side, rustix::net::Shutdown::Write);
        }
        child.inputs.retain(|(of, _)| *of != number);
    }

    pub(super) fn reap_child(&mut self, domain: DomainId) {
        let Some(child) = self.children.get_mut(&domain) else { return };
        let exit = match child.process.inner_mut().0.try_reap() {
            Ok(Some(ExitOutcome::Exited(status))) => Exit::Exited { status },
            Ok(Some(ExitOutcome::Signalled(signal))) => Exit::Signalled { signal },
            Ok(None) => return,
            // It cannot be reaped, so its exit status stays unknown.
            Err(_) => Exit::Signalled { signal: 0 },
        };
        self.core.child_exited(domain, exit);
        // Its last output is still in the pipes, bounded by their capacity.
        for number in [streams::OUTPUT, streams::ERROR, streams::SIDE] {
            while self.read_output(domain, number) {}
            if self.has_output(domain, number) {
                // A program that it started, and that left its process group, still holds the pipe.
                self.close_output(domain, number);
            }
        }
        self.children.remove(&domain);
    }

    fn has_output(&self, domain: DomainId, number: u8) -> bool {
        self.children.get(&domain).is_some_and(|child| child.outputs.iter().any(|(of, _)| *of == number))
    }
}

/// Removes and returns the `argv[0]` of a program.
fn take_argv0(program: &mut ProgramSpec) -> String {
    let mut argv0 = program.name.clone();
    // As in an environment, the last one counts.
    program.environment.retain(|(name, value)| {
        let is_other = name != ARGV0_VARIABLE;
        if !is_other {
            argv0.clone_from(value);
        }
        is_other
    });
    argv0
}

/// Sets the requested placement. Detects errors here that would otherwise only occur in the new process,
/// without a message.
fn apply_placement(command: &mut Command, placement: &CpuPlacement) -> Result<(), OsError> {
    let priority = placement.real_time_priority;
    if priority > CpuPlacement::MAX_PRIORITY {
        let what = format!("start a program at real-time priority {priority} (use 1 to 99)");
        return Err(OsError::new(what, Errno::INVAL));
    }
    let available = thread::cpus()?;
    let wanted: Vec<usize> =
        placement.cpus.iter().take(CpuPlacement::MAX_CPUS).map(|cpu| usize::from(*cpu)).collect();
    if let Some(missing) = wanted.iter().find(|cpu| !available.contains(cpu)) {
        let what = format!(
            "start a program on processor {missing} (the node has {})",
            available.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        );
        return Err(OsError::new(what, Errno::INVAL));
    }
    process::set_placement(command, wanted, (priority > 0).then_some(Scheduling::Fifo(priority)));
    Ok(())
}

/// Explains a start error caused by the CPU placement or the program's loader.
fn explain_start_error(error: OsError, placement: &CpuPlacement, emulated: bool) -> OsError {
    // The program itself exists, and so does its working directory, so the loader is missing.
    if error.errno == Errno::NOENT && !emulated {
        let what = "start a program that is linked dynamically where its loader is missing (link it statically; or \
                    let `files` of the node in the machine file bring its loader and libraries)";
        return OsError::new(what, error.errno);
    }
    if error.errno != Errno::PERM || placement.real_time_priority == 0 {
        return error;
    }
    let what = format!(
        "start a program at real-time priority {}: the node's monitor needs CAP_SYS_NICE or a limit RLIMIT_RTPRIO \
         that high (`ulimit -r`)",
        placement.real_time_priority
    );
    OsError::new(what, error.errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argv0_is_the_name_unless_a_variable_says_otherwise() {
        let mut program = ProgramSpec::new("python");
        program.environment = vec![("A".into(), "1".into())];
        assert_eq!(take_argv0(&mut program), "python");
        for path in ["/usr/bin/python", "venv/bin/python"] {
            program.environment.insert(1, (ARGV0_VARIABLE.into(), "older".into()));
            program.environment.push((ARGV0_VARIABLE.into(), path.into()));
            assert_eq!(take_argv0(&mut program), path);
            assert_eq!(program.environment, [("A".to_owned(), "1".to_owned())]);
            assert_eq!(program.name, "python", "the name in lists stays");
        }
    }
}

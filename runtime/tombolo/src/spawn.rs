//! Starts domains on any node, and reports their exits.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tombolo_base::DomainId;
use tombolo_control::monitor::GivenCapability;
use tombolo_control::{
    DomainInfo, Membership, ProgramSpec, Reply, Request, SpawnRequest, all_pages, streams,
};
use tombolo_platform::Context;

pub use tombolo_control::Exit;

use crate::domain::Domain;
use crate::error::Error;
use crate::exits::Ended;
pub use crate::monitor::Stream;
use crate::monitor::{ANSWER_TIMEOUT, MonitorLink, unexpected};
use crate::region::{Capability, Extent, Rights};
pub use crate::side::SideStream;

/// Environment variable with the name under which a job's files are served. Children inherit it.
pub const FILES_VARIABLE: &str = "TOMBOLO_FILES";

/// Time between asking a child to end and killing it.
const GRACE: Duration = Duration::from_secs(2);

/// Options for starting a domain: program, node, arguments and environment.
///
/// ```no_run
/// # fn main() -> Result<(), tombolo::Error> {
/// let domain = tombolo::Domain::attach()?;
/// let child = domain.spawn(&tombolo::SpawnOptions::image("work.tbi").on("arm0").arg("--fast"))?;
/// println!("{:?}", child.wait(std::time::Duration::from_secs(60))?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpawnOptions {
    image: Option<std::path::PathBuf>,
    request: SpawnRequest,
}

impl SpawnOptions {
    fn new(image: Option<std::path::PathBuf>, image_name: String) -> Self {
        let directory = std::env::current_dir().unwrap_or_default().to_string_lossy().into_owned();
        let program = ProgramSpec { directory, ..ProgramSpec::new(image_name) };
        let request =
            SpawnRequest { node: "host".into(), own_image: image.is_none(), program, given: Vec::new() };
        SpawnOptions { image, request }
    }

    /// Starts an image file, or an executable of the node's instruction set.
    #[must_use]
    pub fn image(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Self::new(Some(path.to_owned()), name)
    }

    /// Starts the image that this domain was started from, in the build for the node's instruction set. Only
    /// for domains that the machine started.
    #[must_use]
    pub fn this_image() -> Self {
        Self::new(None, String::new())
    }

    /// Sets the node; the default is `host`.
    #[must_use]
    pub fn on(mut self, node: impl Into<String>) -> Self {
        self.request.node = node.into();
        self
    }

    /// Sets the name in lists, also used as `argv[0]`; the default is the name of the image file.
    #[must_use]
    pub fn called(mut self, name: impl Into<String>) -> Self {
        self.request.program.name = name.into();
        self
    }

    /// Appends one command-line argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.request.program.arguments.push(argument.into());
        self
    }

    /// Appends several command-line arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item = S>, S: Into<String>>(mut self, arguments: I) -> Self {
        self.request.program.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Makes it part of a job: its rank, the number of ranks, and the job's id, a prefix of names that is
    /// unique to the job. The child reads them with [`Domain::job`].
    #[must_use]
    pub fn rank(mut self, rank: u32, size: u32, job: &str) -> Self {
        for (name, value) in Membership::new(rank, size, job).variables() {
            self = self.env(name, value);
        }
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.program.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the working directory, if the node has it; the default is the caller's.
    #[must_use]
    pub fn directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.request.program.directory = directory.as_ref().to_string_lossy().into_owned();
        self
    }

    /// Restricts it to these processors of its node, by the node's numbers; any if the list is empty.
    ///
    /// Starting fails if the node has none of them.
    #[must_use]
    pub fn cpus(mut self, cpus: impl IntoIterator<Item = u16>) -> Self {
        self.request.program.cpus.cpus = cpus.into_iter().collect();
        self
    }

    /// Sets its real-time priority (`SCHED_FIFO`), from 1 to 99; it then runs before all programs of its node
    /// with a lower priority or none, for as long as it can run. 0 means none.
    ///
    /// Starting fails if the node's monitor lacks the permission: the capability `CAP_SYS_NICE`, or a limit
    /// `RLIMIT_RTPRIO` of that value (`ulimit -r`). In a virtual machine it has it.
    #[must_use]
    pub fn real_time_priority(mut self, priority: u8) -> Self {
        self.request.program.cpus.real_time_priority = priority;
        self
    }

    /// Gives it a pipe for standard input, fed by [`Child::input`]. Without it, standard input is at its end.
    #[must_use]
    pub fn with_input(mut self) -> Self {
        self.request.program.stdin = true;
        self
    }

    /// Gives it a side stream: a socket to this program for both directions, in addition to its standard
    /// streams. The program finds the number of the descriptor in the environment variable `variable`; the
    /// parent uses [`Child::side_stream`].
    ///
    /// Starting fails on a board, and if `variable` is not a valid name of a variable.
    #[must_use]
    pub fn with_side_stream(mut self, variable: impl Into<String>) -> Self {
        self.request.program.side = Some(variable.into());
        self
    }
}

impl SpawnOptions {
    /// Gives it a capability, which it takes up with [`Domain::given`]: derived from `capability`, with the
    /// given subset of its rights. `capability` must include the right to grant, and be held until the
    /// program has started. The program's capability ends with the program, and when `capability` is
    /// [revoked](Capability::revoke).
    #[must_use]
    pub fn give(self, name: impl Into<String>, capability: &Capability, rights: Rights) -> Self {
        self.given(name.into(), capability, None, rights)
    }

    /// Like [`give`](Self::give), for a part relative to the start of the capability's own.
    #[must_use]
    pub fn give_part(
        self,
        name: impl Into<String>,
        capability: &Capability,
        extent: Extent,
        rights: Rights,
    ) -> Self {
        self.given(name.into(), capability, Some(extent), rights)
    }

    fn given(
        mut self,
        name: String,
        capability: &Capability,
        extent: Option<Extent>,
        rights: Rights,
    ) -> Self {
        self.request.given.push(GivenCapability { name, capability: capability.id(), extent, rights });
        self
    }
}

impl Domain {
    /// Starts a domain. It is killed when this domain ends.
    ///
    /// Its output goes to the program that started the whole job: to `tombolo run`, or to this program's own
    /// output while this program waits for something.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the node does not exist or is down, there is no build for its instruction set,
    /// the program cannot be started, or a capability to give is not held or lacks the rights. No capability
    /// was given then.
    pub fn spawn(&self, options: &SpawnOptions) -> Result<Child, Error> {
        let file = match &options.image {
            None => None,
            Some(path) => {
                Some(std::fs::File::open(path).context(&format!("open the image {}", path.display()))?)
            }
        };
        let fds: Vec<_> = file.iter().map(AsFd::as_fd).collect();
        let mut spawn = options.request.clone();
        inherit_files(&mut spawn.program.environment);
        let request = Request::Spawn { spawn };
        match self.link.ask_with(request, &fds, ANSWER_TIMEOUT)? {
            (Reply::Spawn { domain }, _) => {
                let ended = self.link.exit_of(domain);
                Ok(Child { id: domain, node: options.request.node.clone(), ended, link: self.link.clone() })
            }
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Passes the output of children to `sink` from now on, instead of to this program's own output. It is
    /// called while this program waits for the monitor; an empty piece is the end of a stream.
    pub fn on_output(&self, sink: impl FnMut(DomainId, Stream, &[u8]) + Send + 'static) {
        self.link.set_output(Box::new(sink));
    }

    /// Waits until a child ends and returns its exit; exits are returned in order. Of exits that are not
    /// taken, the latest 4096 are kept.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if no child ended.
    pub fn next_exit(&self, timeout: Duration) -> Result<(DomainId, Exit), Error> {
        self.link.wait(timeout, "the end of a child", |arrived| arrived.exits.next())
    }

    /// Whether a live domain is a child of this one, or a descendant of one. The information is the root's,
    /// which starts all domains: a server can use it to serve only domains of its own job.
    ///
    /// # Errors
    /// [`Error::MonitorLost`].
    pub fn has_started(&self, domain: DomainId) -> Result<bool, Error> {
        let domains = all_pages(|last: Option<&DomainInfo>| {
            let after = last.map_or(0, |domain| domain.id.to_bits());
            match self.link.ask(Request::Domains { after }, ANSWER_TIMEOUT)?.0 {
                Reply::Domains { domains, more } => Ok((domains, more)),
                other => Err(unexpected(&other)),
            }
        })?;
        let mut at = domain;
        // No domain is its own ancestor; the bound ends the loop if the list claims so.
        for _ in 0..=domains.len() {
            match domains.iter().find(|domain| domain.id == at).and_then(|domain| domain.parent) {
                Some(parent) if parent == self.id() => return Ok(true),
                Some(parent) => at = parent,
                None => return Ok(false),
            }
        }
        Ok(false)
    }
}

/// Domain that this one started.
#[derive(Clone, Debug)]
pub struct Child {
    id: DomainId,
    node: String,
    ended: Ended,
    link: Arc<MonitorLink>,
}

impl Child {
    /// Id of the child.
    #[must_use]
    pub fn id(&self) -> DomainId {
        self.id
    }

    /// Name of the node that it runs on.
    #[must_use]
    pub fn node_name(&self) -> &str {
        &self.node
    }

    pub(crate) fn link(&self) -> &Arc<MonitorLink> {
        &self.link
    }

    pub(crate) fn ended(&self) -> &Ended {
        &self.ended
    }

    /// Waits until the child has ended. Later calls return the same exit.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if it did not end in time.
    pub fn wait(&self, timeout: Duration) -> Result<Exit, Error> {
        let what = format!("the end of domain {}", self.id);
        self.link.wait(timeout, &what, |_| self.ended.get().cloned())
    }

    /// Asks the child to end, and kills it two seconds later if it has not.
    ///
    /// # Errors
    /// [`Error::MonitorLost`]. It is not an error if the child has already ended.
    pub fn kill(&self) -> Result<(), Error> {
        let request = Request::Kill { domain: self.id, signal: 15, grace: GRACE };
        match self.link.ask(request, ANSWER_TIMEOUT) {
            Ok(_) | Err(Error::Monitor(tombolo_control::Fault::NoSuchDomain { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes to its standard input, at most 8 KiB per call; empty input closes it. Waits until the bytes
    /// were accepted.
    ///
    /// # Errors
    /// [`Error::Monitor`] if the child has ended or has no input pipe; [`Error::TimedOut`] if it does not
    /// read: the number of bytes accepted is then unknown.
    pub fn input(&self, bytes: &[u8], timeout: Duration) -> Result<(), Error> {
        let (stream, bytes) = (streams::INPUT, bytes.to_vec());
        self.link.ask(Request::Input { domain: self.id, stream, bytes }, timeout).map(|_| ())
    }

    /// Takes the parent's end of its side stream; `None` if it was started without one, or it was taken
    /// before.
    #[must_use]
    pub fn side_stream(&self) -> Option<SideStream> {
        SideStream::take(&self.link, self.id)
    }
}

/// Files granted to a job are available to all its domains.
fn inherit_files(environment: &mut Vec<(String, String)>) {
    if let Ok(name) = std::env::var(FILES_VARIABLE)
        && !environment.iter().any(|(variable, _)| variable == FILES_VARIABLE)
    {
        environment.push((FILES_VARIABLE.to_owned(), name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Monitor, id};

    #[test]
    fn children_and_their_children_were_started_by_a_domain() {
        let (domain, monitor) = Monitor::with_domain();
        let number = |low: u64| id(domain.id().to_bits() + low);
        let info = |low: u64, parent: Option<DomainId>| DomainInfo {
            id: number(low),
            node: "host".into(),
            program: "work".into(),
            pid: 1,
            parent,
            age: Duration::ZERO,
            channels: 0,
        };
        let own = domain.id();
        let pages = [
            vec![info(0, None), info(1, Some(own)), info(2, Some(number(1)))],
            // Two domains that claim to have started each other.
            vec![info(3, None), info(4, Some(number(5))), info(5, Some(number(4)))],
        ];
        let answered = |asked: u64| {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for (index, page) in pages.iter().enumerate() {
                        let (request, _) = monitor.next_message();
                        monitor.send_reply(
                            request,
                            Reply::Domains { domains: page.clone(), more: index == 0 },
                            &[],
                        );
                    }
                });
                domain.has_started(number(asked)).unwrap()
            })
        };
        assert_eq!([0, 1, 2, 3, 4, 9].map(answered), [false, true, true, false, false, false]);
    }

    #[test]
    fn try_calls_return_what_has_arrived() {
        let (domain, monitor) = Monitor::with_domain();
        let (listener, child) = monitor.listener_and_child(&domain);
        let now = Duration::ZERO;
        assert!(matches!(listener.within(now).accept(), Err(Error::TimedOut { .. })));
        assert!(matches!(child.wait(now), Err(Error::TimedOut { .. })));
        assert!(matches!(domain.next_exit(now), Err(Error::TimedOut { .. })));
        let far = monitor.connect(5);
        listener.within(now).accept().unwrap();
        far.join().unwrap();
        monitor.end_child(child.id(), 3);
        let exit = Exit::Exited { status: 3 };
        assert_eq!(child.wait(now).unwrap(), exit);
        assert_eq!(child.wait(now).unwrap(), exit, "the answer stays");
        assert_eq!(domain.next_exit(now).unwrap(), (child.id(), exit.clone()));
        assert_eq!(child.wait(now).unwrap(), exit, "taken by another call too");
    }
}

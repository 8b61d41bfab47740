//! How a command fails: a sentence, perhaps a hint, and an exit status.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use tombolo::{Error, Fault};
use tombolo_machine::build::BuildError;
use tombolo_machine::file::FileError as MachineFileError;
use tombolo_machine::image::ImageError;
use tombolo_machine::kit::KitError;
use tombolo_mpi::InstallationError;
use tombolo_mpi::compile::CompileError;
use tombolo_mpi::job::JobError;
use tombolo_mpi::placement::PlacementError;
use tombolo_omp_image::InstallationError as OmpInstallationError;
use tombolo_omp_image::compile::CompileError as OmpCompileError;
use tombolo_trace::file::FileError;
use tombolo_trace::merge::Impossible;
use tombolo_transport::wrap::capture::CaptureError;

use crate::text::{one_line, printable};

/// Something went wrong at run time.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The machine, its monitor or another domain said no.
    #[error(transparent)]
    Machine(#[from] Error),
    /// A machine file cannot be used.
    #[error(transparent)]
    MachineFile(#[from] MachineFileError),
    /// A file is no image.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A program cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// There is no MPI for a node.
    #[error(transparent)]
    Mpi(#[from] InstallationError),
    /// An MPI program cannot be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// There is nothing to link OpenMP programs with.
    #[error(transparent)]
    Omp(#[from] OmpInstallationError),
    /// An OpenMP program cannot be compiled for unlike processors.
    #[error(transparent)]
    OmpCompile(#[from] OmpCompileError),
    /// A measurement failed.
    #[error(transparent)]
    Bench(#[from] tombolo_bench::ring::Error),
    /// A measurement of waiting failed.
    #[error(transparent)]
    Waiting(#[from] tombolo_bench::waitset::Error),
    /// A measurement of answer times failed.
    #[error(transparent)]
    Latency(#[from] tombolo_bench::latency::Error),
    /// A comparison failed.
    #[error(transparent)]
    Comparison(#[from] tombolo_bench::suite::Error),
    /// What tracing costs could not be measured.
    #[error(transparent)]
    Cost(#[from] tombolo_bench::tracing::Error),
    /// A part of the installation is missing.
    #[error(transparent)]
    Kit(#[from] KitError),
    /// A page cannot be served.
    #[error(transparent)]
    Web(#[from] tombolo_web::ServeError),
    /// Nothing to look at.
    #[error("no machine is up")]
    NothingUp,
    /// The machine that was named is not up.
    #[error("machine '{0}' is not up")]
    NotUp(String),
    /// It is up already.
    #[error("machine '{0}' is up already")]
    UpAlready(String),
    /// Options that make no sense together with the machine that is there.
    #[error("{message}")]
    Usage { message: String, hint: Option<&'static str> },
    /// A job did not end well; the programs' output has been shown.
    #[error("{message}")]
    Job { message: String, status: u8 },
    /// An MPI job cannot be started.
    #[error(transparent)]
    MpiJob(#[from] JobError),
    /// An interface file with mistakes, drawn: begins with `error:` by itself.
    #[error("{0}")]
    Interface(String),
    /// The operating system refused something.
    #[error("cannot {operation}: {source}")]
    System { operation: String, source: io::Error },
    /// A trace file that is damaged, or none.
    #[error("{path}: {source}", path = path.display())]
    TraceFile {
        path: PathBuf,
        source: FileError,
        /// What comes before the damage is of use.
        usable: bool,
    },
    /// A capture that is damaged, or none.
    #[error("{path}: {source}", path = path.display())]
    Capture { path: PathBuf, source: CaptureError },
    /// A program did not say what it had said when it was captured.
    #[error("{path}: at byte {offset_bytes}: {what}", path = path.display())]
    Diverged { path: PathBuf, offset_bytes: u64, what: String },
    /// A trace of what cannot have been.
    #[error("{path}: {source}", path = path.display())]
    TraceOrder { path: PathBuf, source: Impossible },
    /// Nobody reads the output, or it cannot be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
}

/// What a shell shows for a program that SIGPIPE ended.
pub(crate) const BROKEN_PIPE_STATUS: u8 = 141;

impl Failure {
    pub(crate) fn system(operation: impl Into<String>) -> impl FnOnce(io::Error) -> Failure {
        move |source| Failure::System { operation: operation.into(), source }
    }

    /// The exit status that tells it.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Failure::Job { status, .. } => *status,
            Failure::Usage { .. }
            | Failure::MpiJob(JobError::Placement(PlacementError::Count(_)))
            | Failure::Comparison(tombolo_bench::suite::Error::UnknownPeer { .. }) => 2,
            Failure::Output(error) if error.kind() == ErrorKind::BrokenPipe => BROKEN_PIPE_STATUS,
            _ => 1,
        }
    }

    /// What to do about it, where the sentence itself does not say.
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Failure::NothingUp => {
                "`tombolo up` brings one up; `tombolo run` starts one for this host by itself"
            }
            Failure::NotUp(_) => "`tombolo status` shows which machines are up",
            Failure::UpAlready(name) => {
                return Some(format!(
                    "use it as it is (`tombolo status`), or take it down first: `tombolo down --machine {name}`"
                ));
            }
            Failure::Usage { hint, .. } => return hint.map(str::to_owned),
            Failure::Machine(Error::Monitor(Fault::NoSuchNode { available, .. })) if available.len() == 1 => {
                "that is this host alone; `tombolo up` brings up a machine with more nodes"
            }
            Failure::Image(ImageError::Unreadable { path, .. }) if path.is_dir() => {
                return Some(format!(
                    "that is a folder: `tombolo build {}` makes an image of it",
                    path.display()
                ));
            }
            Failure::TraceFile { usable: true, .. } => "--salvage uses what comes before that",
            _ => return None,
        };
        Some(hint.to_owned())
    }

    /// Shows it on standard error.
    pub(crate) fn report(&self, colour: bool) {
        eprint_quietly(&self.render(colour));
    }

    fn render(&self, colour: bool) -> String {
        if self.status() == BROKEN_PIPE_STATUS {
            return String::new();
        }
        let (error, hint) = if colour { (ERROR, HINT) } else { (Style::new(), Style::new()) };
        let mut text = match self {
            // A report shows the file's own lines and starts with `error:` by itself.
            Failure::MachineFile(MachineFileError::Invalid(report)) => report.render(colour),
            Failure::Interface(drawn) => format!("{drawn}\n"),
            // Compilers and monitors may say several lines; everybody else says one.
            Failure::Build(_) | Failure::Machine(_) | Failure::OmpCompile(_) => {
                format!("{error}error:{error:#} {}\n", printable(&self.to_string()))
            }
            _ => format!("{error}error:{error:#} {}\n", one_line(&self.to_string())),
        };
        if let Some(advice) = self.hint() {
            text.push_str(&format!("{hint}hint:{hint:#} {advice}\n"));
        }
        text
    }
}

const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// Writes to standard error; whoever closed it does not want to know.
pub(crate) fn eprint_quietly(text: &str) {
    let _ = io::Write::write_all(&mut io::stderr(), text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_sentence_and_a_hint() {
        assert_eq!(
            Failure::UpAlready("duo".into()).render(false),
            "error: machine 'duo' is up already\nhint: use it as it is (`tombolo status`), or take it down \
             first: `tombolo down --machine duo`\n"
        );
        let system = Failure::system("open x")(io::Error::from(ErrorKind::NotFound));
        assert_eq!(system.render(false), "error: cannot open x: entity not found\n");
        assert_eq!(system.status(), 1);
        assert!(system.render(true).starts_with("\x1b[1m\x1b[31merror:\x1b[0m cannot"));
    }

    #[test]
    fn a_closed_pipe_is_told_by_the_status_alone() {
        let closed = Failure::Output(ErrorKind::BrokenPipe.into());
        assert_eq!((closed.render(false).as_str(), closed.status()), ("", 141));
        assert_eq!(Failure::Output(ErrorKind::StorageFull.into()).status(), 1);
    }

    #[test]
    fn mistakes_in_a_machine_file_keep_their_lines() {
        let report =
            tombolo_machine::Machine::parse("name = 3", std::path::Path::new("m.toml"), tombolo::Isa::X86_64);
        let failure = Failure::MachineFile(MachineFileError::Invalid(report.unwrap_err()));
        let text = failure.render(false);
        assert!(text.starts_with("error: ") && text.contains(" --> m.toml:1:8\n"), "{text}");
        assert_eq!(failure.status(), 1);
    }
}

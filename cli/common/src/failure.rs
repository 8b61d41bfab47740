//! Failures of commands: a sentence, an optional hint and an exit status.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use tombolo::Error;
use tombolo::error::Fault;
use tombolo_machine::build::BuildError;
use tombolo_machine::file::FileError as MachineFileError;
use tombolo_machine::image::ImageError;
use tombolo_trace::file::FileError;
use tombolo_trace::merge::MergeError;
use tombolo_transport::wrap::capture::CaptureError;

use crate::other_users;
use crate::text::{one_line, printable};

/// Failure at run time. Every error converts into [`Failure::Other`], so that `?` works with all of them.
#[derive(Debug)]
pub enum Failure {
    /// An error of a library. It may have several lines, as those of compilers and monitors do.
    Other(Box<dyn std::error::Error + Send + Sync>),
    /// No machine is up.
    NothingUp,
    /// The given machine is not up.
    NotUp(String),
    /// The machine is already up.
    UpAlready(String),
    /// The command line is invalid, by itself or for this machine.
    Usage {
        /// Description of the mistake.
        message: String,
        /// Suggestion for the user.
        hint: Option<&'static str>,
    },
    /// A job failed; the programs' output has been shown.
    Job {
        /// The failed program, and how it ended.
        message: String,
        /// Exit status of the command.
        status: u8,
    },
    /// An interface file with mistakes, rendered: begins with `error:` itself.
    Interface(String),
    /// A file that the user named cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file that the user named can be read, but not understood.
    Malformed {
        /// The file.
        path: PathBuf,
        /// The mistake.
        why: String,
    },
    /// A program that the user named cannot be run.
    NotRun {
        /// The program.
        program: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The operating system refused an operation.
    System {
        /// Name of the operation: "open x".
        operation: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A program of the installation is missing.
    NoProgram {
        /// File name of the program.
        program: &'static str,
        /// Folder where it should be.
        folder: PathBuf,
    },
    /// A trace file is damaged, or is not a trace file.
    TraceFile {
        /// The file.
        path: PathBuf,
        /// The defect of the file.
        source: FileError,
        /// Whether the part before the damage is usable.
        usable: bool,
    },
    /// A capture is damaged, or is not a capture.
    Capture {
        /// The file.
        path: PathBuf,
        /// The defect of the file.
        source: CaptureError,
    },
    /// A program did not send the same messages as in its capture.
    Diverged {
        /// The capture.
        path: PathBuf,
        /// Offset in the capture.
        offset_bytes: u64,
        /// The difference.
        what: String,
    },
    /// A trace whose events contradict each other.
    TraceOrder {
        /// The file.
        path: PathBuf,
        /// The contradiction.
        source: MergeError,
    },
    /// The output cannot be written.
    Output(io::Error),
    /// Another failure, with advice.
    Advised {
        /// The original failure.
        failure: Box<Failure>,
        /// Advice for the user.
        advice: String,
    },
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Other(Box::new(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Other(error) => error.fmt(f),
            Failure::Advised { failure, .. } => failure.fmt(f),
            Failure::NothingUp => f.write_str("no machine is up for this user"),
            Failure::NotUp(name) => write!(f, "machine '{name}' is not up"),
            Failure::UpAlready(name) => write!(f, "machine '{name}' is up already"),
            Failure::Usage { message, .. } | Failure::Job { message, .. } | Failure::Interface(message) => {
                f.write_str(message)
            }
            Failure::Unreadable { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            Failure::Malformed { path, why } => write!(f, "{}: {why}", path.display()),
            Failure::NotRun { program, source } => write!(f, "cannot run {}: {source}", program.display()),
            Failure::System { operation, source } => write!(f, "cannot {operation}: {source}"),
            Failure::NoProgram { program, folder } => {
                write!(f, "this command is the program {program}, which is not in {}", folder.display())
            }
            Failure::TraceFile { path, source, .. } => write!(f, "{}: {source}", path.display()),
            Failure::Capture { path, source } => write!(f, "{}: {source}", path.display()),
            Failure::Diverged { path, offset_bytes, what } => {
                write!(f, "{}: at byte {offset_bytes}: {what}", path.display())
            }
            Failure::TraceOrder { path, source } => write!(f, "{}: {source}", path.display()),
            Failure::Output(error) => write!(f, "cannot write the output: {error}"),
        }
    }
}

/// Exit status that shells show for a program ended by SIGPIPE.
pub const BROKEN_PIPE_STATUS: u8 = 141;

impl Failure {
    /// Returns a closure for `map_err` that converts the error of `operation`, such as "open x".
    pub fn system(operation: impl Into<String>) -> impl FnOnce(io::Error) -> Failure {
        move |source| Failure::System { operation: operation.into(), source }
    }

    /// Returns a closure for `map_err` that converts the error of reading a file that the user named.
    pub fn unreadable(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Failure {
        move |source| Failure::Unreadable { path: path.into(), source }
    }

    /// Adds advice to the failure.
    #[must_use]
    pub fn advised(self, advice: impl Into<String>) -> Failure {
        Failure::Advised { failure: Box::new(self), advice: advice.into() }
    }

    /// Returns the exit status for the failure: 2 if what the user gave is wrong, be it the command line or a
    /// file that it names, and 1 if something else failed.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Failure::Advised { failure, .. } => failure.status(),
            Failure::Job { status, .. } => *status,
            Failure::Usage { .. }
            | Failure::Unreadable { .. }
            | Failure::Malformed { .. }
            | Failure::NotRun { .. }
            | Failure::Interface(_)
            | Failure::TraceFile { .. }
            | Failure::TraceOrder { .. }
            | Failure::Capture { .. } => 2,
            Failure::Other(_) if self.is_of_given_file() => 2,
            Failure::Output(error) if error.kind() == ErrorKind::BrokenPipe => BROKEN_PIPE_STATUS,
            _ => 1,
        }
    }

    /// Returns whether the error of a library is about a file that the user named.
    fn is_of_given_file(&self) -> bool {
        let of_build = self.cause().is_some_and(|error: &BuildError| {
            matches!(
                error,
                BuildError::NoSuchFile { .. }
                    | BuildError::UnknownSource { .. }
                    | BuildError::NothingInFolder { .. }
                    | BuildError::NoProgram { .. }
                    | BuildError::SeveralPrograms { .. }
                    | BuildError::Manifest { .. }
                    | BuildError::NotAProgram { .. }
                    | BuildError::SameTarget { .. }
                    | BuildError::Read { .. }
            )
        });
        of_build || self.cause::<ImageError>().is_some() || self.cause::<MachineFileError>().is_some()
    }

    /// Returns the underlying library error, if it is of that type.
    #[must_use]
    pub fn cause<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            Failure::Other(error) => error.downcast_ref(),
            Failure::Advised { failure, .. } => failure.cause(),
            _ => None,
        }
    }

    /// Returns a hint for the user, unless the message itself has one.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Failure::NothingUp => {
                let usual = "`tombolo up` brings one up; `tombolo run` starts one for this host by itself";
                return Some(other_users::other_users_hint(None).unwrap_or_else(|| usual.to_owned()));
            }
            Failure::NotUp(name) => {
                let usual = "`tombolo status` shows which machines are up";
                return Some(other_users::other_users_hint(Some(name)).unwrap_or_else(|| usual.to_owned()));
            }
            Failure::UpAlready(name) => {
                return Some(format!(
                    "use it as it is (`tombolo status`), or take it down first: `tombolo down --machine {name}`"
                ));
            }
            Failure::Usage { hint, .. } => return hint.map(str::to_owned),
            Failure::Advised { advice, .. } => return Some(advice.clone()),
            Failure::NoProgram { .. } => {
                "install the whole package, or build it in the source tree: `make build` there"
            }
            Failure::Other(_) => return self.hint_on_cause(),
            Failure::TraceFile { usable: true, .. } => "--salvage uses what comes before that",
            _ => return None,
        };
        Some(hint.to_owned())
    }

    fn hint_on_cause(&self) -> Option<String> {
        if let Some(Error::Monitor(Fault::NoSuchNode { available, .. })) = self.cause()
            && available.len() == 1
        {
            return Some(
                "that is this host alone; `tombolo up` brings up a machine with more nodes".to_owned(),
            );
        }
        match self.cause() {
            Some(ImageError::Unreadable { path, .. }) if path.is_dir() => {
                Some(format!("that is a folder: `tombolo build {}` makes an image of it", path.display()))
            }
            _ => None,
        }
    }

    /// Shows the failure on standard error.
    pub fn report(&self, colour: bool) {
        eprint_quietly(&self.render(colour));
    }

    fn render(&self, colour: bool) -> String {
        if self.status() == BROKEN_PIPE_STATUS {
            return String::new();
        }
        let (error, hint) = if colour { (ERROR, HINT) } else { (Style::new(), Style::new()) };
        let plain = match self {
            Failure::Advised { failure, .. } => failure,
            failure => failure,
        };
        let mut text = match plain {
            Failure::Interface(drawn) => format!("{drawn}\n"),
            Failure::Other(_) => match self.cause() {
                // A report shows the file's own lines and starts with `error:` itself.
                Some(MachineFileError::Invalid(report)) => report.render(colour),
                _ => format!("{error}error:{error:#} {}\n", printable(&self.to_string())),
            },
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

/// Writes to standard error, ignoring errors: it may be closed.
pub fn eprint_quietly(text: &str) {
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
    fn closed_pipe_only_sets_the_status() {
        let closed = Failure::Output(ErrorKind::BrokenPipe.into());
        assert_eq!((closed.render(false).as_str(), closed.status()), ("", 141));
        assert_eq!(Failure::Output(ErrorKind::StorageFull.into()).status(), 1);
    }

    #[test]
    fn mistakes_in_a_machine_file_keep_their_lines() {
        let report =
            tombolo_machine::Machine::parse("name = 3", std::path::Path::new("m.toml"), tombolo::Isa::X86_64);
        let failure = Failure::from(MachineFileError::Invalid(report.unwrap_err()));
        let text = failure.render(false);
        assert!(text.starts_with("error: ") && text.contains(" --> m.toml:1:8\n"), "{text}");
        assert_eq!(failure.status(), 2);
    }

    #[test]
    fn a_bad_file_of_the_user_is_status_2_for_every_command() {
        let nowhere = std::path::Path::new("/nonexistent/x");
        let unreadable = Failure::unreadable(nowhere)(ErrorKind::NotFound.into());
        assert_eq!(unreadable.to_string(), "cannot read /nonexistent/x: entity not found");
        let image = Failure::from(tombolo_machine::Image::open(nowhere).unwrap_err());
        let no_image = Failure::from(tombolo_machine::Image::open("/etc/passwd".as_ref()).unwrap_err());
        let machine = Failure::from(tombolo_machine::Machine::open(nowhere).unwrap_err());
        let source = Failure::from(BuildError::NoSuchFile { path: nowhere.into() });
        let malformed = Failure::Malformed { path: nowhere.into(), why: "it has no hubs".into() };
        let not_run = Failure::NotRun { program: nowhere.into(), source: ErrorKind::NotFound.into() };
        for failure in [unreadable, image, no_image, machine, source, malformed, not_run] {
            assert_eq!(failure.status(), 2, "{failure}");
        }
        let written = BuildError::Write { path: nowhere.into(), source: ErrorKind::StorageFull.into() };
        assert_eq!(Failure::from(written).status(), 1);
        assert_eq!(Failure::NothingUp.status(), 1);
    }
}

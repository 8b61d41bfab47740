//! Failures of the commands of this tool.

use std::io;
use std::path::PathBuf;

/// What failed, on which file or command, and what the user can do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A file could not be read or written.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// "reading", "writing", …
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A program could not be started at all.
    #[error("could not start `{program}`: {source}; `make setup` installs what is missing")]
    NotStarted {
        /// The program's name.
        program: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A program ran and failed; it has said why.
    #[error("`{command}` failed ({status})")]
    CommandFailed {
        /// The whole command line.
        command: String,
        /// Its exit status in words.
        status: String,
    },
    /// A program printed something that could not be understood.
    #[error("could not understand what {what} says: {detail}")]
    Malformed {
        /// Which document.
        what: String,
        /// Where and why.
        detail: String,
    },
    /// A check found something; it has been printed.
    #[error("{0}")]
    Found(String),
}

impl Failure {
    /// A file error, to be used with `map_err`.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }

    /// A document that does not say what it should.
    pub(crate) fn malformed(what: impl Into<String>, detail: impl ToString) -> Self {
        Self::Malformed { what: what.into(), detail: detail.to_string() }
    }
}

//! Errors of the commands of this tool.

use std::io;
use std::path::PathBuf;

/// Error of a command, with the file or program affected and a remedy where there is one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A file could not be read or written.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// Verb for the message: "reading", "writing", …
        action: &'static str,
        /// Path of the file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("could not start `{program}`: {source}; `make setup` installs what is missing")]
    NotStarted {
        /// The program's name.
        program: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A program exited with a failure; it has printed the reason itself.
    #[error("`{command}` failed ({status})")]
    CommandFailed {
        /// The whole command line.
        command: String,
        /// Its exit status in words.
        status: String,
    },
    /// The output of a program or a document could not be parsed.
    #[error("could not understand what {what} says: {detail}")]
    Malformed {
        /// Name of the program or document.
        what: String,
        /// Position and cause of the error.
        detail: String,
    },
    /// A check failed, or an argument is invalid; the text is the message.
    #[error("{0}")]
    Found(String),
}

impl Failure {
    /// Returns a closure for `map_err` that wraps an I/O error on `path`.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }

    /// Creates the error for a document that could not be parsed.
    pub(crate) fn malformed(what: impl Into<String>, detail: impl ToString) -> Self {
        Self::Malformed { what: what.into(), detail: detail.to_string() }
    }
}

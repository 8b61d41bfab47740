//! What the operating system refused, with the operation that was tried.

use rustix::io::Errno;

/// A system call failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot {operation}: {errno}")]
pub struct OsError {
    /// What was tried, to read after "cannot".
    pub operation: String,
    /// What the kernel answered.
    pub errno: Errno,
}

impl OsError {
    /// An error of `operation`, which reads after "cannot".
    pub fn new(operation: impl Into<String>, errno: Errno) -> Self {
        OsError { operation: operation.into(), errno }
    }

    /// From an error of the standard library; one without an errno becomes `EIO`.
    pub fn from_io(operation: impl Into<String>, error: &std::io::Error) -> Self {
        OsError { operation: operation.into(), errno: Errno::from_io_error(error).unwrap_or(Errno::IO) }
    }
}

/// Adds the operation to a system call's result.
pub trait Context<T> {
    /// Names what was tried, to read after "cannot".
    ///
    /// # Errors
    /// The error of the call, as [`OsError`].
    fn context(self, operation: &str) -> Result<T, OsError>;
}

impl<T> Context<T> for rustix::io::Result<T> {
    fn context(self, operation: &str) -> Result<T, OsError> {
        self.map_err(|errno| OsError::new(operation, errno))
    }
}

impl<T> Context<T> for std::io::Result<T> {
    fn context(self, operation: &str) -> Result<T, OsError> {
        self.map_err(|error| OsError::from_io(operation, &error))
    }
}

//! Error of the operating system, with the operation that failed.

use rustix::io::Errno;

/// Error of a failed system call.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot {operation}: {errno}")]
pub struct OsError {
    /// Name of the operation, phrased to follow "cannot".
    pub operation: String,
    /// The kernel's error number.
    pub errno: Errno,
}

impl OsError {
    /// Creates an error of `operation`, phrased to follow "cannot".
    pub fn new(operation: impl Into<String>, errno: Errno) -> Self {
        OsError { operation: operation.into(), errno }
    }

    /// Converts an error of the standard library; one without an error number becomes `EIO`.
    pub fn from_io(operation: impl Into<String>, error: &std::io::Error) -> Self {
        OsError { operation: operation.into(), errno: Errno::from_io_error(error).unwrap_or(Errno::IO) }
    }
}

/// Adds the operation to a system call's result.
pub trait Context<T> {
    /// Names the operation, phrased to follow "cannot".
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

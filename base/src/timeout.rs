//! Timeouts: everything that waits has one, and an operation may have another.

use core::time::Duration;

/// How long an operation waits where nothing else was asked for: longer than an emulated node on a busy host takes to start.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the operations of one thing wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperationTimeout {
    usual: Duration,
    once: Option<Duration>,
}

impl OperationTimeout {
    /// Each operation waits up to `usual`.
    #[must_use]
    pub const fn new(usual: Duration) -> Self {
        OperationTimeout { usual, once: None }
    }

    /// How long operations wait that nothing else is said of.
    #[must_use]
    pub const fn usual(&self) -> Duration {
        self.usual
    }

    /// The next operation waits up to `timeout`.
    #[inline]
    pub fn set_once(&mut self, timeout: Duration) {
        self.once = Some(timeout);
    }

    /// How long the operation waits that begins now.
    #[inline]
    pub fn take(&mut self) -> Duration {
        match self.once {
            None => self.usual,
            Some(timeout) => {
                self.once = None;
                timeout
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_timeout_is_for_one_operation() {
        let mut timeout = OperationTimeout::new(DEFAULT_TIMEOUT);
        assert_eq!(timeout.take(), DEFAULT_TIMEOUT);
        timeout.set_once(Duration::from_secs(1));
        timeout.set_once(Duration::ZERO);
        assert_eq!(timeout.take(), Duration::ZERO);
        assert_eq!([timeout.take(), timeout.usual()], [DEFAULT_TIMEOUT; 2]);
    }
}

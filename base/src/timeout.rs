//! Timeouts: a default for each object, which a single operation may override.

use core::time::Duration;

/// Default timeout of an operation: longer than an emulated node takes to start on a busy host.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeouts of a domain: for its own operations, and for those of the channels that it opens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainTimeouts {
    operation: Duration,
    channel: Duration,
}

impl Default for DomainTimeouts {
    fn default() -> Self {
        DomainTimeouts::new(DEFAULT_TIMEOUT)
    }
}

impl DomainTimeouts {
    /// Sets one `timeout` for all operations.
    #[must_use]
    pub const fn new(timeout: Duration) -> Self {
        DomainTimeouts { operation: timeout, channel: timeout }
    }

    /// Sets the timeout of the domain's own operations; channels keep theirs.
    #[must_use]
    pub const fn within(self, timeout: Duration) -> Self {
        DomainTimeouts { operation: timeout, channel: self.channel }
    }

    /// Returns the timeout of the domain's own operations.
    #[must_use]
    pub const fn operation(&self) -> Duration {
        self.operation
    }

    /// Returns the timeout of the operations of channels that are opened without their own.
    #[must_use]
    pub const fn channel(&self) -> Duration {
        self.channel
    }
}

/// Timeout of the operations on one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperationTimeout {
    default_timeout: Duration,
    once: Option<Duration>,
}

impl OperationTimeout {
    /// Creates a timeout with this default.
    #[must_use]
    pub const fn new(default_timeout: Duration) -> Self {
        OperationTimeout { default_timeout, once: None }
    }

    /// Returns the default timeout, used unless [`set_once`](Self::set_once) was called.
    #[must_use]
    pub const fn default_timeout(&self) -> Duration {
        self.default_timeout
    }

    /// Sets the timeout of the next operation only.
    #[inline]
    pub fn set_once(&mut self, timeout: Duration) {
        self.once = Some(timeout);
    }

    /// Returns the timeout of the operation that starts now. Consumes the value of
    /// [`set_once`](Self::set_once).
    #[inline]
    pub fn take(&mut self) -> Duration {
        match self.once {
            None => self.default_timeout,
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
    fn domain_timeout_does_not_change_channel_timeout() {
        let [second, minute] = [1, 60].map(Duration::from_secs);
        let timeouts = DomainTimeouts::new(second).within(minute);
        assert_eq!([timeouts.operation(), timeouts.channel()], [minute, second]);
        assert_eq!(DomainTimeouts::default().channel(), DEFAULT_TIMEOUT);
    }

    #[test]
    fn set_once_applies_to_one_operation() {
        let mut timeout = OperationTimeout::new(DEFAULT_TIMEOUT);
        assert_eq!(timeout.take(), DEFAULT_TIMEOUT);
        timeout.set_once(Duration::from_secs(1));
        timeout.set_once(Duration::ZERO);
        assert_eq!(timeout.take(), Duration::ZERO);
        assert_eq!([timeout.take(), timeout.default_timeout()], [DEFAULT_TIMEOUT; 2]);
    }
}

//! Timeouts: a default for each object, which one operation may override.

use core::time::Duration;

/// How long an operation waits by default: longer than an emulated node takes to start on a busy host.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The timeouts of a domain: of its own operations, and of those of the channels that it opens.
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
    /// Everything waits up to `timeout`.
    #[must_use]
    pub const fn new(timeout: Duration) -> Self {
        DomainTimeouts { operation: timeout, channel: timeout }
    }

    /// The domain's own operations wait up to `timeout`, and those of its channels as long as before.
    #[must_use]
    pub const fn within(self, timeout: Duration) -> Self {
        DomainTimeouts { operation: timeout, channel: self.channel }
    }

    /// How long an operation of the domain waits.
    #[must_use]
    pub const fn operation(&self) -> Duration {
        self.operation
    }

    /// How long an operation of a channel waits that the domain opens without a timeout of its own.
    #[must_use]
    pub const fn channel(&self) -> Duration {
        self.channel
    }
}

/// The timeout of the operations on one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperationTimeout {
    usual: Duration,
    once: Option<Duration>,
}

impl OperationTimeout {
    /// A default of `usual` for each operation.
    #[must_use]
    pub const fn new(usual: Duration) -> Self {
        OperationTimeout { usual, once: None }
    }

    /// The timeout of operations for which [`set_once`](Self::set_once) was not called.
    #[must_use]
    pub const fn usual(&self) -> Duration {
        self.usual
    }

    /// Makes the next operation, and only that one, wait up to `timeout`.
    #[inline]
    pub fn set_once(&mut self, timeout: Duration) {
        self.once = Some(timeout);
    }

    /// The timeout of the operation that starts now. Consumes what [`set_once`](Self::set_once) set.
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
    fn another_timeout_of_a_domain_is_not_its_channels() {
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
        assert_eq!([timeout.take(), timeout.usual()], [DEFAULT_TIMEOUT; 2]);
    }
}

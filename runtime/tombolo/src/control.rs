//! Control messages to the monitor, for crates that extend this one.
//!
//! Programs do not need this module. Crates that expose more functions of a monitor send requests themselves,
//! as `tombolo-admin` does to operate and observe machines. `interfaces/control` defines the messages and
//! documents the contents and the replies of requests.

use std::time::Duration;

pub use tombolo_control::{Reply, Request};

use crate::domain::Domain;
use crate::error::Error;
use crate::monitor::ANSWER_TIMEOUT;

/// Sends a request to the monitor and returns its reply. `timeout` is the time that the monitor may wait for
/// the subject of the request; it is added to the 30 seconds within which a monitor answers any request.
///
/// Descriptors in the reply are closed: objects that have some, such as channels and regions, are opened by
/// the functions of this crate.
///
/// # Errors
/// [`Error::Monitor`] if the monitor refuses the request, [`Error::TimedOut`], [`Error::MonitorLost`].
pub fn ask(domain: &Domain, request: Request, timeout: Duration) -> Result<Reply, Error> {
    domain.link.ask(request, timeout.saturating_add(ANSWER_TIMEOUT)).map(|(reply, _)| reply)
}

/// Waits up to `timeout` for the next output of a console that this domain has opened, and acknowledges it so
/// that the monitor sends more. Returns a [`Reply::Console`].
///
/// # Errors
/// [`Error::TimedOut`] if there was no output, [`Error::MonitorLost`].
pub fn console_output(domain: &Domain, timeout: Duration) -> Result<Reply, Error> {
    let output = domain.link.wait(timeout, "console output", |arrived| arrived.console.pop_front())?;
    if let Reply::Console { node, bytes, .. } = &output {
        let bytes = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        domain.link.notify(Request::ConsoleTaken { node: node.clone(), bytes })?;
    }
    Ok(output)
}

/// Waits up to `timeout` for the monitor to end.
///
/// # Errors
/// [`Error::TimedOut`] if it is still running.
pub fn wait_for_end(domain: &Domain, timeout: Duration) -> Result<(), Error> {
    match domain.link.wait(timeout, "the machine to stop", |_| None::<()>) {
        Err(Error::MonitorLost { .. }) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use tombolo_control::Fault;

    use super::*;
    use crate::testing::{LONG, Monitor};

    #[test]
    fn a_reply_is_returned_and_a_refusal_is_an_error() {
        let (domain, monitor) = Monitor::with_domain();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (request, _) = monitor.next_message();
                monitor.send_reply(request, Reply::Done, &[]);
                let (request, _) = monitor.next_message();
                let fault = Fault::NoSuchNode { name: "mars".into(), available: vec!["host".into()] };
                monitor.send_reply(request, Reply::Failed { fault }, &[]);
            });
            let restart = |node: &str| Request::Restart { node: node.into(), force: false };
            assert_eq!(ask(&domain, restart("host"), LONG).unwrap(), Reply::Done);
            let error = ask(&domain, restart("mars"), LONG).unwrap_err();
            assert!(matches!(error, Error::Monitor(Fault::NoSuchNode { .. })), "{error}");
        });
    }

    #[test]
    fn console_output_is_acknowledged_when_it_is_taken() {
        let (domain, monitor) = Monitor::with_domain();
        let none = console_output(&domain, Duration::ZERO).unwrap_err();
        assert!(matches!(none, Error::TimedOut { .. }), "{none}");
        let output = Reply::Console { node: "arm0".into(), dropped: 2, bytes: b"booted".to_vec() };
        monitor.send_reply(0, output.clone(), &[]);
        assert_eq!(console_output(&domain, LONG).unwrap(), output);
        let (request, taken) = monitor.next_message();
        assert_eq!((request, taken), (0, Request::ConsoleTaken { node: "arm0".into(), bytes: 6 }));
    }

    #[test]
    fn the_end_of_a_monitor_is_awaited() {
        let (domain, monitor) = Monitor::with_domain();
        let there = wait_for_end(&domain, Duration::ZERO).unwrap_err();
        assert!(matches!(there, Error::TimedOut { .. }), "{there}");
        drop(monitor);
        wait_for_end(&domain, LONG).unwrap();
    }
}

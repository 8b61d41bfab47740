//! `tombolo kill`

use std::time::Duration;

use clap::Args;
use tombolo::DomainId;
use tombolo_admin::{Machine, Signal};
use tombolo_cli_common::arguments::seconds;

use crate::context::Context;
use crate::failure::Failure;
use crate::signals;

/// Default grace period.
const GRACE: Duration = Duration::from_secs(2);

/// Ends domains, on all nodes
///
/// Each domain gets SIGTERM, and SIGKILL if it still runs after the grace period. Domains that it started end
/// with it. With --signal and without --grace it only gets that signal.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo kill 1.1.4                     SIGTERM, and SIGKILL after two seconds
  tombolo kill 1.1.4 0.1.7 --grace 0     kill two domains at once
  tombolo kill 1.1.4 --signal USR1       only send a signal")]
pub(crate) struct Options {
    /// Ids of domains, as `tombolo ps` shows them
    #[arg(required = true, value_name = "DOMAIN")]
    domains: Vec<DomainId>,

    /// The first signal, by name or number [default: TERM]
    #[arg(short, long, value_parser = signals::parse, value_name = "NAME|N")]
    signal: Option<u8>,

    /// The grace period until SIGKILL; 0 kills at once [default: 2]
    #[arg(short, long, value_parser = seconds, allow_negative_numbers = true, value_name = "SECONDS")]
    grace: Option<Duration>,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let (signal, grace) = order(options.signal, options.grace);
    let machine = Machine::of(&context.attach_running()?);
    let mut result = Ok(());
    for id in &options.domains {
        // Continue with the others if one has gone.
        let killed = machine.kill(*id, Signal(signal), grace).map_err(Failure::from);
        result = result.and(killed);
    }
    result
}

/// Returns the signal to send, and the grace period until SIGKILL.
fn order(signal: Option<u8>, grace: Option<Duration>) -> (u8, Duration) {
    match (signal, grace) {
        (_, Some(Duration::ZERO)) => (signals::KILL, Duration::ZERO),
        (None, grace) => (signals::TERM, grace.unwrap_or(GRACE)),
        (Some(signal), Some(grace)) => (signal, grace),
        (Some(signal), None) => (signal, Duration::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_alone_does_not_kill() {
        assert_eq!(order(None, None), (15, GRACE));
        assert_eq!(order(None, Some(Duration::ZERO)), (9, Duration::ZERO));
        assert_eq!(order(Some(2), Some(Duration::ZERO)), (9, Duration::ZERO));
        assert_eq!(order(Some(10), None), (10, Duration::MAX));
        assert_eq!(order(Some(2), Some(GRACE)), (2, GRACE));
    }
}

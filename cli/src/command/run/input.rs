//! Standard input, passed on to the first domain of a job.

use std::io::{self, ErrorKind, IsTerminal, Read};

use tombolo::Child;

/// How much is passed on at a time.
const PIECE_BYTES: usize = 8 << 10;

/// Whether the standard input is there for us: reading from a terminal in the background would stop the job.
pub(super) fn is_ours() -> bool {
    let input = io::stdin();
    if !input.is_terminal() {
        return true;
    }
    rustix::termios::tcgetpgrp(&input).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Passes the standard input on, to its end, from a thread of its own. The thread is not waited for: it may be
/// in a read that never ends.
pub(super) fn forward_to(child: Child) {
    std::thread::spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let length = match io::stdin().lock().read(&mut piece) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // What cannot be read is at its end.
                Err(_) => 0,
            };
            // An empty piece ends it. If the domain has ended, whoever waits for it says so.
            if child.input(&piece[..length]).is_err() || length == 0 {
                return;
            }
        }
    });
}

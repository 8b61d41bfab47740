//! Forwards standard input to domains of a job.

use std::io::{self, ErrorKind, IsTerminal, Read};
use std::time::Duration;

use tombolo::Child;

/// Time that a domain may leave its input unread.
const READ_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Number of bytes forwarded at a time.
const PIECE_BYTES: usize = 8 << 10;

/// Returns whether this process may read standard input: reading from a terminal in the background would stop
/// the job.
pub fn is_ours() -> bool {
    let input = io::stdin();
    if !input.is_terminal() {
        return true;
    }
    rustix::termios::tcgetpgrp(&input).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Forwards standard input until its end, from a separate thread. The thread is not joined: it may be in a
/// read that never returns.
pub fn forward_to(child: Child) {
    std::thread::spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let length = read(&mut piece);
            // An empty piece marks the end. The end of the domain is reported elsewhere.
            if child.input(&piece[..length], READ_TIMEOUT).is_err() || length == 0 {
                return;
            }
        }
    });
}

/// Forwards standard input to all of them, at the pace of the slowest. Domains that have ended are skipped.
pub fn forward_to_all(mut children: Vec<Child>) {
    std::thread::spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        while !children.is_empty() {
            let length = read(&mut piece);
            children.retain(|child| child.input(&piece[..length], READ_TIMEOUT).is_ok() && length > 0);
        }
    });
}

/// Reads a piece. Returns 0 at the end, and on errors.
fn read(piece: &mut [u8]) -> usize {
    loop {
        match io::stdin().lock().read(piece) {
            Ok(length) => return length,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return 0,
        }
    }
}

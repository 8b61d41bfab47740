//! Standard input, passed on to domains of a job.

use std::io::{self, ErrorKind, IsTerminal, Read};
use std::time::Duration;

use tombolo::Child;

/// How long a domain may leave its input unread.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// How much is passed on at a time.
const PIECE_BYTES: usize = 8 << 10;

/// Returns whether the standard input is there for us: reading from a terminal in the background would stop
/// the job.
pub fn is_ours() -> bool {
    let input = io::stdin();
    if !input.is_terminal() {
        return true;
    }
    rustix::termios::tcgetpgrp(&input).is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Passes the standard input on, to its end, from a thread of its own. The thread is not waited for: it may
/// be in a read that never ends.
pub fn forward_to(child: Child) {
    std::thread::spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let length = read(&mut piece);
            // An empty piece ends it. The end of the domain is reported elsewhere.
            if child.input(&piece[..length], PATIENCE).is_err() || length == 0 {
                return;
            }
        }
    });
}

/// Passes the standard input on to all of them, the same to each, as fast as the slowest takes it. One that
/// has ended is left out.
pub fn forward_to_all(mut children: Vec<Child>) {
    std::thread::spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        while !children.is_empty() {
            let length = read(&mut piece);
            children.retain(|child| child.input(&piece[..length], PATIENCE).is_ok() && length > 0);
        }
    });
}

/// Reads a piece; nothing at the end, and of what cannot be read.
fn read(piece: &mut [u8]) -> usize {
    loop {
        match io::stdin().lock().read(piece) {
            Ok(length) => return length,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return 0,
        }
    }
}

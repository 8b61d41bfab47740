//! Signals by name and number.

use signal_hook::consts::signal;
use signal_hook::low_level::signal_name;

/// Hang-up of the terminal.
pub const HUP: u8 = signal::SIGHUP as u8;
/// An interrupt from the keyboard.
pub const INT: u8 = signal::SIGINT as u8;
/// Request for a program to end.
pub const TERM: u8 = signal::SIGTERM as u8;
/// Kill, which a program cannot handle.
pub const KILL: u8 = signal::SIGKILL as u8;
/// Write to a pipe without a reader.
pub const PIPE: u8 = signal::SIGPIPE as u8;

/// Greatest signal number of Linux.
const MAX: u8 = 64;

/// Returns the name of a signal: `SIGTERM`, or `signal 40` for one without.
pub fn name(number: u8) -> String {
    signal_name(i32::from(number)).map_or_else(|| format!("signal {number}"), str::to_owned)
}

/// Parses a signal given by a user: `TERM`, `SIGTERM`, `term` or `15`.
pub fn parse(text: &str) -> Result<u8, String> {
    let wanted = text.to_ascii_uppercase();
    let wanted = wanted.strip_prefix("SIG").unwrap_or(&wanted);
    let named = |number: &u8| {
        let name = signal_name(i32::from(*number));
        name.is_some_and(|name| name.strip_prefix("SIG") == Some(wanted))
    };
    let number = match wanted.parse::<u8>() {
        Ok(number) => (1..=MAX).contains(&number).then_some(number),
        Err(_) => (1..=MAX).find(named),
    };
    number.ok_or_else(|| {
        format!("invalid signal '{text}'; use a name such as TERM, or a number from 1 to {MAX}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for text in ["TERM", "SIGTERM", "term", "15"] {
            assert_eq!(parse(text), Ok(15), "{text}");
        }
        assert_eq!(parse("USR1"), Ok(10));
        assert_eq!(parse("64"), Ok(64));
        for text in ["0", "65", "256", "-1", "SIG", "NOPE", ""] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!((name(9).as_str(), name(40).as_str()), ("SIGKILL", "signal 40"));
    }
}

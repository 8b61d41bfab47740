//! Arguments and environment variables of the program.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tombolo_control::{Order, StartOrder, Wire};
use tombolo_platform_bare::program;

/// Error for a variable that does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no such variable")]
pub struct NotPresent;

fn start() -> Option<StartOrder> {
    match Order::from_bytes(&program::start_order()) {
        Ok(Order::Start { order }) => Some(order),
        _ => None,
    }
}

/// Returns the program's name, then its arguments.
pub fn args() -> impl Iterator<Item = String> {
    let (name, arguments) =
        start().map_or_else(Default::default, |order| (order.program.name, order.program.arguments));
    core::iter::once(name).chain(arguments)
}

/// Returns the value of an environment variable.
///
/// # Errors
/// [`NotPresent`].
pub fn var(name: impl AsRef<str>) -> Result<String, NotPresent> {
    let variables: Vec<(String, String)> = start().map_or_else(Vec::new, |order| order.program.environment);
    // The last occurrence applies, as in programs that extend an inherited environment.
    let found = variables.iter().rev().find(|(key, _)| key == name.as_ref());
    found.map(|(_, value)| value.to_string()).ok_or(NotPresent)
}

//! Deliberate bugs, planted to check that the simulator finds them.
//!
//! [`canary!`](crate::canary!) is the constant `false` except in builds with `--cfg sim`, and even there a
//! bug is active only after a test calls `enable`.

/// Whether the deliberate bug `$name` is active. Always `false` without `--cfg sim`.
#[cfg(sim)]
#[macro_export]
macro_rules! canary {
    ($name:literal) => {
        $crate::canary::is_enabled($name)
    };
}

/// Whether the deliberate bug `$name` is active. Always `false` without `--cfg sim`.
#[cfg(not(sim))]
#[macro_export]
macro_rules! canary {
    ($name:literal) => {
        false
    };
}

#[cfg(sim)]
std::thread_local! {
    static ENABLED: std::cell::Cell<&'static str> = const { std::cell::Cell::new("") };
}

/// Activates the bug `name` for code that this thread runs from now on; an empty name deactivates it.
#[cfg(sim)]
pub fn enable(name: &'static str) {
    ENABLED.with(|enabled| enabled.set(name));
}

/// Returns whether the bug `name` is active on this thread.
#[cfg(sim)]
#[must_use]
pub fn is_enabled(name: &str) -> bool {
    ENABLED.with(|enabled| enabled.get() == name)
}

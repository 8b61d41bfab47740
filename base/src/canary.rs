//! Mistakes planted on purpose, to see whether a simulator finds them.
//!
//! [`canary!`](crate::canary!) is `false` at compile time but in builds with `--cfg sim`, and even there nothing is
//! planted until a test asks for it.

/// Whether the mistake of this name is planted: never, but in a simulator that looks for it.
#[cfg(sim)]
#[macro_export]
macro_rules! canary {
    ($name:literal) => {
        $crate::canary::is_planted($name)
    };
}

/// Whether the mistake of this name is planted: never, but in a simulator that looks for it.
#[cfg(not(sim))]
#[macro_export]
macro_rules! canary {
    ($name:literal) => {
        false
    };
}

#[cfg(sim)]
std::thread_local! {
    static PLANTED: std::cell::Cell<&'static str> = const { std::cell::Cell::new("") };
}

/// Plants one mistake in what this thread runs from now on; the empty name plants none.
#[cfg(sim)]
pub fn plant(name: &'static str) {
    PLANTED.with(|planted| planted.set(name));
}

/// Whether a mistake is planted.
#[cfg(sim)]
#[must_use]
pub fn is_planted(name: &str) -> bool {
    PLANTED.with(|planted| planted.get() == name)
}

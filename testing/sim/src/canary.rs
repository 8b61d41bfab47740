//! Canaries: mistakes planted in the code under test, to verify that the simulator finds them.

/// Canaries of builds with `--cfg sim`, and the number of seeds, from 1 on, within which each must be found.
pub const CANARIES: &[(&str, u64)] = &[
    ("ring publishes before it writes", 50),
    ("ring gives back too little", 50),
    ("hello is published in no order", 3000),
    ("doorbell is forgotten", 50),
    ("window lends twice", 50),
    ("core keeps the names of the dead", 50),
    ("core tells no parent of a death", 50),
    ("core hangs up no channel", 50),
    ("core reuses a generation", 200),
    ("core answers no wait that is over", 50),
    ("agent releases nothing", 50),
    ("agent forgets who left", 50),
    ("agent says at once that memory is let go", 50),
    ("core spares who does not let go", 1000),
    ("table answers before all have let go", 50),
    ("table frees what is mapped", 50),
    ("table hangs up no mapping", 50),
    ("table narrows no part", 50),
    ("table lets rights grow", 50),
    ("table changes what it refuses", 1000),
    ("table forgets what is mapped when it splits", 50),
    ("table gives a part back while it is mapped", 1000),
    ("core keeps what a refused start was to give", 50),
    ("core starts a program with some of what is given", 50),
    ("core lets what is taken up be taken back", 200),
    ("core leaves what it gave with who did not start", 100),
    ("bulk moves what is shared", 1000),
    ("bulk takes back at once", 1000),
    ("bulk leaves buffers with the dead", 1000),
    ("hub puts values back in the wrong order", 1000),
    ("hub unlocks for any client", 50),
    ("hub serves in order of arrival", 1000),
    ("hub does with one claim of two", 50),
    ("hub loses what was not claimed", 50),
    ("hub keeps the requests of the dead", 50),
    ("hub leaves blocks with the dead", 50),
    ("hub inherits no priority", 50),
    ("broadcast drops what others lack", 200),
    ("broadcast repairs nothing", 200),
    ("broadcast takes twice", 200),
    ("broadcast waits for a buffer", 200),
    ("broadcast hears the dead", 300),
    ("relay drops what finds no room", 50),
    ("relay awaits no room", 50),
    ("relay closes for who died", 200),
    ("relay takes each death for that of the end", 200),
];

/// Plants a canary in the code that this thread runs from now on. The empty name removes it.
///
/// # Errors
/// If there is no canary of this name, or the build has none.
pub fn enable(name: &str) -> Result<(), NoCanary> {
    let all = CANARIES.iter().chain(&crate::pages::CANARIES).chain(&crate::release::CANARIES);
    let known = all.map(|(known, _)| *known).find(|known| *known == name);
    match known {
        Some(known) => activation::enable(known),
        None if name.is_empty() => activation::enable(""),
        None => Err(NoCanary::Unknown(name.to_owned())),
    }
}

/// Error of a canary that cannot be planted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoCanary {
    /// There is no canary of that name.
    #[error("there is no canary '{0}'; `--canaries` tries all of them")]
    Unknown(String),
    /// This build contains no canaries.
    #[error("this build has no canaries: `cargo xtask sim` makes one that has")]
    NotBuilt,
}

#[cfg(sim)]
mod activation {
    use super::NoCanary;

    pub(super) fn enable(name: &'static str) -> Result<(), NoCanary> {
        tombolo_base::canary::enable(name);
        Ok(())
    }
}

#[cfg(not(sim))]
mod activation {
    use super::NoCanary;

    pub(super) fn enable(name: &'static str) -> Result<(), NoCanary> {
        if name.is_empty() { Ok(()) } else { Err(NoCanary::NotBuilt) }
    }
}

//! Command-line arguments of the peer.

use tombolo::ChannelOptions;

use crate::{Error, placement};

/// Shape of the measured rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Slot size in bytes: 32, 64 or 128. A message of 48 bytes fits in one of 64.
    pub slot_bytes: usize,
    /// Number of slots per ring, a power of two from 2 to 65,536.
    pub slots: u32,
    /// Whether slots are returned by a flag in them instead of by credit; requires coherent memory.
    pub used_flag: bool,
}

impl Default for Shape {
    /// Returns the default shape of channels.
    fn default() -> Self {
        Shape { slot_bytes: 64, slots: 64, used_flag: false }
    }
}

impl Shape {
    /// Returns the options of channels with such rings.
    ///
    /// # Errors
    /// The error of [`ChannelOptions`] for an invalid shape.
    pub fn options(self) -> Result<ChannelOptions, Error> {
        let options = ChannelOptions::default().slot_bytes(self.slot_bytes)?.slots(self.slots)?;
        Ok(if self.used_flag { options.used_flag() } else { options })
    }

    /// Returns the shape of channels that are opened only for their memory: the same slots, with room for the
    /// limit and for rings placed there.
    #[must_use]
    pub fn roomy(self) -> Shape {
        let least = placement::BYTES / 2 / self.slot_bytes.max(1);
        Shape { slots: self.slots.max(least as u32), ..self }
    }

    /// Returns the name of the rings' variant.
    #[must_use]
    pub fn variant_name(self) -> &'static str {
        if self.used_flag { "used-flag" } else { "epoch+credit" }
    }
}

/// Arguments of the program `bench-peer`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerArguments {
    /// Name of the channel to connect to.
    pub name: String,
    /// Shape of the rings.
    pub shape: Shape,
    /// Processor to which the peer is pinned, if any.
    pub cpu: Option<usize>,
}

impl PeerArguments {
    /// Encodes them as command-line arguments.
    #[must_use]
    pub fn to_arguments(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.shape.slot_bytes.to_string(),
            self.shape.slots.to_string(),
            self.shape.variant_name().to_owned(),
            self.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string()),
        ]
    }

    /// Parses what [`to_arguments`](Self::to_arguments) wrote.
    ///
    /// # Errors
    /// [`Error::Arguments`].
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<PeerArguments, Error> {
        let arguments: Vec<String> = arguments.into_iter().collect();
        Self::parse_all(&arguments).ok_or(Error::Arguments { found: arguments.join(" ") })
    }

    fn parse_all(arguments: &[String]) -> Option<PeerArguments> {
        let [name, slot_bytes, slots, variant, cpu] = arguments else { return None };
        let shape = |used_flag| {
            Some(Shape { slot_bytes: slot_bytes.parse().ok()?, slots: slots.parse().ok()?, used_flag })
        };
        let shape =
            [false, true].into_iter().filter_map(shape).find(|shape| shape.variant_name() == variant)?;
        let cpu = if cpu == "any" { None } else { Some(cpu.parse().ok()?) };
        Some(PeerArguments { name: name.clone(), shape, cpu })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_round_trip() {
        for (used_flag, cpu) in [(false, None), (true, Some(3))] {
            let shape = Shape { used_flag, slots: 1024, ..Shape::default() };
            let arguments = PeerArguments { name: "bench/1".into(), shape, cpu };
            assert_eq!(PeerArguments::parse(arguments.to_arguments()).expect("they are"), arguments);
        }
    }

    #[test]
    fn small_rings_are_measured_beside_the_limit_in_larger_memory() {
        for slot_bytes in [32, 64, 128] {
            let roomy = Shape { slot_bytes, slots: 2, used_flag: true }.roomy();
            assert_eq!((roomy.slot_bytes, roomy.used_flag), (slot_bytes, true));
            let memory = 2 * roomy.slots as usize * slot_bytes;
            assert!(roomy.options().is_ok() && memory >= placement::BYTES, "{roomy:?}");
        }
        let large = Shape { slots: 1024, ..Shape::default() };
        assert_eq!(large.roomy(), large);
    }

    #[test]
    fn other_arguments_are_refused() {
        for wrong in [
            vec![],
            vec!["name"],
            vec!["name", "64", "256", "nothing", "any"],
            vec!["name", "x", "256", "used-flag", "any"],
            vec!["name", "64", "256", "used-flag", "-1"],
        ] {
            let found = wrong.join(" ");
            let error = PeerArguments::parse(wrong.into_iter().map(str::to_owned)).expect_err("it is wrong");
            assert!(error.to_string().contains(&found), "{error}");
        }
    }
}

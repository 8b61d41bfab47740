//! The Rust types of declared types.

use tombolo_interface::stands_for;

use crate::capabilities::{self, CapabilityIdView, ExtentView, RegionIdView, RightsView};
use crate::{CapabilityId, Extent, RegionId, Rights};

stands_for! {
    RegionIdView<'m>: capabilities::RegionId as RegionId;
    |id| capabilities::RegionId { bits: id.to_bits() },
    |id| RegionId::from_bits(id.bits),
}

stands_for! {
    CapabilityIdView<'m>: capabilities::CapabilityId as CapabilityId;
    |id| capabilities::CapabilityId { number: id.0 },
    |id| Some(CapabilityId(id.number)),
}

stands_for! {
    RightsView<'m>: capabilities::Rights as Rights;
    |rights| capabilities::Rights { bits: rights.bits() },
    |rights| Rights::from_bits(rights.bits),
}

stands_for! {
    ExtentView<'m>: capabilities::Extent as Extent;
    |extent| capabilities::Extent { offset_bytes: extent.offset_bytes, length_bytes: extent.length_bytes },
    |extent| Some(Extent { offset_bytes: extent.offset_bytes, length_bytes: extent.length_bytes }),
}

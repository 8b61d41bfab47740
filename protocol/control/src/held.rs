//! The Rust types of declared types, and their defaults.

use alloc::string::String;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use tombolo_base::coherence::{Caches, Evictions};
use tombolo_base::{ChannelId, NodeId};
use tombolo_interface::stands_for;
use tombolo_link::{ChannelConfig, Side, TransportKind};
use tombolo_ring::{SlotSize, Variant};

use crate::machine::{
    self, ChannelConfigView, ChannelIdView, CpuPlacement, Isa, NodeIdView, NodeKind, ProgramSpec, Target,
    WindowCachesView,
};

stands_for! {
    NodeIdView<'m>: machine::NodeId as NodeId;
    |id| machine::NodeId { number: id.0 },
    |id| Some(NodeId(id.number)),
}

stands_for! {
    ChannelIdView<'m>: machine::ChannelId as ChannelId;
    |id| machine::ChannelId { number: id.0 },
    |id| Some(ChannelId(id.number)),
}

stands_for! {
    Isa: Isa as tombolo_base::Isa;
    |isa| Isa(isa.code()),
    |isa| tombolo_base::Isa::from_code(isa.0),
}

stands_for! {
    Target: Target as tombolo_base::Target;
    |target| Target(target.code()),
    |target| tombolo_base::Target::from_code(target.0),
}

type DeclaredTransport = machine::TransportKind;

stands_for! {
    DeclaredTransport: DeclaredTransport as TransportKind;
    |kind| match kind {
        TransportKind::Shm => DeclaredTransport::Shm,
        TransportKind::Window => DeclaredTransport::Window,
        TransportKind::Socket => DeclaredTransport::Socket,
    },
    |kind| Some(match kind {
        DeclaredTransport::Shm => TransportKind::Shm,
        DeclaredTransport::Window => TransportKind::Window,
        DeclaredTransport::Socket => TransportKind::Socket,
    }),
}

type DeclaredSide = machine::Side;

stands_for! {
    DeclaredSide: DeclaredSide as Side;
    |side| match side {
        Side::A => DeclaredSide::A,
        Side::B => DeclaredSide::B,
    },
    |side| Some(match side {
        DeclaredSide::A => Side::A,
        DeclaredSide::B => Side::B,
    }),
}

stands_for! {
    ChannelConfigView<'m>: machine::ChannelConfig as ChannelConfig;
    |config| machine::ChannelConfig {
        slot_bytes: config.slot.bytes() as u16,
        slots: config.slots,
        variant: match config.variant {
            Variant::EpochCredit => machine::Variant::EpochCredit,
            Variant::UsedFlag => machine::Variant::UsedFlag,
        },
    },
    |config| {
        let variant = match config.variant {
            machine::Variant::EpochCredit => Variant::EpochCredit,
            machine::Variant::UsedFlag => Variant::UsedFlag,
        };
        ChannelConfig::new(SlotSize::from_bytes(config.slot_bytes.into())?, config.slots, variant).ok()
    },
}

stands_for! {
    WindowCachesView<'m>: machine::WindowCaches as Caches;
    |caches| match caches {
        Caches::Processor => machine::WindowCaches { emulated: false, seed: 0, evict_one_in: 0 },
        Caches::Emulated(evictions) => machine::WindowCaches {
            emulated: true,
            seed: evictions.seed,
            evict_one_in: evictions.one_in.map_or(0, NonZeroU32::get),
        },
    },
    |caches| Some(match caches.emulated {
        false => Caches::Processor,
        true => Caches::Emulated(Evictions {
            seed: caches.seed,
            one_in: NonZeroU32::new(caches.evict_one_in),
        }),
    }),
}

impl CpuPlacement {
    /// Highest real-time priority of a program.
    pub const MAX_PRIORITY: u8 = 99;
    /// Maximum number of processors that can be listed.
    pub const MAX_CPUS: usize = machine::MAX_CPUS as usize;

    /// Returns a placement on any processor, without a real-time priority.
    #[must_use]
    pub const fn any() -> Self {
        CpuPlacement { cpus: Vec::new(), real_time_priority: 0 }
    }
}

impl ProgramSpec {
    /// Describes a program called `name`, without arguments, variables, directory and input, on any
    /// processor.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        ProgramSpec {
            name: name.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: String::new(),
            stdin: false,
            cpus: CpuPlacement::any(),
            side: None,
        }
    }
}

impl NodeKind {
    /// Returns the name of the kind in machine files and output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            NodeKind::Host => "host",
            NodeKind::User => "user",
            NodeKind::Vm => "vm",
            NodeKind::Bare => "bare",
            NodeKind::Attached => "attached",
        }
    }
}

impl core::fmt::Display for NodeKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.name())
    }
}

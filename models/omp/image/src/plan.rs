//! Address assignment: one plan for all builds, computed from the contents of each.
//!
//! A **slot** is the address range of one function or variable. It is as large as the largest build of it,
//! starts on a cache line, and contains nothing else in any build. Functions and variables that only some
//! builds have get slots too, so that no address has two meanings. Linkers merge unnamed constants as they
//! like: each build has a range for its own, and holds a copy of the others'.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use tombolo_base::Isa;

use crate::input::{Area, Key};

/// Start address of programs: above the range that a kernel keeps free at the bottom, below all addresses
/// that it assigns itself, so that neither an emulator nor a host with address randomization moves the
/// program.
pub const BASE: u64 = 0x100_0000;

/// Size of what precedes the first function: the file's headers, and the code that runs before and after
/// `main`.
const ELF_HEADER_BYTES: u64 = 0x1000;

/// Largest page size of any supported processor.
pub const PAGE_BYTES: u64 = 0x1_0000;

/// Alignment of slots: a cache line, which prevents false sharing.
const LINE_BYTES: u64 = 64;

/// Space for code that linkers add: veneers for long branches and for processor errata.
const VENEER_BYTES: u64 = 0x1_0000;

/// Range of a direct call on aarch64.
const CODE_MAX_BYTES: u64 = 1 << 27;

/// Upper limit of programs: x86-64 code uses 31-bit addresses.
const ADDRESS_LIMIT: u64 = 0x7fff_0000;

/// Size of the blocks, in bytes, at whose ends some processors mishandle certain instructions: see
/// [`SlotRequest::erratum_offsets`].
const BLOCK_BYTES: u64 = 0x1000;

/// Offsets of the last two instructions of a block.
const BLOCK_END_OFFSETS: [u64; 2] = [BLOCK_BYTES - 8, BLOCK_BYTES - 4];

/// Section that needs a slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlotRequest {
    /// Identity of the section in all builds.
    pub key: Key,
    /// Area that it belongs to.
    pub area: Area,
    /// Size, in bytes.
    pub size: u64,
    /// Alignment in bytes, a power of two.
    pub align: u64,
    /// Offsets of instructions that must not be among the last two of a 4 KiB block: see
    /// [`crate::input::Section::erratum_offsets`].
    pub erratum_offsets: Vec<u64>,
}

/// Space that a build needs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Demand {
    /// Sections that need slots.
    pub sections: Vec<SlotRequest>,
    /// Upper bound of the size of unnamed constants, in bytes.
    pub unnamed_bytes: u64,
    /// Upper bound of the size of unwind tables, in bytes.
    pub unwinding_bytes: u64,
    /// Upper bound of the size of linker-generated sections, in bytes.
    pub linker_bytes: u64,
}

/// Address range of one function or variable in all builds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Address of the slot; for a thread-local, its offset in the thread-local block.
    pub address: u64,
    /// Size of the largest build, in bytes.
    pub size: u64,
    /// Builds that have it.
    pub isas: Vec<Isa>,
}

/// Half-open range of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// Address behind the last byte.
    pub end: u64,
}

impl Range {
    /// Length of the range, in bytes.
    #[must_use]
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Returns whether the range is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// Address of each function and variable, the same in all builds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Slots by area and key. The same key may occur in two areas.
    pub slots: BTreeMap<(Area, Key), Slot>,
    /// Ranges of the areas, indexed by [`Area`].
    pub areas: [Range; Area::ALL.len()],
    /// Ranges of each build's unnamed constants, in the order of builds.
    pub unnamed: Vec<(Isa, Range)>,
    /// Range of the unwind tables.
    pub unwinding: Range,
    /// Range of linker-generated sections.
    pub linker: Range,
    /// Pages that hold the program's variables and nothing else.
    pub shared: Range,
}

/// Errors of planning: something does not fit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    /// The code exceeds the range of calls.
    #[error("its code takes {bytes} bytes, and calls on aarch64 reach {CODE_MAX_BYTES}")]
    Code {
        /// Size of the program's part, in bytes.
        bytes: u64,
    },
    /// No address suits a function.
    #[error("{name} cannot be placed so that it avoids erratum 843419 of Cortex-A53: make it shorter")]
    NoPlace {
        /// Symbol of the function.
        name: String,
    },
    /// The program exceeds the range of addresses in code.
    #[error("its code and data take {bytes} bytes, and {} is the most: allocate large arrays with malloc", ADDRESS_LIMIT - BASE)]
    TooLarge {
        /// Size of the program's part, in bytes.
        bytes: u64,
    },
}

impl Plan {
    /// Computes a plan from the demand of each build.
    ///
    /// # Errors
    /// [`PlanError`] if the program does not fit.
    pub fn new(demands: &[(Isa, Demand)]) -> Result<Plan, PlanError> {
        let mut plan = Plan {
            slots: BTreeMap::new(),
            areas: [Range::default(); Area::ALL.len()],
            unnamed: Vec::new(),
            unwinding: Range::default(),
            linker: Range::default(),
            shared: Range::default(),
        };
        let most = |of: fn(&Demand) -> u64| demands.iter().map(|(_, demand)| of(demand)).max().unwrap_or(0);
        let mut at = plan.assign_slots(Area::Code, demands, BASE + ELF_HEADER_BYTES)?;
        let code = plan.area(Area::Code);
        if code.len() > CODE_MAX_BYTES - VENEER_BYTES {
            return Err(PlanError::Code { bytes: code.len() });
        }
        at = plan.assign_slots(Area::Constants, demands, page_align(at.saturating_add(VENEER_BYTES)))?;
        for (isa, demand) in demands {
            let range = reserve(at, demand.unnamed_bytes)?;
            plan.unnamed.push((*isa, range));
            at = range.end;
        }
        // The linker generates the index, eight bytes for each function; a function's unwind entry is longer
        // than that.
        plan.unwinding =
            reserve(at, most(|demand| demand.unwinding_bytes).saturating_mul(2).saturating_add(64))?;
        at = page_align(plan.unwinding.end);
        // Offsets of thread-locals are relative to the start of their block.
        let block = at;
        at = plan.assign_slots(Area::ThreadData, demands, block)?;
        let zeros = at;
        plan.assign_slots(Area::ThreadZeros, demands, zeros)?;
        plan.linker = reserve(at, most(|demand| demand.linker_bytes).saturating_add(0x1000))?;
        at = page_align(plan.linker.end);
        at = plan.assign_slots(Area::PrivateData, demands, at)?;
        at = plan.assign_slots(Area::PrivateZeros, demands, at)?;
        let shared = page_align(at);
        at = plan.assign_slots(Area::SharedData, demands, shared)?;
        at = plan.assign_slots(Area::SharedZeros, demands, at)?;
        plan.shared = Range { start: shared, end: page_align(at) };
        check_limit(plan.shared.end)?;
        for ((area, _), slot) in &mut plan.slots {
            if matches!(area, Area::ThreadData | Area::ThreadZeros) {
                slot.address -= block;
            }
        }
        Ok(plan)
    }

    /// Returns the range of an area.
    #[must_use]
    pub fn area(&self, area: Area) -> Range {
        self.areas[area as usize]
    }

    /// Returns the start address of the thread-local block.
    #[must_use]
    pub fn thread_block(&self) -> u64 {
        self.area(Area::ThreadData).start
    }

    /// Returns the slot of a section.
    #[must_use]
    pub fn slot(&self, area: Area, key: &Key) -> Option<&Slot> {
        self.slots.get(&(area, key.clone()))
    }

    /// SHA-256 of all slots and their contents' keys.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for ((area, key), slot) in &self.slots {
            let text = format!("{area:?} {key:?}");
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
            hash.update(slot.address.to_le_bytes());
            hash.update(slot.size.to_le_bytes());
        }
        for range in
            self.areas.iter().chain(self.unnamed.iter().map(|(_, range)| range)).chain([&self.shared])
        {
            hash.update(range.start.to_le_bytes());
            hash.update(range.end.to_le_bytes());
        }
        hash.finalize().into()
    }

    /// Assigns slots to the sections of an area, from `start` on; those that all builds have come first.
    /// Returns the end of the area.
    fn assign_slots(&mut self, area: Area, demands: &[(Isa, Demand)], start: u64) -> Result<u64, PlanError> {
        let mut requests: BTreeMap<&Key, Vec<(Isa, &SlotRequest)>> = BTreeMap::new();
        // In the order of the first build, which is the order of the sources.
        let mut order: Vec<&Key> = Vec::new();
        for (isa, demand) in demands {
            for place in demand.sections.iter().filter(|place| place.area == area) {
                let builds = requests.entry(&place.key).or_default();
                if builds.is_empty() {
                    order.push(&place.key);
                }
                builds.push((*isa, place));
            }
        }
        order.sort_by_key(|key| requests[key].len() < demands.len());
        let mut at = start;
        for key in order {
            let Some(builds) = requests.remove(key) else { continue };
            let most =
                |of: fn(&SlotRequest) -> u64| builds.iter().map(|(_, place)| of(place)).max().unwrap_or(0);
            let align = most(|place| place.align).max(LINE_BYTES);
            let size = most(|place| place.size);
            let mut address = align_up(at, align)?;
            let mut tries = 0;
            while builds.iter().any(|(_, place)| place.hits_erratum(address)) {
                address = align_up(address + 1, align)?;
                tries += 1;
                if tries > BLOCK_BYTES / LINE_BYTES {
                    return Err(PlanError::NoPlace { name: key.name().to_owned() });
                }
            }
            let slot = Slot { address, size, isas: builds.iter().map(|(isa, _)| *isa).collect() };
            // Two sections never share an address, even if they are empty.
            at = check_limit(slot.address.saturating_add(size.max(1)))?;
            self.slots.insert((area, key.clone()), slot);
        }
        let end = align_up(at, LINE_BYTES)?;
        self.areas[area as usize] = Range { start, end };
        Ok(end)
    }
}

impl SlotRequest {
    /// Returns whether one of its sensitive instructions would be at the end of a block.
    fn hits_erratum(&self, address: u64) -> bool {
        let at = |offset: &u64| address.wrapping_add(*offset) % BLOCK_BYTES;
        self.erratum_offsets.iter().any(|offset| BLOCK_END_OFFSETS.contains(&at(offset)))
    }
}

/// Rounds an address up to a page.
fn page_align(at: u64) -> u64 {
    at.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX)
}

fn align_up(at: u64, align: u64) -> Result<u64, PlanError> {
    check_limit(at.checked_next_multiple_of(align).unwrap_or(u64::MAX))
}

fn check_limit(at: u64) -> Result<u64, PlanError> {
    if at <= ADDRESS_LIMIT { Ok(at) } else { Err(PlanError::TooLarge { bytes: at.saturating_sub(BASE) }) }
}

fn reserve(at: u64, bytes: u64) -> Result<Range, PlanError> {
    let start = align_up(at, LINE_BYTES)?;
    Ok(Range { start, end: align_up(start.saturating_add(bytes), LINE_BYTES)? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slot_request(name: &str, area: Area, size: u64, align: u64) -> SlotRequest {
        SlotRequest { key: Key::Global(name.to_owned()), area, size, align, erratum_offsets: Vec::new() }
    }

    fn demand() -> impl Strategy<Value = Demand> {
        let place =
            (0_u8..40, 0..Area::ALL.len(), 0_u64..5000, 0_u32..10, prop::collection::vec(0_u64..1250, 0..4));
        let sections = prop::collection::vec(place, 0..60);
        (sections, 0_u64..9000, 0_u64..9000, 0_u64..9000).prop_map(
            |(sections, unnamed, unwinding, linker)| {
                let mut seen = std::collections::BTreeSet::new();
                Demand {
                    sections: sections
                        .into_iter()
                        .map(|(name, area, size, align, words)| SlotRequest {
                            erratum_offsets: words.into_iter().map(|word| word * 4).collect(),
                            ..slot_request(&format!("f{name}"), Area::ALL[area], size, 1 << align)
                        })
                        .filter(|place| seen.insert((place.key.clone(), place.area)))
                        .collect(),
                    unnamed_bytes: unnamed,
                    unwinding_bytes: unwinding,
                    linker_bytes: linker,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn slots_do_not_overlap_and_are_in_their_area(x86 in demand(), arm in demand()) {
            let demands = [(Isa::X86_64, x86), (Isa::Aarch64, arm)];
            let plan = Plan::new(&demands).unwrap();
            // All address ranges; thread-locals are counted at their initial values.
            let mut taken: Vec<Range> = plan.unnamed.iter().map(|(_, range)| *range).collect();
            taken.extend([plan.unwinding, plan.linker, Range { start: BASE, end: BASE + ELF_HEADER_BYTES }]);
            for ((area, _), slot) in &plan.slots {
                let block = if matches!(area, Area::ThreadData | Area::ThreadZeros) { plan.thread_block() } else { 0 };
                let start = block + slot.address;
                let range = plan.area(*area);
                prop_assert!(range.start <= start && start + slot.size <= range.end);
                prop_assert_eq!(start % LINE_BYTES, 0);
                // Zero-initialized thread-locals take no bytes there.
                if *area != Area::ThreadZeros {
                    taken.push(Range { start, end: start + slot.size.max(1) });
                }
            }
            taken.retain(|range| !range.is_empty());
            taken.sort_by_key(|range| range.start);
            for pair in taken.windows(2) {
                prop_assert!(pair[0].end <= pair[1].start, "{:?} {:?}", pair[0], pair[1]);
            }
            for (isa, demand) in &demands {
                for place in &demand.sections {
                    let slot = plan.slot(place.area, &place.key).unwrap();
                    prop_assert!(slot.size >= place.size && slot.isas.contains(isa));
                    prop_assert!(slot.address.is_multiple_of(place.align));
                    let thread = matches!(place.area, Area::ThreadData | Area::ThreadZeros);
                    prop_assert!(thread || !place.hits_erratum(slot.address));
                }
            }
            for at in [plan.shared.start, plan.shared.end, plan.area(Area::PrivateData).start, plan.thread_block()] {
                prop_assert_eq!(at % PAGE_BYTES, 0);
            }
            let data = plan.area(Area::SharedData);
            prop_assert!(plan.area(Area::PrivateZeros).end <= plan.shared.start && plan.shared.start == data.start);
            prop_assert!(plan.area(Area::SharedZeros).end <= plan.shared.end);
            prop_assert_eq!(Plan::new(&demands).unwrap().digest(), plan.digest());
        }
    }

    fn one(area: Area, size: u64) -> [(Isa, Demand); 1] {
        let sections = vec![slot_request("big", area, size, 16)];
        [(Isa::X86_64, Demand { sections, ..Demand::default() })]
    }

    #[test]
    fn oversized_programs_are_refused() {
        assert!(Plan::new(&one(Area::SharedZeros, 0x7d00_0000)).is_ok());
        let refused = Plan::new(&one(Area::SharedZeros, 0x7fff_0000)).unwrap_err().to_string();
        assert!(refused.contains("allocate large arrays with malloc"), "{refused}");
        assert!(matches!(Plan::new(&one(Area::SharedData, u64::MAX)), Err(PlanError::TooLarge { .. })));
        assert!(Plan::new(&one(Area::Code, CODE_MAX_BYTES - VENEER_BYTES - LINE_BYTES)).is_ok());
        assert!(matches!(Plan::new(&one(Area::Code, CODE_MAX_BYTES)), Err(PlanError::Code { .. })));
    }

    #[test]
    fn slot_has_the_largest_size_and_lists_its_builds() {
        let build = |name: &str, size| Demand {
            sections: vec![slot_request(name, Area::Code, 1, 1), slot_request("f", Area::Code, size, 1)],
            ..Demand::default()
        };
        let plan = Plan::new(&[(Isa::X86_64, build("only_x86", 10)), (Isa::Aarch64, build("only_arm", 100))])
            .unwrap();
        let slot = |name: &str| plan.slot(Area::Code, &Key::Global(name.to_owned())).unwrap();
        // Functions that both builds have come first.
        assert_eq!((slot("f").address, slot("f").size), (BASE + ELF_HEADER_BYTES, 100));
        assert_eq!(slot("only_x86").address, BASE + ELF_HEADER_BYTES + 128);
        assert_eq!(slot("only_arm").address, BASE + ELF_HEADER_BYTES + 192);
        assert_eq!(slot("only_arm").isas, [Isa::Aarch64]);
    }

    #[test]
    fn erratum_offsets_are_avoided() {
        let far = BLOCK_BYTES - ELF_HEADER_BYTES % BLOCK_BYTES;
        let place = |erratum_offsets| {
            let sections = vec![SlotRequest { erratum_offsets, ..slot_request("f", Area::Code, 0x3000, 16) }];
            Plan::new(&[(Isa::Aarch64, Demand { sections, ..Demand::default() })])
        };
        let address =
            |erratum_offsets| place(erratum_offsets).unwrap().slots.values().next().unwrap().address;
        let first = BASE + ELF_HEADER_BYTES;
        assert_eq!(address(vec![far - 12, 4, far + 64]), first);
        assert_eq!(address(vec![far - 8]), first + 64);
        assert_eq!(address(vec![far - 4, far - 4 - 64]), first + 128);
        let all_offsets = (0..0x1000).step_by(4).collect();
        assert!(matches!(place(all_offsets), Err(PlanError::NoPlace { .. })));
    }
}

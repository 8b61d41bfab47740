//! Results of laying out a program, for people and machines.

use serde::Serialize;

use crate::input::Area;
use crate::plan::Plan;
use crate::symbols::Agreement;
use crate::types::Refusal;

/// Area of a layout, for reports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct AreaReport {
    /// Name, such as `code` or `shared data`.
    pub name: &'static str,
    /// First address of the area.
    pub start: u64,
    /// Address behind its last byte.
    pub end: u64,
    /// Number of functions or variables in the area.
    pub slots: usize,
    /// Number of them that all builds have.
    pub in_all: usize,
}

/// Layout of a program and agreement of its builds. Keys are stable.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    /// Instruction sets of the builds, in order.
    pub isas: Vec<&'static str>,
    /// Version of the C library.
    pub library: String,
    /// Id that the builds of this image share with no other image, in hexadecimal.
    pub layout_id: String,
    /// Areas in the order of their addresses.
    pub areas: Vec<AreaReport>,
    /// Agreement of the builds' symbols.
    pub symbols: Agreement,
    /// Number of variables whose types were compared.
    pub variables_compared: usize,
    /// Number of frames of outlined functions that were compared.
    pub frames_compared: usize,
    /// Refusals that the user allowed.
    pub allowed: Vec<Refusal>,
}

impl Report {
    /// Describes the areas of a plan for `builds` builds.
    pub(crate) fn areas(plan: &Plan, builds: usize) -> Vec<AreaReport> {
        let area = |area: Area| {
            let slots = || plan.slots.iter().filter(move |((of, _), _)| *of == area);
            let range = plan.area(area);
            AreaReport {
                name: area.name(),
                start: range.start,
                end: range.end,
                slots: slots().count(),
                in_all: slots().filter(|(_, slot)| slot.isas.len() == builds).count(),
            }
        };
        Area::ALL.into_iter().map(area).collect()
    }
}

//! What came of laying a program out, for people and for machines.

use serde::Serialize;

use crate::input::Area;
use crate::plan::Plan;
use crate::symbols::Agreement;
use crate::types::Refusal;

/// An area of a layout.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct AreaReport {
    /// `code`, `shared data`, and so on.
    pub name: &'static str,
    /// Its first address.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// How many functions or variables are in it.
    pub slots: usize,
    /// How many of these all builds have.
    pub in_all: usize,
}

/// What a layout is, and how far builds agree. Keys are stable.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    /// The builds, in order.
    pub isas: Vec<&'static str>,
    /// The C library.
    pub library: String,
    /// What builds of this image have in common and no other, in hexadecimal.
    pub layout_id: String,
    /// The areas.
    pub areas: Vec<AreaReport>,
    /// How far symbols agree.
    pub symbols: Agreement,
    /// How many variables' types were compared.
    pub variables_compared: usize,
    /// How many frames of outlined functions were compared.
    pub frames_compared: usize,
    /// What would have been refused, but was allowed.
    pub allowed: Vec<Refusal>,
}

impl Report {
    /// The areas of a plan for `builds` builds.
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

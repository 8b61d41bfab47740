//! Statistics of pages for users: the hot pages, the places that ranks access, and the objects there.
//!
//! Each rank updates a record of the machine, `pages/JOB/NAME/RANK`, once a second if something changed. The
//! record vanishes with the rank. [`list`](report::list) reads those of all ranks;
//! [`judge`](hot_pages::hot_pages) combines them.

pub(crate) mod fault_samples;
pub(crate) mod hot_pages;
pub(crate) mod objects;
pub(crate) mod report;
pub(crate) mod reporter;

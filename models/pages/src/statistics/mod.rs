//! What happened to pages, for people: the hot ones, which places of them the ranks access, and what lies
//! there.
//!
//! Each rank sets a record of the machine, `pages/JOB/NAME/RANK`, once a second if something changed. It
//! vanishes with the rank. [`list`](report::list) reads those of all ranks; [`judge`](judge::hot) puts them
//! together.

pub(crate) mod judge;
pub(crate) mod objects;
pub(crate) mod report;
pub(crate) mod reporter;
pub(crate) mod touched;

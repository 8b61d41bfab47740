//! Teams of workers: the semantics of OpenMP's constructs.
//!
//! All data that a team shares is in one [store](primitives::store), at addresses that are valid for all
//! workers, and workers wait only on words in it. So the workers can be threads of one process, or processes
//! with their own address spaces; only [`team::root::StartWorker`] differs.
//!
//! The interface is that of the constructs, not of a compiler. The functions that GCC calls are in the crate
//! `tombolo-gomp`.
//!
//! | folder | what it is |
//! |---|---|
//! | [`job`] | a job's lifetime: its environment, the start of processes and workers, the report |
//! | [`device`] | regions and data of `target` constructs on other nodes |
//! | [`constructs`] | what each construct does |
//! | [`team`] | the records of threads, teams, tasks and constructs that share work |
//! | [`primitives`] | the system, shared memory, locks, sleeping and waking, nodes |
//!
//! A module uses only modules of its own folder and of the folders below it in this table; dependency cycles
//! have at most three modules (`cargo xtask tidy`).

pub mod constructs;
pub mod device;
pub mod job;
pub mod primitives;
pub mod team;

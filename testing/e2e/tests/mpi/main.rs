//! MPI: compiler wrappers, jobs and their ends.

mod ends;
mod mpicc;
mod mpirun;
mod programs;

//! MPI: compilers, jobs and how they end.

mod ends;
mod mpicc;
mod mpirun;
mod programs;

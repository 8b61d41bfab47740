//! OpenMP with teams over unlike nodes. On the host alone: the program `kit`.

mod balance;
mod leave;
mod migrate;
mod nodes;
mod one_process;
mod pages;
mod pthreads;
mod skew;
mod target;
mod threads;

//! OpenMP teams over unlike nodes. Tests on the host alone are in the program `kit`.

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

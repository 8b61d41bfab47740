//! One process to the program, whichever node its threads run on.
//!
//! Each node of a job has a process, but the program is one: its number, files, folder, children, signals and
//! its end are those of the process in which it began. The C library is linked into each build, so functions
//! of it that concern the process are replaced (`--wrap`): in a worker's process they are called in the
//! program's. `models/omp/gomp/forwarded.txt` lists them; in the run-time's own archive they keep the C
//! library's functions, because the run-time has descriptors of its own on each node (`cargo xtask kit`).

pub mod calls;
pub mod end;
pub mod environment;
pub mod files;
pub mod forward;
pub mod handlers;
pub mod identity;
pub mod interrupts;
pub mod signals;
pub mod stdio;

use self::forward::Call;

/// Has this process make calls for others; three of them are about threads.
pub(crate) fn serve(join: Call, kill: Call, cancel: Call) {
    let own: [Call; forward::OWN] = [
        identity::serve_getpid,
        files::serve_open,
        files::serve_openat,
        files::serve_fcntl,
        files::serve_pipe2,
        files::serve_fstatat,
        stdio::serve_fflush,
        end::serve_exit,
        end::serve_exit_at_once,
        handlers::serve_sigaction,
        join,
        kill,
        cancel,
        interrupts::serve_interrupt,
    ];
    forward::serve(own, calls::CALLS);
}

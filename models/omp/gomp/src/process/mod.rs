//! Presents one process to the program, on all nodes that its threads run on.
//!
//! Each node of a job has a process, but the program is one: its PID, files, current directory, children,
//! signals and exit are those of the process in which it began. The C library is linked into each build, so
//! its functions that concern the process are wrapped (`--wrap`): in a worker's process they are forwarded to
//! the program's. `models/omp/gomp/forwarded.txt` lists them. The run-time's own archive keeps calling the C
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

/// Registers the functions that serve forwarded calls in this process; three of them concern threads.
pub(crate) fn register(join: Call, kill: Call, cancel: Call) {
    let own: [Call; forward::OWN_CALLS] = [
        identity::serve_getpid,
        files::serve_open,
        files::serve_openat,
        files::serve_fcntl,
        files::serve_pipe2,
        files::serve_fstatat,
        stdio::serve_fflush,
        end::serve_exit,
        end::serve_immediate_exit,
        handlers::serve_sigaction,
        join,
        kill,
        cancel,
        interrupts::serve_interrupt,
    ];
    forward::register(own, calls::CALLS);
}

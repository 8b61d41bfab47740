//! Starting unmodified MPI programs on the nodes of a machine: jobs, the process manager interface, builds.

//! Reliable datagrams between the domains of a job: what a provider for libfabric is made of, without libfabric.

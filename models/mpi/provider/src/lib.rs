//! The provider `tombolo` for libfabric.

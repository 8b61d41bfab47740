//! The inside of a virtual machine.

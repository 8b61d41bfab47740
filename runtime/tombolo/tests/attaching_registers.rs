//! In a separate process, in which no other test has registered for barriers.

use tombolo::{Domain, Error};
use tombolo_platform::barrier;

#[test]
fn attaching_registers_for_barriers_before_there_are_threads_and_channels() {
    assert!(!barrier::is_registered());
    let attached = Domain::attach_to_machine("this-machine-is-not-up");
    assert!(matches!(attached, Err(Error::NoMachine { .. })), "{attached:?}");
    assert!(barrier::is_registered());
}

//! Memory that domains share by capabilities.

use tombolo_e2e::{Machine, MachineFile};

#[test]
fn memory_is_lent_by_a_program_of_the_host_to_another() {
    let machine = Machine::up(&MachineFile::host());
    let serving = machine.start_actor("host", &["region-lend", "lender", "memory:host"]);
    serving.wait_for("serving");
    let said = machine.actor("host", &["region-borrow", "lender"]).ok();
    assert!(said.contains("borrowed from host"), "{said}");
    let said = serving.finish().ok();
    assert!(said.contains("lent and returned"), "{said}");
    machine.down();
}

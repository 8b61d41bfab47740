//! Object files and linked programs read by `tombolo ompcc`.

use std::collections::HashMap;

use tombolo::Isa;
use tombolo_omp_image::input::{Object, Owner, Section};
use tombolo_omp_image::plan::{Demand, Plan};
use tombolo_omp_image::script::{Input, script};
use tombolo_omp_image::symbols::{Symbols, address_file_range, compare_symbols, section_file_range};
use tombolo_omp_image::types;

/// Reads the input as an object and as a linked program, and uses it as both builds of a two-target program.
pub(super) fn object(input: &[u8]) {
    if let Ok(object) = Object::read(input, "a.o", Owner::Program) {
        let demand = Demand {
            sections: object.sections.iter().map(Section::slot_request).collect(),
            unnamed_bytes: object.unnamed_bytes,
            unwinding_bytes: object.unwinding_bytes,
            linker_bytes: object.linker_bytes,
        };
        if let Ok(plan) = Plan::new(&[(Isa::X86_64, demand.clone()), (Isa::Aarch64, demand)]) {
            let inputs = [Input { file: "a.o", object: &object }];
            for has_run_time in [false, true] {
                assert!(script(&plan, Isa::Aarch64, &inputs, has_run_time).contains("SECTIONS"));
            }
        }
    }
    if let Ok(symbols) = Symbols::read(Isa::X86_64, input, &HashMap::new()) {
        let (agreement, refused) = compare_symbols(&[symbols.clone(), symbols]);
        assert!(agreement.common == agreement.equal && refused.is_empty());
    }
    for range in
        [section_file_range(input, ".text"), address_file_range(input, 0x100_0000, 32)].into_iter().flatten()
    {
        assert!(input.get(range).is_some());
    }
    let _ = types::compare([(Isa::X86_64, input), (Isa::Aarch64, input)]);
}

pub(super) fn object_seeds() -> Vec<Vec<u8>> {
    // `struct pair { int n; struct pair *next; double d[3]; } *list; static int calls; int f(void) { return
    // ++calls; }`, compiled by gcc 12 with -g -O1 -ffunction-sections -fdata-sections.
    vec![
        include_bytes!("../../seeds/object-x86_64.o").to_vec(),
        include_bytes!("../../seeds/object-aarch64.o").to_vec(),
    ]
}

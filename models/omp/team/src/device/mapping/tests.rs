use super::*;
use crate::primitives::store::SPAN;
use crate::primitives::sys;

fn store() -> &'static Store {
    let memory = sys::reserve((16 << 20) + SPAN).unwrap();
    let base = (memory as usize).next_multiple_of(SPAN) as *mut u8;
    // SAFETY: fresh memory that is never freed.
    unsafe { Store::format(base, 16 << 20) }
}

fn allocate(bytes: usize) -> *mut u8 {
    if bytes > 1 << 40 {
        return ptr::null_mut();
    }
    // SAFETY: any size is permitted.
    unsafe { libc::malloc(bytes) }.cast()
}

/// # Safety
/// The memory must come from `allocate`.
unsafe fn release(memory: *mut u8) {
    // SAFETY: guaranteed by the caller.
    unsafe { libc::free(memory.cast()) };
}

/// Test device with its context, with or without copies of everything.
struct Bench {
    table: Table,
    store: &'static Store,
    copies: bool,
    moved: (u64, u64),
}

impl Bench {
    fn new(copies: bool) -> Self {
        Self { table: Table::default(), store: store(), copies, moved: (0, 0) }
    }

    fn with_context<T>(&mut self, run: impl FnOnce(&mut MappingContext<'_>) -> T) -> T {
        let memory = DeviceAllocator { allocate, release };
        let (store, copies) = (self.store, self.copies);
        let mut with_context =
            MappingContext { table: &mut self.table, store, memory, copies, moved: (0, 0) };
        let result = run(&mut with_context);
        self.moved.0 += with_context.moved.0;
        self.moved.1 += with_context.moved.1;
        result
    }

    fn begin(&mut self, items: &mut [Item]) -> Result<(), MappingError> {
        // SAFETY: the tests pass valid memory of their own.
        self.with_context(|with_context| unsafe { with_context.begin(items) })
    }

    fn end(&mut self, items: &mut [Item]) {
        // SAFETY: as above.
        self.with_context(|with_context| unsafe { with_context.end(items) });
    }

    fn exit(&mut self, items: &mut [Item]) {
        // SAFETY: as above.
        self.with_context(|with_context| unsafe { with_context.exit(items) });
    }

    fn update(&mut self, items: &mut [Item]) -> Result<(), MappingError> {
        // SAFETY: as above.
        self.with_context(|with_context| unsafe { with_context.update(items) })
    }
}

fn map(data: &[u64], flags: u32) -> Item {
    Item::new(ItemAction::Map, data.as_ptr() as usize, size_of_val(data), flags)
}

fn on_device(item: &Item, index: usize) -> *mut u64 {
    (item.result as *mut u64).wrapping_add(index)
}

fn read(place: *mut u64) -> u64 {
    // SAFETY: the tests pass valid addresses of their own.
    unsafe { place.read() }
}

fn write(place: *mut u64, value: u64) {
    // SAFETY: as above.
    unsafe { place.write(value) };
}

#[test]
fn accessible_memory_is_not_copied() {
    let (mut bench, data) = (Bench::new(false), [1, 2, 3]);
    let mut items = [map(&data, TO | FROM)];
    bench.begin(&mut items).unwrap();
    assert_eq!(items[0].result, items[0].host);
    bench.end(&mut items);
    assert!(bench.table.is_empty() && bench.moved == (0, 0));
}

#[test]
fn inaccessible_memory_is_copied_both_ways() {
    let (mut bench, stage) = (Bench::new(false), vec![7_u64; 4]);
    let mut item =
        Item { device_view: stage.as_ptr() as usize, ..Item::new(ItemAction::Map, 0x5000, 32, TO | FROM) };
    bench.begin(std::slice::from_mut(&mut item)).unwrap();
    assert_eq!(read(on_device(&item, 3)), 7);
    write(on_device(&item, 3), 8);
    bench.end(std::slice::from_mut(&mut item));
    assert_eq!((stage[3], item.copied_back, bench.moved), (8, 1, (32, 32)));
    assert!(bench.table.is_empty());
}

#[test]
fn bytes_are_copied_by_first_and_last_holder() {
    let (mut bench, data) = (Bench::new(true), vec![1_u64; 4]);
    let (mut outer, mut inner) = ([map(&data, TO | FROM)], [map(&data[1..3], TO | FROM)]);
    bench.begin(&mut outer).unwrap();
    write(on_device(&outer[0], 1), 5);
    bench.begin(&mut inner).unwrap();
    // It was present: nothing was copied.
    assert_eq!((read(on_device(&inner[0], 0)), bench.moved), (5, (32, 0)));
    bench.end(&mut inner);
    assert_eq!((data[1], bench.moved.1), (1, 0));
    let mut always = [map(&data[1..2], ALWAYS | TO | FROM)];
    bench.begin(&mut always).unwrap();
    assert_eq!(read(on_device(&always[0], 0)), 1);
    write(on_device(&always[0], 0), 6);
    bench.end(&mut always);
    assert_eq!(data[1], 6);
    write(on_device(&outer[0], 0), 9);
    bench.end(&mut outer);
    assert_eq!((data[0], data[1]), (9, 6));
    assert!(bench.table.is_empty());
}

#[test]
fn construct_takes_one_reference_per_range() {
    let (mut bench, data) = (Bench::new(true), vec![1_u64; 4]);
    let mut both = [map(&data, TO), map(&data[1..2], TO)];
    bench.begin(&mut both).unwrap();
    assert_eq!(bench.table.entries()[0].count, 1);
    bench.begin(&mut [map(&data, TO)]).unwrap();
    bench.exit(&mut [map(&data, 0), map(&data[1..2], 0)]);
    assert_eq!(bench.table.entries()[0].count, 1);
    bench.exit(&mut [map(&data, DELETE)]);
    assert!(bench.table.is_empty());
}

#[test]
fn partial_or_absent_ranges_are_errors() {
    let (mut bench, data) = (Bench::new(true), vec![1_u64; 8]);
    bench.begin(&mut [map(&data[2..4], TO)]).unwrap();
    let failed = bench.begin(&mut [map(&data[3..6], TO)]).unwrap_err();
    assert!(
        matches!(failed, MappingError::Part { .. }) && failed.to_string().contains("can neither grow"),
        "{failed}"
    );
    assert!(matches!(bench.update(&mut [map(&data[3..6], TO)]), Err(MappingError::Part { .. })));
    assert!(matches!(bench.begin(&mut [map(&data[6..7], PRESENT)]), Err(MappingError::Absent { .. })));
    // Implicitly mapped data is used as far as it is present.
    let mut whole = [map(&data, TO | FROM | IMPLICIT)];
    bench.begin(&mut whole).unwrap();
    assert_eq!(read(on_device(&whole[0], 2)), 1);
    bench.end(&mut whole);
    assert_eq!(bench.table.entries()[0].count, 1);
    // Absent data is not updated.
    bench.update(&mut [map(&data[6..7], TO)]).unwrap();
}

#[test]
fn allocation_failure_reports_the_size() {
    let mut bench = Bench::new(true);
    let mut item = [Item::new(ItemAction::Map, 0x1000, 1 << 41, 0)];
    assert_eq!(bench.begin(&mut item), Err(MappingError::NoMemory { bytes: 1 << 41 }));
}

#[test]
fn attached_pointers_are_not_copied_back() {
    let (mut bench, target) = (Bench::new(true), vec![4_u64; 2]);
    let holder = vec![target.as_ptr() as u64, 3];
    let pointer = Item {
        value: target.as_ptr() as usize,
        ..Item::new(ItemAction::Attach, holder.as_ptr() as usize, 0, 0)
    };
    let (mut first, mut second) = ([map(&holder, TO | FROM)], [map(&target, TO | FROM), pointer]);
    bench.begin(&mut first).unwrap();
    bench.begin(&mut second).unwrap();
    assert_eq!(read(on_device(&first[0], 0)), second[0].result as u64);
    write(on_device(&first[0], 1), 8);
    bench.update(&mut [map(&holder, FROM)]).unwrap();
    assert_eq!(holder, [target.as_ptr() as u64, 8]);
    bench.update(&mut [map(&holder, TO)]).unwrap();
    assert_eq!(read(on_device(&first[0], 0)), second[0].result as u64);
    bench.end(&mut second);
    assert_eq!(read(on_device(&first[0], 0)), target.as_ptr() as u64);
    bench.end(&mut first);
    assert!(bench.table.is_empty());
}

#[test]
fn structure_members_share_one_entry() {
    let (mut bench, data) = (Bench::new(true), vec![1_u64, 2, 3, 4, 5]);
    let base = Item::new(ItemAction::Struct, data.as_ptr() as usize, 2, 0);
    let mut items = [base, map(&data[1..2], TO | FROM), map(&data[3..4], TO | FROM)];
    bench.begin(&mut items).unwrap();
    assert_eq!(bench.table.entries().len(), 1);
    assert_eq!(items[1].result, items[0].result + 8);
    assert_eq!((read(on_device(&items[0], 1)), read(on_device(&items[0], 3))), (2, 4));
    write(on_device(&items[0], 3), 40);
    bench.end(&mut items);
    assert_eq!(data, [1, 2, 3, 40, 5]);
    assert!(bench.table.is_empty());
}

#[test]
fn empty_sections_are_found() {
    let (mut bench, data) = (Bench::new(true), vec![1_u64; 4]);
    let mut there = [map(&data, TO)];
    bench.begin(&mut there).unwrap();
    let mut empty = [Item::new(ItemAction::Find, data.as_ptr() as usize + 8, 0, 0)];
    bench.begin(&mut empty).unwrap();
    assert_eq!(empty[0].result, there[0].result + 8);
    bench.end(&mut empty);
    let mut absent = [Item::new(ItemAction::Find, 0x1234, 0, 0), Item::new(ItemAction::Use, 0x1234, 0, 0)];
    bench.begin(&mut absent).unwrap();
    assert_eq!((absent[0].result, absent[1].result), (0x1234, 0x1234));
    bench.end(&mut there);
    assert!(bench.table.is_empty());
}

#[test]
fn data_with_pointers_to_copies_is_copied() {
    let (mut bench, stage, holder) = (Bench::new(false), vec![7_u64; 2], vec![0x5000_u64, 1]);
    let there = Item { device_view: stage.as_ptr() as usize, ..Item::new(ItemAction::Map, 0x5000, 16, TO) };
    let pointer = Item { value: 0x5000, ..Item::new(ItemAction::Attach, holder.as_ptr() as usize, 0, 0) };
    let mut items = [there, pointer, map(&holder, TO | FROM)];
    bench.begin(&mut items).unwrap();
    assert_eq!(read(on_device(&items[2], 0)), items[0].result as u64);
    assert_eq!(holder[0], 0x5000);
    write(on_device(&items[2], 1), 2);
    bench.end(&mut items);
    assert_eq!(holder, [0x5000, 2]);
    assert!(bench.table.is_empty());
    // A pointer that is not in mapped data is left alone.
    let mut items = [there, pointer];
    bench.begin(&mut items).unwrap();
    assert_eq!(holder[0], 0x5000);
    bench.end(&mut items);
}

#[test]
fn pointer_may_precede_its_structure() {
    let (mut bench, data) = (Bench::new(true), vec![1_u64, 2, 3]);
    let address = data.as_ptr() as usize;
    let pointer = Item::new(ItemAction::Find, address, 0, 0);
    let mut items = [pointer, Item::new(ItemAction::Struct, address, 1, 0), map(&data[2..3], TO | FROM)];
    bench.begin(&mut items).unwrap();
    assert_eq!(read(on_device(&items[0], 2)), 3);
    bench.end(&mut items);
    assert!(bench.table.is_empty());
}

//! The Rust types of declared types.

use core::time::Duration;

use tombolo_interface::stands_for;

use crate::records::{self, DurationView, FloatView};
use crate::value::Float;

stands_for! {
    DurationView<'m>: records::Duration as Duration;
    |time| records::Duration { ns: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) },
    |time| Some(Duration::from_nanos(time.ns)),
}

stands_for! {
    FloatView<'m>: records::Float as Float;
    |number| records::Float { value: number.0 },
    |number| Some(Float(number.value)),
}

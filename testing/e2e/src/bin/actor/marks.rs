//! Events that a program adds to a trace.

use tombolo::trace;

use crate::Outcome;

/// Records nested spans, markers and values, ten times.
pub(crate) fn run() -> Outcome {
    let _domain = crate::attach()?;
    for round in 0..10 {
        let _outer = trace::span("outer");
        let inner = trace::span("inner");
        trace::marker("round", round);
        drop(inner);
        trace::value("level", 10 * round);
    }
    println!("marked");
    Ok(())
}

//! The least move of a buffer: `tombolo run --on host,arm0 zero_copy.tbi`

use tombolo::{Domain, Error, PoolOptions};

fn main() -> Result<(), Error> {
    let job = Domain::attach()?.job()?;
    if job.rank() == 0 {
        let mut bulk = job.bulk_channel_to(1)?;
        let pool = bulk.create_pool(&PoolOptions::new(1 << 20, 1))?;
        let mut frame = bulk.take(&pool)?;
        frame.values_mut::<f32>()?.fill(0, &[1.5, 2.5, 3.5]);
        bulk.move_to(frame, b"frame 1")?;
        // It is free again when the other side has passed it back.
        bulk.take(&pool)?;
    } else {
        let mut bulk = job.bulk_channel_to(0)?;
        let mut metadata = Vec::new();
        let frame = bulk.recv_moved(&mut metadata)?;
        let sum: f32 = frame.values::<f32>()?.iter().sum();
        println!("{}: {sum}", String::from_utf8_lossy(&metadata));
        bulk.pass(frame, &[])?;
    }
    Ok(())
}

//! Frames of a camera go through three domains on two nodes: `tombolo run --on host,arm0,host frames.tbi`
//!
//! The first generates pictures, as a camera would, the second finds edges in place, the third checks them.
//! The frames are in four buffers whose ownership circulates; no frame is copied from one domain to another.

mod picture;

use std::error::Error;
use std::time::{Duration, Instant};

use picture::{FRAME_BYTES, HEIGHT, WIDTH};
use tombolo::{Arrival, Buffer, BulkChannel, Domain, Isa, Pool, PoolOptions, WaitSet};

const FRAMES: u64 = 200;
const BUFFERS: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(30);

type Outcome = Result<(), Box<dyn Error>>;

fn main() {
    if let Err(error) = play() {
        eprintln!("frames: {error}");
        std::process::exit(1);
    }
}

/// Runs the role of this domain's rank.
fn play() -> Outcome {
    let domain = Domain::attach()?;
    let job = domain.job()?;
    match (job.rank(), job.size()) {
        (0, 3) => camera(job.bulk_channel_to(1)?),
        (1, 3) => filter(&domain, job.bulk_channel_to(0)?, job.bulk_channel_to(2)?),
        (2, 3) => viewer(job.bulk_channel_to(1)?),
        _ => Err("start three of me: tombolo run --on host,arm0,host frames.tbi".into()),
    }
}

/// Rank 0 owns the pool: it fills free buffers and passes them on.
fn camera(mut filter: BulkChannel) -> Outcome {
    let pool = filter.create_pool(&PoolOptions::new(FRAME_BYTES, BUFFERS))?;
    for number in 0..FRAMES {
        let mut frame = filter.take(&pool)?;
        for y in 0..HEIGHT {
            frame.write((y * WIDTH) as u64, &picture::row(number, y))?;
        }
        filter.move_to(frame, &number.to_le_bytes())?;
    }
    // When all buffers are back, all frames have been seen.
    let mut back = Vec::new();
    while back.len() < BUFFERS as usize {
        back.push(filter.take(&pool)?);
    }
    Ok(())
}

/// Rank 1 receives frames on one side and free buffers on the other, and waits for both at once.
fn filter(domain: &Domain, mut camera: BulkChannel, mut viewer: BulkChannel) -> Outcome {
    let pool = camera.recv_pool()?;
    viewer.assign(&pool)?;
    println!("{} on {} finds edges", Isa::current(), domain.node_name());
    let mut set = WaitSet::new()?;
    let (camera, viewer) = (set.add(camera)?, set.add(viewer)?);
    let mut metadata = Vec::new();
    loop {
        let is_over = match set[viewer].settle() {
            Err(error) if error.is_peer_gone() => true,
            settled => settled.map(|()| false)?,
        };
        while let Some(free) = came_back(&pool)? {
            set[camera].pass(free, &[])?;
        }
        if is_over {
            return Ok(());
        }
        match set[camera].within(Duration::ZERO).recv(&mut metadata) {
            Ok(Arrival::Moved(received)) => {
                let mut frame = received.into_first();
                find_edges(&mut frame)?;
                set[viewer].move_to(frame, &metadata)?;
            }
            Ok(other) => return Err(format!("the camera did something else: {other:?}").into()),
            Err(tombolo::Error::WouldBlock) => drop(set.wait(PATIENCE)?),
            Err(error) if error.is_peer_gone() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Takes a buffer that the viewer has returned, if there is one.
fn came_back(pool: &Pool) -> Result<Option<Buffer>, tombolo::Error> {
    match pool.take() {
        Ok(buffer) => Ok(Some(buffer)),
        Err(tombolo::Error::Bulk(tombolo::bulk::BulkError::NoBuffer { .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

fn find_edges(frame: &mut Buffer) -> Result<(), tombolo::Error> {
    let mut row = [0; WIDTH];
    for y in 0..HEIGHT {
        frame.read((y * WIDTH) as u64, &mut row)?;
        picture::find_edges(&mut row);
        frame.write((y * WIDTH) as u64, &row)?;
    }
    Ok(())
}

/// Rank 2 checks every frame and returns its buffer.
fn viewer(mut filter: BulkChannel) -> Outcome {
    let mut start = None;
    for number in 0..FRAMES {
        look(&mut filter, number)?;
        // Exclude the first frame, which waits for two programs to start.
        start.get_or_insert_with(Instant::now);
    }
    let took_s = start.map_or(f64::NAN, |start| start.elapsed().as_secs_f64());
    println!(
        "{FRAMES} frames of {WIDTH}x{HEIGHT} in {BUFFERS} buffers came by {} as they should be, {:.0} a second",
        filter.channel().peer_node(),
        (FRAMES - 1) as f64 / took_s
    );
    Ok(())
}

fn look(filter: &mut BulkChannel, number: u64) -> Outcome {
    let mut metadata = Vec::new();
    let frame = filter.recv_moved(&mut metadata)?;
    if metadata != number.to_le_bytes() || frame.len_bytes() != FRAME_BYTES {
        return Err(format!("frame {number} was to come, not {metadata:?}").into());
    }
    let mut seen = [0; WIDTH];
    for y in 0..HEIGHT {
        frame.read((y * WIDTH) as u64, &mut seen)?;
        let mut expected = picture::row(number, y);
        picture::find_edges(&mut expected);
        if seen != expected {
            return Err(format!("row {y} of frame {number} is not as it should be").into());
        }
    }
    filter.pass(frame, &[])?;
    Ok(())
}

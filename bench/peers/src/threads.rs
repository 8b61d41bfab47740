//! rtrb and crossbeam: queues of values between two threads of one process.

use crossbeam_queue::ArrayQueue;
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::Arc;

use tombolo_bench::SpinTimeout;
use tombolo_bench::suite::content::{check, fill};
use tombolo_bench::suite::peers::in_process::{DEPTH, metrics, open};
use tombolo_bench::suite::{AnyEnd, End, Error, Meeting, Metric, Peer};

/// Message of a length fixed at compile time, as their queues require. Aligned to words, by which it is
/// filled.
#[repr(align(8))]
struct Value<const M: usize>([u8; M]);

impl<const M: usize> Value<M> {
    #[inline(always)]
    fn filled<const N: usize>(sequence: u64) -> Result<Self, Error> {
        let mut value = Value([0; M]);
        let message = value.0.first_chunk_mut::<N>().ok_or(Error::Unsupported)?;
        fill(message, sequence);
        Ok(value)
    }

    #[inline(always)]
    fn check<const N: usize>(&self, sequence: u64) -> Result<(), Error> {
        check::<N>(self.0.get(..N).unwrap_or_default(), sequence)
    }
}

/// One queue per direction.
trait Queue<const M: usize>: Send + Sized + 'static {
    fn pair() -> (Self, Self);

    /// Returns the messages that did not fit.
    fn push(&mut self, value: Value<M>) -> Result<(), Value<M>>;

    fn pop(&mut self) -> Option<Value<M>>;
}

struct Ends<Q, const M: usize>(Q);

impl<Q: Queue<M>, const M: usize> End for Ends<Q, M> {
    #[inline(always)]
    fn send<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let mut value = Value::filled::<N>(sequence)?;
        let mut spin_timeout = SpinTimeout::default();
        while let Err(refused) = self.0.push(value) {
            value = refused;
            spin_timeout.wait()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn recv<const N: usize>(&mut self, sequence: u64) -> Result<(), Error> {
        let mut spin_timeout = SpinTimeout::default();
        loop {
            match self.0.pop() {
                Some(value) => return value.check::<N>(sequence),
                None => spin_timeout.wait()?,
            }
        }
    }
}

fn opened<Q: Queue<M>, const M: usize>(meeting: &Meeting<'_>) -> Result<AnyEnd, Error> {
    open(meeting, || {
        let (near, far) = Q::pair();
        Ok((Ends(near), Ends(far)))
    })
}

struct RtrbEnd<const M: usize> {
    producer: Producer<Value<M>>,
    consumer: Consumer<Value<M>>,
}

impl<const M: usize> Queue<M> for RtrbEnd<M> {
    fn pair() -> (Self, Self) {
        let (out, into_far) = RingBuffer::new(DEPTH);
        let (back, into_near) = RingBuffer::new(DEPTH);
        (RtrbEnd { producer: out, consumer: into_near }, RtrbEnd { producer: back, consumer: into_far })
    }

    #[inline(always)]
    fn push(&mut self, value: Value<M>) -> Result<(), Value<M>> {
        self.producer.push(value).map_err(|rtrb::PushError::Full(value)| value)
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<Value<M>> {
        self.consumer.pop().ok()
    }
}

/// rtrb: one producer, one consumer.
pub(crate) struct Rtrb;

impl Peer for Rtrb {
    fn name(&self) -> &'static str {
        "rtrb"
    }

    fn about(&self) -> String {
        format!("rtrb 0.4.1 between two threads of one process: {DEPTH} values each way; polled")
    }

    fn metrics(&self) -> Vec<Metric> {
        metrics()
    }

    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error> {
        match metric {
            Metric::RoundTrip { bytes: 48 } | Metric::Rate { bytes: 48, .. } => {
                opened::<RtrbEnd<48>, 48>(meeting)
            }
            _ => opened::<RtrbEnd<64>, 64>(meeting),
        }
    }
}

struct CrossbeamEnd<const M: usize> {
    out: Arc<ArrayQueue<Value<M>>>,
    back: Arc<ArrayQueue<Value<M>>>,
}

impl<const M: usize> Queue<M> for CrossbeamEnd<M> {
    fn pair() -> (Self, Self) {
        let (out, back) = (Arc::new(ArrayQueue::new(DEPTH)), Arc::new(ArrayQueue::new(DEPTH)));
        let near = CrossbeamEnd { out: Arc::clone(&out), back: Arc::clone(&back) };
        (near, CrossbeamEnd { out: back, back: out })
    }

    #[inline(always)]
    fn push(&mut self, value: Value<M>) -> Result<(), Value<M>> {
        self.out.push(value)
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<Value<M>> {
        self.back.pop()
    }
}

/// crossbeam's bounded queue: any number of producers and consumers.
pub(crate) struct Crossbeam;

impl Peer for Crossbeam {
    fn name(&self) -> &'static str {
        "crossbeam"
    }

    fn about(&self) -> String {
        format!(
            "crossbeam-queue 0.3.14, ArrayQueue, between two threads of one process: {DEPTH} values each way; polled"
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        metrics()
    }

    fn open(&self, meeting: &Meeting<'_>, metric: Metric) -> Result<AnyEnd, Error> {
        match metric {
            Metric::RoundTrip { bytes: 48 } | Metric::Rate { bytes: 48, .. } => {
                opened::<CrossbeamEnd<48>, 48>(meeting)
            }
            _ => opened::<CrossbeamEnd<64>, 64>(meeting),
        }
    }
}
